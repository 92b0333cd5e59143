#include <string.h>

#include "quota/policy_impl.h"

static const char *const unlisted_words[] = {"deny", "allow", NULL};

/* quota entries and grants name amounts alike. Absent ones are left as they are. False:
 * reported. */
static bool read_amount(struct gq_policy_reader *r, const struct gq_yaml_node *gpus,
			const struct gq_yaml_node *memory, struct gq_amount *amount)
{
	bool good = true;

	if (gpus)
		good = gq_policy_gpus(r, gpus, &amount->shares);
	if (memory)
		good = gq_policy_memory(r, memory, &amount->memory_mib) && good;
	return good;
}

static bool read_limit(struct gq_policy_reader *r, const struct gq_yaml_node *node,
		       struct gq_limit *limit)
{
	static const struct gq_policy_field fields[] = {
	    {"gpus", GQ_POLICY_SCALAR, false, NULL},
	    {"memory", GQ_POLICY_SCALAR, false, NULL},
	};
	const struct gq_yaml_node *value[2];

	limit->class_id = gq_policy_class(r, node->key);
	limit->most = (struct gq_amount){GQ_UNLIMITED, GQ_UNLIMITED};
	if (!gq_policy_expect_limit(r, node, "quota") ||
	    !gq_policy_fields(r, node, "quota", fields, 2, value))
		return false;
	if (!node->n) {
		GQ_REPORT(r, node, "write {gpus: 4}, or remove the class",
			  "quota of %s names neither gpus nor memory", GQ_QUOTE(node->key));
		return false;
	}
	return read_amount(r, value[0], value[1], &limit->most) && limit->class_id != GQ_CLASS_NONE;
}

static void read_quota(struct gq_policy_reader *r, const struct gq_yaml_node *map,
		       struct gq_tenant *tenant)
{
	const struct gq_yaml_node *seen[GQ_CLASS_MAX] = {NULL};

	if (map->n > GQ_TENANT_LIMIT_MAX) {
		GQ_REPORT(r, map, "limit fewer classes, or a class that holds several",
			  "more than %d classes in the quota of one tenant", GQ_TENANT_LIMIT_MAX);
		return;
	}
	struct gq_limit *limits = gq_pool_alloc(r->pool, map->n, sizeof *limits);
	if (!limits)
		return;
	tenant->limits = limits;
	for (const struct gq_yaml_node *item = map->first; item; item = item->next) {
		struct gq_limit *limit = &limits[tenant->n_limits];
		bool good = read_limit(r, item, limit);
		int id = limit->class_id;
		if (id != GQ_CLASS_NONE && seen[id]) {
			GQ_REPORT(r, item->key, "remove one of the two",
				  "class %s has a quota in line %u already, as %s",
				  GQ_QUOTE(item->key), seen[id]->line, GQ_QUOTE(seen[id]));
			continue;
		}
		if (id != GQ_CLASS_NONE)
			seen[id] = item->key;
		if (good)
			tenant->n_limits++;
	}
}

static void add_label(struct gq_policy_reader *r, const struct gq_yaml_node *node,
		      struct gq_requirement *req)
{
	if (!gq_policy_is_label_key(node->key->text, node->key->len))
		GQ_REPORT(r, node->key, "write it as on the namespace",
			  "%s cannot be the key of a label", GQ_QUOTE(node->key));
	if (!gq_policy_expect(r, node, "label", GQ_POLICY_TEXT))
		return;
	if (!gq_policy_is_label_value(node->text, node->len))
		GQ_REPORT(r, node, "write it as on the namespace, at most 63 characters",
			  "%s cannot be the value of a label", GQ_QUOTE(node));
	const char **values = gq_pool_alloc(r->pool, 1, sizeof *values);
	if (!values)
		return;
	values[0] = gq_policy_keep(r, node);
	*req = (struct gq_requirement){gq_policy_keep(r, node->key), GQ_OP_IN, values, 1};
}

static void read_values(struct gq_policy_reader *r, const struct gq_yaml_node *list,
			struct gq_requirement *req)
{
	const char **values = gq_pool_alloc(r->pool, list->n, sizeof *values);

