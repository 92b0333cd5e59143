#include "controller/journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/log.h"
#include "controller/hash.h"
#include "controller/journal_text.h"
#include "controller/tickets.h"
#include "controller/trace.h"
#include "quota/entry.h"

/* etcd keeps every version until it is compacted, so writes are bounded in number and in bytes: at
 * least INTERVAL_NS apart, and RATE bytes a second on average over BURST_S seconds. */
#define INTERVAL_NS (5 * GQ_NS_PER_MS)
#define RATE_BYTES_PER_S (256 << 10)
#define BURST_S 60
/* What is no reservation any more leaves the journal with the next write, or after so long. */
#define CLEAN_NS (250 * GQ_NS_PER_MS)
#define TICK_NS (100 * GQ_NS_PER_MS)
#define TIMEOUT_NS (5 * GQ_NS_PER_S)
#define RETRY_MIN_NS (50 * GQ_NS_PER_MS)
#define RETRY_MAX_NS (1 * GQ_NS_PER_S)
/* An API server takes no larger ConfigMap. */
#define BODY_MAX_BYTES (1u << 20)
/* Writes whose outcome is not known and which may still arrive. */
#define ATTEMPTS_MAX 32

const double gq_journal_bounds_s[GQ_JOURNAL_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025,
							0.05,  0.1,    0.25,  1,    5};

const char *gq_journal_outcome_name(enum gq_journal_outcome outcome)
{
	static const char *const names[GQ_JOURNAL_OUTCOMES] = {"written", "conflict",  "absent",
							       "denied",  "throttled", "unknown"};

	return names[outcome];
}

/* A write that was sent and may have succeeded. */
struct attempt {
	uint64_t seq;
	char hash[GQ_HASH_TEXT_BYTES]; /* of its lines */
};

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
	bool in_flight; /* a request runs, or a retry is waited for */
	bool write_due; /* whoever else wrote it is to be written over */
	bool read_due;  /* the journal has to be read before it is written again */
	bool lost;      /* when it was taken over, there was no journal, or none of ours */
	bool opened;    /* grants may be made */
	uint64_t epoch;
	uint64_t seq;      /* of the last write sent */
	char version[256]; /* resourceVersion that the next write demands; "" creates */
	struct attempt attempts[ATTEMPTS_MAX];
	size_t n_attempts;
	struct gq_buf uids; /* of the last write, while a trace is written */
	struct gq_tickets *tickets;
	int64_t written_ns;       /* when the last write was sent */
	uint64_t written_version; /* of the ledger's set that it held */
	double tokens;            /* bytes that may be written now */
	int64_t tokens_ns;
	int64_t held_until_ns; /* the ledger grants nothing until then; 0 it does */
	int64_t backoff_ns;
	bool ticks; /* on_tick will be called */
	bool timer; /* the next write is waited for */
	void (*taken_over)(void *arg, uint64_t epoch);
	void *taken_over_arg;
	void (*flushed)(void *arg);
	void *flushed_arg;

	struct gq_lock lock; /* of what follows */
	struct gq_journal_stats stats;
};

/* One request. */
struct call {
	struct gq_journal *journal;
	uint64_t term;
	int64_t begun_ns;
	uint64_t set_version;
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
	journal->tokens = (double)RATE_BYTES_PER_S * BURST_S;
	journal->tokens_ns = now(journal);
	journal->uids = GQ_BUF_INIT(BODY_MAX_BYTES);
	journal->tickets = gq_tickets_new(options->ledger, options->clock);
	if (!journal->tickets) {
		free(journal);
		return NULL;
	}
	gq_lock_init(&journal->lock, GQ_RANK_LEAF);
	gq_ledger_hold_grants(options->ledger, true);
	return journal;
}

/* Higher than the last one. Without a last one that can be trusted, higher than whatever it was: by
 * the clock, which has gone on by more milliseconds than there were leaders. */
