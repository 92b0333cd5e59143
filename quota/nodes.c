#include "quota/nodes.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "quota/class_internal.h"
#include "quota/nodes_internal.h"

#define HOSTNAME_LABEL "kubernetes.io/hostname"

/* Nodes are told apart by 64-bit sums of hashes, keyed by a secret of the process, since comparing
 * thousands of label sets string by string would cost more than the rest. */

__extension__ typedef unsigned __int128 wide;

static uint64_t fold(uint64_t a, uint64_t b)
{
	wide product = (wide)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_number(uint64_t seed, uint64_t number)
{
	return fold(seed + 0x9E3779B97F4A7C15u, number ^ 0xD6E8FEB86659FD93u ^ seed);
}

/* The last 8 bytes of a text, or all of a shorter one, in loads of fixed size. */
static uint64_t last_word(const char *text, size_t len)
{
	uint64_t word = 0;
	uint32_t low, high;

	if (len >= 8) {
		memcpy(&word, text + len - 8, 8);
	} else if (len >= 4) {
		memcpy(&low, text, 4);
		memcpy(&high, text + len - 4, 4);
		word = (uint64_t)high << 32 | low;
	} else if (len > 0) {
		word = (uint64_t)(unsigned char)text[0] |
		       (uint64_t)(unsigned char)text[len / 2] << 8 |
		       (uint64_t)(unsigned char)text[len - 1] << 16;
	}
	return word;
}

static uint64_t hash_text(uint64_t seed, const char *text)
{
	size_t len = strlen(text);
	uint64_t hash = seed ^ (len * 0xA0761D6478BD642Fu), word;

	for (size_t at = 0; at + 8 < len; at += 8) {
		memcpy(&word, text + at, 8);
		hash = fold(hash + 0x9E3779B97F4A7C15u, word ^ 0xE7037ED1A0B428DBu ^ seed);
	}
	word = last_word(text, len);
	return fold(hash + 0x8EBC6AF09C88C6E3u, word ^ 0x589965CC75374CC3u ^ seed);
}

static uint64_t hash_label(uint64_t seed, const char *key, const char *value)
{
	return hash_text(hash_text(seed, key), value);
}

/* 64-bit keys that are hashes already, to small numbers. Never more than cap / 2 of them. */
struct idmap {
	uint64_t *keys; /* 0: free */
	uint32_t *values;
	size_t mask;
};

static void idmap_done(struct idmap *map)
{
	free(map->keys);
	free(map->values);
}

static int idmap_init(struct idmap *map, size_t most)
{
	size_t cap = 16;

	while (cap < most * 2)
		cap *= 2;
	map->keys = calloc(cap, sizeof *map->keys);
	map->values = malloc(cap * sizeof *map->values);
	map->mask = cap - 1;
	return map->keys && map->values ? 0 : GQ_ENOMEM;
}

/* The value of the key, after giving it `fresh` when it has none. */
static uint32_t *idmap_at(struct idmap *map, uint64_t key, uint32_t fresh, bool *ret_fresh)
{
	size_t at;

	key += key == 0;
	for (at = (size_t)key & map->mask; map->keys[at] && map->keys[at] != key;)
		at = (at + 1) & map->mask;
	*ret_fresh = map->keys[at] == 0;
	if (*ret_fresh) {
		map->keys[at] = key;
		map->values[at] = fresh;
	}
	return &map->values[at];
}

/* Nodes with the same labels but for the hostname, and the same of everything else. */
struct group {
	uint32_t known; /* one of them */
	uint32_t shape;
	bool candidate;
	uint64_t labels; /* sum over labels but for the hostname */
	uint64_t state;  /* taints and resources */
	struct gq_class_reading reading;
};

struct key_count {
	const char *key;
	size_t n_values;
};

struct builder {
	struct gq_node_snapshot *s;
	uint64_t *names;    /* hash of name and hostname label, by known node */
	uint32_t *group_of; /* by known node */
	struct group *groups;
	size_t n_groups;
	size_t n_candidates; /* nodes */
	struct key_count *counts;
	size_t n_counts;
	struct idmap map;
	struct idmap pairs;
};

static void builder_done(struct builder *b)
{
	free(b->names);
	free(b->group_of);
	free(b->groups);
	free(b->counts);
	idmap_done(&b->map);
	idmap_done(&b->pairs);
}

static uint64_t hash_state(uint64_t seed, const struct gq_node *node)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < node->n_taints; i++) {
		uint64_t h = hash_label(seed + 1, node->taints[i].key, node->taints[i].value);
		sum += hash_text(h, node->taints[i].effect);
	}
	for (size_t i = 0; i < node->n_resources; i++)
		if (node->resources[i].count > 0)
			sum += hash_text(seed + 2, node->resources[i].name);
	return sum;
}

