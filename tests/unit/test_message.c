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

/* In every language each message has its template, and names just the placeholders that the code
 * which prints it knows of. */
static void placeholders(void **state)
{
	(void)state;
	for (int locale = 0; locale < GQ_LOCALE_COUNT; locale++) {
		for (int id = 0; id < GQ_MSG_COUNT; id++) {
			const char *t =
			    gq_message_template((enum gq_locale)locale, (enum gq_message_id)id);
			const char *names = gq_message_placeholders((enum gq_message_id)id);
			if (!t || !*t)
				fail_msg("%s has no text", gq_message_name((enum gq_message_id)id));
			char *copy = strdup(names), *save = NULL;
			assert_non_null(copy);
			for (char *n = strtok_r(copy, " ", &save); n;
			     n = strtok_r(NULL, " ", &save)) {
				char in_braces[64];
				(void)snprintf(in_braces, sizeof in_braces, "{%s}", n);
				if (!strstr(t, in_braces))
					fail_msg("%s does not use %s",
						 gq_message_name((enum gq_message_id)id),
						 in_braces);
			}
			free(copy);
			for (const char *p = t; (p = strchr(p, '{')); p++) {
				size_t len = strcspn(p + 1, "}");
				assert_int_equal(p[1 + len], '}');
				bool known = false;
				for (const char *n = names; *n;) {
					size_t l = strcspn(n, " ");
					known = known || (l == len && memcmp(n, p + 1, l) == 0);
					n += l + strspn(n + l, " ");
				}
				if (!known)
					fail_msg("%s uses %.*s, which nobody gives",
						 gq_message_name((enum gq_message_id)id),
						 (int)len + 2, p);
			}
		}
	}
}

/* A sentence ends as one and holds nothing that a terminal would mind. */
static void sentences(void **state)
{
	(void)state;
	for (int id = 0; id < GQ_MSG_COUNT; id++) {
		const char *t = gq_message_template(GQ_LOCALE_EN, (enum gq_message_id)id);
		bool phrase = id >= GQ_MSG_GPUS_ONE || id == GQ_MSG_STATES ||
			      id == GQ_MSG_STATES_TERMINATING || id == GQ_MSG_POLICY_INVALID ||
			      id == GQ_MSG_WARNING_PREFIX;
		if (!phrase && t[strlen(t) - 1] != '.')
			fail_msg("%s does not end with a full stop: %s",
				 gq_message_name((enum gq_message_id)id), t);
		assert_null(strstr(t, "  "));
	}
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
	    cmocka_unit_test(sentences),       cmocka_unit_test(values),
	    cmocka_unit_test(problem_lines),   cmocka_unit_test(phrases),
	    cmocka_unit_test(out_of_range),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
