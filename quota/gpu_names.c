#include "quota/gpu_names.h"

#include <string.h>
#include <strings.h>

#include "quota/message.h"

/* Objects of their own, so that equal node resources are equal pointers. */
static const char nvidia_gpu[] = "nvidia.com/gpu";
static const char amd_gpu[] = "amd.com/gpu";

/* What is counted. Compared exactly; each must also be inside a row of `claimed`, so that a name
 * that differs in case only is refused and not missed. */
static const struct supported {
	const char *name;
	enum gq_gpu_meaning meaning;
	const char *node_resource;
} supported[] = {
    {nvidia_gpu, GQ_GPU_COUNT, nvidia_gpu},
    {"nvidia.com/gpumem", GQ_GPU_MEMORY_MIB, nvidia_gpu},
    {"nvidia.com/gpumem-percentage", GQ_GPU_MEMORY_PERCENT, nvidia_gpu},
    {"nvidia.com/gpucores", GQ_GPU_CORES_PERCENT, nvidia_gpu},
    {amd_gpu, GQ_GPU_COUNT, amd_gpu},
};

#define DEVICE_CLASS_PREFIX "deviceclass.resource.kubernetes.io/"

/* How the names begin that belong to GPUs and like accelerators whoever offers them, whatever
 * follows; letter case does not matter. Longer rows of the same domain come first, for their
 * detail. A row that ends in '/' claims the domain: DRA drivers and DeviceClasses below it, too. */
static const struct claimed {
	const char *prefix;
	const char *detail; /* a product's name; NULL: a phrase */
	enum gq_message_id phrase;
} claimed[] = {
    {DEVICE_CLASS_PREFIX, NULL, 0},
    {"nvidia.com/mig-", "MIG", 0},
    {"nvidia.com/gpu.shared", NULL, GQ_MSG_KIND_NVIDIA_SLICES},
    {"nvidia.com/gpu-memory", NULL, GQ_MSG_KIND_NVIDIA_MEMORY},
    {"nvidia.com/", NULL, GQ_MSG_KIND_NVIDIA},
    {"amd.com/gpumem", NULL, GQ_MSG_KIND_AMD_HAMI},
    {"amd.com/gpucores", NULL, GQ_MSG_KIND_AMD_HAMI},
    {"amd.com/", NULL, GQ_MSG_KIND_AMD},
    {"volcano.sh/vgpu-", "Volcano vGPU", 0},
    {"volcano.sh/gpu-", "Volcano GPU share", 0},
    {"aliyun.com/gpu-", "Alibaba GPU share", 0},
    {"aliyun.com/ppu", "Alibaba PPU", 0},
    {"koordinator.sh/", "Koordinator", 0},
    {"gpu.intel.com/", "Intel GPU", 0},
    {"habana.ai/", "Intel Gaudi", 0},
    {"huawei.com/ascend", "Huawei Ascend", 0},
    {"metax-tech.com/", "MetaX", 0},
    {"cambricon.com/", "Cambricon", 0},
    {"iluvatar.com/", "Iluvatar", 0},
    {"iluvatar.ai/", "Iluvatar", 0},
    {"hygon.com/", "Hygon DCU", 0},
    {"mthreads.com/", "Moore Threads", 0},
    {"enflame.com/", "Enflame", 0},
    {"kunlunxin.com/", "Kunlunxin", 0},
    {"birentech.com/", "Biren", 0},
};

/* Names inside those domains that are no GPUs, by their beginnings. One that has a GPU token below
 * is a GPU's all the same. */
static const char *const excepted[] = {
    /* HAMi's task priority; network devices of the NVIDIA network operator */
    "nvidia.com/priority",
    "nvidia.com/hostdev",
    "nvidia.com/mlnx",
    "nvidia.com/rdma",
    "nvidia.com/sriov",
    "nvidia.com/roce",
    "nvidia.com/ib",
    /* processors, memory encryption, network cards, FPGAs */
    "amd.com/cpu",
    "amd.com/sev",
    "amd.com/nic",
    "amd.com/vnic",
    "amd.com/xilinx",
    "koordinator.sh/rdma",
    "koordinator.sh/fpga",
};

