#include "controller/election.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "informer/backoff.h"
#include "quota/field.h"
#include "quota/object.h"

#define LEASE_DEFAULT_NS (5 * GQ_NS_PER_S)
#define RENEW_DEFAULT_NS (3500 * GQ_NS_PER_MS)
#define RETRY_DEFAULT_NS GQ_NS_PER_S
/* No Lease is waited for longer, whatever stands in it. */
#define DURATION_MAX_S 3600
#define IDENTITY_MAX_BYTES 253
#define TIME_BYTES 40
#define BODY_MAX_BYTES (GQ_LEASE_MAX_BYTES + (4u << 10))
/* A request shorter than this has no chance. */
#define TIMEOUT_MIN_NS (50 * GQ_NS_PER_MS)
/* Requests that follow one another without a pause: read, write, and once more after a conflict. */
#define HOPS_MAX 4
#define LOOKS_PER_RETRY 4

enum kind {
	NOTHING,
	READ,
	CREATE,
	UPDATE,
	RELEASE,
};

/* A Lease as it was last seen. */
struct record {
	bool exists, held, ours;
	char holder[IDENTITY_MAX_BYTES + 1]; /* what fits */
	char version[128];
	char acquired[TIME_BYTES], renewed[TIME_BYTES];
	int64_t transitions;
	int64_t duration_ns;
	struct gq_buf spec;    /* as it came, to see whether it changed */
	struct gq_buf carried; /* of the metadata, as it came: what others put there stays */
};

struct gq_election {
	char *identity;
	struct gq_buf head; /* of the metadata: name and namespace */
	struct gq_buf path, collection_path;
	int64_t lease_ns, renew_ns, retry_ns;
	uint64_t random;

	struct record record;
	bool stale;      /* the record must be read before anything else */
	int64_t free_ns; /* when it may be taken, unless it changes before */

	enum kind running;
	int64_t sent_ns, cycle_ns; /* this request; the first since the last pause */
	unsigned hops;             /* requests since then */
	int64_t due_ns;
	int64_t leads_until_ns; /* 0: does not lead */
	int64_t written_us;     /* the renewTime that was written last */
	bool releasing, released;
	struct gq_buf body;
};

static const struct gq_json_keep metadata_keep[] = {
    {"resourceVersion", NULL}, {"uid", NULL},        {"labels", NULL}, {"annotations", NULL},
    {"ownerReferences", NULL}, {"finalizers", NULL}, GQ_JSON_KEEP_END};
const struct gq_json_keep gq_lease_keep[] = {
    {"metadata", metadata_keep}, {"spec", NULL}, GQ_JSON_KEEP_END};
/* With its UID, a PUT of a Lease that was deleted is a conflict; without, it would make it anew. */
static const char *const carried_keys[] = {"uid", "labels", "annotations", "ownerReferences",
					   "finalizers"};

static void record_done(struct record *record)
{
	gq_buf_done(&record->spec);
	gq_buf_done(&record->carried);
}

void gq_election_free(struct gq_election *election)
{
	if (!election)
		return;
	free(election->identity);
	gq_buf_done(&election->head);
	gq_buf_done(&election->path);
	gq_buf_done(&election->collection_path);
	gq_buf_done(&election->body);
	record_done(&election->record);
	free(election);
}

static bool times_fit(const struct gq_election *election)
{
	return election->retry_ns > 0 && election->lease_ns > election->renew_ns &&
	       election->lease_ns <= DURATION_MAX_S * GQ_NS_PER_S &&
	       election->renew_ns / 6 > election->retry_ns / 5;
}

int gq_election_new(const struct gq_election_options *options, struct gq_election **ret_election,
		    struct gq_err *err)
{
	size_t len = strlen(options->identity);

	if (!len || len > IDENTITY_MAX_BYTES)
		return gq_fail(err, GQ_EINVALID, "an identity has 1 to %d bytes",
			       IDENTITY_MAX_BYTES);
	if (!gq_object_name_ok(options->namespace_) || !gq_object_name_ok(options->name))
		return gq_fail(err, GQ_EINVALID, "not a name for a Lease and its namespace");
	struct gq_election *election GQ_CLEANUP(gq_cleanup_election) = calloc(1, sizeof *election);
	if (!election)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	election->lease_ns = options->lease_ns ? options->lease_ns : LEASE_DEFAULT_NS;
	election->renew_ns = options->renew_ns ? options->renew_ns : RENEW_DEFAULT_NS;
	election->retry_ns = options->retry_ns ? options->retry_ns : RETRY_DEFAULT_NS;
	if (!times_fit(election))
		return gq_fail(err, GQ_EINVALID,
			       "the times must fit: 1.2 times retry < renew < lease <= 1 h");
	election->random = options->seed;
	election->stale = true;
	election->identity = strdup(options->identity);
	election->head = election->path = election->collection_path = GQ_BUF_INIT(1024);
	election->body = GQ_BUF_INIT(BODY_MAX_BYTES);
	gq_buf_printf(&election->head, "\"name\":\"%s\",\"namespace\":\"%s\"", options->name,
		      options->namespace_);
	gq_buf_printf(&election->collection_path,
		      "/apis/coordination.k8s.io/v1/namespaces/%s/leases", options->namespace_);
	gq_buf_printf(&election->path, "/apis/coordination.k8s.io/v1/namespaces/%s/leases/%s",
		      options->namespace_, options->name);
	if (!election->identity || election->head.code || election->path.code ||
	    election->collection_path.code)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	*ret_election = GQ_STEAL(election);
	return 0;
}

