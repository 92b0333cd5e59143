#include "webhook/work.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "webhook/request.h"

struct list {
	struct gq_request *first;
	struct gq_request **end;
};

struct gq_work {
	struct gq_work_options options;
	int event_fd;
	atomic_uint refs;
	atomic_bool asleep; /* the loop: an answer must write to event_fd */
	atomic_bool draining;
	atomic_size_t waiting; /* length of queue */
	atomic_size_t bytes;

	struct gq_lock lock; /* everything below */
	pthread_cond_t ready;
	struct list queue, done;
	struct gq_request *delayed; /* by due_ns */
	unsigned idle;              /* workers in pthread_cond_wait */
	bool stopped;               /* workers end */
	bool closed;                /* no loop any more: requests are freed where they are */
	pthread_t *threads;
	unsigned threads_count;
};

/* The request that this thread runs by gq_work_run_here(), so that its answer stays here. */
static _Thread_local struct {
	struct gq_request *request;
	bool answered;
} here;

static void list_init(struct list *list)
{
	list->first = NULL;
	list->end = &list->first;
}

static void list_append(struct list *list, struct gq_request *request)
{
	request->next = NULL;
	*list->end = request;
	list->end = &request->next;
}

static struct gq_request *list_pop(struct list *list)
{
	struct gq_request *request = list->first;

	if (request) {
		list->first = request->next;
		if (!list->first)
			list->end = &list->first;
		request->next = NULL;
	}
	return request;
}

static struct gq_request *list_take(struct list *list)
{
	struct gq_request *first = list->first;

	list_init(list);
	return first;
}

struct gq_work *gq_work_new(const struct gq_work_options *options)
{
	struct gq_work *work = calloc(1, sizeof *work);
	pthread_condattr_t attr;

	if (!work)
		return NULL;
	work->options = *options;
	work->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (work->event_fd < 0) {
		free(work);
		return NULL;
	}
	gq_lock_init(&work->lock, GQ_RANK_LEAF);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&work->ready, &attr); /* cannot fail on Linux */
	pthread_condattr_destroy(&attr);
	atomic_init(&work->refs, 1);
	list_init(&work->queue);
	list_init(&work->done);
	return work;
}

struct gq_work *gq_work_ref(struct gq_work *work)
{
	atomic_fetch_add_explicit(&work->refs, 1, memory_order_relaxed);
	return work;
}

void gq_work_unref(struct gq_work *work)
{
	if (!work || atomic_fetch_sub_explicit(&work->refs, 1, memory_order_acq_rel) > 1)
		return;
	pthread_cond_destroy(&work->ready);
	gq_lock_done(&work->lock);
	close(work->event_fd);
	free(work->threads);
	free(work);
}

/* Moves what is due from the delayed to the queue. Under the lock. */
static void queue_due(struct gq_work *work)
{
	int64_t now;

	if (!work->delayed)
		return;
	now = gq_clock_mono_ns(&gq_clock_real);
	while (work->delayed && work->delayed->due_ns <= now) {
		struct gq_request *request = work->delayed;
		work->delayed = request->next;
		list_append(&work->queue, request);
		atomic_fetch_add_explicit(&work->waiting, 1, memory_order_relaxed);
	}
}

static void wait_for_work(struct gq_work *work)
{
	work->idle++;
	if (work->delayed) {
		int64_t due = work->delayed->due_ns;
		struct timespec until = {.tv_sec = (time_t)(due / GQ_NS_PER_S),
					 .tv_nsec = (long)(due % GQ_NS_PER_S)};
		pthread_cond_timedwait(&work->ready, &work->lock.mutex, &until);
	} else {
		pthread_cond_wait(&work->ready, &work->lock.mutex);
	}
	work->idle--;
}

static void *worker(void *arg)
{
	struct gq_work *work = arg;

	gq_lock_take(&work->lock);
	while (!work->stopped) {
		queue_due(work);
		struct gq_request *request = list_pop(&work->queue);
		if (!request) {
			wait_for_work(work);
			continue;
		}
		/* somebody must go on watching the clock, and take what became due together */
		if (work->idle && (work->delayed || work->queue.first))
			pthread_cond_signal(&work->ready);
		gq_lock_release(&work->lock);
		atomic_fetch_sub_explicit(&work->waiting, 1, memory_order_relaxed);
		if (!request->ran &&
		    atomic_load_explicit(&request->orphaned, memory_order_relaxed)) {
			gq_work_finish(work, request); /* nobody waits for it */
		} else {
			request->ran = true;
			request->handle(request->handle_arg, request);
		}
		gq_lock_take(&work->lock);
	}
	gq_lock_release(&work->lock);
	return NULL;
}

int gq_work_start(struct gq_work *work, unsigned threads, struct gq_err *err)
{
	work->threads = calloc(threads, sizeof *work->threads);
	if (!work->threads)
		return gq_fail(err, GQ_ENOMEM, "out of memory starting %u workers", threads);
	while (work->threads_count < threads) {
		int code = pthread_create(&work->threads[work->threads_count], NULL, worker, work);
		if (code)
			return gq_fail(err, GQ_ENOMEM, "cannot start a worker: %s", strerror(code));
		work->threads_count++;
	}
	return 0;
}

