#ifndef GQ_QUOTA_POLICY_H
#define GQ_QUOTA_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "quota/amount.h"
#include "quota/class.h"
#include "quota/locale.h"
#include "quota/object.h"
#include "quota/rule.h"

/* The policy: parsed, checked and immutable; counted, shared between threads. Strings live as long
 * as the policy. */

#define GQ_POLICY_MAX_BYTES (1u << 20) /* etcd's own limit for one object is about 1.5 MiB */
#define GQ_TENANT_MAX 10000
#define GQ_TENANT_LIMIT_MAX 64 /* limits of one tenant */
#define GQ_TENANT_DEPTH_MAX 8  /* parents above one tenant */

enum gq_holders { GQ_HOLDERS_NAMESPACE, GQ_HOLDERS_TENANT, GQ_HOLDERS_NONE };

/* A Kubernetes label selector; all requirements hold. None at all matches everything, but a policy
 * may not have such a one. */
struct gq_label_selector {
	const struct gq_requirement *requirements; /* matchLabels as GQ_OP_IN with one value */
	size_t n_requirements;
};

/* labels: sorted by key. */
bool gq_label_selector_matches(const struct gq_label_selector *selector,
			       const struct gq_label *labels, size_t n_labels);

struct gq_limit {
	int class_id;          /* into the policy's class table */
	struct gq_amount most; /* GQ_UNLIMITED in a currency that is not limited */
};

struct gq_tenant {
	const char *name;
	int parent; /* index into tenants, or -1 */
	enum gq_mode mode;
	enum gq_locale locale; /* of what users of its namespaces read */
	const char *const *namespaces;
	size_t n_namespaces;
	const struct gq_label_selector *selector; /* or NULL */
	const struct gq_limit *limits;
	size_t n_limits;
	bool unlisted_allow;
	struct gq_pod_limit pod_limit;
	/* In place of the rules' own modes, enum gq_mode; -1: the rule's. */
	signed char rule_modes[GQ_RULES];
};

/* Added to the tenant's limit of exactly that class until its time. A class without a limit counts
 * as a limit of 0 (with unlisted: deny; with unlisted: allow such a grant is an error). */
struct gq_grant {
	int tenant;
	int class_id;
	struct gq_amount amount; /* 0 in a currency not named */
	int64_t until_s;         /* Unix time, exclusive */
	const char *reason;      /* or "" */
};

struct gq_policy {
	char hash[65];     /* names these bytes: SHA-256, lower-case hex; computed by the caller */
	const char *bytes; /* as they were given */
	size_t n_bytes;
	enum gq_mode mode;
	enum gq_locale locale; /* of what users in no tenant's namespace read */
	bool unassigned_allow;
	bool ambiguous_deny;
	enum gq_holders holders;
	const char *const *exempt_namespaces;
	size_t n_exempt_namespaces;
	const struct gq_class_table *classes;
	const struct gq_tenant *tenants;
	size_t n_tenants;
	const struct gq_grant *grants;
	size_t n_grants;
	struct gq_rules rules;
};

struct gq_policy_problem {
	unsigned line;    /* from 1 */
	unsigned column;  /* from 1, in characters */
	char *message;    /* what is wrong and why */
	char *suggestion; /* what to write instead; or NULL */
};

/* Problems in the order of the file, at most 20; `more` counts the rest. */
struct gq_policy_problems {
	struct gq_policy_problem *items;
	size_t n_items;
	size_t more;
};
void gq_policy_problems_done(struct gq_policy_problems *problems);

/* Appends "policy.yaml:12:5: unknown key "quotas"; did you mean "quota"?", a line each. */
int gq_policy_problems_print(const struct gq_policy_problems *problems, const char *file,
			     struct gq_buf *out);

/* Parses and checks. hash: kept as the policy's name for these bytes, at most 64 characters.
 * Success: *ret_policy with one reference, no problems. GQ_EINVALID: ret_problems filled (the
 * caller empties it). GQ_ENOMEM, GQ_ETOOBIG: err only. */
int gq_policy_parse(const char *yaml, size_t len, const char *hash, struct gq_policy **ret_policy,
		    struct gq_policy_problems *ret_problems, struct gq_err *err);
struct gq_policy *gq_policy_ref(const struct gq_policy *policy);
void gq_policy_unref(const struct gq_policy *policy);
GQ_DEFINE_CLEANUP(gq_cleanup_policy, struct gq_policy, gq_policy_unref);

#endif
