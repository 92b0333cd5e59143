#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/log.h"
#include "controller/commands.h"
#include "controller/drift_log.h"
#include "controller/feed.h"
#include "controller/file.h"
#include "controller/options.h"
#include "controller/pages.h"
#include "controller/store.h"
#include "controller/version.h"
#include "informer/kubeconfig.h"

#define TICK_MS 100
#define CERTIFICATE_TICKS 10 /* look at the files once a second */
#define RECOUNT_TICKS 3000   /* every five minutes */
#define DRAIN_MAX_NS (20 * GQ_NS_PER_S)
#define INLINE_BELOW_BYTES (16u << 10)
/* The API server finishes a create that it was allowed within this time. */
#define CREATE_MAX_NS (34 * GQ_NS_PER_S)

/* The two files of the certificate, as they were at one time. */
struct tls_files {
	struct gq_file_stamp certificate, key;
};

/* Everything that runs, in the order in which it is made; taken down the other way round. */
struct serve {
	struct gq_serve_options options;
	struct gq_kubeconfig *kubeconfig;
	struct gq_ledger *ledger;
	struct gq_policy_source *policy;
	struct gq_feed feed;
	struct gq_api *api;
	struct gq_store *store;
	struct gq_admission *admission;
	struct gq_pages pages;
	struct gq_server *server;
	char policy_path[512];
	struct gq_informer_resource resources[4];
	struct gq_informer *informer;
	pthread_t server_thread;
	bool server_runs;
	int server_code;
	int signals;              /* signalfd */
	struct tls_files in_use;  /* what the certificate in use was read from */
	struct tls_files refused; /* what was not usable, when it has been told */
	bool refusal_told;
};

static struct tls_files look_at_tls_files(const struct serve *serve)
{
	return (struct tls_files){gq_file_stamp(serve->options.tls_cert),
				  gq_file_stamp(serve->options.tls_key)};
}

static bool tls_files_equal(const struct tls_files *a, const struct tls_files *b)
{
	return gq_file_stamp_equal(&a->certificate, &b->certificate) &&
	       gq_file_stamp_equal(&a->key, &b->key);
}

/* ---- callbacks between the parts ---- */

static int on_route(void *arg, bool metrics, const char *method, const char *path)
{
	(void)arg;
	return metrics ? gq_pages_route(method, path) : gq_admission_route(method, path);
}

static void on_request(void *arg, struct gq_request *request)
{
	struct serve *serve = arg;

	gq_admission_handle(serve->admission, request);
}

static void on_metrics_request(void *arg, struct gq_request *request)
{
	struct serve *serve = arg;

	gq_pages_handle(&serve->pages, request);
}

static void on_read(void *arg, struct gq_read *read, int64_t timeout_ns,
		    void (*done)(void *done_arg), void *done_arg)
{
	struct serve *serve = arg;

	gq_store_read(serve->store, read, timeout_ns, done, done_arg);
}

static void on_commit(void *arg, uint64_t ticket, void (*done)(void *done_arg, int code),
		      void *done_arg)
{
	struct serve *serve = arg;

	gq_store_commit(serve->store, ticket, done, done_arg);
}

static void on_problem(void *arg, const char *resource, int code, const char *message)
{
	(void)arg;
	gq_log(GQ_LOG_WARN, "reading from the API server", GQ_S("resource", resource),
	       GQ_S("code", gq_code_name(code)), GQ_S("problem", message));
}

static void on_synced(void *arg, const char *resource)
{
	struct serve *serve = arg;
	struct gq_err err;

	gq_log(GQ_LOG_INFO, "listed in full", GQ_S("resource", resource));
	if (!gq_informer_synced(serve->informer))
		return;
	if (gq_ledger_nodes_settle(serve->ledger, gq_clock_mono_ns(&gq_clock_real), &err))
		gq_log(GQ_LOG_ERROR, "nodes could not be taken over", GQ_S("problem", err.msg));
	gq_ledger_set_synced(serve->ledger);
	gq_log(GQ_LOG_INFO, "every cache has synced");
}

/* ---- making the parts ---- */

static int make_server(struct serve *serve, struct gq_err *err)
{
	const struct gq_server_options options = {
	    .listen = serve->options.listen,
	    .metrics_listen = serve->options.metrics_listen,
	    .tls_cert = serve->options.tls_cert,
	    .tls_key = serve->options.tls_key,
	    .inline_below_bytes = INLINE_BELOW_BYTES,
	    .handle = on_request,
	    .handle_metrics = on_metrics_request,
	    .route = on_route,
	    .arg = serve,
	};

	serve->in_use = look_at_tls_files(serve);
	return gq_server_new(&options, &serve->server, err);
}