void gq_work_stop(struct gq_work *work)
{
	gq_lock_take(&work->lock);
	work->stopped = true;
	pthread_cond_broadcast(&work->ready);
	gq_lock_release(&work->lock);
	while (work->threads_count)
		pthread_join(work->threads[--work->threads_count], NULL);
}

static void free_all(struct gq_request *request)
{
	while (request) {
		struct gq_request *next = request->next;
		gq_request_free(request);
		request = next;
	}
}

void gq_work_close(struct gq_work *work)
{
	gq_lock_take(&work->lock);
	assert(work->threads_count == 0);
	work->closed = true;
	struct gq_request *queued = list_take(&work->queue);
	struct gq_request *done = list_take(&work->done);
	struct gq_request *delayed = work->delayed;
	work->delayed = NULL;
	gq_lock_release(&work->lock);
	free_all(queued);
	free_all(done);
	free_all(delayed);
}

void gq_work_submit(struct gq_work *work, struct gq_request *request)
{
	atomic_fetch_add_explicit(&work->waiting, 1, memory_order_relaxed);
	gq_lock_take(&work->lock);
	list_append(&work->queue, request);
	bool idle = work->idle > 0;
	gq_lock_release(&work->lock);
	if (idle)
		pthread_cond_signal(&work->ready);
}

bool gq_work_run_here(struct gq_work *work, struct gq_request *request)
{
	(void)work;
	assert(!here.request);
	here.request = request;
	here.answered = false;
	request->ran = true;
	request->handle(request->handle_arg, request);
	here.request = NULL;
	return here.answered;
}

bool gq_work_waiting(const struct gq_work *work)
{
	return atomic_load_explicit(&work->waiting, memory_order_relaxed) > 0;
}

void gq_work_finish(struct gq_work *work, struct gq_request *request)
{
	if (request == here.request) {
		assert(!here.answered);
		here.answered = true;
		return;
	}
	/* once it is in the list, the request and with it the last reference may go any time */
	gq_work_ref(work);
	gq_lock_take(&work->lock);
	bool closed = work->closed;
	if (!closed)
		list_append(&work->done, request);
	gq_lock_release(&work->lock);
	if (closed)
		gq_request_free(request);
	else if (atomic_exchange(&work->asleep, false))
		gq_work_wake(work);
	gq_work_unref(work);
}

void gq_work_delay(struct gq_work *work, struct gq_request *request, int64_t due_ns)
{
	struct gq_request **at;

	request->due_ns = due_ns;
	gq_lock_take(&work->lock);
	bool closed = work->closed;
	if (!closed) {
		for (at = &work->delayed; *at && (*at)->due_ns <= due_ns; at = &(*at)->next)
			;
		request->next = *at;
		*at = request;
		if (work->idle)
			pthread_cond_signal(&work->ready);
	}
	gq_lock_release(&work->lock);
	if (closed)
		gq_request_free(request);
}

struct gq_request *gq_work_collect(struct gq_work *work)
{
	struct gq_request *first = NULL;

	/* the second look is for an answer that came before it could see asleep */
	for (int look = 0; look < 2 && !first; look++) {
		if (look)
			atomic_store(&work->asleep, true);
		gq_lock_take(&work->lock);
		first = list_take(&work->done);
		gq_lock_release(&work->lock);
	}
	if (first)
		atomic_store(&work->asleep, false);
	return first;
}

void gq_work_awake(struct gq_work *work)
{
	atomic_store_explicit(&work->asleep, false, memory_order_relaxed);
}

int gq_work_event_fd(const struct gq_work *work)
{
	return work->event_fd;
}

void gq_work_wake(struct gq_work *work)
{
	uint64_t one = 1;
	ssize_t n;

	do
		n = write(work->event_fd, &one, sizeof one);
	while (n < 0 && errno == EINTR); /* EAGAIN: it is readable already */
}

bool gq_work_take_bytes(struct gq_work *work, size_t bytes)
{
	size_t before = atomic_fetch_add_explicit(&work->bytes, bytes, memory_order_relaxed);

	if (bytes <= work->options.max_bytes_in_flight &&
	    before <= work->options.max_bytes_in_flight - bytes)
		return true;
	gq_work_give_bytes(work, bytes);
	return false;
}

void gq_work_give_bytes(struct gq_work *work, size_t bytes)
{
	if (bytes)
		atomic_fetch_sub_explicit(&work->bytes, bytes, memory_order_relaxed);
}

bool gq_work_has_room(const struct gq_work *work, size_t bytes)
{
	size_t used = atomic_load_explicit(&work->bytes, memory_order_relaxed);

	return bytes <= work->options.max_bytes_in_flight &&
	       used <= work->options.max_bytes_in_flight - bytes;
}

size_t gq_work_max_body_bytes(const struct gq_work *work)
{
	return work->options.max_body_bytes;
}

void gq_work_set_draining(struct gq_work *work)
{
	atomic_store_explicit(&work->draining, true, memory_order_relaxed);
}

bool gq_work_draining(const struct gq_work *work)
{
	return atomic_load_explicit(&work->draining, memory_order_relaxed);
}
