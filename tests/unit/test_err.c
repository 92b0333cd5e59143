#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/err.h"

static void test_fail(void **state)
{
	struct gq_err err;

	(void)state;
	memset(&err, 'x', sizeof err);
	assert_int_equal(gq_fail(&err, GQ_EGONE, "line %u: %s", 7, "gone"), GQ_EGONE);
	assert_int_equal(err.code, GQ_EGONE);
	assert_string_equal(err.msg, "line 7: gone");
	assert_int_equal(gq_fail(NULL, GQ_EIO, "nobody reads %s", "this"), GQ_EIO);
}

static void test_prefix(void **state)
{
	struct gq_err err;

	(void)state;
	gq_fail(&err, GQ_EIO, "no such file");
	assert_int_equal(gq_err_prefix(&err, GQ_EINVALID, "%s: ", "a.yaml"), GQ_EIO);
	assert_string_equal(err.msg, "a.yaml: no such file");
	assert_int_equal(gq_err_prefix(&err, GQ_EIO, "read: "), GQ_EIO);
	assert_string_equal(err.msg, "read: a.yaml: no such file");
	assert_int_equal(gq_err_prefix(NULL, GQ_EINVALID, "x"), GQ_EINVALID);
	/* an inner layer that filled nothing */
	err = (struct gq_err){0};
	assert_int_equal(gq_err_prefix(&err, GQ_ENOMEM, "out of memory"), GQ_ENOMEM);
	assert_int_equal(err.code, GQ_ENOMEM);
	assert_string_equal(err.msg, "out of memory");
}

/* Fills a message to just below, at and over its cap, with a character of each width at the cut. */
static void test_truncation(void **state)
{
	static const char *const characters[] = {"x", "\xC3\xA9", "\xE4\xB8\xAD",
						 "\xF0\x9F\x98\x80"};

	(void)state;
	for (size_t c = 0; c < 4; c++) {
		size_t width = strlen(characters[c]);
		for (size_t lead = GQ_ERR_MAX - 10; lead < GQ_ERR_MAX + 3; lead++) {
			char text[GQ_ERR_MAX + 32];
			struct gq_err err, outer;
			memset(text, 'a', lead);
			strncpy(text + lead, characters[c], width + 1);

			/* as much as fits, and no half character */
			size_t want = lead + width < GQ_ERR_MAX ? lead + width
				      : lead < GQ_ERR_MAX       ? lead
								: GQ_ERR_MAX - 1;
			gq_fail(&err, GQ_EIO, "%s", text);
			assert_int_equal(strlen(err.msg), want);
			assert_memory_equal(err.msg, text, want);

			gq_fail(&outer, GQ_EIO, "%s", text + 4);
			gq_err_prefix(&outer, GQ_EIO, "aaaa");
			assert_string_equal(outer.msg, err.msg);
			gq_fail(&outer, GQ_EIO, "inner");
			gq_err_prefix(&outer, GQ_EIO, "%s", text);
			assert_int_equal(strncmp(outer.msg, err.msg, want), 0);
		}
	}
}

/* What was never UTF-8 is cut somewhere, and nothing worse. */
static void test_truncation_of_garbage(void **state)
{
	char text[GQ_ERR_MAX + 8];
	struct gq_err err;

	(void)state;
	for (int c = 0x80; c < 0x100; c++) {
		memset(text, c, sizeof text);
		text[sizeof text - 1] = '\0';
		gq_fail(&err, GQ_EIO, "%s", text);
		assert_in_range(strlen(err.msg), GQ_ERR_MAX - 4, GQ_ERR_MAX - 1);
	}
}

static void test_code_names(void **state)
{
	static const char *const names[] = {"OK",         "ENOTFOUND", "ECONFLICT", "EGONE",
					    "ETHROTTLED", "EDENIED",   "ENOMEM",    "ETOOBIG",
					    "EINVALID",   "EIO"};

	(void)state;
	for (int i = 0; i < 10; i++)
		assert_string_equal(gq_code_name(-i), names[i]);
	assert_string_equal(gq_code_name(1), "UNKNOWN");
	assert_string_equal(gq_code_name(-10), "UNKNOWN");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_fail),       cmocka_unit_test(test_prefix),
	    cmocka_unit_test(test_truncation), cmocka_unit_test(test_truncation_of_garbage),
	    cmocka_unit_test(test_code_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