static int make_informer(struct serve *serve, struct gq_err *err)
{
	const struct gq_informer_resource resources[] = {
	    {"namespaces", "/api/v1/namespaces", NULL, gq_namespace_keep, gq_feed_namespaces,
	     &serve->feed},
	    {"nodes", "/api/v1/nodes", NULL, gq_node_keep, gq_feed_nodes, &serve->feed},
	    {"policy", serve->policy_path, "metadata.name=" GQ_POLICY_NAME, gq_policy_source_keep,
	     gq_policy_source_event, serve->policy},
	    {"pods", "/api/v1/pods", NULL, gq_pod_keep, gq_feed_pods, &serve->feed},
	};
	_Static_assert(sizeof resources == sizeof serve->resources, "one entry a collection");
	const struct gq_informer_options options = {
	    .config = serve->kubeconfig,
	    .user_agent = GQ_USER_AGENT,
	    .resources = serve->resources,
	    .n_resources = sizeof resources / sizeof resources[0],
	    .on_problem = on_problem,
	    .on_synced = on_synced,
	    .arg = serve,
	};

	memcpy(serve->resources, resources, sizeof resources);
	(void)snprintf(serve->policy_path, sizeof serve->policy_path,
		       "/api/v1/namespaces/%s/configmaps", serve->options.namespace_);
	return gq_informer_new(&options, &serve->informer, err);
}

static int make_memory_parts(struct serve *serve, struct gq_err *err)
{
	serve->ledger = gq_ledger_new(
	    &(struct gq_ledger_options){.reservation_ttl_ns = serve->options.reservation_ttl_ns});
	serve->policy = serve->ledger ? gq_policy_source_new(serve->ledger, &gq_clock_real) : NULL;
	serve->store =
	    serve->ledger ? gq_store_new(serve->ledger, serve->api, &gq_clock_real) : NULL;
	serve->admission = gq_admission_new(
	    &(struct gq_admission_options){.ledger = serve->ledger,
					   .clock = &gq_clock_real,
					   .policy_namespace = serve->options.namespace_,
					   .policy_name = GQ_POLICY_NAME,
					   .read = on_read,
					   .commit = on_commit,
					   .arg = serve});
	if (!serve->policy || !serve->store || !serve->admission)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	serve->feed = (struct gq_feed){.ledger = serve->ledger, .clock = &gq_clock_real};
	serve->pages.ledger = serve->ledger;
	serve->pages.clock = &gq_clock_real;
	serve->pages.admission = serve->admission;
	serve->pages.policy = serve->policy;
	return 0;
}

static int make_parts(struct serve *serve, struct gq_err *err)
{
	int code = gq_kubeconfig_find(serve->options.kubeconfig, false, &serve->kubeconfig, err);

	if (!code)
		code = gq_api_new(serve->kubeconfig, GQ_USER_AGENT, &serve->api, err);
	if (!code)
		code = make_memory_parts(serve, err);
	if (!code)
		code = make_informer(serve, err);
	if (!code)
		code = make_server(serve, err);
	if (code)
		return code;
	serve->pages.informer = serve->informer;
	serve->pages.server = serve->server;
	return 0;
}

static void take_down(struct serve *serve)
{
	/* Callbacks first: the informer's and the API client's end with their threads. */
	gq_informer_free(serve->informer);
	gq_api_free(serve->api);
	gq_server_free(serve->server);
	gq_admission_free(serve->admission);
	gq_store_free(serve->store);
	gq_policy_source_free(serve->policy);
	gq_ledger_free(serve->ledger);
	gq_kubeconfig_free(serve->kubeconfig);
	if (serve->signals >= 0)
		close(serve->signals);
}

/* ---- running ---- */

static void *server_main(void *arg)
{
	struct serve *serve = arg;
	struct gq_err err;

	serve->server_code = gq_server_run(serve->server, &err);
	if (serve->server_code)
		gq_log(GQ_LOG_ERROR, "the HTTPS server ended", GQ_S("problem", err.msg));
	/* the main thread waits for signals */
	kill(getpid(), SIGTERM);
	return NULL;
}

/* Files that are not usable are tried again and again, and told of once: the two may change one
 * after the other, or be out of reach for a while. */
static void reload_certificate(struct serve *serve, const struct tls_files *files)
{
	struct gq_err err;

	if (gq_server_reload_certificate(serve->server, &err)) {
		if (!serve->refusal_told || !tls_files_equal(files, &serve->refused))
			gq_log(GQ_LOG_WARN, "the new certificate is not usable, the old one stays",
			       GQ_S("problem", err.msg));
		serve->refused = *files;
		serve->refusal_told = true;
		return;
	}
	serve->in_use = *files;
	serve->refusal_told = false;
	gq_log(GQ_LOG_INFO, "certificate loaded", GQ_S("file", serve->options.tls_cert));
}

