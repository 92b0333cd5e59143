#include <string.h>

#include "quota/host_path.h"
#include "quota/policy_impl.h"

/* The lists are bounded, so that an item may be held against all before it. */
static bool fits(struct gq_policy_reader *r, const struct gq_yaml_node *list)
{
	if (list->n <= GQ_POLICY_RULE_LIST_MAX)
		return true;
	GQ_REPORT(r, list, "name fewer", "%s: more than %d", list->key->text,
		  GQ_POLICY_RULE_LIST_MAX);
	return false;
}

/* What the items of a list are. */
struct item_kind {
	const char *what;
	const char *should_be;
	/* NULL when the text is one; else what to write instead. */
	const char *(*advice)(const struct gq_yaml_node *item, struct gq_hint *hint);
};

/* Whether the item is what it should be and stands there once; reports when not. */
static bool check_item(struct gq_policy_reader *r, const struct gq_yaml_node *list,
		       const struct gq_yaml_node *item, const struct item_kind *kind)
{
	struct gq_hint hint;

	if (!gq_policy_expect(r, item, kind->what, GQ_POLICY_TEXT))
		return false;
	const char *advice = kind->advice(item, &hint);
	if (advice) {
		GQ_REPORT(r, item, advice, "%s is not %s", GQ_QUOTE(item), kind->should_be);
		return false;
	}
	for (const struct gq_yaml_node *other = list->first; other != item; other = other->next) {
		if (other->kind != GQ_YAML_SCALAR || strcmp(other->text, item->text) != 0)
			continue;
		GQ_REPORT(r, item, "remove one of the two", "%s %s stands in line %u already",
			  kind->what, GQ_QUOTE(item), other->line);
		return false;
	}
	return true;
}

static const char *const *read_texts(struct gq_policy_reader *r, const struct gq_yaml_node *list,
				     const struct item_kind *kind, size_t *ret_n)
{
	const char **texts = gq_pool_alloc(r->pool, list->n, sizeof *texts);

	*ret_n = 0;
	if (!texts || !fits(r, list))
		return NULL;
	for (const struct gq_yaml_node *item = list->first; item; item = item->next)
		if (check_item(r, list, item, kind))
			texts[(*ret_n)++] = gq_policy_keep(r, item);
	return texts;
}

/* ---- exemptServiceAccounts ---- */

static bool is_account(const char *namespace_, size_t n_namespace, const char *name, size_t n_name)
{
	return gq_policy_is_dns_label(namespace_, n_namespace) &&
	       gq_policy_is_dns_subdomain(name, n_name);
}

static const char *account_advice(const struct gq_yaml_node *item, struct gq_hint *hint)
{
	static const char user[] = "system:serviceaccount:";
	const char *text = item->text, *slash = strchr(text, '/');

	if (slash && is_account(text, (size_t)(slash - text), slash + 1, strlen(slash + 1)))
		return NULL;
	if (strpbrk(text, "*?"))
		return "patterns are not supported; name each, or exempt the namespace";
	if (strncmp(text, user, sizeof user - 1) == 0) {
		text += sizeof user - 1;
		const char *colon = strchr(text, ':');
		size_t n = colon ? (size_t)(colon - text) : 0;
		if (colon && is_account(text, n, colon + 1, strlen(colon + 1)))
			return gq_hint(hint, "write %.*s/%s", (int)n, text, colon + 1);
	}
	return "write NAMESPACE/NAME, such as a-serve/default";
}

const struct gq_service_account *gq_policy_accounts(struct gq_policy_reader *r,
						    const struct gq_yaml_node *list, size_t *ret_n)
{
	static const struct item_kind kind = {"service account", "a service account",
					      account_advice};
	struct gq_service_account *accounts = gq_pool_alloc(r->pool, list->n, sizeof *accounts);

	*ret_n = 0;
	if (!accounts || !fits(r, list))
		return NULL;
	for (const struct gq_yaml_node *item = list->first; item; item = item->next) {
		if (!check_item(r, list, item, &kind))
			continue;
		size_t n = (size_t)(strchr(item->text, '/') - item->text);
		const char *namespace_ = gq_pool_copy(r->pool, item->text, n);
		const char *name = gq_pool_copy(r->pool, item->text + n + 1, item->len - n - 1);
		if (namespace_ && name)
			accounts[(*ret_n)++] = (struct gq_service_account){namespace_, name};
	}
	return accounts;
}

