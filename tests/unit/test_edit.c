#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "quota/edit.h"

static size_t between(const char *a, const char *b, size_t limit)
{
	return gq_edit_distance(a, strlen(a), b, strlen(b), limit, gq_edit_fold);
}

static void test_distances(void **state)
{
	static const struct {
		const char *a, *b;
		size_t distance;
	} cases[] = {
	    {"", "", 0},
	    {"", "abc", 3},
	    {"enforce", "enforce", 0},
	    {"ENFORCE", "enforce", 0},
	    {"enforce", "enforced", 1},
	    {"enforce", "nforce", 1},
	    {"enforce", "enfarce", 1},
	    {"enforce", "enofrce", 1},
	    {"ab", "ba", 1},
	    {"abcd", "badc", 2},
	    {"kitten", "sitting", 3},
	    {"warn", "audit", 5},
	};
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		size_t want = cases[i].distance;
		assert_int_equal(between(cases[i].a, cases[i].b, SIZE_MAX), want);
		assert_int_equal(between(cases[i].b, cases[i].a, SIZE_MAX), want);
		for (size_t limit = 0; limit < 8; limit++)
			assert_int_equal(between(cases[i].a, cases[i].b, limit),
					 want < limit ? want : limit);
	}
}

static char as_one(char c)
{
	(void)c;
	return 'x';
}

static void test_folds(void **state)
{
	(void)state;
	assert_int_equal(gq_edit_distance("abc", 3, "xyz", 3, 9, as_one), 0);
	assert_int_equal(gq_edit_distance("abc", 3, "wxyz", 4, 9, as_one), 1);
	assert_int_equal(gq_edit_fold('Z'), 'z');
	assert_int_equal(gq_edit_fold('['), '[');
	assert_int_equal(gq_edit_fold('\xc4'), '\xc4');
}

static void test_long_words(void **state)
{
	char word[GQ_EDIT_MAX + 1];
	(void)state;

	memset(word, 'a', sizeof word);
	assert_int_equal(
	    gq_edit_distance(word, GQ_EDIT_MAX, word, GQ_EDIT_MAX - 1, 9, gq_edit_fold), 1);
	assert_int_equal(gq_edit_distance(word, GQ_EDIT_MAX, "", 0, SIZE_MAX, gq_edit_fold),
			 GQ_EDIT_MAX);
	assert_int_equal(gq_edit_distance(word, sizeof word, word, sizeof word, 9, gq_edit_fold),
			 9);
	assert_int_equal(gq_edit_distance("a", 1, word, sizeof word, 9, gq_edit_fold), 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_distances),
	    cmocka_unit_test(test_folds),
	    cmocka_unit_test(test_long_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
