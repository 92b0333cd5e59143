#include "quota/class.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "quota/class_internal.h"
#include "quota/edit.h"

#define TOLD_MAX 16384 /* label values of all classes of a policy */

static int find_slowly(const struct gq_class_table *table, const char *name)
{
	for (size_t i = 0; i < table->n; i++)
		if (strcasecmp(table->classes[i].name, name) == 0)
			return (int)i;
	return GQ_CLASS_NONE;
}

static int add_class(struct gq_class_table *table, const char *name)
{
	table->classes[table->n] =
	    (struct gq_class_entry){.name = name, .parent = GQ_CLASS_ANY, .model = GQ_CLASS_NONE};
	return (int)table->n++;
}

static int add_builtins(struct gq_class_table *table, struct gq_err *err)
{
	add_class(table, "*");
	add_class(table, "other");
	table->classes[GQ_CLASS_ANY].parent = GQ_CLASS_NONE;
	for (size_t i = 0; i < gq_class_builtin_count; i++) {
		const struct gq_class_builtin *builtin = &gq_class_builtins[i];
		int id = add_class(table, builtin->name);
		struct gq_class_entry *entry = &table->classes[id];
		entry->memory_mib = builtin->memory_mib;
		entry->gb = builtin->gb;
		if (builtin->model) {
			entry->model = find_slowly(table, builtin->model);
			entry->parent = entry->model;
		}
		if (builtin->patterns && !gq_class_patterns_add(table, builtin->patterns, id))
			return gq_fail(err, GQ_EINVALID, "built-in class %s has bad patterns",
				       builtin->name);
	}
	gq_class_patterns_sort(table);
	return 0;
}

static char *copy_string(char **at, const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = *at;

	memcpy(copy, text, size);
	*at += size;
	return copy;
}

/* Room for every string of the policy that the table keeps. */
static int make_room(struct gq_class_table *table, const struct gq_class_def *defs, size_t n_defs,
		     struct gq_err *err)
{
	size_t bytes = 1, n_told = 0;

	for (size_t i = 0; i < n_defs; i++) {
		bytes += strlen(defs[i].name) + 1;
		for (size_t m = 0; m < defs[i].n_matches; m++) {
			const struct gq_class_match *match = &defs[i].matches[m];
			bytes += strlen(match->label) + 1;
			n_told += match->n_values;
			if (n_told > TOLD_MAX)
				return gq_fail(err, GQ_ETOOBIG,
					       "classes match more than %d label values", TOLD_MAX);
			for (size_t v = 0; v < match->n_values; v++)
				bytes += strlen(match->values[v]) + 1;
		}
	}
	table->strings = malloc(bytes);
	table->told = calloc(n_told + 1, sizeof *table->told);
	if (!table->strings || !table->told)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	return 0;
}

/* Finds or adds the class of each definition: ids[i] for defs[i]. */
static int name_defs(struct gq_class_table *table, const struct gq_class_def *defs, size_t n_defs,
		     char **at, int *ids, struct gq_err *err)
{
	for (size_t i = 0; i < n_defs; i++) {
		const char *name = defs[i].name;
		size_t len = strlen(name);
		if (len == 0)
			return gq_fail(err, GQ_EINVALID, "a class has no name");
		if (len > GQ_CLASS_NAME_MAX)
			return gq_fail(err, GQ_ETOOBIG, "class %.32s…: the name is over %d bytes",
				       name, GQ_CLASS_NAME_MAX);
		int id = find_slowly(table, name);
		if (id == GQ_CLASS_ANY || id == GQ_CLASS_OTHER)
			return gq_fail(err, GQ_EINVALID, "class \"%s\" can't be redefined", name);
		for (size_t k = 0; k < i; k++)
			if (id != GQ_CLASS_NONE && ids[k] == id)
				return gq_fail(err, GQ_EINVALID, "class \"%s\" is defined twice",
					       name);
		if (id == GQ_CLASS_NONE) {
			if (table->n == GQ_CLASS_MAX)
				return gq_fail(err, GQ_ETOOBIG, "more than %d classes",
					       GQ_CLASS_MAX);
			id = add_class(table, copy_string(at, name));
		}
		if (defs[i].memory_mib > 0)
			table->classes[id].memory_mib = defs[i].memory_mib;
		ids[i] = id;
	}
	return 0;
}

