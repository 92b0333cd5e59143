#include "policy_cases.h"

#define HOST_PATH "rules:\n  hostPath:\n    mode: enforce\n    allow:\n"
#define GPU_MEMORY "rules:\n  requireGpuMemory:\n    mode: warn\n    resources:\n"

static const struct policy_case cases[] = {
    {.name = "paths that are none",
     .yaml = HOST_PATH "      - data\n"
		       "      - \"\"\n"
		       "      - {path: 'C:\\data'}\n"
		       "      - /data/*\n"
		       "      - {readOnly: true}\n"
		       "      - {path: /data, readonly: true}\n"
		       "      - {path: /tmp, readOnly: yes}\n"
		       "      - [/data]\n"
		       "      - 5\n"
		       "      -\n",
     .problems = "p:7:9: path \"data\" is not absolute; write it from the root directory on, "
		 "such as /data\n"
		 "p:8:9: path \"\" is not absolute; write it from the root directory on, such as "
		 "/data\n"
		 "p:9:16: path \"C:\\data\" is not absolute; write it from the root directory "
		 "on, such as /data\n"
		 "p:10:9: path \"/data/*\": patterns are not supported; write the directory: it "
		 "holds all that lies below it\n"
		 "p:11:9: allow: key \"path\" is missing; write path: /data\n"
		 "p:12:23: unknown key \"readonly\"; did you mean \"readOnly\"?\n"
		 "p:13:32: readOnly \"yes\" is not one of false, true; write one of these words\n"
		 "p:14:9: path: a list where text is expected; write one value\n"
		 "p:15:9: path: a number where text is expected; for text write \"5\", with "
		 "quotes\n"
		 "p:16:7: path: nothing where text is expected; write a value, or remove the "
		 "item\n"},
    {.name = "root",
     .yaml = HOST_PATH "      - /\n"
		       "      - {path: //./, readOnly: true}\n"
		       "      - /data/..\n",
     .problems = "p:7:9: path \"/\" is the root directory, which holds every other; write the "
		 "directories that pods need, or disable hostPath\n"
		 "p:8:16: path \"//./\" is the root directory, which holds every other; write "
		 "the directories that pods need, or disable hostPath\n"
		 "p:9:9: path \"/data/..\" is the root directory, which holds every other; write "
		 "the directories that pods need, or disable hostPath\n"},
    {.name = "path twice",
     .yaml = HOST_PATH "      - /data\n"
		       "      - {path: /data, readOnly: true}\n"
		       "      - /mnt/../data/\n",
     .problems = "p:8:16: path \"/data\" stands in line 7 already; remove one of the two\n"
		 "p:9:9: path \"/mnt/../data/\" stands in line 7 already, as \"/data\"; remove "
		 "one of the two\n"},
    {.name = "read-only within what may be written",
     .yaml = HOST_PATH "      - {path: /data/models, readOnly: true}\n"
		       "      - {path: /data, readOnly: false}\n"
		       "      - {path: /data/sets, readOnly: true}\n"
		       "      - {path: /database, readOnly: true}\n",
     .problems = "p:7:16: path \"/data/models\" lies in \"/data\" of line 8, which may be "
		 "written: readOnly has no effect; set readOnly for \"/data\" too, or remove "
		 "one of the two\n"
		 "p:9:16: path \"/data/sets\" lies in \"/data\" of line 8, which may be "
		 "written: readOnly has no effect; set readOnly for \"/data\" too, or remove "
		 "one of the two\n"},
    {.name = "allow is no list",
     .yaml = "rules: {hostPath: {mode: enforce, allow: /data}}\n",
     .problems = "p:3:42: allow: text where a list is expected; write [\"/data\"]\n"},
    {.name = "schedulers",
     .yaml = "rules:\n"
	     "  gpuWithoutRequest:\n"
	     "    mode: warn\n"
	     "    schedulerNames: [kai-scheduler, \"a b\", kai-scheduler, volcano]\n"
	     "  bypassLabels: {mode: warn, schedulerNames: hami-scheduler}\n",
     .problems = "p:6:21: the API server does not ask about pods of scheduler \"volcano\"; "
		 "name hami-scheduler, kai-scheduler, or none with []\n"
		 "p:6:37: \"a b\" is not the name of a scheduler; write it as in a pod's "
		 "spec.schedulerName\n"
		 "p:6:44: scheduler \"kai-scheduler\" stands in line 6 already; remove one of "
		 "the two\n"
		 "p:7:46: schedulerNames: text where a list is expected; write "
		 "[\"hami-scheduler\"]\n"},
    {.name = "resources",
     .yaml = GPU_MEMORY "      - {count: volcano.sh/vgpu-number, memory: []}\n"
			"      - {count: gpu, memory: [a/b, a/b, memory]}\n"
			"      - {count: a.b/c}\n"
			"      - {memory: [a.b/c]}\n"
			"      - {count: volcano.sh/vgpu-number, memory: a/b}\n"
			"      - {count: volcano.sh/vgpu-number, memory: [a/b]}\n"
			"      - {count: a/c, memory: [a/c]}\n"
			"      - a/b\n",
     .problems = "p:7:49: resources: nothing says how much memory \"volcano.sh/vgpu-number\" "
		 "has; write memory: [volcano.sh/vgpu-memory]\n"
		 "p:8:17: \"gpu\" is not the name of a resource; write it as in a container's "
		 "limits, such as volcano.sh/vgpu-memory\n"
		 "p:8:36: resource \"a/b\" stands in line 8 already; remove one of the two\n"
		 "p:8:41: \"memory\" is not the name of a resource; write it as in a container's "
		 "limits, such as volcano.sh/vgpu-memory\n"
		 "p:9:9: resources: key \"memory\" is missing; write memory: "
		 "[volcano.sh/vgpu-memory]\n"
		 "p:10:9: resources: key \"count\" is missing; write count: "
		 "volcano.sh/vgpu-number\n"
		 "p:11:49: memory: text where a list is expected; write [\"a/b\"]\n"
		 "p:12:17: resource \"volcano.sh/vgpu-number\" is counted in line 7 already; "
		 "merge the two\n"
		 "p:13:31: resource \"a/c\" is the count itself; write the resource that says how "
		 "much memory\n"
		 "p:14:9: resources: text where a map is expected; write {key: value}, or \"key: "
		 "value\" on lines further in\n"},
    {.name = "no resources",
     .yaml = "rules: {requireGpuMemory: {mode: warn, resources: []}}\n",
     .problems = "p:3:51: resources names none; remove it for those of HAMi\n"},
};

