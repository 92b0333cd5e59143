#include "controller/events.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/utf8.h"

#define SERIES_MAX 1024
#define QUEUE_MAX 64
#define QUEUE_MAX_NAMESPACE (QUEUE_MAX / 2)
#define KEY_MAX_BYTES 1024

#define SERIES_WINDOW_NS (600 * GQ_NS_PER_S) /* a longer silence ends a series */
#define SERIES_PAUSE_NS (30 * GQ_NS_PER_S)   /* between two writes of one series */
#define WRITE_NS (500 * GQ_NS_PER_MS)        /* what one write costs of the credit */
#define CREDIT_MAX_NS (20 * WRITE_NS)
#define WRITE_TIMEOUT_NS (10 * GQ_NS_PER_S)

/* What the API server accepts. */
#define NOTE_MAX_BYTES 1024
#define WORD_MAX_BYTES 128 /* reportingInstance, reason, action */
#define NAME_MAX_BYTES 253
#define LABEL_MAX_BYTES 63

#define CONTROLLER "gpuquota.io/gpuquota"
#define COLLECTION "/apis/events.k8s.io/v1/namespaces/"
#define CUT_MARK "…"

/* Of the answers only whether they came. */
static const struct gq_json_keep keep_kind[] = {{"kind", NULL}, GQ_JSON_KEEP_END};

enum part { API_VERSION, KIND, NAMESPACE, NAME, UID, REASON, ACTION, TOPIC, PARTS };

/* What has been noted of a series and not been told. */
struct news {
	uint64_t count;
	char *text; /* the newest; owned */
	int64_t first_s, last_s;
};

enum series_state {
	IDLE,
	HELD,    /* has news, but was written less than SERIES_PAUSE_NS ago */
	QUEUED,  /* has news, and waits for credit */
	WRITING, /* a request is on its way, so it must stay in place */
};

struct series {
	struct gq_events *events;
	bool warning;
	enum series_state state;
	int64_t noted_ns; /* last */
	int64_t begun_ns; /* the last write; 0: none */
	struct news news;

	/* The Event of this series that can be counted up; 0: none. */
	uint64_t event_id;
	uint64_t event_count;
	uint64_t event_text; /* its hash */

	/* What is being written: a new Event, or event_id's count. */
	uint64_t new_id; /* 0: not new */
	struct news going;

	const char *parts[PARTS]; /* in key */
	size_t key_len;
	char key[]; /* the parts, each with its NUL */
};

struct gq_events {
	struct gq_api *api;
	const struct gq_clock *clock;
	char instance[WORD_MAX_BYTES + 1];

	struct gq_lock lock;             /* of what follows */
	struct gq_map *by_key;           /* every series */
	struct series *queue[QUEUE_MAX]; /* oldest first */
	size_t n_queue;
	int64_t held_until_ns; /* the next look at those held; INT64_MAX: none */
	int64_t credit_ns;
	int64_t credit_at_ns;
	bool timer;       /* one is set */
	uint64_t next_id; /* of a new Event, before it is made unpredictable */
	struct gq_events_stats stats;
};

/* ---- text ---- */

/* Copies text as far as it fits, between characters; what is no character, and line breaks and the
 * like, become spaces. size: > sizeof CUT_MARK. */
static void copy_text(char *to, size_t size, const char *text)
{
	size_t len = 0, fits = 0;

	for (size_t width; *text; text += width) {
		bool plain = true;
		width = gq_utf8_width(text, strnlen(text, 4));
		if (width == 0 || (unsigned char)*text < 0x20 || *text == 0x7f) {
			plain = false;
			width = 1;
		}
		if (len + width >= size) {
			memcpy(to + fits, CUT_MARK, sizeof CUT_MARK);
			return;
		}
		if (plain)
			memcpy(to + len, text, width);
		else
			to[len] = ' ';
		len += width;
		if (len + sizeof CUT_MARK <= size)
			fits = len;
	}
	while (len > 0 && to[len - 1] == ' ')
		len--;
	to[len] = '\0';
}

/* Whether it is a name as RFC 1123 has it, and so can be part of a path: labels with dots between
 * them. */
static bool is_dns_name(const char *text, size_t max_bytes)
{
	size_t len = strnlen(text, max_bytes + 1);

	if (len == 0 || len > max_bytes)
		return false;
	for (size_t i = 0; i < len; i++) {
		bool alnum =
		    (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= '0' && text[i] <= '9');
		bool edge = i == 0 || i + 1 == len || text[i - 1] == '.' || text[i + 1] == '.';
		if (!alnum && (edge || (text[i] != '-' && text[i] != '.')))
			return false;
	}
	return true;
}

