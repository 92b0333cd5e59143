#include "quota/nodes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node_fixture.h"
#include "quota/nodes_internal.h"

#define A100 "nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB"
#define H100 "nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3"
#define GPU8 "nvidia.com/gpu=8"

static int new_table(void **state)
{
	*state = fixture_table(NULL, 0);
	return *state ? 0 : -1;
}

static int free_table(void **state)
{
	gq_class_table_free(*state);
	return 0;
}

static struct gq_node_snapshot *snapshot_of(const struct gq_class_table *table,
					    const struct gq_node_facts *facts, size_t n)
{
	struct gq_node_snapshot *snapshot = NULL;
	struct gq_err err = {0};

	if (gq_node_snapshot_new(table, facts, n, &snapshot, &err))
		fail_msg("%s", err.msg);
	return snapshot;
}

static void assert_reads(const struct gq_class_table *table,
			 const struct gq_node_snapshot *snapshot, const char *node,
			 const char *class_name, int64_t mib)
{
	struct gq_class_reading reading = gq_node_snapshot_read(snapshot, node);
	const char *found =
	    reading.class_id == GQ_CLASS_NONE ? "none" : gq_class_name(table, reading.class_id);

	if (strcmp(found, class_name) != 0 || reading.memory_mib != mib)
		fail_msg("%s reads as %s, %lld MiB", node, found, (long long)reading.memory_mib);
}

static void test_read(void **state)
{
	const struct gq_class_table *table = *state;
	GQ_CLEANUP(gq_cleanup_node) struct gq_node *a = fixture_node("a", A100, GPU8, "");
	GQ_CLEANUP(gq_cleanup_node) struct gq_node *bare = fixture_node("bare", "zone=x", GPU8, "");
	GQ_CLEANUP(gq_cleanup_node) struct gq_node *cpu = fixture_node("cpu", "zone=x", "", "");
	GQ_CLEANUP(gq_cleanup_node) struct gq_node *lost = fixture_node("lost", "", GPU8, "");
	GQ_CLEANUP(gq_cleanup_node)
	struct gq_node *lost_before = fixture_node("lost", A100, GPU8, "");
	GQ_CLEANUP(gq_cleanup_node) struct gq_node *other = fixture_node("other", H100, GPU8, "");
	GQ_CLEANUP(gq_cleanup_node)
	struct gq_node *other_before = fixture_node("other", A100, GPU8, "");
	GQ_CLEANUP(gq_cleanup_node)
	struct gq_node *less =
	    fixture_node("less", "karpenter.k8s.aws/instance-gpu-name=a100", GPU8, "");
	GQ_CLEANUP(gq_cleanup_node)
	struct gq_node *less_before = fixture_node("less", A100, GPU8, "");
	GQ_CLEANUP(gq_cleanup_node) struct gq_node *gone = fixture_node("gone", H100, GPU8, "");
	const struct gq_node_facts facts[] = {
	    {a, a, "a"},
	    {bare, NULL, "bare"},
	    {cpu, NULL, "cpu"},
	    {lost, lost_before, "lost"},
	    {other, other_before, "other"},
	    {less, less_before, "less"},
	    {NULL, gone, "gone"},
	    {NULL, NULL, "never"},
	};
	GQ_CLEANUP(gq_cleanup_node_snapshot)
	struct gq_node_snapshot *s = snapshot_of(table, facts, 8);

	assert_reads(table, s, "a", "A100-80GB", 81920);
	assert_reads(table, s, "bare", "none", 0);
	assert_reads(table, s, "cpu", "none", 0);
	assert_reads(table, s, "lost", "A100-80GB", 81920);  /* labels gone: it stays */
	assert_reads(table, s, "other", "H100-80GB", 81559); /* another known class: it moves */
	assert_reads(table, s, "less", "A100-80GB", 81920);  /* a part gone: no step back */
	assert_reads(table, s, "gone", "H100-80GB", 81559);
	assert_reads(table, s, "never", "none", 0);
	assert_reads(table, s, "unheard-of", "none", 0);
	struct gq_class_reading reading = gq_node_snapshot_read(s, "gone");
	assert_string_equal(reading.label, "nvidia.com/gpu.product");
	assert_string_equal(reading.value, "NVIDIA-H100-80GB-HBM3");
}

/* The snapshot keeps what it needs of the nodes. */
static void test_outlives_facts(void **state)
{
	const struct gq_class_table *table = *state;
	const struct fixture_spec specs[] = {{"a", A100, GPU8, ""}, {"b", A100, GPU8, ""}};
	struct gq_node_snapshot *s = fixture_snapshot(table, specs, 2);

	assert_non_null(s);
	struct gq_node_snapshot *second = gq_node_snapshot_ref(s);
	gq_node_snapshot_unref(s);
	assert_reads(table, second, "b", "A100-80GB", 81920);
	gq_node_snapshot_unref(second);
	gq_node_snapshot_unref(NULL);
}

