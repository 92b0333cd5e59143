#ifndef GQ_CONTROLLER_JOURNAL_PACE_H
#define GQ_CONTROLLER_JOURNAL_PACE_H

#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

/* When the journal may be read and written. etcd keeps every version until it is compacted, so
 * writes are bounded in number and in bytes; and a server that fails is left alone for longer and
 * longer. Times are monotonic nanoseconds. */

#define GQ_PACE_INTERVAL_NS (5 * GQ_NS_PER_MS)
#define GQ_PACE_BYTES_PER_S (256 << 10)
/* What is saved up while little is written. */
#define GQ_PACE_BURST_BYTES (60.0 * GQ_PACE_BYTES_PER_S)
#define GQ_PACE_RETRY_MIN_NS (50 * GQ_NS_PER_MS)
#define GQ_PACE_RETRY_MAX_NS (1 * GQ_NS_PER_S)

struct gq_pace {
	int64_t written_ns; /* when the last write was sent; 0 never */
	int64_t retry_ns;   /* nothing is sent before */
	int64_t backoff_ns;
	double tokens; /* bytes that may be written now */
	int64_t tokens_ns;
};

void gq_pace_init(struct gq_pace *pace, int64_t now_ns);
/* A write of so many bytes is sent. */
void gq_pace_written(struct gq_pace *pace, size_t bytes, int64_t now_ns);
/* A request failed. retry_after_s: as the server said; 0 nothing. */
void gq_pace_failed(struct gq_pace *pace, int retry_after_s, int64_t now_ns);
/* It works: failures before count no more. */
void gq_pace_works(struct gq_pace *pace);
/* From when on the next write may be sent. */
int64_t gq_pace_write_ns(struct gq_pace *pace, int64_t now_ns);

#endif
