#ifndef GQ_INFORMER_REFLECTOR_H
#define GQ_INFORMER_REFLECTOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "informer/informer.h"

/* One collection of an informer, without I/O: says what to request when, takes the bytes that come,
 * and hands on events. Time is a parameter (monotonic, nanoseconds). One thread, but for the
 * counters. Source: client-go, tools/cache/reflector.go. */
struct gq_reflector;

struct gq_reflector_counters {
	atomic_bool synced;
	atomic_bool connected;
	atomic_uint_fast64_t events;
	atomic_uint_fast64_t bytes;
	atomic_uint_fast64_t lists;
	atomic_uint_fast64_t watches;
	atomic_uint_fast64_t errors;
	atomic_uint_fast64_t skipped;
	atomic_int_fast64_t last_byte_ns;
};

/* resource, options: borrowed; of the options all but config, credential, clock and user_agent are
 * read. seed: of jitter. Errors: GQ_EINVALID, GQ_ENOMEM. */
int gq_reflector_new(const struct gq_informer_resource *resource,
		     const struct gq_informer_options *options, uint64_t seed,
		     struct gq_reflector **ret_reflector, struct gq_err *err);
void gq_reflector_free(struct gq_reflector *reflector);
GQ_DEFINE_CLEANUP(gq_cleanup_reflector, struct gq_reflector, gq_reflector_free);

const struct gq_reflector_counters *gq_reflector_counters(const struct gq_reflector *reflector);

/* When something has to be done next: begin a request when none runs, cut the one that runs. */
int64_t gq_reflector_deadline(const struct gq_reflector *reflector);

/* No request runs: appends path and query of the next one. It runs until gq_reflector_end() or
 * gq_reflector_cut(), also when it can't be made: errors GQ_ENOMEM, GQ_ETOOBIG. */
int gq_reflector_begin(struct gq_reflector *reflector, int64_t now_ns, struct gq_buf *path,
		       struct gq_err *err);

/* The head of the answer is there. Non-zero: the transfer has to be ended. */
int gq_reflector_response(struct gq_reflector *reflector, int64_t now_ns, long status);

/* Bytes of the body. Non-zero: the transfer has to be ended. */
int gq_reflector_data(struct gq_reflector *reflector, int64_t now_ns, const char *bytes,
		      size_t len);

/* The transfer is over. failure: NULL when it is complete, else why it broke off; what was wrong
 * with the answer itself comes before that. retry_after_s: the header, or 0. */
void gq_reflector_end(struct gq_reflector *reflector, int64_t now_ns, const struct gq_err *failure,
		      int retry_after_s);

/* The deadline has passed while a request ran, which the caller has ended. */
void gq_reflector_cut(struct gq_reflector *reflector, int64_t now_ns);

/* The collection is to be listed anew, at once, whatever was under way: what still ran has been
 * ended by the caller. */
void gq_reflector_relist(struct gq_reflector *reflector, int64_t now_ns);

/* What the last request failed of may be mended: the next is due at once. */
void gq_reflector_hurry(struct gq_reflector *reflector, int64_t now_ns);

/* No more bytes are at hand: tells GQ_EVENT_IDLE if events came since the last time. */
void gq_reflector_idle(struct gq_reflector *reflector);

#endif
