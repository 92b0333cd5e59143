#include "controller/journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/lock.h"
#include "base/log.h"
#include "controller/journal_attempts.h"
#include "controller/journal_pace.h"
#include "controller/journal_tally.h"
#include "controller/journal_text.h"
#include "controller/tickets.h"
#include "controller/trace.h"
#include "quota/entry.h"

/* What is no reservation any more leaves the journal with the next write, or after so long. */
#define CLEAN_NS (250 * GQ_NS_PER_MS)
#define TICK_NS (100 * GQ_NS_PER_MS)
#define LOOK_NS (10 * GQ_NS_PER_S) /* without a request: it may be deleted, or edited */
#define TIMEOUT_NS (5 * GQ_NS_PER_S)
/* An API server takes no larger ConfigMap. */
#define BODY_MAX_BYTES (1u << 20)
/* One that people filled with what is six times as long as a string of JSON. */
#define ANSWER_MAX_BYTES (7u << 20)

enum mode {
	MODE_IDLE,
	MODE_TAKING_OVER,
	MODE_HOLDING,  /* the journal is ours */
	MODE_FLUSHING, /* the same, and no further ticket is taken */
};

struct gq_journal {
	struct gq_journal_options options;

	/* The client's thread alone. */
	enum mode mode;
	uint64_t term; /* of take-overs and stops: answers to requests of an earlier one are void */
	bool in_flight; /* a request runs */
	bool write_due; /* whoever else wrote it is to be written over */
	bool read_due;  /* the journal has to be read before it is written again */
	bool lost;      /* reservations may be missing from the journal, and it says so */
	bool fresh;     /* … and nobody had ever written one there */
	bool opened;    /* grants may be made */
	char instance[2 * sizeof(uint64_t) + 1];
	uint64_t epoch;
	uint64_t seq; /* of the last write sent */
	/* resourceVersion that the next write demands; "" creates */
	char version[GQ_JOURNAL_VERSION_MAX_BYTES + 1];
	struct gq_journal_attempts attempts;
	struct gq_buf uids;   /* of the last write, while a trace is written */
	struct gq_buf others; /* labels and annotations that the next write carries on */
	struct gq_tickets *tickets;
	struct gq_pace pace;
	uint64_t sent_version;    /* of the ledger's set that the last write holds */
	uint64_t written_version; /* the same of the last that is known to have succeeded */
	int64_t heard_ns;         /* when the last request was answered */
	int64_t held_until_ns;    /* the ledger grants nothing until then; 0 it does */
	bool hold_over;           /* … and that was told */
	bool ticks;               /* on_tick will be called */
	int64_t timer_ns;         /* when on_timer will be called first; 0 not */
	void (*taken_over)(void *arg, uint64_t epoch);
	void *taken_over_arg;
	void (*flushed)(void *arg);
	void *flushed_arg;

	struct gq_journal_tally tally;
};

/* One request. */
struct call {
	struct gq_journal *journal;
	uint64_t term;
	int64_t begun_ns;
	struct gq_unseen unseen;
	size_t bytes;
};

static int64_t now(const struct gq_journal *journal)
{
	return gq_clock_mono_ns(journal->options.clock);
}

struct gq_journal *gq_journal_new(const struct gq_journal_options *options)
{
	struct gq_journal *journal = calloc(1, sizeof *journal);

	if (!journal)
		return NULL;
	journal->options = *options;
	uint64_t instance = 0;
	if (getrandom(&instance, sizeof instance, 0) != (ssize_t)sizeof instance)
		instance = (uint64_t)now(journal);
	(void)snprintf(journal->instance, sizeof journal->instance, "%016llx",
		       (unsigned long long)instance);
	gq_pace_init(&journal->pace, now(journal));
	journal->uids = GQ_BUF_INIT(BODY_MAX_BYTES);
	journal->others = GQ_BUF_INIT(GQ_JOURNAL_OTHERS_MAX_BYTES);
	journal->tickets = gq_tickets_new(options->ledger, options->clock);
	if (!journal->tickets) {
		free(journal);
		return NULL;
	}
	gq_journal_tally_init(&journal->tally);
	gq_ledger_hold_grants(options->ledger, true);
	return journal;
}

