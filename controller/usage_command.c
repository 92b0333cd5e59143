#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "controller/commands.h"
#include "controller/options.h"
#include "controller/status.h"
#include "controller/table.h"
#include "controller/usage_command.h"
#include "controller/version.h"
#include "informer/api.h"
#include "quota/field.h"
#include "quota/quantity.h"

#define ANSWER_MAX_BYTES (64u << 20)
#define LINE_MAX_BYTES (16u << 10)
#define TIMEOUT_NS (15 * GQ_NS_PER_S)
#define OLD_S 90
#define RECOUNT_MAX_NS (60 * GQ_NS_PER_S)
#define RECOUNT_POLL_NS (500 * GQ_NS_PER_MS)

/* What was asked for, and the way there. */
struct usage {
	const char *kubeconfig, *namespace_, *url;
	bool recount;
	const struct gq_usage_time *time;
	struct gq_kubeconfig *config;
	struct gq_api *api;
};

static void usage_done(struct usage *usage)
{
	gq_api_free(usage->api);
	gq_kubeconfig_free(usage->config);
}

static struct json_object *member(struct json_object *object, const char *key)
{
	struct json_object *value = NULL;

	if (json_object_is_type(object, json_type_object))
		(void)json_object_object_get_ex(object, key, &value);
	return value;
}

static const char *text_of(struct json_object *value)
{
	return value ? json_object_get_string(value) : "-";
}

/* ---- reading ---- */

/* A page of this version or of none: at least what the table needs. */
static bool is_page(struct json_object *root)
{
	return json_object_is_type(member(root, "tenants"), json_type_array);
}

static int connect_to_url(struct usage *usage, struct gq_err *err)
{
	size_t len = strlen(usage->url);

	usage->config = calloc(1, sizeof *usage->config);
	if (!usage->config)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	/* that of the server, or of the page itself */
	static const char page[] = "/usage";
	if (len >= sizeof page - 1 && strcmp(usage->url + len - (sizeof page - 1), page) == 0)
		len -= sizeof page - 1;
	while (len > 0 && usage->url[len - 1] == '/')
		len--;
	usage->config->server = strndup(usage->url, len);
	if (!usage->config->server)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	return 0;
}

static int connect_to(struct usage *usage, struct gq_err *err)
{
	int code = usage->url ? connect_to_url(usage, err)
			      : gq_kubeconfig_find(usage->kubeconfig, true, &usage->config, err);

	return code ? code : gq_api_new(usage->config, GQ_USER_AGENT, &usage->api, err);
}

static void status_path(const struct usage *usage, char *path, size_t size)
{
	(void)snprintf(path, size, "/api/v1/namespaces/%s/configmaps/" GQ_STATUS_NAME,
		       usage->namespace_);
}

/* What to do about an answer of the API server. role: the ClusterRole that allows it. */
static int explain(const struct usage *usage, int code, const char *role, struct gq_err *err)
{
	char why[GQ_ERR_MAX];

	(void)snprintf(why, sizeof why, "%s", err->msg);
	if (code == GQ_ENOTFOUND)
		return gq_fail(err, code,
			       "there is no status in namespace %s: gpuquota is not installed "
			       "there, or has not led yet (%s)",
			       usage->namespace_, why);
	if (code == GQ_EDENIED)
		return gq_fail(
		    err, code,
		    "%s\nClusterRole %s allows it: kubectl -n %s create rolebinding NAME "
		    "--clusterrole=%s --user=…",
		    why, role, usage->namespace_, role);
	return code;
}

/* The page in the ConfigMap. */
static int read_status(const struct usage *usage, struct gq_buf *out, struct gq_err *err)
{
	static const struct gq_json_keep data_keep[] = {{GQ_STATUS_JSON_KEY, NULL},
							GQ_JSON_KEEP_END};
	static const struct gq_json_keep keep[] = {{"data", data_keep}, GQ_JSON_KEEP_END};
	struct gq_buf object GQ_BUF_CLEANUP = GQ_BUF_INIT(ANSWER_MAX_BYTES);
	struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;
	char path[512];

	status_path(usage, path, sizeof path);
	int code = gq_api_call(usage->api,
			       &(struct gq_api_request){.method = "GET",
							.path = path,
							.keep = keep,
							.max_bytes = ANSWER_MAX_BYTES,
							.timeout_ns = TIMEOUT_NS},
			       &object, NULL, err);
	if (code)
		return explain(usage, code, "gpuquota-reader", err);
	root = json_tokener_parse(object.data ? object.data : "");
	struct json_object *page = member(member(root, "data"), GQ_STATUS_JSON_KEY);
	if (!json_object_is_type(page, json_type_string))
		return gq_fail(err, GQ_EINVALID,
			       "ConfigMap " GQ_STATUS_NAME " has no key " GQ_STATUS_JSON_KEY
			       ": it was not written by gpuquota, or not by this version");
	gq_buf_reset(out);
	gq_buf_append(out, json_object_get_string(page), (size_t)json_object_get_string_len(page));
	return out->code ? gq_fail(err, out->code, "out of memory") : 0;
}

