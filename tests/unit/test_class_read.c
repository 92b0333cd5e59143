#include "quota/class.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define PRODUCT "nvidia.com/gpu.product"
#define MEMORY "nvidia.com/gpu.memory"
#define AMD "amd.com/gpu.product-name"
#define GKE "cloud.google.com/gke-accelerator"
#define AWS "karpenter.k8s.aws/instance-gpu-name"
#define AWS_MEMORY "karpenter.k8s.aws/instance-gpu-memory"
#define WEAVE "gpu.nvidia.com/class"
#define ALI "aliyun.accelerator/nvidia_name"

static struct gq_class_table *table_of(const struct gq_class_def *defs, size_t n)
{
	struct gq_class_table *table = NULL;
	struct gq_err err = {0};

	if (gq_class_table_new(defs, n, &table, &err))
		fail_msg("%s", err.msg);
	return table;
}

static const char *name_of(const struct gq_class_table *table, int id)
{
	return id == GQ_CLASS_NONE ? "none" : gq_class_name(table, id);
}

struct read_case {
	struct gq_label labels[3]; /* sorted */
	const char *class_name;
	int64_t mib;
	const char *label; /* NULL: of the first label that is there */
};

static void check(const struct gq_class_table *table, const struct read_case *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct read_case *c = &cases[i];
		size_t n_labels = 0;
		while (n_labels < 3 && c->labels[n_labels].key)
			n_labels++;
		struct gq_class_reading r = gq_class_read_labels(table, c->labels, n_labels);
		const char *found = name_of(table, r.class_id);
		if (strcmp(found, c->class_name) != 0 || r.memory_mib != c->mib)
			fail_msg("%s=%s: %s, %lld MiB", c->labels[0].key, c->labels[0].value, found,
				 (long long)r.memory_mib);
		if (r.class_id == GQ_CLASS_NONE) {
			assert_null(r.label);
			continue;
		}
		const char *label = c->label ? c->label : c->labels[0].key;
		assert_string_equal(r.label, label);
		assert_ptr_equal(r.value, gq_label_get(c->labels, n_labels, label));
	}
}

#define CHECK(table, cases) check(table, cases, sizeof(cases) / sizeof((cases)[0]))

