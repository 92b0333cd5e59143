#include "quota/message.h"

#include <string.h>

#include "base/utf8.h"
#include "quota/amount.h"
#include "quota/quantity.h"

static const char *const english[GQ_MSG_COUNT] = {
    [GQ_MSG_OVER_LIMIT] =
	"{tenant} may hold {limit} and holds {used} ({states}); this pod asks for "
	"{asks}: {excess} too many.",
    [GQ_MSG_OVER_LIMIT_PARENT] = "{tenant} may hold {limit} and holds {used} ({states}), with all "
				 "its tenants, {child} among "
				 "them; this pod asks for {asks}: {excess} too many.",
    [GQ_MSG_OVER_MEMORY] = "{tenant} may hold {limit} and holds {used} ({states}); this pod asks "
			   "for {asks}: {excess} too much.",
    [GQ_MSG_OVER_MEMORY_PARENT] = "{tenant} may hold {limit} and holds {used} ({states}), with all "
				  "its tenants, {child} among "
				  "them; this pod asks for {asks}: {excess} too much.",
    [GQ_MSG_STATES] = "{bound} bound, {pending} pending, {reserved} reserved",
    [GQ_MSG_STATES_TERMINATING] = "{bound} bound, {pending} pending, {reserved} reserved, "
				  "{terminating} terminating",
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
	"It may land on {classes}, so it counts in the limits of each; it would fit with a choice "
	"among them: nodeSelector {label}={value}.",
    [GQ_MSG_FIT_NONE] =
	"It would not fit with fewer GPUs or on another model now: wait until GPUs come free, "
	"delete a pod that holds some, or ask who runs the cluster for more quota.",
    [GQ_MSG_SURGE] =
	"{owner} starts new pods before it ends old ones, which needs more GPUs than it holds: in "
	"the strategy of its Deployment set maxSurge to 0 and maxUnavailable to 1.",
    [GQ_MSG_WARNING_PREFIX] = "Would be refused in mode enforce: ",
    [GQ_MSG_UNLISTED] =
	"{tenant} has no quota for GPUs of class {class}, only for {listed}: choose one of those "
	"with a nodeSelector, or ask who runs the cluster for a quota of {class}.",
    [GQ_MSG_UNLISTED_NONE] =
	"{tenant} has no quota for GPUs of class {class}, nor for any other: ask who runs the "
	"cluster for a quota of {class}.",
    [GQ_MSG_UNASSIGNED] =
	"Namespace {namespace} belongs to no tenant, and the policy refuses GPU pods there: use a "
	"namespace of your tenant, or ask who runs the cluster to add {namespace} to one.",
    [GQ_MSG_NAMESPACE_AMBIGUOUS] =
	"The labels of namespace {namespace} match two tenants, {first} and {second}, so GPU pods "
	"are refused there: ask who runs the cluster to change its labels or to name {namespace} "
	"in one of the two.",
    [GQ_MSG_CLASS_AMBIGUOUS] =
	"This pod of {tenant} may land on GPUs of several classes ({classes}), and the policy asks "
	"for one: choose it, as with nodeSelector {label}={value}.",
    [GQ_MSG_POD_LIMIT] = "One pod of {tenant} may ask for at most {limit}; this pod asks for "
			 "{asks}: lower it, or spread the work over several pods.",
    [GQ_MSG_POD_LIMIT_RULE] =
	"One pod of this cluster may ask for at most {limit}; this pod asks for {asks}: lower it, "
	"spread the work over several pods, or ask who runs the cluster to exempt the namespace.",
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
    [GQ_MSG_RULE_SOCKET] = "{where} opens {socket} to the pod, the socket of a container runtime, "
			   "which starts containers that no quota counts: remove the volume, or "
			   "ask who runs the cluster to exempt the namespace.",
    [GQ_MSG_RULE_DEVICE] =
	"{where} opens {device} of the node to the pod, and with it devices that nobody asked for: "
	"remove the volume and ask for GPUs in resources.limits (nvidia.com/gpu: 1).",
    [GQ_MSG_RULE_CLAIMS] = "The pod has more volumes by claims than can be looked at, volume "
			   "{volume} among them, so it cannot be told where they lead: use fewer.",
    [GQ_MSG_RULE_HOST_PATH] = "{where} is outside of what pods may mount of a node here ({list}): "
			      "use one of these, or a PersistentVolumeClaim.",
    [GQ_MSG_RULE_HOST_PATH_NONE] = "{where}: pods may mount nothing of a node here; use an "
				   "emptyDir, or a PersistentVolumeClaim.",
    [GQ_MSG_RULE_HOST_PATH_READ_ONLY] = "{where}: {path} may be mounted read-only here; set "
					"readOnly: true at every volumeMount of {volume}.",
    [GQ_MSG_RULE_ENV_DEVICES] =
	"{container} sets {name} to {value} and asks for no GPU, so it would use GPUs that are not "
	"counted: remove the variable, or ask for GPUs in resources.limits (nvidia.com/gpu: 1).",
    [GQ_MSG_RULE_ENV_REFERENCE] =
	"{container} takes {name} from elsewhere ({from}) and asks for no GPU, so it cannot be "
	"told which GPUs it would use: remove the variable, or ask for GPUs in resources.limits "
	"(nvidia.com/gpu: 1).",
    [GQ_MSG_RULE_ENV_CAPABILITIES] =
	"{container} sets {name} under runtimeClassName {runtime} and asks for no GPU: remove the "
	"variable, or ask for GPUs in resources.limits (nvidia.com/gpu: 1).",
    [GQ_MSG_RULE_ENV_FROM] = "{container} takes variables from {source} with the prefix {prefix}, "
			     "which can make up NVIDIA_VISIBLE_DEVICES or one like it: choose "
			     "another prefix, or write the variables one by one.",
    [GQ_MSG_RULE_SCHEDULER] =
	"The pod has schedulerName: {scheduler}, which gives out GPUs, and asks for none: remove "
	"schedulerName, or ask for GPUs in resources.limits.",
    [GQ_MSG_RULE_ANNOTATION] =
	"The pod has the annotation {name}, by which GPUs are given out, and asks for none: remove "
	"the annotation, or ask for GPUs in resources.limits.",
    [GQ_MSG_RULE_NODE_NAME] =
	"The pod puts itself onto {node}, a node with GPUs, by spec.nodeName and asks for none: "
	"remove spec.nodeName, or ask for GPUs in resources.limits.",
    [GQ_MSG_RULE_BYPASS_LABEL] = "The label {name}: {value} has the pod passed over by a GPU "
				 "sharing system that guards this cluster: remove the label.",
    [GQ_MSG_RULE_BYPASS_ENV] = "{container} sets {name} ({value}), which switches off what holds "
			       "it to its share of a GPU: remove the variable.",
    [GQ_MSG_RULE_BYPASS_SCHEDULER] =
	"The pod asks for GPUs with schedulerName: {scheduler}; in this cluster pods with GPUs use "
	"{list}, which holds them to their share: set schedulerName to that.",
    [GQ_MSG_RULE_GPU_MEMORY] = "{container} asks for {name} and does not say how much memory of "
			       "it: add {list} to its resources.limits.",
    [GQ_MSG_RULE_USER_NAMESPACE] =
	"The pod shares its users with the node: set {field}: false in its spec.",
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
    [GQ_MSG_UNSUPPORTED_RESOURCE] =
	"{container} asks for {name} ({detail}), which gpuquota cannot count in this version, so "
	"the pod is refused: ask for nvidia.com/gpu or amd.com/gpu in its place.",
    [GQ_MSG_UNSUPPORTED_ANNOTATION] =
	"The annotation {name} asks for GPUs ({detail}), which gpuquota cannot count in this "
	"version, so the pod is refused: remove it and ask for nvidia.com/gpu or amd.com/gpu in "
	"resources.limits.",
    [GQ_MSG_BAD_QUANTITY] =
	"{container} asks for {name}: {value}, which cannot be counted ({detail}), so the pod is "
	"refused: write a whole number of 0 or more.",
    [GQ_MSG_EARLIER_BINDING] =
	"An earlier binding of the pod, to GPUs of another class, may still be on its way, so it "
	"cannot go to node {node} now. This ends by itself within about a minute.",
    [GQ_MSG_TOO_BIG] =
	"The pod's node selector, node affinity, tolerations and GPU requests are longer than "
	"gpuquota keeps of one pod (16 KiB), so it is refused: shorten them.",
    [GQ_MSG_CLAIM] =
	"The resource claim {claim} asks for a device of class {device_class}, which may be a GPU, "
	"and gpuquota cannot count claims in this version, so the pod is refused: ask for "
	"nvidia.com/gpu or amd.com/gpu in resources.limits; if the class is of no GPU, ask who "
	"runs the cluster to give its DeviceClass a selector on device.driver.",
    [GQ_MSG_CLAIM_UNREADABLE] =
	"The resource claim {claim} could not be read ({detail}), so it is not known whether it "
	"asks for a GPU and the pod is refused: create the claim or its template first, then the "
	"pod.",
    [GQ_MSG_CLASS_UNREADABLE] =
	"The resource claim {claim} asks for a device of class {device_class}, and the DeviceClass "
	"{device_class} does not exist or may not be read, so it cannot be told whether it is a "
	"GPU's and the pod is refused: name a DeviceClass that exists (kubectl get deviceclasses), "
	"or ask who runs the cluster to let gpuquota read it.",
    [GQ_MSG_OWNER_ATTEMPTS] =
	"{count} earlier pods of {owner} were allowed and never appeared, so something after "
	"gpuquota refuses them (a ResourceQuota, another webhook?): look at the events of {owner}. "
	"Their GPUs are given back in at most {seconds} s; then it may try again.",
    [GQ_MSG_REQUEST_UID_REUSED] =
	"This request carries the UID of an earlier request for another pod, so it is refused: "
	"send it again as a new request.",
    [GQ_MSG_BINDING_NO_ROOM] =
	"The pod cannot go to node {node}, whose GPUs are of class {class}: {tenant} may hold "
	"{limit} and holds {used}, and the pod asks for {asks}. It fits there when GPUs come free; "
	"a nodeSelector for another model avoids the wait.",
    [GQ_MSG_BINDING_UNLISTED] =
	"The pod cannot go to node {node}, whose GPUs are of class {class}: {tenant} has no quota "
	"for it. Give the pod a nodeSelector for a model that {tenant} has quota for, or ask who "
	"runs the cluster for a quota of {class}.",
    [GQ_MSG_POLICY_INVALID] =
	"The policy is refused, and the one before it stays in force. Correct this and apply it "
	"again:\n{problems}",
    [GQ_MSG_POLICY_NO_KEY] = "The ConfigMap has no key {key} under data, so the policy is refused, "
			     "and the one before it "
			     "stays in force: put the whole policy under that key.",
    [GQ_MSG_NOT_SYNCED] =
	"gpuquota has not read the cluster's nodes, pods and policy to the end yet and decides "
	"nothing before: try again in a few seconds.",
    [GQ_MSG_NOT_LEADER] =
	"This replica of gpuquota does not lead and decides nothing: try again, the Service leads "
	"to the one that does.",
    [GQ_MSG_JOURNAL] =
	"gpuquota cannot note reservations safely at the moment, so it makes none: try again in a "
	"minute. Whoever runs the cluster finds why in its log and in the ConfigMap "
	"gpuquota-status.",
    [GQ_MSG_JOURNAL_FULL] =
	"Too many allowed pods of the tenant have not appeared yet, so no further one is allowed "
	"now: try again in a few seconds.",
    [GQ_MSG_WATCH_LAGS] =
	"What gpuquota sees of the cluster's pods is more than five seconds old, so it allows no "
	"further one until it has caught up: try again in a few seconds.",
    [GQ_MSG_OVERLOADED] = "gpuquota has more requests waiting than it takes, so this one was not "
			  "decided and nothing is reserved: try again in a few seconds.",
    [GQ_MSG_TOO_LATE] = "The time that the API server gave for this answer was over before a "
			"decision, and nothing is reserved: try again.",
    [GQ_MSG_BAD_REVIEW] =
	"The request is no AdmissionReview of admission.k8s.io/v1 that can be decided: {detail}. "
	"Look at what the webhook's registration sends here.",
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
};

