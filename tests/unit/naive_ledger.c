#include "naive_ledger.h"

#include "quota/amount.h"
#include "quota_testing.h"

const char *const products[REST] = {A100_80, A100_40, H100};
const char *const class_names[CLASSES] = {"*", "A100", "H100"};
/* The memory of a device of a leaf, as far as it is inside a class; 0: outside. */
static const int64_t device_mib[LEAVES][CLASSES] = {
    [A80] = {81920, 81920, 0},
    [A40] = {40960, 40960, 0},
    [H80] = {81559, 0, 81559},
    [REST] = {294896, 81920, 95830}, /* the largest of the table there */
};

const struct rules rules[RULES] = {
    {"tenants:\n"
     "  - {name: top, quota: {\"*\": {gpus: 12}}}\n"
     "  - {name: red, parent: top, namespaceSelector: {matchLabels: {red: \"1\"}},\n"
     "     quota: {A100: {gpus: 6, memory: 400Gi}, H100: {gpus: 5}, \"*\": {gpus: 9}}}\n"
     "  - {name: blue, parent: top, namespaceSelector: {matchLabels: {blue: \"1\"}},\n"
     "     quota: {A100: {gpus: 5}, H100: {memory: 600Gi}}}\n",
     {{"top", NULL, NULL}, {"red", "top", "red"}, {"blue", "top", "blue"}},
     {{"top", IN_ANY, 12, NOTHING},
      {"red", IN_A100, 6, 409600},
      {"red", IN_H100, 5, NOTHING},
      {"red", IN_ANY, 9, NOTHING},
      {"blue", IN_A100, 5, NOTHING},
      {"blue", IN_H100, NOTHING, 614400}}},
    {"classes: {AAA: {}, zzz: {parent: AAA}}\n"
     "tenants:\n"
     "  - {name: other, quota: {A100: {gpus: 1}}}\n"
     "  - {name: blue, namespaceSelector: {matchLabels: {blue: \"1\"}},\n"
     "     quota: {\"*\": {gpus: 7, memory: 1000Gi}}}\n"
     "  - {name: red, parent: blue, namespaceSelector: {matchLabels: {red: \"1\"}},\n"
     "     quota: {A100: {gpus: 4}, H100: {gpus: 6}}}\n",
     {{"other", NULL, NULL}, {"blue", NULL, "blue"}, {"red", "blue", "red"}},
     {{"other", IN_A100, 1, NOTHING},
      {"blue", IN_ANY, 7, 1024000},
      {"red", IN_A100, 4, NOTHING},
      {"red", IN_H100, 6, NOTHING}}},
    {"tenants:\n"
     "  - {name: red, namespaceSelector: {matchLabels: {red: \"1\"}},\n"
     "     quota: {A100: {gpus: 20}, H100: {gpus: 20}}}\n",
     {{"red", NULL, "red"}},
     {{"red", IN_A100, 20, NOTHING}, {"red", IN_H100, 20, NOTHING}}},
};

static bool choice_takes(enum choice choice, int label)
{
	return choice == OF_ANY || (label != NOTHING && (int)choice == label) ||
	       (choice == OF_A80_OR_H80 && (label == A80 || label == H80));
}

unsigned leaves_on(const struct model *m, int node)
{
	int reading = m->nodes[node].snap_known ? m->nodes[node].snap_reading : NOTHING;

	return reading == NOTHING ? 1u << REST : 1u << reading;
}

unsigned all_leaves_of(const struct model *m, const struct mpod *pod)
{
	unsigned leaves = 0;

	if (pod->seen_node != NOTHING)
		return leaves_on(m, pod->seen_node);
	for (int n = 0; n < NODES; n++)
		if (m->nodes[n].snap_exists && choice_takes(pod->choice, m->nodes[n].snap_label))
			leaves |= leaves_on(m, n);
	if (!leaves && pod->choice != OF_ANY)
		for (int leaf = 0; leaf < REST; leaf++)
			leaves |= choice_takes(pod->choice, leaf) ? 1u << leaf : 0;
	if (!leaves)
		leaves = 1u << REST;
	return pod->bind == NOTHING ? leaves : leaves | leaves_on(m, pod->bind);
}

unsigned leaves_of(const struct model *m, const struct mpod *pod)
{
	unsigned leaves = all_leaves_of(m, pod);

	if (!pod->mask || pod->mask >> REST & 1)
		return leaves;
	return leaves >> REST & 1 ? pod->mask : leaves & pod->mask;
}