static void test_products(void **state)
{
	static const struct read_case cases[] = {
	    {{{PRODUCT, "NVIDIA-A100-SXM4-40GB"}}, "A100-40GB", 40960, NULL},
	    {{{PRODUCT, "NVIDIA-A100-SXM4-80GB"}}, "A100-80GB", 81920, NULL},
	    {{{PRODUCT, "NVIDIA-A100-PCIE-40GB"}}, "A100-40GB", 40960, NULL},
	    {{{PRODUCT, "NVIDIA-A100-80GB-PCIe"}}, "A100-80GB", 81920, NULL},
	    {{{PRODUCT, "A100-SXM4-40GB"}}, "A100-40GB", 40960, NULL},
	    {{{PRODUCT, "A100-SXM4-40GB-MIG-1g.5gb-SHARED"}}, "A100-40GB", 40960, NULL},
	    {{{PRODUCT, "NVIDIA-A100-SXM4-80GB-SHARED"}}, "A100-80GB", 81920, NULL},
	    {{{PRODUCT, "NVIDIA-A100-SXM-64GB"}}, "A100", 0, NULL},
	    {{{PRODUCT, "NVIDIA-A100X"}}, "A100-80GB", 81920, NULL},
	    {{{PRODUCT, "NVIDIA-H100-80GB-HBM3"}}, "H100-80GB", 81559, NULL},
	    {{{PRODUCT, "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"}}, "H100-80GB", 81559, NULL},
	    {{{PRODUCT, "NVIDIA-H100-PCIe"}}, "H100-80GB", 81559, NULL},
	    {{{PRODUCT, "NVIDIA-H100-NVL"}}, "H100-94GB", 95830, NULL},
	    {{{PRODUCT, "NVIDIA-H200"}}, "H200", 143771, NULL},
	    {{{PRODUCT, "NVIDIA-H200-NVL"}}, "H200", 143771, NULL},
	    {{{PRODUCT, "NVIDIA-GH200-480GB"}}, "GH200", 0, NULL},
	    {{{PRODUCT, "NVIDIA-B200"}}, "B200", 183359, NULL},
	    {{{PRODUCT, "NVIDIA-GB200"}}, "GB200", 189471, NULL},
	    {{{PRODUCT, "Tesla-T4"}}, "T4", 15360, NULL},
	    {{{PRODUCT, "Tesla-V100-SXM2-16GB"}}, "V100-16GB", 16384, NULL},
	    {{{PRODUCT, "Tesla-V100-SXM3-32GB"}}, "V100-32GB", 32768, NULL},
	    {{{PRODUCT, "Tesla-V100S-PCIE-32GB"}}, "V100-32GB", 32768, NULL},
	    {{{PRODUCT, "NVIDIA-A30-MIG-1g.6gb"}}, "A30", 24576, NULL},
	    {{{PRODUCT, "Quadro-RTX-6000"}}, "Quadro-RTX-6000", 24576, NULL},
	    {{{PRODUCT, "NVIDIA-RTX-6000-Ada-Generation"}}, "RTX-6000-Ada", 49140, NULL},
	    {{{PRODUCT, "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition"}},
	     "RTX-PRO-6000",
	     97887,
	     NULL},
	    {{{PRODUCT, "NVIDIA-RTX-A6000"}}, "RTX-A6000", 49140, NULL},
	    {{{PRODUCT, "NVIDIA-GeForce-RTX-4090"}}, "RTX-4090", 24564, NULL},
	    {{{PRODUCT, "NVIDIA-GeForce-RTX-4090-D"}}, "RTX-4090-D", 24564, NULL},
	    {{{AMD, "AMD_Instinct_MI300X_OAM"}}, "MI300X", 196592, NULL},
	    {{{AMD, "AMD_Instinct_MI210"}}, "MI210", 65520, NULL},
	    {{{AMD, "AMD_Instinct_MI250X_MI250"}}, "MI250X", 65520, NULL},
	    {{{AMD, "AMD_Instinct_MI325X"}}, "MI325X", 262128, NULL},
	    {{{GKE, "nvidia-tesla-a100"}}, "A100-40GB", 40960, NULL},
	    {{{GKE, "nvidia-a100-80gb"}}, "A100-80GB", 81920, NULL},
	    {{{GKE, "nvidia-h100-80gb"}}, "H100-80GB", 81559, NULL},
	    {{{GKE, "nvidia-h100-mega-80gb"}}, "H100-80GB", 81559, NULL},
	    {{{GKE, "nvidia-h200-141gb"}}, "H200", 143771, NULL},
	    {{{GKE, "nvidia-b200"}}, "B200", 183359, NULL},
	    {{{GKE, "nvidia-l4"}}, "L4", 23034, NULL},
	    {{{WEAVE, "A100_NVLINK_80GB"}}, "A100-80GB", 81920, NULL},
	    {{{ALI, "Tesla-V100-SXM2-16GB"}}, "V100-16GB", 16384, NULL},
	    {{{AWS, "t4"}}, "T4", 15360, NULL},
	    {{{AWS, "a10g"}}, "A10G", 23028, NULL},
	    {{{AWS, "l40s"}}, "L40S", 46068, NULL},
	    {{{AWS, "a100"}}, "A100", 0, NULL},
	};
	GQ_CLEANUP(gq_cleanup_class_table) struct gq_class_table *table = table_of(NULL, 0);
	(void)state;

	CHECK(table, cases);
}