/* Higher than the last one. Without a last one that can be trusted, higher than whatever it was: by
 * the clock, which has gone on by more milliseconds than there were leaders. Where somebody has
 * written the highest, another one, which is enough to fence him. */
static uint64_t new_epoch(const struct gq_journal *journal, uint64_t last, bool trusted)
{
	uint64_t by_clock = (uint64_t)gq_clock_wall_s(journal->options.clock) * 1000;

	if (last >= GQ_JOURNAL_NUMBER_MAX)
		return by_clock;
	return !trusted && by_clock > last ? by_clock : last + 1;
}

void gq_journal_free(struct gq_journal *journal)
{
	if (!journal)
		return;
	gq_tickets_free(journal->tickets);
	gq_buf_done(&journal->uids);
	gq_buf_done(&journal->others);
	gq_journal_tally_done(&journal->tally);
	free(journal);
}

/* ---- counting ---- */

void gq_journal_stats(struct gq_journal *journal, struct gq_journal_stats *ret_stats)
{
	gq_journal_tally_get(&journal->tally, ret_stats);
	gq_tickets_count(journal->tickets, &ret_stats->committed, &ret_stats->aborted);
}

/* Shows the state to whoever asks. */
static void publish(struct gq_journal *journal)
{
	gq_lock_take(&journal->tally.lock);
	journal->tally.stats.holds =
	    journal->mode == MODE_HOLDING || journal->mode == MODE_FLUSHING;
	journal->tally.stats.held =
	    journal->mode != MODE_HOLDING || !journal->opened || journal->held_until_ns != 0;
	journal->tally.stats.epoch = journal->epoch;
	journal->tally.stats.seq = journal->seq;
	gq_lock_release(&journal->tally.lock);
}

static void trace_ended(struct gq_journal *journal)
{
	struct gq_ended ended[32];
	size_t n = 1;

	while (gq_trace_on() && n) {
		n = gq_ledger_ended(journal->options.ledger, ended, sizeof ended / sizeof ended[0]);
		for (size_t i = 0; i < n; i++)
			gq_trace(ended[i].seen ? "seen" : "end", journal->epoch, 0,
				 (const char *const[]){ended[i].uid}, 1);
	}
}

/* Every ticket that a write up to seq held is safe. */
static void commit_up_to(struct gq_journal *journal, uint64_t seq)
{
	trace_ended(journal);
	gq_trace("written", journal->epoch, seq, NULL, 0);
	journal->attempts.n = 0;
	gq_tickets_commit(journal->tickets, journal->epoch, seq);
}

/* ---- holding grants back ---- */

static void hold_for_ttl(struct gq_journal *journal, const char *how)
{
	char problem[128];

	journal->lost = true;
	journal->hold_over = false;
	journal->held_until_ns = now(journal) + journal->options.ttl_ns;
	gq_ledger_hold_grants(journal->options.ledger, true);
	gq_log(GQ_LOG_ERROR, "the journal was lost: nothing is granted for one time to live",
	       GQ_S("journal", how), GQ_I("seconds", journal->options.ttl_ns / GQ_NS_PER_S));
	publish(journal);
	(void)snprintf(problem, sizeof problem, "it %s: nothing is granted for %lld s", how,
		       (long long)(journal->options.ttl_ns / GQ_NS_PER_S));
	gq_journal_tally_problem(&journal->tally, problem);
	if (journal->options.on_lost)
		journal->options.on_lost(journal->options.arg, how);
}

/* The time to live is over. Whatever was granted by the lost journal is stored by now, or never
 * will be; that it is in the ledger, too, is not for us to tell. */
static void end_hold(struct gq_journal *journal)
{
	if (journal->mode != MODE_HOLDING || !journal->opened || !journal->held_until_ns ||
	    now(journal) < journal->held_until_ns || journal->hold_over)
		return;
	journal->hold_over = true;
	journal->options.on_hold_over(journal->options.arg);
}