static uint64_t hash_labels(uint64_t seed, const struct gq_node *node, uint64_t *ret_hostname)
{
	uint64_t sum = 0, hostname = hash_text(seed, HOSTNAME_LABEL);

	for (size_t i = 0; i < node->n_labels; i++) {
		uint64_t key = hash_text(seed, node->labels[i].key);
		uint64_t h = hash_text(key, node->labels[i].value);
		if (key == hostname)
			*ret_hostname = h;
		else
			sum += h;
	}
	return sum;
}

static const char *name_of(const struct gq_node_known *known)
{
	return known->node ? known->node->name : known->evidence->name;
}

/* The node's own labels, unless an earlier state told more: a node that loses labels keeps its
 * class. */
static struct gq_class_reading read_node(const struct gq_class_table *table,
					 const struct gq_node_known *known)
{
	struct gq_class_reading now = {.class_id = GQ_CLASS_NONE}, before = now;

	if (known->node)
		now = gq_class_read_labels(table, known->node->labels, known->node->n_labels);
	if (known->evidence && known->evidence != known->node)
		before =
		    gq_class_read_labels(table, known->evidence->labels, known->evidence->n_labels);
	if (now.class_id == GQ_CLASS_NONE)
		return before;
	if (before.class_id != GQ_CLASS_NONE && before.class_id != now.class_id &&
	    gq_class_inside(table, before.class_id, now.class_id))
		return before;
	return now;
}

static bool offers_gpu(const struct gq_node *node)
{
	for (size_t i = 0; i < node->n_resources; i++)
		if (node->resources[i].count > 0)
			return true;
	return false;
}

/* References the nodes and puts like ones into groups. */
static int group_nodes(struct builder *b, const struct gq_node_facts *facts, size_t n_facts)
{
	struct gq_node_snapshot *s = b->s;
	bool hostname_tells = gq_class_label_tells(s->table, HOSTNAME_LABEL);

	if (idmap_init(&b->map, n_facts))
		return GQ_ENOMEM;
	for (size_t i = 0; i < n_facts; i++) {
		if (!facts[i].node && !facts[i].evidence)
			continue;
		uint32_t id = (uint32_t)s->n_known++;
		struct gq_node_known *known = &s->known[id];
		known->node = facts[i].node ? gq_node_ref(facts[i].node) : NULL;
		known->evidence = facts[i].evidence ? gq_node_ref(facts[i].evidence) : NULL;
		known->shape = GQ_NODE_NO_SHAPE;

		uint64_t hostname = 0, unused, labels = 0, state = 0, identity = 0;
		if (known->node) {
			labels = hash_labels(s->seed, known->node, &hostname);
			state = hash_state(s->seed, known->node);
			identity = hash_number(s->seed + 3, labels) + state;
		}
		if (known->evidence != known->node && known->evidence)
			identity += hash_number(s->seed + 4,
						hash_labels(s->seed, known->evidence, &unused));
		b->names[id] = hash_number(hash_text(s->seed + 5, name_of(known)), hostname);
		if (hostname_tells)
			identity += b->names[id];

		bool fresh;
		uint32_t *group_id = idmap_at(&b->map, identity, (uint32_t)b->n_groups, &fresh);
		b->group_of[id] = *group_id;
		struct group *group = &b->groups[*group_id];
		if (fresh) {
			b->n_groups++;
			*group = (struct group){.known = id, .labels = labels, .state = state};
			group->reading = read_node(s->table, known);
			group->candidate =
			    known->node &&
			    (offers_gpu(known->node) || group->reading.class_id != GQ_CLASS_NONE);
		}
		known->reading = group->reading;
		b->n_candidates += group->candidate;
	}
	idmap_done(&b->map);
	b->map = (struct idmap){0};
	return 0;
}

