#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quota/ledger_internal.h"

/* Which tenant a namespace belongs to. Names are one look-up. A selector is filed under one of its
 * key=value pairs, so that only the tenants that could match a namespace's labels are looked at;
 * the few selectors without such a pair are tried each time. */

#define KEY_MAX_BYTES 1024

struct gq_tenancy_name {
	const char *namespace_;
	int tenant; /* -1: exempt */
};

struct gq_tenancy_bucket {
	char *key; /* "label key=value" */
	int *tenants;
	size_t n, cap;
};

struct gq_tenancy {
	struct gq_tenancy_name *names;
	size_t n_names;
	struct gq_tenancy_bucket rest; /* selectors that are filed nowhere */
};

static int bucket_add(struct gq_tenancy_bucket *bucket, int tenant)
{
	if (bucket->n > 0 && bucket->tenants[bucket->n - 1] == tenant)
		return 0;
	if (bucket->n == bucket->cap) {
		size_t cap = bucket->cap ? bucket->cap * 2 : 4;
		int *tenants = realloc(bucket->tenants, cap * sizeof *tenants);
		if (!tenants)
			return GQ_ENOMEM;
		bucket->tenants = tenants;
		bucket->cap = cap;
	}
	bucket->tenants[bucket->n++] = tenant;
	return 0;
}

static void bucket_free(struct gq_tenancy_bucket *bucket)
{
	if (!bucket)
		return;
	free(bucket->key);
	free(bucket->tenants);
	free(bucket);
}

static struct gq_tenancy_bucket *bucket_get(struct gq_map *selected, const char *key)
{
	struct gq_tenancy_bucket *bucket = gq_map_get(selected, key, strlen(key));

	if (bucket)
		return bucket;
	bucket = calloc(1, sizeof *bucket);
	if (!bucket)
		return NULL;
	bucket->key = strdup(key);
	if (!bucket->key || gq_map_put(selected, bucket->key, strlen(bucket->key), bucket, NULL)) {
		bucket_free(bucket);
		return NULL;
	}
	return bucket;
}

static int file_selector(struct gq_book *book, int tenant)
{
	const struct gq_label_selector *selector = book->tenants[tenant].spec->selector;
	char key[KEY_MAX_BYTES];

	for (size_t i = 0; i < selector->n_requirements; i++) {
		const struct gq_requirement *r = &selector->requirements[i];
		if (r->op != GQ_OP_IN)
			continue;
		for (size_t v = 0; v < r->n_values; v++) {
			(void)snprintf(key, sizeof key, "%s=%s", r->key, r->values[v]);
			struct gq_tenancy_bucket *bucket = bucket_get(book->selected, key);
			if (!bucket || bucket_add(bucket, tenant))
				return GQ_ENOMEM;
		}
		return 0;
	}
	return bucket_add(&book->tenancy->rest, tenant);
}

static int file_name(struct gq_book *book, const char *name, int tenant)
{
	struct gq_tenancy_name *entry = &book->tenancy->names[book->tenancy->n_names++];

	*entry = (struct gq_tenancy_name){.namespace_ = name, .tenant = tenant};
	return gq_map_put(book->named, name, strlen(name), entry, NULL);
}

int gq_tenancy_build(struct gq_book *book)
{
	size_t n = book->policy->n_exempt_namespaces;

	for (size_t t = 0; t < book->n_tenants; t++)
		n += book->tenants[t].spec->n_namespaces;
	book->tenancy = calloc(1, sizeof *book->tenancy);
	book->named = gq_map_new();
	book->selected = gq_map_new();
	if (!book->tenancy || !book->named || !book->selected)
		return GQ_ENOMEM;
	book->tenancy->names = calloc(n + 1, sizeof *book->tenancy->names);
	if (!book->tenancy->names)
		return GQ_ENOMEM;
	for (size_t t = 0; t < book->n_tenants; t++) {
		const struct gq_tenant *spec = book->tenants[t].spec;
		for (size_t i = 0; i < spec->n_namespaces; i++)
			if (file_name(book, spec->namespaces[i], (int)t))
				return GQ_ENOMEM;
		if (spec->selector && file_selector(book, (int)t))
			return GQ_ENOMEM;
	}
	for (size_t i = 0; i < book->policy->n_exempt_namespaces; i++)
		if (file_name(book, book->policy->exempt_namespaces[i], -1))
			return GQ_ENOMEM;
	return 0;
}

void gq_tenancy_free(struct gq_book *book)
{
	size_t cursor = 0;

	if (book->selected)
		for (struct gq_tenancy_bucket *b; (b = gq_map_next(book->selected, &cursor));)
			bucket_free(b);
	gq_map_free(book->selected);
	gq_map_free(book->named);
	if (book->tenancy) {
		free(book->tenancy->names);
		free(book->tenancy->rest.tenants);
		free(book->tenancy);
	}
}

