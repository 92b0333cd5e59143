#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "quota/class_internal.h"
#include "quota/demand.h"
#include "quota/nodes_internal.h"

#define RESOURCES_MAX 8      /* names that one pod needs of a node */
#define SLOTS_MAX 8          /* labels of one selector that tell the class */
#define ALTERNATIVES_MAX 256 /* combinations of their values */

/* Comparisons for one pod, so that no selector, however long, keeps a worker for long. A pod that
 * needs more is matched as one that may land anywhere. */
#define COMPARISONS_MAX 500000

struct matcher {
	const struct gq_node_snapshot *s;
	const struct gq_pod *pod;
	const char *resources[RESOURCES_MAX];
	size_t n_resources;
	size_t comparisons; /* left */
	struct gq_candidates *out;
};

static bool spend(struct matcher *m, size_t comparisons)
{
	if (comparisons > m->comparisons) {
		m->comparisons = 0;
		m->out->overflow = true;
		return false;
	}
	m->comparisons -= comparisons;
	return true;
}

static int candidate_cmp(const struct gq_candidate *a, int class_id, int64_t mib)
{
	if (a->class_id != class_id)
		return a->class_id < class_id ? -1 : 1;
	return (a->device_mib > mib) - (a->device_mib < mib);
}

static void add_leaf(struct gq_candidates *out, int class_id, int64_t mib, size_t nodes)
{
	size_t at = out->n;

	while (at > 0) {
		int order = candidate_cmp(&out->items[at - 1], class_id, mib);
		if (order == 0) {
			out->items[at - 1].nodes += nodes;
			return;
		}
		if (order < 0)
			break;
		at--;
	}
	if (out->n == GQ_CANDIDATES_MAX) {
		out->overflow = true;
		return;
	}
	memmove(&out->items[at + 1], &out->items[at], (out->n - at) * sizeof out->items[0]);
	out->items[at] = (struct gq_candidate){class_id, mib, nodes};
	out->n++;
}

/* nodes: how many are read so. */
static void add_reading(const struct gq_class_table *table, const struct gq_class_reading *reading,
			size_t nodes, struct gq_candidates *out)
{
	out->nodes += nodes;
	if (reading->class_id == GQ_CLASS_NONE) {
		out->unknown = true;
		out->unknown_nodes += nodes;
		return;
	}
	const struct gq_class_set *leaves = gq_class_leaves(table, reading->class_id);
	for (size_t w = 0; w < GQ_CLASS_MAX / 64; w++) {
		for (uint64_t bits = leaves->bits[w]; bits; bits &= bits - 1) {
			int id = (int)w * 64 + __builtin_ctzll(bits);
			add_leaf(out, id,
				 reading->memory_mib ? reading->memory_mib
						     : gq_class_memory_mib(table, id),
				 nodes);
		}
	}
}

static void reset(struct gq_candidates *out, enum gq_candidates_source source)
{
	out->source = source;
	out->unknown = false;
	out->overflow = false;
	out->nodes = out->unknown_nodes = 0;
	out->n = 0;
}

/* As Go's strconv.ParseInt(text, 10, 64): a sign and digits, nothing else. */
static bool parse_int(const char *text, long long *ret_number)
{
	const char *digits = text + (*text == '-' || *text == '+');
	char *end;

	if (*digits < '0' || *digits > '9')
		return false;
	errno = 0;
	long long number = strtoll(text, &end, 10);
	if (errno || *end)
		return false;
	*ret_number = number;
	return true;
}

static bool value_in(const struct gq_requirement *requirement, const char *value)
{
	for (size_t i = 0; i < requirement->n_values; i++)
		if (strcmp(requirement->values[i], value) == 0)
			return true;
	return false;
}

/* value: NULL when the key is absent.
 * Source: apimachinery/pkg/labels/selector.go, Requirement.Matches. */
static bool requirement_holds(const struct gq_requirement *requirement, const char *value)
{
	long long have, want;

	switch (requirement->op) {
	case GQ_OP_IN:
		return value && value_in(requirement, value);
	case GQ_OP_NOT_IN:
		return !value || !value_in(requirement, value);
	case GQ_OP_EXISTS:
		return value != NULL;
	case GQ_OP_DOES_NOT_EXIST:
		return value == NULL;
	case GQ_OP_GT:
	case GQ_OP_LT:
		if (!value || requirement->n_values != 1 || !parse_int(value, &have) ||
		    !parse_int(requirement->values[0], &want))
			return false;
		return requirement->op == GQ_OP_GT ? have > want : have < want;
	}
	return false;
}