static int read_page(const struct usage *usage, struct gq_buf *out, struct gq_err *err)
{
	if (!usage->url)
		return read_status(usage, out, err);
	return gq_api_call(usage->api,
			   &(struct gq_api_request){.method = "GET",
						    .path = "/usage",
						    .max_bytes = ANSWER_MAX_BYTES,
						    .timeout_ns = TIMEOUT_NS},
			   out, NULL, err);
}

/* ---- a recount ---- */

static int request_recount(const struct usage *usage, const char *nonce, struct gq_err *err)
{
	struct gq_buf body GQ_BUF_CLEANUP = GQ_BUF_INIT(1024);
	char path[512];

	status_path(usage, path, sizeof path);
	gq_buf_printf(&body, "{\"metadata\":{\"annotations\":{\"%s\":\"%s\"}}}",
		      GQ_STATUS_REQUEST_ANNOTATION, nonce);
	if (body.code)
		return gq_fail(err, body.code, "out of memory");
	int code =
	    gq_api_call(usage->api,
			&(struct gq_api_request){.method = "PATCH",
						 .path = path,
						 .content_type = "application/merge-patch+json",
						 .body = body.data,
						 .body_len = body.len,
						 .timeout_ns = TIMEOUT_NS},
			NULL, NULL, err);
	return explain(usage, code, "gpuquota-operator", err);
}

/* Whether the page has the recount that was asked for; who leads, for the message when it never
 * has. */