/* ---- reading a Lease ---- */

static struct json_object *member(struct json_object *object, const char *key)
{
	struct json_object *value = NULL;

	if (json_object_is_type(object, json_type_object))
		(void)json_object_object_get_ex(object, key, &value);
	return value;
}

static int append_json(struct gq_buf *out, struct json_object *value)
{
	const char *text = json_object_to_json_string_ext(
	    value, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);

	return text ? gq_buf_puts(out, text) : GQ_ENOMEM;
}

static int read_metadata(struct json_object *metadata, struct record *record)
{
	struct json_object *version = member(metadata, "resourceVersion");
	const char *text =
	    json_object_is_type(version, json_type_string) ? json_object_get_string(version) : NULL;

	if (!text || !*text || strlen(text) >= sizeof record->version)
		return GQ_EINVALID;
	(void)snprintf(record->version, sizeof record->version, "%s", text);
	for (size_t i = 0; i < sizeof carried_keys / sizeof *carried_keys; i++) {
		struct json_object *value = member(metadata, carried_keys[i]);
		if (!value)
			continue;
		gq_buf_printf(&record->carried, ",\"%s\":", carried_keys[i]);
		int code = append_json(&record->carried, value);
		if (code)
			return code;
	}
	return 0;
}

/* What is no string is somebody whom we don't know, and is waited for. */
static int read_holder(struct json_object *holder, const char *identity, struct record *record)
{
	if (!holder)
		return 0;
	if (!json_object_is_type(holder, json_type_string)) {
		record->held = true;
		return 0;
	}
	const char *text = json_object_get_string(holder);
	size_t len = (size_t)json_object_get_string_len(holder);
	if (!text)
		return GQ_ENOMEM;
	record->held = len > 0;
	record->ours = len == strlen(identity) && memcmp(text, identity, len) == 0;
	(void)snprintf(record->holder, sizeof record->holder, "%s", text);
	return 0;
}

/* It may go back to the API server as it is, so it must look like a time. */
static void read_time(struct json_object *value, char ret_text[TIME_BYTES])
{
	const char *text =
	    json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;

	if (text && strlen(text) < TIME_BYTES && text[strspn(text, "0123456789-:.TZ+")] == '\0')
		(void)snprintf(ret_text, TIME_BYTES, "%s", text);
}

static int64_t read_number(struct json_object *value)
{
	return json_object_is_type(value, json_type_int) ? json_object_get_int64(value) : 0;
}

static int read_spec(const struct gq_election *election, struct json_object *spec,
		     struct record *record)
{
	int64_t duration_s = read_number(member(spec, "leaseDurationSeconds"));
	int64_t transitions = read_number(member(spec, "leaseTransitions"));

	if (duration_s > DURATION_MAX_S)
		duration_s = DURATION_MAX_S;
	record->duration_ns = duration_s > 0 ? duration_s * GQ_NS_PER_S : election->lease_ns;
	record->transitions = transitions < 0           ? 0
			      : transitions < INT32_MAX ? transitions
							: INT32_MAX;
	read_time(member(spec, "acquireTime"), record->acquired);
	read_time(member(spec, "renewTime"), record->renewed);
	int code = read_holder(member(spec, "holderIdentity"), election->identity, record);
	return code ? code : append_json(&record->spec, spec);
}

/* record: zeroed; record_done() also after a failure. */
static int read_lease(const struct gq_election *election, const char *body, size_t len,
		      struct record *record)
{
	GQ_CLEANUP(gq_cleanup_json) struct json_object *root = NULL;
	int code = gq_field_parse(body, len, &root, NULL);

	if (code)
		return code;
	record->exists = true;
	record->spec = record->carried = GQ_BUF_INIT(GQ_LEASE_MAX_BYTES);
	code = read_metadata(member(root, "metadata"), record);
	if (!code)
		code = read_spec(election, member(root, "spec"), record);
	return code;
}

/* ---- what is known ---- */