void gq_journal_release(struct gq_journal *journal)
{
	if (journal->mode != MODE_HOLDING || !journal->hold_over)
		return;
	journal->hold_over = false;
	journal->held_until_ns = 0;
	journal->lost = false;
	gq_journal_tally_problem(&journal->tally, "");
	journal->write_due = true; /* whoever reads it need not hold them back any more */
	gq_ledger_hold_grants(journal->options.ledger, false);
	gq_log(GQ_LOG_INFO, "grants are made again");
	publish(journal);
}

/* ---- requests ---- */

static void proceed(void *arg);

static void on_timer(void *arg)
{
	struct gq_journal *journal = arg;

	journal->timer_ns = 0;
	proceed(journal);
}

/* One that fails is made up for by the next tick. */
static void wait_until(struct gq_journal *journal, int64_t at_ns)
{
	int64_t now_ns = now(journal);
	struct gq_err err;

	if (at_ns < now_ns)
		at_ns = now_ns;
	if (journal->timer_ns && journal->timer_ns <= at_ns)
		return;
	if (gq_api_after(journal->options.api, at_ns - now_ns, on_timer, journal, &err) == 0)
		journal->timer_ns = at_ns;
}

static void retry_later(struct gq_journal *journal, int retry_after_s)
{
	gq_pace_failed(&journal->pace, retry_after_s, now(journal));
	wait_until(journal, journal->pace.retry_ns);
}

static int start(struct gq_journal *journal, struct call *call, const char *method,
		 const struct gq_buf *body,
		 void (*on_done)(void *arg, const struct gq_api_response *response))
{
	char path[512];
	struct gq_err err;
	bool create = strcmp(method, "POST") == 0;

	int n = snprintf(path, sizeof path, "/api/v1/namespaces/%s/configmaps%s",
			 journal->options.namespace_, create ? "" : "/" GQ_JOURNAL_NAME);
	if (n < 0 || (size_t)n >= sizeof path)
		return GQ_EINVALID;
	const struct gq_api_request request = {
	    .method = method,
	    .path = path,
	    .content_type = body ? "application/json" : NULL,
	    .body = body ? body->data : NULL,
	    .body_len = body ? body->len : 0,
	    .keep = gq_journal_keep,
	    .max_bytes = ANSWER_MAX_BYTES,
	    .timeout_ns = TIMEOUT_NS,
	    .on_done = on_done,
	    .arg = call,
	};
	call->journal = journal;
	call->term = journal->term;
	call->begun_ns = now(journal);
	int code = gq_api_start(journal->options.api, &request, &err);
	if (code)
		gq_journal_tally_problem(&journal->tally, err.msg);
	else
		journal->in_flight = true;
	return code;
}

/* Takes the answer out of the call. Returns whether it still matters. */
static bool end(struct call *call)
{
	struct gq_journal *journal = call->journal;

	if (call->term != journal->term)
		return false;
	journal->heard_ns = now(journal);
	journal->in_flight = false;
	return true;
}

static void take_version(struct gq_journal *journal, const struct gq_journal_text *text)
{
	(void)snprintf(journal->version, sizeof journal->version, "%s", text->version);
	gq_buf_reset(&journal->others);
	gq_journal_text_others(text, &journal->others);
}

/* ---- writing ---- */

static bool is_ours(const struct gq_journal *journal, const struct gq_journal_text *text)
{
	return text->epoch == journal->epoch &&
	       strcmp(text->holder, journal->options.holder) == 0 &&
	       (!text->instance[0] || strcmp(text->instance, journal->instance) == 0);
}

/* Whether it is what we wrote, to the letter. */
static bool is_attempt(const struct gq_journal *journal, const struct gq_journal_text *text)
{
	return is_ours(journal, text) && (text->held || !journal->lost) &&
	       gq_journal_attempts_have(&journal->attempts, text->seq, text->lines,
					text->lines_len);
}