/* Counts the distinct values of each label key over the candidate groups. */
static int count_values(struct builder *b)
{
	struct gq_node_snapshot *s = b->s;
	size_t n_labels = 0;

	for (size_t g = 0; g < b->n_groups; g++)
		if (b->groups[g].candidate)
			n_labels += s->known[b->groups[g].known].node->n_labels;
	b->counts = calloc(n_labels + 1, sizeof *b->counts);
	if (!b->counts || idmap_init(&b->map, n_labels) || idmap_init(&b->pairs, n_labels))
		return GQ_ENOMEM;
	for (size_t g = 0; g < b->n_groups; g++) {
		if (!b->groups[g].candidate)
			continue;
		const struct gq_node *node = s->known[b->groups[g].known].node;
		for (size_t i = 0; i < node->n_labels; i++) {
			const struct gq_label *label = &node->labels[i];
			uint64_t key = hash_text(s->seed, label->key);
			bool fresh;
			uint32_t at = *idmap_at(&b->map, key, (uint32_t)b->n_counts, &fresh);
			if (fresh)
				b->counts[b->n_counts++].key = label->key;
			(void)idmap_at(&b->pairs, hash_text(key, label->value), 0, &fresh);
			b->counts[at].n_values += fresh;
		}
	}
	idmap_done(&b->map);
	b->map = (struct idmap){0};
	return 0;
}

/* Keys with so many values that they would make a shape of every node. */
static int choose_left_out(struct builder *b)
{
	struct gq_node_snapshot *s = b->s;
	size_t most = b->n_candidates / 8 > 16 ? b->n_candidates / 8 : 16;

	if (count_values(b))
		return GQ_ENOMEM;
	s->left_out = calloc(b->n_counts + 1, sizeof *s->left_out);
	if (!s->left_out)
		return GQ_ENOMEM;
	s->left_out[s->n_left_out++] = HOSTNAME_LABEL;
	for (size_t i = 0; i < b->n_counts; i++)
		if (b->counts[i].n_values > most && strcmp(b->counts[i].key, HOSTNAME_LABEL) != 0)
			s->left_out[s->n_left_out++] = b->counts[i].key;
	return 0;
}

static uint64_t hash_reading(uint64_t seed, const struct gq_class_reading *reading)
{
	return hash_number(hash_number(seed + 6, (uint64_t)reading->class_id),
			   (uint64_t)reading->memory_mib);
}

/* The class that the label which told it names by itself, while the sample still carries it. */
static int hint_class(const struct gq_node_snapshot *s, const struct gq_node_shape *shape)
{
	const struct gq_class_reading *reading = &shape->reading;

	if (reading->class_id <= GQ_CLASS_OTHER || !reading->label ||
	    gq_node_left_out(s, reading->label))
		return GQ_CLASS_NONE;
	const char *value =
	    gq_label_get(shape->sample->labels, shape->sample->n_labels, reading->label);
	if (!value || strcmp(value, reading->value) != 0)
		return GQ_CLASS_NONE;
	struct gq_label label = {reading->label, value};
	return gq_class_read_labels(s->table, &label, 1).class_id;
}

/* Gives each candidate group its shape. */
static int make_shapes(struct builder *b)
{
	struct gq_node_snapshot *s = b->s;

	s->shapes = calloc(b->n_groups + 1, sizeof *s->shapes);
	if (!s->shapes || idmap_init(&b->map, b->n_groups))
		return GQ_ENOMEM;
	for (size_t g = 0; g < b->n_groups; g++) {
		struct group *group = &b->groups[g];
		group->shape = GQ_NODE_NO_SHAPE;
		if (!group->candidate)
			continue;
		const struct gq_node *node = s->known[group->known].node;
		uint64_t labels = group->labels;
		for (size_t i = 1; i < s->n_left_out; i++) {
			const char *key = s->left_out[i];
			const char *value = gq_label_get(node->labels, node->n_labels, key);
			if (value)
				labels -= hash_label(s->seed, key, value);
		}
		uint64_t identity = hash_number(s->seed + 3, labels) + group->state +
				    hash_reading(s->seed, &group->reading);
		bool fresh;
		group->shape = *idmap_at(&b->map, identity, (uint32_t)s->n_shapes, &fresh);
		if (fresh) {
			struct gq_node_shape *shape = &s->shapes[s->n_shapes++];
			shape->sample = node;
			shape->reading = group->reading;
			shape->hint_class = hint_class(s, shape);
		}
	}
	return 0;
}

