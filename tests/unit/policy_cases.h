#ifndef GQ_TESTS_POLICY_CASES_H
#define GQ_TESTS_POLICY_CASES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "quota/policy.h"

/* The first two lines of a policy. */
#define POLICY_HEAD "apiVersion: config.gpuquota.io/v1alpha1\nkind: QuotaPolicy\n"

struct policy_case {
	const char *name;
	const char *yaml;
	const char *problems; /* as gq_policy_problems_print() prints them for the file "p" */
	bool bare;            /* without POLICY_HEAD in front */
	size_t len;           /* of yaml when it holds a NUL; else 0 */
};

/* A policy without mistakes, with the hash "abc"; the caller gives up the reference. */
static inline struct gq_policy *policy_of(const char *yaml)
{
	struct gq_policy *policy = NULL;
	struct gq_policy_problems problems = {0};
	struct gq_err err = {0};

	if (gq_policy_parse(yaml, strlen(yaml), "abc", &policy, &problems, &err)) {
		struct gq_buf out = GQ_BUF_INIT(64u << 10);
		gq_policy_problems_print(&problems, "p", &out);
		fail_msg("%s\n%s", err.msg, out.data ? out.data : "");
	}
	return policy;
}

/* What `gpuquota policy lint` would say of a policy; "" when it is good. The caller frees it. */
static inline char *policy_problems(const char *yaml, size_t len)
{
	struct gq_policy *policy = NULL;
	struct gq_policy_problems problems = {0};
	struct gq_err err = {0};
	struct gq_buf out = GQ_BUF_INIT(64u << 10);

	gq_buf_puts(&out, "");
	/* an allocation of exactly the input's size, so that a read past its end is seen */
	char *exact = malloc(len ? len : 1);
	assert_non_null(exact);
	memcpy(exact, yaml, len);
	int code = gq_policy_parse(exact, len, "hash", &policy, &problems, &err);
	free(exact);
	gq_policy_problems_print(&problems, "p", &out);
	if (code == 0) {
		assert_non_null(policy);
		assert_int_equal(problems.n_items, 0);
	} else {
		assert_int_equal(code, GQ_EINVALID);
		assert_null(policy);
		assert_true(problems.n_items > 0);
		assert_non_null(strstr(err.msg, "problem"));
	}
	gq_policy_unref(policy);
	gq_policy_problems_done(&problems);
	return gq_buf_steal(&out);
}

static inline void assert_policy_problems(const char *name, const char *yaml, const char *expected)
{
	char *problems = policy_problems(yaml, strlen(yaml));

	if (strcmp(problems, expected) != 0)
		print_error("%s\n", name);
	assert_string_equal(problems, expected);
	free(problems);
}

static inline void check_policy_cases(const struct policy_case *cases, size_t n)
{
	size_t wrong = 0;

	for (size_t i = 0; i < n; i++) {
		const struct policy_case *c = &cases[i];
		struct gq_buf yaml = GQ_BUF_INIT(64u << 10);
		gq_buf_puts(&yaml, c->bare ? "" : POLICY_HEAD);
		gq_buf_append(&yaml, c->yaml, c->len ? c->len : strlen(c->yaml));
		assert_int_equal(yaml.code, 0);
		char *problems = policy_problems(yaml.data, yaml.len);
		if (strcmp(problems, c->problems) != 0) {
			print_error("%s: expected\n%sbut got\n%s", c->name, c->problems, problems);
			wrong++;
		}
		free(problems);
		gq_buf_done(&yaml);
	}
	assert_int_equal(wrong, 0);
}

#endif