/* Names that contain each other are different models. */
static void test_whole_words(void **state)
{
	static const struct read_case cases[] = {
	    {{{PRODUCT, "NVIDIA-H20"}}, "H20", 97871, NULL},
	    {{{PRODUCT, "NVIDIA-H200"}}, "H200", 143771, NULL},
	    {{{PRODUCT, "NVIDIA-H2000"}}, "other", 0, NULL},
	    {{{PRODUCT, "NVIDIA-A10"}}, "A10", 23028, NULL},
	    {{{PRODUCT, "NVIDIA-A10G"}}, "A10G", 23028, NULL},
	    {{{PRODUCT, "NVIDIA-A100-SXM4-40GB"}}, "A100-40GB", 40960, NULL},
	    {{{PRODUCT, "NVIDIA-A1000"}}, "other", 0, NULL},
	    {{{PRODUCT, "NVIDIA-L4"}}, "L4", 23034, NULL},
	    {{{PRODUCT, "NVIDIA-L40"}}, "L40", 46068, NULL},
	    {{{PRODUCT, "NVIDIA-L40S"}}, "L40S", 46068, NULL},
	    {{{PRODUCT, "NVIDIA-GeForce-RTX-3080-Ti"}}, "RTX-3080-Ti", 12288, NULL},
	    {{{PRODUCT, "NVIDIA-GeForce-RTX-4070-Ti"}}, "other", 0, NULL},
	    {{{PRODUCT, "NVIDIA-GeForce-RTX-3090-Laptop-GPU"}}, "other", 0, NULL},
	    {{{PRODUCT, "NVIDIA-RTX-6000"}}, "other", 0, NULL},
	    {{{PRODUCT, "SomethingNew"}}, "other", 0, NULL},
	    {{{PRODUCT, "NVIDIA-A100-or-H100"}}, "none", 0, NULL},
	    {{{PRODUCT, ""}}, "none", 0, NULL},
	    {{{PRODUCT, "---"}}, "none", 0, NULL},
	    {{{"nvidia.com/gpu.products", "NVIDIA-A10"}}, "none", 0, NULL},
	    {{{"kubernetes.azure.com/accelerator", "nvidia"}}, "none", 0, NULL},
	};
	GQ_CLEANUP(gq_cleanup_class_table) struct gq_class_table *table = table_of(NULL, 0);
	(void)state;

	CHECK(table, cases);
}

