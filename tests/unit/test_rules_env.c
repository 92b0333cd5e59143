#include "rules_cases.h"

#include "quota/rules_internal.h"
#include "quota_testing.h"

/* ConfigMaps as the environment of a container; what follows from it is in tests/data/rules. */

#define POLICY                                                                                     \
	"tenants: [{name: team, namespaces: [a-train], quota: {\"*\": {gpus: 8}}}]\n"              \
	"rules: {gpuWithoutRequest: enforce}\n"
#define FROM(name) "{'configMapRef':{'name':'" name "'}}"
#define POD(list) "{'spec':{'containers':[{'name':'c','envFrom':[" list "]}]}}"

/* One read of one ConfigMap, and what comes of its answer. */
static void what_is_read(void **state)
{
	static const struct {
		int code;
		const char *body;
		enum gq_rules_answer answer;
		const char *devices; /* NULL: not set */
	} cases[] = {
	    {0, "{\"data\":{\"NVIDIA_VISIBLE_DEVICES\":\"all\"}}", GQ_RULES_PASSED, "all"},
	    {0, "{\"data\":{\"NVIDIA_VISIBLE_DEVICES\":\"\"}}", GQ_RULES_PASSED, ""},
	    {0, "{\"data\":{\"CUDA_DISABLE_CONTROL\":\"true\"}}", GQ_RULES_PASSED, NULL},
	    {0, "{\"data\":{}}", GQ_RULES_PASSED, NULL},
	    {0, "{}", GQ_RULES_PASSED, NULL},
	    {0, "{\"data\":7}", GQ_RULES_PASSED, NULL},
	    {0, "{\"data\":{\"NVIDIA_VISIBLE_DEVICES\":7}}", GQ_RULES_PASSED, NULL},
	    {GQ_ENOTFOUND, NULL, GQ_RULES_PASSED, NULL},
	    {GQ_EDENIED, NULL, GQ_RULES_PASSED, NULL},
	    {GQ_EIO, NULL, GQ_RULES_FAILED, NULL},
	    {0, "no JSON", GQ_RULES_FAILED, NULL},
	};
	struct rules_pod pod GQ_CLEANUP(rules_pod_done) = rules_pod(POD(FROM("settings")));

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_reads reads GQ_CLEANUP(gq_reads_done) = {0};
		const struct gq_ruled ruled = {.pod = pod.pod, .reads = &reads};
		struct gq_env_map map;
		assert_int_equal(gq_env_map_read(&ruled, "settings", &map), GQ_RULES_READ);
		assert_int_equal(reads.n, 1);
		assert_int_equal(reads.items[0].kind, GQ_READ_CONFIG_MAP);
		assert_string_equal(reads.items[0].path,
				    "/api/v1/namespaces/a-train/configmaps/settings");
		reads.items[0].done = true;
		reads.items[0].code = cases[i].code;
		reads.items[0].body = cases[i].body ? strdup(cases[i].body) : NULL;
		reads.items[0].len = cases[i].body ? strlen(cases[i].body) : 0;
		assert_int_equal(gq_env_map_read(&ruled, "settings", &map), cases[i].answer);
		assert_string_equal(map.name, "settings");
		assert_int_equal(map.set[GQ_ENV_VISIBLE_DEVICES], cases[i].devices != NULL);
		if (cases[i].devices)
			assert_string_equal(map.values[GQ_ENV_VISIBLE_DEVICES], cases[i].devices);
	}
}

/* Of a ConfigMap, which may be large and secret, only the four names are kept. */
static void what_is_kept(void **state)
{
	static const char json[] =
	    "{\"metadata\":{\"name\":\"x\"},\"data\":{\"password\":\"p\",\"NVIDIA_VISIBLE_"
	    "DEVICES\":"
	    "\"all\",\"CUDA_DISABLE_CONTROL\":\"1\"},\"binaryData\":{\"b\":\"AA==\"}}";
	struct rules_pod pod GQ_CLEANUP(rules_pod_done) = rules_pod(POD(FROM("x")));
	struct gq_buf kept GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
	struct gq_reads reads GQ_CLEANUP(gq_reads_done) = {0};
	const struct gq_ruled ruled = {.pod = pod.pod, .reads = &reads};
	struct gq_env_map map;

	(void)state;
	assert_int_equal(gq_env_map_read(&ruled, "x", &map), GQ_RULES_READ);
	assert_int_equal(prune(json, sizeof json - 1, reads.items[0].keep, &kept), 0);
	assert_string_equal(kept.data, "{\"data\":{\"NVIDIA_VISIBLE_DEVICES\":\"all\","
				       "\"CUDA_DISABLE_CONTROL\":\"1\"}}");
}

