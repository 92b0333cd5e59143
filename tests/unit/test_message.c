#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"
#include "quota/amount.h"
#include "quota/message.h"

#define ARGS(...)                                                                                  \
	(const struct gq_message_arg[]){__VA_ARGS__},                                              \
	    sizeof((const struct gq_message_arg[]){__VA_ARGS__}) / sizeof(struct gq_message_arg)

static void assert_message(const char *expected, enum gq_message_id id,
			   const struct gq_message_arg *args, size_t n_args)
{
	struct gq_buf out = GQ_BUF_INIT(64u << 10);

	assert_int_equal(gq_message_print(&out, GQ_LOCALE_EN, id, args, n_args), 0);
	assert_string_equal(out.data, expected);
	gq_buf_done(&out);
}

/* The denial that the design promises, word for word. */
static void promised_denial(void **state)
{
	(void)state;
	assert_message(
	    "team-a may hold 8 A100 GPUs and holds 7 (6 bound, 1 pending, 0 reserved); this "
	    "pod asks for 2: 1 too many.",
	    GQ_MSG_OVER_LIMIT,
	    ARGS({"tenant", "team-a"}, {"limit", "8 A100 GPUs"}, {"used", "7"},
		 {"states", "6 bound, 1 pending, 0 reserved"}, {"asks", "2"}, {"excess", "1"}));
	assert_message("6 bound, 1 pending, 0 reserved", GQ_MSG_STATES,
		       ARGS({"bound", "6"}, {"pending", "1"}, {"reserved", "0"}));
	assert_message(
	    "6 bound, 1 pending, 0 reserved, 2 terminating", GQ_MSG_STATES_TERMINATING,
	    ARGS({"bound", "6"}, {"pending", "1"}, {"reserved", "0"}, {"terminating", "2"}));
	assert_message("Holders in a-serve: llm-7f9c (2), 5 more in other namespaces.",
		       GQ_MSG_HOLDERS_MORE,
		       ARGS({"namespace", "a-serve"}, {"list", "llm-7f9c (2)"}, {"more", "5"}));
	assert_message("It would fit with 1 GPU, or on H100 (4 free): nodeSelector "
		       "nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3.",
		       GQ_MSG_FIT_FEWER_OR_CLASS,
		       ARGS({"gpus", "1 GPU"}, {"class", "H100"}, {"free", "4"},
			    {"label", "nvidia.com/gpu.product"},
			    {"value", "NVIDIA-H100-80GB-HBM3"}));
	assert_message("research may hold 640Gi of GPU memory and holds 600Gi (s), with all its "
		       "tenants, team-a among them; this pod asks for 80Gi: 40Gi too much.",
		       GQ_MSG_OVER_MEMORY_PARENT,
		       ARGS({"tenant", "research"}, {"child", "team-a"},
			    {"limit", "640Gi of GPU memory"}, {"used", "600Gi"}, {"states", "s"},
			    {"asks", "80Gi"}, {"excess", "40Gi"}));
}

/* ---- the tables ---- */

static const struct {
	const char *name;
	bool sentence;
} messages[GQ_MSG_COUNT] = {
#define SENTENCE(id, placeholders) [GQ_MSG_##id] = {#id, true},
#define PHRASE(id, placeholders) [GQ_MSG_##id] = {#id, false},
    GQ_SENTENCES(SENTENCE) GQ_PHRASES(PHRASE)};

/* Calls for each text of each language. */
static void each_text(void (*check)(enum gq_locale locale, enum gq_message_id id, const char *text))
{
	for (int locale = 0; locale < GQ_LOCALE_COUNT; locale++) {
		for (int id = 0; id < GQ_MSG_COUNT; id++) {
			const char *text =
			    gq_message_template((enum gq_locale)locale, (enum gq_message_id)id);
			if (!text || !*text)
				fail_msg("%s has no text in %s", messages[id].name,
					 gq_locale_names[locale]);
			check((enum gq_locale)locale, (enum gq_message_id)id, text);
		}
	}
}