/* A resource of any domain is a GPU's when one of these stands in its name between characters that
 * are no letters and no digits: example.com/my-gpu, not example.com/gpunk. */
static const char *const tokens[] = {
    "gpu",  "gpus",   "vgpu",     "vgpus", "cgpu", "qgpu", "mgpu",  "sgpu",
    "xgpu", "gpumem", "gpucores", "mig",   "cuda", "dcu",  "vcuda", "gaudi",
};

/* Drivers and DeviceClasses below claimed domains that are no GPUs: memory domains of NVLink. */
static const char *const excepted_devices[] = {"compute-domain"};

#define ANNOTATION_ROW(key) key,
static const char *const annotations[] = {GQ_GPU_ANNOTATIONS(ANNOTATION_ROW)};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool has_prefix(const char *name, const char *prefix)
{
	return strncasecmp(name, prefix, strlen(prefix)) == 0;
}

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_token(const char *text, size_t len)
{
	for (size_t i = 0; i < COUNT(tokens); i++)
		if (strlen(tokens[i]) == len && strncasecmp(text, tokens[i], len) == 0)
			return true;
	return false;
}

static bool has_token(const char *name)
{
	while (*name) {
		size_t len = 0;
		while (is_alnum(name[len]))
			len++;
		if (len && is_token(name, len))
			return true;
		name += len ? len : 1;
	}
	return false;
}

static bool has_any_prefix(const char *name, const char *const *prefixes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (has_prefix(name, prefixes[i]))
			return true;
	return false;
}

static const struct supported *find_supported(const char *name)
{
	for (size_t i = 0; i < COUNT(supported); i++)
		if (strcmp(name, supported[i].name) == 0)
			return &supported[i];
	return NULL;
}

static enum gq_gpu_meaning answer(enum gq_gpu_meaning meaning, struct gq_phrase detail,
				  struct gq_phrase *ret_detail)
{
	if (ret_detail)
		*ret_detail = detail;
	return meaning;
}

enum gq_gpu_meaning gq_gpu_resource_meaning(const char *name, struct gq_phrase *detail)
{
	if (!strchr(name, '/')) /* cpu, memory, hugepages-2Mi: Kubernetes' own */
		return GQ_GPU_NONE;
	const struct supported *known = find_supported(name);
	if (known)
		return known->meaning;
	if (has_prefix(name, DEVICE_CLASS_PREFIX))
		return answer(GQ_GPU_DEVICE_CLASS,
			      GQ_PHRASE_NAME(name + strlen(DEVICE_CLASS_PREFIX)), detail);
	bool token = has_token(name);
	if (!token && has_any_prefix(name, excepted, COUNT(excepted)))
		return GQ_GPU_NONE;
	for (size_t i = 0; i < COUNT(claimed); i++)
		if (has_prefix(name, claimed[i].prefix))
			return answer(GQ_GPU_NOT_SUPPORTED,
				      (struct gq_phrase){claimed[i].detail, (int)claimed[i].phrase},
				      detail);
	return token ? answer(GQ_GPU_NOT_SUPPORTED, GQ_PHRASE_MESSAGE(GQ_MSG_KIND_PLUGIN), detail)
		     : GQ_GPU_NONE;
}

enum gq_gpu_meaning gq_gpu_annotation_meaning(const char *key, struct gq_phrase *detail)
{
	for (size_t i = 0; i < COUNT(annotations); i++)
		if (strcmp(key, annotations[i]) == 0)
			return answer(GQ_GPU_NOT_SUPPORTED, GQ_PHRASE_MESSAGE(GQ_MSG_KIND_KAI),
				      detail);
	return GQ_GPU_NONE;
}

/* Whether name is the domain of a row that claims one, or below it: "nvidia.com/" claims
 * gpu.nvidia.com. */
