#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/log.h"
#include "controller/status.h"
#include "informer/backoff.h"

#define LOOK_EVERY_NS (3 * GQ_NS_PER_S)
#define HEARTBEAT_NS (60 * GQ_NS_PER_S)
#define BACKOFF_MIN_NS GQ_NS_PER_S
#define BACKOFF_MAX_NS (60 * GQ_NS_PER_S)
#define TIMEOUT_NS (10 * GQ_NS_PER_S)
/* In JSON, a character of the documents has at most six. */
#define BODY_MAX_BYTES (6 * GQ_STATUS_MAX_BYTES + 4096)

/* How it is written: a merge patch of `data` alone, without a resourceVersion, and a POST only when
 * the ConfigMap is not there.
 *
 * A PUT would replace the annotations too: a recount that somebody asks for between our read and
 * our write would be lost, or meet a 409 and be read again, for an object of which we are the only
 * writer of the rest. The patch needs no read, touches nobody's annotations and labels, and has no
 * conflicts. What a resourceVersion would prevent is that an old leader's late write replaces a
 * newer status. That harms nothing: no decision is made by the status, it says whose it is and of
 * when, and the new leader replaces it with its next change, at the latest after a minute. */

enum step { STEP_IDLE, STEP_PATCH, STEP_POST, STEP_FAILED, STEP_WRITTEN };

struct gq_status_writer {
	struct gq_api *api;
	int (*gather)(void *arg, struct gq_status_facts *ret_facts, struct gq_err *err);
	void *arg;
	char *path; /* of the ConfigMap; the collection's ends before the last '/' */
	char *collection;

	/* Of the thread that ticks. */
	struct gq_backoff backoff;
	/* As they were written last, or are being, but for drop_restless(). */
	struct gq_buf yaml, json;
	bool known;      /* they are in the ConfigMap, as far as we know */
	int64_t look_ns; /* the next look at the facts; 0: at once */
	int64_t written_ns;
	bool gather_told;

	struct gq_lock lock; /* of what follows */
	bool leads;
	bool fresh; /* leads since the last tick */
	enum step step;
	int retry_after_s;
	struct gq_buf body; /* of the request that runs */
	bool told;          /* that writing fails */
	struct gq_status_writer_stats stats;
};

struct gq_status_writer *gq_status_writer_new(const struct gq_status_writer_options *options)
{
	static const char format[] = "/api/v1/namespaces/%s/configmaps%s";
	struct gq_buf path GQ_BUF_CLEANUP = GQ_BUF_INIT(1024);
	struct gq_buf collection GQ_BUF_CLEANUP = GQ_BUF_INIT(1024);
	struct gq_status_writer *writer = calloc(1, sizeof *writer);

	if (!writer)
		return NULL;
	gq_lock_init(&writer->lock, GQ_RANK_LEAF);
	gq_buf_printf(&path, format, options->namespace_, "/" GQ_STATUS_NAME);
	gq_buf_printf(&collection, format, options->namespace_, "");
	writer->api = options->api;
	writer->gather = options->gather;
	writer->arg = options->arg;
	writer->path = gq_buf_steal(&path);
	writer->collection = gq_buf_steal(&collection);
	writer->backoff = (struct gq_backoff){
	    .min_ns = BACKOFF_MIN_NS, .max_ns = BACKOFF_MAX_NS, .random = options->seed};
	writer->yaml = writer->json = GQ_BUF_INIT(GQ_STATUS_MAX_BYTES);
	writer->body = GQ_BUF_INIT(BODY_MAX_BYTES);
	if (writer->path && writer->collection)
		return writer;
	gq_status_writer_free(writer);
	return NULL;
}

void gq_status_writer_free(struct gq_status_writer *writer)
{
	if (!writer)
		return;
	gq_buf_done(&writer->yaml);
	gq_buf_done(&writer->json);
	gq_buf_done(&writer->body);
	gq_lock_done(&writer->lock);
	free(writer->path);
	free(writer->collection);
	free(writer);
}

void gq_status_writer_lead(struct gq_status_writer *writer, bool leads)
{
	gq_lock_take(&writer->lock);
	writer->fresh = leads && (writer->fresh || !writer->leads);
	writer->leads = leads;
	gq_lock_release(&writer->lock);
}