static bool has_word(const char *words, const char *word, size_t len)
{
	for (size_t l; *words; words += l + strspn(words + l, " ")) {
		l = strcspn(words, " ");
		if (l == len && memcmp(words, word, len) == 0)
			return true;
	}
	return false;
}

/* A text names each placeholder that the code which prints it fills in, and no other. */
static void check_placeholders(enum gq_locale locale, enum gq_message_id id, const char *text)
{
	const char *names = gq_message_placeholders(id), *in = gq_locale_names[locale];
	struct gq_buf used = GQ_BUF_INIT(1024);

	gq_buf_puts(&used, "");
	for (const char *p = text; *p; p++) {
		if (*p == '}')
			fail_msg("%s in %s closes a brace that is not open", messages[id].name, in);
		if (*p != '{')
			continue;
		size_t len = strcspn(p + 1, "{}");
		if (p[1 + len] != '}')
			fail_msg("%s in %s does not close a brace", messages[id].name, in);
		if (!has_word(names, p + 1, len))
			fail_msg("%s in %s uses %.*s, which nobody gives", messages[id].name, in,
				 (int)len + 2, p);
		gq_buf_printf(&used, "%.*s ", (int)len, p + 1);
		p += len + 1;
	}
	for (size_t len; *names; names += len + strspn(names + len, " ")) {
		len = strcspn(names, " ");
		if (!has_word(used.data, names, len))
			fail_msg("%s in %s does not use {%.*s}", messages[id].name, in, (int)len,
				 names);
	}
	gq_buf_done(&used);
}

static void placeholders(void **state)
{
	(void)state;
	each_text(check_placeholders);
}

/* Well-formed, and nothing that a terminal would mind. */
static void check_characters(enum gq_locale locale, enum gq_message_id id, const char *text)
{
	size_t len = strlen(text);

	for (size_t i = 0, width; i < len; i += width) {
		width = gq_utf8_width(text + i, len - i);
		unsigned char c = (unsigned char)text[i], next = (unsigned char)text[i + 1];
		bool line = c == '\n' && id == GQ_MSG_POLICY_INVALID;
		if (!width || (c < 0x20 && !line) || c == 0x7f || (c == 0xc2 && next < 0xa0))
			fail_msg("%s in %s: a bad character at %zu", messages[id].name,
				 gq_locale_names[locale], i);
	}
	if (strstr(text, "  "))
		fail_msg("%s in %s: two spaces", messages[id].name, gq_locale_names[locale]);
}

static void characters(void **state)
{
	(void)state;
	each_text(check_characters);
}

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), end_len = strlen(end);

	return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

/* A sentence ends as one, a phrase does not. */
static void check_end(enum gq_locale locale, enum gq_message_id id, const char *text)
{
	bool stop = ends_with(text, locale == GQ_LOCALE_ZH ? "。" : ".");

	if (id != GQ_MSG_POLICY_INVALID && stop != messages[id].sentence)
		fail_msg("%s in %s: %s", messages[id].name, gq_locale_names[locale], text);
}

static void ends(void **state)
{
	(void)state;
	each_text(check_end);
}

