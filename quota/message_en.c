#include "quota/message.h"

const char *const gq_messages_en[GQ_MSG_COUNT] = {
    [GQ_MSG_OVER_LIMIT] =
	"{tenant} may hold {limit} and holds {used} ({states}); this pod asks for {asks}: "
	"{excess} too many.",
    [GQ_MSG_OVER_LIMIT_PARENT] =
	"{tenant} may hold {limit} and holds {used} ({states}), with all its tenants, {child} "
	"among them; this pod asks for {asks}: {excess} too many.",
    [GQ_MSG_OVER_MEMORY] =
	"{tenant} may hold {limit} and holds {used} ({states}); this pod asks for {asks}: "
	"{excess} too much.",
    [GQ_MSG_OVER_MEMORY_PARENT] =
	"{tenant} may hold {limit} and holds {used} ({states}), with all its tenants, {child} "
	"among them; this pod asks for {asks}: {excess} too much.",
    [GQ_MSG_HOLDERS] = "Holders in {namespace}: {list}.",
    [GQ_MSG_HOLDERS_MORE] = "Holders in {namespace}: {list}, {more} more in other namespaces.",
    [GQ_MSG_HOLDERS_CUT] =
	"Holders in {namespace}: {list}, {more} more here and in other namespaces.",
    [GQ_MSG_HOLDERS_ELSEWHERE] = "Holders in {namespace}: none, {more} in other namespaces.",
    [GQ_MSG_FIT_FEWER] = "It would fit with {gpus}.",
    [GQ_MSG_FIT_CLASS] = "It would fit on {class} ({free} free): nodeSelector {label}={value}.",
    [GQ_MSG_FIT_FEWER_OR_CLASS] =
	"It would fit with {gpus}, or on {class} ({free} free): nodeSelector {label}={value}.",
    [GQ_MSG_FIT_NARROW] =
	"It may land on {classes}, so it counts in the limits of each; it would fit with a "
	"choice among them: nodeSelector {label}={value}.",
    [GQ_MSG_FIT_NONE] =
	"It would not fit with fewer GPUs or on another model now: wait until GPUs come free, "
	"delete a pod that holds some, or ask who runs the cluster for more quota.",
    [GQ_MSG_FIT_NEVER] =
	"It would not fit with fewer GPUs or on another model either: ask who runs the cluster for "
	"more quota.",
    [GQ_MSG_SURGE] =
	"{owner} starts new pods before it ends old ones, which needs more GPUs than it holds: "
	"in the strategy of its Deployment set maxSurge to 0 and maxUnavailable to 1.",
    [GQ_MSG_WORKLOAD_NEVER] =
	"{tenant} may hold {limit}, and each pod of this template asks for {asks}: {excess} too "
	"many, whatever others hold.",
    [GQ_MSG_WORKLOAD_NEVER_PARENT] =
	"{tenant} may hold {limit}, with all its tenants, {child} among them, and each pod of this "
	"template asks for {asks}: {excess} too many, whatever others hold.",
    [GQ_MSG_WORKLOAD_NEVER_MEMORY] =
	"{tenant} may hold {limit}, and each pod of this template asks for {asks}: {excess} too "
	"much, whatever others hold.",
    [GQ_MSG_WORKLOAD_NEVER_MEMORY_PARENT] =
	"{tenant} may hold {limit}, with all its tenants, {child} among them, and each pod of this "
	"template asks for {asks}: {excess} too much, whatever others hold.",
    [GQ_MSG_WORKLOAD_SHORT] =
	"{tenant} may hold {limit} and has {free} free; this {kind} needs {needs} ({pods}): "
	"{lacks} too few.",
    [GQ_MSG_WORKLOAD_SHORT_PARENT] =
	"{tenant} may hold {limit} and has {free} free, with all its tenants, {child} among them; "
	"this {kind} needs {needs} ({pods}): {lacks} too few.",
    [GQ_MSG_WORKLOAD_SHORT_MEMORY] =
	"{tenant} may hold {limit} and has {free} free; this {kind} needs {needs} ({pods}): "
	"{lacks} too little.",
    [GQ_MSG_WORKLOAD_SHORT_MEMORY_PARENT] =
	"{tenant} may hold {limit} and has {free} free, with all its tenants, {child} among them; "
	"this {kind} needs {needs} ({pods}): {lacks} too little.",
    [GQ_MSG_WORKLOAD_FIT_PODS] =
	"At most {count} of its pods fit now, and the others are refused until GPUs come free: "
	"set {field} to {count}.",
    [GQ_MSG_WORKLOAD_FIT_SURGE] =
	"All its pods fit, but not those that it starts besides while it rolls: set maxSurge to 0 "
	"and maxUnavailable to 1.",
    [GQ_MSG_WORKLOAD_FIT_NODES] =
	"Its pods on some of the nodes are refused until GPUs come free: give its template a "
	"nodeSelector for fewer nodes.",
    [GQ_MSG_WORKLOAD_FIT_NONE] =
	"None of its new pods fits now: they are refused until GPUs come free.",
    [GQ_MSG_WORKLOAD_GROWS] = "Its new pods are refused:",
    [GQ_MSG_UNLISTED] =
	"{tenant} has no quota for GPUs of class {class}, only for {listed}: choose one of "
	"those with a nodeSelector, or ask who runs the cluster for a quota of {class}.",
    [GQ_MSG_UNLISTED_NONE] =
	"{tenant} has no quota for GPUs of class {class}, nor for any other: ask who runs the "
	"cluster for a quota of {class}.",
    [GQ_MSG_CLASS_AMBIGUOUS] =
	"This pod of {tenant} may land on GPUs of several classes ({classes}), and the policy "
	"asks for one: choose it, as with nodeSelector {label}={value}.",
    [GQ_MSG_UNASSIGNED] =
	"Namespace {namespace} belongs to no tenant, and the policy refuses GPU pods there: "
	"use a namespace of your tenant, or ask who runs the cluster to add {namespace} to one.",
    [GQ_MSG_NAMESPACE_AMBIGUOUS] =
	"The labels of namespace {namespace} match two tenants, {first} and {second}, so GPU "
	"pods are refused there: ask who runs the cluster to change its labels or to name "
	"{namespace} in one of the two.",
    [GQ_MSG_POD_LIMIT] =
	"One pod of {tenant} may ask for at most {limit}; this pod asks for {asks}: lower it, "
	"or spread the work over several pods.",
    [GQ_MSG_POD_LIMIT_RULE] =
	"One pod of this cluster may ask for at most {limit}; this pod asks for {asks}: lower "
	"it, spread the work over several pods, or ask who runs the cluster to exempt the "
	"namespace.",
    [GQ_MSG_POD_LIMIT_MAY] = "One pod of {tenant} may ask for at most {limit}; this pod may land "
			     "on them and asks for {asks}: choose another model by a nodeSelector, "
			     "lower it, or spread the work over several pods.",
    [GQ_MSG_POD_LIMIT_RULE_MAY] = "One pod of this cluster may ask for at most {limit}; this pod "
				  "may land on them and asks for {asks}: choose another model by a "
				  "nodeSelector, lower it, or spread the work over several pods.",
    [GQ_MSG_VOLUME_HOST_PATH] = "Volume {volume} (hostPath {path})",
    [GQ_MSG_VOLUME_CLAIM] =
	"Volume {volume} (claim {claim}, PersistentVolume {name}, path {path} of the node)",
    [GQ_MSG_VOLUME_EPHEMERAL] =
	"Volume {volume} (PersistentVolume {name}, path {path} of the node)",
    [GQ_MSG_RULE_MORE] = "{count} more of this kind.",
    [GQ_MSG_RULE_PRIVILEGED] = "{container} is privileged, which opens every device of the node to "
			       "it: remove securityContext.privileged.",
    [GQ_MSG_RULE_HOST_PROCESS] = "{container} is a host process of a Windows node, which may do "
				 "whatever the node may: remove windowsOptions.hostProcess.",
    [GQ_MSG_RULE_HOST_PID] = "{container} adds the capability {capability} in a pod with hostPID: "
			     "true, which is as good as being privileged: remove one of the two.",
    [GQ_MSG_RULE_PROC_MOUNT] =
	"{container} has procMount: Unmasked without a user namespace, which lets it change the "
	"node's kernel settings: remove it, or set hostUsers: false in the pod's spec.",
    [GQ_MSG_RULE_SOCKET] =
	"{where} opens {socket} to the pod, by which it can start containers that no quota counts: "
	"remove the volume, or ask who runs the cluster to exempt the namespace.",
    [GQ_MSG_RULE_DEVICE] = "{where} opens {device} of the node to the pod, and with it devices "
			   "that nobody asked for: remove the volume, or ask who runs the cluster "
			   "to exempt the namespace. GPUs are asked for in resources.limits "
			   "(nvidia.com/gpu: 1), shared memory by an emptyDir with medium: Memory.",
    [GQ_MSG_RULE_CLAIMS] = "The pod has more volumes by claims than can be looked at, volume "
			   "{volume} among them, so it cannot be told where they lead: use fewer.",
    [GQ_MSG_RULE_HOST_PATH] = "{where} is outside of what pods may mount of a node here ({list}): "
			      "mount from there, or use a PersistentVolumeClaim.",
    [GQ_MSG_RULE_HOST_PATH_NONE] = "{where}: pods may mount nothing of a node here; use an "
				   "emptyDir, or a PersistentVolumeClaim.",
    [GQ_MSG_RULE_HOST_PATH_READ_ONLY] = "{where}: {path} may be mounted read-only here; set "
					"readOnly: true at every volumeMount of {volume}.",
    [GQ_MSG_RULE_ENV_DEVICES] =
	"{container} sets {name} to {value} and asks for no nvidia.com/gpu, so it would use GPUs "
	"that are not counted: remove the variable, or ask for GPUs in resources.limits "
	"(nvidia.com/gpu: 1).",
    [GQ_MSG_RULE_ENV_EPHEMERAL] =
	"{container} sets {name} ({value}), and an ephemeral container can ask for no GPU, so it "
	"would use GPUs that are not counted: leave the variable out.",
    [GQ_MSG_RULE_ENV_REFERENCE] =
	"{container} takes {name} from elsewhere ({from}) and asks for no nvidia.com/gpu, so it "
	"cannot be told which GPUs it would use: remove the variable, or ask for GPUs in "
	"resources.limits (nvidia.com/gpu: 1).",
    [GQ_MSG_RULE_ENV_CAPABILITIES] =
	"{container} sets {name} under runtimeClassName {runtime} and asks for no nvidia.com/gpu: "
	"remove the variable, or ask for GPUs in resources.limits (nvidia.com/gpu: 1).",
    [GQ_MSG_RULE_ENV_FROM] =
	"{container} takes variables from {kind} {source} with the prefix {prefix}, "
	"which can make up {name}: choose "
	"another prefix, or write the variables one by one.",
    [GQ_MSG_RULE_SCHEDULER] =
	"The pod has schedulerName: {scheduler}, which gives out GPUs, and asks for none: remove "
	"schedulerName, or ask for GPUs in resources.limits.",
    [GQ_MSG_RULE_ANNOTATION] =
	"The pod has the annotation {name}, by which GPUs are given out, and asks for none: remove "
	"the annotation, or ask for GPUs in resources.limits.",
    [GQ_MSG_RULE_NODE_NAME] = "The pod puts itself onto {node}, a node with GPUs, by spec.nodeName "
			      "and asks for none that it has: remove spec.nodeName, or ask for "
			      "GPUs in resources.limits (nvidia.com/gpu: 1).",
    [GQ_MSG_RULE_NODE_NAME_SHARE] =
	"The pod puts itself onto {node} by spec.nodeName, past the scheduler that gives out "
	"shares of GPUs, and asks for a share: remove spec.nodeName, or ask for whole GPUs "
	"(nvidia.com/gpu without memory or cores).",
    [GQ_MSG_RULE_BYPASS_LABEL] = "The label {name}: {value} has the pod passed over by a GPU "
				 "sharing system that guards this cluster: remove the label.",
    [GQ_MSG_RULE_BYPASS_ENV] = "{container} sets {name} ({value}), which switches off what holds "
			       "it to its share of a GPU: remove the variable.",
    [GQ_MSG_RULE_BYPASS_SCHEDULER] =
	"The pod asks for GPUs with schedulerName: {scheduler}, which does not hold it to its "
	"share; pods with GPUs use one that does ({list}): set schedulerName so.",
    [GQ_MSG_RULE_GPU_MEMORY] = "{container} asks for {name} and does not say how much memory of "
			       "it: add {list} to its resources.limits.",
    [GQ_MSG_RULE_USER_NAMESPACE] =
	"The pod has no user namespace of its own: set {field}: false in its spec.",
    [GQ_MSG_RULE_USER_NAMESPACE_HOST] =
	"Pods here have a user namespace of their own, which cannot work with {field}: true: "
	"remove {field} and set hostUsers: false in the pod's spec, or ask who runs the cluster to "
	"exempt the namespace.",
    [GQ_MSG_RULE_USER_NAMESPACE_WINDOWS] =
	"Pods here have user namespaces of their own, which Windows does not have ({field}: "
	"windows): ask who runs the cluster to exempt the namespace.",
    [GQ_MSG_RULE_PROBE] =
	"{container} holds a GPU and has neither readinessProbe nor startupProbe, so traffic "
	"reaches it while its model still loads: add one.",
    [GQ_MSG_RULE_LEFT_OUT] = "{count} more findings are left out here.",
    [GQ_MSG_RULE_UNREADABLE] =
	"What the pod refers to (a claim, its PersistentVolume or a ConfigMap) could not be read "
	"for now, so it is not known whether it may be created: try again in a few seconds.",
    [GQ_MSG_RULE_ENV_MAPS] = "{container} takes its environment from more ConfigMaps than can be "
			     "looked at: use fewer, or write the variables one by one.",
    [GQ_MSG_RULE_ENV_BEYOND] =
	"{container} asks for GPUs and sets {name} ({value}), which takes the place of what the "
	"device plugin gives it, so it may use others: remove the variable.",
    [GQ_MSG_RULE_PLACED] = "The pod has the annotation {name}, by which HAMi notes what it has "
			   "given out, and which nobody else writes: remove the annotation.",
    [GQ_MSG_UNSUPPORTED_RESOURCE] =
	"{container} asks for {name} ({detail}), which gpuquota cannot count in this version, "
	"so the pod is refused: ask for nvidia.com/gpu or amd.com/gpu in its place.",
    [GQ_MSG_UNSUPPORTED_ANNOTATION] =
	"The annotation {name} asks for GPUs ({detail}), which gpuquota cannot count in this "
	"version, so the pod is refused: remove it and ask for nvidia.com/gpu or amd.com/gpu "
	"in resources.limits.",
    [GQ_MSG_BAD_QUANTITY] =
	"{container} asks for {name}: {value}, which cannot be counted ({detail}), so the pod "
	"is refused: write a whole number of 0 or more.",
    [GQ_MSG_TOO_BIG] =
	"The pod's node selector, node affinity, tolerations and GPU requests are longer than "
	"gpuquota keeps of one pod (16 KiB), so it is refused: shorten them.",
    [GQ_MSG_OBJECT_TOO_BIG] = "The object has more in it than gpuquota looks at ({detail}), so it "
			      "is refused: make it smaller.",
    [GQ_MSG_CLAIM] =
	"The resource claim {claim} asks for a device of class {device_class}, which may be a "
	"GPU, and gpuquota cannot count claims in this version, so the pod is refused: ask for "
	"nvidia.com/gpu or amd.com/gpu in resources.limits; if the class is of no GPU, ask who "
	"runs the cluster to give its DeviceClass a selector on device.driver.",
    [GQ_MSG_CLAIM_UNREADABLE] =
	"The resource claim {claim} could not be read ({detail}), so it is not known whether "
	"it asks for a GPU and the pod is refused: create the claim or its template first, "
	"then the pod.",
    [GQ_MSG_CLASS_UNREADABLE] =
	"The resource claim {claim} asks for a device of class {device_class}, and the "
	"DeviceClass {device_class} does not exist or may not be read, so it cannot be told "
	"whether it is a GPU's and the pod is refused: name a DeviceClass that exists (kubectl "
	"get deviceclasses), or ask who runs the cluster to let gpuquota read it.",
    [GQ_MSG_OWNER_ATTEMPTS] =
	"{count} earlier pods of {owner} were allowed and never appeared, so something after "
	"gpuquota refuses them (a ResourceQuota, another webhook?): look at the events of "
	"{owner}. Their GPUs are given back in at most {seconds} s; then it may try again.",
    [GQ_MSG_REQUEST_UID_REUSED] =
	"This request carries the UID of an earlier request for another pod, so it is refused: "
	"send it again as a new request.",
    [GQ_MSG_BINDING_NO_ROOM] =
	"The pod cannot go to node {node}, whose GPUs are of class {class}: {tenant} may hold "
	"{limit} and holds {used}, and the pod asks for {asks}. It fits there when GPUs come "
	"free; a nodeSelector for another model avoids the wait.",
    [GQ_MSG_BINDING_UNLISTED] =
	"The pod cannot go to node {node}, whose GPUs are of class {class}: {tenant} has no "
	"quota for it. Give the pod a nodeSelector for a model that {tenant} has quota for, or "
	"ask who runs the cluster for a quota of {class}.",
    [GQ_MSG_EARLIER_BINDING] =
	"An earlier binding of the pod, to GPUs of another class, may still be on its way, so "
	"it cannot go to node {node} now. This ends by itself within about a minute.",
    [GQ_MSG_POLICY_INVALID] =
	"The policy is refused, and the one before it stays in force. Correct this and apply "
	"it again:\n{problems}",
    [GQ_MSG_POLICY_NO_KEY] =
	"The ConfigMap has no key {key} under data, so the policy is refused, and the one "
	"before it stays in force: put the whole policy under that key.",
    [GQ_MSG_NOT_SYNCED] =
	"gpuquota has not read the cluster's nodes, pods and policy to the end yet and decides "
	"nothing before: try again in a few seconds.",
    [GQ_MSG_NOT_LEADER] =
	"This replica of gpuquota does not lead and decides nothing: try again, the Service "
	"leads to the one that does.",
    [GQ_MSG_JOURNAL] =
	"gpuquota cannot note reservations safely at the moment, so it makes none: try again "
	"in a minute. Whoever runs the cluster finds why in its log and in the ConfigMap "
	"gpuquota-status.",
    [GQ_MSG_JOURNAL_FULL] =
	"Too many allowed pods of the tenant have not appeared yet, so no further one is "
	"allowed now: try again in a few seconds.",
    [GQ_MSG_WATCH_LAGS] =
	"What gpuquota sees of the cluster's pods is more than five seconds old, so it allows "
	"no further one until it has caught up: try again in a few seconds.",
    [GQ_MSG_OVERLOADED] =
	"gpuquota has more requests waiting than it takes, so this one was not decided and "
	"nothing is reserved: try again in a few seconds.",
    [GQ_MSG_NO_MEMORY] =
	"gpuquota is out of memory at the moment, so this was not decided and nothing is "
	"reserved: try again in a few seconds.",
    [GQ_MSG_TOO_LATE] =
	"The time that the API server gave for this answer was over before a decision, and "
	"nothing is reserved: try again.",
    [GQ_MSG_BAD_REVIEW] =
	"The request is no AdmissionReview of admission.k8s.io/v1 that can be decided: "
	"{detail}. Look at what the webhook's registration sends here.",
    [GQ_MSG_WARNINGS_CUT] =
	"Further warnings are left out here: Kubernetes passes on at most 4096 characters of them.",
    [GQ_MSG_WARNING_PREFIX] = "Would be refused in mode enforce: ",
    [GQ_MSG_STATES] = "{bound} bound, {pending} pending, {reserved} reserved",
    [GQ_MSG_STATES_TERMINATING] =
	"{bound} bound, {pending} pending, {reserved} reserved, {terminating} terminating",
    [GQ_MSG_HOLDER] = "{holder} ({holds})",
    [GQ_MSG_LIST_SEPARATOR] = ", ",
    [GQ_MSG_OR_SEPARATOR] = " or ",
    [GQ_MSG_PATH_READ_ONLY] = "{path} (read-only)",
    [GQ_MSG_ENV_FROM_MAP] = "{container} (envFrom of ConfigMap {source})",
    [GQ_MSG_OWNER_POD] = "pod {name}",
    [GQ_MSG_WORKLOAD] = "{workload}: ",
    [GQ_MSG_WORKLOAD_PODS_ONE] = "{count} pod of {each}",
    [GQ_MSG_WORKLOAD_PODS_MANY] = "{count} pods of {each}",
    [GQ_MSG_WORKLOAD_MORE_ONE] = "{count} more pod of {each}",
    [GQ_MSG_WORKLOAD_MORE_MANY] = "{count} more pods of {each}",
    [GQ_MSG_WORKLOAD_SURGE] = "{pods}, and {surge} more while it rolls",
    [GQ_MSG_WORKLOAD_EACH] = "{each}",
    [GQ_MSG_WORKLOAD_INSTEAD] = "{pods}, in place of {old}",
    [GQ_MSG_CLASS_UNKNOWN] = "unknown",
    [GQ_MSG_UNLIMITED] = "unlimited",
    [GQ_MSG_GPUS_ONE] = "{count} GPU",
    [GQ_MSG_GPUS_MANY] = "{count} GPUs",
    [GQ_MSG_GPUS_CLASS_ONE] = "{count} {class} GPU",
    [GQ_MSG_GPUS_CLASS_MANY] = "{count} {class} GPUs",
    [GQ_MSG_GPUS_ANY_ONE] = "{count} GPU of any model",
    [GQ_MSG_GPUS_ANY_MANY] = "{count} GPUs of any model",
    [GQ_MSG_GPUS_OTHER_ONE] = "{count} GPU of unlisted models",
    [GQ_MSG_GPUS_OTHER_MANY] = "{count} GPUs of unlisted models",
    [GQ_MSG_MEMORY] = "{amount} of memory",
    [GQ_MSG_MEMORY_CLASS] = "{amount} of {class} memory",
    [GQ_MSG_MEMORY_ANY] = "{amount} of GPU memory",
    [GQ_MSG_MEMORY_OTHER] = "{amount} of memory on unlisted models",
    [GQ_MSG_KIND_NVIDIA_SLICES] = "the NVIDIA device plugin's renamed time slices",
    [GQ_MSG_KIND_NVIDIA_MEMORY] = "an NVIDIA memory resource that HAMi does not offer",
    [GQ_MSG_KIND_NVIDIA] = "an NVIDIA resource that is not known",
    [GQ_MSG_KIND_AMD] = "an AMD resource that is not known",
    [GQ_MSG_KIND_AMD_HAMI] = "HAMi's AMD vGPU",
    [GQ_MSG_KIND_KAI] = "KAI Scheduler's GPU sharing",
    [GQ_MSG_KIND_PLUGIN] = "a GPU device plugin that is not known",
    [GQ_MSG_QUANTITY_LARGE] = "it is larger than can be counted",
    [GQ_MSG_QUANTITY_NEGATIVE] = "it is negative",
    [GQ_MSG_QUANTITY_NONE] = "it is not a Kubernetes quantity",
    [GQ_MSG_QUANTITY_FRACTION] = "it must be a whole number",
    [GQ_MSG_CLAIM_CLASSES] = "it names too many device classes",
    [GQ_MSG_CLAIM_NAMES_NONE] = "it names no claim or template",
    [GQ_MSG_CLAIM_MANY] = "the pod has too many claims",
    [GQ_MSG_CLAIM_ABSENT] = "the claim it names does not exist yet: create it first",
    [GQ_MSG_CLAIM_FORBIDDEN] = "gpuquota may not read it",
    [GQ_MSG_CLAIM_FORM] = "{field} is of a form that this version does not know",
};