static uint64_t new_epoch(const struct gq_journal *journal, uint64_t last, bool trusted)
{
	uint64_t by_clock = (uint64_t)gq_clock_wall_s(journal->options.clock) * 1000;

	return !trusted && by_clock > last ? by_clock : last + 1;
}

void gq_journal_free(struct gq_journal *journal)
{
	if (!journal)
		return;
	gq_tickets_free(journal->tickets);
	gq_buf_done(&journal->uids);
	gq_lock_done(&journal->lock);
	free(journal);
}

void gq_journal_stats(struct gq_journal *journal, struct gq_journal_stats *ret_stats)
{
	gq_lock_take(&journal->lock);
	*ret_stats = journal->stats;
	gq_lock_release(&journal->lock);
	gq_tickets_count(journal->tickets, &ret_stats->committed, &ret_stats->aborted);
}

/* ---- counting ---- */

static void note_problem(struct gq_journal *journal, const char *problem)
{
	gq_lock_take(&journal->lock);
	(void)snprintf(journal->stats.problem, sizeof journal->stats.problem, "%s", problem);
	gq_lock_release(&journal->lock);
}

static void note_outcome(struct gq_journal *journal, enum gq_journal_outcome outcome,
			 const char *problem)
{
	gq_lock_take(&journal->lock);
	journal->stats.writes[outcome]++;
	gq_lock_release(&journal->lock);
	note_problem(journal, problem);
	if (problem[0])
		gq_log(GQ_LOG_WARN, "the journal could not be written",
		       GQ_S("outcome", gq_journal_outcome_name(outcome)), GQ_S("problem", problem));
}

static void note_written(struct gq_journal *journal, const struct call *call)
{
	double took_s = (double)(now(journal) - call->begun_ns) / (double)GQ_NS_PER_S;
	size_t bucket = 0;

	while (bucket < GQ_JOURNAL_BUCKETS && took_s > gq_journal_bounds_s[bucket])
		bucket++;
	gq_lock_take(&journal->lock);
	journal->stats.writes[GQ_JOURNAL_WRITTEN]++;
	journal->stats.write_buckets[bucket]++;
	journal->stats.write_sum_s += took_s;
	journal->stats.bytes = call->bytes;
	journal->stats.reservations = call->unseen.n;
	journal->stats.problem[0] = '\0';
	gq_lock_release(&journal->lock);
}

