#include <string.h>

#include "quota/class_internal.h"

#define PRODUCT_MAX 256 /* a label value has at most 63 bytes */
#define TOKENS_MAX 32

/* The words of a product's name, in lower case. */
struct tokens {
	char text[PRODUCT_MAX];
	struct gq_class_word words[TOKENS_MAX];
	size_t n;
	unsigned gb; /* of a word like "80gb"; 0: none */
	bool sliced; /* "mig" stood there; words behind it are left out */
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool word_is(struct gq_class_word word, const char *text)
{
	return strlen(text) == word.len && memcmp(word.text, text, word.len) == 0;
}

static int word_cmp(struct gq_class_word a, struct gq_class_word b)
{
	int order = memcmp(a.text, b.text, a.len < b.len ? a.len : b.len);

	if (order)
		return order;
	return (a.len > b.len) - (a.len < b.len);
}

/* "80gb", "80g", "80gib"; or "80" when the next word is the unit. 0: no size. */
static unsigned size_of(struct gq_class_word word, const struct gq_class_word *next)
{
	unsigned gb = 0;
	size_t digits = 0;

	while (digits < word.len && is_digit(word.text[digits])) {
		if (digits == 6)
			return 0;
		gb = gb * 10 + (unsigned)(word.text[digits++] - '0');
	}
	if (digits == 0)
		return 0;
	struct gq_class_word unit = {word.text + digits, word.len - digits};
	if (unit.len == 0) {
		if (!next)
			return 0;
		unit = *next;
	}
	if (word_is(unit, "gb") || word_is(unit, "g") || word_is(unit, "gib"))
		return gb;
	return 0;
}

static void tokenise(const char *product, struct tokens *out)
{
	size_t len = 0;

	out->n = 0;
	out->gb = 0;
	out->sliced = false;
	for (; product[len] && len < PRODUCT_MAX - 1; len++)
		out->text[len] = lower(product[len]);
	out->text[len] = '\0';
	for (size_t i = 0; i < len && out->n < TOKENS_MAX;) {
		size_t start = i;
		while (i < len && is_alnum(out->text[i]))
			i++;
		struct gq_class_word word = {out->text + start, i - start};
		if (word_is(word, "mig")) {
			out->sliced = true;
			break;
		}
		if (word.len)
			out->words[out->n++] = word;
		else
			i++;
	}
	for (size_t i = 0; i < out->n && out->gb == 0; i++)
		out->gb = size_of(out->words[i], i + 1 < out->n ? &out->words[i + 1] : NULL);
}

bool gq_class_patterns_add(struct gq_class_table *table, const char *patterns, int id)
{
	for (const char *p = patterns; *p; p += *p == '|') {
		if (table->n_patterns == GQ_CLASS_PATTERN_MAX)
			return false;
		struct gq_class_pattern *pattern = &table->patterns[table->n_patterns++];
		*pattern = (struct gq_class_pattern){.id = id};
		while (*p && *p != '|') {
			size_t len = strcspn(p, " |");
			if (pattern->n == GQ_CLASS_PATTERN_TOKENS || len == 0)
				return false;
			pattern->words[pattern->n++] = (struct gq_class_word){p, len};
			p += len;
			p += *p == ' ';
		}
	}
	return true;
}

void gq_class_patterns_sort(struct gq_class_table *table)
{
	for (size_t i = 1; i < table->n_patterns; i++) {
		struct gq_class_pattern pattern = table->patterns[i];
		size_t at = i;
		for (; at > 0; at--) {
			if (word_cmp(table->patterns[at - 1].words[0], pattern.words[0]) <= 0)
				break;
			table->patterns[at] = table->patterns[at - 1];
		}
		table->patterns[at] = pattern;
	}
}

/* Words that make another model of what would else be the same name. */
static bool sets_apart(struct gq_class_word word)
{
	static const char *const words[] = {"ti", "super", "d", "laptop", "mobile", "pro", "ada"};

	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (word_is(word, words[i]))
			return true;
	return false;
}

static bool pattern_has(const struct gq_class_pattern *pattern, struct gq_class_word word)
{
	for (size_t i = 0; i < pattern->n; i++)
		if (word_cmp(pattern->words[i], word) == 0)
			return true;
	return false;
}

/* The first word is known to be there. */
static bool pattern_fits(const struct gq_class_pattern *pattern, const struct tokens *tokens)
{
	for (size_t i = 1; i < pattern->n; i++) {
		bool found = false;
		for (size_t k = 0; k < tokens->n && !found; k++)
			found = word_cmp(tokens->words[k], pattern->words[i]) == 0;
		if (!found)
			return false;
	}
	for (size_t k = 0; k < tokens->n; k++)
		if (sets_apart(tokens->words[k]) && !pattern_has(pattern, tokens->words[k]))
			return false;
	return true;
}

/* The index of the first pattern that does not begin with a lesser word. */
static size_t patterns_from(const struct gq_class_table *table, struct gq_class_word word)
{
	size_t low = 0, high = table->n_patterns;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (word_cmp(table->patterns[mid].words[0], word) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int model_of(const struct gq_class_table *table, int id)
{
	return table->classes[id].model == GQ_CLASS_NONE ? id : table->classes[id].model;
}

/* The class of the pattern with the most words. Two of one model make the model; of two models,
 * neither. */
static int best_pattern(const struct gq_class_table *table, const struct tokens *tokens)
{
	int best = GQ_CLASS_OTHER;
	size_t best_n = 0;

	for (size_t k = 0; k < tokens->n; k++) {
		struct gq_class_word word = tokens->words[k];
		for (size_t i = patterns_from(table, word); i < table->n_patterns; i++) {
			const struct gq_class_pattern *pattern = &table->patterns[i];
			if (word_cmp(pattern->words[0], word) != 0)
				break;
			if (pattern->n < best_n || !pattern_fits(pattern, tokens))
				continue;
			if (pattern->n > best_n)
				best = pattern->id;
			else if (best != GQ_CLASS_NONE && best != pattern->id)
				best = model_of(table, best) == model_of(table, pattern->id)
					   ? model_of(table, best)
					   : GQ_CLASS_NONE;
			best_n = pattern->n;
		}
	}
	return best;
}

static int variant_of_size(const struct gq_class_table *table, int model, unsigned gb)
{
	for (size_t i = 0; i < table->n; i++)
		if (table->classes[i].model == model && table->classes[i].gb == gb)
			return (int)i;
	return model;
}

struct gq_class_product gq_class_read_product(const struct gq_class_table *table,
					      const char *product)
{
	struct gq_class_product read = {GQ_CLASS_NONE, false, false};
	struct tokens tokens;

	tokenise(product, &tokens);
	if (tokens.n == 0)
		return read;
	read.class_id = best_pattern(table, &tokens);
	read.sliced = tokens.sliced;
	read.sized = tokens.gb != 0;
	if (read.sized && read.class_id > GQ_CLASS_OTHER)
		read.class_id = variant_of_size(table, model_of(table, read.class_id), tokens.gb);
	return read;
}

/* The variant whose memory is nearest to what a label says, if one is within an eighth. */
static int variant_of_memory(const struct gq_class_table *table, int model, int64_t mib)
{
	int best = model;
	int64_t best_off = INT64_MAX;

	for (size_t i = 0; i < table->n; i++) {
		const struct gq_class_entry *entry = &table->classes[i];
		if (entry->model != model || entry->memory_mib == 0)
			continue;
		int64_t off =
		    entry->memory_mib > mib ? entry->memory_mib - mib : mib - entry->memory_mib;
		if (off <= entry->memory_mib / 8 && off < best_off) {
			best = (int)i;
			best_off = off;
		}
	}
	return best;
}

bool gq_class_label_is_memory(const char *label_key)
{
	for (size_t i = 0; i < gq_class_memory_label_count; i++)
		if (strcmp(gq_class_memory_labels[i], label_key) == 0)
			return true;
	return false;
}

/* 0 when no label says so in plain digits. */
static int64_t memory_label(const struct gq_label *labels, size_t n_labels)
{
	for (size_t i = 0; i < gq_class_memory_label_count; i++) {
		const char *text = gq_label_get(labels, n_labels, gq_class_memory_labels[i]);
		int64_t mib = 0;
		size_t len = 0;
		if (!text)
			continue;
		for (; is_digit(text[len]) && len < 10; len++)
			mib = mib * 10 + (text[len] - '0');
		if (text[len] == '\0' && mib > 0)
			return mib;
	}
	return 0;
}

static const struct gq_class_told *find_told(const struct gq_class_table *table,
					     const struct gq_label *label)
{
	size_t low = 0, high = table->n_told;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct gq_class_told *told = &table->told[mid];
		int order = strcmp(told->label, label->key);
		if (order == 0)
			order = strcmp(told->value, label->value);
		if (order == 0)
			return told;
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

static void read_policy(const struct gq_class_table *table, const struct gq_label *labels,
			size_t n_labels, struct gq_class_reading *reading)
{
	const struct gq_class_told *first = NULL;

	for (size_t i = 0; table->n_told && i < n_labels; i++) {
		const struct gq_class_told *told = find_told(table, &labels[i]);
		if (!told || (first && first->order < told->order))
			continue;
		first = told;
		reading->class_id = told->id;
		reading->label = told->label;
		reading->value = labels[i].value;
	}
}

/* Whether what a further label says is better than what is known. */
static bool improves(const struct gq_class_table *table, int known, int id)
{
	if (id == GQ_CLASS_NONE || id == known)
		return false;
	if (known == GQ_CLASS_NONE || known == GQ_CLASS_OTHER)
		return true;
	return gq_class_inside(table, id, known) || table->classes[id].model == known;
}

static int alias_of(const struct gq_class_table *table, const char *label, const char *value)
{
	for (size_t i = 0; i < gq_class_alias_count; i++)
		if (strcmp(gq_class_aliases[i].label, label) == 0 &&
		    strcmp(gq_class_aliases[i].value, value) == 0)
			return gq_class_find(table, gq_class_aliases[i].class_name);
	return GQ_CLASS_NONE;
}

struct gq_class_reading gq_class_read_labels(const struct gq_class_table *table,
					     const struct gq_label *labels, size_t n_labels)
{
	struct gq_class_reading reading = {GQ_CLASS_NONE, 0, NULL, NULL};
	bool sized = false, sliced = false;

	read_policy(table, labels, n_labels, &reading);
	for (size_t i = 0; i < gq_class_product_label_count; i++) {
		const char *label = gq_class_product_labels[i];
		const char *value = gq_label_get(labels, n_labels, label);
		if (!value)
			continue;
		struct gq_class_product product = gq_class_read_product(table, value);
		int alias = alias_of(table, label, value);
		if (alias != GQ_CLASS_NONE)
			product.class_id = alias;
		sliced |= product.sliced;
		sized |= product.sized;
		if (!improves(table, reading.class_id, product.class_id))
			continue;
		reading.class_id = product.class_id;
		reading.label = label;
		reading.value = value;
	}
	if (!sliced)
		reading.memory_mib = memory_label(labels, n_labels);
	if (reading.class_id == GQ_CLASS_NONE)
		return reading;
	if (reading.memory_mib && !sized)
		reading.class_id = variant_of_memory(table, reading.class_id, reading.memory_mib);
	if (reading.memory_mib == 0)
		reading.memory_mib = gq_class_memory_mib(table, reading.class_id);
	return reading;
}

bool gq_class_label_tells(const struct gq_class_table *table, const char *label_key)
{
	for (size_t i = 0; i < gq_class_product_label_count; i++)
		if (strcmp(gq_class_product_labels[i], label_key) == 0)
			return true;
	size_t low = 0, high = table->n_told;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int order = strcmp(table->told[mid].label, label_key);
		if (order == 0)
			return true;
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return false;
}