/* Tries the tenants of a bucket; notes the first two that match. */
static void try_bucket(const struct gq_book *book, const struct gq_tenancy_bucket *bucket,
		       const struct gq_namespace *object, struct gq_assign *assign)
{
	for (size_t i = 0; i < bucket->n && assign->second < 0; i++) {
		int t = bucket->tenants[i];
		if (t == assign->first ||
		    !gq_label_selector_matches(book->tenants[t].spec->selector, object->labels,
					       object->n_labels))
			continue;
		if (assign->first < 0)
			assign->first = t;
		else
			assign->second = t;
	}
}

struct gq_assign gq_tenancy_assign(const struct gq_book *book, const char *name,
				   const struct gq_namespace *object, int before_tenant)
{
	struct gq_assign assign = {.kind = GQ_ASSIGN_NONE, .tenant = -1, .first = -1, .second = -1};
	const struct gq_tenancy_name *named = gq_map_get(book->named, name, strlen(name));

	if (named) {
		assign.kind = named->tenant < 0 ? GQ_ASSIGN_EXEMPT : GQ_ASSIGN_TENANT;
		assign.tenant = named->tenant;
		return assign;
	}
	if (!object) {
		/* Without selectors there is nothing that labels could change. */
		if (gq_map_count(book->selected) > 0 || book->tenancy->rest.n > 0) {
			assign.kind = GQ_ASSIGN_UNKNOWN;
			assign.tenant = before_tenant;
		}
		return assign;
	}
	for (size_t i = 0; i < object->n_labels; i++) {
		char key[KEY_MAX_BYTES];
		int len = snprintf(key, sizeof key, "%s=%s", object->labels[i].key,
				   object->labels[i].value);
		if (len < 0 || (size_t)len >= sizeof key)
			continue; /* longer than any label that a selector can name */
		const struct gq_tenancy_bucket *bucket =
		    gq_map_get(book->selected, key, (size_t)len);
		if (bucket)
			try_bucket(book, bucket, object, &assign);
	}
	try_bucket(book, &book->tenancy->rest, object, &assign);
	if (assign.second >= 0) {
		assign.kind = GQ_ASSIGN_AMBIGUOUS;
		assign.tenant = before_tenant;
	} else if (assign.first >= 0) {
		assign.kind = GQ_ASSIGN_TENANT;
		assign.tenant = assign.first;
	}
	return assign;
}

/* ---- namespaces of the ledger ---- */

/* The books in which the namespace has a tenant: the one in force (0), and the one that is being
 * built (1) once its own walk over the namespaces has come here. NULL: it is none. */
static const struct gq_book *ns_book(const struct gq_ledger *ledger, const struct gq_ns *ns, int i)
{
	if (i == 0)
		return ledger->cur;
	return ns->assigned_in == ledger->build ? ledger->next : NULL;
}

static void ns_assign(struct gq_ledger *ledger, struct gq_ns *ns)
{
	for (int i = 0; i < 2; i++) {
		const struct gq_book *book = ns_book(ledger, ns, i);
		if (book)
			ns->assign[book->bank] = gq_tenancy_assign(book, ns->name, ns->object,
								   ns->assign[book->bank].tenant);
	}
	ledger->generation++;
}

struct gq_ns *gq_ledger_ns_get(struct gq_ledger *ledger, const char *name)
{
	struct gq_ns *ns = gq_map_get(ledger->namespaces, name, strlen(name));

	if (ns)
		return ns;
	ns = calloc(1, sizeof *ns);
	if (!ns)
		return NULL;
	ns->name = strdup(name);
	gq_list_init(&ns->slots);
	for (int i = 0; i < 2; i++)
		ns->assign[i] = (struct gq_assign){GQ_ASSIGN_UNKNOWN, -1, -1, -1};
	if (!ns->name || gq_map_put(ledger->namespaces, ns->name, strlen(ns->name), ns, NULL)) {
		free(ns->name);
		free(ns);
		return NULL;
	}
	gq_list_append(&ledger->all_namespaces, &ns->in_all);
	ns->assigned_in = ledger->build;
	ns_assign(ledger, ns);
	return ns;
}

void gq_ledger_ns_free(struct gq_ns *ns)
{
	gq_namespace_unref(ns->object);
	free(ns->name);
	free(ns);
}

void gq_ledger_ns_drop_unused(struct gq_ledger *ledger, struct gq_ns *ns)
{
	if (ns->object || ns->n_slots > 0)
		return;
	if (ledger->ns_cursor == &ns->in_all)
		ledger->ns_cursor = ns->in_all.next;
	gq_list_remove(&ns->in_all);
	gq_map_remove(ledger->namespaces, ns->name, strlen(ns->name));
	gq_ledger_ns_free(ns);
}

static bool assign_equal(const struct gq_assign *a, const struct gq_assign *b)
{
	return a->kind == b->kind && a->tenant == b->tenant && a->first == b->first &&
	       a->second == b->second;
}