/* Shows the state to whoever asks, and opens or closes the door for tickets. */
static void publish(struct gq_journal *journal)
{
	gq_tickets_open(journal->tickets, journal->mode == MODE_HOLDING);
	gq_lock_take(&journal->lock);
	journal->stats.holds = journal->mode == MODE_HOLDING || journal->mode == MODE_FLUSHING;
	journal->stats.held =
	    journal->mode != MODE_HOLDING || !journal->opened || journal->held_until_ns != 0;
	journal->stats.epoch = journal->epoch;
	journal->stats.seq = journal->seq;
	gq_lock_release(&journal->lock);
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

static void trace_lines(const char *event, uint64_t epoch, uint64_t seq, struct gq_buf *uids)
{
	const char *list[1024];
	size_t n = 0;

	if (!gq_trace_on())
		return;
	for (char *at = uids->data; at && *at && n < sizeof list / sizeof list[0];) {
		char *end = strchr(at, '\n');
		list[n++] = at;
		if (!end)
			break;
		*end = '\0';
		at = end + 1;
	}
	gq_trace(event, epoch, seq, list, n);
}

/* Every ticket that a write up to seq held is safe. */
static void commit_up_to(struct gq_journal *journal, uint64_t seq)
{
	trace_ended(journal);
	gq_trace("written", journal->epoch, seq, NULL, 0);
	journal->n_attempts = 0;
	gq_tickets_commit(journal->tickets, journal->epoch, seq);
}

/* ---- holding grants back ---- */

static void hold_for_ttl(struct gq_journal *journal, const char *how)
{
	journal->held_until_ns = now(journal) + journal->options.ttl_ns;
	gq_ledger_hold_grants(journal->options.ledger, true);
	gq_log(GQ_LOG_ERROR, "the journal was lost: nothing is granted for one time to live",
	       GQ_S("journal", how), GQ_I("seconds", journal->options.ttl_ns / GQ_NS_PER_S));
	publish(journal);
	if (journal->options.on_lost)
		journal->options.on_lost(journal->options.arg, how);
}

static void release_grants(struct gq_journal *journal)
{
	if (journal->mode != MODE_HOLDING || !journal->opened || !journal->held_until_ns ||
	    now(journal) < journal->held_until_ns)
		return;
	journal->held_until_ns = 0;
	gq_ledger_hold_grants(journal->options.ledger, false);
	gq_log(GQ_LOG_INFO, "grants are made again");
	publish(journal);
}

/* ---- requests ---- */

static void proceed(struct gq_journal *journal);

static void on_timer(void *arg)
{
	struct gq_journal *journal = arg;

	journal->timer = false;
	proceed(journal);
}

static void wait_until(struct gq_journal *journal, int64_t at_ns)
{
	struct gq_err err;

	if (journal->timer)
		return;
	journal->timer =
	    gq_api_after(journal->options.api, at_ns - now(journal), on_timer, journal, &err) == 0;
}

static void retry_later(struct gq_journal *journal, int retry_after_s)
{
	int64_t wait_ns = retry_after_s * GQ_NS_PER_S;

	journal->backoff_ns = journal->backoff_ns ? 2 * journal->backoff_ns : RETRY_MIN_NS;
	if (journal->backoff_ns > RETRY_MAX_NS)
		journal->backoff_ns = RETRY_MAX_NS;
	if (wait_ns < journal->backoff_ns)
		wait_ns = journal->backoff_ns;
	if (wait_ns > RETRY_MAX_NS)
		wait_ns = RETRY_MAX_NS;
	journal->written_ns = now(journal) + wait_ns - INTERVAL_NS;
	wait_until(journal, now(journal) + wait_ns);
}

static int path_print(const struct gq_journal *journal, bool named, char path[512])
{
	int n = snprintf(path, 512, "/api/v1/namespaces/%s/configmaps%s",
			 journal->options.namespace_, named ? "/" GQ_JOURNAL_NAME : "");

	return n > 0 && n < 512 ? 0 : GQ_ETOOBIG;
}

static int start(struct gq_journal *journal, struct call *call, const char *method,
		 const struct gq_buf *body,
		 void (*on_done)(void *arg, const struct gq_api_response *response))
{
	char path[512];
	struct gq_err err;
	bool create = strcmp(method, "POST") == 0;

	if (path_print(journal, !create, path))
		return GQ_EINVALID;
	const struct gq_api_request request = {
	    .method = method,
	    .path = path,
	    .content_type = body ? "application/json" : NULL,
	    .body = body ? body->data : NULL,
	    .body_len = body ? body->len : 0,
	    .keep = gq_journal_keep,
	    .max_bytes = BODY_MAX_BYTES + (64u << 10),
	    .timeout_ns = TIMEOUT_NS,
	    .on_done = on_done,
	    .arg = call,
	};
	call->journal = journal;
	call->term = journal->term;
	call->begun_ns = now(journal);
	int code = gq_api_start(journal->options.api, &request, &err);
	if (code)
		note_problem(journal, err.msg);
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
	journal->in_flight = false;
	return true;
}

static void take_version(struct gq_journal *journal, const struct gq_journal_text *text)
{
	(void)snprintf(journal->version, sizeof journal->version, "%s", text->version);
}

/* ---- writing ---- */

static void note_attempt(struct gq_journal *journal, uint64_t seq, const struct gq_buf *lines)
{
	struct attempt *attempt;

	if (journal->n_attempts == ATTEMPTS_MAX) {
		/* if the oldest arrives now, it is not recognised and written over */
		memmove(journal->attempts, journal->attempts + 1,
			(ATTEMPTS_MAX - 1) * sizeof *attempt);
		journal->n_attempts--;
	}
	attempt = &journal->attempts[journal->n_attempts++];
	attempt->seq = seq;
	if (gq_hash_text(lines->data ? lines->data : "", lines->len, attempt->hash))
		attempt->hash[0] = '\0';
}

static bool is_attempt(const struct gq_journal *journal, const struct gq_journal_text *text)
{
	char hash[GQ_HASH_TEXT_BYTES];

	if (gq_hash_text(text->lines, text->lines_len, hash))
		return false;
	for (size_t i = 0; i < journal->n_attempts; i++)
		if (journal->attempts[i].seq == text->seq &&
		    strcmp(journal->attempts[i].hash, hash) == 0)
			return true;
	return false;
}

static void taken_over(struct gq_journal *journal)
{
	void (*done)(void *arg, uint64_t epoch) = GQ_STEAL(journal->taken_over);

	journal->mode = MODE_HOLDING;
	trace_lines("fence", journal->epoch, journal->seq, &journal->uids);
	publish(journal);
	if (done)
		done(journal->taken_over_arg, journal->epoch);
}

static void succeed(struct gq_journal *journal, uint64_t seq)
{
	journal->backoff_ns = 0;
	commit_up_to(journal, seq);
	if (journal->mode == MODE_TAKING_OVER)
		taken_over(journal);
}

/* The object is gone: whatever an earlier leader had in it is unknown. */
static void on_absent(struct gq_journal *journal)
{
	journal->version[0] = '\0';
	journal->n_attempts = 0;
	journal->lost = true;
	if (journal->mode == MODE_TAKING_OVER)
		return;
	journal->epoch = new_epoch(journal, journal->epoch, false);
	journal->seq = 0;
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
	    (gq_journal_text_parse(response->body, response->len, &text, &err) || !text.version[0]))
		outcome = GQ_JOURNAL_UNKNOWN;
	if (outcome == GQ_JOURNAL_WRITTEN) {
		take_version(journal, &text);
		journal->written_version = call.set_version;
		note_written(journal, &call);
		succeed(journal, journal->seq);
		publish(journal);
		proceed(journal);
		return;
	}
	note_outcome(journal, outcome, response->error[0] ? response->error : err.msg);
	if (outcome == GQ_JOURNAL_ABSENT && journal->version[0]) {
		on_absent(journal);
		proceed(journal);
		return;
	}
	/* What is known not to have been written is no attempt any more. */
	if (outcome == GQ_JOURNAL_CONFLICT || outcome == GQ_JOURNAL_UNKNOWN)
		journal->read_due = true;
	else
		journal->n_attempts--;
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
							    .epoch = journal->epoch,
							    .seq = seq,
							    .lines = lines.data ? lines.data : "",
							    .lines_len = lines.len,
							    .version = journal->version})) {
		free(call);
		note_problem(journal, "out of memory for the journal");
		retry_later(journal, 0);
		return;
	}
	call->bytes = body.len;
	call->set_version = call->unseen.version;
	if (start(journal, call, journal->version[0] ? "PUT" : "POST", &body, on_write)) {
		free(call);
		retry_later(journal, 0);
		return;
	}
	journal->seq = seq;
	journal->write_due = false;
	journal->written_ns = call->begun_ns;
	journal->tokens -= (double)body.len;
	note_attempt(journal, seq, &lines);
	gq_tickets_mark(journal->tickets, seq);
	if (journal->mode != MODE_TAKING_OVER)
		trace_lines("write", journal->epoch, seq, &journal->uids);
}

