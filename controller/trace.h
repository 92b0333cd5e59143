#ifndef GQ_CONTROLLER_TRACE_H
#define GQ_CONTROLLER_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the journal's protocol did, one JSON object a line, for the tests that hold it against the
 * model in tests/model/. Off unless the environment names a file in GPUQUOTA_TRACE; the file is
 * appended to with one write(2) a line.
 *
 *   {"ns":123,"by":"gpuquota-0","event":"write","epoch":3,"seq":17,"uids":["…"]}
 *
 * ns: monotonic, comparable between the processes of one machine. Events:
 *   fence      the journal was taken over: epoch is ours now; uids: reservations taken over
 *   barrier    every pod stored before the fence is in the ledger (uids: none)
 *   lead       requests are answered from here on
 *   write      a journal write begins, with these reservations in it
 *   written    it is known to have succeeded, up to seq
 *   lost       another epoch was read: nothing is answered any more
 *   grant      seq holds the reservation uids[0], and its answer goes out
 *   seen       uids[0] was seen: it is a reservation no more
 *   end        uids[0] was given back: its time to live is over and a GET did not show it
 *   stop       this process leads no more
 */

/* Opens the file; failure is logged. Call once, before other threads start. by: borrowed. */
void gq_trace_open(const char *by);
bool gq_trace_on(void);

/* Any thread. uids may be NULL when n is 0. */
void gq_trace(const char *event, uint64_t epoch, uint64_t seq, const char *const *uids, size_t n);
/* The same with a UID a line. */
struct gq_buf;
void gq_trace_lines(const char *event, uint64_t epoch, uint64_t seq, const struct gq_buf *uids);

#endif
