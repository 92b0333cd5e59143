#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "quota/arena.h"

struct thing {
	int64_t number;
	const char **texts;
	size_t n;
};

struct order {
	size_t n;
	int fail_with;
	unsigned rounds;
	bool grow; /* takes more the second time: a bug that must not overrun the block */
};

static int build(void *arg, struct gq_arena *arena, void **ret_object, struct gq_err *err)
{
	struct order *order = arg;
	char text[64];
	struct thing *thing = GQ_ARENA_ARRAY(arena, struct thing, 1);

	if (!thing)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	order->rounds++;
	*ret_object = thing;
	thing->number = -1;
	thing->n = order->n + (order->grow && order->rounds == 2);
	thing->texts = GQ_ARENA_ARRAY(arena, const char *, thing->n);
	for (size_t i = 0; thing->texts && i < thing->n; i++) {
		memset(text, 'a' + (int)(i % 26), sizeof text);
		thing->texts[i] = gq_arena_text(arena, text, i % sizeof text);
		if (!thing->texts[i])
			return gq_fail(err, GQ_ENOMEM, "out of memory");
	}
	if (!thing->texts)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	return order->fail_with ? gq_fail(err, order->fail_with, "as told") : 0;
}

static void one_block_of_exactly_its_size(void **state)
{
	(void)state;
	for (size_t n = 0; n < 3000; n += n < 70 ? 1 : 977) {
		struct order order = {.n = n};
		void *object = NULL;
		size_t texts = 0;
		assert_int_equal(gq_arena_build(build, &order, &object, NULL), 0);
		assert_int_equal(order.rounds, 2);
		const struct thing *thing = object;
		assert_int_equal(thing->number, -1);
		assert_int_equal(thing->n, n);
		for (size_t i = 0; i < n; i++) {
			assert_int_equal(strlen(thing->texts[i]), i % 64);
			if (i % 64) {
				assert_int_equal(thing->texts[i][0], 'a' + (int)(i % 26));
				texts += i % 64 + 1;
			}
		}
		size_t size = gq_counted_size(object);
		assert_int_equal(size,
				 2 * sizeof(size_t) + sizeof *thing + n * sizeof(char *) + texts);
		gq_counted_unref(object);
	}
}

static void failures_leave_nothing(void **state)
{
	struct order order = {.n = 10, .fail_with = GQ_EINVALID};
	struct order huge = {.n = SIZE_MAX / 4};
	struct order grows = {.n = 10, .grow = true};
	struct gq_err err = {0};
	int marker;
	void *object = &marker;

	(void)state;
	assert_int_equal(gq_arena_build(build, &order, &object, &err), GQ_EINVALID);
	assert_string_equal(err.msg, "as told");
	assert_int_equal(order.rounds, 1);
	assert_int_equal(gq_arena_build(build, &huge, &object, &err), GQ_ENOMEM);
	assert_int_equal(gq_arena_build(build, &grows, &object, &err), GQ_ENOMEM);
	assert_ptr_equal(object, &marker);
}

static void *hold_and_let_go(void *object)
{
	for (int i = 0; i < 10000; i++) {
		gq_counted_ref(object);
		gq_counted_unref(object);
	}
	gq_counted_unref(object);
	return NULL;
}

static void counted_between_threads(void **state)
{
	struct order order = {.n = 5};
	pthread_t threads[4];
	void *object = NULL;

	(void)state;
	assert_int_equal(gq_arena_build(build, &order, &object, NULL), 0);
	for (size_t i = 0; i < 4; i++)
		gq_counted_ref(object);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hold_and_let_go, object), 0);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(((const struct thing *)object)->n, 5);
	gq_counted_unref(object);
}

static void nothing_is_fine(void **state)
{
	(void)state;
	gq_counted_ref(NULL);
	gq_counted_unref(NULL);
	assert_int_equal(gq_counted_size(NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_block_of_exactly_its_size),
	    cmocka_unit_test(failures_leave_nothing),
	    cmocka_unit_test(counted_between_threads),
	    cmocka_unit_test(nothing_is_fine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
