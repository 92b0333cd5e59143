#include <string.h>

#include "quota/policy_impl.h"

/* What concerns several tenants at once. Everything is linear in the file's size. */

static void check_names(struct gq_policy_reader *r)
{
	for (size_t i = 0; i < r->n_tenants; i++) {
		const struct gq_yaml_node *name = r->tenant_nodes[i].name;
		if (!name)
			continue;
		struct gq_tenant *first = gq_map_get(r->tenant_by_name, name->text, name->len);
		if (first) {
			size_t at = (size_t)(first - r->tenants);
			GQ_REPORT(r, name, "choose another name, or merge the two",
				  "tenant %s stands in line %u already", GQ_QUOTE(name),
				  r->tenant_nodes[at].name->line);
		} else if (gq_map_put(r->tenant_by_name, name->text, name->len, &r->tenants[i],
				      NULL)) {
			r->failed = true;
		}
	}
}

static void find_parents(struct gq_policy_reader *r)
{
	struct gq_hint hint;

	for (size_t i = 0; i < r->n_tenants; i++) {
		const struct gq_yaml_node *node = r->tenant_nodes[i].parent;
		if (!node)
			continue;
		struct gq_tenant *parent = gq_map_get(r->tenant_by_name, node->text, node->len);
		if (parent) {
			r->tenants[i].parent = (int)(parent - r->tenants);
			continue;
		}
		struct gq_nearest nearest = gq_nearest_to(node->text, node->len);
		bool wanted = gq_policy_report_wants(r->report, node->line, node->column);
		for (size_t t = 0; wanted && t < r->n_tenants; t++)
			gq_nearest_offer(&nearest, r->tenants[t].name);
		if (nearest.best)
			gq_hint(&hint, "did you mean \"%s\"?", nearest.best);
		else
			gq_hint(&hint, "add it to \"tenants\", or remove the parent");
		GQ_REPORT(r, node, hint.text, "unknown tenant %s as parent", GQ_QUOTE(node));
	}
}

enum { UNKNOWN = -1, ON_PATH = -2, CYCLE = -3 };

/* Told where the cycle's first tenant in the file names its parent. */
static void report_cycle(struct gq_policy_reader *r, int member)
{
	struct gq_buf GQ_BUF_CLEANUP path = GQ_BUF_INIT(800);
	int start = member;

	for (int t = r->tenants[member].parent; t != member; t = r->tenants[t].parent)
		if (t < start)
			start = t;
	int t = start;
	do {
		if (path.len > 600) {
			gq_buf_puts(&path, "… -> ");
			break;
		}
		gq_buf_printf(&path, "%s -> ", r->tenants[t].name);
		t = r->tenants[t].parent;
	} while (t != start);
	gq_buf_puts(&path, r->tenants[start].name);
	if (path.code) {
		r->failed = true;
		return;
	}
	GQ_REPORT(r, r->tenant_nodes[start].parent, "remove the parent of one of them",
		  "parent cycle: %s", path.data);
}

static void check_depth(struct gq_policy_reader *r)
{
	int *depth = gq_pool_alloc(r->scratch, r->n_tenants, sizeof *depth);
	int *path = gq_pool_alloc(r->scratch, r->n_tenants, sizeof *path);

	if (!depth || !path)
		return;
	for (size_t i = 0; i < r->n_tenants; i++)
		depth[i] = UNKNOWN;
	for (size_t i = 0; i < r->n_tenants; i++) {
		size_t n = 0;
		int t = (int)i;
		while (t >= 0 && depth[t] == UNKNOWN) {
			depth[t] = ON_PATH;
			path[n++] = t;
			t = r->tenants[t].parent;
		}
		if (t >= 0 && depth[t] == ON_PATH)
			report_cycle(r, t);
		bool cycle = t >= 0 && depth[t] < 0;
		int above = t < 0 ? -1 : depth[t];
		while (n > 0) {
			int child = path[--n];
			depth[child] = cycle ? CYCLE : ++above;
			if (!cycle && above == GQ_TENANT_DEPTH_MAX + 1)
				GQ_REPORT(r, r->tenant_nodes[child].parent, "take out a level",
					  "tenant \"%s\" has more than %d parents above it",
					  r->tenants[child].name, GQ_TENANT_DEPTH_MAX);
		}
	}
}

struct claim {
	const struct gq_tenant *tenant; /* NULL: exempt */
	unsigned line;
};

static void claim_namespace(struct gq_policy_reader *r, struct gq_map *claims,
			    const struct gq_tenant *tenant, const struct gq_yaml_node *node)
{
	const struct claim *other = gq_map_get(claims, node->text, node->len);
	struct gq_hint hint;

	if (!other) {
		struct claim *claim = gq_pool_alloc(r->scratch, 1, sizeof *claim);
		if (!claim)
			return;
		*claim = (struct claim){tenant, node->line};
		if (gq_map_put(claims, node->text, node->len, claim, NULL))
			r->failed = true;
	} else if (!other->tenant) {
		GQ_REPORT(r, node, "remove it here or under exempt", "namespace %s is exempt%s",
			  GQ_QUOTE(node),
			  other->line ? "" : ", as long as \"exempt\" does not say otherwise");
	} else if (other->tenant == tenant) {
		GQ_REPORT(r, node, "remove one of the two",
			  "namespace %s stands in line %u already", GQ_QUOTE(node), other->line);
	} else {
		gq_hint(&hint, "leave it with one of \"%s\" and \"%s\"", other->tenant->name,
			tenant->name);
		GQ_REPORT(r, node, hint.text, "namespace %s belongs to tenant \"%s\" in line %u",
			  GQ_QUOTE(node), other->tenant->name, other->line);
	}
}

static void check_namespaces(struct gq_policy_reader *r)
{
	struct gq_map *GQ_CLEANUP(gq_cleanup_map) claims = gq_map_new();
	const struct gq_policy *policy = r->policy;
	struct claim *exempt = gq_pool_alloc(r->scratch, 1, sizeof *exempt);

	if (!claims || !exempt) {
		r->failed = true;
		return;
	}
	exempt->line = r->exempt_by_default ? 0 : 1;
	for (size_t i = 0; i < policy->n_exempt_namespaces; i++) {
		const char *name = policy->exempt_namespaces[i];
		if (gq_map_put(claims, name, strlen(name), exempt, NULL))
			r->failed = true;
	}
	for (size_t i = 0; i < r->n_tenants; i++) {
		const struct gq_yaml_node *list = r->tenant_nodes[i].namespaces;
		for (const struct gq_yaml_node *v = list ? list->first : NULL; v; v = v->next)
			if (v->kind == GQ_YAML_SCALAR && v->scalar == GQ_YAML_TEXT)
				claim_namespace(r, claims, &r->tenants[i], v);
	}
}

void gq_policy_check_tenants(struct gq_policy_reader *r)
{
	check_names(r);
	find_parents(r);
	check_depth(r);
	check_namespaces(r);
}