static void problems(void **state)
{
	(void)state;
	check_policy_cases(cases, sizeof cases / sizeof cases[0]);
}

/* Each list may have so many items and not one more. */
static void too_many(void **state)
{
	static const struct {
		const char *begin, *item, *end, *problem;
	} lists[] = {
	    {"hostPath: {mode: warn, allow: [", "/d%d", "]}",
	     "p:3:39: allow: more than 256; name fewer\n"},
	    {"privileged: {mode: warn, exemptServiceAccounts: [", "a/d%d", "]}",
	     "p:3:57: exemptServiceAccounts: more than 256; name fewer\n"},
	    {"bypassLabels: {mode: warn, schedulerNames: [", "d%d", "]}",
	     "p:3:52: schedulerNames: more than 256; name fewer\n"},
	    {"requireGpuMemory: {mode: warn, resources: [", "{count: a/d%d, memory: [b/c]}", "]}",
	     "p:3:51: resources: more than 256; name fewer\n"},
	    {"requireGpuMemory: {mode: warn, resources: [{count: a/b, memory: [", "a/d%d", "]}]}",
	     "p:3:73: memory: more than 256; name fewer\n"},
	};

	(void)state;
	for (size_t l = 0; l < sizeof lists / sizeof lists[0]; l++) {
		for (int n = 256; n <= 257; n++) {
			struct gq_buf yaml = GQ_BUF_INIT(64u << 10);
			gq_buf_printf(&yaml, POLICY_HEAD "rules: {%s", lists[l].begin);
			for (int i = 0; i < n; i++) {
				gq_buf_puts(&yaml, i ? ", " : "");
				const char *mark = strstr(lists[l].item, "%d");
				gq_buf_printf(&yaml, "%.*s%d%s", (int)(mark - lists[l].item),
					      lists[l].item, i, mark + 2);
			}
			gq_buf_printf(&yaml, "%s}\n", lists[l].end);
			assert_int_equal(yaml.code, 0);
			assert_policy_problems(lists[l].begin, yaml.data,
					       n > 256 ? lists[l].problem : "");
			gq_buf_done(&yaml);
		}
	}
}

static void long_path(void **state)
{
	struct gq_buf yaml = GQ_BUF_INIT(64u << 10);

	(void)state;
	gq_buf_puts(&yaml, POLICY_HEAD "rules: {hostPath: {mode: enforce, allow: [");
	for (int i = 0; i < 4098; i++)
		gq_buf_putc(&yaml, i % 8 ? 'x' : '/');
	gq_buf_puts(&yaml, "]}}\n");
	assert_int_equal(yaml.code, 0);
	char *said = policy_problems(yaml.data, yaml.len);
	assert_non_null(strstr(said, " is longer than 4096 bytes; write a directory above it\n"));
	free(said);
	gq_buf_done(&yaml);
}

/* A service account has the longest name that an object may have. */
static void long_account(void **state)
{
	(void)state;
	for (int n = 253; n <= 254; n++) {
		struct gq_buf yaml = GQ_BUF_INIT(64u << 10);
		gq_buf_puts(&yaml, POLICY_HEAD "rules: {privileged: {mode: warn, "
					       "exemptServiceAccounts: [a/");
		for (int i = 0; i < n; i++)
			gq_buf_putc(&yaml, i % 50 == 49 ? '.' : 'x');
		gq_buf_puts(&yaml, "]}}\n");
		assert_int_equal(yaml.code, 0);
		char *said = policy_problems(yaml.data, yaml.len);
		assert_int_equal(strstr(said, " is not a service account; ") != NULL, n > 253);
		free(said);
		gq_buf_done(&yaml);
	}
}

