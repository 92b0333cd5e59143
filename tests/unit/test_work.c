#include "webhook/work.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "webhook/request.h"

/* What the handler does with a request is written in its path. */
struct bench {
	struct gq_work *work;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	char order[64]; /* first letters of the paths, as they ran */
	size_t ran;
	bool gate_open;
	struct gq_request *parked;
	unsigned freed;
};

static void answer(struct gq_request *request)
{
	gq_request_answer(request, &(struct gq_answer){.status = 200});
}

static void handle(void *arg, struct gq_request *request)
{
	struct bench *bench = arg;
	char what = gq_request_path(request)[1];

	pthread_mutex_lock(&bench->lock);
	bench->order[bench->ran++] = what;
	pthread_cond_broadcast(&bench->changed);
	if (what == 'g') {
		while (!bench->gate_open)
			pthread_cond_wait(&bench->changed, &bench->lock);
	}
	if (what == 'p')
		bench->parked = request;
	pthread_mutex_unlock(&bench->lock);
	if (what == 'r') { /* runs again as something else */
		request->strings.data[1] = 'a';
		gq_request_retry(request, 0);
	} else if (what != 'p') {
		answer(request);
	}
}

static struct bench *new_bench(unsigned threads)
{
	struct bench *bench = calloc(1, sizeof *bench);

	assert_non_null(bench);
	pthread_mutex_init(&bench->lock, NULL);
	pthread_cond_init(&bench->changed, NULL);
	bench->work = gq_work_new(
	    &(struct gq_work_options){.max_body_bytes = 1000, .max_bytes_in_flight = 2000});
	assert_non_null(bench->work);
	if (threads)
		assert_int_equal(gq_work_start(bench->work, threads, NULL), 0);
	return bench;
}

static void free_bench(struct bench *bench)
{
	gq_work_stop(bench->work);
	gq_work_close(bench->work);
	gq_work_unref(bench->work);
	pthread_cond_destroy(&bench->changed);
	pthread_mutex_destroy(&bench->lock);
	free(bench);
}

static struct gq_request *new_request(struct bench *bench, const char *path)
{
	struct gq_request *request = gq_request_new(bench->work);

	assert_non_null(request);
	gq_request_reset(request);
	assert_int_equal(
	    gq_request_take_head(
		request, &(struct gq_http_head){.method = "POST", .path = path, .query = ""}, 1),
	    0);
	request->handle = handle;
	request->handle_arg = bench;
	request->connection = bench;
	return request;
}

/* Waits for count answers as the loop does, and frees them. */
static void collect(struct bench *bench, unsigned count)
{
	while (count) {
		struct gq_request *request = gq_work_collect(bench->work);
		if (!request) {
			struct pollfd wait = {.fd = gq_work_event_fd(bench->work),
					      .events = POLLIN};
			uint64_t ignored;
			assert_int_equal(poll(&wait, 1, 20000), 1);
			assert_int_equal(read(wait.fd, &ignored, sizeof ignored), sizeof ignored);
		}
		while (request) {
			struct gq_request *next = request->next;
			assert_true(count > 0);
			count--;
			gq_request_free(request);
			request = next;
		}
	}
	assert_null(gq_work_collect(bench->work));
}

static bool readable(struct bench *bench)
{
	struct pollfd now = {.fd = gq_work_event_fd(bench->work), .events = POLLIN};

	return poll(&now, 1, 0) == 1;
}

static void wait_ran(struct bench *bench, size_t count)
{
	pthread_mutex_lock(&bench->lock);
	while (bench->ran < count)
		pthread_cond_wait(&bench->changed, &bench->lock);
	pthread_mutex_unlock(&bench->lock);
}

static void open_gate(struct bench *bench)
{
	pthread_mutex_lock(&bench->lock);
	bench->gate_open = true;
	pthread_cond_broadcast(&bench->changed);
	pthread_mutex_unlock(&bench->lock);
}