static bool field_holds(const struct gq_requirement *requirement, const char *node_name)
{
	return strcmp(requirement->key, "metadata.name") == 0 &&
	       (requirement->op == GQ_OP_IN || requirement->op == GQ_OP_NOT_IN) &&
	       requirement_holds(requirement, node_name);
}

/* whole: of this very node. Else of its shape, and what a shape does not tell is taken to hold. */
static bool term_holds(struct matcher *m, const struct gq_node_term *term,
		       const struct gq_node *node, bool whole)
{
	if (term->n_expressions == 0 && term->n_fields == 0)
		return false;
	for (size_t i = 0; i < term->n_expressions; i++) {
		const struct gq_requirement *requirement = &term->expressions[i];
		if (!spend(m, 1 + requirement->n_values))
			return false;
		if (!whole && gq_node_left_out(m->s, requirement->key))
			continue;
		if (!requirement_holds(
			requirement, gq_label_get(node->labels, node->n_labels, requirement->key)))
			return false;
	}
	for (size_t i = 0; whole && i < term->n_fields; i++)
		if (!spend(m, 1 + term->fields[i].n_values) ||
		    !field_holds(&term->fields[i], node->name))
			return false;
	return true;
}

static bool selector_holds(struct matcher *m, const struct gq_node *node, bool whole)
{
	const struct gq_pod *pod = m->pod;

	if (!spend(m, 1 + pod->n_node_selector))
		return false;
	for (size_t i = 0; i < pod->n_node_selector; i++) {
		const struct gq_label *want = &pod->node_selector[i];
		if (!whole && gq_node_left_out(m->s, want->key))
			continue;
		const char *have = gq_label_get(node->labels, node->n_labels, want->key);
		if (!have || strcmp(have, want->value) != 0)
			return false;
	}
	if (!pod->has_affinity)
		return true;
	for (size_t i = 0; i < pod->n_affinity; i++)
		if (term_holds(m, &pod->affinity[i], node, whole))
			return true;
	return false;
}

/* Source: k8s.io/api/core/v1/toleration.go, ToleratesTaint. */
static bool tolerates(const struct gq_toleration *toleration, const struct gq_taint *taint)
{
	if (*toleration->effect && strcmp(toleration->effect, taint->effect) != 0)
		return false;
	if (*toleration->key && strcmp(toleration->key, taint->key) != 0)
		return false;
	return toleration->exists || strcmp(toleration->value, taint->value) == 0;
}

static bool taints_tolerated(const struct gq_pod *pod, const struct gq_node *node)
{
	for (size_t i = 0; i < node->n_taints; i++) {
		bool tolerated = false;
		for (size_t k = 0; !tolerated && k < pod->n_tolerations; k++)
			tolerated = tolerates(&pod->tolerations[k], &node->taints[i]);
		if (!tolerated)
			return false;
	}
	return true;
}

static bool resources_offered(const struct matcher *m, const struct gq_node *node)
{
	for (size_t i = 0; i < m->n_resources; i++) {
		bool offered = false;
		for (size_t k = 0; !offered && k < node->n_resources; k++)
			offered = node->resources[k].count > 0 &&
				  strcmp(node->resources[k].name, m->resources[i]) == 0;
		if (!offered)
			return false;
	}
	return true;
}

static bool fits(struct matcher *m, const struct gq_node *node, bool whole)
{
	return selector_holds(m, node, whole) && resources_offered(m, node) &&
	       spend(m, node->n_taints * m->pod->n_tolerations) && taints_tolerated(m->pod, node);
}

/* Whether shapes alone can't answer. */
static bool needs_nodes(const struct matcher *m)
{
	const struct gq_pod *pod = m->pod;

	for (size_t i = 0; i < pod->n_node_selector; i++)
		if (gq_node_left_out(m->s, pod->node_selector[i].key))
			return true;
	for (size_t i = 0; i < pod->n_affinity; i++) {
		const struct gq_node_term *term = &pod->affinity[i];
		if (term->n_fields)
			return true;
		for (size_t k = 0; k < term->n_expressions; k++)
			if (gq_node_left_out(m->s, term->expressions[k].key))
				return true;
	}
	return false;
}

