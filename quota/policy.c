#include "quota/policy.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "quota/policy_impl.h"

/* Both well above what the largest policy takes. */
#define POOL_BYTES ((size_t)64 << 20)
#define SCRATCH_BYTES ((size_t)128 << 20)

struct counted_policy {
	struct gq_policy policy; /* first, so that one pointer is the other */
	atomic_uint refs;
	struct gq_class_table *classes;
	struct gq_pool pool;
};

static void policy_free(struct counted_policy *counted)
{
	if (!counted)
		return;
	gq_class_table_free(counted->classes);
	gq_pool_done(&counted->pool);
	free(counted);
}

GQ_DEFINE_CLEANUP(cleanup_counted, struct counted_policy, policy_free);

/* The count is the one part of a policy that changes. */
static struct counted_policy *counted_of(const struct gq_policy *policy)
{
	return (struct counted_policy *)(uintptr_t)policy;
}

struct gq_policy *gq_policy_ref(const struct gq_policy *policy)
{
	if (!policy)
		return NULL;
	atomic_fetch_add_explicit(&counted_of(policy)->refs, 1, memory_order_relaxed);
	return &counted_of(policy)->policy;
}

void gq_policy_unref(const struct gq_policy *policy)
{
	if (policy &&
	    atomic_fetch_sub_explicit(&counted_of(policy)->refs, 1, memory_order_acq_rel) == 1)
		policy_free(counted_of(policy));
}

static bool holds(const struct gq_requirement *req, const struct gq_label *labels, size_t n_labels)
{
	const char *value = gq_label_get(labels, n_labels, req->key);
	bool listed = false;

	for (size_t i = 0; value && i < req->n_values && !listed; i++)
		listed = strcmp(req->values[i], value) == 0;
	switch (req->op) {
	case GQ_OP_IN:
		return listed;
	case GQ_OP_NOT_IN:
		return !listed;
	case GQ_OP_EXISTS:
		return value != NULL;
	case GQ_OP_DOES_NOT_EXIST:
		return value == NULL;
	default:
		return false; /* numbers are compared for nodes only */
	}
}

bool gq_label_selector_matches(const struct gq_label_selector *selector,
			       const struct gq_label *labels, size_t n_labels)
{
	for (size_t i = 0; i < selector->n_requirements; i++)
		if (!holds(&selector->requirements[i], labels, n_labels))
			return false;
	return true;
}

static void check_exact(struct gq_policy_reader *r, const struct gq_yaml_node *node,
			const char *what, const char *wanted)
{
	struct gq_hint hint;

	if (!node || strcmp(node->text, wanted) == 0)
		return;
	gq_hint(&hint, "write %s: %s", what, wanted);
	GQ_REPORT(r, node, hint.text, "%s %s is not known to this version", what, GQ_QUOTE(node));
}

static void read_exempt(struct gq_policy_reader *r, const struct gq_yaml_node *node)
{
	static const char *const always[] = {"kube-system", "gpuquota-system"};
	static const struct gq_policy_field fields[] = {
	    {"namespaces", GQ_POLICY_LIST, false, NULL},
	};
	const struct gq_yaml_node *value[1] = {NULL};
	struct gq_policy *policy = r->policy;

	if (node)
		gq_policy_fields(r, node, "exempt", fields, 1, value);
	if (value[0]) {
		policy->exempt_namespaces =
		    gq_policy_namespaces(r, value[0], &policy->n_exempt_namespaces);
		return;
	}
	r->exempt_by_default = true;
	policy->exempt_namespaces = always;
	policy->n_exempt_namespaces = sizeof always / sizeof always[0];
}