static void not_read(void **state)
{
	static const char *const names[] = {"", "../secrets/x", "a b", "A"};
	struct rules_pod pod GQ_CLEANUP(rules_pod_done) = rules_pod(POD(FROM("x")));
	struct gq_reads reads GQ_CLEANUP(gq_reads_done) = {0};
	struct gq_ruled ruled = {.pod = pod.pod, .reads = &reads};
	struct gq_env_map map;

	(void)state;
	for (size_t i = 0; i < LEN(names); i++)
		assert_int_equal(gq_env_map_read(&ruled, names[i], &map), GQ_RULES_PASSED);
	assert_int_equal(reads.n, 0);
	ruled.reads = NULL;
	assert_int_equal(gq_env_map_read(&ruled, "x", &map), GQ_RULES_PASSED);
	for (int env = 0; env < GQ_ENVS; env++)
		assert_false(map.set[env]);
}

/* More ConfigMaps than are ever looked at, by one container. */
static void more_than_can_be_read(void **state)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);
	struct world *w = rules_world(POLICY);
	static const unsigned counts[] = {32, 33, 101};

	(void)state;
	for (size_t c = 0; c < LEN(counts); c++) {
		unsigned n = counts[c];
		gq_buf_reset(&text);
		gq_buf_puts(&text, "{'spec':{'containers':[{'name':'c','envFrom':[");
		for (unsigned i = 0; i < n; i++)
			gq_buf_printf(&text, "%s" FROM("m%u"), i ? "," : "", i);
		gq_buf_puts(&text, "]}]}}");
		bool many = n > 32;
		assert_int_equal(rules_ask_pod(w, text.data),
				 many ? GQ_VERDICT_DENY : GQ_VERDICT_ALLOW);
		if (many)
			assert_string_equal(message_of(w),
					    "containers/c takes its environment from more "
					    "ConfigMaps than can be looked at: use fewer, or write "
					    "the variables one by one.");
	}
	world_free(w);
}

/* ConfigMaps of several containers together: the 97th is not asked for. */
static void more_than_are_read(void **state)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);
	struct world *w = rules_world(POLICY);

	(void)state;
	gq_buf_puts(&text, "{'spec':{'containers':[");
	for (unsigned i = 0; i < 101; i++) {
		if (i % 20 == 0)
			gq_buf_printf(&text, "%s{'name':'c%u','envFrom':[", i ? "]}," : "", i);
		gq_buf_printf(&text, "%s" FROM("m%u"), i % 20 ? "," : "", i);
	}
	gq_buf_puts(&text, "]}]}}");
	assert_int_equal(rules_ask_pod(w, text.data), GQ_VERDICT_DENY);
	assert_int_equal(w->reads.n, 96);
	assert_false(w->reads.items[0].done); /* nothing that was read would change that */
	const char *at = message_of(w);
	for (unsigned i = 80; i <= 100; i += 20) {
		char says[64];
		(void)snprintf(says, sizeof says, "%scontainers/c%u takes its environment from",
			       i > 80 ? "\n" : "", i);
		assert_non_null(at = strstr(at, says));
	}
	/* one ConfigMap is read once, however many containers have it */
	gq_buf_reset(&text);
	gq_buf_puts(&text, "{'spec':{'containers':[");
	for (unsigned i = 0; i < 101; i++)
		gq_buf_printf(&text, "%s{'name':'c%u','envFrom':[" FROM("one") "]}", i ? "," : "",
			      i);
	gq_buf_puts(&text, "]}}");
	assert_int_equal(rules_ask_pod(w, text.data), GQ_VERDICT_ALLOW);
	assert_int_equal(w->reads.n, 1);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_read),       cmocka_unit_test(what_is_kept),
	    cmocka_unit_test(not_read),           cmocka_unit_test(more_than_can_be_read),
	    cmocka_unit_test(more_than_are_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
