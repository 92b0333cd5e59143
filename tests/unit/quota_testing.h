#ifndef GQ_TESTS_UNIT_QUOTA_TESTING_H
#define GQ_TESTS_UNIT_QUOTA_TESTING_H

/* What the tests of the decoders share. Include after <cmocka.h>. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json_filter.h"
#include "quota/object.h"

#define LEN(array) (sizeof(array) / sizeof *(array))

/* JSON with single quotes, for readable tables: the same with double ones. free(). */
static inline char *json_of(const char *single_quoted)
{
	char *json = strdup(single_quoted);

	assert_non_null(json);
	for (char *at = json; (at = strchr(at, '\''));)
		*at = '"';
	return json;
}

/* What a keep tree leaves of it. */
static inline int prune(const char *json, size_t len, const struct gq_json_keep *keep,
			struct gq_buf *out)
{
	struct gq_err err = {0};
	int code = gq_json_prune(json, len, keep, out, &err);

	if (code)
		print_message("%s\n", err.msg);
	return code;
}

static inline char *read_file(const char *path, size_t *ret_len)
{
	FILE *file = fopen(path, "rb");
	size_t cap = 1u << 20;
	char *data = malloc(cap);

	assert_non_null(file);
	assert_non_null(data);
	*ret_len = fread(data, 1, cap - 1, file);
	data[*ret_len] = '\0';
	assert_true(*ret_len > 0 && *ret_len < cap - 1);
	(void)fclose(file);
	return data;
}

/* A pod, as it comes through its keep tree; fails the test when it can't be decoded. */
static inline struct gq_pod *pod_of(const char *json, size_t len)
{
	struct gq_buf kept GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	struct gq_err err = {0};
	struct gq_pod *pod = NULL;

	assert_int_equal(prune(json, len, gq_pod_keep, &kept), 0);
	if (gq_pod_decode(kept.data, kept.len, NULL, &pod, &err))
		fail_msg("%s", err.msg);
	return pod;
}

/* The same from a table's text. */
static inline struct gq_pod *pod_of_text(const char *single_quoted)
{
	char *json = json_of(single_quoted);
	struct gq_pod *pod = pod_of(json, strlen(json));

	free(json);
	return pod;
}

#endif