static void taken_over(struct gq_journal *journal)
{
	void (*done)(void *arg, uint64_t epoch) = GQ_STEAL(journal->taken_over);

	journal->mode = MODE_HOLDING;
	gq_ledger_renew(journal->options.ledger, now(journal));
	gq_tickets_open(journal->tickets, true);
	gq_trace_lines("fence", journal->epoch, journal->seq, &journal->uids);
	publish(journal);
	if (done)
		done(journal->taken_over_arg, journal->epoch);
}

/* The journal holds what write seq had in it. */
static void succeed(struct gq_journal *journal, uint64_t seq)
{
	gq_pace_works(&journal->pace);
	if (!journal->lost) /* else that is the problem */
		gq_journal_tally_problem(&journal->tally, "");
	if (seq == journal->seq)
		journal->written_version = journal->sent_version;
	commit_up_to(journal, seq);
	if (journal->mode == MODE_TAKING_OVER)
		taken_over(journal);
	else if (journal->lost && seq == 1)
		gq_trace_lines("fence", journal->epoch, seq, &journal->uids);
	publish(journal);
}

/* The object is gone: whatever an earlier leader had in it is unknown. */
static void on_absent(struct gq_journal *journal)
{
	if (!journal->version[0] && journal->attempts.n) {
		/* ours did not arrive, or not yet, or is gone again */
		if (journal->held_until_ns)
			journal->held_until_ns = now(journal) + journal->options.ttl_ns;
		return;
	}
	journal->version[0] = '\0';
	journal->attempts.n = 0;
	journal->lost = journal->fresh = true;
	journal->epoch = new_epoch(journal, journal->epoch, false);
	journal->seq = 0;
	if (journal->mode == MODE_TAKING_OVER)
		return;
	gq_tickets_fail(journal->tickets);
	hold_for_ttl(journal, "was deleted");
}

static enum gq_journal_outcome outcome_of(const struct gq_api_response *response)
{
	switch (response->code) {
	case 0:
		return GQ_JOURNAL_WRITTEN;
	case GQ_ECONFLICT:
		return GQ_JOURNAL_CONFLICT;
	case GQ_ENOTFOUND:
		return GQ_JOURNAL_ABSENT;
	case GQ_EDENIED:
		return GQ_JOURNAL_DENIED;
	case GQ_ETHROTTLED:
		return GQ_JOURNAL_THROTTLED;
	default:
		return GQ_JOURNAL_UNKNOWN;
	}
}

static void on_write(void *arg, const struct gq_api_response *response)
{
	struct call call = *(struct call *)arg;
	struct gq_journal *journal = call.journal;
	struct gq_journal_text text GQ_CLEANUP(gq_journal_text_done) = {0};
	enum gq_journal_outcome outcome = outcome_of(response);
	struct gq_err err = {0};

	free(arg);
	if (!end(&call))
		return;
	if (outcome == GQ_JOURNAL_WRITTEN &&
	    (gq_journal_text_parse(response->body, response->len, &text, &err) ||
	     !text.version[0] || !is_attempt(journal, &text) || text.seq != journal->seq))
		outcome = GQ_JOURNAL_UNKNOWN;
	if (outcome == GQ_JOURNAL_WRITTEN) {
		take_version(journal, &text);
		gq_journal_tally_written(&journal->tally, now(journal) - call.begun_ns, call.bytes,
					 call.unseen.n);
		succeed(journal, journal->seq);
		proceed(journal);
		return;
	}
	gq_journal_tally_outcome(&journal->tally, outcome,
				 response->error[0] ? response->error : err.msg);
	if (outcome == GQ_JOURNAL_ABSENT && journal->version[0]) {
		on_absent(journal);
		proceed(journal);
		return;
	}
	/* What is known not to have been written is no attempt any more. */
	if (outcome == GQ_JOURNAL_CONFLICT || outcome == GQ_JOURNAL_UNKNOWN)
		journal->read_due = true;
	else
		gq_journal_attempts_drop_last(&journal->attempts);
	if (outcome == GQ_JOURNAL_CONFLICT)
		proceed(journal);
	else
		retry_later(journal, response->retry_after_s);
}