static void match_indexed(struct matcher *m, const char *key, const char *value)
{
	const struct gq_node_snapshot *s = m->s;

	for (uint32_t at = gq_node_index_first(s, key, value); at != GQ_NODE_INDEX_END;
	     at = gq_node_index_next(s, at)) {
		const struct gq_node_known *known = &s->known[s->entries[at].known];
		if (known->shape != GQ_NODE_NO_SHAPE && fits(m, known->node, true))
			add_reading(s->table, &known->reading, 1, m->out);
	}
}

/* A requirement of the term that names its few nodes, or NULL. *ret_key: to look them up by. */
static const struct gq_requirement *pinning(const struct matcher *m,
					    const struct gq_node_term *term, const char **ret_key)
{
	for (size_t i = 0; i < term->n_fields; i++) {
		*ret_key = "";
		if (term->fields[i].op == GQ_OP_IN)
			return &term->fields[i];
	}
	for (size_t i = 0; i < term->n_expressions; i++) {
		const struct gq_requirement *requirement = &term->expressions[i];
		*ret_key = requirement->key;
		if (requirement->op == GQ_OP_IN && gq_node_left_out(m->s, requirement->key))
			return requirement;
	}
	return NULL;
}

/* Pods that name nodes one by one: looks up those, and no other. False: the pod is not such. */
static bool match_pinned(struct matcher *m)
{
	const struct gq_pod *pod = m->pod;
	const char *key;

	for (size_t i = 0; i < pod->n_node_selector; i++) {
		const struct gq_label *want = &pod->node_selector[i];
		if (gq_node_left_out(m->s, want->key)) {
			match_indexed(m, want->key, want->value);
			return true;
		}
	}
	for (size_t i = 0; i < pod->n_affinity; i++) {
		const struct gq_node_term *term = &pod->affinity[i];
		if ((term->n_expressions || term->n_fields) && !pinning(m, term, &key))
			return false;
	}
	for (size_t i = 0; i < pod->n_affinity; i++) {
		const struct gq_requirement *pin = pinning(m, &pod->affinity[i], &key);
		for (size_t k = 0; pin && k < pin->n_values; k++)
			if (spend(m, 1))
				match_indexed(m, key, pin->values[k]);
	}
	return true;
}

static void match_shapes(struct matcher *m, bool whole)
{
	const struct gq_node_snapshot *s = m->s;

	for (size_t i = 0; i < s->n_shapes; i++) {
		const struct gq_node_shape *shape = &s->shapes[i];
		bool found = fits(m, shape->sample, false);
		if (found && whole) {
			found = false;
			for (uint32_t k = 0; !found && k < shape->count; k++) {
				uint32_t id = s->members[shape->first + k];
				found = selector_holds(m, s->known[id].node, true);
			}
		}
		if (found)
			add_reading(s->table, &shape->reading, shape->count, m->out);
	}
}

/* A label that tells the class, with the values that a selector lets it have. */
struct slot {
	const char *key;
	const char *const *values;
	size_t n_values;
	size_t at;
};

static bool tells(const struct gq_class_table *table, const char *key)
{
	return gq_class_label_tells(table, key) || gq_class_label_is_memory(key);
}

/* Returns the number of slots, sorted by key; SIZE_MAX when there are too many. */
static size_t fill_slots(const struct matcher *m, const struct gq_node_term *term,
			 struct slot slots[SLOTS_MAX])
{
	const struct gq_pod *pod = m->pod;
	size_t n_expressions = term ? term->n_expressions : 0, n = 0;

