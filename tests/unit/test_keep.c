#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "informer/keep.h"

static const struct gq_json_keep names[] = {{"name", NULL}, {"labels", NULL}, {NULL, NULL}};
static const struct gq_json_keep version[] = {{"resourceVersion", NULL}, {NULL, NULL}};
static const struct gq_json_keep with_names[] = {{"metadata", names}, {"spec", NULL}, {NULL, NULL}};
static const struct gq_json_keep with_version[] = {
    {"metadata", version}, {"spec", version}, {"kind", NULL}, {NULL, NULL}};
static const struct gq_json_keep whole[] = {{"metadata", NULL}, {NULL, NULL}};

static const char document[] =
    "{\"kind\":\"K\",\"metadata\":{\"name\":\"n\",\"labels\":{\"a\":\"b\"},"
    "\"resourceVersion\":\"7\",\"uid\":\"u\"},\"spec\":{\"x\":1},"
    "\"status\":{}}";

static void test_keeps_what_either_keeps(void **state)
{
	static const struct {
		const struct gq_json_keep *a, *b;
		const char *kept;
	} cases[] = {
	    {with_names, with_version,
	     "{\"kind\":\"K\",\"metadata\":{\"name\":\"n\",\"labels\":{\"a\":\"b\"},"
	     "\"resourceVersion\":\"7\"},\"spec\":{\"x\":1}}"},
	    {with_version, with_names,
	     "{\"kind\":\"K\",\"metadata\":{\"name\":\"n\",\"labels\":{\"a\":\"b\"},"
	     "\"resourceVersion\":\"7\"},\"spec\":{\"x\":1}}"},
	    {whole, with_version,
	     "{\"kind\":\"K\",\"metadata\":{\"name\":\"n\",\"labels\":{\"a\":\"b\"},"
	     "\"resourceVersion\":\"7\",\"uid\":\"u\"},\"spec\":{}}"},
	    {with_version, whole,
	     "{\"kind\":\"K\",\"metadata\":{\"name\":\"n\",\"labels\":{\"a\":\"b\"},"
	     "\"resourceVersion\":\"7\",\"uid\":\"u\"},\"spec\":{}}"},
	};
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		GQ_CLEANUP(gq_cleanup_keep)
		struct gq_json_keep *keep = gq_keep_merge(cases[i].a, cases[i].b);
		GQ_BUF_CLEANUP struct gq_buf out = GQ_BUF_INIT(1000);
		assert_non_null(keep);
		assert_int_equal(gq_json_prune(document, strlen(document), keep, &out, NULL), 0);
		assert_string_equal(out.data, cases[i].kept);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_keeps_what_either_keeps),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
