#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>

#include "controller/events.h"
#include "tests/unit/api_played.h"
#include "tests/unit/fail_alloc.h"

static struct gq_events *events;

static int setup(void **state)
{
	(void)state;
	calls_reset();
	app_clock_init(&app_time);
	events = gq_events_new(
	    &(struct gq_events_options){.clock = &app_time.clock, .instance = "gpuquota-0"});
	return events ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < n_calls; i++)
		if (calls[i].on_done)
			finish(i, GQ_EIO);
	gq_events_free(events);
	calls_reset();
	return 0;
}

/* Time goes by; the timers that are due meanwhile are called, each in its turn. */
static void pass_s(double seconds)
{
	int64_t end_ns = app_time.mono_ns + (int64_t)(seconds * 1e9);
	int64_t start_ns = app_time.mono_ns, start_s = app_time.wall_s;

	for (;;) {
		size_t first = n_timers;
		for (size_t i = 0; i < n_timers; i++)
			if (timers[i].due_ns <= end_ns &&
			    (first == n_timers || timers[i].due_ns < timers[first].due_ns))
				first = i;
		if (first < n_timers && timers[first].due_ns > app_time.mono_ns)
			app_time.mono_ns = timers[first].due_ns;
		else if (first == n_timers)
			app_time.mono_ns = end_ns;
		app_time.wall_s = start_s + (app_time.mono_ns - start_ns) / GQ_NS_PER_S;
		if (first == n_timers)
			return;
		void (*on_due)(void *) = timers[first].on_due;
		void *arg = timers[first].arg;
		timers[first] = timers[--n_timers];
		on_due(arg);
	}
}

static struct gq_event_note note_of(const char *name, const char *text)
{
	return (struct gq_event_note){.regarding = {.api_version = "apps/v1",
						    .kind = "ReplicaSet",
						    .namespace_ = "a-train",
						    .name = name,
						    .uid = "u-1"},
				      .warning = true,
				      .reason = "GPUQuotaExceeded",
				      .action = "Deny",
				      .text = text};
}

static void tell(const char *name, const char *text)
{
	struct gq_event_note note = note_of(name, text);

	gq_events_note(events, &note);
}

static struct gq_events_stats stats(void)
{
	struct gq_events_stats out;

	gq_events_stats(events, &out);
	return out;
}

static void assert_post(size_t i)
{
	assert_true(i < n_calls);
	assert_string_equal(calls[i].method, "POST");
	assert_string_equal(calls[i].content_type, "application/json");
}

/* The series of a request; 0: none. */
static int64_t count_of(size_t i)
{
	struct json_object *body = body_of(i);
	int64_t count = json_object_get_int64(json_at(body, "series.count"));

	json_object_put(body);
	return count;
}

static void assert_patch(size_t i, size_t of, int count)
{
	struct json_object *event = body_of(of);
	char path[1000];

	assert_true(i < n_calls);
	assert_string_equal(calls[i].method, "PATCH");
	assert_string_equal(calls[i].content_type, "application/merge-patch+json");
	(void)snprintf(path, sizeof path, "%s/%s", calls[of].path,
		       json_text(event, "metadata.name"));
	assert_string_equal(calls[i].path, path);
	assert_int_equal(count_of(i), count);
	json_object_put(event);
}

/* ---- what is sent ---- */