/* ---- schedulerNames ---- */

/* Schedulers report events under their names, which have to be such. */
static const char *scheduler_advice(const struct gq_yaml_node *item, struct gq_hint *hint)
{
	(void)hint;
	return gq_policy_is_label_key(item->text, item->len)
		   ? NULL
		   : "write it as in a pod's spec.schedulerName";
}

const char *const *gq_policy_schedulers(struct gq_policy_reader *r, const struct gq_yaml_node *list,
					size_t *ret_n)
{
	static const struct item_kind kind = {"scheduler", "the name of a scheduler",
					      scheduler_advice};

	return read_texts(r, list, &kind, ret_n);
}

/* ---- hostPath: allow ---- */

/* Entries with the nodes that name them. */
struct paths {
	struct gq_allowed_path *items;
	const struct gq_yaml_node *nodes[GQ_POLICY_RULE_LIST_MAX];
	size_t n;
};

/* A directory below one that may be written can be written by way of that. */
static void check_beside(struct gq_policy_reader *r, const struct paths *paths, size_t a, size_t b)
{
	size_t wide = a, narrow = b;
	struct gq_hint hint;

	if (!gq_host_path_inside(paths->items[b].prefix, paths->items[a].prefix)) {
		wide = b;
		narrow = a;
	}
	if (!gq_host_path_inside(paths->items[narrow].prefix, paths->items[wide].prefix) ||
	    !paths->items[narrow].read_only || paths->items[wide].read_only)
		return;
	const struct gq_yaml_node *by = paths->nodes[wide];
	gq_hint(&hint, "set readOnly for %s too, or remove one of the two", GQ_QUOTE(by));
	GQ_REPORT(r, paths->nodes[narrow], hint.text,
		  "path %s lies in %s of line %u, which may be written: readOnly has no effect",
		  GQ_QUOTE(paths->nodes[narrow]), GQ_QUOTE(by), by->line);
}

static void add_path(struct gq_policy_reader *r, struct paths *paths, const char *clean,
		     bool read_only, const struct gq_yaml_node *node)
{
	const char *prefix = gq_pool_copy(r->pool, clean, strlen(clean));

	if (!prefix)
		return;
	for (size_t i = 0; i < paths->n; i++) {
		const struct gq_yaml_node *other = paths->nodes[i];
		if (strcmp(paths->items[i].prefix, prefix) != 0)
			continue;
		if (strcmp(node->text, other->text) == 0)
			GQ_REPORT(r, node, "remove one of the two",
				  "path %s stands in line %u already", GQ_QUOTE(node), other->line);
		else
			GQ_REPORT(r, node, "remove one of the two",
				  "path %s stands in line %u already, as %s", GQ_QUOTE(node),
				  other->line, GQ_QUOTE(other));
		return;
	}
	paths->items[paths->n] = (struct gq_allowed_path){prefix, read_only};
	paths->nodes[paths->n++] = node;
	for (size_t i = 0; i + 1 < paths->n; i++)
		check_beside(r, paths, i, paths->n - 1);
}

static void read_path(struct gq_policy_reader *r, struct paths *paths,
		      const struct gq_yaml_node *node, bool read_only)
{
	char clean[GQ_HOST_PATH_MAX + 1];

	if (node->text[0] != '/') {
		GQ_REPORT(r, node, "write it from the root directory on, such as /data",
			  "path %s is not absolute", GQ_QUOTE(node));
	} else if (strpbrk(node->text, "*?")) {
		GQ_REPORT(r, node, "write the directory: it holds all that lies below it",
			  "path %s: patterns are not supported", GQ_QUOTE(node));
	} else if (!gq_host_path_clean(node->text, clean)) {
		GQ_REPORT(r, node, "write a directory above it", "path %s is longer than %d bytes",
			  GQ_QUOTE(node), GQ_HOST_PATH_MAX);
	} else if (strcmp(clean, "/") == 0) {
		GQ_REPORT(r, node, "write the directories that pods need, or disable hostPath",
			  "path %s is the root directory, which holds every other", GQ_QUOTE(node));
	} else {
		add_path(r, paths, clean, read_only, node);
	}
}