static void write_now(struct gq_journal *journal)
{
	struct gq_buf lines GQ_BUF_CLEANUP = GQ_BUF_INIT(BODY_MAX_BYTES);
	struct gq_buf *uids = gq_trace_on() ? &journal->uids : NULL;
	struct gq_buf body GQ_BUF_CLEANUP = GQ_BUF_INIT(2 * BODY_MAX_BYTES);
	struct call *call = calloc(1, sizeof *call);
	uint64_t seq = journal->seq + 1;

	trace_ended(journal);
	gq_buf_reset(&journal->uids);
	if (!call || gq_ledger_unseen_print(journal->options.ledger, &lines, uids, &call->unseen) ||
	    gq_journal_text_print(&body, journal->options.namespace_,
				  &(struct gq_journal_text){.holder = journal->options.holder,
							    .instance = journal->instance,
							    .epoch = journal->epoch,
							    .seq = seq,
							    .held = journal->lost,
							    .lines = lines.data ? lines.data : "",
							    .lines_len = lines.len,
							    .version = journal->version,
							    .others = journal->others.data})) {
		free(call);
		gq_journal_tally_problem(&journal->tally, "out of memory for the journal");
		retry_later(journal, 0);
		return;
	}
	call->bytes = body.len;
	if (start(journal, call, journal->version[0] ? "PUT" : "POST", &body, on_write)) {
		free(call);
		retry_later(journal, 0);
		return;
	}
	journal->seq = seq;
	journal->sent_version = call->unseen.version;
	journal->write_due = false;
	gq_pace_written(&journal->pace, body.len, now(journal));
	gq_journal_attempts_add(&journal->attempts, seq, lines.data ? lines.data : "", lines.len);
	gq_tickets_mark(journal->tickets, seq);
	if (journal->mode != MODE_TAKING_OVER)
		gq_trace_lines("write", journal->epoch, seq, &journal->uids);
}

/* ---- reading it back, and taking over ---- */

/* Lines of an earlier leader into the ledger. GQ_EINVALID: not all were understood. GQ_ENOMEM. */
static int restore_lines(struct gq_journal *journal, const struct gq_journal_text *text,
			 struct gq_err *err)
{
	const char *at = text->lines, *end = text->lines + text->lines_len;
	int result = 0;

	while (at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t len = stop ? (size_t)(stop - at) : (size_t)(end - at);
		struct gq_entry entry GQ_CLEANUP(gq_entry_done) = {0};
		struct gq_err *first = result ? NULL : err;
		int code = gq_entry_decode(at, len, &entry, first);
		if (!code)
			code =
			    gq_ledger_restore(journal->options.ledger, &entry, now(journal), first);
		if (code == GQ_ENOMEM)
			return gq_fail(err, GQ_ENOMEM, "out of memory for its reservations");
		if (code)
			result = GQ_EINVALID;
		at += len + 1;
	}
	return result;
}

static int read_taking_over(struct gq_journal *journal, const struct gq_journal_text *text,
			    bool readable, struct gq_err *err)
{
	if (readable && is_attempt(journal, text)) { /* the answer to the write was lost */
		succeed(journal, text->seq);
		return 0;
	}
	journal->fresh = text->empty;
	int code = restore_lines(journal, text, err);
	if (code == GQ_ENOMEM)
		return code;
	if (code)
		gq_log(GQ_LOG_ERROR, "reservations of the journal can't be read",
		       GQ_S("problem", err->msg));
	journal->attempts.n = 0;
	if (!readable || text->held || code)
		journal->lost = true;
	journal->epoch = new_epoch(
	    journal, text->epoch > journal->epoch ? text->epoch : journal->epoch, readable);
	journal->seq = 0;
	return 0;
}