static void test_class_by_hostname(void **state)
{
	static const char *const hosts[] = {"b"};
	static const struct gq_class_match match = {"kubernetes.io/hostname", hosts, 1};
	static const struct gq_class_def def = {.name = "Lab", .matches = &match, .n_matches = 1};
	const struct fixture_spec specs[] = {{"a", "kubernetes.io/hostname=a", GPU8, ""},
					     {"b", "kubernetes.io/hostname=b", GPU8, ""},
					     {"c", "kubernetes.io/hostname=c", GPU8, ""}};
	GQ_CLEANUP(gq_cleanup_class_table) struct gq_class_table *table = fixture_table(&def, 1);
	(void)state;
	GQ_CLEANUP(gq_cleanup_node_snapshot)
	struct gq_node_snapshot *s = fixture_snapshot(table, specs, 3);

	assert_reads(table, s, "a", "none", 0);
	assert_reads(table, s, "b", "Lab", 0);
	assert_reads(table, s, "c", "none", 0);
}

static uint64_t fingerprint(const struct gq_class_table *table, const struct fixture_spec *specs,
			    size_t n)
{
	GQ_CLEANUP(gq_cleanup_node_snapshot)
	struct gq_node_snapshot *s = fixture_snapshot(table, specs, n);

	assert_non_null(s);
	return gq_node_snapshot_fingerprint(s);
}

static void test_fingerprint(void **state)
{
	static const struct fixture_spec base[] = {
	    {"a", A100 ",kubernetes.io/hostname=a,pool=x", GPU8, "gpu=yes:NoSchedule"},
	    {"b", H100 ",kubernetes.io/hostname=b", GPU8, ""},
	    {"c", "zone=1", "", ""},
	};
	static const struct {
		struct fixture_spec node; /* in place of "a" */
		bool same;
	} cases[] = {
	    {{"a", A100 ",kubernetes.io/hostname=a,pool=x", GPU8, "gpu=yes:NoSchedule"}, true},
	    {{"a", A100 ",kubernetes.io/hostname=a,pool=x", "nvidia.com/gpu=4",
	      "gpu=yes:NoSchedule"},
	     true},
	    {{"a", A100 ",kubernetes.io/hostname=a,pool=x", GPU8, "gpu=yes:NoExecute"}, false},
	    {{"a", A100 ",kubernetes.io/hostname=a,pool=x", GPU8, "gpu=no:NoSchedule"}, false},
	    {{"a", A100 ",kubernetes.io/hostname=a,pool=x", GPU8, ""}, false},
	    {{"a", A100 ",kubernetes.io/hostname=a,pool=x", "nvidia.com/gpu=0",
	      "gpu=yes:NoSchedule"},
	     false},
	    {{"a", A100 ",kubernetes.io/hostname=a,pool=y", GPU8, "gpu=yes:NoSchedule"}, false},
	    {{"a", A100 ",kubernetes.io/hostname=z,pool=x", GPU8, "gpu=yes:NoSchedule"}, false},
	    {{"a", H100 ",kubernetes.io/hostname=a,pool=x", GPU8, "gpu=yes:NoSchedule"}, false},
	    {{"z", A100 ",kubernetes.io/hostname=a,pool=x", GPU8, "gpu=yes:NoSchedule"}, false},
	};
	const struct gq_class_table *table = *state;
	const struct fixture_spec turned[] = {base[2], base[1], base[0]};
	const struct fixture_spec other_cpu[] = {base[0], base[1], {"d", "zone=2", "", ""}};
	uint64_t first = fingerprint(table, base, 3);

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const struct fixture_spec specs[] = {cases[i].node, base[1], base[2]};
		if ((fingerprint(table, specs, 3) == first) != cases[i].same)
			fail_msg("case %zu", i);
	}
	assert_true(fingerprint(table, turned, 3) == first);
	assert_true(fingerprint(table, other_cpu, 3) == first); /* no pod can land there */
	assert_true(fingerprint(table, base, 2) == first);
	assert_false(fingerprint(table, base, 1) == first);
	assert_true(fingerprint(table, NULL, 0) == 0);
}

/* What a node was counts too: labels that vanish change what selectors match. */
static void test_fingerprint_of_evidence(void **state)
{
	const struct gq_class_table *table = *state;
	GQ_CLEANUP(gq_cleanup_node) struct gq_node *now = fixture_node("a", "", GPU8, "");
	GQ_CLEANUP(gq_cleanup_node) struct gq_node *a100 = fixture_node("a", A100, GPU8, "");
	GQ_CLEANUP(gq_cleanup_node) struct gq_node *h100 = fixture_node("a", H100, GPU8, "");
	const struct gq_node_facts facts[] = {
	    {now, NULL, "a"},  {now, a100, "a"},  {now, h100, "a"},  {a100, a100, "a"},
	    {h100, h100, "a"}, {NULL, a100, "a"}, {NULL, h100, "a"},
	};
	uint64_t seen[7];

	for (size_t i = 0; i < 7; i++) {
		GQ_CLEANUP(gq_cleanup_node_snapshot)
		struct gq_node_snapshot *s = snapshot_of(table, &facts[i], 1);
		seen[i] = gq_node_snapshot_fingerprint(s);
		for (size_t k = 0; k < i; k++)
			if (seen[k] == seen[i])
				fail_msg("%zu and %zu are alike", k, i);
	}
}