static void test_memory(void **state)
{
	static const struct read_case cases[] = {
	    {{{MEMORY, "39538"}, {PRODUCT, "NVIDIA-A100"}}, "A100-40GB", 39538, PRODUCT},
	    {{{MEMORY, "40960"}, {PRODUCT, "NVIDIA-A100"}}, "A100-40GB", 40960, PRODUCT},
	    {{{MEMORY, "81920"}, {PRODUCT, "NVIDIA-A100"}}, "A100-80GB", 81920, PRODUCT},
	    {{{MEMORY, "60000"}, {PRODUCT, "NVIDIA-A100"}}, "A100", 60000, PRODUCT},
	    {{{MEMORY, "10240"}, {PRODUCT, "GRID-A100-10C"}}, "A100", 10240, PRODUCT},
	    {{{MEMORY, "81559"}, {PRODUCT, "NVIDIA-H100"}}, "H100-80GB", 81559, PRODUCT},
	    {{{MEMORY, "95830"}, {PRODUCT, "NVIDIA-H100"}}, "H100-94GB", 95830, PRODUCT},
	    /* the product's own words come first */
	    {{{MEMORY, "81920"}, {PRODUCT, "NVIDIA-A100-SXM4-40GB"}}, "A100-40GB", 81920, PRODUCT},
	    {{{MEMORY, "65536"}, {PRODUCT, "NVIDIA-A100-SXM-64GB"}}, "A100", 65536, PRODUCT},
	    {{{MEMORY, "97871"}, {PRODUCT, "NVIDIA-H100-96GB"}}, "H100", 97871, PRODUCT},
	    /* of a slice, not of the device */
	    {{{MEMORY, "4864"}, {PRODUCT, "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}},
	     "A100-40GB",
	     40960,
	     PRODUCT},
	    {{{MEMORY, "40320"}, {PRODUCT, "NVIDIA-A100-MIG-3g.40gb"}}, "A100", 0, PRODUCT},
	    {{{MEMORY, "24258"}, {PRODUCT, "NVIDIA-A30"}}, "A30", 24258, PRODUCT},
	    {{{MEMORY, "12345"}, {PRODUCT, "SomethingNew"}}, "other", 12345, PRODUCT},
	    {{{MEMORY, "81920"}}, "none", 81920, NULL},
	    {{{AWS_MEMORY, "40960"}, {AWS, "a100"}}, "A100-40GB", 40960, AWS},
	    {{{AWS_MEMORY, "81920"}, {AWS, "h100"}}, "H100-80GB", 81920, AWS},
	    {{{AWS_MEMORY, "40960"}, {AWS, "a100"}, {MEMORY, "39538"}}, "A100-40GB", 39538, AWS},
	    /* not plain digits: as if it were not there */
	    {{{MEMORY, "40Gi"}, {PRODUCT, "NVIDIA-A100"}}, "A100", 0, PRODUCT},
	    {{{MEMORY, "-1"}, {PRODUCT, "NVIDIA-A30"}}, "A30", 24576, PRODUCT},
	    {{{MEMORY, "0"}, {PRODUCT, "NVIDIA-A30"}}, "A30", 24576, PRODUCT},
	    {{{MEMORY, "99999999999999999999"}, {PRODUCT, "NVIDIA-A30"}}, "A30", 24576, PRODUCT},
	};
	GQ_CLEANUP(gq_cleanup_class_table) struct gq_class_table *table = table_of(NULL, 0);
	(void)state;

	CHECK(table, cases);
}

static void test_several_labels(void **state)
{
	static const struct read_case cases[] = {
	    /* a known model beats an unknown product */
	    {{{GKE, "nvidia-l4"}, {PRODUCT, "SomethingNew"}}, "L4", 23034, GKE},
	    /* a variant refines its model, another model changes nothing */
	    {{{WEAVE, "A100_NVLINK_80GB"}, {PRODUCT, "NVIDIA-A100"}}, "A100-80GB", 81920, WEAVE},
	    {{{WEAVE, "H100_NVLINK_80GB"}, {PRODUCT, "NVIDIA-A100"}}, "A100", 0, PRODUCT},
	    {{{WEAVE, "A100_NVLINK_80GB"}, {PRODUCT, "NVIDIA-A100-SXM4-40GB"}},
	     "A100-40GB",
	     40960,
	     PRODUCT},
	};
	GQ_CLEANUP(gq_cleanup_class_table) struct gq_class_table *table = table_of(NULL, 0);
	(void)state;

	CHECK(table, cases);
}

#define TYPE "node.kubernetes.io/instance-type"

static void test_policy_matches(void **state)
{
	static const char *const p4de[] = {"p4de.24xlarge"}, *const p4[] = {"p4d", "p4-any"};
	static const char *const fast[] = {"fast"}, *const t4[] = {"Tesla-T4"};
	static const struct gq_class_match by_type[] = {{TYPE, p4de, 1}}, any[] = {{TYPE, p4, 2}};
	static const struct gq_class_match by_pool[] = {{"pool", fast, 1}, {PRODUCT, t4, 1}};
	static const struct gq_class_def defs[] = {
	    {.name = "A100-80GB", .memory_mib = 80000, .matches = by_type, .n_matches = 1},
	    {.name = "A100", .matches = any, .n_matches = 1},
	    {.name = "Fast", .memory_mib = 1000, .matches = by_pool, .n_matches = 2},
	};
	static const struct read_case cases[] = {
	    {{{TYPE, "p4de.24xlarge"}}, "A100-80GB", 80000, NULL},
	    {{{TYPE, "p4de.24xlarg"}}, "none", 0, NULL}, /* the whole value, exactly */
	    {{{TYPE, "P4DE.24XLARGE"}}, "none", 0, NULL},
	    {{{TYPE, "p4d"}}, "A100", 0, NULL},
	    {{{TYPE, "p4-any"}, {MEMORY, "39538"}}, "A100-40GB", 39538, TYPE},
	    {{{TYPE, "p4d"}, {PRODUCT, "NVIDIA-A100-SXM4-80GB"}}, "A100-80GB", 80000, PRODUCT},
	    /* it comes before what the product says */
	    {{{TYPE, "p4d"}, {PRODUCT, "NVIDIA-L4"}}, "A100", 0, TYPE},
	    {{{PRODUCT, "Tesla-T4"}}, "Fast", 1000, NULL},
	    {{{PRODUCT, "Tesla-T4-SHARED"}}, "T4", 15360, NULL},
	    /* the first in the policy wins */
	    {{{TYPE, "p4d"}, {"pool", "fast"}}, "A100", 0, TYPE},
	    {{{TYPE, "p5"}, {"pool", "fast"}}, "Fast", 1000, "pool"},
	};
	GQ_CLEANUP(gq_cleanup_class_table) struct gq_class_table *table = table_of(defs, 3);
	(void)state;

	CHECK(table, cases);
	assert_true(gq_class_label_tells(table, TYPE));
	assert_true(gq_class_label_tells(table, "pool"));
	assert_true(gq_class_label_tells(table, PRODUCT));
	assert_true(gq_class_label_tells(table, ALI));
	assert_false(gq_class_label_tells(table, "poo"));
	assert_false(gq_class_label_tells(table, MEMORY));
	assert_false(gq_class_label_tells(table, "topology.kubernetes.io/zone"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_products),       cmocka_unit_test(test_whole_words),
	    cmocka_unit_test(test_memory),         cmocka_unit_test(test_several_labels),
	    cmocka_unit_test(test_policy_matches),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