void gq_status_writer_gone(struct gq_status_writer *writer)
{
	gq_lock_take(&writer->lock);
	writer->fresh = writer->leads;
	gq_lock_release(&writer->lock);
}

void gq_status_writer_stats(struct gq_status_writer *writer,
			    struct gq_status_writer_stats *ret_stats)
{
	gq_lock_take(&writer->lock);
	*ret_stats = writer->stats;
	gq_lock_release(&writer->lock);
}

/* ---- requests ---- */

static void print_body(struct gq_buf *out, const struct gq_buf *yaml, const struct gq_buf *json)
{
	/* The kind and the name are for the POST; a patch must only not contradict them. */
	gq_buf_puts(
	    out,
	    "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"" GQ_STATUS_NAME
	    "\",\"labels\":{\"app.kubernetes.io/name\":\"gpuquota\"}},"
	    "\"data\":{\"" GQ_STATUS_YAML_KEY "\":");
	gq_buf_json_string(out, yaml->data, yaml->len);
	gq_buf_puts(out, ",\"" GQ_STATUS_JSON_KEY "\":");
	gq_buf_json_string(out, json->data, json->len);
	gq_buf_puts(out, "}}");
}

static void request_end(struct gq_status_writer *writer, int code, const char *problem,
			int retry_after_s)
{
	gq_lock_take(&writer->lock);
	/* a conflict ends by itself, and so does what nobody waits for */
	bool tell = writer->told != (code != 0) && code != GQ_ECONFLICT && writer->leads;
	if (tell)
		writer->told = code != 0;
	writer->step = code ? STEP_FAILED : STEP_WRITTEN;
	writer->retry_after_s = retry_after_s;
	writer->stats.failed += code != 0;
	writer->stats.written += code == 0;
	gq_lock_release(&writer->lock);
	if (tell && code)
		gq_log(GQ_LOG_WARN, "the status can't be written, it is tried again",
		       GQ_S("configmap", GQ_STATUS_NAME), GQ_S("code", gq_code_name(code)),
		       GQ_S("problem", problem));
	else if (tell)
		gq_log(GQ_LOG_INFO, "the status is written again",
		       GQ_S("configmap", GQ_STATUS_NAME));
}

/* Of the answer only its success counts. */
static const struct gq_json_keep keep_nothing[] = {{"kind", NULL}, GQ_JSON_KEEP_END};

static void on_done(void *arg, const struct gq_api_response *response);

/* The step and the body stay until the request ends, so no lock is needed for them. */
static void request_begin(struct gq_status_writer *writer)
{
	bool post = writer->step == STEP_POST;
	struct gq_err err;
	const struct gq_api_request request = {
	    .method = post ? "POST" : "PATCH",
	    .path = post ? writer->collection : writer->path,
	    .content_type = post ? "application/json" : "application/merge-patch+json",
	    .body = writer->body.data,
	    .body_len = writer->body.len,
	    .keep = keep_nothing,
	    .timeout_ns = TIMEOUT_NS,
	    .on_done = on_done,
	    .arg = writer,
	};
	int code = gq_api_start(writer->api, &request, &err);

	if (code)
		request_end(writer, code, err.msg, 0);
}

static void on_done(void *arg, const struct gq_api_response *response)
{
	struct gq_status_writer *writer = arg;

	gq_lock_take(&writer->lock);
	/* Somebody else made it meanwhile: to be patched then, after a pause. */
	bool make = writer->leads && writer->step == STEP_PATCH && response->code == GQ_ENOTFOUND;
	if (make)
		writer->step = STEP_POST;
	gq_lock_release(&writer->lock);
	if (make)
		request_begin(writer);
	else
		request_end(writer, response->code, response->error, response->retry_after_s);
}

/* ---- ticks ---- */

