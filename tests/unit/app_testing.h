#ifndef GQ_TESTS_UNIT_APP_TESTING_H
#define GQ_TESTS_UNIT_APP_TESTING_H

/* What the tests of the webhook's decisions and of the controller share. Include after <cmocka.h>.
 */

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "quota/ledger.h"
#include "quota/policy.h"

#define LEN(array) (sizeof(array) / sizeof *(array))
#define START_NS (1000 * GQ_NS_PER_S)
#define START_WALL_S INT64_C(1800000000)

/* ---- a clock that stands still until it is moved ---- */

struct app_clock {
	int64_t mono_ns, wall_s;
	struct gq_clock clock;
};

static inline int64_t app_clock_mono_ns(void *arg)
{
	return ((struct app_clock *)arg)->mono_ns;
}

static inline int64_t app_clock_wall_s(void *arg)
{
	return ((struct app_clock *)arg)->wall_s;
}

static inline void app_clock_init(struct app_clock *clock)
{
	*clock = (struct app_clock){.mono_ns = START_NS, .wall_s = START_WALL_S};
	clock->clock = (struct gq_clock){app_clock_mono_ns, app_clock_wall_s, clock};
}

/* ---- texts ---- */

/* JSON with single quotes, for readable tables: the same with double ones. free(). */
static inline char *json_of(const char *single_quoted)
{
	char *json = strdup(single_quoted);

	assert_non_null(json);
	for (char *at = json; (at = strchr(at, '\''));)
		*at = '"';
	return json;
}

static inline char *read_file(const char *path, size_t *ret_len)
{
	FILE *file = fopen(path, "rb");
	size_t cap = 1u << 20;
	char *data = malloc(cap);

	if (!file)
		fail_msg("%s can't be opened", path);
	assert_non_null(data);
	*ret_len = fread(data, 1, cap - 1, file);
	data[*ret_len] = '\0';
	assert_in_range(*ret_len, 1, cap - 2);
	(void)fclose(file);
	return data;
}

/* How often a text stands in another. */
static inline unsigned occurrences(const char *text, const char *part)
{
	const char *end = text + strlen(text);
	size_t len = strlen(part);
	unsigned n = 0;

	/* not strstr(): under ASan it measures the rest of a long text each time */
	for (; (text = memmem(text, (size_t)(end - text), part, len)); text += len)
		n++;
	return n;
}

static inline void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in:\n%s", part, text);
}

static inline void assert_has_not(const char *text, const char *part)
{
	if (strstr(text, part))
		fail_msg("\"%s\" is in:\n%s", part, text);
}

/* ---- JSON that must be valid ---- */

/* json_object_put() it. */
static inline struct json_object *json_parse(const char *text, size_t len)
{
	struct json_tokener *tokener = json_tokener_new();

	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	struct json_object *root = json_tokener_parse_ex(tokener, text, (int)len);
	enum json_tokener_error error = json_tokener_get_error(tokener);
	size_t end = json_tokener_get_parse_end(tokener);
	json_tokener_free(tokener);
	while (end < len && text[end] == '\n')
		end++;
	if (error != json_tokener_success || end != len)
		fail_msg("no JSON (%s at %zu of %zu): %s", json_tokener_error_desc(error), end, len,
			 text);
	return root;
}

/* A member by its path of keys, "response.status.code"; NULL when it is absent or null. */
static inline struct json_object *json_at(struct json_object *root, const char *path)
{
	char key[128];

	for (size_t len; root && *path; path += len + (path[len] == '.')) {
		len = strcspn(path, ".");
		assert_true(len < sizeof key);
		memcpy(key, path, len);
		key[len] = '\0';
		if (!json_object_is_type(root, json_type_object) ||
		    !json_object_object_get_ex(root, key, &root))
			return NULL;
	}
	return root;
}

static inline const char *json_text(struct json_object *root, const char *path)
{
	struct json_object *at = json_at(root, path);

	if (!json_object_is_type(at, json_type_string))
		fail_msg("%s is no string in %s", path, json_object_to_json_string(root));
	return json_object_get_string(at);
}

static inline bool json_true(struct json_object *root, const char *path)
{
	struct json_object *at = json_at(root, path);

	if (!json_object_is_type(at, json_type_boolean))
		fail_msg("%s is no boolean in %s", path, json_object_to_json_string(root));
	return json_object_get_boolean(at);
}

/* ---- a small cluster ---- */

#define APP_POLICY_HEAD "apiVersion: config.gpuquota.io/v1alpha1\nkind: QuotaPolicy\n"
/* team-a holds at most four A100s and no other model; team-b's namespaces go by their label. */
#define APP_POLICY                                                                                 \
	APP_POLICY_HEAD "exempt: {namespaces: [kube-system]}\n"                                    \
			"tenants:\n"                                                               \
			"  - name: team-a\n"                                                       \
			"    namespaces: [a-train, a-serve, default]\n"                            \
			"    quota: {A100: {gpus: 4}}\n"                                           \
			"  - name: team-b\n"                                                       \
			"    namespaceSelector: {matchLabels: {team: b}}\n"                        \
			"    quota: {A100: {gpus: 1}}\n"

