#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/log.h"
#include "controller/commands.h"
#include "controller/credential_log.h"
#include "controller/event_notes.h"
#include "controller/feed.h"
#include "controller/file.h"
#include "controller/journal.h"
#include "controller/leadership.h"
#include "controller/options.h"
#include "controller/pages.h"
#include "controller/reporting.h"
#include "controller/routing.h"
#include "controller/store.h"
#include "controller/trace.h"
#include "controller/version.h"
#include "informer/kubeconfig.h"

#define TICK_MS 100
#define CERTIFICATE_TICKS 10 /* look at the files once a second */
#define LAG_RELIST_NS (5 * GQ_NS_PER_S)
/* longer than a list of many pods takes */
#define LAG_RELIST_AGAIN_NS (300 * GQ_NS_PER_S)
/* Whoever routes reviews hears a moment later where they go from now on. */
#define DRAIN_MIN_NS GQ_NS_PER_S
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
	struct gq_journal *journal;
	struct gq_routing *routing;
	struct gq_leadership *leadership;
	struct gq_events *events;
	struct gq_event_notes notes;
	struct gq_reporting *reporting;
	struct gq_admission *admission;
	struct gq_pages pages;
	struct gq_server *server;
	char configmaps_path[512];
	struct gq_informer_resource resources[6];
	struct gq_informer *informer;
	pthread_t server_thread;
	bool server_runs;
	int server_code;
	int signals; /* signalfd */
	int wake;    /* eventfd: main has something to do before the next tick */
	atomic_bool handed_over;
	struct gq_credential_log credential_log;
	int64_t relist_ns;        /* when a watch that lags is given up; 0 it does not lag */
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

static void on_commit(void *arg, uint64_t ticket, int64_t deadline_ns,
		      void (*done)(void *done_arg, int code), void *done_arg)
{
	struct serve *serve = arg;

	gq_journal_commit(serve->journal, ticket, deadline_ns, done, done_arg);
}

static bool on_leads(void *arg)
{
	struct serve *serve = arg;

	return gq_leadership_leads(serve->leadership);
}

static void on_denied(void *arg, const struct gq_create *create, const struct gq_binding *binding,
		      const struct gq_verdict *verdict)
{
	struct serve *serve = arg;

	if (create)
		gq_note_pod_denied(&serve->notes, create, verdict);
	else
		gq_note_binding_denied(&serve->notes, binding, verdict);
}

static void wake_main(void *arg)
{
	struct serve *serve = arg;
	uint64_t one = 1;

	if (write(serve->wake, &one, sizeof one) < 0 && errno != EAGAIN)
		gq_log(GQ_LOG_ERROR, "main can't be woken", GQ_S("problem", strerror(errno)));
}

static void on_relist(void *arg)
{
	struct serve *serve = arg;

	gq_informer_relist(serve->informer, "pods");
}

static void on_own_pod(void *arg, const char *name, const char *leader_label, const char *barrier,
		       bool gone, bool listed)
{
	struct serve *serve = arg;

	gq_leadership_own_pod(serve->leadership, name, leader_label, barrier, gone, listed);
}

static void on_pods_listed(void *arg, int64_t begun_ns)
{
	struct serve *serve = arg;

	gq_leadership_pods_listed(serve->leadership, begun_ns);
}

/* ---- leading ---- */

static void on_fenced(void *arg)
{
	struct serve *serve = arg;

	gq_leadership_fenced(serve->leadership, "another replica has written the journal");
}

static void on_lost(void *arg, const char *how)
{
	struct serve *serve = arg;

	gq_note_journal_lost(&serve->notes, how, serve->options.reservation_ttl_ns / GQ_NS_PER_S);
}

static void on_hold_over(void *arg)
{
	struct serve *serve = arg;

	gq_leadership_hold_over(serve->leadership);
}

static void on_policy_fenced(void *arg)
{
	struct serve *serve = arg;

	gq_leadership_fenced(serve->leadership, "another replica has written the accepted policy");
}

static void on_policy(void *arg, const struct gq_policy_status *status)
{
	struct serve *serve = arg;

	if (!gq_leadership_leads(serve->leadership))
		return;
	if (status->last_in_force)
		gq_note_policy_accepted(&serve->notes, status->hash);
	else if (status->problem[0])
		gq_note_policy_refused(&serve->notes, status->problem,
				       status->in_force ? status->hash : NULL);
}