/* What became of the last request. Returns whether one runs. */
static bool take_outcome(struct gq_status_writer *writer, int64_t now_ns, bool *ret_leads)
{
	gq_lock_take(&writer->lock);
	enum step step = writer->step;
	int64_t wait_ns = writer->retry_after_s * GQ_NS_PER_S;
	if (step == STEP_FAILED || step == STEP_WRITTEN)
		writer->step = STEP_IDLE;
	*ret_leads = writer->leads;
	bool runs = writer->step != STEP_IDLE;
	bool fresh = writer->fresh && !runs;
	writer->fresh = writer->fresh && runs;
	gq_lock_release(&writer->lock);
	if (step == STEP_FAILED) {
		writer->known = false;
		writer->look_ns =
		    now_ns + gq_max64(wait_ns, gq_backoff_next(&writer->backoff, now_ns));
	} else if (step == STEP_WRITTEN) {
		writer->known = true;
		writer->backoff.steps = 0;
	}
	/* What the last leader wrote is not ours, even if it is what we wrote before it. */
	if (fresh) {
		writer->known = false;
		writer->look_ns = 0;
	}
	return runs;
}

static bool same_text(const struct gq_buf *a, const struct gq_buf *b)
{
	return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

/* Takes out of the facts what never rests: the time, and which pods are Ready, which in a crash
 * loop changes for ever. It goes along with other news, and at the latest with the heartbeat. */
static void drop_restless(struct gq_status_facts *facts)
{
	facts->updated_s = 0;
	for (size_t t = 0; t < facts->usage.n_tenants; t++) {
		const struct gq_usage_tenant *tenant = &facts->usage.tenants[t];
		for (size_t i = 0; i < tenant->n_limits; i++)
			tenant->limits[i].unready = (struct gq_amount){0, 0};
	}
}

/* Makes the request's body when there is something to write. Returns whether. Changes the facts. */
static bool print_news(struct gq_status_writer *writer, struct gq_status_facts *facts,
		       int64_t now_ns, int *ret_code)
{
	struct gq_buf yaml GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_STATUS_MAX_BYTES);
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_STATUS_MAX_BYTES);
	struct gq_buf rest_yaml GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_STATUS_MAX_BYTES);
	struct gq_buf rest_json GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_STATUS_MAX_BYTES);
	bool due = !writer->known || now_ns - writer->written_ns >= HEARTBEAT_NS;

	*ret_code = gq_status_print(facts, GQ_STATUS_MAX_BYTES, &yaml, &json);
	drop_restless(facts);
	if (!*ret_code)
		*ret_code = gq_status_print(facts, GQ_STATUS_MAX_BYTES, &rest_yaml, &rest_json);
	if (*ret_code ||
	    (!due && same_text(&rest_yaml, &writer->yaml) && same_text(&rest_json, &writer->json)))
		return false;
	gq_buf_reset(&writer->body);
	print_body(&writer->body, &yaml, &json);
	*ret_code = writer->body.code;
	if (*ret_code)
		return false;
	gq_buf_done(&writer->yaml);
	gq_buf_done(&writer->json);
	writer->yaml = rest_yaml;
	writer->json = rest_json;
	rest_yaml = rest_json = GQ_BUF_INIT(0);
	writer->known = false;
	return true;
}

/* Looks at the facts and makes the request's body. Returns whether there is one. */
static bool make_body(struct gq_status_writer *writer, int64_t now_ns)
{
	struct gq_status_facts facts GQ_CLEANUP(gq_status_facts_done) = {0};
	struct gq_err err = {0};
	int code = writer->gather(writer->arg, &facts, &err);
	bool news = false;

	if (!code) {
		news = print_news(writer, &facts, now_ns, &code);
		if (code)
			(void)gq_fail(&err, code, "the status can't be printed");
	}
	if (code && !writer->gather_told)
		gq_log(GQ_LOG_WARN, "no status could be made, it is tried again",
		       GQ_S("code", gq_code_name(code)), GQ_S("problem", err.msg));
	writer->gather_told = code != 0;
	return news;
}

void gq_status_writer_tick(struct gq_status_writer *writer, int64_t now_ns)
{
	bool leads;

	if (take_outcome(writer, now_ns, &leads) || !leads || now_ns < writer->look_ns)
		return;
	writer->look_ns = now_ns + LOOK_EVERY_NS;
	if (!make_body(writer, now_ns))
		return;
	writer->written_ns = now_ns;
	gq_lock_take(&writer->lock);
	writer->step = STEP_PATCH;
	gq_lock_release(&writer->lock);
	request_begin(writer);
}
