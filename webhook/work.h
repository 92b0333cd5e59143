#ifndef GQ_WEBHOOK_WORK_H
#define GQ_WEBHOOK_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"

struct gq_request;

/* Where requests are while the loop does not have them: a queue for the worker threads, a list of
 * those to run again later, and a done-queue of those that are answered.
 *
 * Counted: the server and each request hold a reference, so that an answer may come from any
 * thread even after the server is gone. The lock is never held while a handler runs. */
struct gq_work;

struct gq_work_options {
	size_t max_body_bytes;      /* of one request */
	size_t max_bytes_in_flight; /* of all of them */
};

/* NULL when out of memory or descriptors. */
struct gq_work *gq_work_new(const struct gq_work_options *options);
struct gq_work *gq_work_ref(struct gq_work *work);
void gq_work_unref(struct gq_work *work);
GQ_DEFINE_CLEANUP(gq_cleanup_work, struct gq_work, gq_work_unref);

/* Starts the workers. Errors: GQ_ENOMEM (the threads that did start go on). */
int gq_work_start(struct gq_work *work, unsigned threads, struct gq_err *err);
/* Lets each worker end its handler, then joins them. No handler runs afterwards. */
void gq_work_stop(struct gq_work *work);
/* After gq_work_stop(), when no connection is left: frees every request that waits here; those
 * answered later are freed by their answer. */
void gq_work_close(struct gq_work *work);

/* Loop only. Hands the request to a worker. */
void gq_work_submit(struct gq_work *work, struct gq_request *request);
/* Loop only. Runs the handler on the calling thread. True: answered, the caller has it back. */
bool gq_work_run_here(struct gq_work *work, struct gq_request *request);
/* Whether a request waits for a worker. */
bool gq_work_waiting(const struct gq_work *work);

/* Any thread: the request is answered; or is to run again at due_ns (monotonic). */
void gq_work_finish(struct gq_work *work, struct gq_request *request);
void gq_work_delay(struct gq_work *work, struct gq_request *request, int64_t due_ns);

/* Loop only. The answered requests, linked by next, in order; NULL when there are none: then the
 * next answer makes the event descriptor readable, until gq_work_awake(). */
struct gq_request *gq_work_collect(struct gq_work *work);
/* The loop runs and will collect before it sleeps: spares the wake-up. */
void gq_work_awake(struct gq_work *work);
int gq_work_event_fd(const struct gq_work *work);
/* Makes the event descriptor readable. Any thread. */
void gq_work_wake(struct gq_work *work);

/* Accounts for body bytes; false when they would be too many. */
bool gq_work_take_bytes(struct gq_work *work, size_t bytes);
void gq_work_give_bytes(struct gq_work *work, size_t bytes);
/* Whether that many more would be. */
bool gq_work_has_room(const struct gq_work *work, size_t bytes);
size_t gq_work_max_body_bytes(const struct gq_work *work);

/* Once set, every answer says Connection: close. */
void gq_work_set_draining(struct gq_work *work);
bool gq_work_draining(const struct gq_work *work);

#endif