	if (!values)
		return;
	req->values = values;
	for (const struct gq_yaml_node *v = list->first; v; v = v->next) {
		if (!gq_policy_expect(r, v, "value", GQ_POLICY_TEXT))
			continue;
		if (!gq_policy_is_label_value(v->text, v->len))
			GQ_REPORT(r, v, "write it as on the namespace, at most 63 characters",
				  "%s cannot be the value of a label", GQ_QUOTE(v));
		values[req->n_values++] = gq_policy_keep(r, v);
	}
}

static void add_expression(struct gq_policy_reader *r, const struct gq_yaml_node *node,
			   struct gq_requirement *req)
{
	static const char *const words[] = {"In", "NotIn", "Exists", "DoesNotExist", NULL};
	static const enum gq_selector_op ops[] = {GQ_OP_IN, GQ_OP_NOT_IN, GQ_OP_EXISTS,
						  GQ_OP_DOES_NOT_EXIST};
	static const struct gq_policy_field fields[] = {
	    {"key", GQ_POLICY_TEXT, true, "write the key of a namespace's label"},
	    {"operator", GQ_POLICY_SCALAR, true, "write In, NotIn, Exists or DoesNotExist"},
	    {"values", GQ_POLICY_LIST, false, NULL},
	};
	const struct gq_yaml_node *value[3];

	if (!gq_policy_fields(r, node, "matchExpressions", fields, 3, value))
		return;
	if (!gq_policy_is_label_key(value[0]->text, value[0]->len))
		GQ_REPORT(r, value[0], "write it as on the namespace",
			  "%s cannot be the key of a label", GQ_QUOTE(value[0]));
	int op = gq_policy_word(r, value[1], "operator", words);
	if (op < 0)
		return;
	req->op = ops[op];
	req->key = gq_policy_keep(r, value[0]);
	bool wants_values = req->op == GQ_OP_IN || req->op == GQ_OP_NOT_IN;
	bool has_values = value[2] && value[2]->n;
	if (wants_values && !has_values && (value[2] || !gq_policy_has(node, "values")))
		GQ_REPORT(r, value[2] ? value[2] : node, "write values: [a, b]",
			  "operator %s needs values", words[op]);
	else if (!wants_values && has_values)
		GQ_REPORT(r, value[2], "remove them, or use In or NotIn",
			  "operator %s takes no values", words[op]);
	else if (has_values)
		read_values(r, value[2], req);
}

static void read_selector(struct gq_policy_reader *r, const struct gq_yaml_node *node,
			  struct gq_tenant *tenant)
{
	static const struct gq_policy_field fields[] = {
	    {"matchLabels", GQ_POLICY_MAP, false, NULL},
	    {"matchExpressions", GQ_POLICY_LIST, false, NULL},
	};
	const struct gq_yaml_node *value[2];

	if (!gq_policy_fields(r, node, "namespaceSelector", fields, 2, value))
		return;
	size_t n = (value[0] ? value[0]->n : 0) + (value[1] ? value[1]->n : 0);
	struct gq_label_selector *selector = gq_pool_alloc(r->pool, 1, sizeof *selector);
	struct gq_requirement *reqs = gq_pool_alloc(r->pool, n, sizeof *reqs);
	if (!selector || !reqs)
		return;
	/* one that names only something broken has been told of */
	bool empty = true;
	for (const struct gq_yaml_node *part = node->first; part; part = part->next)
		if ((part->kind != GQ_YAML_MAP && part->kind != GQ_YAML_LIST) || part->n)
			empty = false;
	if (empty) {
		GQ_REPORT(r, node, "name a label, or remove the selector",
			  "namespaceSelector: an empty one would match every namespace");
		return;
	}
	size_t at = 0;
	for (const struct gq_yaml_node *v = value[0] ? value[0]->first : NULL; v; v = v->next)
		add_label(r, v, &reqs[at++]);
	for (const struct gq_yaml_node *v = value[1] ? value[1]->first : NULL; v; v = v->next)
		add_expression(r, v, &reqs[at++]);
	*selector = (struct gq_label_selector){reqs, at};
	tenant->selector = selector;
}

