#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "controller/commands.h"
#include "controller/options.h"
#include "controller/table.h"
#include "controller/version.h"
#include "informer/api.h"
#include "quota/quantity.h"

#define ANSWER_MAX_BYTES (64u << 20)
#define TIMEOUT_NS (15 * GQ_NS_PER_S)

/* GET of the usage page: at --url, else by way of the API server, which forwards to the Service. */
static int fetch(const char *url, const char *kubeconfig, const char *ns, struct gq_buf *out,
		 struct gq_err *err)
{
	struct gq_kubeconfig *config GQ_CLEANUP(gq_cleanup_kubeconfig) = NULL;
	struct gq_api *api GQ_CLEANUP(gq_cleanup_api) = NULL;
	char path[512] = "/usage";
	int code = 0;

	if (url) {
		size_t len = strlen(url);
		config = calloc(1, sizeof *config);
		if (!config)
			return gq_fail(err, GQ_ENOMEM, "out of memory");
		while (len > 0 && url[len - 1] == '/')
			len--;
		config->server = strndup(url, len);
		if (!config->server)
			return gq_fail(err, GQ_ENOMEM, "out of memory");
	} else {
		code = gq_kubeconfig_find(kubeconfig, true, &config, err);
		(void)snprintf(path, sizeof path,
			       "/api/v1/namespaces/%s/services/http:gpuquota:metrics/proxy/usage",
			       ns);
	}
	if (!code)
		code = gq_api_new(config, GQ_USER_AGENT, &api, err);
	if (!code)
		code = gq_api_call(api,
				   &(struct gq_api_request){.method = "GET",
							    .path = path,
							    .max_bytes = ANSWER_MAX_BYTES,
							    .timeout_ns = TIMEOUT_NS},
				   out, NULL, err);
	return code;
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
					   "terminating", "reserved", "free"};
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

/* What a table of numbers does not show. */
static void print_notes(struct json_object *root)
{
	struct json_object *uncharged = member(root, "uncharged");
	size_t n = json_object_is_type(uncharged, json_type_array)
		       ? json_object_array_length(uncharged)
		       : 0;

	for (size_t i = 0; i < n; i++) {
		struct json_object *one = json_object_array_get_idx(uncharged, i);
		printf("namespace %s: GPU pods charged to no tenant: %s%s\n",
		       text_of(member(one, "namespace")), text_of(member(one, "pods")),
		       json_object_get_boolean(member(one, "ambiguous"))
			   ? ", since the selectors of two tenants match it"
			   : "");
	}
	if (!member(root, "policyHash"))
		puts("no policy is in force yet: GPU pods wait for one");
	if (!json_object_get_boolean(member(root, "synced")))
		puts("gpuquota has not read the whole cluster yet: the numbers may be too low");
}

static int print_text(const struct gq_buf *answer)
{
	static const char *const header[] = {"TENANT",  "CLASS",       "LIMIT",    "USED", "BOUND",
					     "PENDING", "TERMINATING", "RESERVED", "FREE"};
	struct json_object *root = json_tokener_parse(answer->data ? answer->data : "");
	struct json_object *tenants = member(root, "tenants");
	struct gq_table *table = gq_table_new(header, sizeof header / sizeof header[0], 2);
	int code = GQ_ENOMEM;

	if (!json_object_is_type(tenants, json_type_array)) {
		fputs("gpuquota usage: the answer is not gpuquota's usage page\n", stderr);
		code = GQ_EINVALID;
	} else if (table) {
		for (size_t t = 0; t < json_object_array_length(tenants); t++)
			put_tenant(table, json_object_array_get_idx(tenants, t));
		code = gq_table_print(table, stdout);
		if (!code)
			print_notes(root);
	}
	if (code == GQ_ENOMEM)
		fputs("gpuquota usage: out of memory\n", stderr);
	gq_table_free(table);
	json_object_put(root);
	return code ? 1 : 0;
}

int gq_command_usage(int argc, char **argv)
{
	const char *kubeconfig = NULL, *ns = NULL, *url = NULL, *output = NULL;
	const struct gq_option options[] = {{"kubeconfig", 0, &kubeconfig},
					    {"namespace", 'n', &ns},
					    {"url", 0, &url},
					    {"output", 'o', &output}};
	struct gq_buf answer GQ_BUF_CLEANUP = GQ_BUF_INIT(ANSWER_MAX_BYTES);
	struct gq_err err = {0};
	size_t n;

	int code = gq_options_parse(argc, argv, options, sizeof options / sizeof options[0], NULL,
				    0, &n, &err);
	ns = ns ? ns : "gpuquota-system";
	if (!code)
		code = gq_options_namespace(ns, &err);
	if (!code && output && strcmp(output, "text") != 0 && strcmp(output, "json") != 0)
		code = gq_fail(&err, GQ_EINVALID, "--output is text or json, not %s", output);
	if (code) {
		fprintf(stderr, "gpuquota usage: %s\n", err.msg);
		return 2;
	}
	if (fetch(url, kubeconfig, ns, &answer, &err)) {
		fprintf(stderr, "gpuquota usage: %s\n", err.msg);
		return 1;
	}
	if (!output || strcmp(output, "text") == 0)
		return print_text(&answer);
	return fwrite(answer.data, 1, answer.len, stdout) == answer.len ? 0 : 1;
}
