#include <stdio.h>
#include <string.h>

#include "quota/policy_impl.h"

/* The classes of a policy are checked here before the table is built, since the table knows no
 * positions. */

struct class_nodes {
	const struct gq_yaml_node *name;
	const struct gq_yaml_node *parent; /* or NULL */
	char *folded;                      /* the name in lower case */
	size_t index;
};

struct class_reader {
	struct gq_policy_reader *r;
	struct gq_map *by_name;  /* lower case -> struct class_nodes */
	struct gq_map *by_match; /* "label=value" -> struct class_nodes */
	struct gq_class_def *defs;
	struct class_nodes *nodes;
	size_t n;
	bool bad;
};

static char *fold_copy(struct gq_policy_reader *r, const struct gq_yaml_node *node)
{
	char *copy = gq_pool_copy(r->scratch, node->text, node->len);

	for (char *p = copy; p && *p; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p - 'A' + 'a');
	return copy;
}

static const struct gq_class_table *table(const struct gq_policy_reader *r)
{
	return r->classes ? r->classes : r->builtin;
}

int gq_policy_class(struct gq_policy_reader *r, const struct gq_yaml_node *node)
{
	int id = gq_class_find(table(r), node->text);
	struct gq_hint hint;

	if (id != GQ_CLASS_NONE)
		return id;
	if (!gq_policy_report_wants(r->report, node->line, node->column)) {
		GQ_REPORT(r, node, NULL, "unknown class");
		return GQ_CLASS_NONE;
	}
	/* a definition that was refused says so itself */
	for (const struct gq_yaml_node *c = r->class_map ? r->class_map->first : NULL; c;
	     c = c->next)
		if (strcasecmp(c->key->text, node->text) == 0)
			return GQ_CLASS_NONE;
	const char *near = gq_class_suggest(table(r), node->text);
	if (near)
		gq_hint(&hint, "did you mean \"%s\"?", near);
	else
		gq_hint(&hint,
			"define it under \"classes\", or write \"other\" for all models that "
			"nothing defines");
	GQ_REPORT(r, node, hint.text, "unknown class %s", GQ_QUOTE(node));
	return GQ_CLASS_NONE;
}

/* label and values of one match; false: reported. */
static bool read_match(struct class_reader *c, struct class_nodes *owner,
		       const struct gq_yaml_node *node, struct gq_class_match *match)
{
	static const struct gq_policy_field fields[] = {
	    {"label", GQ_POLICY_TEXT, true, "write the key of a node label"},
	    {"values", GQ_POLICY_LIST, true, "write the label's values: [a, b]"},
	};
	struct gq_policy_reader *r = c->r;
	const struct gq_yaml_node *value[2];

	if (!gq_policy_fields(r, node, "match", fields, 2, value))
		return false;
	if (!gq_policy_is_label_key(value[0]->text, value[0]->len)) {
		GQ_REPORT(r, value[0], "write it as on the node, such as nvidia.com/gpu.product",
			  "%s cannot be the key of a label", GQ_QUOTE(value[0]));
		return false;
	}
	if (!value[1]->n) {
		GQ_REPORT(r, value[1], "write the label's values, or remove the match",
			  "values: an empty list matches no node");
		return false;
	}
	const char **values = gq_pool_alloc(r->scratch, value[1]->n, sizeof *values);
	if (!values)
		return false;
	match->label = value[0]->text;
	match->values = values;
	for (const struct gq_yaml_node *v = value[1]->first; v; v = v->next) {
		struct gq_hint hint;
		if (!gq_policy_expect(r, v, "value", GQ_POLICY_TEXT))
			return false;
		if (!gq_policy_is_label_value(v->text, v->len) || !v->len) {
			GQ_REPORT(r, v, "write it as on the node, at most 63 characters",
				  "%s cannot be the value of a label", GQ_QUOTE(v));
			return false;
		}
		size_t len = value[0]->len + 1 + v->len;
		char *pair = gq_pool_alloc(r->scratch, len + 1, 1);
		if (!pair)
			return false;
		(void)snprintf(pair, len + 1, "%s=%s", value[0]->text, v->text);
		const struct class_nodes *other = gq_map_get(c->by_match, pair, len);
		if (other && other != owner) {
			gq_hint(&hint, "leave it with one of %s and %s", other->name->text,
				owner->name->text);
			GQ_REPORT(r, v, hint.text, "%s is matched by class %s in line %u already",
				  GQ_QUOTE(v), GQ_QUOTE(other->name), other->name->line);
			return false;
		}
		if (gq_map_put(c->by_match, pair, len, owner, NULL))
			r->failed = true;
		values[match->n_values++] = v->text;
	}
	return true;
}