static const char *const *const templates[GQ_LOCALE_COUNT] = {[GQ_LOCALE_EN] = english};

static const struct {
	const char *name;
	const char *placeholders;
} messages[GQ_MSG_COUNT] = {
#define GQ_MESSAGE_ENTRY(name, placeholders) [GQ_MSG_##name] = {#name, placeholders},
    GQ_MESSAGES(GQ_MESSAGE_ENTRY)
#undef GQ_MESSAGE_ENTRY
};

static bool known(enum gq_locale locale, enum gq_message_id id)
{
	return (unsigned)locale < GQ_LOCALE_COUNT && (unsigned)id < GQ_MSG_COUNT;
}

const char *gq_message_template(enum gq_locale locale, enum gq_message_id id)
{
	return known(locale, id) ? templates[locale][id] : "?";
}

const char *gq_message_name(enum gq_message_id id)
{
	return known(GQ_LOCALE_EN, id) ? messages[id].name : "?";
}

const char *gq_message_placeholders(enum gq_message_id id)
{
	return known(GQ_LOCALE_EN, id) ? messages[id].placeholders : "";
}

static bool is_name(const char *name, const char *text, size_t len)
{
	return strlen(name) == len && memcmp(name, text, len) == 0;
}

static size_t value_max(const char *name, size_t len)
{
	static const char *const lists[] = {"list", "where", "listed", "classes", "detail"};

	if (is_name("problems", name, len))
		return (size_t)16 << 10;
	for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
		if (is_name(lists[i], name, len))
			return 1024;
	return 253;
}

