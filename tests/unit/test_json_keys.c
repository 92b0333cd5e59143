#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json_keys.h"
#include "fail_alloc.h"

static int add(struct gq_json_keys *keys, struct gq_json_key_scope *scope, const char *key)
{
	size_t at = keys->bytes.len;

	assert_int_equal(gq_buf_puts(&keys->bytes, key), 0);
	return gq_json_keys_add(keys, scope, at);
}

static int add_number(struct gq_json_keys *keys, struct gq_json_key_scope *scope, unsigned n)
{
	char key[32];

	/* long ones differ in the middle, where the cheap hash does not look */
	snprintf(key, sizeof key, n % 2 ? "%u" : "01234567%u76543210", n);
	return add(keys, scope, key);
}

static void test_twice(void **state)
{
	struct gq_json_keys keys = {.bytes = GQ_BUF_INIT(1u << 24)};
	struct gq_json_key_scope scope;

	(void)state;
	gq_json_keys_open(&keys, &scope);
	assert_int_equal(add(&keys, &scope, ""), 0);
	assert_int_equal(add(&keys, &scope, "a"), 0);
	assert_int_equal(add(&keys, &scope, "aa"), 0);
	assert_int_equal(add(&keys, &scope, "0123456789abcdef"), 0);
	assert_int_equal(add(&keys, &scope, "01234567_89abcdef"), 0);
	assert_int_equal(add(&keys, &scope, "01234567-89abcdef"), 0);
	assert_int_equal(add(&keys, &scope, "01234567-89abcdef"), GQ_EINVALID);
	assert_int_equal(add(&keys, &scope, ""), GQ_EINVALID);
	assert_int_equal(add(&keys, &scope, "a"), GQ_EINVALID);
	gq_json_keys_done(&keys);
}

/* With n keys in the object, each is found again and no other. */
static void test_many(void **state)
{
	static const unsigned counts[] = {1,  15, 16, 17, 18,  31,   32,
					  33, 63, 64, 65, 128, 1000, 100000};
	struct gq_json_keys keys = {.bytes = GQ_BUF_INIT(1u << 24)};

	(void)state;
	for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
		struct gq_json_key_scope scope;
		gq_json_keys_open(&keys, &scope);
		for (unsigned i = 0; i < counts[c]; i++)
			assert_int_equal(add_number(&keys, &scope, i), 0);
		for (unsigned i = 0; i < counts[c]; i += 1 + counts[c] / 1000)
			assert_int_equal(add_number(&keys, &scope, i), GQ_EINVALID);
		gq_json_keys_close(&keys, &scope);
		assert_int_equal(keys.bytes.len + keys.n_keys + keys.n_slots, 0);
	}
	gq_json_keys_trim(&keys, SIZE_MAX);
	assert_true(keys.cap_keys > 0);
	gq_json_keys_trim(&keys, 1000);
	assert_int_equal(keys.cap_keys + keys.cap_slots + keys.bytes.cap, 0);
	assert_int_equal(keys.bytes.max, 1u << 24);
	gq_json_keys_done(&keys);
}

/* An object in an object has keys of its own, and leaves those around it alone. */
static void test_nested(void **state)
{
	struct gq_json_keys keys = {.bytes = GQ_BUF_INIT(1u << 24)};
	struct gq_json_key_scope outer, inner;

	(void)state;
	gq_json_keys_open(&keys, &outer);
	for (unsigned i = 0; i < 200; i++) {
		assert_int_equal(add_number(&keys, &outer, i), 0);
		gq_json_keys_open(&keys, &inner);
		for (unsigned k = 0; k < i; k++)
			assert_int_equal(add_number(&keys, &inner, 199 - k), 0);
		gq_json_keys_close(&keys, &inner);
	}
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(add_number(&keys, &outer, i), GQ_EINVALID);
	gq_json_keys_done(&keys);
}

static void test_out_of_memory(void **state)
{
	bool failed = true;

	(void)state;
	for (long nth = 0; failed; nth++) {
		struct gq_json_keys keys = {.bytes = GQ_BUF_INIT(10000)};
		struct gq_json_key_scope scope;
		int code = 0;

		assert_true(nth < 50);
		gq_buf_reserve(&keys.bytes, 9000);
		gq_json_keys_open(&keys, &scope);
		fail_alloc(nth);
		for (unsigned i = 0; i < 300 && !code; i++)
			code = add_number(&keys, &scope, i);
		failed = fail_alloc_done();
		assert_int_equal(code, failed ? GQ_ENOMEM : 0);
		/* a failure leaves what was there as it was */
		assert_int_equal(add_number(&keys, &scope, 0), nth ? GQ_EINVALID : 0);
		gq_json_keys_done(&keys);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_twice),
	    cmocka_unit_test(test_many),
	    cmocka_unit_test(test_nested),
	    cmocka_unit_test(test_out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