static bool is_answered(const struct gq_buf *page, const char *nonce, char *leader, size_t size)
{
	struct json_object *root GQ_CLEANUP(gq_cleanup_json) =
	    json_tokener_parse(page->data ? page->data : "");

	(void)snprintf(leader, size, "%s", text_of(member(root, "leader")));
	for (char *p = leader; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	return strcmp(text_of(member(member(root, "recount"), "request")), nonce) == 0;
}

/* Asks for a recount and waits until the status has it. */
static int recount(const struct usage *usage, struct gq_buf *out, struct gq_err *err)
{
	const struct gq_clock *clock = usage->time->clock;
	int64_t begun_ns = gq_clock_mono_ns(clock);
	char nonce[GQ_STATUS_REQUEST_MAX_BYTES + 1], leader[256] = "-";

	/* the clock's own nanoseconds are of no day, but make it unlike any other */
	(void)snprintf(nonce, sizeof nonce, "%" PRId64,
		       gq_clock_wall_s(clock) * GQ_NS_PER_S + begun_ns % GQ_NS_PER_S);
	int code = request_recount(usage, nonce, err);
	if (code)
		return code;
	while (gq_clock_mono_ns(clock) - begun_ns < RECOUNT_MAX_NS) {
		code = read_status(usage, out, err);
		if (!code && is_answered(out, nonce, leader, sizeof leader))
			return 0;
		/* an outage may pass; what is refused or not there stays so */
		if (code && code != GQ_EIO && code != GQ_ETHROTTLED)
			return code;
		usage->time->pause(usage->time->arg, RECOUNT_POLL_NS);
	}
	if (code)
		return gq_err_prefix(err, code, "no recount within 60 s: ");
	return gq_fail(err, GQ_EIO,
		       "no recount within 60 s, though it was asked for: is gpuquota running? The "
		       "leader was %s",
		       leader);
}

/* ---- the table ---- */

/* A cell of GPUs ("7") or of memory ("640Gi"); null is unlimited. */
static void put_number(struct gq_table *table, struct json_object *numbers, const char *key,
		       bool memory)
{
	struct gq_buf cell GQ_BUF_CLEANUP = GQ_BUF_INIT(64);
	struct json_object *value = member(numbers, key);

	if (!value)
		gq_buf_puts(&cell, "-");
	else if (memory)
		gq_mib_print(&cell, json_object_get_int64(value));
	else
		gq_buf_puts(&cell, json_object_get_string(value));
	gq_table_cell(table, cell.data ? cell.data : "");
}

static void put_row(struct gq_table *table, const char *tenant, struct json_object *limit,
		    bool memory)
{
	static const char *const keys[] = {"limit",       "used",     "bound", "pending",
					   "terminating", "reserved", "free",  "unready"};
	struct json_object *numbers = member(limit, memory ? "memoryMiB" : "gpus");
	char class_name[256];

	(void)snprintf(class_name, sizeof class_name, "%s%s", text_of(member(limit, "class")),
		       memory ? " memory" : "");
	gq_table_cell(table, tenant);
	gq_table_cell(table, class_name);
	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
		put_number(table, numbers, keys[i], memory);
	gq_table_row(table);
}

static void put_tenant(struct gq_table *table, struct json_object *tenant)
{
	struct json_object *limits = member(tenant, "limits");
	size_t n =
	    json_object_is_type(limits, json_type_array) ? json_object_array_length(limits) : 0;
	char name[600];

	(void)snprintf(name, sizeof name, "%s", text_of(member(tenant, "name")));
	for (size_t i = 0; i < n; i++) {
		struct json_object *limit = json_object_array_get_idx(limits, i);
		if (member(member(limit, "gpus"), "limit"))
			put_row(table, name, limit, false);
		if (member(member(limit, "memoryMiB"), "limit"))
			put_row(table, name, limit, true);
	}
}

/* ---- notes ---- */

/* Prints a line; what a terminal would obey becomes '?'. */
static void say(const struct gq_buf *line)
{
	for (size_t i = 0; line->data && i < line->len; i++) {
		char c = line->data[i];
		putchar((unsigned char)c < 0x20 || c == 0x7f ? '?' : c);
	}
	putchar('\n');
}

static size_t length_of(struct json_object *list)
{
	return json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
}

/* ": a, b and 3 more" */
static void put_names(struct gq_buf *line, struct json_object *pods, size_t in_all,
		      void (*put)(struct gq_buf *line, struct json_object *pod))
{
	size_t n = length_of(pods);

	for (size_t i = 0; i < n; i++) {
		gq_buf_puts(line, i ? ", " : ": ");
		put(line, json_object_array_get_idx(pods, i));
	}
	if (n && in_all > n)
		gq_buf_printf(line, " and %zu more", in_all - n);
}

static void put_name(struct gq_buf *line, struct json_object *pod)
{
	gq_buf_puts(line, text_of(pod));
}

static void put_mib(struct gq_buf *line, struct json_object *mib)
{
	int64_t value = json_object_get_int64(mib);

	if (value < 0)
		gq_buf_putc(line, '-');
	if (!mib)
		gq_buf_puts(line, "unknown");
	else
		gq_mib_print(line, value < 0 && value > INT64_MIN ? -value : value);
}

static void put_holder(struct gq_buf *line, struct json_object *pod)
{
	gq_buf_printf(line, "%s/%s (%s%s)", text_of(member(pod, "namespace")),
		      text_of(member(pod, "name")), text_of(member(pod, "gpus")),
		      json_object_get_boolean(member(pod, "unasked")) ? ", never asked for" : "");
}

static void print_over(struct json_object *over)
{
	struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(LINE_MAX_BYTES);
	struct json_object *gpus = member(over, "gpus"), *memory = member(over, "memoryMiB");

	gq_buf_printf(&line, "%s is over its limit of %s: ", text_of(member(over, "tenant")),
		      text_of(member(over, "class")));
	if (gpus)
		gq_buf_printf(&line, "holds %s of %s GPUs", text_of(member(gpus, "held")),
			      text_of(member(gpus, "limit")));
	if (memory) {
		gq_buf_puts(&line, gpus ? " and " : "holds ");
		put_mib(&line, member(memory, "held"));
		gq_buf_puts(&line, " of ");
		put_mib(&line, member(memory, "limit"));
		gq_buf_puts(&line, " of memory");
	}
	put_names(&line, member(over, "holders"),
		  (size_t)json_object_get_uint64(member(over, "pods")), put_holder);
	say(&line);
}

static void print_uncharged(struct json_object *uncharged)
{
	struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(LINE_MAX_BYTES);

	gq_buf_printf(&line, "namespace %s: GPU pods charged to no tenant: %s%s",
		      text_of(member(uncharged, "namespace")), text_of(member(uncharged, "pods")),
		      json_object_get_boolean(member(uncharged, "ambiguous"))
			  ? ", since the selectors of two tenants match it"
			  : "");
	say(&line);
}

static void print_drift(struct json_object *drift)
{
	struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(LINE_MAX_BYTES);

	gq_buf_printf(&line, "drift repaired: the total of %s in %s was off by %s GPUs, ",
		      text_of(member(drift, "tenant")), text_of(member(drift, "class")),
		      text_of(member(drift, "gpus")));
	put_mib(&line, member(drift, "memoryMiB"));
	gq_buf_puts(&line, " of memory");
	say(&line);
}

static uint64_t missing_of(struct json_object *root, const char *list)
{
	return json_object_get_uint64(member(member(root, "missing"), list));
}

static void print_recount(struct json_object *root)
{
	struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(LINE_MAX_BYTES);
	struct json_object *recount = member(root, "recount");
	struct json_object *drift = member(recount, "drift"), *pods = member(recount, "driftPods");
	struct json_object *problem = member(recount, "problem");
	size_t n = length_of(drift), n_pods = length_of(pods);
	uint64_t more = missing_of(root, "drift"), more_pods = missing_of(root, "driftPods");

	if (problem) {
		gq_buf_printf(&line, "the recount is not complete: %s", text_of(problem));
		say(&line);
		gq_buf_reset(&line);
	}
	for (size_t i = 0; i < n; i++)
		print_drift(json_object_array_get_idx(drift, i));
	if (more)
		printf("drift repaired: %" PRIu64 " totals more\n", more);
	if (n_pods || more_pods) {
		gq_buf_puts(&line, "drift repaired: the charges of these pods were wrong");
		put_names(&line, pods, n_pods + (size_t)more_pods, put_name);
		say(&line);
	}
	if (!n && !more && !n_pods && !more_pods)
		printf("no drift: %" PRIu64 " pods recounted\n",
		       json_object_get_uint64(member(recount, "pods")));
}

/* Whose status it is, and of when. A page of /usage says neither. */
static void print_origin(struct json_object *root, int64_t wall_s)
{
	struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(LINE_MAX_BYTES);
	struct json_object *leader = member(root, "leader"), *updated = member(root, "updated");
	int64_t at_s = json_object_get_int64(updated);

	if (leader) {
		gq_buf_printf(&line, "leader: %s", text_of(leader));
		say(&line);
	}
	if (updated && at_s >= 0 && wall_s - at_s > OLD_S)
		printf("status is %" PRId64 " s old: is gpuquota running?\n", wall_s - at_s);
}

/* What a table of numbers does not show. */
static void print_notes(struct json_object *root, int64_t wall_s)
{
	struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(LINE_MAX_BYTES);
	struct json_object *over = member(root, "over"), *uncharged = member(root, "uncharged");
	struct json_object *problem = member(root, "policyProblem");
	struct json_object *journal = member(root, "journalProblem");

	for (size_t i = 0; i < length_of(over); i++)
		print_over(json_object_array_get_idx(over, i));
	for (size_t i = 0; i < length_of(uncharged); i++)
		print_uncharged(json_object_array_get_idx(uncharged, i));
	if (missing_of(root, "tenants") || missing_of(root, "over") ||
	    missing_of(root, "uncharged"))
		printf("the status has no room for all: left out are %" PRIu64 " tenants, %" PRIu64
		       " limits that are over and %" PRIu64 " namespaces\n",
		       missing_of(root, "tenants"), missing_of(root, "over"),
		       missing_of(root, "uncharged"));
	if (problem) {
		gq_buf_printf(&line, "the newest policy is not in force: %s", text_of(problem));
		say(&line);
	}
	if (journal) {
		gq_buf_reset(&line);
		gq_buf_printf(&line, "GPU pods wait, since the journal can't be written: %s",
			      text_of(journal));
		say(&line);
	} else if (json_object_get_boolean(member(root, "journalHeld"))) {
		puts("GPU pods wait: the journal was lost, and reservations may be missing in it");
	}
	if (!member(root, "policyHash"))
		puts("no policy is in force yet: GPU pods wait for one");
	if (!json_object_get_boolean(member(root, "synced")))
		puts("gpuquota has not read the whole cluster yet: the numbers may be too low");
	print_origin(root, wall_s);
}

static int print_text(const struct usage *usage, const struct gq_buf *answer)
{
	static const char *const header[] = {"TENANT", "CLASS",   "LIMIT",       "USED",
					     "BOUND",  "PENDING", "TERMINATING", "RESERVED",
					     "FREE",   "UNREADY"};
	static const size_t unready = sizeof header / sizeof header[0] - 1;
	struct json_object *root = json_tokener_parse(answer->data ? answer->data : "");
	struct json_object *tenants = member(root, "tenants");
	struct gq_table *table = gq_table_new(header, sizeof header / sizeof header[0], 2);
	int code = GQ_ENOMEM;

	if (!is_page(root)) {
		fputs("gpuquota usage: the answer is not gpuquota's usage page\n", stderr);
		code = GQ_EINVALID;
	} else if (table) {
		if (usage->recount)
			print_recount(root);
		for (size_t t = 0; t < json_object_array_length(tenants); t++)
			put_tenant(table, json_object_array_get_idx(tenants, t));
		gq_table_hide_zeros(table, unready);
		code = gq_table_print(table, stdout);
		if (!code)
			print_notes(root, gq_clock_wall_s(usage->time->clock));
		if (usage->recount && member(member(root, "recount"), "problem"))
			code = GQ_EIO;
	}
	if (code == GQ_ENOMEM)
		fputs("gpuquota usage: out of memory\n", stderr);
	gq_table_free(table);
	json_object_put(root);
	return code ? 1 : 0;
}

/* ---- the command ---- */

static int parse(int argc, char **argv, struct usage *usage, const char **ret_output,
		 struct gq_err *err)
{
	const char *recount_flag = NULL, *output = NULL;
	const struct gq_option options[] = {{"kubeconfig", 0, &usage->kubeconfig},
					    {"namespace", 'n', &usage->namespace_},
					    {"url", 0, &usage->url},
					    {"output", 'o', &output},
					    {"recount", GQ_OPTION_FLAG, &recount_flag}};
	size_t n;
	int code = gq_options_parse(argc, argv, options, sizeof options / sizeof options[0], NULL,
				    0, &n, err);

	if (!usage->namespace_)
		usage->namespace_ = "gpuquota-system";
	usage->recount = recount_flag;
	*ret_output = output ? output : "text";
	if (!code)
		code = gq_options_namespace(usage->namespace_, err);
	if (!code && strcmp(*ret_output, "text") != 0 && strcmp(*ret_output, "json") != 0)
		code = gq_fail(err, GQ_EINVALID, "--output is text or json, not %s", *ret_output);
	if (!code && usage->recount && usage->url)
		code = gq_fail(err, GQ_EINVALID,
			       "--recount is asked for through the API server, not at --url");
	return code;
}

int gq_usage_command_run(int argc, char **argv, const struct gq_usage_time *time)
{
	struct usage usage GQ_CLEANUP(usage_done) = {.time = time};
	struct gq_buf answer GQ_BUF_CLEANUP = GQ_BUF_INIT(ANSWER_MAX_BYTES);
	struct gq_err err = {0};
	const char *output;

	if (parse(argc, argv, &usage, &output, &err)) {
		fprintf(stderr, "gpuquota usage: %s\n", err.msg);
		return 2;
	}
	int code = connect_to(&usage, &err);
	if (!code)
		code = usage.recount ? recount(&usage, &answer, &err)
				     : read_page(&usage, &answer, &err);
	if (code) {
		fprintf(stderr, "gpuquota usage: %s\n", err.msg);
		return 1;
	}
	if (strcmp(output, "text") == 0)
		return print_text(&usage, &answer);
	return fwrite(answer.data, 1, answer.len, stdout) == answer.len ? 0 : 1;
}

static void pause_ns(void *arg, int64_t ns)
{
	struct timespec left = {.tv_sec = (time_t)(ns / GQ_NS_PER_S),
				.tv_nsec = (long)(ns % GQ_NS_PER_S)};

	(void)arg;
	while (nanosleep(&left, &left) && errno == EINTR)
		continue;
}

int gq_command_usage(int argc, char **argv)
{
	return gq_usage_command_run(
	    argc, argv, &(struct gq_usage_time){.clock = &gq_clock_real, .pause = pause_ns});
}