static bool is_ours(const struct record *record)
{
	return record->exists && record->ours;
}

/* Takes the record over. Only what was seen to change here, on our own clock, counts: the times in
 * it are another machine's. */
static void saw_record(struct gq_election *election, int64_t now_ns, struct record *record)
{
	struct record *last = &election->record;
	bool same = last->exists && strcmp(last->spec.data, record->spec.data) == 0;

	if (!same)
		election->free_ns =
		    record->held && !record->ours ? now_ns + record->duration_ns : 0;
	if (!record->ours)
		election->leads_until_ns = 0;
	record_done(last);
	*last = *record;
	*record = (struct record){0};
	election->stale = false;
}

/* A Lease that was deleted may have a holder who has not noticed yet. */
static void saw_nothing(struct gq_election *election, int64_t now_ns)
{
	if (election->record.exists)
		election->free_ns =
		    gq_election_leads(election, now_ns) ? 0 : now_ns + election->lease_ns;
	record_done(&election->record);
	election->record = (struct record){0};
	election->stale = false;
}

static enum kind next_kind(const struct gq_election *election, int64_t now_ns)
{
	const struct record *record = &election->record;

	if (election->stale)
		return READ;
	if (election->releasing)
		return RELEASE;
	if (now_ns < election->free_ns)
		return READ;
	return record->exists ? UPDATE : CREATE;
}

/* ---- when ---- */

static void pause_for(struct gq_election *election, int64_t now_ns, int64_t delay_ns)
{
	if (!gq_election_leads(election, now_ns))
		delay_ns +=
		    (int64_t)gq_backoff_random(&election->random, (uint64_t)delay_ns / 5 + 1);
	election->hops = 0;
	election->due_ns = election->cycle_ns + delay_ns;
	if (now_ns < election->free_ns && election->free_ns < election->due_ns)
		election->due_ns = election->free_ns;
	if (election->due_ns < now_ns)
		election->due_ns = now_ns;
}

static void pause_until_retry(struct gq_election *election, int64_t now_ns)
{
	pause_for(election, now_ns, election->retry_ns);
}

/* A follower looks more often: by as much as it sees the last renewal late, it waits too long for a
 * leader that is gone. */
static void pause_until_look(struct gq_election *election, int64_t now_ns)
{
	pause_for(election, now_ns, election->retry_ns / LOOKS_PER_RETRY);
}

static void go_on(struct gq_election *election, int64_t now_ns)
{
	if (election->hops >= HOPS_MAX)
		pause_until_retry(election, now_ns);
	else
		election->due_ns = now_ns;
}

static void drop_expired(struct gq_election *election, int64_t now_ns)
{
	if (now_ns >= election->leads_until_ns)
		election->leads_until_ns = 0;
}

int64_t gq_election_deadline(const struct gq_election *election)
{
	int64_t due_ns = election->running || election->released ? INT64_MAX : election->due_ns;

	if (election->leads_until_ns && election->leads_until_ns < due_ns)
		return election->leads_until_ns;
	return due_ns;
}

/* ---- requests ---- */

