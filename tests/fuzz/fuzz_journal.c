/* A ConfigMap of raw bytes as what a leader finds when it takes the journal over, and again when it
 * holds it: what it writes then is a journal of its own with the version that it read, a higher
 * epoch, and reservations that the next can read. */
#include <json-c/json.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "controller/journal.h"
#include "controller/journal_text.h"
#include "quota/entry.h"

#define MAX_BYTES (64u << 10)
#define TIMERS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok)
{
	if (!ok)
		abort();
}

/* ---- time, the log and the API client, played ---- */

void gq_log_emit(enum gq_log_level level, const char *msg, const struct gq_log_field *fields)
{
	(void)level;
	(void)msg;
	(void)fields;
}

static int64_t time_ns;

static int64_t mono_ns(void *arg)
{
	(void)arg;
	return time_ns;
}

static int64_t wall_s(void *arg)
{
	(void)arg;
	return 1800000000;
}

static struct {
	bool pending, write, creates;
	char *body;
	size_t len;
	void (*on_done)(void *arg, const struct gq_api_response *response);
	void *arg;
} sent;

static struct {
	int64_t due_ns;
	void (*on_due)(void *arg);
	void *arg;
} timers[TIMERS_MAX];
static size_t n_timers;

int gq_api_start(struct gq_api *api, const struct gq_api_request *request, struct gq_err *err)
{
	(void)api;
	(void)err;
	check(!sent.pending);
	sent.pending = true;
	sent.write = request->body != NULL;
	sent.creates = strcmp(request->method, "POST") == 0;
	sent.body = sent.write ? strndup(request->body, request->body_len) : NULL;
	sent.len = request->body_len;
	sent.on_done = request->on_done;
	sent.arg = request->arg;
	return 0;
}

int gq_api_after(struct gq_api *api, int64_t delay_ns, void (*on_due)(void *arg), void *arg,
		 struct gq_err *err)
{
	(void)api;
	(void)err;
	check(n_timers < TIMERS_MAX && delay_ns >= 0);
	timers[n_timers].due_ns = time_ns + delay_ns;
	timers[n_timers].on_due = on_due;
	timers[n_timers++].arg = arg;
	return 0;
}

/* Until a request is under way, or for so many milliseconds. */
static void pass(int ms)
{
	for (; ms > 0 && !sent.pending; ms--) {
		time_ns += GQ_NS_PER_MS;
		for (size_t i = 0; i < n_timers;) {
			if (timers[i].due_ns > time_ns) {
				i++;
				continue;
			}
			void (*on_due)(void *) = timers[i].on_due;
			void *arg = timers[i].arg;
			timers[i] = timers[--n_timers];
			on_due(arg);
		}
	}
}

static void answer(int code, const char *body, size_t len)
{
	struct gq_api_response response = {.code = code, .body = body, .len = len, .error = ""};

	check(sent.pending);
	sent.pending = false;
	free(sent.body);
	sent.body = NULL;
	sent.on_done(sent.arg, &response);
}

/* ---- what is written ---- */

static void check_lines(const struct gq_journal_text *text)
{
	const char *at = text->lines, *end = text->lines + text->lines_len;

	while (at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		struct gq_entry entry GQ_CLEANUP(gq_entry_done) = {0};
		check(stop && gq_entry_decode(at, (size_t)(stop - at), &entry, NULL) == 0);
		at = stop + 1;
	}
}

/* read: what was read before, or NULL. */
static void check_write(const struct gq_journal_text *read, struct gq_journal_text *ret_written)
{
	struct gq_err err = {0};

	check(sent.pending && sent.write);
	check(gq_journal_text_parse(sent.body, sent.len, ret_written, &err) == 0);
	check(strcmp(ret_written->holder, "pod-a") == 0);
	check(ret_written->epoch > 0);
	check(sent.creates == !ret_written->version[0]);
	check_lines(ret_written);
	if (read) {
		check(strcmp(read->version, ret_written->version) == 0);
		check(ret_written->epoch > read->epoch || read->epoch == GQ_JOURNAL_NUMBER_MAX);
	}
}

static void on_taken_over(void *arg, uint64_t epoch)
{
	*(uint64_t *)arg = epoch;
}

static struct gq_journal *leading;

static void on_fenced(void *arg)
{
	*(bool *)arg = true;
}

static void on_hold_over(void *arg)
{
	(void)arg;
	gq_journal_release(leading);
}

static void succeed(void)
{
	struct json_object *root = json_tokener_parse(sent.body), *metadata;

	check(json_object_object_get_ex(root, "metadata", &metadata));
	json_object_object_add(metadata, "resourceVersion", json_object_new_string("77"));
	const char *body = json_object_to_json_string(root);
	answer(0, body, strlen(body));
	json_object_put(root);
}

static void play(const char *body, size_t len)
{
	const struct gq_clock clock = {.mono_ns = mono_ns, .wall_s = wall_s};
	struct gq_ledger *ledger GQ_CLEANUP(gq_cleanup_ledger) =
	    gq_ledger_new(&(struct gq_ledger_options){0});
	struct gq_journal_text read GQ_CLEANUP(gq_journal_text_done) = {0};
	struct gq_journal_text written GQ_CLEANUP(gq_journal_text_done) = {.version = ""};
	bool fenced = false;
	uint64_t epoch = 0;
	struct gq_err err = {0};

	time_ns = 1000 * GQ_NS_PER_S;
	n_timers = 0;
	struct gq_journal *journal GQ_CLEANUP(gq_cleanup_journal) =
	    gq_journal_new(&(struct gq_journal_options){.ledger = ledger,
							.clock = &clock,
							.namespace_ = "n",
							.holder = "pod-a",
							.ttl_ns = GQ_NS_PER_S,
							.on_fenced = on_fenced,
							.on_hold_over = on_hold_over,
							.arg = &fenced});
	check(ledger && journal);
	leading = journal;
	int code = gq_journal_text_parse(body, len, &read, &err);
	gq_journal_take_over(journal, on_taken_over, &epoch);
	answer(0, body, len);
	pass(2000);
	if (!read.version[0]) {
		check(sent.pending && !sent.write); /* read again */
	} else {
		check_write(&read, &written);
		check(written.held || (!code && !read.held));
		succeed();
		check(epoch == written.epoch);
		gq_journal_open(journal, false);
		pass(2000);
		/* the same bytes again, as what somebody has put in its place */
		if (sent.pending) {
			answer(GQ_ECONFLICT, "", 0);
			check(sent.pending && !sent.write);
			answer(0, body, len);
			pass(2000);
			check(fenced == (code == 0));
		}
	}
	gq_journal_stop(journal);
	if (sent.pending)
		answer(GQ_EIO, "", 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gq_buf pruned GQ_BUF_CLEANUP = GQ_BUF_INIT(MAX_BYTES);

	if (size > MAX_BYTES)
		return 0;
	play((const char *)data, size);
	if (gq_json_prune((const char *)data, size, gq_journal_keep, &pruned, NULL) == 0)
		play(pruned.data, pruned.len);
	return 0;
}
