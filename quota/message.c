#include "quota/message.h"

#include <string.h>

#include "base/utf8.h"
#include "quota/amount.h"
#include "quota/quantity.h"

const char *const gq_locale_names[] = {
    [GQ_LOCALE_EN] = "en", [GQ_LOCALE_ZH] = "zh", [GQ_LOCALE_COUNT] = NULL};

static const char *const *const templates[GQ_LOCALE_COUNT] = {
    [GQ_LOCALE_EN] = gq_messages_en, [GQ_LOCALE_ZH] = gq_messages_zh};

static const struct {
	const char *name;
	const char *placeholders;
} messages[GQ_MSG_COUNT] = {
#define GQ_MESSAGE_ENTRY(name, placeholders) [GQ_MSG_##name] = {#name, placeholders},
    GQ_MESSAGES(GQ_MESSAGE_ENTRY)
#undef GQ_MESSAGE_ENTRY
};

static bool known(enum gq_locale locale, enum gq_message_id id)
{
	return (unsigned)locale < GQ_LOCALE_COUNT && (unsigned)id < GQ_MSG_COUNT;
}

const char *gq_message_template(enum gq_locale locale, enum gq_message_id id)
{
	return known(locale, id) ? templates[locale][id] : "?";
}

const char *gq_message_name(enum gq_message_id id)
{
	return known(GQ_LOCALE_EN, id) ? messages[id].name : "?";
}

const char *gq_message_placeholders(enum gq_message_id id)
{
	return known(GQ_LOCALE_EN, id) ? messages[id].placeholders : "";
}

static bool is_name(const char *name, const char *text, size_t len)
{
	return strlen(name) == len && memcmp(name, text, len) == 0;
}

static size_t value_max(const char *name, size_t len)
{
	static const char *const lists[] = {"list",   "listed", "classes",
					    "holder", "where",  "detail"};

	if (is_name("problems", name, len))
		return (size_t)16 << 10;
	for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
		if (is_name(lists[i], name, len))
			return 1024;
	return 253;
}

static void put_value(struct gq_buf *out, const char *value, size_t max, bool lines)
{
	size_t len = strnlen(value, max + 1), i = 0;

	while (i < len) {
		size_t width = gq_utf8_width(value + i, len - i);
		unsigned char c = (unsigned char)value[i];
		if (i + (width ? width : 1) > max)
			return;
		if (!width)
			gq_buf_puts(out, "\xEF\xBF\xBD");
		else if ((c < 0x20 && !(lines && c == '\n')) || c == 0x7f)
			gq_buf_putc(out, ' ');
		else
			gq_buf_append(out, value + i, width);
		i += width ? width : 1;
	}
}

static const char *find_arg(const struct gq_message_arg *args, size_t n_args, const char *name,
			    size_t len)
{
	for (size_t i = 0; i < n_args; i++)
		if (is_name(args[i].name, name, len))
			return args[i].value;
	return NULL;
}

int gq_message_print(struct gq_buf *out, enum gq_locale locale, enum gq_message_id id,
		     const struct gq_message_arg *args, size_t n_args)
{
	const char *p = gq_message_template(locale, id);

	for (;;) {
		const char *open = strchr(p, '{');
		const char *close = open ? strchr(open, '}') : NULL;
		if (!close)
			return gq_buf_puts(out, p);
		const char *name = open + 1;
		size_t len = (size_t)(close - name);
		const char *value = find_arg(args, n_args, name, len);
		gq_buf_append(out, p, (size_t)(open - p));
		put_value(out, value ? value : "?", value_max(name, len),
			  is_name("problems", name, len));
		p = close + 1;
	}
}

const char *gq_phrase_text(enum gq_locale locale, const struct gq_phrase *phrase)
{
	return phrase->name ? phrase->name
			    : gq_message_template(locale, (enum gq_message_id)phrase->message);
}

int gq_message_shares(struct gq_buf *out, enum gq_locale locale, int64_t shares)
{
	return shares == GQ_UNLIMITED
		   ? gq_buf_puts(out, gq_message_template(locale, GQ_MSG_UNLIMITED))
		   : gq_shares_print(out, shares);
}

int gq_message_mib(struct gq_buf *out, enum gq_locale locale, int64_t mib)
{
	return mib == GQ_UNLIMITED ? gq_buf_puts(out, gq_message_template(locale, GQ_MSG_UNLIMITED))
				   : gq_mib_print(out, mib);
}

/* The phrases come in blocks: without a class, with one, for "*" and for "other". */
enum { BLOCK_NONE, BLOCK_CLASS, BLOCK_ANY, BLOCK_OTHER };

static int block_of(const char *class_name)
{
	if (!class_name)
		return BLOCK_NONE;
	if (strcmp(class_name, "*") == 0)
		return BLOCK_ANY;
	return strcmp(class_name, "other") == 0 ? BLOCK_OTHER : BLOCK_CLASS;
}

static int print_amount(struct gq_buf *out, enum gq_locale locale, enum gq_message_id id,
			const char *name, const struct gq_buf *amount, const char *class_name)
{
	const struct gq_message_arg args[] = {
	    {name, amount->data ? amount->data : "?"},
	    {"class", class_name ? class_name : ""},
	};

	if (amount->code && !out->code)
		out->code = amount->code;
	return gq_message_print(out, locale, id, args, 2);
}

int gq_message_gpus(struct gq_buf *out, enum gq_locale locale, int64_t shares,
		    const char *class_name)
{
	static const enum gq_message_id ids[][2] = {
	    [BLOCK_NONE] = {GQ_MSG_GPUS_ONE, GQ_MSG_GPUS_MANY},
	    [BLOCK_CLASS] = {GQ_MSG_GPUS_CLASS_ONE, GQ_MSG_GPUS_CLASS_MANY},
	    [BLOCK_ANY] = {GQ_MSG_GPUS_ANY_ONE, GQ_MSG_GPUS_ANY_MANY},
	    [BLOCK_OTHER] = {GQ_MSG_GPUS_OTHER_ONE, GQ_MSG_GPUS_OTHER_MANY},
	};
	struct gq_buf GQ_BUF_CLEANUP count = GQ_BUF_INIT(64);
	bool many = shares == 0 || shares > GQ_SHARES_PER_GPU;

	gq_message_shares(&count, locale, shares);
	return print_amount(out, locale, ids[block_of(class_name)][many], "count", &count,
			    class_name);
}

int gq_message_memory(struct gq_buf *out, enum gq_locale locale, int64_t mib,
		      const char *class_name)
{
	static const enum gq_message_id ids[] = {
	    [BLOCK_NONE] = GQ_MSG_MEMORY,
	    [BLOCK_CLASS] = GQ_MSG_MEMORY_CLASS,
	    [BLOCK_ANY] = GQ_MSG_MEMORY_ANY,
	    [BLOCK_OTHER] = GQ_MSG_MEMORY_OTHER,
	};
	struct gq_buf GQ_BUF_CLEANUP amount = GQ_BUF_INIT(64);

	gq_message_mib(&amount, locale, mib);
	return print_amount(out, locale, ids[block_of(class_name)], "amount", &amount, class_name);
}