static void read_holding(struct gq_journal *journal, const struct gq_journal_text *text,
			 bool readable)
{
	if (!readable) {
		gq_tickets_fail(journal->tickets);
		hold_for_ttl(journal, "was replaced by something else");
		journal->write_due = true;
	} else if (!is_ours(journal, text)) {
		gq_log(GQ_LOG_WARN, "another leader has taken the journal over",
		       GQ_S("holder", text->holder), GQ_I("epoch", text->epoch));
		gq_trace("lost", journal->epoch, journal->seq, NULL, 0);
		gq_journal_stop(journal);
		journal->options.on_fenced(journal->options.arg);
	} else if (is_attempt(journal, text)) {
		succeed(journal, text->seq);
	} else {
		journal->write_due = true;
	}
}

static void read_failed(struct gq_journal *journal, const char *problem, int retry_after_s)
{
	gq_journal_tally_problem(&journal->tally, problem);
	gq_log(GQ_LOG_WARN, "the journal could not be read", GQ_S("problem", problem));
	retry_later(journal, retry_after_s);
}

static void on_read(void *arg, const struct gq_api_response *response)
{
	struct call call = *(struct call *)arg;
	struct gq_journal *journal = call.journal;
	struct gq_journal_text text GQ_CLEANUP(gq_journal_text_done) = {0};
	struct gq_err err = {0};

	free(arg);
	if (!end(&call))
		return;
	if (response->code == GQ_ENOTFOUND) {
		journal->read_due = false;
		on_absent(journal);
		proceed(journal);
		return;
	}
	if (response->code) {
		read_failed(journal, response->error, response->retry_after_s);
		return;
	}
	int code = gq_journal_text_parse(response->body, response->len, &text, &err);
	bool readable = code == 0;
	if (code != GQ_ENOMEM && text.version[0]) {
		if (code)
			gq_log(text.empty ? GQ_LOG_INFO : GQ_LOG_WARN,
			       "the journal is not one of ours", GQ_S("problem", err.msg));
		journal->read_due = false;
		take_version(journal, &text);
		if (journal->mode == MODE_TAKING_OVER)
			code = read_taking_over(journal, &text, readable, &err);
		else
			read_holding(journal, &text, readable);
	}
	if (code == GQ_ENOMEM || !text.version[0]) {
		journal->read_due = true;
		read_failed(journal, err.msg, 0);
		return;
	}
	proceed(journal);
}

static void read_now(struct gq_journal *journal)
{
	struct call *call = calloc(1, sizeof *call);

	if (!call || start(journal, call, "GET", NULL, on_read)) {
		free(call);
		retry_later(journal, 0);
	}
}

/* ---- what to do next ---- */

static bool wants_write(struct gq_journal *journal)
{
	if (journal->mode == MODE_TAKING_OVER || !journal->version[0] || journal->write_due)
		return true;
	if (journal->attempts.n || gq_tickets_waiting(journal->tickets))
		return true;
	return journal->mode == MODE_HOLDING &&
	       gq_ledger_unseen(journal->options.ledger).version != journal->written_version &&
	       now(journal) - journal->pace.written_ns >= CLEAN_NS;
}

static void end_flush(struct gq_journal *journal)
{
	void (*done)(void *arg) = NULL;

	if (journal->mode == MODE_FLUSHING && gq_tickets_close_idle(journal->tickets))
		done = GQ_STEAL(journal->flushed);
	if (done)
		done(journal->flushed_arg);
}

static void on_tick(void *arg);

/* Ticks as long as there is something to look after, and is there when a deadline comes. */
static void keep_time(struct gq_journal *journal)
{
	int64_t deadline_ns = gq_tickets_deadline_ns(journal->tickets);
	struct gq_err err;

	if (!journal->ticks)
		journal->ticks =
		    gq_api_after(journal->options.api, TICK_NS, on_tick, journal, &err) == 0;
	if (deadline_ns < now(journal) + TICK_NS)
		wait_until(journal, deadline_ns);
}

