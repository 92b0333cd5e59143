#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "quota/gpu_names.h"
#include "quota/message.h"

#define LEN(array) (sizeof(array) / sizeof *(array))

static const struct name_case {
	const char *name;
	enum gq_gpu_meaning meaning;
	const char *detail; /* a part of it; NULL: detail stays untouched */
	const char *node_resource;
} cases[] = {
    {"nvidia.com/gpu", GQ_GPU_COUNT, NULL, "nvidia.com/gpu"},
    {"amd.com/gpu", GQ_GPU_COUNT, NULL, "amd.com/gpu"},
    {"nvidia.com/gpumem", GQ_GPU_MEMORY_MIB, NULL, "nvidia.com/gpu"},
    {"nvidia.com/gpumem-percentage", GQ_GPU_MEMORY_PERCENT, NULL, "nvidia.com/gpu"},
    {"nvidia.com/gpucores", GQ_GPU_CORES_PERCENT, NULL, "nvidia.com/gpu"},
    {"deviceclass.resource.kubernetes.io/gpu.nvidia.com", GQ_GPU_DEVICE_CLASS, "gpu.nvidia.com",
     NULL},
    {"deviceclass.resource.kubernetes.io/nic.example.com", GQ_GPU_DEVICE_CLASS, "nic.example.com",
     NULL},
    {"nvidia.com/gpu.shared", GQ_GPU_NOT_SUPPORTED, "time slices", NULL},
    {"nvidia.com/mig-1g.5gb", GQ_GPU_NOT_SUPPORTED, "MIG", NULL},
    {"nvidia.com/mig-1g.18gb.me", GQ_GPU_NOT_SUPPORTED, "MIG", NULL},
    {"nvidia.com/mig-1g.23gb", GQ_GPU_NOT_SUPPORTED, "MIG", NULL},
    {"nvidia.com/gpu-memory", GQ_GPU_NOT_SUPPORTED, "NVIDIA", NULL},
    {"nvidia.com/GPU", GQ_GPU_NOT_SUPPORTED, "NVIDIA", NULL},
    {"nvidia.com/GRID_T4-1Q", GQ_GPU_NOT_SUPPORTED, "NVIDIA", NULL},
    {"nvidia.com/sriov-gpu", GQ_GPU_NOT_SUPPORTED, "NVIDIA", NULL},
    {"amd.com/gpumem", GQ_GPU_NOT_SUPPORTED, "AMD vGPU", NULL},
    {"amd.com/cpx_nps4", GQ_GPU_NOT_SUPPORTED, "AMD", NULL},
    {"volcano.sh/vgpu-number", GQ_GPU_NOT_SUPPORTED, "Volcano vGPU", NULL},
    {"volcano.sh/vgpu-memory", GQ_GPU_NOT_SUPPORTED, "Volcano vGPU", NULL},
    {"volcano.sh/vgpu-memory-percentage", GQ_GPU_NOT_SUPPORTED, "Volcano vGPU", NULL},
    {"volcano.sh/vgpu-cores", GQ_GPU_NOT_SUPPORTED, "Volcano vGPU", NULL},
    {"volcano.sh/gpu-memory", GQ_GPU_NOT_SUPPORTED, "Volcano GPU share", NULL},
    {"volcano.sh/gpu-number", GQ_GPU_NOT_SUPPORTED, "Volcano GPU share", NULL},
    {"aliyun.com/gpu-mem", GQ_GPU_NOT_SUPPORTED, "Alibaba", NULL},
    {"aliyun.com/gpu-count", GQ_GPU_NOT_SUPPORTED, "Alibaba", NULL},
    {"koordinator.sh/gpu", GQ_GPU_NOT_SUPPORTED, "Koordinator", NULL},
    {"koordinator.sh/gpu-core", GQ_GPU_NOT_SUPPORTED, "Koordinator", NULL},
    {"koordinator.sh/gpu-memory", GQ_GPU_NOT_SUPPORTED, "Koordinator", NULL},
    {"koordinator.sh/gpu-memory-ratio", GQ_GPU_NOT_SUPPORTED, "Koordinator", NULL},
    {"koordinator.sh/gpu.shared", GQ_GPU_NOT_SUPPORTED, "Koordinator", NULL},
    {"gpu.intel.com/i915", GQ_GPU_NOT_SUPPORTED, "Intel", NULL},
    {"habana.ai/gaudi", GQ_GPU_NOT_SUPPORTED, "Gaudi", NULL},
    {"huawei.com/Ascend910", GQ_GPU_NOT_SUPPORTED, "Ascend", NULL},
    {"metax-tech.com/sgpu", GQ_GPU_NOT_SUPPORTED, "MetaX", NULL},
    {"cambricon.com/vmlu", GQ_GPU_NOT_SUPPORTED, "Cambricon", NULL},
    {"iluvatar.com/vcuda-core", GQ_GPU_NOT_SUPPORTED, "Iluvatar", NULL},
    {"iluvatar.ai/BI-V100", GQ_GPU_NOT_SUPPORTED, "Iluvatar", NULL},
    {"hygon.com/dcunum", GQ_GPU_NOT_SUPPORTED, "Hygon", NULL},
    {"mthreads.com/sgpu-core", GQ_GPU_NOT_SUPPORTED, "Moore", NULL},
    {"enflame.com/vgcu", GQ_GPU_NOT_SUPPORTED, "Enflame", NULL},
    {"example.com/my-gpu", GQ_GPU_NOT_SUPPORTED, "not known", NULL},
    {"example.com/GPU", GQ_GPU_NOT_SUPPORTED, "not known", NULL},
    {"example.com/a100_80g_cgpu", GQ_GPU_NOT_SUPPORTED, "not known", NULL},
    {"example.com/vgpu.small", GQ_GPU_NOT_SUPPORTED, "not known", NULL},
    {"nos.example.com/gpu-memory", GQ_GPU_NOT_SUPPORTED, "not known", NULL},
    {"example.com/mig-2g.10gb", GQ_GPU_NOT_SUPPORTED, "not known", NULL},
    {"nvidia.com/priority", GQ_GPU_NONE, NULL, NULL},
    {"nvidia.com/hostdev", GQ_GPU_NONE, NULL, NULL},
    {"nvidia.com/mlnxnics", GQ_GPU_NONE, NULL, NULL},
    {"nvidia.com/rdma_shared_device_a", GQ_GPU_NONE, NULL, NULL},
    {"nvidia.com/sriov_rdma", GQ_GPU_NONE, NULL, NULL},
    {"nvidia.com/roce", GQ_GPU_NONE, NULL, NULL},
    {"nvidia.com/ib0", GQ_GPU_NONE, NULL, NULL},
    {"amd.com/cpu-numa", GQ_GPU_NONE, NULL, NULL},
    {"amd.com/sev-snp", GQ_GPU_NONE, NULL, NULL},
    {"koordinator.sh/rdma", GQ_GPU_NONE, NULL, NULL},
    {"example.com/gpunk", GQ_GPU_NONE, NULL, NULL},
    {"example.com/xgpux", GQ_GPU_NONE, NULL, NULL},
    {"example.com/migrate", GQ_GPU_NONE, NULL, NULL},
    {"example.com/mi", GQ_GPU_NONE, NULL, NULL},
    {"g.example.com/vgp", GQ_GPU_NONE, NULL, NULL},
    {"example.com/nvidia.com", GQ_GPU_NONE, NULL, NULL},
    {"my-nvidia.com/thing", GQ_GPU_NONE, NULL, NULL},
    {"rdma/hca_shared_devices_a", GQ_GPU_NONE, NULL, NULL},
    {"smarter-devices/fuse", GQ_GPU_NONE, NULL, NULL},
    {"intel.com/qat", GQ_GPU_NONE, NULL, NULL},
    {"huawei.com/nic", GQ_GPU_NONE, NULL, NULL},
    {"kubernetes.io/batch-cpu", GQ_GPU_NONE, NULL, NULL},
    {"cpu", GQ_GPU_NONE, NULL, NULL},
    {"memory", GQ_GPU_NONE, NULL, NULL},
    {"ephemeral-storage", GQ_GPU_NONE, NULL, NULL},
    {"hugepages-2Mi", GQ_GPU_NONE, NULL, NULL},
    {"gpu", GQ_GPU_NONE, NULL, NULL},
    {"", GQ_GPU_NONE, NULL, NULL},
    {"/", GQ_GPU_NONE, NULL, NULL},
};