static inline struct gq_policy *app_policy(const char *yaml, const char *hash)
{
	struct gq_policy_problems problems = {0};
	struct gq_policy *policy = NULL;
	struct gq_err err = {0};

	if (gq_policy_parse(yaml, strlen(yaml), hash, &policy, &problems, &err)) {
		struct gq_buf out = GQ_BUF_INIT(64u << 10);
		gq_policy_problems_print(&problems, "policy", &out);
		fail_msg("%s\n%s", err.msg, out.data ? out.data : "");
	}
	return policy;
}

static inline void app_set_policy(struct gq_ledger *ledger, const char *yaml)
{
	struct gq_policy *policy = app_policy(yaml, "0123abcd");

	assert_int_equal(gq_ledger_set_policy(ledger, policy, START_NS, NULL), 0);
	gq_policy_unref(policy);
}

/* product: of the node's GPUs, as GPU feature discovery writes it. */
static inline void app_node(struct gq_ledger *ledger, const char *name, const char *product)
{
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
	struct gq_node *node = NULL;
	struct gq_err err = {0};

	gq_buf_printf(&json,
		      "{\"metadata\":{\"name\":\"%s\",\"uid\":\"u\",\"labels\":"
		      "{\"nvidia.com/gpu.product\":\"%s\"}},\"status\":{\"allocatable\":"
		      "{\"nvidia.com/gpu\":\"8\"}}}",
		      name, product);
	if (gq_node_decode(json.data, json.len, &node, &err) ||
	    gq_ledger_node_seen(ledger, node, &err))
		fail_msg("%s", err.msg);
	gq_node_unref(node);
}

/* A ledger that is ready: policy in force, one node of A100s, synced. */
static inline struct gq_ledger *app_ledger(const char *policy)
{
	struct gq_ledger *ledger = gq_ledger_new(&(struct gq_ledger_options){0});

	assert_non_null(ledger);
	app_set_policy(ledger, policy);
	app_node(ledger, "a1", "NVIDIA-A100-SXM4-80GB");
	assert_int_equal(gq_ledger_nodes_settle(ledger, START_NS, NULL), 0);
	gq_ledger_set_synced(ledger);
	return ledger;
}

/* What a tenant holds of its first limit in one state, in whole GPUs; -1: all states together. */
static inline int app_held(struct gq_ledger *ledger, const char *tenant, int state)
{
	struct gq_usage usage = {0};
	int64_t shares = -1;

	assert_int_equal(gq_ledger_usage(ledger, START_NS, START_WALL_S, &usage, NULL), 0);
	for (size_t t = 0; t < usage.n_tenants; t++) {
		if (strcmp(usage.tenants[t].name, tenant) != 0)
			continue;
		shares = 0;
		for (int s = 0; s < GQ_STATES; s++)
			if (state < 0 || s == state)
				shares += usage.tenants[t].limits[0].used[s].shares;
	}
	gq_usage_done(&usage);
	assert_true(shares >= 0 && shares % GQ_SHARES_PER_GPU == 0);
	return (int)(shares / GQ_SHARES_PER_GPU);
}

/* How many pods the ledger has a charge of. */
static inline size_t app_charges(struct gq_ledger *ledger)
{
	struct gq_usage usage = {0};
	size_t n = 0;

	assert_int_equal(gq_ledger_usage(ledger, START_NS, START_WALL_S, &usage, NULL), 0);
	for (int s = 0; s < GQ_STATES; s++)
		n += usage.charges[s];
	gq_usage_done(&usage);
	return n;
}

/* ---- what a command prints ---- */

struct app_output {
	int fd, saved;
	FILE *file;
};

/* Takes what goes to fd (1 or 2) from now on. */
static inline void app_output_begin(struct app_output *output, int fd)
{
	(void)fflush(NULL);
	output->fd = fd;
	output->saved = dup(fd);
	output->file = tmpfile();
	assert_non_null(output->file);
	assert_int_equal(dup2(fileno(output->file), fd), fd);
}

/* free() */
static inline char *app_output_end(struct app_output *output)
{
	char *text = calloc(1, 1u << 20);

	(void)fflush(NULL);
	assert_int_equal(dup2(output->saved, output->fd), output->fd);
	(void)close(output->saved);
	rewind(output->file);
	assert_non_null(text);
	(void)!fread(text, 1, (1u << 20) - 1, output->file);
	(void)fclose(output->file);
	return text;
}

#endif
