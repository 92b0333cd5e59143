#include "informer/informer.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/buf.h"
#include "informer/informer_internal.h"
#include "informer/reflector.h"
#include "informer/transport.h"

enum {
	PATH_MAX_BYTES = 64 << 10,
	POLL_MAX_MS = 60000,
	CONNECTIONS_KEPT = 16,
};

/* How often the token file is looked at while something waits for another token. */
#define TOKEN_LOOK_NS GQ_NS_PER_S

/* One collection and its transfer. */
struct lane {
	struct gq_informer *informer;
	struct gq_reflector *reflector;
	atomic_bool relist; /* asked for, and not yet begun */
	CURL *easy;         /* NULL: no request runs */
	struct curl_slist *headers;
	struct gq_credential_use use; /* of the last request */
	bool wants_token;             /* it ended for want of a good one */
	char error[CURL_ERROR_SIZE];
};

struct gq_informer {
	struct gq_informer_options options;
	const struct gq_clock *clock;
	struct gq_transport *transport;
	CURLM *multi;
	struct lane *lanes;
	size_t n_lanes;
	int64_t look_ns; /* when the token file may be looked at */
	pthread_t thread;
	bool started;
	atomic_bool stop;
};

static int64_t now_of(const struct gq_informer *informer)
{
	return gq_clock_mono_ns(informer->clock);
}

static size_t on_header(char *bytes, size_t size, size_t n, void *arg)
{
	struct lane *lane = arg;
	long status = 0;

	/* the empty line ends the head; 1xx heads are followed by another one */
	if (n * size > 2 || bytes[0] == ' ' || bytes[0] == '\t')
		return n * size;
	(void)curl_easy_getinfo(lane->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status < 200)
		return n * size;
	/* now: that it was once let in says nothing when it ends */
	gq_credential_answered(gq_transport_credential(lane->informer->transport), &lane->use,
			       status);
	if (gq_reflector_response(lane->reflector, now_of(lane->informer), status))
		return 0;
	return n * size;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
	struct lane *lane = arg;

	if (atomic_load(&lane->informer->stop) ||
	    gq_reflector_data(lane->reflector, now_of(lane->informer), bytes, n * size))
		return 0;
	return n * size;
}

static void close_lane(struct lane *lane)
{
	if (lane->easy) {
		(void)curl_multi_remove_handle(lane->informer->multi, lane->easy);
		curl_easy_cleanup(lane->easy);
	}
	curl_slist_free_all(lane->headers);
	lane->easy = NULL;
	lane->headers = NULL;
}

static CURLcode set_callbacks(struct lane *lane)
{
	CURL *easy = lane->easy;
	CURLcode rc = curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);

	if (!rc)
		rc = curl_easy_setopt(easy, CURLOPT_HEADERDATA, lane);
	if (!rc)
		rc = curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	if (!rc)
		rc = curl_easy_setopt(easy, CURLOPT_WRITEDATA, lane);
	if (!rc)
		rc = curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, lane->error);
	if (!rc)
		rc = curl_easy_setopt(easy, CURLOPT_PRIVATE, lane);
	return rc;
}

static int open_lane(struct lane *lane, const char *path, struct gq_err *err)
{
	struct gq_informer *informer = lane->informer;
	int code = gq_transport_request(informer->transport, path, NULL, &lane->use, &lane->easy,
					&lane->headers, err);

	lane->wants_token = code == GQ_EIO;
	if (code)
		return code;
	lane->error[0] = '\0';
	if (set_callbacks(lane) || curl_multi_add_handle(informer->multi, lane->easy))
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	return 0;
}

static void begin(struct lane *lane, int64_t now)
{
	GQ_BUF_CLEANUP struct gq_buf path = GQ_BUF_INIT(PATH_MAX_BYTES);
	struct gq_err why = {0};

	int code = gq_reflector_begin(lane->reflector, now, &path, &why);
	if (!code)
		code = open_lane(lane, path.data, &why);
	if (!code)
		return;
	close_lane(lane);
	gq_reflector_end(lane->reflector, now, &why, 0);
}