static int set_parents(struct gq_class_table *table, const struct gq_class_def *defs, size_t n_defs,
		       const int *ids, struct gq_err *err)
{
	for (size_t i = 0; i < n_defs; i++) {
		if (!defs[i].parent)
			continue;
		int parent = find_slowly(table, defs[i].parent);
		if (parent == GQ_CLASS_NONE)
			return gq_fail(err, GQ_EINVALID,
				       "class \"%s\": its parent \"%.63s\" is no class",
				       defs[i].name, defs[i].parent);
		if (parent == GQ_CLASS_OTHER)
			return gq_fail(err, GQ_EINVALID, "class \"%s\" can't be below \"other\"",
				       defs[i].name);
		table->classes[ids[i]].parent = parent;
	}
	for (size_t i = 0; i < n_defs; i++) {
		size_t steps = 0;
		for (int id = ids[i]; id != GQ_CLASS_NONE; id = table->classes[id].parent)
			if (steps++ > table->n)
				return gq_fail(err, GQ_EINVALID, "class \"%s\" is its own ancestor",
					       defs[i].name);
	}
	return 0;
}

static void inherit_memory(struct gq_class_table *table)
{
	for (size_t i = 1; i < table->n; i++)
		for (int up = (int)i; !table->classes[i].memory_mib && up != GQ_CLASS_NONE;
		     up = table->classes[up].parent)
			table->classes[i].memory_mib = table->classes[up].memory_mib;
}

static int compare_told(const void *a, const void *b)
{
	const struct gq_class_told *x = a, *y = b;
	int order = strcmp(x->label, y->label);

	if (order == 0)
		order = strcmp(x->value, y->value);
	if (order == 0)
		order = (x->order > y->order) - (x->order < y->order);
	return order;
}

static int set_matches(struct gq_class_table *table, const struct gq_class_def *defs, size_t n_defs,
		       char **at, const int *ids, struct gq_err *err)
{
	size_t kept = 0;

	for (size_t i = 0; i < n_defs; i++) {
		for (size_t m = 0; m < defs[i].n_matches; m++) {
			const struct gq_class_match *match = &defs[i].matches[m];
			const char *label = copy_string(at, match->label);
			for (size_t v = 0; v < match->n_values; v++) {
				table->told[table->n_told] =
				    (struct gq_class_told){label, copy_string(at, match->values[v]),
							   ids[i], table->n_told};
				table->n_told++;
			}
		}
	}
	if (table->n_told)
		qsort(table->told, table->n_told, sizeof *table->told, compare_told);
	for (size_t i = 0; i < table->n_told; i++) {
		const struct gq_class_told *last = kept ? &table->told[kept - 1] : NULL;
		const struct gq_class_told *told = &table->told[i];
		if (last && strcmp(last->label, told->label) == 0 &&
		    strcmp(last->value, told->value) == 0) {
			if (last->id == told->id)
				continue;
			return gq_fail(err, GQ_EINVALID,
				       "classes \"%s\" and \"%s\" both match %s=%s",
				       table->classes[last->id].name, table->classes[told->id].name,
				       told->label, told->value);
		}
		table->told[kept++] = *told;
	}
	table->n_told = kept;
	return 0;
}

static void set_leaves(struct gq_class_table *table)
{
	bool has_child[GQ_CLASS_MAX] = {false};

	for (size_t i = 1; i < table->n; i++)
		has_child[table->classes[i].parent] = true;
	for (size_t i = 0; i < table->n; i++)
		for (int up = (int)i; !has_child[i] && up != GQ_CLASS_NONE;
		     up = table->classes[up].parent)
			gq_class_set_add(&table->classes[up].leaves, (int)i);
}