static void read_matches(struct class_reader *c, struct class_nodes *owner,
			 const struct gq_yaml_node *list, struct gq_class_def *def)
{
	struct gq_class_match *matches = gq_pool_alloc(c->r->scratch, list->n, sizeof *matches);

	if (!matches)
		return;
	def->matches = matches;
	for (const struct gq_yaml_node *item = list->first; item; item = item->next) {
		if (read_match(c, owner, item, &matches[def->n_matches]))
			def->n_matches++;
		else
			c->bad = true;
	}
}

static bool good_name(struct class_reader *c, const struct gq_yaml_node *name)
{
	struct gq_policy_reader *r = c->r;

	if (strcmp(name->text, "*") == 0 || strcasecmp(name->text, "other") == 0) {
		GQ_REPORT(r, name, "choose another name",
			  "class %s is built in and cannot be defined anew", GQ_QUOTE(name));
		return false;
	}
	if (!name->len || !gq_policy_is_label_value(name->text, name->len)) {
		GQ_REPORT(r, name, "use letters, digits, \"-\", \"_\" and \".\", at most 63",
			  "%s cannot be the name of a class", GQ_QUOTE(name));
		return false;
	}
	return true;
}

static void read_class(struct class_reader *c, const struct gq_yaml_node *node)
{
	static const struct gq_policy_field fields[] = {
	    {"match", GQ_POLICY_LIST, false, NULL},
	    {"memory", GQ_POLICY_SCALAR, false, NULL},
	    {"parent", GQ_POLICY_TEXT, false, NULL},
	};
	struct gq_policy_reader *r = c->r;
	const struct gq_yaml_node *value[3];
	struct class_nodes *nodes = &c->nodes[c->n];
	struct gq_class_def *def = &c->defs[c->n];

	if (!good_name(c, node->key)) {
		c->bad = true;
		return;
	}
	if (!gq_policy_fields(r, node, "class", fields, 3, value))
		c->bad = true;
	*nodes = (struct class_nodes){node->key, value[2], fold_copy(r, node->key), c->n};
	if (!nodes->folded)
		return;
	const struct class_nodes *twin = gq_map_get(c->by_name, nodes->folded, node->key->len);
	if (twin) {
		GQ_REPORT(r, node->key, "remove one of the two",
			  "class %s is defined as %s in line %u already", GQ_QUOTE(node->key),
			  GQ_QUOTE(twin->name), twin->name->line);
		c->bad = true;
		return;
	}
	if (gq_map_put(c->by_name, nodes->folded, node->key->len, nodes, NULL))
		r->failed = true;
	def->name = node->key->text;
	def->parent = value[2] ? value[2]->text : NULL;
	if (value[1]) {
		if (!gq_policy_memory(r, value[1], &def->memory_mib)) {
			c->bad = true;
		} else if (!def->memory_mib) {
			GQ_REPORT(r, value[1], "write the memory of one device, or remove the key",
				  "memory: a device has more than 0");
			c->bad = true;
		}
	}
	if (value[0])
		read_matches(c, nodes, value[0], def);
	c->n++;
}

static struct class_nodes *own_class(const struct class_reader *c, const char *name)
{
	char folded[64];
	size_t len = strlen(name);

	if (len >= sizeof folded)
		return NULL;
	for (size_t i = 0; i <= len; i++)
		folded[i] =
		    (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]);
	return gq_map_get(c->by_name, folded, len);
}

/* Where a class hangs once the policy's own parents are in force; NULL at the root. */
static const char *parent_of(const struct class_reader *c, const char *name)
{
	const struct class_nodes *own = own_class(c, name);

	if (own && own->parent)
		return own->parent->text;
	int id = gq_class_find(c->r->builtin, name);
	int parent = id == GQ_CLASS_NONE ? GQ_CLASS_NONE : gq_class_parent(c->r->builtin, id);
	return parent == GQ_CLASS_NONE ? NULL : gq_class_name(c->r->builtin, parent);
}