/* Sorts the candidates by shape. */
static int make_members(struct builder *b)
{
	struct gq_node_snapshot *s = b->s;
	uint32_t first = 0;

	s->members = malloc((b->n_candidates + 1) * sizeof *s->members);
	if (!s->members)
		return GQ_ENOMEM;
	for (size_t i = 0; i < s->n_known; i++) {
		s->known[i].shape = b->groups[b->group_of[i]].shape;
		if (s->known[i].shape != GQ_NODE_NO_SHAPE)
			s->shapes[s->known[i].shape].count++;
	}
	for (size_t i = 0; i < s->n_shapes; i++) {
		s->shapes[i].first = first;
		first += s->shapes[i].count;
		s->shapes[i].count = 0;
	}
	for (size_t i = 0; i < s->n_known; i++) {
		if (s->known[i].shape == GQ_NODE_NO_SHAPE)
			continue;
		struct gq_node_shape *shape = &s->shapes[s->known[i].shape];
		s->members[shape->first + shape->count++] = (uint32_t)i;
	}
	return 0;
}

static size_t index_slot(const struct gq_node_snapshot *s, const char *key, const char *value)
{
	return (size_t)hash_label(s->seed, key, value) & s->heads_mask;
}

static void index_add(struct gq_node_snapshot *s, const char *key, const char *value,
		      uint32_t known)
{
	uint32_t *head = &s->heads[index_slot(s, key, value)];

	s->entries[s->n_entries] = (struct gq_node_index_entry){key, value, known, *head};
	*head = (uint32_t)s->n_entries++;
}

static int make_index(struct builder *b)
{
	struct gq_node_snapshot *s = b->s;
	size_t most = s->n_known + b->n_candidates * s->n_left_out, heads = 16;

	while (heads < most)
		heads *= 2;
	s->heads = malloc(heads * sizeof *s->heads);
	s->entries = malloc((most + 1) * sizeof *s->entries);
	if (!s->heads || !s->entries)
		return GQ_ENOMEM;
	memset(s->heads, 0xff, heads * sizeof *s->heads); /* GQ_NODE_INDEX_END */
	s->heads_mask = heads - 1;
	for (size_t i = 0; i < s->n_known; i++) {
		const struct gq_node_known *known = &s->known[i];
		index_add(s, "", name_of(known), (uint32_t)i);
		for (size_t k = 0; known->shape != GQ_NODE_NO_SHAPE && k < s->n_left_out; k++) {
			const char *value = gq_label_get(known->node->labels, known->node->n_labels,
							 s->left_out[k]);
			if (value)
				index_add(s, s->left_out[k], value, (uint32_t)i);
		}
	}
	return 0;
}

/* A sum, since the order of nodes means nothing. */
static void set_fingerprint(struct builder *b)
{
	struct gq_node_snapshot *s = b->s;

	for (size_t i = 0; i < s->n_known; i++) {
		const struct group *group = &b->groups[b->group_of[i]];
		uint64_t h = hash_number(b->names[i], hash_reading(s->seed, &group->reading));
		if (group->candidate)
			h = hash_number(hash_number(h, group->labels), group->state);
		else if (group->reading.class_id == GQ_CLASS_NONE)
			continue; /* no pod can tell it from a node that does not exist */
		s->fingerprint += h;
	}
}

static int build(struct builder *b, const struct gq_node_facts *facts, size_t n_facts)
{
	struct gq_node_snapshot *s = b->s;

	s->known = calloc(n_facts + 1, sizeof *s->known);
	b->names = calloc(n_facts + 1, sizeof *b->names);
	b->group_of = calloc(n_facts + 1, sizeof *b->group_of);
	b->groups = calloc(n_facts + 1, sizeof *b->groups);
	if (!s->known || !b->names || !b->group_of || !b->groups)
		return GQ_ENOMEM;
	if (group_nodes(b, facts, n_facts) || choose_left_out(b) || make_shapes(b) ||
	    make_members(b) || make_index(b))
		return GQ_ENOMEM;
	set_fingerprint(b);
	return 0;
}

int gq_node_snapshot_new(const struct gq_class_table *table, const struct gq_node_facts *facts,
			 size_t n_facts, struct gq_node_snapshot **ret_snapshot, struct gq_err *err)
{
	GQ_CLEANUP(gq_cleanup_node_snapshot) struct gq_node_snapshot *s = NULL;
	GQ_CLEANUP(builder_done) struct builder b = {0};

	if (n_facts > GQ_NODES_MAX)
		return gq_fail(err, GQ_ETOOBIG, "more than %d nodes", GQ_NODES_MAX);
	s = calloc(1, sizeof *s);
	if (!s)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	atomic_init(&s->refs, 1);
	s->table = table;
	s->seed = gq_hash("nodes", 5);
	b.s = s;
	if (build(&b, facts, n_facts))
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	*ret_snapshot = GQ_STEAL(s);
	return 0;
}