static void first_one(void **state)
{
	(void)state;
	tell("llm-7f9c", "too many");
	assert_int_equal(n_calls, 1);
	assert_post(0);
	assert_string_equal(calls[0].path, "/apis/events.k8s.io/v1/namespaces/a-train/events");

	struct json_object *body = body_of(0);
	assert_string_equal(json_text(body, "apiVersion"), "events.k8s.io/v1");
	assert_string_equal(json_text(body, "kind"), "Event");
	assert_string_equal(json_text(body, "metadata.namespace"), "a-train");
	assert_int_equal(strncmp(json_text(body, "metadata.name"), "llm-7f9c.", 9), 0);
	assert_int_equal(strlen(json_text(body, "metadata.name")), 9 + 16);
	assert_string_equal(json_text(body, "eventTime"), "2027-01-15T08:00:00.000000Z");
	assert_string_equal(json_text(body, "reportingController"), "gpuquota.io/gpuquota");
	assert_string_equal(json_text(body, "reportingInstance"), "gpuquota-0");
	assert_string_equal(json_text(body, "action"), "Deny");
	assert_string_equal(json_text(body, "reason"), "GPUQuotaExceeded");
	assert_string_equal(json_text(body, "regarding.apiVersion"), "apps/v1");
	assert_string_equal(json_text(body, "regarding.kind"), "ReplicaSet");
	assert_string_equal(json_text(body, "regarding.namespace"), "a-train");
	assert_string_equal(json_text(body, "regarding.name"), "llm-7f9c");
	assert_string_equal(json_text(body, "regarding.uid"), "u-1");
	assert_string_equal(json_text(body, "note"), "too many");
	assert_string_equal(json_text(body, "type"), "Warning");
	assert_null(json_at(body, "series"));
	json_object_put(body);

	finish(0, 0);
	assert_int_equal(stats().written, 1);
	assert_int_equal(n_timers, 0);
}

/* What is not known is left out, and what has no namespace goes where the API server takes it. */
static void least(void **state)
{
	(void)state;
	const struct gq_event_note note = {.regarding = {.api_version = "",
							 .kind = "Node",
							 .namespace_ = "",
							 .name = "n",
							 .uid = ""},
					   .reason = "R",
					   .action = "A",
					   .text = ""};
	gq_events_note(events, &note);
	assert_post(0);
	assert_string_equal(calls[0].path, "/apis/events.k8s.io/v1/namespaces/default/events");
	struct json_object *body = body_of(0);
	assert_string_equal(json_text(body, "metadata.namespace"), "default");
	assert_int_equal(json_object_object_length(json_at(body, "regarding")), 2);
	assert_string_equal(json_text(body, "type"), "Normal");
	json_object_put(body);
}