static void finish(struct lane *lane, CURLcode rc)
{
	struct gq_err why = {0};
	curl_off_t retry_after = 0;
	long status = 0;

	(void)curl_easy_getinfo(lane->easy, CURLINFO_RETRY_AFTER, &retry_after);
	(void)curl_easy_getinfo(lane->easy, CURLINFO_RESPONSE_CODE, &status);
	lane->wants_token = status == 401;
	if (rc)
		(void)gq_transport_fail(&why, rc, lane->error);
	close_lane(lane);
	if (retry_after < 0 || retry_after > INT32_MAX)
		retry_after = 0;
	gq_reflector_end(lane->reflector, now_of(lane->informer), rc ? &why : NULL,
			 (int)retry_after);
}

/* Begins at once what waits after a 401, if there is another token now. Returns whether anything
 * goes on to wait for one. */
static bool look_for_token(struct gq_informer *informer, int64_t now)
{
	struct gq_credential *credential = gq_transport_credential(informer->transport);
	bool due = now >= informer->look_ns, waits = false;

	for (size_t i = 0; i < informer->n_lanes; i++) {
		struct lane *lane = &informer->lanes[i];
		if (lane->easy || !lane->wants_token)
			continue;
		if (due && gq_credential_renewed(credential, &lane->use)) {
			lane->wants_token = false;
			gq_reflector_hurry(lane->reflector, now);
		} else {
			waits = true;
		}
	}
	if (due)
		informer->look_ns = now + TOKEN_LOOK_NS;
	return waits;
}

/* Begins and cuts what is due, and returns how long nothing else will be. */
static int tend(struct gq_informer *informer)
{
	int64_t now = now_of(informer), next = now + POLL_MAX_MS * GQ_NS_PER_MS;

	if (look_for_token(informer, now))
		next = informer->look_ns;
	for (size_t i = 0; i < informer->n_lanes; i++) {
		struct lane *lane = &informer->lanes[i];
		if (atomic_exchange(&lane->relist, false)) {
			close_lane(lane);
			now = now_of(informer); /* no earlier than it was asked for */
			gq_reflector_relist(lane->reflector, now);
		}
		if (gq_reflector_deadline(lane->reflector) <= now) {
			if (lane->easy) {
				close_lane(lane);
				gq_reflector_cut(lane->reflector, now);
			} else {
				begin(lane, now);
			}
		}
		int64_t deadline = gq_reflector_deadline(lane->reflector);
		if (deadline < next)
			next = deadline;
	}
	if (next <= now)
		return 0;
	return (int)((next - now + GQ_NS_PER_MS - 1) / GQ_NS_PER_MS);
}

static bool reap(struct gq_informer *informer)
{
	struct CURLMsg *msg;
	bool any = false;
	int left;

	while ((msg = curl_multi_info_read(informer->multi, &left))) {
		struct lane *lane = NULL;
		if (msg->msg != CURLMSG_DONE ||
		    curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&lane) || !lane)
			continue;
		finish(lane, msg->data.result);
		any = true;
	}
	return any;
}

static void *run(void *arg)
{
	struct gq_informer *informer = arg;
	int running;

	gq_transport_block_signals();
	while (!atomic_load(&informer->stop)) {
		int wait_ms = tend(informer);
		(void)curl_multi_perform(informer->multi, &running);
		if (reap(informer))
			wait_ms = 0;
		for (size_t i = 0; i < informer->n_lanes; i++)
			gq_reflector_idle(informer->lanes[i].reflector);
		(void)curl_multi_poll(informer->multi, NULL, 0, wait_ms, NULL);
	}
	for (size_t i = 0; i < informer->n_lanes; i++)
		close_lane(&informer->lanes[i]);
	return NULL;
}