static void sort_names(struct gq_class_table *table)
{
	for (size_t i = 0; i < table->n; i++) {
		size_t at = i;
		for (; at > 0; at--) {
			int before = table->by_name[at - 1];
			if (strcasecmp(table->classes[before].name, table->classes[i].name) < 0)
				break;
			table->by_name[at] = before;
		}
		table->by_name[at] = (int)i;
	}
}

int gq_class_table_new(const struct gq_class_def *defs, size_t n_defs,
		       struct gq_class_table **ret_table, struct gq_err *err)
{
	GQ_CLEANUP(gq_cleanup_class_table) struct gq_class_table *table = NULL;
	int ids[GQ_CLASS_MAX];
	int code;

	if (n_defs > GQ_CLASS_MAX)
		return gq_fail(err, GQ_ETOOBIG, "more than %d classes", GQ_CLASS_MAX);
	table = calloc(1, sizeof *table);
	if (!table)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	if ((code = add_builtins(table, err)) || (code = make_room(table, defs, n_defs, err)))
		return code;
	char *at = table->strings;
	if ((code = name_defs(table, defs, n_defs, &at, ids, err)) ||
	    (code = set_parents(table, defs, n_defs, ids, err)) ||
	    (code = set_matches(table, defs, n_defs, &at, ids, err)))
		return code;
	inherit_memory(table);
	set_leaves(table);
	sort_names(table);
	*ret_table = GQ_STEAL(table);
	return 0;
}

void gq_class_table_free(struct gq_class_table *table)
{
	if (!table)
		return;
	free(table->told);
	free(table->strings);
	free(table);
}

int gq_class_find(const struct gq_class_table *table, const char *name)
{
	size_t low = 0, high = table->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int id = table->by_name[mid];
		int order = strcasecmp(table->classes[id].name, name);
		if (order == 0)
			return id;
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return GQ_CLASS_NONE;
}

const char *gq_class_name(const struct gq_class_table *table, int id)
{
	return table->classes[id].name;
}

size_t gq_class_count(const struct gq_class_table *table)
{
	return table->n;
}

int gq_class_parent(const struct gq_class_table *table, int id)
{
	return table->classes[id].parent;
}

const struct gq_class_set *gq_class_leaves(const struct gq_class_table *table, int id)
{
	return &table->classes[id].leaves;
}

int64_t gq_class_memory_mib(const struct gq_class_table *table, int id)
{
	return table->classes[id].memory_mib;
}

bool gq_class_inside(const struct gq_class_table *table, int id, int ancestor)
{
	while (id != GQ_CLASS_NONE && id != ancestor)
		id = table->classes[id].parent;
	return id == ancestor;
}

/* Without case, and with the letter O as the digit that it is mistaken for. */
static char fold_name(char c)
{
	return c == 'o' || c == 'O' ? '0' : gq_edit_fold(c);
}

static size_t common_start(const char *a, const char *b)
{
	size_t n = 0;

	while (a[n] && fold_name(a[n]) == fold_name(b[n]))
		n++;
	return n;
}

/* A slip of one character first; then what it says when read as the name of a product; then names
 * in which at most every third character differs. */
const char *gq_class_suggest(const struct gq_class_table *table, const char *name)
{
	size_t len = strlen(name), best = SIZE_MAX, best_start = 0;
	const char *nearest = NULL;

	for (size_t i = 1; i < table->n && len <= GQ_CLASS_NAME_MAX; i++) {
		const char *known = table->classes[i].name;
		size_t d = gq_edit_distance(name, len, known, strlen(known), SIZE_MAX, fold_name);
		size_t start = common_start(name, known);
		if (d < best || (d == best && start > best_start)) {
			nearest = known;
			best = d;
			best_start = start;
		}
	}
	if (len > 1 && best <= 1)
		return nearest;
	struct gq_class_product product = gq_class_read_product(table, name);
	if (product.class_id > GQ_CLASS_OTHER)
		return table->classes[product.class_id].name;
	return best <= len / 3 ? nearest : NULL;
}