static void print_micro_time(int64_t us, char ret_text[TIME_BYTES])
{
	struct tm tm = {0};

	(void)gmtime_r(&(time_t){us / 1000000}, &tm);
	size_t len = strftime(ret_text, TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(ret_text + len, TIME_BYTES - len, ".%06dZ", (int)(us % 1000000));
}

/* A renewal that changed nothing would be none to those who watch the record, so a clock that
 * stands still or is set back a little goes on here. */
static void print_renew_time(struct gq_election *election, int64_t wall_ns,
			     char ret_text[TIME_BYTES])
{
	int64_t us = wall_ns > 0 ? wall_ns / 1000 : 0;

	if (us <= election->written_us && election->written_us - us < 1000000)
		us = election->written_us + 1;
	print_micro_time(us, ret_text);
	if (strcmp(ret_text, election->record.renewed) == 0)
		print_micro_time(++us, ret_text);
	election->written_us = us;
}

static int print_lease(struct gq_election *election, enum kind kind, int64_t wall_ns)
{
	const struct record *record = &election->record;
	struct gq_buf *out = &election->body;
	bool keeps = kind == UPDATE && record->ours;
	int64_t transitions = record->transitions;
	char now[TIME_BYTES];

	if (kind == UPDATE && !keeps && transitions < INT32_MAX)
		transitions++;
	print_renew_time(election, wall_ns, now);
	gq_buf_reset(out);
	gq_buf_printf(out,
		      "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\","
		      "\"metadata\":{%s",
		      election->head.data);
	if (kind != CREATE) {
		gq_buf_puts(out, ",\"resourceVersion\":");
		gq_buf_json_string(out, record->version, strlen(record->version));
		gq_buf_append(out, record->carried.data, record->carried.len);
	}
	gq_buf_puts(out, "},\"spec\":{\"holderIdentity\":");
	if (kind == RELEASE) {
		gq_buf_puts(out, "\"\",\"leaseDurationSeconds\":1");
	} else {
		gq_buf_json_string(out, election->identity, strlen(election->identity));
		gq_buf_printf(out, ",\"leaseDurationSeconds\":%lld",
			      (long long)((election->lease_ns + GQ_NS_PER_S - 1) / GQ_NS_PER_S));
	}
	return gq_buf_printf(out,
			     ",\"acquireTime\":\"%s\",\"renewTime\":\"%s\","
			     "\"leaseTransitions\":%lld}}",
			     keeps && record->acquired[0] ? record->acquired : now, now,
			     (long long)transitions);
}

/* Short enough that after a request that hangs there is time for another. */
static int64_t timeout_ns(const struct gq_election *election, int64_t now_ns)
{
	int64_t timeout = election->retry_ns;

	if (election->leads_until_ns && election->leads_until_ns - now_ns < timeout)
		timeout = election->leads_until_ns - now_ns;
	if (timeout < TIMEOUT_MIN_NS)
		timeout = TIMEOUT_MIN_NS;
	return timeout;
}

bool gq_election_begin(struct gq_election *election, int64_t now_ns, int64_t wall_ns,
		       struct gq_election_request *ret_request)
{
	drop_expired(election, now_ns);
	if (election->running || election->released || now_ns < election->due_ns)
		return false;
	enum kind kind = next_kind(election, now_ns);
	if (!election->hops)
		election->cycle_ns = now_ns;
	if (kind != READ && print_lease(election, kind, wall_ns)) {
		pause_until_retry(election, now_ns);
		return false;
	}
	election->hops++;
	election->running = kind;
	election->sent_ns = now_ns;
	*ret_request = (struct gq_election_request){
	    .method = kind == READ     ? "GET"
		      : kind == CREATE ? "POST"
				       : "PUT",
	    .path = kind == CREATE ? election->collection_path.data : election->path.data,
	    .timeout_ns = timeout_ns(election, now_ns)};
	if (kind != READ) {
		ret_request->content_type = "application/json";
		ret_request->body = election->body.data;
		ret_request->body_len = election->body.len;
	}
	return true;
}

/* ---- answers ---- */

/* After the record is known anew. */
static void decide(struct gq_election *election, enum kind kind, int64_t now_ns)
{
	if (election->releasing) {
		election->released = !is_ours(&election->record);
		go_on(election, now_ns);
	} else if (kind != READ && is_ours(&election->record)) {
		election->leads_until_ns = election->sent_ns + election->renew_ns;
		pause_until_retry(election, now_ns);
		drop_expired(election, now_ns);
	} else if (kind == READ && next_kind(election, now_ns) != READ) {
		go_on(election, now_ns);
	} else {
		pause_until_look(election, now_ns);
	}
}

void gq_election_end(struct gq_election *election, int64_t now_ns, int code, const char *body,
		     size_t len)
{
	GQ_CLEANUP(record_done) struct record record = {0};
	enum kind kind = election->running;

	if (!kind)
		return;
	election->running = NOTHING;
	drop_expired(election, now_ns);
	if (!code)
		code = read_lease(election, body, len, &record);
	if (!code) {
		saw_record(election, now_ns, &record);
		decide(election, kind, now_ns);
	} else if (kind == READ && code == GQ_ENOTFOUND) {
		saw_nothing(election, now_ns);
		decide(election, kind, now_ns);
	} else {
		/* a write that failed may have happened, or happen yet; a read changes nothing, and
		 * a write that it would have warned of meets a conflict */
		if (kind != READ)
			election->stale = true;
		/* somebody has made one, even if it is gone again when it is read */
		if (kind == CREATE && code == GQ_ECONFLICT)
			election->free_ns = now_ns + election->lease_ns;
		if (kind != READ && (code == GQ_ECONFLICT || code == GQ_ENOTFOUND))
			go_on(election, now_ns);
		else
			pause_until_retry(election, now_ns);
	}
}

bool gq_election_leads(const struct gq_election *election, int64_t now_ns)
{
	return now_ns < election->leads_until_ns;
}

void gq_election_release(struct gq_election *election, int64_t now_ns)
{
	if (election->releasing)
		return;
	election->releasing = true;
	election->leads_until_ns = 0;
	if (election->running)
		return;
	election->released = !election->stale && !is_ours(&election->record);
	election->hops = 0;
	election->due_ns = now_ns;
}

bool gq_election_released(const struct gq_election *election)
{
	return election->released;
}

const char *gq_election_holder(const struct gq_election *election)
{
	return election->record.holder;
}