/* Every Event has a name that the API server takes, and its own. */
static void names(void **state)
{
	(void)state;
	static const char a60[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
	char dots[254] = "", longest[254] = "";

	for (int i = 0; i < 4; i++)
		(void)snprintf(longest + strlen(longest), sizeof longest - strlen(longest), "%s%s",
			       a60, i < 3 ? "." : "");
	(void)snprintf(dots, sizeof dots, "%.179s.%.55s.b.c", longest, a60);
	assert_int_equal(dots[235], '.');
	const struct {
		const char *name, *prefix;
		size_t len; /* of the Event's name; 0: not of interest */
	} cases[] = {
	    {"a", "a.", 18},          {"a-1.b", "a-1.b.", 22},  {"UPPER", "gpuquota.", 0},
	    {"a/b", "gpuquota.", 0},  {"..", "gpuquota.", 0},   {"-a", "gpuquota.", 0},
	    {"a-", "gpuquota.", 0},   {"a..b", "gpuquota.", 0}, {"a.-b", "gpuquota.", 0},
	    {"a-.b", "gpuquota.", 0}, {"a b", "gpuquota.", 0},  {"\xff", "gpuquota.", 0},
	    {longest, a60, 253},      {dots, a60, 252},
	};
	for (size_t i = 0; i < LEN(cases); i++) {
		tell(cases[i].name, "");
		assert_post(i);
		struct json_object *body = body_of(i);
		const char *name = json_text(body, "metadata.name");
		assert_int_equal(strncmp(name, cases[i].prefix, strlen(cases[i].prefix)), 0);
		assert_null(strstr(name, ".."));
		if (cases[i].len)
			assert_int_equal(strlen(name), cases[i].len);
		for (size_t j = 0; j < i; j++)
			assert_null(strstr(calls[j].body, name));
		json_object_put(body);
	}
}

/* Notes of people who reach the webhook and write what they like. */
static void unsound(void **state)
{
	(void)state;
	static const char *const namespaces[] = {
	    "../../kube-system",
	    "a/b",
	    "a.b",
	    "A",
	    "a?b",
	    "-",
	    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
	char big[1100];

	for (size_t i = 0; i < LEN(namespaces); i++) {
		struct gq_event_note note = note_of("x", "");
		note.regarding.namespace_ = namespaces[i];
		gq_events_note(events, &note);
	}
	memset(big, 'k', sizeof big);
	big[sizeof big - 1] = '\0';
	struct gq_event_note note = note_of("x", "");
	note.regarding.kind = big;
	gq_events_note(events, &note);
	note.regarding.kind = "";
	gq_events_note(events, &note);
	tell("", "");
	assert_int_equal(n_calls, 0);
	assert_int_equal(stats().dropped, LEN(namespaces) + 3);
	assert_int_equal(stats().failed, 0);

	note.regarding.kind = "\"\\\x01\xff";
	gq_events_note(events, &note);
	struct json_object *body = body_of(0);
	assert_string_equal(json_text(body, "regarding.kind"), "\"\\\x01\xef\xbf\xbd");
	json_object_put(body);
}

static void texts(void **state)
{
	(void)state;
	static char a1021[1022], a1023[1024], a1024[1025], a1025[1026], umlauts[1028];
	char cut1021[1025], cut_umlauts[1025];
	const struct {
		const char *text, *note;
	} cases[] = {
	    {"one\ntwo\r\n\tthree\x7f.\n", "one two   three ."},
	    {"bad \xff\xc3", "bad"},
	    {"日本\xe6\x97", "日本"},
	    {"\n", ""},
	    {a1023, a1023},
	    {a1024, a1024},
	    {a1025, cut1021},
	    {umlauts, cut_umlauts},
	};

	memset(a1021, 'a', sizeof a1021 - 1);
	memset(a1023, 'a', sizeof a1023 - 1);
	memset(a1024, 'a', sizeof a1024 - 1);
	memset(a1025, 'a', sizeof a1025 - 1);
	for (size_t i = 0; i + 2 < sizeof umlauts; i += 2)
		memcpy(umlauts + i, "ä", 2);
	(void)snprintf(cut1021, sizeof cut1021, "%s…", a1021);
	(void)snprintf(cut_umlauts, sizeof cut_umlauts, "%.1020s…", umlauts);
	for (size_t i = 0; i < LEN(cases); i++) {
		char name[16];
		(void)snprintf(name, sizeof name, "x%zu", i);
		tell(name, cases[i].text);
		struct json_object *body = body_of(i);
		assert_string_equal(json_text(body, "note"), cases[i].note);
		assert_true(strlen(json_text(body, "note")) <= 1024);
		json_object_put(body);
	}
}

static void long_instance(void **state)
{
	(void)state;
	char instance[254];

	memset(instance, 'p', sizeof instance - 1);
	instance[sizeof instance - 1] = '\0';
	gq_events_free(events);
	events = gq_events_new(
	    &(struct gq_events_options){.clock = &app_time.clock, .instance = instance});
	tell("x", "");
	struct json_object *body = body_of(0);
	assert_int_equal(strlen(json_text(body, "reportingInstance")), 128);
	json_object_put(body);
}

/* ---- series ---- */

static void repeats(void **state)
{
	(void)state;
	tell("x", "too many");
	tell("x", "too many"); /* while the first is on its way */
	assert_int_equal(n_calls, 1);
	pass_s(0.3);
	finish(0, 0);
	pass_s(10);
	tell("x", "too many");
	pass_s(19.6);
	assert_int_equal(n_calls, 1);
	pass_s(0.2);
	assert_int_equal(n_calls, 2);
	assert_patch(1, 0, 3);
	struct json_object *body = body_of(1);
	assert_int_equal(json_object_object_length(body), 1);
	assert_string_equal(json_text(body, "series.lastObservedTime"),
			    "2027-01-15T08:00:10.000000Z");
	json_object_put(body);
	finish(1, 0);
	assert_int_equal(stats().written, 2);

	/* later than 30 s: at once */
	pass_s(300);
	assert_int_equal(n_calls, 2);
	assert_int_equal(n_timers, 0);
	tell("x", "too many");
	assert_patch(2, 0, 4);
	finish(2, 0);

	/* with ten minutes of silence it begins anew */
	pass_s(600);
	tell("x", "too many");
	assert_patch(3, 0, 5);
	finish(3, 0);
	pass_s(601);
	tell("x", "too many");
	assert_post(4);
	assert_int_equal(count_of(4), 0);
	finish(4, 0);
	pass_s(31);
	tell("x", "too many");
	assert_patch(5, 4, 2);
}

/* The text of an Event can't change: the newest is in a new one, with what was not counted yet. */
static void other_text(void **state)
{
	(void)state;
	tell("x", "one");
	finish(0, 0);
	pass_s(5);
	tell("x", "one");
	tell("x", "one");
	pass_s(5);
	tell("x", "two");
	pass_s(21);
	assert_int_equal(n_calls, 2);
	assert_post(1);
	struct json_object *body = body_of(1);
	assert_string_equal(json_text(body, "note"), "two");
	assert_string_equal(json_text(body, "eventTime"), "2027-01-15T08:00:05.000000Z");
	assert_string_equal(json_text(body, "series.lastObservedTime"),
			    "2027-01-15T08:00:10.000000Z");
	json_object_put(body);
	assert_int_equal(count_of(1), 3);
	finish(1, 0);
	pass_s(31);
	tell("x", "two");
	assert_patch(2, 1, 4);
}

static void apart(void **state)
{
	(void)state;
	struct gq_event_note note = note_of("x", "same");
	const struct gq_event_note first = note;

	gq_events_note(events, &note);
	note.topic = "team-a";
	gq_events_note(events, &note);
	note.topic = "team-b";
	gq_events_note(events, &note);
	note = first;
	note.reason = "GPUPodRefused";
	gq_events_note(events, &note);
	note = first;
	note.regarding.name = "y";
	gq_events_note(events, &note);
	note = first;
	note.regarding.uid = "u-2";
	gq_events_note(events, &note);
	note = first;
	note.regarding.namespace_ = "a-serve";
	gq_events_note(events, &note);
	note = first;
	note.regarding.kind = "Job";
	gq_events_note(events, &note);
	assert_int_equal(n_calls, 8);
	for (size_t i = 0; i < n_calls; i++) {
		assert_post(i);
		assert_has_not(calls[i].body, "team-");
	}
	gq_events_note(events, &first);
	assert_int_equal(n_calls, 8);
}

/* ---- failures ---- */

static void expired(void **state)
{
	(void)state;
	tell("x", "same");
	finish(0, 0);
	pass_s(31);
	tell("x", "same");
	tell("x", "same");
	assert_patch(1, 0, 2);
	pass_s(1);
	finish(1, GQ_ENOTFOUND);
	assert_int_equal(n_calls, 3);
	assert_post(2);
	assert_int_equal(count_of(2), 2);
	assert_has(calls[2].body, "\"eventTime\":\"2027-01-15T08:00:31.000000Z\"");
	assert_has(calls[2].body, "\"note\":\"same\"");
	finish(2, 0);
	assert_int_equal(stats().failed, 0);
	assert_int_equal(stats().written, 2);

	/* more was noted meanwhile, in other words */
	pass_s(31);
	tell("x", "same");
	assert_patch(3, 2, 3);
	pass_s(1);
	tell("x", "other");
	finish(3, GQ_ENOTFOUND);
	assert_post(4);
	assert_int_equal(count_of(4), 2);
	assert_has(calls[4].body, "\"eventTime\":\"2027-01-15T08:01:03.000000Z\"");
	assert_has(calls[4].body, "\"note\":\"other\"");
}

static void not_written(void **state)
{
	(void)state;
	static const int codes[] = {GQ_EDENIED, GQ_ENOTFOUND, GQ_EIO, GQ_ETHROTTLED, GQ_EINVALID};

	for (size_t i = 0; i < LEN(codes); i++) {
		/* forgotten, and not tried again before the pause is over */
		tell("x", "same");
		assert_int_equal(n_calls, i + 1);
		assert_post(i);
		assert_int_equal(count_of(i), 0);
		finish(i, codes[i]);
		assert_int_equal(stats().failed, i + 1);
		pass_s(31);
		assert_int_equal(n_calls, i + 1);
	}
	assert_int_equal(stats().written, 0);
	tell("x", "same");
	finish(5, 0);
	/* a count that may have come through stays */
	pass_s(31);
	tell("x", "same");
	assert_patch(6, 5, 2);
	finish(6, GQ_EIO);
	pass_s(31);
	tell("x", "same");
	assert_patch(7, 5, 3);
}

static void not_started(void **state)
{
	(void)state;
	start_code = GQ_ENOMEM;
	tell("x", "same");
	assert_int_equal(n_calls, 0);
	assert_int_equal(stats().failed, 1);
	start_code = 0;
	tell("x", "same");
	assert_int_equal(n_calls, 0);
	pass_s(31);
	assert_int_equal(n_calls, 1);
	assert_post(0);
	assert_int_equal(count_of(0), 0);

	/* without a timer the next note sees to it */
	finish(0, 0);
	after_code = GQ_ENOMEM;
	tell("x", "same");
	pass_s(31);
	assert_int_equal(n_calls, 1);
	tell("y", "same");
	assert_int_equal(n_calls, 3);
	assert_patch(2, 0, 2);
	after_code = 0;
	tell("y", "same");
	finish(1, 0);
	assert_int_equal(n_timers, 1);
}

static void no_memory(void **state)
{
	(void)state;
	bool failed = true;

	for (int nth = 0; failed; nth++) {
		char name[16];
		(void)snprintf(name, sizeof name, "x%d", nth);
		size_t before = n_calls;
		struct gq_events_stats was = stats();
		fail_alloc(nth);
		tell(name, "some text");
		failed = fail_alloc_done();
		struct gq_events_stats is = stats();
		assert_int_equal(is.dropped + is.failed - was.dropped - was.failed, failed);
		assert_int_equal(n_calls, before + !failed);
		assert_true(nth < 50);
		pass_s(1);
	}
	fail_alloc(0);
	assert_null(gq_events_new(&(struct gq_events_options){.clock = &app_time.clock}));
	fail_alloc(1);
	assert_null(gq_events_new(&(struct gq_events_options){.clock = &app_time.clock}));
	fail_alloc(-1);
}

/* ---- bounds ---- */

static void tell_in(const char *namespace_, const char *name)
{
	struct gq_event_note note = note_of(name, "");

	note.regarding.namespace_ = namespace_;
	gq_events_note(events, &note);
}

static void rate(void **state)
{
	(void)state;
	char name[16];

	for (int i = 0; i < 200; i++) {
		(void)snprintf(name, sizeof name, "x%d", i);
		tell_in(i % 2 ? "a" : "b", name);
	}
	assert_int_equal(n_calls, 20);
	assert_int_equal(stats().dropped, 200 - 20 - 64);
	pass_s(10);
	assert_int_equal(n_calls, 40);
	/* in their order */
	assert_has(calls[39].body, "\"name\":\"x39\"");
	/* those that were dropped are told when there is room */
	tell_in("a", "x199");
	assert_int_equal(stats().dropped, 200 - 20 - 64);
	pass_s(22.4);
	assert_int_equal(n_calls, 84);
	pass_s(0.2);
	assert_int_equal(n_calls, 85);
	assert_has(calls[84].body, "\"name\":\"x199\"");
	pass_s(100);
	assert_int_equal(n_calls, 85);
	assert_int_equal(n_timers, 0);
	for (int i = 200; i < 300; i++) {
		(void)snprintf(name, sizeof name, "x%d", i);
		tell_in(i % 2 ? "a" : "b", name);
	}
	assert_int_equal(n_calls, 105);
}

/* Who fills the queue leaves room for the others. */
static void shares(void **state)
{
	(void)state;
	char name[16];

	for (int i = 0; i < 100; i++) {
		(void)snprintf(name, sizeof name, "x%d", i);
		tell_in("a", name);
	}
	assert_int_equal(stats().dropped, 100 - 20 - 32);
	tell_in("b", "y");
	assert_int_equal(stats().dropped, 100 - 20 - 32);
	pass_s(16.6);
	assert_has(calls[n_calls - 1].body, "\"name\":\"y\"");
}

/* Repeats wait for room and are not lost. */
static void repeats_wait(void **state)
{
	(void)state;
	char name[16];

	tell_in("a", "first");
	finish(0, 0);
	tell_in("a", "first");
	pass_s(29);
	for (int i = 0; i < 60; i++) {
		(void)snprintf(name, sizeof name, "x%d", i);
		tell_in("a", name);
	}
	assert_int_equal(n_calls, 21);
	pass_s(60);
	assert_int_equal(n_calls, 1 + 20 + 32 + 1);
	assert_patch(n_calls - 1, 0, 2);
}

/* Of more than 1,024 series those are forgotten that were not heard of for longest. */
static void many(void **state)
{
	(void)state;
	char name[16];

	for (int i = 0; i < 1026; i++) {
		(void)snprintf(name, sizeof name, "x%d", i);
		tell(name, "same");
		assert_int_equal(n_calls, i + 1);
		if (i > 0)
			finish((size_t)i, 0);
		pass_s(0.5);
	}
	/* x0 is on its way still, so x1 and x2 are gone */
	finish(0, 0);
	tell("x3", "same");
	assert_patch(1026, 3, 2);
	tell("x0", "same");
	assert_patch(1027, 0, 2);
	pass_s(10);
	tell("x2", "same");
	assert_post(1028);
	assert_int_equal(stats().dropped, 0);
}

/* ---- threads ---- */

#define TELLERS 4
#define TELLS 2000

static int64_t ticking_ns(void *arg)
{
	return atomic_fetch_add((_Atomic int64_t *)arg, 10 * GQ_NS_PER_MS);
}

static void *teller(void *arg)
{
	for (int i = 0; i < TELLS; i++) {
		char name[16];
		(void)snprintf(name, sizeof name, "x%d", i % 30);
		tell(name, (i + *(int *)arg) % 3 ? "same" : "other");
	}
	return NULL;
}

static int64_t still_s(void *arg)
{
	(void)arg;
	return START_WALL_S;
}

static bool is_patch(size_t i)
{
	return strcmp(calls[i].method, "PATCH") == 0;
}

/* Some Events expire before they are counted up. */
static bool lost(size_t i)
{
	return is_patch(i) && i % 5 == 4;
}

/* What the client's thread does: the answer to one request, or a timer. False: there is none. */
static bool client_step(size_t *done)
{
	void (*on_due)(void *) = NULL;
	void *arg = NULL;

	pthread_mutex_lock(&played);
	bool answer = *done < n_calls;
	if (!answer && n_timers > 0) {
		on_due = timers[--n_timers].on_due;
		arg = timers[n_timers].arg;
	}
	pthread_mutex_unlock(&played);
	if (answer) {
		size_t i = (*done)++;
		finish(i, lost(i) ? GQ_ENOTFOUND : 0);
	} else if (on_due) {
		on_due(arg);
	}
	return answer || on_due;
}

/* What the Event that request i made says in the end. */
static int64_t last_count(size_t i)
{
	struct json_object *event = body_of(i);
	int64_t count = count_of(i) ? count_of(i) : 1;

	for (size_t j = i + 1; j < n_calls; j++)
		if (is_patch(j) && !lost(j) &&
		    strstr(calls[j].path, json_text(event, "metadata.name")))
			count = count_of(j);
	json_object_put(event);
	return count;
}

/* The client's thread answers while others note: every note is counted, and counted once. */
static void threads(void **state)
{
	(void)state;
	_Atomic int64_t now_ns = START_NS;
	const struct gq_clock ticking = {ticking_ns, still_s, &now_ns};
	pthread_t tellers[TELLERS];
	int numbers[TELLERS];
	size_t done = 0;
	int64_t told = 0;

	gq_events_free(events);
	events =
	    gq_events_new(&(struct gq_events_options){.clock = &ticking, .instance = "gpuquota-0"});
	for (int i = 0; i < TELLERS; i++) {
		numbers[i] = i;
		assert_int_equal(pthread_create(&tellers[i], NULL, teller, &numbers[i]), 0);
	}
	for (int i = 0; i < 3000; i++)
		(void)client_step(&done);
	for (int i = 0; i < TELLERS; i++)
		assert_int_equal(pthread_join(tellers[i], NULL), 0);
	while (client_step(&done))
		;
	for (size_t i = 0; i < n_calls; i++)
		told += is_patch(i) ? 0 : last_count(i);
	assert_int_equal(told, TELLERS * TELLS);
	assert_int_equal(stats().dropped + stats().failed, 0);
}

/* ---- ends ---- */

/* The client ends with requests under way and others waiting. */
static void ends(void **state)
{
	(void)state;
	char name[16];

	for (int i = 0; i < 30; i++) {
		(void)snprintf(name, sizeof name, "x%d", i);
		tell(name, "same");
		tell(name, "same");
	}
	assert_int_equal(n_calls, 20);
	start_code = GQ_EINVALID;
	after_code = GQ_EINVALID;
	for (size_t i = 0; i < 20; i++)
		finish(i, GQ_EIO);
	assert_int_equal(stats().failed, 20);
	gq_events_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(first_one, setup, teardown),
	    cmocka_unit_test_setup_teardown(least, setup, teardown),
	    cmocka_unit_test_setup_teardown(names, setup, teardown),
	    cmocka_unit_test_setup_teardown(unsound, setup, teardown),
	    cmocka_unit_test_setup_teardown(texts, setup, teardown),
	    cmocka_unit_test_setup_teardown(long_instance, setup, teardown),
	    cmocka_unit_test_setup_teardown(repeats, setup, teardown),
	    cmocka_unit_test_setup_teardown(other_text, setup, teardown),
	    cmocka_unit_test_setup_teardown(apart, setup, teardown),
	    cmocka_unit_test_setup_teardown(expired, setup, teardown),
	    cmocka_unit_test_setup_teardown(not_written, setup, teardown),
	    cmocka_unit_test_setup_teardown(not_started, setup, teardown),
	    cmocka_unit_test_setup_teardown(no_memory, setup, teardown),
	    cmocka_unit_test_setup_teardown(rate, setup, teardown),
	    cmocka_unit_test_setup_teardown(shares, setup, teardown),
	    cmocka_unit_test_setup_teardown(repeats_wait, setup, teardown),
	    cmocka_unit_test_setup_teardown(many, setup, teardown),
	    cmocka_unit_test_setup_teardown(threads, setup, teardown),
	    cmocka_unit_test_setup_teardown(ends, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