static void lead_policy(void *arg, uint64_t epoch, void (*done)(void *done_arg, int code),
			void *done_arg)
{
	struct serve *serve = arg;

	gq_policy_source_lead(serve->policy, epoch, done, done_arg);
}

static bool first_ever(void *arg)
{
	struct serve *serve = arg;

	return gq_policy_source_first_ever(serve->policy) &&
	       !gq_reporting_status_seen(serve->reporting);
}

static void follow_policy(void *arg)
{
	struct serve *serve = arg;

	gq_policy_source_follow(serve->policy);
}

static void on_leadership(void *arg, bool leads, const char *why)
{
	struct serve *serve = arg;
	struct gq_policy_status policy;

	gq_ledger_set_deciding(serve->ledger, leads);
	gq_reporting_lead(serve->reporting, leads);
	if (leads) {
		gq_note_leader_elected(&serve->notes);
		/* refused when nobody led, so nobody was told */
		gq_policy_source_status(serve->policy, &policy);
		if (!policy.last_ok)
			on_policy(serve, &policy);
		return;
	}
	gq_note_leader_lost(&serve->notes, why, atomic_load(&serve->pages.draining));
	/* the API server keeps its connections to whoever led when it opened them */
	gq_server_close_idle(serve->server);
}

static void on_problem(void *arg, const char *resource, int code, const char *message)
{
	struct serve *serve = arg;
	struct gq_credential_state state;

	gq_credential_state(gq_api_credential(serve->api), &state);
	gq_log(gq_credential_log_covers(&state, code) ? GQ_LOG_DEBUG : GQ_LOG_WARN,
	       "reading from the API server", GQ_S("resource", resource),
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
	gq_leadership_start(serve->leadership);
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
	    .drain_min_ns = DRAIN_MIN_NS,
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
	    {"policy", serve->configmaps_path, "metadata.name=" GQ_POLICY_NAME,
	     gq_policy_state_keep, gq_policy_source_event, serve->policy},
	    {"accepted policy", serve->configmaps_path, "metadata.name=" GQ_ACCEPTED_NAME,
	     gq_policy_state_keep, gq_policy_source_accepted_event, serve->policy},
	    {"status", serve->configmaps_path, "metadata.name=" GQ_STATUS_NAME,
	     gq_reporting_status_keep, gq_reporting_status_event, serve->reporting},
	    {"pods", "/api/v1/pods", NULL, gq_pod_keep, gq_feed_pods, &serve->feed},
	};
	_Static_assert(sizeof resources == sizeof serve->resources, "one entry a collection");
	const struct gq_informer_options options = {
	    .config = serve->kubeconfig,
	    .credential = gq_api_credential(serve->api),
	    .user_agent = GQ_USER_AGENT,
	    .resources = serve->resources,
	    .n_resources = sizeof resources / sizeof resources[0],
	    .on_problem = on_problem,
	    .on_synced = on_synced,
	    .arg = serve,
	};

	memcpy(serve->resources, resources, sizeof resources);
	(void)snprintf(serve->configmaps_path, sizeof serve->configmaps_path,
		       "/api/v1/namespaces/%s/configmaps", serve->options.namespace_);
	return gq_informer_new(&options, &serve->informer, err);
}

/* What keeps and ends reservations, and who may make any. */
static int make_leading_parts(struct serve *serve, struct gq_err *err)
{
	const struct gq_serve_options *options = &serve->options;

	serve->journal =
	    gq_journal_new(&(struct gq_journal_options){.api = serve->api,
							.ledger = serve->ledger,
							.clock = &gq_clock_real,
							.namespace_ = options->namespace_,
							.holder = options->identity,
							.ttl_ns = options->reservation_ttl_ns,
							.on_fenced = on_fenced,
							.on_lost = on_lost,
							.on_hold_over = on_hold_over,
							.arg = serve});
	serve->routing = gq_routing_new(&(struct gq_routing_options){
	    .api = serve->api, .namespace_ = options->namespace_, .identity = options->identity});
	if (!serve->journal || !serve->routing)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	return gq_leadership_new(&(struct gq_leadership_options){.api = serve->api,
								 .clock = &gq_clock_real,
								 .journal = serve->journal,
								 .routing = serve->routing,
								 .namespace_ = options->namespace_,
								 .identity = options->identity,
								 .elect = options->leader_elect,
								 .lead_policy = lead_policy,
								 .first_ever = first_ever,
								 .follow_policy = follow_policy,
								 .relist = on_relist,
								 .on_change = on_leadership,
								 .arg = serve},
				 &serve->leadership, err);
}