static bool in_claimed_domain(const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < COUNT(claimed); i++) {
		size_t domain = strcspn(claimed[i].prefix, "/");
		if (claimed[i].prefix[domain + 1] || domain > len ||
		    strcmp(claimed[i].prefix, DEVICE_CLASS_PREFIX) == 0)
			continue;
		const char *at = name + len - domain;
		if (strncasecmp(at, claimed[i].prefix, domain) == 0 &&
		    (at == name || at[-1] == '.'))
			return true;
	}
	return false;
}

bool gq_gpu_device_name(const char *name)
{
	if (has_token(name))
		return true;
	return in_claimed_domain(name) &&
	       !has_any_prefix(name, excepted_devices, COUNT(excepted_devices));
}

const char *gq_gpu_node_resource(const char *name)
{
	const struct supported *known = find_supported(name);

	return known ? known->node_resource : NULL;
}

const char *gq_gpu_static_name(const char *name)
{
	const struct supported *known = find_supported(name);

	return known ? known->name : NULL;
}

/* Appends text as part of an RE2 pattern inside a CEL string: the names hold nothing special but
 * dots. */
static void print_pattern(struct gq_buf *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '.')
			gq_buf_puts(out, "[.]");
		else
			gq_buf_putc(out, *text);
	}
}

static void print_alternatives(struct gq_buf *out, const char *const *texts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (i)
			gq_buf_putc(out, '|');
		print_pattern(out, texts[i]);
	}
}

/* Whether a shorter row says it already. */
static bool is_redundant(size_t row)
{
	for (size_t i = 0; i < COUNT(claimed); i++)
		if (i != row && has_prefix(claimed[row].prefix, claimed[i].prefix))
			return true;
	return false;
}

/* Appends the test of one resource name k. The expensive patterns are behind a look for the slash,
 * which names like cpu and memory do not have. */
static void print_name_test(struct gq_buf *out)
{
	const char *separator = "";

	gq_buf_puts(out, "k.contains('/') && (k.matches('(?i)(?:^|[^0-9A-Za-z])(?:");
	print_alternatives(out, tokens, COUNT(tokens));
	gq_buf_puts(out, ")(?:[^0-9A-Za-z]|$)') || (k.matches('^(?i:");
	for (size_t i = 0; i < COUNT(claimed); i++) {
		if (is_redundant(i))
			continue;
		gq_buf_puts(out, separator);
		print_pattern(out, claimed[i].prefix);
		separator = "|";
	}
	gq_buf_puts(out, ")') && !k.matches('^(?i:");
	print_alternatives(out, excepted, COUNT(excepted));
	gq_buf_puts(out, ")')))");
}

int gq_gpu_names_print_match_condition(struct gq_buf *out, const char *pod)
{
	gq_buf_printf(out,
		      "(has(%s.spec.resourceClaims) && size(%s.spec.resourceClaims) > 0) || "
		      "(has(%s.metadata) && has(%s.metadata.annotations) && [",
		      pod, pod, pod, pod);
	for (size_t i = 0; i < COUNT(annotations); i++)
		gq_buf_printf(out, "%s'%s'", i ? ", " : "", annotations[i]);
	gq_buf_printf(out,
		      "].exists(k, k in %s.metadata.annotations)) || "
		      "(has(%s.spec.overhead) && %s.spec.overhead.exists(k, ",
		      pod, pod, pod);
	print_name_test(out);
	gq_buf_printf(out,
		      ")) || (%s.spec.containers + (has(%s.spec.initContainers) ? "
		      "%s.spec.initContainers : [])).exists(c, has(c.resources) && "
		      "((has(c.resources.requests) ? [c.resources.requests] : []) + "
		      "(has(c.resources.limits) ? [c.resources.limits] : []))"
		      ".exists(m, m.exists(k, ",
		      pod, pod, pod);
	print_name_test(out);
	return gq_buf_puts(out, ")))");
}