static void every_name_means_what_it_should(void **state)
{
	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		const char *untouched = "untouched";
		struct gq_phrase detail = GQ_PHRASE_NAME(untouched);
		print_message("%s\n", cases[i].name);
		assert_int_equal(gq_gpu_resource_meaning(cases[i].name, &detail), cases[i].meaning);
		assert_int_equal(gq_gpu_resource_meaning(cases[i].name, NULL), cases[i].meaning);
		if (cases[i].detail)
			assert_non_null(
			    strstr(gq_phrase_text(GQ_LOCALE_EN, &detail), cases[i].detail));
		else
			assert_ptr_equal(detail.name, untouched);
		const char *offered = gq_gpu_node_resource(cases[i].name);
		if (cases[i].node_resource)
			assert_string_equal(offered, cases[i].node_resource);
		else
			assert_null(offered);
		bool counted =
		    cases[i].meaning >= GQ_GPU_COUNT && cases[i].meaning <= GQ_GPU_CORES_PERCENT;
		const char *name = gq_gpu_static_name(cases[i].name);
		assert_int_equal(name != NULL, counted);
		if (name)
			assert_string_equal(name, cases[i].name);
	}
	assert_ptr_equal(gq_gpu_node_resource("nvidia.com/gpu"),
			 gq_gpu_node_resource("nvidia.com/gpucores"));
}