static bool is_namespace(const char *text)
{
	return is_dns_name(text, LABEL_MAX_BYTES) && !strchr(text, '.');
}

static const char *namespace_of(const struct series *series)
{
	return series->parts[NAMESPACE][0] ? series->parts[NAMESPACE] : "default";
}

static void put_string(struct gq_buf *out, const char *key, const char *value)
{
	gq_buf_printf(out, "\"%s\":", key);
	gq_buf_json_string(out, value, strlen(value));
}

static void put_time(struct gq_buf *out, const char *key, int64_t wall_s)
{
	time_t seconds = (time_t)wall_s;
	struct tm utc = {0};
	char text[48] = "";

	(void)gmtime_r(&seconds, &utc);
	(void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S.000000Z", &utc);
	put_string(out, key, text);
}

static void put_series(struct gq_buf *out, uint64_t count, int64_t last_s)
{
	/* the API has 32 bits for it */
	gq_buf_printf(out, "\"series\":{\"count\":%" PRIu64 ",",
		      count < INT32_MAX ? count : INT32_MAX);
	put_time(out, "lastObservedTime", last_s);
	gq_buf_putc(out, '}');
}

static void put_event_name(struct gq_buf *out, const struct series *series, uint64_t id)
{
	const char *name = series->parts[NAME];
	size_t len = strlen(name);

	if (!is_dns_name(name, NAME_MAX_BYTES)) {
		name = "gpuquota";
		len = strlen(name);
	}
	if (len > NAME_MAX_BYTES - 17)
		len = NAME_MAX_BYTES - 17;
	while (name[len - 1] == '.' || name[len - 1] == '-')
		len--;
	gq_buf_append(out, name, len);
	gq_buf_printf(out, ".%016" PRIx64, id);
}

static void put_regarding(struct gq_buf *out, const struct series *series)
{
	static const struct {
		enum part part;
		const char *key;
	} optional[] = {{API_VERSION, "apiVersion"}, {NAMESPACE, "namespace"}, {UID, "uid"}};

	gq_buf_puts(out, "\"regarding\":{");
	put_string(out, "kind", series->parts[KIND]);
	gq_buf_putc(out, ',');
	put_string(out, "name", series->parts[NAME]);
	for (size_t i = 0; i < sizeof optional / sizeof optional[0]; i++) {
		const char *value = series->parts[optional[i].part];
		if (!value[0])
			continue;
		gq_buf_putc(out, ',');
		put_string(out, optional[i].key, value);
	}
	gq_buf_putc(out, '}');
}

static void put_event(struct gq_buf *out, const struct series *series)
{
	const struct news *going = &series->going;
	struct gq_buf name GQ_BUF_CLEANUP = GQ_BUF_INIT(NAME_MAX_BYTES);

	put_event_name(&name, series, series->new_id);
	if (name.code) {
		out->code = name.code;
		return;
	}
	gq_buf_puts(out, "{\"apiVersion\":\"events.k8s.io/v1\",\"kind\":\"Event\",\"metadata\":{");
	put_string(out, "namespace", namespace_of(series));
	gq_buf_putc(out, ',');
	put_string(out, "name", name.data);
	gq_buf_puts(out, "},");
	put_time(out, "eventTime", going->first_s);
	gq_buf_puts(out, ",\"reportingController\":\"" CONTROLLER "\",");
	put_string(out, "reportingInstance", series->events->instance);
	gq_buf_putc(out, ',');
	put_string(out, "action", series->parts[ACTION]);
	gq_buf_putc(out, ',');
	put_string(out, "reason", series->parts[REASON]);
	gq_buf_putc(out, ',');
	put_regarding(out, series);
	gq_buf_putc(out, ',');
	put_string(out, "note", going->text);
	gq_buf_printf(out, ",\"type\":\"%s\"", series->warning ? "Warning" : "Normal");
	if (going->count > 1) {
		gq_buf_putc(out, ',');
		put_series(out, going->count, going->last_s);
	}
	gq_buf_putc(out, '}');
}

/* ---- series; all with the lock ---- */

static void series_free(struct series *series)
{
	if (!series)
		return;
	free(series->news.text);
	free(series->going.text);
	free(series);
}

static struct series *series_new(struct gq_events *events, const struct gq_buf *key)
{
	struct series *series = calloc(1, sizeof *series + key->len);
	size_t at = 0;

	if (!series)
		return NULL;
	series->events = events;
	series->key_len = key->len;
	memcpy(series->key, key->data, key->len);
	for (int part = 0; part < PARTS; part++) {
		series->parts[part] = series->key + at;
		at += strlen(series->key + at) + 1;
	}
	return series;
}

/* Of those that have nothing to tell: few others can there be, as few are written. */
static bool forget_oldest(struct gq_events *events)
{
	struct series *oldest = NULL;
	size_t cursor = 0;

	for (struct series *at; (at = gq_map_next(events->by_key, &cursor));)
		if (at->state == IDLE && (!oldest || at->noted_ns < oldest->noted_ns))
			oldest = at;
	if (!oldest)
		return false;
	gq_map_remove(events->by_key, oldest->key, oldest->key_len);
	series_free(oldest);
	return true;
}

static bool has_room(const struct gq_events *events, const char *namespace_)
{
	size_t same = 0;

	if (events->n_queue == QUEUE_MAX)
		return false;
	for (size_t i = 0; i < events->n_queue; i++)
		same += strcmp(events->queue[i]->parts[NAMESPACE], namespace_) == 0;
	return same < QUEUE_MAX_NAMESPACE;
}

/* When the series may be written, if it has news. */
static int64_t due_ns(const struct series *series)
{
	return series->begun_ns ? series->begun_ns + SERIES_PAUSE_NS : 0;
}

/* For a series with news that waits for nothing yet. */
static void await_turn(struct gq_events *events, struct series *series, int64_t now_ns)
{
	if (due_ns(series) <= now_ns && has_room(events, series->parts[NAMESPACE])) {
		series->state = QUEUED;
		events->queue[events->n_queue++] = series;
		return;
	}
	series->state = HELD;
	int64_t until_ns = due_ns(series) > now_ns ? due_ns(series) : now_ns + WRITE_NS;
	if (events->held_until_ns > until_ns)
		events->held_until_ns = until_ns;
}

/* Those whose pause is over go on to the queue, as far as it has room. */
static void release_held(struct gq_events *events, int64_t now_ns)
{
	size_t cursor = 0;

	if (now_ns < events->held_until_ns)
		return;
	events->held_until_ns = INT64_MAX;
	for (struct series *at; (at = gq_map_next(events->by_key, &cursor));)
		if (at->state == HELD)
			await_turn(events, at, now_ns);
}

/* ---- writing ---- */

static void pump(struct gq_events *events);

/* With the lock. What was on its way is news again, for a new Event. */
static void take_back(struct series *series)
{
	struct news *news = &series->news, *going = &series->going;

	if (news->count == 0) {
		free(news->text);
		*news = *going;
		going->text = NULL;
	} else {
		news->count += going->count;
		news->first_s = going->first_s;
	}
	series->event_id = 0;
	series->begun_ns = 0;
}

/* The write is over; code as in struct gq_api_response. */
static void written(struct series *series, int code)
{
	struct gq_events *events = series->events;

	gq_lock_take(&events->lock);
	if (code == GQ_ENOTFOUND && !series->new_id) {
		take_back(series); /* Events expire */
	} else {
		events->stats.written += code == 0;
		events->stats.failed += code != 0;
		if (!series->new_id) {
			series->event_count += series->going.count;
		} else {
			series->event_id = code ? 0 : series->new_id;
			series->event_count = series->going.count;
			series->event_text =
			    gq_hash(series->going.text, strlen(series->going.text));
		}
	}
	free(series->going.text);
	series->going = (struct news){0};
	series->state = IDLE;
	if (series->news.count > 0)
		await_turn(events, series, gq_clock_mono_ns(events->clock));
	gq_lock_release(&events->lock);
}

static void on_written(void *arg, const struct gq_api_response *response)
{
	struct series *series = arg;
	struct gq_events *events = series->events;

	if (response->code && (response->code != GQ_ENOTFOUND || series->new_id))
		gq_log(GQ_LOG_WARN, "an event could not be written",
		       GQ_S("namespace", namespace_of(series)),
		       GQ_S("reason", series->parts[REASON]), GQ_S("problem", response->error));
	written(series, response->code);
	pump(events);
}

/* With the lock. The next that may be written now, on its way then; or NULL. */
static struct series *next_to_write(struct gq_events *events)
{
	int64_t now_ns = gq_clock_mono_ns(events->clock);

	events->credit_ns += now_ns - events->credit_at_ns;
	events->credit_ns = events->credit_ns < CREDIT_MAX_NS ? events->credit_ns : CREDIT_MAX_NS;
	events->credit_at_ns = now_ns;
	release_held(events, now_ns);
	if (events->n_queue == 0 || events->credit_ns < WRITE_NS)
		return NULL;
	events->credit_ns -= WRITE_NS;

	struct series *series = events->queue[0];
	events->n_queue--;
	for (size_t i = 0; i < events->n_queue; i++)
		events->queue[i] = events->queue[i + 1];
	series->state = WRITING;
	series->begun_ns = now_ns;
	series->going = series->news;
	series->news = (struct news){0};
	series->new_id = 0;
	if (!series->event_id ||
	    series->event_text != gq_hash(series->going.text, strlen(series->going.text))) {
		events->next_id++;
		series->new_id = gq_hash(&events->next_id, sizeof events->next_id) | 1;
	}
	return series;
}

/* Without the lock: what is read here stays while a write is on its way. */
static int start_write(struct series *series, struct gq_err *err)
{
	struct gq_buf path GQ_BUF_CLEANUP = GQ_BUF_INIT(512);
	struct gq_buf body GQ_BUF_CLEANUP = GQ_BUF_INIT(16u << 10);

	gq_buf_printf(&path, COLLECTION "%s/events", namespace_of(series));
	if (series->new_id) {
		put_event(&body, series);
	} else {
		gq_buf_putc(&path, '/');
		put_event_name(&path, series, series->event_id);
		gq_buf_putc(&body, '{');
		put_series(&body, series->event_count + series->going.count, series->going.last_s);
		gq_buf_putc(&body, '}');
	}
	if (path.code || body.code)
		return gq_fail(err, path.code ? path.code : body.code, "out of memory");
	const struct gq_api_request request = {
	    .method = series->new_id ? "POST" : "PATCH",
	    .path = path.data,
	    .content_type = series->new_id ? "application/json" : "application/merge-patch+json",
	    .body = body.data,
	    .body_len = body.len,
	    .keep = keep_kind,
	    .timeout_ns = WRITE_TIMEOUT_NS,
	    .on_done = on_written,
	    .arg = series};
	return gq_api_start(series->events->api, &request, err);
}

static void on_due(void *arg)
{
	struct gq_events *events = arg;

	gq_lock_take(&events->lock);
	events->timer = false;
	gq_lock_release(&events->lock);
	pump(events);
}

/* With the lock. How long until something can be written, at least 0; -1: nobody waits, or a timer
 * is set already. Never longer than credit for one write takes: what is noted until then must not
 * wait for a timer that was set for something else. */
static int64_t timer_wanted(struct gq_events *events)
{
	int64_t delay_ns = WRITE_NS;

	if (events->timer || (events->n_queue == 0 && events->held_until_ns == INT64_MAX))
		return -1;
	events->timer = true;
	if (events->n_queue > 0)
		delay_ns = WRITE_NS - events->credit_ns;
	else if (events->held_until_ns < events->credit_at_ns + WRITE_NS)
		delay_ns = events->held_until_ns - events->credit_at_ns;
	return delay_ns > 0 ? delay_ns : 0;
}

/* Starts what may be written now, and sees to it that the rest has its turn. */
static void pump(struct gq_events *events)
{
	struct gq_err err;

	for (;;) {
		gq_lock_take(&events->lock);
		struct series *series = next_to_write(events);
		int64_t delay_ns = series ? -1 : timer_wanted(events);
		gq_lock_release(&events->lock);
		if (!series && delay_ns >= 0 &&
		    gq_api_after(events->api, delay_ns, on_due, events, &err)) {
			/* the next note tries again */
			gq_lock_take(&events->lock);
			events->timer = false;
			gq_lock_release(&events->lock);
		}
		if (!series)
			return;
		int code = start_write(series, &err);
		if (code) {
			gq_log(GQ_LOG_WARN, "an event could not be sent",
			       GQ_S("reason", series->parts[REASON]), GQ_S("problem", err.msg));
			written(series, code);
		}
	}
}

/* ---- notes ---- */

static void put_part(struct gq_buf *key, const char *text)
{
	gq_buf_append(key, text ? text : "", text ? strlen(text) + 1 : 1);
}

/* Returns key->code. */
static int print_key(struct gq_buf *key, const struct gq_event_note *note)
{
	const struct gq_event_about *about = &note->regarding;

	/* in the order of enum part */
	put_part(key, about->api_version);
	put_part(key, about->kind);
	put_part(key, about->namespace_);
	put_part(key, about->name);
	put_part(key, about->uid);
	put_part(key, note->reason);
	put_part(key, note->action);
	put_part(key, note->topic);
	return key->code;
}

/* With the lock. NULL: out of memory, or no room for one more that waits. */
static struct series *find_or_make(struct gq_events *events, const struct gq_buf *key,
				   const struct gq_event_note *note)
{
	struct series *series = gq_map_get(events->by_key, key->data, key->len);

	if (series || !has_room(events, note->regarding.namespace_))
		return series;
	if (gq_map_count(events->by_key) >= SERIES_MAX && !forget_oldest(events))
		return NULL;
	series = series_new(events, key);
	if (!series || gq_map_put(events->by_key, series->key, series->key_len, series, NULL)) {
		series_free(series);
		return NULL;
	}
	series->warning = note->warning;
	return series;
}

/* With the lock. Takes the text. */
static void add_news(struct gq_events *events, struct series *series, char *text)
{
	int64_t now_ns = gq_clock_mono_ns(events->clock), wall_s = gq_clock_wall_s(events->clock);
	struct news *news = &series->news;

	if (series->state != WRITING && now_ns - series->noted_ns > SERIES_WINDOW_NS)
		series->event_id = 0;
	series->noted_ns = now_ns;
	free(news->text);
	news->text = text;
	if (news->count++ == 0)
		news->first_s = wall_s;
	news->last_s = wall_s;
	if (series->state == IDLE)
		await_turn(events, series, now_ns);
}

void gq_events_note(struct gq_events *events, const struct gq_event_note *note)
{
	const struct gq_event_about *about = &note->regarding;
	struct gq_buf key GQ_BUF_CLEANUP = GQ_BUF_INIT(KEY_MAX_BYTES);
	struct series *series = NULL;
	char cut[NOTE_MAX_BYTES + 1];
	char *text = NULL;

	assert(note->reason[0] && strlen(note->reason) <= WORD_MAX_BYTES);
	assert(note->action[0] && strlen(note->action) <= WORD_MAX_BYTES);
	/* these may come from whoever reaches the webhook */
	bool sound = about->kind[0] && about->name[0] &&
		     (!about->namespace_[0] || is_namespace(about->namespace_));
	if (sound && !print_key(&key, note)) {
		copy_text(cut, sizeof cut, note->text);
		text = malloc(strlen(cut) + 1);
		if (text)
			memcpy(text, cut, strlen(cut) + 1);
	}
	gq_lock_take(&events->lock);
	if (text)
		series = find_or_make(events, &key, note);
	if (series)
		add_news(events, series, GQ_STEAL(text));
	else
		events->stats.dropped++;
	gq_lock_release(&events->lock);
	free(text);
	if (series)
		pump(events);
}

/* ---- the whole ---- */

struct gq_events *gq_events_new(const struct gq_events_options *options)
{
	struct gq_events *events = calloc(1, sizeof *events);

	if (!events)
		return NULL;
	events->by_key = gq_map_new();
	if (!events->by_key) {
		free(events);
		return NULL;
	}
	events->api = options->api;
	events->clock = options->clock;
	(void)snprintf(events->instance, sizeof events->instance, "%s", options->instance);
	events->held_until_ns = INT64_MAX;
	events->credit_ns = CREDIT_MAX_NS;
	events->credit_at_ns = gq_clock_mono_ns(events->clock);
	gq_lock_init(&events->lock, GQ_RANK_LEAF);
	return events;
}

void gq_events_free(struct gq_events *events)
{
	size_t cursor = 0;

	if (!events)
		return;
	for (struct series *at; (at = gq_map_next(events->by_key, &cursor));)
		series_free(at);
	gq_map_free(events->by_key);
	gq_lock_done(&events->lock);
	free(events);
}

void gq_events_stats(struct gq_events *events, struct gq_events_stats *ret_stats)
{
	gq_lock_take(&events->lock);
	*ret_stats = events->stats;
	gq_lock_release(&events->lock);
}