static void read_tenant(struct gq_policy_reader *r, const struct gq_yaml_node *node,
			struct gq_tenant *tenant, struct gq_tenant_nodes *nodes)
{
	enum {
		NAME,
		PARENT,
		MODE,
		LOCALE,
		NAMESPACES,
		SELECTOR,
		QUOTA,
		UNLISTED,
		POD_LIMIT,
		RULES,
		N
	};
	static const struct gq_policy_field fields[N] = {
	    [NAME] = {"name", GQ_POLICY_TEXT, true, "write name: team-a"},
	    [PARENT] = {"parent", GQ_POLICY_TEXT, false, NULL},
	    [MODE] = {"mode", GQ_POLICY_SCALAR, false, NULL},
	    [LOCALE] = {"locale", GQ_POLICY_SCALAR, false, NULL},
	    [NAMESPACES] = {"namespaces", GQ_POLICY_LIST, false, NULL},
	    [SELECTOR] = {"namespaceSelector", GQ_POLICY_MAP, false, NULL},
	    [QUOTA] = {"quota", GQ_POLICY_MAP, false, NULL},
	    [UNLISTED] = {"unlisted", GQ_POLICY_SCALAR, false, NULL},
	    [POD_LIMIT] = {"podLimit", GQ_POLICY_ANY, false, NULL},
	    [RULES] = {"rules", GQ_POLICY_MAP, false, NULL},
	};
	const struct gq_yaml_node *value[N];

	*tenant = (struct gq_tenant){
	    .name = "",
	    .parent = -1,
	    .mode = r->policy->mode,
	    .pod_limit = {.shares = GQ_UNLIMITED},
	};
	memset(tenant->rule_modes, -1, sizeof tenant->rule_modes);
	gq_policy_fields(r, node, "tenant", fields, N, value);
	*nodes =
	    (struct gq_tenant_nodes){value[NAME], value[PARENT], value[NAMESPACES], value[QUOTA]};
	if (value[NAME]) {
		if (!gq_policy_is_dns_label(value[NAME]->text, value[NAME]->len)) {
			GQ_REPORT(r, value[NAME], "use a-z, 0-9 and \"-\", at most 63 characters",
				  "%s cannot be the name of a tenant", GQ_QUOTE(value[NAME]));
			nodes->name = NULL;
		} else {
			tenant->name = gq_policy_keep(r, value[NAME]);
		}
	}
	int mode = gq_policy_word(r, value[MODE], "mode", gq_policy_modes);
	if (mode >= 0)
		tenant->mode = (enum gq_mode)mode;
	tenant->locale = gq_policy_locale(r, value[LOCALE], r->policy->locale);
	if (value[NAMESPACES])
		tenant->namespaces =
		    gq_policy_namespaces(r, value[NAMESPACES], &tenant->n_namespaces);
	if (value[SELECTOR])
		read_selector(r, value[SELECTOR], tenant);
	if (value[QUOTA])
		read_quota(r, value[QUOTA], tenant);
	tenant->unlisted_allow =
	    gq_policy_word(r, value[UNLISTED], "unlisted", unlisted_words) == 1;
	if (value[POD_LIMIT])
		gq_policy_read_pod_limit(r, value[POD_LIMIT], &tenant->pod_limit);
	if (value[RULES])
		gq_policy_read_tenant_rules(r, value[RULES], tenant);
}

void gq_policy_read_tenants(struct gq_policy_reader *r, const struct gq_yaml_node *node)
{
	size_t n = node ? node->n : 0;

	if (n > GQ_TENANT_MAX) {
		GQ_REPORT(r, node, "share one tenant by several namespaces",
			  "%zu tenants; at most %d are possible", n, GQ_TENANT_MAX);
		n = GQ_TENANT_MAX;
	}
	r->tenants = gq_pool_alloc(r->pool, n, sizeof *r->tenants);
	r->tenant_nodes = gq_pool_alloc(r->scratch, n, sizeof *r->tenant_nodes);
	r->tenant_by_name = gq_map_new();
	if (!r->tenant_by_name)
		r->failed = true;
	if (!r->tenants || !r->tenant_nodes || r->failed)
		return;
	const struct gq_yaml_node *item = n ? node->first : NULL;
	for (; item && r->n_tenants < n; item = item->next) {
		read_tenant(r, item, &r->tenants[r->n_tenants], &r->tenant_nodes[r->n_tenants]);
		r->n_tenants++;
	}
	gq_policy_check_tenants(r);
	r->policy->tenants = r->tenants;
	r->policy->n_tenants = r->n_tenants;
}

static const struct gq_limit *limit_of(const struct gq_tenant *tenant, int class_id)
{
	for (size_t i = 0; i < tenant->n_limits; i++)
		if (tenant->limits[i].class_id == class_id)
			return &tenant->limits[i];
	return NULL;
}

