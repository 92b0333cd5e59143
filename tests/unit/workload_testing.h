#ifndef GQ_TESTS_UNIT_WORKLOAD_TESTING_H
#define GQ_TESTS_UNIT_WORKLOAD_TESTING_H

/* Workloads from short descriptions, through the keep tree that reviews take. Include after
 * <cmocka.h>. */

#include "quota/field.h"
#include "quota/workload.h"
#include "quota_testing.h"

/* The linker sends strdup() here, and its malloc() to fail_alloc.c. */
char *__wrap_strdup(const char *text);

char *__wrap_strdup(const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = malloc(size);

	if (copy)
		memcpy(copy, text, size);
	return copy;
}

/* json: single quotes. */
static inline int workload_read(enum gq_workload_kind kind, const char *single_quoted,
				struct gq_workload *ret_workload, struct gq_err *err)
{
	struct gq_buf kept GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;
	char *json GQ_AUTOFREE = json_of(single_quoted);

	assert_int_equal(prune(json, strlen(json), gq_workload_keep(), &kept), 0);
	assert_int_equal(gq_field_parse(kept.data, kept.len, &root, err), 0);
	return gq_workload_decode_tree(kind, root, "a-train", ret_workload, err);
}

static inline struct gq_workload workload_of(enum gq_workload_kind kind, const char *single_quoted)
{
	struct gq_workload workload = {0};
	struct gq_err err = {0};

	if (workload_read(kind, single_quoted, &workload, &err))
		fail_msg("%s", err.msg);
	return workload;
}

#endif
