#include "quota/class_internal.h"

/* The models that every table holds. Names follow what the device plugins and clouds call them,
 * without vendor and form factor; memory is what the driver reports, so that quotas and labels
 * agree. */

#define MODEL(name, mib, patterns)                                                                 \
	{                                                                                          \
		name, NULL, 0, mib, patterns                                                       \
	}
#define VARIANT(name, model, gb, mib, patterns)                                                    \
	{                                                                                          \
		name, model, gb, mib, patterns                                                     \
	}

const struct gq_class_builtin gq_class_builtins[] = {
    /* NVIDIA data centre */
    MODEL("K80", 11441, "k80"),
    MODEL("M60", 0, "m60"),
    MODEL("P4", 7680, "p4"),
    MODEL("P40", 24576, "p40"),
    MODEL("P100", 0, "p100"),
    VARIANT("P100-12GB", "P100", 12, 12288, NULL),
    VARIANT("P100-16GB", "P100", 16, 16384, NULL),
    MODEL("V100", 0, "v100"),
    VARIANT("V100-16GB", "V100", 16, 16384, NULL),
    VARIANT("V100-32GB", "V100", 32, 32768, "v100s"),
    MODEL("T4", 15360, "t4"),
    MODEL("T4G", 15360, "t4g"),
    MODEL("A2", 15356, "a2"),
    MODEL("A10", 23028, "a10"),
    MODEL("A10G", 23028, "a10g"),
    MODEL("A16", 15356, "a16"),
    MODEL("A30", 24576, "a30"),
    MODEL("A40", 46068, "a40"),
    MODEL("A100", 0, "a100"),
    VARIANT("A100-40GB", "A100", 40, 40960, NULL),
    VARIANT("A100-80GB", "A100", 80, 81920, "a100x"),
    MODEL("A800", 0, "a800"),
    VARIANT("A800-40GB", "A800", 40, 40960, NULL),
    VARIANT("A800-80GB", "A800", 80, 81920, NULL),
    MODEL("L4", 23034, "l4"),
    MODEL("L20", 46068, "l20"),
    MODEL("L40", 46068, "l40"),
    MODEL("L40S", 46068, "l40s"),
    MODEL("H20", 97871, "h20"),
    MODEL("H100", 0, "h100"),
    VARIANT("H100-80GB", "H100", 80, 81559, "h100 pcie"),
    VARIANT("H100-94GB", "H100", 94, 95830, "h100 nvl"),
    MODEL("H200", 143771, "h200"),
    MODEL("H800", 81559, "h800"),
    MODEL("GH200", 0, "gh200"),
    MODEL("B200", 183359, "b200"),
    MODEL("B300", 0, "b300"),
    MODEL("GB200", 189471, "gb200"),
    MODEL("GB300", 0, "gb300"),

    /* NVIDIA workstation and desktop */
    MODEL("Quadro-RTX-4000", 8192, "quadro rtx 4000"),
    MODEL("Quadro-RTX-5000", 16384, "quadro rtx 5000"),
    MODEL("Quadro-RTX-6000", 24576, "quadro rtx 6000"),
    MODEL("Quadro-RTX-8000", 49152, "quadro rtx 8000"),
    MODEL("RTX-A4000", 16376, "a4000"),
    MODEL("RTX-A4500", 20470, "a4500"),
    MODEL("RTX-A5000", 24564, "a5000"),
    MODEL("RTX-A6000", 49140, "a6000"),
    MODEL("RTX-4000-Ada", 20475, "rtx 4000 ada"),
    MODEL("RTX-4500-Ada", 24570, "rtx 4500 ada"),
    MODEL("RTX-5000-Ada", 32760, "rtx 5000 ada"),
    MODEL("RTX-6000-Ada", 49140, "rtx 6000 ada"),
    MODEL("RTX-PRO-6000", 97887, "rtx pro 6000"),
    MODEL("TITAN-RTX", 24576, "titan rtx"),
    MODEL("TITAN-V", 12288, "titan v"),
    MODEL("RTX-2080-Ti", 11264, "rtx 2080 ti"),
    MODEL("RTX-3080", 0, "rtx 3080"),
    MODEL("RTX-3080-Ti", 12288, "rtx 3080 ti"),
    MODEL("RTX-3090", 24576, "rtx 3090"),
    MODEL("RTX-3090-Ti", 24564, "rtx 3090 ti"),
    MODEL("RTX-4080", 16376, "rtx 4080"),
    MODEL("RTX-4080-SUPER", 16376, "rtx 4080 super"),
    MODEL("RTX-4090", 24564, "rtx 4090"),
    MODEL("RTX-4090-D", 24564, "rtx 4090 d"),
    MODEL("RTX-5080", 16303, "rtx 5080"),
    MODEL("RTX-5090", 32607, "rtx 5090"),
    MODEL("RTX-5090-D", 32607, "rtx 5090 d"),

    /* AMD; a device of MI250 and MI250X is one of its two dies */
    MODEL("MI50", 0, "mi50"),
    MODEL("MI60", 32752, "mi60"),
    MODEL("MI100", 32752, "mi100"),
    MODEL("MI210", 65520, "mi210"),
    MODEL("MI250", 65520, "mi250"),
    MODEL("MI250X", 65520, "mi250x|mi250x mi250"),
    MODEL("MI300A", 0, "mi300a"),
    MODEL("MI300X", 196592, "mi300x"),
    MODEL("MI308X", 196592, "mi308x"),
    MODEL("MI325X", 262128, "mi325x|mi325"),
    MODEL("MI350X", 294896, "mi350x"),
    MODEL("MI355X", 294896, "mi355x"),
};
const size_t gq_class_builtin_count = sizeof gq_class_builtins / sizeof gq_class_builtins[0];

/* Source: GKE, "GPUs in GKE": the older names are of the smaller boards. */
const struct gq_class_alias gq_class_aliases[] = {
    {"cloud.google.com/gke-accelerator", "nvidia-tesla-a100", "A100-40GB"},
    {"cloud.google.com/gke-accelerator", "nvidia-tesla-v100", "V100-16GB"},
    {"cloud.google.com/gke-accelerator", "nvidia-tesla-p100", "P100-16GB"},
};
const size_t gq_class_alias_count = sizeof gq_class_aliases / sizeof gq_class_aliases[0];

const char *const gq_class_product_labels[] = {
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "beta.amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "gpu.nvidia.com/class",
    "gpu.nvidia.com/model",
    "aliyun.accelerator/nvidia_name",
};
const size_t gq_class_product_label_count =
    sizeof gq_class_product_labels / sizeof gq_class_product_labels[0];

const char *const gq_class_memory_labels[] = {
    "nvidia.com/gpu.memory",
    "karpenter.k8s.aws/instance-gpu-memory",
};
const size_t gq_class_memory_label_count =
    sizeof gq_class_memory_labels / sizeof gq_class_memory_labels[0];