static void demand_in(const struct model *m, const struct mpod *pod, int class_, int64_t out[2])
{
	unsigned leaves = leaves_of(m, pod);

	out[0] = out[1] = 0;
	for (int leaf = 0; leaf < LEAVES; leaf++) {
		if (!(leaves >> leaf & 1) || !device_mib[leaf][class_])
			continue;
		out[0] = pod->gpus;
		out[1] = gq_max64(out[1], pod->gpus * device_mib[leaf][class_]);
	}
}

const struct tenant *tenant_of(const struct model *m, const char *name)
{
	for (size_t t = 0; name && t < LEN(m->rules->tenants); t++)
		if (m->rules->tenants[t].name && strcmp(m->rules->tenants[t].name, name) == 0)
			return &m->rules->tenants[t];
	return NULL;
}

static bool holds_for(const struct model *m, const struct limit *limit, int space)
{
	const struct tenant *t = tenant_of(m, m->spaces[space].tenant);

	for (; t; t = tenant_of(m, t->parent))
		if (strcmp(t->name, limit->tenant) == 0)
			return true;
	return false;
}

/* Of each name the largest, what surely exists first.
 */
void total_of(const struct model *m, const struct limit *limit, int64_t out[GQ_STATES][2])
{
	static const enum gq_charge_state order[] = {GQ_STATE_BOUND, GQ_STATE_TERMINATING,
						     GQ_STATE_PENDING, GQ_STATE_RESERVED};

	memset(out, 0, sizeof(int64_t[GQ_STATES][2]));
	for (int slot = 0; slot < SPACES * NAMES; slot++) {
		int64_t most[2] = {0, 0};
		if (!holds_for(m, limit, slot / NAMES))
			continue;
		for (size_t o = 0; o < LEN(order); o++) {
			for (int p = 0; p < PODS; p++) {
				const struct mpod *pod = &m->pods[p];
				int64_t own[2];
				if (!pod->charged || pod->state != order[o] ||
				    pod->space * NAMES + pod->name != slot)
					continue;
				demand_in(m, pod, limit->class_, own);
				for (int c = 0; c < 2; c++) {
					if (own[c] <= most[c])
						continue;
					out[order[o]][c] += own[c] - most[c];
					most[c] = own[c];
				}
			}
		}
	}
}

/* Of each name, what its bound pods hold beyond those of them that are Ready. */
void unready_of_limit(const struct model *m, const struct limit *limit, int64_t out[2])
{
	out[0] = out[1] = 0;
	for (int slot = 0; slot < SPACES * NAMES; slot++) {
		int64_t all[2] = {0, 0}, ready[2] = {0, 0};
		for (int p = 0; p < PODS && holds_for(m, limit, slot / NAMES); p++) {
			const struct mpod *pod = &m->pods[p];
			int64_t own[2];
			if (!pod->charged || pod->state != GQ_STATE_BOUND ||
			    pod->space * NAMES + pod->name != slot)
				continue;
			demand_in(m, pod, limit->class_, own);
			for (int c = 0; c < 2; c++) {
				all[c] = gq_max64(all[c], own[c]);
				if (!pod->seen_unready)
					ready[c] = gq_max64(ready[c], own[c]);
			}
		}
		for (int c = 0; c < 2; c++)
			out[c] += all[c] - ready[c];
	}
}

bool fits(const struct model *m, const int64_t before[][2])
{
	for (size_t i = 0; i < LEN(m->rules->limits) && m->rules->limits[i].tenant; i++) {
		const struct limit *limit = &m->rules->limits[i];
		int64_t by[GQ_STATES][2], total[2] = {0, 0};
		total_of(m, limit, by);
		for (int c = 0; c < 2; c++) {
			int64_t most = c ? limit->mib : limit->gpus;
			for (int s = 0; s < GQ_STATES; s++)
				total[c] += by[s][c];
			if (most != NOTHING && total[c] > before[i][c] && total[c] > most)
				return false;
		}
	}
	return true;
}

void totals(const struct model *m, int64_t out[][2])
{
	for (size_t i = 0; i < LEN(m->rules->limits) && m->rules->limits[i].tenant; i++) {
		int64_t by[GQ_STATES][2];
		total_of(m, &m->rules->limits[i], by);
		for (int c = 0; c < 2; c++) {
			out[i][c] = 0;
			for (int s = 0; s < GQ_STATES; s++)
				out[i][c] += by[s][c];
		}
	}
}