static void follow_certificate(struct serve *serve, bool asked)
{
	struct tls_files files = look_at_tls_files(serve);

	if (asked)
		serve->refusal_told = false;
	if (asked || !tls_files_equal(&files, &serve->in_use))
		reload_certificate(serve, &files);
}

static void recount(struct serve *serve)
{
	struct gq_drift drift GQ_CLEANUP(gq_drift_done) = {0};
	struct gq_err err;

	if (gq_ledger_recount(serve->ledger, gq_clock_mono_ns(&gq_clock_real), &drift, &err))
		gq_log(GQ_LOG_ERROR, "the recount failed", GQ_S("problem", err.msg));
	gq_drift_log(&drift);
}

static void tick(struct serve *serve, unsigned count)
{
	gq_store_probe(serve->store);
	if (count % CERTIFICATE_TICKS == 0)
		follow_certificate(serve, false);
	if (count % RECOUNT_TICKS == 0)
		recount(serve);
}

/* Returns once somebody asks the program to end. */
static void run_until_signal(struct serve *serve)
{
	struct pollfd fd = {.fd = serve->signals, .events = POLLIN};
	int64_t next_ns = gq_clock_mono_ns(&gq_clock_real);
	struct signalfd_siginfo info;

	for (unsigned count = 1;;) {
		int64_t left_ns = next_ns - gq_clock_mono_ns(&gq_clock_real);
		if (left_ns <= 0) {
			tick(serve, count++);
			next_ns = gq_clock_mono_ns(&gq_clock_real) + TICK_MS * GQ_NS_PER_MS;
			continue;
		}
		int timeout_ms = (int)(left_ns / GQ_NS_PER_MS) + 1;
		if (poll(&fd, 1, timeout_ms) <= 0 ||
		    read(serve->signals, &info, sizeof info) != (ssize_t)sizeof info)
			continue;
		if (info.ssi_signo != SIGHUP) {
			gq_log(GQ_LOG_INFO, "ending",
			       GQ_S("signal", strsignal((int)info.ssi_signo)));
			return;
		}
		follow_certificate(serve, true);
	}
}

static int start_threads(struct serve *serve, struct gq_err *err)
{
	int code = pthread_create(&serve->server_thread, NULL, server_main, serve);

	if (code)
		return gq_fail(err, GQ_EIO, "no thread for the HTTPS server: %s", strerror(code));
	serve->server_runs = true;
	return gq_informer_start(serve->informer, err);
}

static int run(struct serve *serve, struct gq_err *err)
{
	unsigned port, metrics_port;
	int code = start_threads(serve, err);

	if (!code) {
		gq_server_ports(serve->server, &port, &metrics_port);
		gq_log(GQ_LOG_INFO, "gpuquota serves", GQ_S("version", GQ_VERSION),
		       GQ_S("identity", serve->options.identity),
		       GQ_S("namespace", serve->options.namespace_), GQ_I("port", port),
		       GQ_I("metrics_port", metrics_port),
		       GQ_S("server", serve->kubeconfig->server));
		if (serve->options.reservation_ttl_ns < CREATE_MAX_NS)
			gq_log(
			    GQ_LOG_WARN,
			    "a pod may be stored after its reservation has ended, and a quota be "
			    "passed: raise --reservation-ttl",
			    GQ_I("seconds", serve->options.reservation_ttl_ns / GQ_NS_PER_S),
			    GQ_I("at_least", CREATE_MAX_NS / GQ_NS_PER_S));
		run_until_signal(serve);
	}
	atomic_store(&serve->pages.draining, true);
	if (serve->server_runs) {
		gq_server_drain(serve->server, DRAIN_MAX_NS);
		pthread_join(serve->server_thread, NULL);
	}
	return code ? code : serve->server_code;
}

/* Signals are read by the main thread; every other thread inherits the block. */
static int block_signals(struct serve *serve, struct gq_err *err)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	serve->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return serve->signals < 0 ? gq_fail(err, GQ_EIO, "signalfd: %s", strerror(errno)) : 0;
}

int gq_command_serve(int argc, char **argv)
{
	struct serve serve = {.signals = -1};
	struct gq_err err = {0};

	if (gq_serve_options_parse(argc, argv, &serve.options, &err)) {
		fprintf(stderr, "gpuquota serve: %s\n", err.msg);
		return 2;
	}
	gq_log_configure(serve.options.log_level, serve.options.log_format);
	int code = block_signals(&serve, &err);
	if (!code)
		code = make_parts(&serve, &err);
	if (!code)
		code = run(&serve, &err);
	if (code && err.msg[0])
		gq_log(GQ_LOG_ERROR, "gpuquota can't go on", GQ_S("problem", err.msg));
	take_down(&serve);
	return code ? 1 : 0;
}