static uint64_t draw_seed(void)
{
	uint64_t seed = 0;

	if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
		seed = (uint64_t)gq_clock_mono_ns(&gq_clock_real);
	return seed;
}

int gq_informer_new(const struct gq_informer_options *options, struct gq_informer **ret_informer,
		    struct gq_err *err)
{
	GQ_CLEANUP(gq_cleanup_informer) struct gq_informer *informer = calloc(1, sizeof *informer);

	if (!options->n_resources)
		return gq_fail(err, GQ_EINVALID, "an informer needs a resource");
	if (!informer)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	informer->options = *options;
	informer->clock = options->clock ? options->clock : &gq_clock_real;
	int code = gq_transport_new(options->config, options->credential, options->user_agent,
				    &informer->transport, err);
	if (code)
		return code;
	informer->multi = curl_multi_init();
	informer->lanes = calloc(options->n_resources, sizeof *informer->lanes);
	if (!informer->multi || !informer->lanes ||
	    curl_multi_setopt(informer->multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_KEPT))
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	for (; informer->n_lanes < options->n_resources; informer->n_lanes++) {
		struct lane *lane = &informer->lanes[informer->n_lanes];
		lane->informer = informer;
		code = gq_reflector_new(&options->resources[informer->n_lanes], &informer->options,
					draw_seed(), &lane->reflector, err);
		if (code)
			return code;
	}
	*ret_informer = GQ_STEAL(informer);
	return 0;
}

int gq_informer_start(struct gq_informer *informer, struct gq_err *err)
{
	if (informer->started)
		return gq_fail(err, GQ_EINVALID, "started already");
	int failed = pthread_create(&informer->thread, NULL, run, informer);
	if (failed)
		return gq_fail(err, GQ_ENOMEM, "can't start a thread: %s", strerror(failed));
	informer->started = true;
	return 0;
}

void gq_informer_free(struct gq_informer *informer)
{
	if (!informer)
		return;
	if (informer->started) {
		atomic_store(&informer->stop, true);
		gq_informer_wake(informer);
		(void)pthread_join(informer->thread, NULL);
	}
	for (size_t i = 0; i < informer->n_lanes; i++)
		gq_reflector_free(informer->lanes[i].reflector);
	free(informer->lanes);
	if (informer->multi)
		(void)curl_multi_cleanup(informer->multi);
	gq_transport_free(informer->transport);
	free(informer);
}

void gq_informer_wake(struct gq_informer *informer)
{
	(void)curl_multi_wakeup(informer->multi);
}

void gq_informer_relist(struct gq_informer *informer, const char *resource)
{
	for (size_t i = 0; i < informer->n_lanes; i++)
		if (strcmp(informer->options.resources[i].name, resource) == 0)
			atomic_store(&informer->lanes[i].relist, true);
	gq_informer_wake(informer);
}

bool gq_informer_synced(const struct gq_informer *informer)
{
	for (size_t i = 0; i < informer->n_lanes; i++)
		if (!atomic_load(&gq_reflector_counters(informer->lanes[i].reflector)->synced))
			return false;
	return true;
}

size_t gq_informer_stats(const struct gq_informer *informer, struct gq_watch_stats *stats,
			 size_t max)
{
	size_t n = 0;

	for (; n < informer->n_lanes && n < max; n++) {
		const struct gq_reflector_counters *c =
		    gq_reflector_counters(informer->lanes[n].reflector);
		stats[n] = (struct gq_watch_stats){
		    .resource = informer->options.resources[n].name,
		    .synced = atomic_load(&c->synced),
		    .connected = atomic_load(&c->connected),
		    .events = atomic_load(&c->events),
		    .bytes = atomic_load(&c->bytes),
		    .lists = atomic_load(&c->lists),
		    .watches = atomic_load(&c->watches),
		    .errors = atomic_load(&c->errors),
		    .skipped = atomic_load(&c->skipped),
		    .last_byte_ns = atomic_load(&c->last_byte_ns),
		};
	}
	return n;
}