const struct gq_allowed_path *
gq_policy_allowed_paths(struct gq_policy_reader *r, const struct gq_yaml_node *list, size_t *ret_n)
{
	static const char *const words[] = {"false", "true", NULL};
	static const struct gq_policy_field fields[] = {
	    {"path", GQ_POLICY_TEXT, true, "write path: /data"},
	    {"readOnly", GQ_POLICY_SCALAR, false, NULL},
	};
	struct paths paths = {.items = gq_pool_alloc(r->pool, list->n, sizeof *paths.items)};

	*ret_n = 0;
	if (!paths.items || !fits(r, list))
		return NULL;
	for (const struct gq_yaml_node *item = list->first; item; item = item->next) {
		const struct gq_yaml_node *value[2] = {item, NULL};
		if (item->kind == GQ_YAML_MAP)
			gq_policy_fields(r, item, "allow", fields, 2, value);
		else if (!gq_policy_expect(r, item, "path", GQ_POLICY_TEXT))
			continue;
		bool read_only = gq_policy_word(r, value[1], "readOnly", words) == 1;
		if (value[0])
			read_path(r, &paths, value[0], read_only);
	}
	*ret_n = paths.n;
	return paths.items;
}

/* ---- requireGpuMemory: resources ---- */

static const char *resource_advice(const struct gq_yaml_node *item, struct gq_hint *hint)
{
	(void)hint;
	return strchr(item->text, '/') && gq_policy_is_label_key(item->text, item->len)
		   ? NULL
		   : "write it as in a container's limits, such as volcano.sh/vgpu-memory";
}

static void read_vgpu(struct gq_policy_reader *r, const struct gq_yaml_node *count,
		      const struct gq_yaml_node *memory, struct gq_vgpu_names *names)
{
	static const struct item_kind kind = {"resource", "the name of a resource",
					      resource_advice};

	if (!memory->n)
		GQ_REPORT(r, memory, "write memory: [volcano.sh/vgpu-memory]",
			  "resources: nothing says how much memory %s has", GQ_QUOTE(count));
	names->count = gq_policy_keep(r, count);
	names->memory = read_texts(r, memory, &kind, &names->n_memory);
	for (const struct gq_yaml_node *item = memory->first; item; item = item->next)
		if (item->kind == GQ_YAML_SCALAR && strcmp(item->text, count->text) == 0)
			GQ_REPORT(r, item, "write the resource that says how much memory",
				  "resource %s is the count itself", GQ_QUOTE(item));
}

const struct gq_vgpu_names *gq_policy_vgpus(struct gq_policy_reader *r,
					    const struct gq_yaml_node *list, size_t *ret_n)
{
	static const struct gq_policy_field fields[] = {
	    {"count", GQ_POLICY_TEXT, true, "write count: volcano.sh/vgpu-number"},
	    {"memory", GQ_POLICY_LIST, true, "write memory: [volcano.sh/vgpu-memory]"},
	};
	const struct gq_yaml_node *seen[GQ_POLICY_RULE_LIST_MAX];
	struct gq_vgpu_names *vgpus = gq_pool_alloc(r->pool, list->n, sizeof *vgpus);
	struct gq_hint hint;
	size_t n = 0;

	*ret_n = 0;
	if (!vgpus || !fits(r, list))
		return NULL;
	if (!list->n)
		GQ_REPORT(r, list, "remove it for those of HAMi", "resources names none");
	for (const struct gq_yaml_node *item = list->first; item; item = item->next) {
		const struct gq_yaml_node *value[2];
		if (!gq_policy_fields(r, item, "resources", fields, 2, value))
			continue;
		const char *advice = resource_advice(value[0], &hint);
		size_t same = 0;
		while (same < n && strcmp(seen[same]->text, value[0]->text) != 0)
			same++;
		if (advice)
			GQ_REPORT(r, value[0], advice, "%s is not the name of a resource",
				  GQ_QUOTE(value[0]));
		if (same < n)
			GQ_REPORT(r, value[0], "merge the two",
				  "resource %s is counted in line %u already", GQ_QUOTE(value[0]),
				  seen[same]->line);
		read_vgpu(r, value[0], value[1], &vgpus[n]);
		seen[n++] = value[0];
	}
	*ret_n = n;
	return vgpus;
}
