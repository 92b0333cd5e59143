#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controller/hash.h"
#include "tests/unit/app_testing.h"

static void known_values(void **state)
{
	static const struct {
		const char *text;
		size_t len;
		const char *hash;
	} cases[] = {
	    {"", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
	    {"abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
	};
	char a[GQ_HASH_TEXT_BYTES], b[GQ_HASH_TEXT_BYTES];

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		memset(a, 'x', sizeof a);
		assert_int_equal(gq_hash_text(cases[i].text, cases[i].len, a), 0);
		assert_string_equal(a, cases[i].hash);
	}
	/* every byte counts, a NUL and what is behind it too */
	assert_int_equal(gq_hash_text("a\0c", 3, a), 0);
	assert_int_equal(gq_hash_text("a\0d", 3, b), 0);
	assert_string_not_equal(a, b);
	assert_int_equal(gq_hash_text("a", 1, b), 0);
	assert_string_not_equal(a, b);
	assert_int_equal(strlen(a), 64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(known_values)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