static int make_telling_parts(struct serve *serve, struct gq_err *err)
{
	serve->events = gq_events_new(&(struct gq_events_options){
	    .api = serve->api, .clock = &gq_clock_real, .instance = serve->options.identity});
	serve->notes = (struct gq_event_notes){.events = serve->events,
					       .namespace_ = serve->options.namespace_,
					       .identity = serve->options.identity};
	serve->reporting =
	    gq_reporting_new(&(struct gq_reporting_options){.ledger = serve->ledger,
							    .api = serve->api,
							    .clock = &gq_clock_real,
							    .policy = serve->policy,
							    .journal = serve->journal,
							    .notes = &serve->notes,
							    .namespace_ = serve->options.namespace_,
							    .identity = serve->options.identity,
							    .relist = on_relist,
							    .arg = serve});
	return serve->events && serve->reporting ? 0 : gq_fail(err, GQ_ENOMEM, "out of memory");
}

static int make_deciding_parts(struct serve *serve, struct gq_err *err)
{
	serve->ledger = gq_ledger_new(&(struct gq_ledger_options){
	    .reservation_ttl_ns = serve->options.reservation_ttl_ns, .note_ended = gq_trace_on()});
	if (!serve->ledger)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	serve->policy = gq_policy_source_new(
	    &(struct gq_policy_source_options){.ledger = serve->ledger,
					       .api = serve->api,
					       .clock = &gq_clock_real,
					       .namespace_ = serve->options.namespace_,
					       .wake = wake_main,
					       .on_change = on_policy,
					       .on_fenced = on_policy_fenced,
					       .arg = serve});
	serve->store = gq_store_new(serve->ledger, serve->api, &gq_clock_real);
	serve->admission = gq_admission_new(
	    &(struct gq_admission_options){.ledger = serve->ledger,
					   .clock = &gq_clock_real,
					   .policy_namespace = serve->options.namespace_,
					   .policy_name = GQ_POLICY_NAME,
					   .read = on_read,
					   .commit = on_commit,
					   .leads = on_leads,
					   .on_denied = on_denied,
					   .arg = serve});
	if (!serve->policy || !serve->store || !serve->admission)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	gq_ledger_set_deciding(serve->ledger, false);
	return 0;
}