static void read_policy(struct gq_policy_reader *r, const struct gq_yaml_node *root)
{
	enum {
		API_VERSION,
		KIND,
		MODE,
		LOCALE,
		UNASSIGNED,
		AMBIGUOUS,
		HOLDERS,
		EXEMPT,
		CLASSES,
		TENANTS,
		GRANTS,
		RULES,
		N
	};
	static const struct gq_policy_field fields[N] = {
	    [API_VERSION] = {"apiVersion", GQ_POLICY_TEXT, true,
			     "write apiVersion: config.gpuquota.io/v1alpha1"},
	    [KIND] = {"kind", GQ_POLICY_TEXT, true, "write kind: QuotaPolicy"},
	    [MODE] = {"mode", GQ_POLICY_SCALAR, false, NULL},
	    [LOCALE] = {"locale", GQ_POLICY_SCALAR, false, NULL},
	    [UNASSIGNED] = {"unassigned", GQ_POLICY_SCALAR, false, NULL},
	    [AMBIGUOUS] = {"ambiguous", GQ_POLICY_SCALAR, false, NULL},
	    [HOLDERS] = {"holders", GQ_POLICY_SCALAR, false, NULL},
	    [EXEMPT] = {"exempt", GQ_POLICY_MAP, false, NULL},
	    [CLASSES] = {"classes", GQ_POLICY_MAP, false, NULL},
	    [TENANTS] = {"tenants", GQ_POLICY_LIST, false, NULL},
	    [GRANTS] = {"grants", GQ_POLICY_LIST, false, NULL},
	    [RULES] = {"rules", GQ_POLICY_MAP, false, NULL},
	};
	static const char *const unassigned[] = {"deny", "allow", NULL};
	static const char *const ambiguous[] = {"charge-all", "deny", NULL};
	static const char *const holders[] = {"namespace", "tenant", "none", NULL};
	const struct gq_yaml_node *value[N];
	struct gq_policy *policy = r->policy;

	gq_policy_fields(r, root, "policy", fields, N, value);
	check_exact(r, value[API_VERSION], "apiVersion", "config.gpuquota.io/v1alpha1");
	check_exact(r, value[KIND], "kind", "QuotaPolicy");
	int mode = gq_policy_word(r, value[MODE], "mode", gq_policy_modes);
	policy->mode = mode < 0 ? GQ_MODE_ENFORCE : (enum gq_mode)mode;
	policy->locale = gq_policy_locale(r, value[LOCALE], GQ_LOCALE_EN);
	policy->unassigned_allow =
	    gq_policy_word(r, value[UNASSIGNED], "unassigned", unassigned) == 1;
	policy->ambiguous_deny = gq_policy_word(r, value[AMBIGUOUS], "ambiguous", ambiguous) == 1;
	int whose = gq_policy_word(r, value[HOLDERS], "holders", holders);
	policy->holders = whose < 0 ? GQ_HOLDERS_NAMESPACE : (enum gq_holders)whose;
	if (root->kind != GQ_YAML_MAP)
		return;
	read_exempt(r, value[EXEMPT]);
	gq_policy_read_classes(r, value[CLASSES]);
	if (r->failed)
		return;
	gq_policy_read_rules(r, value[RULES]);
	gq_policy_read_tenants(r, value[TENANTS]);
	gq_policy_read_grants(r, value[GRANTS]);
}

/* Fills counted->policy and report. */
static int read_all(struct counted_policy *counted, const char *yaml, size_t len,
		    struct gq_policy_report *report, struct gq_err *err)
{
	struct gq_pool GQ_POOL_CLEANUP scratch = GQ_POOL_INIT(SCRATCH_BYTES);
	struct gq_yaml_node *root;
	struct gq_policy_reader r = {
	    .policy = &counted->policy,
	    .pool = &counted->pool,
	    .scratch = &scratch,
	    .report = report,
	};

	int code = gq_yaml_read(yaml, len, &scratch, report, &root, err);
	if (code)
		return code;
	if (root)
		read_policy(&r, root);
	gq_map_free(r.tenant_by_name);
	if (!r.classes)
		r.classes = GQ_STEAL(r.builtin);
	gq_class_table_free(r.builtin);
	counted->classes = r.classes;
	counted->policy.classes = r.classes;
	if (r.failed || scratch.failed || counted->pool.failed || report->failed)
		return gq_fail(err, GQ_ENOMEM, "out of memory while reading the policy");
	return 0;
}

int gq_policy_parse(const char *yaml, size_t len, const char *hash, struct gq_policy **ret_policy,
		    struct gq_policy_problems *ret_problems, struct gq_err *err)
{
	struct counted_policy *GQ_CLEANUP(cleanup_counted) counted = NULL;
	struct gq_policy_report report = {0};

	if (len > GQ_POLICY_MAX_BYTES)
		return gq_fail(err, GQ_ETOOBIG, "the policy has %zu bytes; at most %u are read",
			       len, GQ_POLICY_MAX_BYTES);
	counted = calloc(1, sizeof *counted);
	if (!counted)
		return gq_fail(err, GQ_ENOMEM, "out of memory while reading the policy");
	counted->pool = GQ_POOL_INIT(POOL_BYTES);
	atomic_init(&counted->refs, 1);
	struct gq_policy *policy = &counted->policy;
	size_t hash_len = hash ? strnlen(hash, sizeof policy->hash - 1) : 0;
	if (hash_len)
		memcpy(policy->hash, hash, hash_len);
	policy->bytes = gq_pool_copy(&counted->pool, yaml, len);
	policy->n_bytes = len;
	int code = read_all(counted, yaml, len, &report, err);
	if (code) {
		gq_policy_problems_done(&report.problems);
		return code;
	}
	if (report.problems.n_items) {
		size_t n = report.problems.n_items + report.problems.more;
		*ret_problems = report.problems;
		return gq_fail(err, GQ_EINVALID, "the policy has %zu problem%s", n,
			       n == 1 ? "" : "s");
	}
	*ret_policy = &GQ_STEAL(counted)->policy;
	return 0;
}