static void runs_in_order(void **state)
{
	struct bench *bench = new_bench(1);

	(void)state;
	gq_work_submit(bench->work, new_request(bench, "/a"));
	gq_work_submit(bench->work, new_request(bench, "/b"));
	gq_work_submit(bench->work, new_request(bench, "/c"));
	collect(bench, 3);
	assert_memory_equal(bench->order, "abc", 3);
	assert_false(gq_work_waiting(bench->work));
	free_bench(bench);
}

static void runs_many_on_several_threads(void **state)
{
	struct bench *bench = new_bench(4);

	(void)state;
	for (int round = 0; round < 500; round++) {
		for (int i = 0; i < 20; i++)
			gq_work_submit(bench->work, new_request(bench, i % 3 ? "/a" : "/r"));
		collect(bench, 20);
		bench->ran = 0;
	}
	free_bench(bench);
}

static void delays_by_time(void **state)
{
	struct bench *bench = new_bench(1);
	int64_t now = gq_clock_mono_ns(&gq_clock_real);

	(void)state;
	/* while the only worker is busy, so that all are there before one is due */
	gq_work_submit(bench->work, new_request(bench, "/gate"));
	wait_ran(bench, 1);
	gq_work_delay(bench->work, new_request(bench, "/c"), now + 3);
	gq_work_delay(bench->work, new_request(bench, "/a"), now + 1);
	gq_work_delay(bench->work, new_request(bench, "/z"), INT64_MAX);
	gq_work_delay(bench->work, new_request(bench, "/b"), now + 2);
	gq_work_delay(bench->work, new_request(bench, "/d"), now + 3);
	open_gate(bench);
	collect(bench, 5);
	assert_memory_equal(bench->order, "gabcd", 5);
	/* one that is due in a moment, with idle workers */
	gq_work_delay(bench->work, new_request(bench, "/e"),
		      gq_clock_mono_ns(&gq_clock_real) + 2 * GQ_NS_PER_MS);
	collect(bench, 1);
	assert_int_equal(bench->order[5], 'e');
	free_bench(bench); /* z is still there */
}

static void a_busy_worker_delays_nobody(void **state)
{
	struct bench *bench = new_bench(2);
	int64_t soon = gq_clock_mono_ns(&gq_clock_real) + GQ_NS_PER_MS;

	(void)state;
	/* whoever watches the clock is given the gate to wait at */
	gq_work_delay(bench->work, new_request(bench, "/a"), soon);
	gq_work_submit(bench->work, new_request(bench, "/gate"));
	collect(bench, 1);
	assert_non_null(memchr(bench->order, 'a', 2));
	open_gate(bench);
	collect(bench, 1);
	free_bench(bench);
}

static void retries(void **state)
{
	struct bench *bench = new_bench(2);

	(void)state;
	gq_work_submit(bench->work, new_request(bench, "/r"));
	collect(bench, 1);
	assert_memory_equal(bench->order, "ra", 2);
	free_bench(bench);
}

static void skips_what_nobody_waits_for(void **state)
{
	struct bench *bench = new_bench(1);
	struct gq_request *orphan = new_request(bench, "/b");

	(void)state;
	gq_work_submit(bench->work, new_request(bench, "/gate"));
	wait_ran(bench, 1);
	gq_work_submit(bench->work, orphan);
	atomic_store(&orphan->orphaned, true);
	/* one that a handler has seen already is run: it may have something to undo */
	struct gq_request *seen = new_request(bench, "/c");
	seen->ran = true;
	atomic_store(&seen->orphaned, true);
	gq_work_submit(bench->work, seen);
	assert_true(gq_work_waiting(bench->work));
	open_gate(bench);
	collect(bench, 3);
	assert_int_equal(bench->ran, 2);
	assert_memory_equal(bench->order, "gc", 2);
	free_bench(bench);
}