static int make_memory_parts(struct serve *serve, struct gq_err *err)
{
	int code = make_deciding_parts(serve, err);

	if (!code)
		code = make_leading_parts(serve, err);
	if (!code)
		code = make_telling_parts(serve, err);
	if (code)
		return code;
	serve->feed = (struct gq_feed){.ledger = serve->ledger,
				       .clock = &gq_clock_real,
				       .own_namespace = serve->options.namespace_,
				       .on_own_pod = on_own_pod,
				       .on_pods_listed = on_pods_listed,
				       .arg = serve};
	serve->pages.ledger = serve->ledger;
	serve->pages.clock = &gq_clock_real;
	serve->pages.admission = serve->admission;
	serve->pages.policy = serve->policy;
	serve->pages.leadership = serve->leadership;
	serve->pages.journal = serve->journal;
	serve->pages.events = serve->events;
	serve->pages.reporting = serve->reporting;
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
	/* Callbacks first: the informer's and the API client's end with their threads. What is left
	 * may still tell people of it, and answer who waits. */
	gq_informer_free(serve->informer);
	gq_api_stop(serve->api);
	gq_reporting_free(serve->reporting);
	gq_leadership_free(serve->leadership);
	gq_routing_free(serve->routing);
	gq_journal_free(serve->journal);
	gq_events_free(serve->events);
	gq_api_free(serve->api);
	gq_server_free(serve->server);
	gq_admission_free(serve->admission);
	gq_store_free(serve->store);
	gq_policy_source_free(serve->policy);
	gq_ledger_free(serve->ledger);
	gq_kubeconfig_free(serve->kubeconfig);
	if (serve->signals >= 0)
		close(serve->signals);
	if (serve->wake >= 0)
		close(serve->wake);
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

/* Nothing is granted while the watch lags. One that goes on to may have lost an event: a list shows
 * what it did not. */
static void follow_watch(struct serve *serve, int64_t now_ns)
{
	if (!gq_ledger_check_watch(serve->ledger, now_ns)) {
		serve->relist_ns = 0;
		return;
	}
	if (!serve->relist_ns) {
		serve->relist_ns = now_ns + LAG_RELIST_NS;
		gq_log(GQ_LOG_WARN, "the watch of pods lags, so nothing is granted");
	} else if (now_ns >= serve->relist_ns) {
		serve->relist_ns = now_ns + LAG_RELIST_AGAIN_NS;
		gq_log(GQ_LOG_WARN, "the pods are listed again, since their watch goes on to lag");
		gq_informer_relist(serve->informer, "pods");
	}
}

static void tick(struct serve *serve, unsigned count)
{
	int64_t now_ns = gq_clock_mono_ns(&gq_clock_real);
	struct gq_credential_state credential;

	gq_credential_state(gq_api_credential(serve->api), &credential);
	gq_credential_log(&serve->credential_log, &credential, now_ns);
	gq_store_probe(serve->store);
	gq_leadership_tick(serve->leadership);
	gq_routing_tick(serve->routing);
	follow_watch(serve, now_ns);
	gq_policy_source_work(serve->policy);
	gq_reporting_tick(serve->reporting, now_ns);
	if (count % CERTIFICATE_TICKS == 0)
		follow_certificate(serve, false);
}

static void on_handed_over(void *arg)
{
	struct serve *serve = arg;

	atomic_store(&serve->handed_over, true);
	wake_main(serve);
}

/* Returns whether the program is to end at once. */
static bool on_signal(struct serve *serve, bool *ending)
{
	struct signalfd_siginfo info;

	if (read(serve->signals, &info, sizeof info) != (ssize_t)sizeof info)
		return false;
	if (info.ssi_signo == SIGHUP) {
		follow_certificate(serve, true);
		return false;
	}
	gq_log(GQ_LOG_INFO, "ending", GQ_S("signal", strsignal((int)info.ssi_signo)));
	if (*ending)
		return true;
	*ending = true;
	atomic_store(&serve->pages.draining, true);
	gq_leadership_hand_over(serve->leadership, on_handed_over, serve);
	return false;
}

/* Returns once somebody has asked the program to end and another leads, or it was asked twice. */
static void run_until_signal(struct serve *serve)
{
	struct pollfd fds[] = {{.fd = serve->signals, .events = POLLIN},
			       {.fd = serve->wake, .events = POLLIN}};
	int64_t next_ns = gq_clock_mono_ns(&gq_clock_real);
	bool ending = false;
	uint64_t woken;

	for (unsigned count = 1; !atomic_load(&serve->handed_over);) {
		int64_t left_ns = next_ns - gq_clock_mono_ns(&gq_clock_real);
		if (left_ns <= 0) {
			tick(serve, count++);
			next_ns = gq_clock_mono_ns(&gq_clock_real) + TICK_MS * GQ_NS_PER_MS;
			continue;
		}
		int timeout_ms = (int)(left_ns / GQ_NS_PER_MS) + 1;
		if (poll(fds, 2, timeout_ms) <= 0)
			continue;
		if (fds[1].revents && read(serve->wake, &woken, sizeof woken) > 0)
			gq_policy_source_work(serve->policy);
		if (fds[0].revents && on_signal(serve, &ending))
			return;
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

	/* one that a predecessor of this container has left */
	gq_routing_leave(serve->routing);
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
	if (serve->signals < 0)
		return gq_fail(err, GQ_EIO, "signalfd: %s", strerror(errno));
	serve->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return serve->wake < 0 ? gq_fail(err, GQ_EIO, "eventfd: %s", strerror(errno)) : 0;
}

int gq_command_serve(int argc, char **argv)
{
	struct serve serve = {.signals = -1, .wake = -1};
	struct gq_err err = {0};

	if (gq_serve_options_parse(argc, argv, &serve.options, &err)) {
		fprintf(stderr, "gpuquota serve: %s\n", err.msg);
		return 2;
	}
	gq_log_configure(serve.options.log_level, serve.options.log_format);
	gq_trace_open(serve.options.identity);
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