static void test_selector_for(void **state)
{
	static const struct fixture_spec specs[] = {
	    {"a1", A100, GPU8, ""},
	    {"a2", A100, GPU8, ""},
	    {"a3", "nvidia.com/gpu.product=NVIDIA-A100-PCIE-40GB", GPU8, ""},
	    {"h1", H100, "nvidia.com/gpu=0", ""},
	    {"l1", "karpenter.k8s.aws/instance-gpu-name=l4", GPU8, ""},
	    /* the product alone does not tell the variant */
	    {"v1", "nvidia.com/gpu.memory=32768,nvidia.com/gpu.product=Tesla-V100", GPU8, ""},
	};
	static const struct {
		const char *class_name, *label, *value;
	} cases[] = {
	    {"A100", "nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB"},
	    {"A100-80GB", "nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB"},
	    {"A100-40GB", "nvidia.com/gpu.product", "NVIDIA-A100-PCIE-40GB"},
	    {"*", "nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB"},
	    {"L4", "karpenter.k8s.aws/instance-gpu-name", "l4"},
	    {"V100", "nvidia.com/gpu.product", "Tesla-V100"},
	    {"V100-32GB", NULL, NULL},
	    {"H100", NULL, NULL},
	    {"T4", NULL, NULL},
	    {"other", NULL, NULL},
	};
	const struct gq_class_table *table = *state;
	GQ_CLEANUP(gq_cleanup_node_snapshot)
	struct gq_node_snapshot *s = fixture_snapshot(table, specs, sizeof specs / sizeof specs[0]);

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const char *label = NULL, *value = NULL;
		bool found = gq_node_snapshot_selector_for(
		    s, gq_class_find(table, cases[i].class_name), &label, &value);
		if (found != (cases[i].label != NULL))
			fail_msg("%s: %s", cases[i].class_name, found ? value : "none");
		if (!found)
			continue;
		assert_string_equal(label, cases[i].label);
		assert_string_equal(value, cases[i].value);
	}
}

/* A label that the node has lost is no hint. */
static void test_no_hint_from_the_past(void **state)
{
	const struct gq_class_table *table = *state;
	GQ_CLEANUP(gq_cleanup_node) struct gq_node *now = fixture_node("a", "", GPU8, "");
	GQ_CLEANUP(gq_cleanup_node) struct gq_node *before = fixture_node("a", A100, GPU8, "");
	const struct gq_node_facts facts = {now, before, "a"};
	GQ_CLEANUP(gq_cleanup_node_snapshot)
	struct gq_node_snapshot *s = snapshot_of(table, &facts, 1);
	const char *label, *value;

	int a100 = gq_class_find(table, "A100");
	assert_false(gq_node_snapshot_selector_for(s, a100, &label, &value));

	/* nor one that has another value by now */
	GQ_CLEANUP(gq_cleanup_node)
	struct gq_node *less = fixture_node("a", "nvidia.com/gpu.product=NVIDIA-A100", GPU8, "");
	const struct gq_node_facts changed = {less, before, "a"};
	GQ_CLEANUP(gq_cleanup_node_snapshot)
	struct gq_node_snapshot *s2 = snapshot_of(table, &changed, 1);
	assert_reads(table, s2, "a", "A100-80GB", 81920);
	assert_false(gq_node_snapshot_selector_for(s2, a100, &label, &value));
}

/* What differs on every node does not make a shape of every node. */
static void test_few_shapes(void **state)
{
	enum { COUNT = 200 };
	static char text[COUNT][2][256];
	static struct fixture_spec specs[COUNT];

	for (size_t i = 0; i < COUNT; i++) {
		(void)snprintf(text[i][0], sizeof text[i][0], "n%zu", i);
		(void)snprintf(text[i][1], sizeof text[i][1],
			       A100 ",kubernetes.io/hostname=n%zu,serial=%zu,rack=r%zu", i, i,
			       i % 5);
		specs[i] = (struct fixture_spec){text[i][0], text[i][1], GPU8, ""};
	}
	GQ_CLEANUP(gq_cleanup_node_snapshot)
	struct gq_node_snapshot *s = fixture_snapshot(*state, specs, COUNT);
	assert_non_null(s);
	assert_int_equal(s->n_shapes, 5); /* the racks */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_read),
	    cmocka_unit_test(test_outlives_facts),
	    cmocka_unit_test(test_class_by_hostname),
	    cmocka_unit_test(test_fingerprint),
	    cmocka_unit_test(test_fingerprint_of_evidence),
	    cmocka_unit_test(test_selector_for),
	    cmocka_unit_test(test_few_shapes),
	    cmocka_unit_test(test_no_hint_from_the_past),
	};
	return cmocka_run_group_tests(tests, new_table, free_table);
}