/* Whether the character belongs to the CJK ideographs: U+3400 to U+9FFF. */
static bool is_chinese(const char *at)
{
	unsigned char c = (unsigned char)at[0];

	return (c == 0xe3 && (unsigned char)at[1] >= 0x90) || (c > 0xe3 && c <= 0xe9);
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The English words of a Chinese text, but what stands in the list. */
static void check_words(enum gq_message_id id, const char *text)
{
	/* names of Kubernetes and of ours, fields, code */
	static const char *const known[] = {"GPU",
					    "GPUs",
					    "Pod",
					    "nodeSelector",
					    "Deployment",
					    "strategy",
					    "maxSurge",
					    "maxUnavailable",
					    "gpuquota",
					    "enforce",
					    "nvidia",
					    "com",
					    "gpu",
					    "amd",
					    "resources",
					    "limits",
					    "KiB",
					    "device",
					    "driver",
					    "DeviceClass",
					    "kubectl",
					    "get",
					    "deviceclasses",
					    "ResourceQuota",
					    "webhook",
					    "UID",
					    "ConfigMap",
					    "data",
					    "Service",
					    "status",
					    "API",
					    "admission",
					    "k",
					    "s",
					    "io",
					    "v",
					    "HAMi",
					    "AMD",
					    "vGPU",
					    "NVIDIA",
					    "KAI",
					    "Scheduler",
					    "Kubernetes",
					    "AdmissionReview",
					    "windows",
					    "hostPath",
					    "PersistentVolume",
					    "PersistentVolumeClaim",
					    "securityContext",
					    "privileged",
					    "windowsOptions",
					    "hostProcess",
					    "Windows",
					    "hostPID",
					    "true",
					    "false",
					    "procMount",
					    "Unmasked",
					    "hostUsers",
					    "spec",
					    "emptyDir",
					    "readOnly",
					    "volumeMount",
					    "VISIBLE",
					    "DEVICES",
					    "runtimeClassName",
					    "schedulerName",
					    "nodeName",
					    "readinessProbe",
					    "startupProbe",
					    "medium",
					    "Memory",
					    "envFrom"};

	for (const char *p = text; *p;) {
		size_t len = 0;
		if (*p == '{') {
			p += strcspn(p, "}");
			continue;
		}
		while (is_letter(p[len]))
			len++;
		bool found = len == 0;
		for (size_t i = 0; !found && i < sizeof known / sizeof known[0]; i++)
			found = strlen(known[i]) == len && memcmp(known[i], p, len) == 0;
		if (!found)
			fail_msg("%s in zh has the word %.*s", messages[id].name, (int)len, p);
		p += len ? len : 1;
	}
}

/* A character of prose that takes up half the width of a Chinese one. {where} takes up all of it:
 * what stands there ends with a full-width bracket. */
static bool is_half_width(const char *text, const char *at)
{
	static const char where[] = "{where}";
	size_t before = (size_t)(at - text), len = sizeof where - 1;

	if (*at == '}' && before + 1 >= len && memcmp(at + 1 - len, where, len) == 0)
		return false;
	return is_letter(*at) || (*at >= '0' && *at <= '9') || *at == '{' || *at == '}';
}

/* A space between Chinese and Latin, none before or after full-width punctuation, and no
 * half-width comma, semicolon or bracket next to a Chinese character. */
static void check_spacing(enum gq_message_id id, const char *text)
{
	for (size_t i = 0, width; text[i]; i += width) {
		width = gq_utf8_width(text + i, strlen(text + i));
		const char *at = text + i, *next = at + width;
		bool here = is_chinese(at), there = is_chinese(next);
		if ((here && is_half_width(text, next)) || (is_half_width(text, at) && there))
			fail_msg("%s in zh: no space at %s", messages[id].name, at);
		if ((here && *next && strchr(",;:.()!?", *next)) ||
		    (there && strchr(",;:.()!?", *at)))
			fail_msg("%s in zh: half-width at %s", messages[id].name, at);
		bool wide = width == 3 && !here && strncmp(at, "…", 3) != 0;
		bool wide_next = (unsigned char)*next >= 0xe0 && !there;
		if ((wide && *next == ' ') || (*at == ' ' && wide_next))
			fail_msg("%s in zh: a space at %s", messages[id].name, at);
	}
}

static void check_chinese(enum gq_locale locale, enum gq_message_id id, const char *text)
{
	/* names and punctuation only */
	bool bare = id == GQ_MSG_HOLDER || id == GQ_MSG_LIST_SEPARATOR || id == GQ_MSG_OWNER_POD ||
		    id == GQ_MSG_WORKLOAD;
	bool any = false;

	if (locale != GQ_LOCALE_ZH)
		return;
	for (const char *p = text; *p; p++)
		any = any || is_chinese(p);
	if (any == bare)
		fail_msg("%s in zh: %s", messages[id].name, text);
	if (strcmp(text, gq_message_template(GQ_LOCALE_EN, id)) == 0)
		fail_msg("%s is the same in both languages", messages[id].name);
	check_words(id, text);
	check_spacing(id, text);
}

static void chinese(void **state)
{
	(void)state;
	each_text(check_chinese);
}

static void values(void **state)
{
	char long_value[2000];

	(void)state;
	assert_message(
	    "Namespace ? belongs to no tenant, and the policy refuses GPU pods there: use a "
	    "namespace of your tenant, or ask who runs the cluster to add ? to one.",
	    GQ_MSG_UNASSIGNED, NULL, 0);
	assert_message("Holders in a b c: {tenant}.", GQ_MSG_HOLDERS,
		       ARGS({"namespace", "a\nb\x1b"
					  "c"},
			    {"list", "{tenant}"}, {"tenant", "x"}));
	assert_message("Holders in \xEF\xBF\xBD: x.", GQ_MSG_HOLDERS,
		       ARGS({"namespace", "\xff"}, {"list", "x"}));
	/* a name is cut at 253 bytes, never inside a character */
	memset(long_value, 'x', sizeof long_value);
	memcpy(long_value + 252, "é", 2);
	long_value[sizeof long_value - 1] = '\0';
	struct gq_buf out = GQ_BUF_INIT(8192);
	gq_message_print(&out, GQ_LOCALE_EN, GQ_MSG_FIT_FEWER, ARGS({"gpus", long_value}));
	assert_int_equal(out.len, strlen("It would fit with .") + 252);
	gq_buf_reset(&out);
	gq_message_print(&out, GQ_LOCALE_EN, GQ_MSG_HOLDERS,
			 ARGS({"namespace", "n"}, {"list", long_value}));
	assert_int_equal(out.len, strlen("Holders in n: .") + 1024);
	gq_buf_reset(&out);
	gq_message_print(&out, GQ_LOCALE_EN, GQ_MSG_POLICY_INVALID, ARGS({"problems", long_value}));
	assert_non_null(strstr(out.data, long_value));
	gq_buf_done(&out);
	out = GQ_BUF_INIT(10);
	assert_int_equal(gq_message_print(&out, GQ_LOCALE_EN, GQ_MSG_FIT_NONE, NULL, 0),
			 GQ_ETOOBIG);
	gq_buf_done(&out);
}

/* The problems of a policy are lines, and stay lines. */
static void problem_lines(void **state)
{
	(void)state;
	assert_message(
	    "The policy is refused, and the one before it stays in force. Correct this and "
	    "apply it again:\np:1:1: a\np:2:1: b c\n",
	    GQ_MSG_POLICY_INVALID, ARGS({"problems", "p:1:1: a\np:2:1: b\tc\n"}));
}

static void phrases(void **state)
{
	static const struct {
		int64_t shares;
		const char *class_name;
		const char *expected;
	} gpus[] = {
	    {0, NULL, "0 GPUs"},
	    {GQ_SHARES_PER_GPU / 2, NULL, "0.5 GPU"},
	    {GQ_SHARES_PER_GPU, NULL, "1 GPU"},
	    {GQ_SHARES_PER_GPU * 3 / 2, NULL, "1.5 GPUs"},
	    {GQ_SHARES_PER_GPU * 2, NULL, "2 GPUs"},
	    {GQ_UNLIMITED, NULL, "unlimited GPUs"},
	    {GQ_SHARES_PER_GPU, "A100", "1 A100 GPU"},
	    {GQ_SHARES_PER_GPU * 8, "A100", "8 A100 GPUs"},
	    {GQ_SHARES_PER_GPU, "*", "1 GPU of any model"},
	    {GQ_SHARES_PER_GPU * 10, "*", "10 GPUs of any model"},
	    {GQ_SHARES_PER_GPU, "other", "1 GPU of unlisted models"},
	    {0, "other", "0 GPUs of unlisted models"},
	};
	static const struct {
		int64_t mib;
		const char *class_name;
		const char *expected;
	} memory[] = {
	    {640 * 1024, "A100", "640Gi of A100 memory"},
	    {512, "*", "512Mi of GPU memory"},
	    {1024, NULL, "1Gi of memory"},
	    {1024, "other", "1Gi of memory on unlisted models"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof gpus / sizeof gpus[0]; i++) {
		struct gq_buf out = GQ_BUF_INIT(256);
		assert_int_equal(
		    gq_message_gpus(&out, GQ_LOCALE_EN, gpus[i].shares, gpus[i].class_name), 0);
		assert_string_equal(out.data, gpus[i].expected);
		gq_buf_done(&out);
	}
	for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) {
		struct gq_buf out = GQ_BUF_INIT(256);
		assert_int_equal(
		    gq_message_memory(&out, GQ_LOCALE_EN, memory[i].mib, memory[i].class_name), 0);
		assert_string_equal(out.data, memory[i].expected);
		gq_buf_done(&out);
	}
}

static void assert_gpus(const char *expected, enum gq_locale locale, int64_t shares,
			const char *class_name)
{
	struct gq_buf out = GQ_BUF_INIT(256);

	assert_int_equal(gq_message_gpus(&out, locale, shares, class_name), 0);
	assert_string_equal(out.data, expected);
	gq_buf_done(&out);
}

static void chinese_phrases(void **state)
{
	struct gq_buf out = GQ_BUF_INIT(256);

	(void)state;
	assert_gpus("1 张 GPU", GQ_LOCALE_ZH, GQ_SHARES_PER_GPU, NULL);
	assert_gpus("8 张 A100 GPU", GQ_LOCALE_ZH, GQ_SHARES_PER_GPU * 8, "A100");
	assert_gpus("0.5 张 GPU（不限型号）", GQ_LOCALE_ZH, GQ_SHARES_PER_GPU / 2, "*");
	gq_message_memory(&out, GQ_LOCALE_ZH, 640 * 1024, "A100");
	assert_string_equal(out.data, "640Gi A100 显存");
	gq_buf_reset(&out);
	gq_message_shares(&out, GQ_LOCALE_ZH, GQ_UNLIMITED);
	gq_message_mib(&out, GQ_LOCALE_ZH, GQ_UNLIMITED);
	gq_message_mib(&out, GQ_LOCALE_ZH, 1024);
	assert_string_equal(out.data, "不限不限1Gi");
	gq_buf_done(&out);
}

static void phrase_texts(void **state)
{
	const struct gq_phrase name = GQ_PHRASE_NAME("MIG"),
			       text = GQ_PHRASE_MESSAGE(GQ_MSG_CLASS_UNKNOWN);

	(void)state;
	for (int locale = 0; locale < GQ_LOCALE_COUNT; locale++)
		assert_string_equal(gq_phrase_text((enum gq_locale)locale, &name), "MIG");
	assert_string_equal(gq_phrase_text(GQ_LOCALE_EN, &text), "unknown");
	assert_string_equal(gq_phrase_text(GQ_LOCALE_ZH, &text), "未知");
}

static void out_of_range(void **state)
{
	(void)state;
	assert_string_equal(gq_message_template(GQ_LOCALE_COUNT, GQ_MSG_SURGE), "?");
	assert_string_equal(gq_message_name(GQ_MSG_COUNT), "?");
	assert_string_equal(gq_message_placeholders(GQ_MSG_COUNT), "");
	assert_string_equal(gq_message_name(GQ_MSG_OVER_LIMIT), "OVER_LIMIT");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(promised_denial), cmocka_unit_test(placeholders),
	    cmocka_unit_test(characters),      cmocka_unit_test(ends),
	    cmocka_unit_test(chinese),         cmocka_unit_test(values),
	    cmocka_unit_test(problem_lines),   cmocka_unit_test(phrases),
	    cmocka_unit_test(chinese_phrases), cmocka_unit_test(phrase_texts),
	    cmocka_unit_test(out_of_range),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