/* ---- reading it back, and taking over ---- */

/* Lines of an earlier leader into the ledger. Returns whether all were understood. */
static bool restore_lines(struct gq_journal *journal, const struct gq_journal_text *text)
{
	const char *at = text->lines, *end = text->lines + text->lines_len;
	unsigned bad = 0;

	while (at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t len = stop ? (size_t)(stop - at) : (size_t)(end - at);
		struct gq_entry entry GQ_CLEANUP(gq_entry_done) = {0};
		struct gq_err err;
		if (gq_entry_decode(at, len, &entry, &err) ||
		    gq_ledger_restore(journal->options.ledger, &entry, now(journal), &err)) {
			bad++;
			gq_log(GQ_LOG_ERROR, "a reservation of the journal can't be read",
			       GQ_S("problem", err.msg));
		}
		at += len + 1;
	}
	return bad == 0;
}

static void read_taking_over(struct gq_journal *journal, const struct gq_journal_text *text,
			     bool readable)
{
	bool ours = readable && text->epoch == journal->epoch && journal->epoch &&
		    strcmp(text->holder, journal->options.holder) == 0;

	if (ours && is_attempt(journal, text)) { /* the answer to the write was lost */
		succeed(journal, text->seq);
		return;
	}
	journal->n_attempts = 0;
	journal->lost = !readable || !restore_lines(journal, text);
	journal->epoch = new_epoch(
	    journal, text->epoch > journal->epoch ? text->epoch : journal->epoch, readable);
	journal->seq = 0;
}