/* Whether the namespace's charges would move with these labels, and whether anything would. */
static bool ns_moves(const struct gq_ledger *ledger, const struct gq_ns *ns,
		     const struct gq_namespace *object, bool *ret_changes)
{
	bool moves = false;

	*ret_changes = false;
	for (int i = 0; i < 2; i++) {
		const struct gq_book *book = ns_book(ledger, ns, i);
		if (!book)
			continue;
		const struct gq_assign *now = &ns->assign[book->bank];
		struct gq_assign then = gq_tenancy_assign(book, ns->name, object, now->tenant);
		*ret_changes = *ret_changes || !assign_equal(now, &then);
		moves = moves || then.tenant != now->tenant;
	}
	return moves && ns->n_slots > 0;
}

static void ns_set_object(struct gq_ledger *ledger, struct gq_ns *ns,
			  const struct gq_namespace *object)
{
	gq_namespace_unref(ns->object);
	ns->object = gq_namespace_ref(object);
	ns->list_epoch = ledger->epoch[GQ_NAMESPACES];
}

/* Applies new labels. False, and nothing done: its charges would move and are too many to be moved
 * under the lock while others decide. */
static bool ns_update(struct gq_ledger *ledger, struct gq_ns *ns, const struct gq_namespace *object,
		      int64_t now_ns)
{
	bool changes, moves = ns_moves(ledger, ns, object, &changes);

	if (moves && ns->n_slots > GQ_SLICE && ledger->synced)
		return false;
	ns_set_object(ledger, ns, object);
	if (!changes)
		return true;
	struct gq_list *at = ns->slots.next;
	for (; moves && at != &ns->slots; at = at->next)
		gq_ledger_uncount(ledger, gq_list_entry(at, struct gq_slot, in_ns), now_ns);
	ns_assign(ledger, ns);
	for (at = ns->slots.next; moves && at != &ns->slots; at = at->next)
		gq_ledger_count(ledger, gq_list_entry(at, struct gq_slot, in_ns), now_ns);
	return true;
}

/* Moves a namespace by counting anew. The labels are put in place once no other counting is under
 * way, which would take the move for an error of the totals. newest: as below. */
static int ns_move_large(struct gq_ledger *ledger, const struct gq_namespace *object, bool newest,
			 int64_t now_ns, struct gq_err *err)
{
	int code = GQ_ENOMEM;

	gq_lock_take(&ledger->build_lock);
	gq_ledger_lock(ledger);
	struct gq_ns *ns = gq_ledger_ns_get(ledger, object->name);
	if (ns && (newest || !ns->object))
		ns_set_object(ledger, ns, object);
	gq_ledger_unlock(ledger);
	if (ns)
		code = gq_ledger_rebuild_held(ledger, NULL, now_ns, NULL, err);
	else
		gq_fail(err, code, "out of memory for namespace %s", object->name);
	gq_lock_release(&ledger->build_lock);
	return code;
}

/* newest: the watch showed it; else it counts only where the watch has shown nothing. */
static int ns_take(struct gq_ledger *ledger, const struct gq_namespace *object, bool newest,
		   int64_t now_ns, struct gq_err *err)
{
	gq_ledger_lock(ledger);
	struct gq_ns *ns = gq_ledger_ns_get(ledger, object->name);
	bool done = ns && ((ns->object && !newest) || ns_update(ledger, ns, object, now_ns));
	gq_ledger_unlock(ledger);
	if (!ns)
		return gq_fail(err, GQ_ENOMEM, "out of memory for namespace %s", object->name);
	return done ? 0 : ns_move_large(ledger, object, newest, now_ns, err);
}

int gq_ledger_namespace_seen(struct gq_ledger *ledger, const struct gq_namespace *object,
			     int64_t now_ns, struct gq_err *err)
{
	return ns_take(ledger, object, true, now_ns, err);
}

int gq_ledger_namespace_read(struct gq_ledger *ledger, const struct gq_namespace *object,
			     int64_t now_ns, struct gq_err *err)
{
	return ns_take(ledger, object, false, now_ns, err);
}

/* Pods of a namespace that is gone are gone as well or soon will be; they stay charged where they
 * were until the watch says so. One of that name that is made again is read first. */
static void ns_gone(struct gq_ledger *ledger, struct gq_ns *ns)
{
	gq_namespace_unref(ns->object);
	ns->object = NULL;
	ns_assign(ledger, ns);
	gq_ledger_ns_drop_unused(ledger, ns);
}

void gq_ledger_namespace_gone(struct gq_ledger *ledger, const char *name)
{
	gq_ledger_lock(ledger);
	struct gq_ns *ns = gq_map_get(ledger->namespaces, name, strlen(name));
	if (ns)
		ns_gone(ledger, ns);
	gq_ledger_unlock(ledger);
}

void gq_ledger_ns_sweep(struct gq_ledger *ledger)
{
	gq_ledger_lock(ledger);
	for (struct gq_list *at = ledger->all_namespaces.next, *then; at != &ledger->all_namespaces;
	     at = then) {
		struct gq_ns *ns = gq_list_entry(at, struct gq_ns, in_all);
		then = at->next;
		if (ns->object && ns->list_epoch != ledger->epoch[GQ_NAMESPACES])
			ns_gone(ledger, ns);
	}
	gq_ledger_unlock(ledger);
}