static const struct gq_tenant *named_tenant(struct gq_policy_reader *r,
					    const struct gq_yaml_node *node)
{
	const struct gq_tenant *tenant = gq_map_get(r->tenant_by_name, node->text, node->len);
	struct gq_nearest nearest = gq_nearest_to(node->text, node->len);
	struct gq_hint hint;

	if (tenant)
		return tenant;
	bool wanted = gq_policy_report_wants(r->report, node->line, node->column);
	for (size_t i = 0; wanted && i < r->n_tenants; i++)
		gq_nearest_offer(&nearest, r->tenants[i].name);
	if (nearest.best)
		gq_hint(&hint, "did you mean \"%s\"?", nearest.best);
	else
		gq_hint(&hint, "add it to \"tenants\", or remove the grant");
	GQ_REPORT(r, node, hint.text, "unknown tenant %s", GQ_QUOTE(node));
	return NULL;
}

static bool read_grant(struct gq_policy_reader *r, const struct gq_yaml_node *node,
		       struct gq_grant *grant)
{
	enum { TENANT, CLASS, GPUS, MEMORY, UNTIL, REASON, N };
	static const struct gq_policy_field fields[N] = {
	    [TENANT] = {"tenant", GQ_POLICY_TEXT, true, "write the name of a tenant"},
	    [CLASS] = {"class", GQ_POLICY_SCALAR, true, "write a class, such as A100"},
	    [GPUS] = {"gpus", GQ_POLICY_SCALAR, false, NULL},
	    [MEMORY] = {"memory", GQ_POLICY_SCALAR, false, NULL},
	    [UNTIL] = {"until", GQ_POLICY_SCALAR, true, "write until: \"2026-12-04T18:00:00Z\""},
	    [REASON] = {"reason", GQ_POLICY_SCALAR, false, NULL},
	};
	const struct gq_yaml_node *value[N];
	struct gq_hint hint;

	bool good = gq_policy_fields(r, node, "grant", fields, N, value);
	if (node->kind != GQ_YAML_MAP)
		return false;
	const struct gq_tenant *tenant = value[TENANT] ? named_tenant(r, value[TENANT]) : NULL;
	grant->class_id = value[CLASS] ? gq_policy_class(r, value[CLASS]) : GQ_CLASS_NONE;
	if (value[UNTIL])
		good = gq_policy_time(r, value[UNTIL], &grant->until_s) && good;
	good = read_amount(r, value[GPUS], value[MEMORY], &grant->amount) && good;
	grant->reason = value[REASON] ? gq_policy_keep(r, value[REASON]) : "";
	if (good && !value[GPUS] && !value[MEMORY]) {
		GQ_REPORT(r, node, "write gpus: 4, or remove the grant",
			  "the grant names neither gpus nor memory");
		return false;
	}
	if (!tenant || grant->class_id == GQ_CLASS_NONE)
		return false;
	grant->tenant = (int)(tenant - r->tenants);
	/* where such a class is without limit, a grant would introduce one instead of lifting one
	 */
	const struct gq_limit *limit = limit_of(tenant, grant->class_id);
	const struct gq_yaml_node *quota = r->tenant_nodes[grant->tenant].quota;
	if (tenant->unlisted_allow && !limit && (!quota || quota->n == tenant->n_limits)) {
		gq_hint(&hint, "give %s a quota of %.64s, or remove the grant", tenant->name,
			value[CLASS]->text);
		GQ_REPORT(
		    r, value[CLASS], hint.text,
		    "tenant \"%s\" has no limit of class %s and \"unlisted: allow\": there is "
		    "nothing to add to",
		    tenant->name, GQ_QUOTE(value[CLASS]));
		return false;
	}
	return good;
}

void gq_policy_read_grants(struct gq_policy_reader *r, const struct gq_yaml_node *node)
{
	struct gq_policy *policy = r->policy;
	struct gq_grant *grants = gq_pool_alloc(r->pool, node ? node->n : 0, sizeof *grants);

	if (!grants || !r->tenant_by_name)
		return;
	policy->grants = grants;
	for (const struct gq_yaml_node *v = node ? node->first : NULL; v; v = v->next)
		if (read_grant(r, v, &grants[policy->n_grants]))
			policy->n_grants++;
}