static void runs_here(void **state)
{
	struct bench *bench = new_bench(0);
	struct gq_request *request = new_request(bench, "/a");

	(void)state;
	assert_true(gq_work_run_here(bench->work, request));
	assert_int_equal(request->status, 200);
	assert_null(gq_work_collect(bench->work));
	gq_request_free(request);
	/* parked: its answer takes the usual way */
	request = new_request(bench, "/p");
	assert_false(gq_work_run_here(bench->work, request));
	answer(bench->parked);
	collect(bench, 1);
	/* retried: on a worker, once there is one */
	assert_false(gq_work_run_here(bench->work, new_request(bench, "/r")));
	assert_int_equal(gq_work_start(bench->work, 1, NULL), 0);
	collect(bench, 1);
	free_bench(bench);
}

static void wakes_a_sleeping_loop_only(void **state)
{
	struct bench *bench = new_bench(0);

	(void)state;
	assert_null(gq_work_collect(bench->work)); /* about to sleep */
	answer(new_request(bench, "/a"));
	assert_true(readable(bench));
	collect(bench, 1);
	uint64_t ignored;
	if (readable(bench))
		assert_int_equal(read(gq_work_event_fd(bench->work), &ignored, 8), 8);
	assert_null(gq_work_collect(bench->work));
	gq_work_awake(bench->work);
	answer(new_request(bench, "/a"));
	assert_false(readable(bench));
	/* one write for many answers */
	collect(bench, 1);
	answer(new_request(bench, "/a"));
	answer(new_request(bench, "/a"));
	assert_int_equal(read(gq_work_event_fd(bench->work), &ignored, 8), 8);
	assert_int_equal(ignored, 1);
	collect(bench, 2);
	free_bench(bench);
}

static void count_free(void *state)
{
	++*(unsigned *)state;
}

static void takes_answers_after_its_end(void **state)
{
	struct bench *bench = new_bench(1);
	struct gq_work *work = gq_work_ref(bench->work);
	struct gq_request *late = new_request(bench, "/p"), *again = new_request(bench, "/p");
	unsigned freed = 0;

	(void)state;
	gq_request_set_state(late, &freed, count_free);
	gq_request_set_state(again, &freed, count_free);
	gq_work_submit(bench->work, late);
	gq_work_submit(bench->work, again);
	wait_ran(bench, 2);
	gq_work_stop(bench->work);
	/* left in the queue, answered, and delayed: freed by the end */
	struct gq_request *queued = new_request(bench, "/a");
	gq_request_set_state(queued, &freed, count_free);
	gq_work_submit(bench->work, queued);
	answer(new_request(bench, "/a"));
	gq_request_retry(new_request(bench, "/a"), INT64_MAX);
	free_bench(bench);
	assert_int_equal(freed, 1);
	answer(late);
	assert_int_equal(freed, 2);
	gq_request_retry(again, 0);
	assert_int_equal(freed, 3);
	gq_work_unref(work);
}

static void counts_bytes(void **state)
{
	struct bench *bench = new_bench(0);

	(void)state;
	assert_int_equal(gq_work_max_body_bytes(bench->work), 1000);
	assert_true(gq_work_take_bytes(bench->work, 1500));
	assert_false(gq_work_take_bytes(bench->work, 501));
	assert_false(gq_work_take_bytes(bench->work, SIZE_MAX));
	assert_false(gq_work_has_room(bench->work, 501));
	assert_false(gq_work_has_room(bench->work, SIZE_MAX));
	assert_true(gq_work_has_room(bench->work, 500));
	assert_true(gq_work_take_bytes(bench->work, 500));
	gq_work_give_bytes(bench->work, 2000);
	assert_true(gq_work_has_room(bench->work, 2000));
	free_bench(bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(runs_in_order),
	    cmocka_unit_test(runs_many_on_several_threads),
	    cmocka_unit_test(delays_by_time),
	    cmocka_unit_test(a_busy_worker_delays_nobody),
	    cmocka_unit_test(retries),
	    cmocka_unit_test(skips_what_nobody_waits_for),
	    cmocka_unit_test(runs_here),
	    cmocka_unit_test(wakes_a_sleeping_loop_only),
	    cmocka_unit_test(takes_answers_after_its_end),
	    cmocka_unit_test(counts_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
