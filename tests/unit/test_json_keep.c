#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/json_keep.h"
#include "fail_alloc.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct gq_json_keep name_only[] = {{"name", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep presence[] = {GQ_JSON_KEEP_END};
static const struct gq_json_keep image_only[] = {{"image", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep left_spec[] = {
    {"containers", name_only}, {"volumes", NULL}, {"ports", presence}, GQ_JSON_KEEP_END};
static const struct gq_json_keep left[] = {
    {"metadata", name_only}, {"spec", left_spec}, GQ_JSON_KEEP_END};
static const struct gq_json_keep right_spec[] = {{"host", NULL},
						 {"volumes", name_only},
						 {"containers", image_only},
						 {"ports", name_only},
						 GQ_JSON_KEEP_END};
static const struct gq_json_keep right[] = {
    {"status", presence}, {"spec", right_spec}, {"metadata", NULL}, GQ_JSON_KEEP_END};

/* A tree as text: keys in their order, "*" for a whole value. */
static void print(struct gq_buf *out, const struct gq_json_keep *keep)
{
	gq_buf_putc(out, '{');
	for (const struct gq_json_keep *at = keep; at->key; at++) {
		gq_buf_printf(out, "%s%s", at == keep ? "" : " ", at->key);
		if (at->children)
			print(out, at->children);
		else
			gq_buf_putc(out, '*');
	}
	gq_buf_putc(out, '}');
}

static void assert_tree(const struct gq_json_keep *keep, const char *text)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);

	assert_non_null(keep);
	print(&out, keep);
	assert_string_equal(out.data, text);
}

static void merged_trees_keep_what_either_keeps(void **state)
{
	static const struct {
		const struct gq_json_keep *a, *b;
		const char *tree;
	} cases[] = {
	    {left, right,
	     "{metadata* spec{containers{name* image*} volumes* ports{name*} host*} status{}}"},
	    {right, left,
	     "{status{} spec{host* volumes* containers{image* name*} ports{name*}} metadata*}"},
	    {left, left, "{metadata{name*} spec{containers{name*} volumes* ports{}}}"},
	    {left, presence, "{metadata{name*} spec{containers{name*} volumes* ports{}}}"},
	    {presence, name_only, "{name*}"},
	    {presence, presence, "{}"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gq_json_keep *merged GQ_CLEANUP(gq_cleanup_json_keep) = NULL;
		print_message("%s\n", cases[i].tree);
		assert_int_equal(gq_json_keep_merge(cases[i].a, cases[i].b, &merged), 0);
		assert_tree(merged, cases[i].tree);
	}
}

static void what_keeps_everything_wins(void **state)
{
	struct gq_json_keep unset = {0}, *merged = &unset;

	(void)state;
	assert_int_equal(gq_json_keep_merge(NULL, left, &merged), 0);
	assert_null(merged);
	merged = &unset;
	assert_int_equal(gq_json_keep_merge(left, NULL, &merged), 0);
	assert_null(merged);
	gq_json_keep_free(NULL);
}

static void wrapped_trees_sit_below_their_path(void **state)
{
	static const char *const path[] = {"spec", "jobTemplate", "spec", "template"};
	static const struct {
		size_t n;
		const struct gq_json_keep *tree;
		const char *text;
	} cases[] = {
	    {4, name_only, "{spec{jobTemplate{spec{template{name*}}}}}"},
	    {1, name_only, "{spec{name*}}"},
	    {2, NULL, "{spec{jobTemplate*}}"},
	    {0, left, "{metadata{name*} spec{containers{name*} volumes* ports{}}}"},
	};
	struct gq_json_keep unset = {0}, *none = &unset;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gq_json_keep *wrapped GQ_CLEANUP(gq_cleanup_json_keep) = NULL;
		print_message("%s\n", cases[i].text);
		assert_int_equal(gq_json_keep_wrap(path, cases[i].n, cases[i].tree, &wrapped), 0);
		assert_tree(wrapped, cases[i].text);
	}
	assert_int_equal(gq_json_keep_wrap(path, 0, NULL, &none), 0);
	assert_null(none);
}

/* A made tree prunes as a written one does. */
static void made_trees_prune(void **state)
{
	static const char *const path[] = {"spec", "template"};
	static const char json[] =
	    "{\"status\":{\"a\":1},\"spec\":{\"replicas\":3,\"template\":{\"metadata\":{"
	    "\"name\":\"n\",\"uid\":\"u\"},\"spec\":{\"host\":true,\"gone\":1,\"ports\":[{"
	    "\"name\":\"p\",\"port\":1}],\"containers\":[{\"image\":\"i\",\"args\":[],"
	    "\"name\":\"c\"}]}}}}";
	struct gq_json_keep *merged GQ_CLEANUP(gq_cleanup_json_keep) = NULL;
	struct gq_json_keep *wrapped GQ_CLEANUP(gq_cleanup_json_keep) = NULL;
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);

	(void)state;
	assert_int_equal(gq_json_keep_merge(left, right, &merged), 0);
	assert_int_equal(gq_json_keep_wrap(path, COUNT(path), merged, &wrapped), 0);
	assert_int_equal(gq_json_prune(json, strlen(json), wrapped, &out, NULL), 0);
	assert_string_equal(out.data,
			    "{\"spec\":{\"template\":{\"metadata\":{\"name\":\"n\",\"uid\":\"u\"},"
			    "\"spec\":{\"host\":true,\"ports\":[{\"name\":\"p\"}],"
			    "\"containers\":[{\"image\":\"i\",\"name\":\"c\"}]}}}}");
}

static void too_little_memory_is_an_answer(void **state)
{
	static const char *const path[] = {"spec"};
	struct gq_json_keep *keep = NULL;

	(void)state;
	fail_alloc(0);
	assert_int_equal(gq_json_keep_merge(left, right, &keep), GQ_ENOMEM);
	assert_true(fail_alloc_done());
	fail_alloc(0);
	assert_int_equal(gq_json_keep_wrap(path, 1, left, &keep), GQ_ENOMEM);
	assert_true(fail_alloc_done());
	assert_null(keep);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(merged_trees_keep_what_either_keeps),
	    cmocka_unit_test(what_keeps_everything_wins),
	    cmocka_unit_test(wrapped_trees_sit_below_their_path),
	    cmocka_unit_test(made_trees_prune),
	    cmocka_unit_test(too_little_memory_is_an_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