static void read_holding(struct gq_journal *journal, const struct gq_journal_text *text,
			 bool readable)
{
	if (!readable) {
		gq_tickets_fail(journal->tickets);
		hold_for_ttl(journal, "was replaced by something else");
		journal->write_due = true;
		return;
	}
	if (text->epoch != journal->epoch || strcmp(text->holder, journal->options.holder) != 0) {
		gq_log(GQ_LOG_WARN, "another leader has taken the journal over",
		       GQ_S("holder", text->holder), GQ_I("epoch", text->epoch));
		gq_trace("lost", journal->epoch, journal->seq, NULL, 0);
		gq_journal_stop(journal);
		journal->options.on_fenced(journal->options.arg);
		return;
	}
	if (is_attempt(journal, text))
		succeed(journal, text->seq);
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
	int code = response->code;
	if (!code)
		code = gq_journal_text_parse(response->body, response->len, &text, &err);
	if (response->code == GQ_ENOTFOUND) {
		journal->read_due = false;
		if (journal->mode == MODE_TAKING_OVER) {
			journal->n_attempts = 0;
			journal->epoch = new_epoch(journal, journal->epoch, false);
			journal->seq = 0;
		}
		on_absent(journal);
		proceed(journal);
		return;
	}
	if (response->code || code == GQ_ENOMEM || !text.version[0]) {
		note_problem(journal, response->error[0] ? response->error : err.msg);
		gq_log(GQ_LOG_WARN, "the journal could not be read",
		       GQ_S("problem", response->error[0] ? response->error : err.msg));
		retry_later(journal, response->retry_after_s);
		return;
	}
	journal->read_due = false;
	journal->backoff_ns = 0;
	take_version(journal, &text);
	if (code)
		gq_log(GQ_LOG_WARN, "the journal is not one of ours", GQ_S("problem", err.msg));
	if (journal->mode == MODE_TAKING_OVER)
		read_taking_over(journal, &text, code == 0);
	else
		read_holding(journal, &text, code == 0);
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

static void refill(struct gq_journal *journal)
{
	int64_t now_ns = now(journal);

	journal->tokens +=
	    (double)(now_ns - journal->tokens_ns) / (double)GQ_NS_PER_S * RATE_BYTES_PER_S;
	if (journal->tokens > (double)RATE_BYTES_PER_S * BURST_S)
		journal->tokens = (double)RATE_BYTES_PER_S * BURST_S;
	journal->tokens_ns = now_ns;
}

/* When the next write may be sent. */
static int64_t next_write_ns(struct gq_journal *journal)
{
	int64_t at_ns = journal->written_ns + INTERVAL_NS;

	refill(journal);
	if (journal->tokens < 0) {
		int64_t full_ns = now(journal) + (int64_t)(-journal->tokens / RATE_BYTES_PER_S *
							   (double)GQ_NS_PER_S);
		at_ns = at_ns > full_ns ? at_ns : full_ns;
	}
	return at_ns;
}

static bool wants_write(struct gq_journal *journal)
{
	if (journal->mode == MODE_TAKING_OVER || !journal->version[0] || journal->write_due)
		return true;
	if (journal->n_attempts || gq_tickets_waiting(journal->tickets))
		return true;
	return journal->mode == MODE_HOLDING &&
	       gq_ledger_unseen(journal->options.ledger).version != journal->written_version &&
	       now(journal) - journal->written_ns >= CLEAN_NS;
}

static void end_flush(struct gq_journal *journal)
{
	void (*done)(void *arg) = NULL;

	if (journal->mode == MODE_FLUSHING && !gq_tickets_waiting(journal->tickets))
		done = GQ_STEAL(journal->flushed);
	if (done)
		done(journal->flushed_arg);
}

/* Does what is due, one request at a time. */
static void proceed(struct gq_journal *journal)
{
	if (journal->mode == MODE_IDLE)
		return;
	gq_tickets_take(journal->tickets);
	gq_tickets_expire(journal->tickets);
	release_grants(journal);
	end_flush(journal);
	if (journal->mode == MODE_IDLE || journal->in_flight)
		return;
	if (!journal->read_due && !wants_write(journal))
		return;
	int64_t at_ns = next_write_ns(journal);
	if (at_ns > now(journal))
		wait_until(journal, at_ns);
	else if (journal->read_due)
		read_now(journal);
	else
		write_now(journal);
}

static void on_kick(void *arg)
{
	proceed(arg);
}

static void on_tick(void *arg)
{
	struct gq_journal *journal = arg;
	struct gq_err err;

	journal->ticks = false;
	if (journal->mode == MODE_IDLE)
		return;
	trace_ended(journal);
	proceed(journal);
	if (journal->mode != MODE_IDLE && !journal->ticks)
		journal->ticks =
		    gq_api_after(journal->options.api, TICK_NS, on_tick, journal, &err) == 0;
}

void gq_journal_commit(struct gq_journal *journal, uint64_t ticket, int64_t deadline_ns,
		       void (*done)(void *done_arg, int code), void *done_arg)
{
	struct gq_err err;

	/* a kick that fails is made up for by the next tick */
	if (gq_tickets_put(journal->tickets, ticket, deadline_ns, done, done_arg))
		(void)gq_api_after(journal->options.api, 0, on_kick, journal, &err);
}

static void reset(struct gq_journal *journal, enum mode mode)
{
	journal->term++;
	journal->mode = mode;
	journal->in_flight = false;
	journal->read_due = false;
	journal->write_due = false;
	journal->n_attempts = 0;
	journal->held_until_ns = 0;
	journal->opened = false;
	journal->backoff_ns = 0;
	journal->taken_over = NULL;
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
	if (journal->ticks)
		proceed(journal);
	else
		on_tick(journal);
}

void gq_journal_open(struct gq_journal *journal, bool first_ever)
{
	if (journal->mode != MODE_HOLDING)
		return;
	journal->opened = true;
	if (journal->lost && !first_ever)
		hold_for_ttl(journal, "was absent or not readable");
	else if (!journal->held_until_ns)
		gq_ledger_hold_grants(journal->options.ledger, false);
	publish(journal);
}

void gq_journal_stop(struct gq_journal *journal)
{
	reset(journal, MODE_IDLE);
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