static void annotations(void **state)
{
	struct gq_phrase detail = GQ_PHRASE_NAME("");

	(void)state;
	assert_int_equal(gq_gpu_annotation_meaning("gpu-fraction", &detail), GQ_GPU_NOT_SUPPORTED);
	assert_non_null(strstr(gq_phrase_text(GQ_LOCALE_EN, &detail), "KAI"));
	assert_int_equal(gq_gpu_annotation_meaning("gpu-memory", NULL), GQ_GPU_NOT_SUPPORTED);
	assert_int_equal(gq_gpu_annotation_meaning("gpu-fraction-num-devices", NULL),
			 GQ_GPU_NOT_SUPPORTED);
	static const char *const none[] = {"nvidia.com/use-gputype",
					   "nvidia.com/nouse-gputype",
					   "nvidia.com/use-gpuuuid",
					   "nvidia.com/nouse-gpuuuid",
					   "nvidia.com/vgpu-mode",
					   "hami.io/vgpu-devices-allocated",
					   "gpu-fraction-container-name",
					   "gpu-fractions",
					   "GPU-FRACTION",
					   ""};
	for (size_t i = 0; i < LEN(none); i++)
		assert_int_equal(gq_gpu_annotation_meaning(none[i], NULL), GQ_GPU_NONE);
}

static void device_names(void **state)
{
	static const struct {
		const char *name;
		bool gpu;
	} names[] = {
	    {"gpu.nvidia.com", true},
	    {"mig.nvidia.com", true},
	    {"vfio.gpu.nvidia.com", true},
	    {"nvidia.com", true},
	    {"anything.nvidia.com", true},
	    {"a100.NVIDIA.com", true},
	    {"gpu.amd.com", true},
	    {"gpu.intel.com", true},
	    {"gaudi.intel.com", true},
	    {"my-gpu", true},
	    {"big.gpus.example.com", true},
	    {"npu.metax-tech.com", true},
	    {"compute-domain.nvidia.com", false},
	    {"compute-domain-default-channel.nvidia.com", false},
	    {"compute-domain-gpu.nvidia.com", true},
	    {"compute-domain.example.com", false},
	    {"nic.example.com", false},
	    {"dranet", false},
	    {"qat.intel.com", false},
	    {"mynvidia.com", false},
	    {"nvidia.com.example.org", false},
	    {"resource.kubernetes.io", false},
	    {"volcano.sh", false},
	    {"", false},
	};

	(void)state;
	for (size_t i = 0; i < LEN(names); i++) {
		print_message("%s\n", names[i].name);
		assert_int_equal(gq_gpu_device_name(names[i].name), names[i].gpu);
	}
}