static void put_value(struct gq_buf *out, const char *value, size_t max, bool lines)
{
	size_t len = strnlen(value, max + 1), i = 0;

	while (i < len) {
		size_t width = gq_utf8_width(value + i, len - i);
		unsigned char c = (unsigned char)value[i];
		if (i + (width ? width : 1) > max)
			return;
		if (!width)
			gq_buf_puts(out, "\xEF\xBF\xBD");
		else if ((c < 0x20 && !(lines && c == '\n')) || c == 0x7f)
			gq_buf_putc(out, ' ');
		else
			gq_buf_append(out, value + i, width);
		i += width ? width : 1;
	}
}

static const char *find_arg(const struct gq_message_arg *args, size_t n_args, const char *name,
			    size_t len)
{
	for (size_t i = 0; i < n_args; i++)
		if (is_name(args[i].name, name, len))
			return args[i].value;
	return NULL;
}

int gq_message_print(struct gq_buf *out, enum gq_locale locale, enum gq_message_id id,
		     const struct gq_message_arg *args, size_t n_args)
{
	const char *p = gq_message_template(locale, id);

	for (;;) {
		const char *open = strchr(p, '{');
		const char *close = open ? strchr(open, '}') : NULL;
		if (!close)
			return gq_buf_puts(out, p);
		const char *name = open + 1;
		size_t len = (size_t)(close - name);
		const char *value = find_arg(args, n_args, name, len);
		gq_buf_append(out, p, (size_t)(open - p));
		put_value(out, value ? value : "?", value_max(name, len),
			  is_name("problems", name, len));
		p = close + 1;
	}
}