/* Every cycle goes through a class of the policy: whether this is the first one that one does. */
static bool on_cycle(const struct class_reader *c, const struct class_nodes *nodes)
{
	const char *name = parent_of(c, nodes->name->text);

	for (size_t steps = 0; name && steps <= c->n + GQ_CLASS_MAX; steps++) {
		const struct class_nodes *own = own_class(c, name);
		if (own == nodes)
			return true;
		if (own && own->parent && own->index < nodes->index)
			return false;
		name = parent_of(c, name);
	}
	return false;
}

static void report_cycle(struct class_reader *c, const struct class_nodes *nodes)
{
	struct gq_policy_reader *r = c->r;
	struct gq_buf GQ_BUF_CLEANUP path = GQ_BUF_INIT(1024);
	const char *name = nodes->name->text;

	gq_buf_puts(&path, name);
	do {
		name = parent_of(c, name);
		if (path.len > 800) {
			gq_buf_printf(&path, " -> … -> %s", nodes->name->text);
			break;
		}
		gq_buf_printf(&path, " -> %s", name);
	} while (own_class(c, name) != nodes);
	c->bad = true;
	if (path.code)
		r->failed = true;
	else
		GQ_REPORT(r, nodes->parent, "give one of them another parent, or none",
			  "parent cycle of classes: %s", path.data);
}

static void check_parent(struct class_reader *c, const struct class_nodes *nodes)
{
	struct gq_policy_reader *r = c->r;
	const struct gq_yaml_node *parent = nodes->parent;
	struct gq_hint hint;

	if (strcasecmp(parent->text, "other") == 0) {
		GQ_REPORT(r, parent, "leave parent out, or name a model",
			  "class \"other\" holds no classes");
		c->bad = true;
		return;
	}
	if (!own_class(c, parent->text) &&
	    gq_class_find(r->builtin, parent->text) == GQ_CLASS_NONE) {
		struct gq_nearest nearest = gq_nearest_to(parent->text, parent->len);
		bool wanted = gq_policy_report_wants(r->report, parent->line, parent->column);
		for (size_t i = 0; wanted && i < c->n; i++)
			gq_nearest_offer(&nearest, c->defs[i].name);
		const char *near = nearest.best;
		if (!near && wanted)
			near = gq_class_suggest(r->builtin, parent->text);
		if (near)
			gq_hint(&hint, "did you mean \"%s\"?", near);
		else
			gq_hint(&hint, "define it under \"classes\"");
		GQ_REPORT(r, parent, hint.text, "unknown class %s as parent", GQ_QUOTE(parent));
		c->bad = true;
		return;
	}
	if (on_cycle(c, nodes))
		report_cycle(c, nodes);
}

static void build_table(struct class_reader *c, const struct gq_yaml_node *node)
{
	struct gq_err err;
	int code = gq_class_table_new(c->defs, c->n, &c->r->classes, &err);

	if (code == GQ_ENOMEM)
		c->r->failed = true;
	else if (code)
		GQ_REPORT(c->r, node, "see docs/policy.md for the built-in classes", "classes: %s",
			  err.msg);
}

void gq_policy_read_classes(struct gq_policy_reader *r, const struct gq_yaml_node *node)
{
	struct gq_map *GQ_CLEANUP(gq_cleanup_map) by_name = gq_map_new();
	struct gq_map *GQ_CLEANUP(gq_cleanup_map) by_match = gq_map_new();

	if (gq_class_table_new(NULL, 0, &r->builtin, NULL) || !by_name || !by_match) {
		r->failed = true;
		return;
	}
	if (!node)
		return;
	r->class_map = node;
	if (node->n > GQ_CLASS_MAX) {
		GQ_REPORT(r, node, "define fewer", "more than %d classes", GQ_CLASS_MAX);
		return;
	}
	struct class_reader c = {
	    .r = r,
	    .by_name = by_name,
	    .by_match = by_match,
	    .defs = gq_pool_alloc(r->scratch, node->n, sizeof *c.defs),
	    .nodes = gq_pool_alloc(r->scratch, node->n, sizeof *c.nodes),
	};
	if (!c.defs || !c.nodes)
		return;
	for (const struct gq_yaml_node *item = node->first; item; item = item->next)
		read_class(&c, item);
	for (size_t i = 0; i < c.n; i++)
		if (c.nodes[i].parent)
			check_parent(&c, &c.nodes[i]);
	if (!c.bad && !r->failed && !r->scratch->failed)
		build_table(&c, node);
}