/* Does what is due, one request at a time. */
static void proceed(void *arg)
{
	struct gq_journal *journal = arg;

	if (journal->mode == MODE_IDLE)
		return;
	gq_tickets_take(journal->tickets);
	gq_tickets_expire(journal->tickets);
	end_hold(journal);
	end_flush(journal);
	if (journal->mode == MODE_IDLE)
		return;
	keep_time(journal);
	if (journal->mode == MODE_HOLDING && now(journal) - journal->heard_ns >= LOOK_NS)
		journal->read_due = true;
	if (journal->in_flight || (!journal->read_due && !wants_write(journal)))
		return;
	int64_t now_ns = now(journal);
	int64_t at_ns =
	    journal->read_due ? journal->pace.retry_ns : gq_pace_write_ns(&journal->pace, now_ns);
	if (at_ns > now_ns)
		wait_until(journal, at_ns);
	else if (journal->read_due)
		read_now(journal);
	else
		write_now(journal);
}

static void on_tick(void *arg)
{
	struct gq_journal *journal = arg;

	journal->ticks = false;
	if (journal->mode == MODE_IDLE)
		return;
	trace_ended(journal);
	proceed(journal);
}

void gq_journal_commit(struct gq_journal *journal, uint64_t ticket, int64_t deadline_ns,
		       void (*done)(void *done_arg, int code), void *done_arg)
{
	struct gq_err err;

	/* a kick that fails is made up for by the next one or by a tick */
	if (gq_tickets_put(journal->tickets, ticket, deadline_ns, done, done_arg) &&
	    gq_api_after(journal->options.api, 0, proceed, journal, &err))
		gq_tickets_untold(journal->tickets);
}

static void reset(struct gq_journal *journal, enum mode mode)
{
	journal->term++;
	journal->mode = mode;
	journal->in_flight = false;
	journal->read_due = false;
	journal->write_due = false;
	journal->attempts.n = 0;
	journal->version[0] = '\0';
	journal->lost = false;
	journal->hold_over = false;
	journal->held_until_ns = 0;
	journal->opened = false;
	journal->taken_over = NULL;
	journal->flushed = NULL;
	gq_pace_works(&journal->pace);
	gq_tickets_open(journal->tickets, false);
	publish(journal);
	gq_ledger_hold_grants(journal->options.ledger, true);
	gq_tickets_fail(journal->tickets);
}

void gq_journal_take_over(struct gq_journal *journal, void (*done)(void *arg, uint64_t epoch),
			  void *arg)
{
	reset(journal, MODE_TAKING_OVER);
	journal->read_due = true;
	journal->taken_over = done;
	journal->taken_over_arg = arg;
	proceed(journal);
}

void gq_journal_open(struct gq_journal *journal, bool first_ever)
{
	if (journal->mode != MODE_HOLDING)
		return;
	journal->opened = true;
	if (journal->lost && !journal->held_until_ns && !(first_ever && journal->fresh)) {
		hold_for_ttl(journal, "was absent, not readable, or lost shortly before");
	} else if (!journal->held_until_ns) {
		journal->write_due = journal->lost;
		journal->lost = false;
		gq_ledger_hold_grants(journal->options.ledger, false);
	}
	publish(journal);
	proceed(journal);
}

void gq_journal_stop(struct gq_journal *journal)
{
	void (*done)(void *arg) = GQ_STEAL(journal->flushed);

	reset(journal, MODE_IDLE);
	if (done)
		done(journal->flushed_arg);
}

void gq_journal_flush(struct gq_journal *journal, void (*done)(void *arg), void *arg)
{
	if (journal->mode != MODE_HOLDING) {
		done(arg);
		return;
	}
	journal->mode = MODE_FLUSHING;
	journal->flushed = done;
	journal->flushed_arg = arg;
	publish(journal);
	gq_ledger_hold_grants(journal->options.ledger, true);
	proceed(journal);
}

void gq_journal_tick(struct gq_journal *journal)
{
	if (!journal->ticks)
		proceed(journal);
}
