#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quota/ledger_internal.h"

/* Which tenant a namespace belongs to. Names are one look-up. A selector is filed under one of its
 * key=value pairs, so that only the tenants that could match a namespace's labels are looked at; the
 * few selectors without such a pair are tried each time. */

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
	if (!bucket->key ||
	    gq_map_put(selected, bucket->key, strlen(bucket->key), bucket, NULL)) {
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