static void allowed_paths(void **state)
{
	struct gq_policy *p =
	    policy_of(POLICY_HEAD HOST_PATH "      - /data/\n"
					    "      - {path: //mnt/./models, readOnly: true}\n"
					    "      - {path: /var/run/team-a, readOnly: false}\n"
					    "      - {path: /data/scratch}\n"
					    "      - {path: /mnt/models/big, readOnly: true}\n");
	const struct gq_rules *rules = &p->rules;

	(void)state;
	assert_int_equal(rules->n_allowed_paths, 5);
	assert_string_equal(rules->allowed_paths[0].prefix, "/data");
	assert_false(rules->allowed_paths[0].read_only);
	assert_string_equal(rules->allowed_paths[1].prefix, "/mnt/models");
	assert_true(rules->allowed_paths[1].read_only);
	assert_string_equal(rules->allowed_paths[2].prefix, "/run/team-a");
	assert_false(rules->allowed_paths[2].read_only);
	gq_policy_unref(p);
	p = policy_of(POLICY_HEAD "rules: {hostPath: enforce}\n");
	assert_int_equal(p->rules.n_allowed_paths, 0);
	gq_policy_unref(p);
	p = policy_of(POLICY_HEAD "rules: {hostPath: {mode: enforce, allow: []}}\n");
	assert_int_equal(p->rules.n_allowed_paths, 0);
	gq_policy_unref(p);
}

static void schedulers(void **state)
{
	struct gq_policy *p = policy_of(
	    POLICY_HEAD "rules:\n"
			"  gpuWithoutRequest: {mode: warn, schedulerNames: [kai-scheduler]}\n"
			"  bypassLabels: {mode: warn, schedulerNames: [hami-scheduler, "
			"default-scheduler]}\n");

	(void)state;
	assert_int_equal(p->rules.n_gpu_schedulers, 1);
	assert_string_equal(p->rules.gpu_schedulers[0], "kai-scheduler");
	assert_int_equal(p->rules.n_only_schedulers, 2);
	assert_string_equal(p->rules.only_schedulers[1], "default-scheduler");
	gq_policy_unref(p);
	p = policy_of(POLICY_HEAD "rules:\n"
				  "  gpuWithoutRequest: {mode: warn, schedulerNames: []}\n"
				  "  bypassLabels: {mode: warn, schedulerNames: []}\n");
	assert_int_equal(p->rules.n_gpu_schedulers, 0);
	assert_int_equal(p->rules.n_only_schedulers, 0);
	gq_policy_unref(p);
	p = policy_of(POLICY_HEAD "rules: {gpuWithoutRequest: enforce, bypassLabels: enforce}\n");
	assert_int_equal(p->rules.n_gpu_schedulers, 2);
	assert_string_equal(p->rules.gpu_schedulers[0], "hami-scheduler");
	assert_string_equal(p->rules.gpu_schedulers[1], "kai-scheduler");
	assert_int_equal(p->rules.n_only_schedulers, 0);
	gq_policy_unref(p);
}

static void resources(void **state)
{
	struct gq_policy *p =
	    policy_of(POLICY_HEAD GPU_MEMORY
		      "      - {count: volcano.sh/vgpu-number, memory: [volcano.sh/vgpu-memory]}\n"
		      "      - {count: a.b/c, memory: [a.b/d, a.b/e]}\n");

	(void)state;
	assert_int_equal(p->rules.n_vgpus, 2);
	assert_string_equal(p->rules.vgpus[0].count, "volcano.sh/vgpu-number");
	assert_int_equal(p->rules.vgpus[0].n_memory, 1);
	assert_string_equal(p->rules.vgpus[0].memory[0], "volcano.sh/vgpu-memory");
	assert_int_equal(p->rules.vgpus[1].n_memory, 2);
	assert_string_equal(p->rules.vgpus[1].memory[1], "a.b/e");
	gq_policy_unref(p);
	p = policy_of(POLICY_HEAD "rules: {requireGpuMemory: warn}\n");
	assert_int_equal(p->rules.n_vgpus, 1);
	assert_string_equal(p->rules.vgpus[0].count, "nvidia.com/gpu");
	assert_int_equal(p->rules.vgpus[0].n_memory, 2);
	assert_string_equal(p->rules.vgpus[0].memory[0], "nvidia.com/gpumem");
	assert_string_equal(p->rules.vgpus[0].memory[1], "nvidia.com/gpumem-percentage");
	gq_policy_unref(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(problems),      cmocka_unit_test(too_many),
	    cmocka_unit_test(long_path),     cmocka_unit_test(long_account),
	    cmocka_unit_test(allowed_paths), cmocka_unit_test(schedulers),
	    cmocka_unit_test(resources),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