/* Takes the pattern of the nth `.matches('…')` out of the expression and writes it as a POSIX
 * extended one, without case. */
static void compile_nth_match(const char *cel, unsigned nth, regex_t *ret_regex)
{
	static const char call[] = ".matches('";
	char pattern[4096];
	size_t n = 0;

	for (unsigned i = 0; i <= nth; i++) {
		cel = strstr(cel, call);
		assert_non_null(cel);
		cel += sizeof call - 1;
	}
	while (*cel != '\'') {
		static const char *const drop[] = {"(?i)", "?:", "?i:"};
		size_t skip = 0;
		for (size_t i = 0; i < LEN(drop); i++)
			if (strncmp(cel, drop[i], strlen(drop[i])) == 0)
				skip = strlen(drop[i]);
		if (!skip)
			pattern[n++] = *cel;
		cel += skip ? skip : 1;
		assert_true(n < sizeof pattern - 1);
	}
	pattern[n] = '\0';
	assert_int_equal(regcomp(ret_regex, pattern, REG_EXTENDED | REG_ICASE | REG_NOSUB), 0);
}

/* The tests of one name in the match condition say the same as the recogniser. The expression as a
 * whole is tried on a real API server by the end-to-end tests. */
static void match_condition_agrees_with_the_recogniser(void **state)
{
	struct gq_buf cel GQ_BUF_CLEANUP = GQ_BUF_INIT(65536);
	regex_t token, claimed, excepted;

	(void)state;
	assert_int_equal(gq_gpu_names_print_match_condition(&cel, "object"), 0);
	compile_nth_match(cel.data, 0, &token);
	compile_nth_match(cel.data, 1, &claimed);
	compile_nth_match(cel.data, 2, &excepted);
	for (size_t i = 0; i < LEN(cases); i++) {
		const char *name = cases[i].name;
		bool matches = strchr(name, '/') && (regexec(&token, name, 0, NULL, 0) == 0 ||
						     (regexec(&claimed, name, 0, NULL, 0) == 0 &&
						      regexec(&excepted, name, 0, NULL, 0) != 0));
		print_message("%s\n", name);
		assert_int_equal(matches, cases[i].meaning != GQ_GPU_NONE);
	}
	regfree(&token);
	regfree(&claimed);
	regfree(&excepted);
}

static void match_condition_is_one_line_that_yaml_can_hold(void **state)
{
	struct gq_buf cel GQ_BUF_CLEANUP = GQ_BUF_INIT(65536);
	static const char *const parts[] = {"has(object.spec.resourceClaims)",
					    "has(object.spec.overhead)",
					    "has(object.spec.initContainers)",
					    "has(c.resources.requests)",
					    "has(c.resources.limits)",
					    "has(object.metadata.annotations)",
					    "'gpu-fraction'",
					    "'gpu-memory'",
					    "'gpu-fraction-num-devices'"};

	(void)state;
	assert_int_equal(gq_gpu_names_print_match_condition(&cel, "object"), 0);
	assert_null(strpbrk(cel.data, "\n\t\"\\#"));
	for (size_t i = 0; i < LEN(parts); i++)
		assert_non_null(strstr(cel.data, parts[i]));
	print_message("%zu bytes\n", cel.len);

	struct gq_buf small GQ_BUF_CLEANUP = GQ_BUF_INIT(100);
	assert_int_equal(gq_gpu_names_print_match_condition(&small, "object"), GQ_ETOOBIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_name_means_what_it_should),
	    cmocka_unit_test(annotations),
	    cmocka_unit_test(device_names),
	    cmocka_unit_test(match_condition_agrees_with_the_recogniser),
	    cmocka_unit_test(match_condition_is_one_line_that_yaml_can_hold),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