	for (size_t i = 0; i < pod->n_node_selector + n_expressions; i++) {
		struct slot slot;
		if (i < pod->n_node_selector) {
			const struct gq_label *label = &pod->node_selector[i];
			slot = (struct slot){label->key, &label->value, 1, 0};
		} else {
			const struct gq_requirement *requirement =
			    &term->expressions[i - pod->n_node_selector];
			if (requirement->op != GQ_OP_IN)
				continue;
			slot = (struct slot){requirement->key, requirement->values,
					     requirement->n_values, 0};
		}
		if (!tells(m->s->table, slot.key))
			continue;
		size_t at = n;
		bool known = false;
		for (size_t k = 0; k < n; k++)
			known |= strcmp(slots[k].key, slot.key) == 0;
		if (known) /* the first decides; the others only narrow it */
			continue;
		if (n == SLOTS_MAX)
			return SIZE_MAX;
		for (; at > 0 && strcmp(slots[at - 1].key, slot.key) > 0; at--)
			slots[at] = slots[at - 1];
		slots[at] = slot;
		n++;
	}
	return n;
}

/* Whether the term allows these labels where it speaks of them. */
static bool allowed(const struct gq_node_term *term, const struct gq_label *labels, size_t n)
{
	for (size_t i = 0; term && i < term->n_expressions; i++) {
		const char *value = gq_label_get(labels, n, term->expressions[i].key);
		if (value && !requirement_holds(&term->expressions[i], value))
			return false;
	}
	return true;
}

/* Adds what each combination of the slots' values tells. False: one tells nothing, or too many. */
static bool add_alternatives(const struct matcher *m, const struct gq_node_term *term,
			     unsigned *budget)
{
	struct slot slots[SLOTS_MAX];
	struct gq_label labels[SLOTS_MAX];
	size_t n = fill_slots(m, term, slots), i;

	if (n == 0 || n == SIZE_MAX)
		return false;
	for (i = 0; i < n; i++)
		if (slots[i].n_values == 0)
			return true; /* In nothing: no node can ever fit */
	do {
		if ((*budget)-- == 0)
			return false;
		for (i = 0; i < n; i++)
			labels[i] = (struct gq_label){slots[i].key, slots[i].values[slots[i].at]};
		if (allowed(term, labels, n)) {
			struct gq_class_reading reading =
			    gq_class_read_labels(m->s->table, labels, n);
			if (reading.class_id == GQ_CLASS_NONE)
				return false;
			add_reading(m->s->table, &reading, 0, m->out);
		}
		for (i = 0; i < n && ++slots[i].at == slots[i].n_values; i++)
			slots[i].at = 0;
	} while (i < n);
	return true;
}

/* What the pod's own selectors name, in every alternative. */
static bool match_selector(const struct matcher *m)
{
	const struct gq_pod *pod = m->pod;
	unsigned budget = ALTERNATIVES_MAX;

	if (!pod->has_affinity)
		return add_alternatives(m, NULL, &budget);
	for (size_t i = 0; i < pod->n_affinity; i++) {
		const struct gq_node_term *term = &pod->affinity[i];
		if ((term->n_expressions || term->n_fields) && !add_alternatives(m, term, &budget))
			return false;
	}
	return m->out->n > 0;
}

void gq_node_snapshot_match(const struct gq_node_snapshot *snapshot, const struct gq_pod *pod,
			    struct gq_candidates *ret_candidates)
{
	struct matcher m = {
	    .s = snapshot, .pod = pod, .comparisons = COMPARISONS_MAX, .out = ret_candidates};

	if (*pod->node_name) {
		gq_node_snapshot_match_node(snapshot, pod->node_name, ret_candidates);
		return;
	}
	reset(ret_candidates, GQ_FROM_NODES);
	m.n_resources = gq_demand_node_resources(pod, m.resources, RESOURCES_MAX);
	if (m.n_resources > RESOURCES_MAX) /* fewer conditions: more candidates, none too few */
		m.n_resources = RESOURCES_MAX;
	bool whole = needs_nodes(&m);
	if (!whole || !match_pinned(&m))
		match_shapes(&m, whole);
	if (ret_candidates->n || ret_candidates->unknown || ret_candidates->overflow)
		return;
	reset(ret_candidates, GQ_FROM_SELECTOR);
	if (!match_selector(&m))
		reset(ret_candidates, GQ_FROM_NOTHING);
}

void gq_node_snapshot_match_node(const struct gq_node_snapshot *snapshot, const char *node_name,
				 struct gq_candidates *ret_candidates)
{
	struct gq_class_reading reading = gq_node_snapshot_read(snapshot, node_name);

	reset(ret_candidates, GQ_FROM_NODES);
	add_reading(snapshot->table, &reading, 1, ret_candidates);
}