/* The phrases come in blocks: without a class, with one, for "*" and for "other". */
enum { BLOCK_NONE, BLOCK_CLASS, BLOCK_ANY, BLOCK_OTHER };

static int block_of(const char *class_name)
{
	if (!class_name)
		return BLOCK_NONE;
	if (strcmp(class_name, "*") == 0)
		return BLOCK_ANY;
	return strcmp(class_name, "other") == 0 ? BLOCK_OTHER : BLOCK_CLASS;
}

static int print_amount(struct gq_buf *out, enum gq_locale locale, enum gq_message_id id,
			const char *name, const struct gq_buf *amount, const char *class_name)
{
	const struct gq_message_arg args[] = {
	    {name, amount->data ? amount->data : "?"},
	    {"class", class_name ? class_name : ""},
	};

	if (amount->code && !out->code)
		out->code = amount->code;
	return gq_message_print(out, locale, id, args, 2);
}

int gq_message_gpus(struct gq_buf *out, enum gq_locale locale, int64_t shares,
		    const char *class_name)
{
	static const enum gq_message_id ids[][2] = {
	    [BLOCK_NONE] = {GQ_MSG_GPUS_ONE, GQ_MSG_GPUS_MANY},
	    [BLOCK_CLASS] = {GQ_MSG_GPUS_CLASS_ONE, GQ_MSG_GPUS_CLASS_MANY},
	    [BLOCK_ANY] = {GQ_MSG_GPUS_ANY_ONE, GQ_MSG_GPUS_ANY_MANY},
	    [BLOCK_OTHER] = {GQ_MSG_GPUS_OTHER_ONE, GQ_MSG_GPUS_OTHER_MANY},
	};
	struct gq_buf GQ_BUF_CLEANUP count = GQ_BUF_INIT(64);
	bool many = shares == 0 || shares > GQ_SHARES_PER_GPU;

	gq_shares_print(&count, shares);
	return print_amount(out, locale, ids[block_of(class_name)][many], "count", &count,
			    class_name);
}

int gq_message_memory(struct gq_buf *out, enum gq_locale locale, int64_t mib,
		      const char *class_name)
{
	static const enum gq_message_id ids[] = {
	    [BLOCK_NONE] = GQ_MSG_MEMORY,
	    [BLOCK_CLASS] = GQ_MSG_MEMORY_CLASS,
	    [BLOCK_ANY] = GQ_MSG_MEMORY_ANY,
	    [BLOCK_OTHER] = GQ_MSG_MEMORY_OTHER,
	};
	struct gq_buf GQ_BUF_CLEANUP amount = GQ_BUF_INIT(64);

	gq_mib_print(&amount, mib);
	return print_amount(out, locale, ids[block_of(class_name)], "amount", &amount, class_name);
}