struct gq_node_snapshot *gq_node_snapshot_ref(struct gq_node_snapshot *snapshot)
{
	atomic_fetch_add_explicit(&snapshot->refs, 1, memory_order_relaxed);
	return snapshot;
}

void gq_node_snapshot_unref(struct gq_node_snapshot *snapshot)
{
	if (!snapshot || atomic_fetch_sub_explicit(&snapshot->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (size_t i = 0; i < snapshot->n_known; i++) {
		gq_node_unref(snapshot->known[i].node);
		gq_node_unref(snapshot->known[i].evidence);
	}
	free(snapshot->known);
	free(snapshot->shapes);
	free(snapshot->members);
	free(snapshot->left_out);
	free(snapshot->heads);
	free(snapshot->entries);
	free(snapshot);
}

uint64_t gq_node_snapshot_fingerprint(const struct gq_node_snapshot *snapshot)
{
	return snapshot->fingerprint;
}

static uint32_t index_from(const struct gq_node_snapshot *snapshot, uint32_t at, const char *key,
			   const char *value)
{
	for (; at != GQ_NODE_INDEX_END; at = snapshot->entries[at].next)
		if (strcmp(snapshot->entries[at].value, value) == 0 &&
		    strcmp(snapshot->entries[at].key, key) == 0)
			break;
	return at;
}

uint32_t gq_node_index_first(const struct gq_node_snapshot *snapshot, const char *key,
			     const char *value)
{
	return index_from(snapshot, snapshot->heads[index_slot(snapshot, key, value)], key, value);
}

uint32_t gq_node_index_next(const struct gq_node_snapshot *snapshot, uint32_t at)
{
	const struct gq_node_index_entry *entry = &snapshot->entries[at];

	return index_from(snapshot, entry->next, entry->key, entry->value);
}

bool gq_node_left_out(const struct gq_node_snapshot *snapshot, const char *key)
{
	for (size_t i = 0; i < snapshot->n_left_out; i++)
		if (strcmp(snapshot->left_out[i], key) == 0)
			return true;
	return false;
}

struct gq_class_reading gq_node_snapshot_read(const struct gq_node_snapshot *snapshot,
					      const char *node_name)
{
	uint32_t at = gq_node_index_first(snapshot, "", node_name);

	if (at == GQ_NODE_INDEX_END)
		return (struct gq_class_reading){.class_id = GQ_CLASS_NONE};
	return snapshot->known[snapshot->entries[at].known].reading;
}

bool gq_node_snapshot_offers(const struct gq_node_snapshot *snapshot, const char *node_name,
			     const char *resource)
{
	uint32_t at = gq_node_index_first(snapshot, "", node_name);
	const struct gq_node *node =
	    at == GQ_NODE_INDEX_END ? NULL : snapshot->known[snapshot->entries[at].known].node;

	for (size_t i = 0; node && i < node->n_resources; i++)
		if (strcmp(node->resources[i].name, resource) == 0)
			return node->resources[i].count > 0;
	return false;
}

bool gq_node_snapshot_has_gpu(const struct gq_node_snapshot *snapshot, const char *node_name)
{
	uint32_t at = gq_node_index_first(snapshot, "", node_name);

	if (at == GQ_NODE_INDEX_END)
		return false;
	const struct gq_node_known *known = &snapshot->known[snapshot->entries[at].known];
	return known->node && (offers_gpu(known->node) || known->reading.class_id != GQ_CLASS_NONE);
}

bool gq_node_snapshot_selector_for(const struct gq_node_snapshot *snapshot, int class_id,
				   const char **ret_label, const char **ret_value)
{
	const struct gq_node_shape *best = NULL;

	for (size_t i = 0; i < snapshot->n_shapes; i++) {
		const struct gq_node_shape *shape = &snapshot->shapes[i];
		if (shape->hint_class == GQ_CLASS_NONE || !offers_gpu(shape->sample) ||
		    !gq_class_inside(snapshot->table, shape->hint_class, class_id))
			continue;
		if (!best || shape->count > best->count)
			best = shape;
	}
	if (!best)
		return false;
	*ret_label = best->reading.label;
	*ret_value = best->reading.value;
	return true;
}
