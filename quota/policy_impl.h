#ifndef GQ_QUOTA_POLICY_IMPL_H
#define GQ_QUOTA_POLICY_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "quota/policy.h"
#include "quota/policy_report.h"
#include "quota/policy_yaml.h"
#include "quota/pool.h"

/* What the quota/policy_*.c files share. Each reader function reports what is wrong and goes on
 * with what is left; running out of memory is kept in the pools, the report or `failed`, and is
 * looked at once, at the end. */

/* A tenant's nodes, for the checks that concern several tenants. NULL: absent or reported. */
struct gq_tenant_nodes {
	const struct gq_yaml_node *name;
	const struct gq_yaml_node *parent;
	const struct gq_yaml_node *namespaces;
	const struct gq_yaml_node *quota;
};

struct gq_policy_reader {
	struct gq_policy *policy;
	struct gq_pool *pool;    /* what the policy keeps */
	struct gq_pool *scratch; /* gone after the reading */
	struct gq_policy_report *report;
	bool failed;            /* out of memory */
	bool exempt_by_default; /* the policy has no exempt.namespaces */
	bool pod_limit_given;   /* rules.podLimit names gpus or classes, right or wrong */
	struct gq_class_table *builtin;
	struct gq_class_table *classes;       /* NULL: the built-in ones */
	const struct gq_yaml_node *class_map; /* the policy's own; or NULL */
	struct gq_tenant *tenants;
	struct gq_tenant_nodes *tenant_nodes;
	size_t n_tenants;
	struct gq_map *tenant_by_name; /* -> struct gq_tenant */
};

/* policy_value.c: single values. `what` names the value in messages. */

#define GQ_REPORT(r, node, hint, ...)                                                              \
	gq_policy_report_add((r)->report, (node)->line, (node)->column, (hint), __VA_ARGS__)

/* The node's text in quotes, for a message. */
#define GQ_QUOTE(node) (gq_policy_quote((node)->text, (node)->len).text)

enum gq_policy_type {
	GQ_POLICY_ANY,
	GQ_POLICY_REFUSED, /* any, and no key to suggest: the caller tells why it can't be there */
	GQ_POLICY_TEXT,    /* no number, true, false or null, unless quoted */
	GQ_POLICY_SCALAR,  /* but null */
	GQ_POLICY_LIST,
	GQ_POLICY_MAP,
};

/* Whether the node is of the type; reports when not. */
bool gq_policy_expect(struct gq_policy_reader *r, const struct gq_yaml_node *node, const char *what,
		      enum gq_policy_type type);

struct gq_policy_field {
	const char *key;
	enum gq_policy_type type;
	bool required;
	const char *hint; /* what to write when a required one is missing */
};

/* Reads a map by its fields. values: n_fields nodes, NULL where absent or of the wrong type.
 * False, reported: node is no map, or a required field is missing or of the wrong type. */
bool gq_policy_fields(struct gq_policy_reader *r, const struct gq_yaml_node *node, const char *what,
		      const struct gq_policy_field *fields, size_t n_fields,
		      const struct gq_yaml_node **values);

/* Whether the key stands in the map at all, its value being right or not. */
bool gq_policy_has(const struct gq_yaml_node *map, const char *key);

/* A word of a closed set: its index, or -1. words end with NULL. node may be NULL (gives -1). */
int gq_policy_word(struct gq_policy_reader *r, const struct gq_yaml_node *node, const char *what,
		   const char *const *words);

/* A language that may be written here. Absent or reported: inherited. */
enum gq_locale gq_policy_locale(struct gq_policy_reader *r, const struct gq_yaml_node *node,
				enum gq_locale inherited);

/* Modes that may be written here: the first three, or all four. */
extern const char *const gq_policy_modes[];      /* enforce warn audit */
extern const char *const gq_policy_rule_modes[]; /* and disabled */

/* Amounts. A limit is rounded down to whole shares and MiB: what it lets through is never more than
 * what it says. False: reported. */
bool gq_policy_gpus(struct gq_policy_reader *r, const struct gq_yaml_node *node,
		    int64_t *ret_shares);
bool gq_policy_memory(struct gq_policy_reader *r, const struct gq_yaml_node *node,
		      int64_t *ret_mib);

/* An RFC 3339 date and time as Unix seconds. Source: RFC 3339, section 5.6. */
bool gq_policy_time(struct gq_policy_reader *r, const struct gq_yaml_node *node, int64_t *ret_s);

/* False, reported with the map to write, when a number stands in place of {gpus: N}; what else is
 * wrong gq_policy_fields() tells. */
bool gq_policy_expect_limit(struct gq_policy_reader *r, const struct gq_yaml_node *node,
			    const char *what);

/* Names as Kubernetes has them. */
bool gq_policy_is_dns_label(const char *text, size_t len);
bool gq_policy_is_dns_subdomain(const char *text, size_t len);
bool gq_policy_is_label_key(const char *text, size_t len);
bool gq_policy_is_label_value(const char *text, size_t len);

/* A list of namespace names, in the pool. Items that are none are reported and left out. */
const char *const *gq_policy_namespaces(struct gq_policy_reader *r, const struct gq_yaml_node *list,
					size_t *ret_n);

/* A copy in the pool ("" when out of memory). */
const char *gq_policy_keep(struct gq_policy_reader *r, const struct gq_yaml_node *node);

/* The id of a class in the policy's table, or GQ_CLASS_NONE, reported. */
int gq_policy_class(struct gq_policy_reader *r, const struct gq_yaml_node *node);

/* The sections, in the order in which they need each other; node may be NULL where the section is
 * absent. */
void gq_policy_read_classes(struct gq_policy_reader *r, const struct gq_yaml_node *node);
void gq_policy_read_rules(struct gq_policy_reader *r, const struct gq_yaml_node *node);
void gq_policy_read_tenants(struct gq_policy_reader *r, const struct gq_yaml_node *node);
void gq_policy_read_grants(struct gq_policy_reader *r, const struct gq_yaml_node *node);

/* policy_rules.c: the modes that a tenant gives to rules. */
void gq_policy_read_tenant_rules(struct gq_policy_reader *r, const struct gq_yaml_node *map,
				 struct gq_tenant *tenant);

/* policy_pod_limit.c: {gpus, classes}, of a tenant as a map and of a rule by its keys. Absent ones
 * are left as they are. */
void gq_policy_read_pod_limit(struct gq_policy_reader *r, const struct gq_yaml_node *node,
			      struct gq_pod_limit *limit);
void gq_policy_read_pod_limit_keys(struct gq_policy_reader *r, const struct gq_yaml_node *gpus,
				   const struct gq_yaml_node *classes, struct gq_pod_limit *limit);

/* policy_rule_keys.c: lists that rules have. Items that are wrong are reported and left out. */
#define GQ_POLICY_RULE_LIST_MAX 256

const struct gq_service_account *gq_policy_accounts(struct gq_policy_reader *r,
						    const struct gq_yaml_node *list, size_t *ret_n);
const char *const *gq_policy_schedulers(struct gq_policy_reader *r, const struct gq_yaml_node *list,
					size_t *ret_n);
const struct gq_allowed_path *
gq_policy_allowed_paths(struct gq_policy_reader *r, const struct gq_yaml_node *list, size_t *ret_n);
const struct gq_vgpu_names *gq_policy_vgpus(struct gq_policy_reader *r,
					    const struct gq_yaml_node *list, size_t *ret_n);

/* policy_check.c: what concerns several tenants: names, parents, namespaces. */
void gq_policy_check_tenants(struct gq_policy_reader *r);

#endif
