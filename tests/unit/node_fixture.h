#ifndef GQ_TESTS_NODE_FIXTURE_H
#define GQ_TESTS_NODE_FIXTURE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "quota/nodes.h"

/* Nodes from short texts, through the decoder that every node takes. */

/* Appends `"key": "value", …` of "key=value,…". */
static inline void fixture_pairs(struct gq_buf *out, const char *pairs)
{
	while (*pairs) {
		size_t key = strcspn(pairs, "="), all = strcspn(pairs, ",");
		gq_buf_json_string(out, pairs, key);
		gq_buf_putc(out, ':');
		gq_buf_json_string(out, pairs + key + 1, all - key - 1);
		pairs += all;
		if (*pairs) {
			gq_buf_putc(out, ',');
			pairs++;
		}
	}
}

/* "key=value:Effect" or "". */
static inline void fixture_taint(struct gq_buf *out, const char *taint)
{
	size_t key = strcspn(taint, "="), value = strcspn(taint, ":");

	if (!*taint)
		return;
	gq_buf_puts(out, "{\"key\":");
	gq_buf_json_string(out, taint, key);
	gq_buf_puts(out, ",\"value\":");
	gq_buf_json_string(out, taint + key + 1, value - key - 1);
	gq_buf_puts(out, ",\"effect\":");
	gq_buf_json_string(out, taint + value + 1, strlen(taint + value + 1));
	gq_buf_putc(out, '}');
}

/* labels: "key=value,…"; resources: "nvidia.com/gpu=8,…"; taint as above. NULL on a failure. */
static inline struct gq_node *fixture_node(const char *name, const char *labels,
					   const char *resources, const char *taint)
{
	GQ_BUF_CLEANUP struct gq_buf json = GQ_BUF_INIT(1 << 16);
	struct gq_node *node = NULL;
	struct gq_err err = {0};

	gq_buf_printf(&json, "{\"metadata\":{\"name\":\"%s\",\"labels\":{", name);
	fixture_pairs(&json, labels);
	gq_buf_puts(&json, "}},\"spec\":{\"taints\":[");
	fixture_taint(&json, taint);
	gq_buf_puts(&json, "]},\"status\":{\"allocatable\":{");
	fixture_pairs(&json, resources);
	if (gq_buf_puts(&json, "}}}") || gq_node_decode(json.data, json.len, &node, &err)) {
		(void)fprintf(stderr, "%s: %s\n", name, err.msg);
		return NULL;
	}
	return node;
}

struct fixture_spec {
	const char *name;
	const char *labels;
	const char *resources;
	const char *taint;
};

/* A snapshot of nodes as they are, each its own evidence. NULL on a failure. */
static inline struct gq_node_snapshot *fixture_snapshot(const struct gq_class_table *table,
							const struct fixture_spec *specs, size_t n)
{
	struct gq_node_facts *facts = calloc(n + 1, sizeof *facts);
	struct gq_node_snapshot *snapshot = NULL;
	struct gq_err err = {0};
	size_t made = 0;

	for (; facts && made < n; made++) {
		const struct fixture_spec *spec = &specs[made];
		struct gq_node *node =
		    fixture_node(spec->name, spec->labels, spec->resources, spec->taint);
		if (!node)
			break;
		facts[made] = (struct gq_node_facts){node, node, spec->name};
	}
	if (facts && made == n && gq_node_snapshot_new(table, facts, n, &snapshot, &err))
		(void)fprintf(stderr, "%s\n", err.msg);
	for (size_t i = 0; facts && i < made; i++)
		gq_node_unref(facts[i].node);
	free(facts);
	return snapshot;
}

static inline struct gq_class_table *fixture_table(const struct gq_class_def *defs, size_t n)
{
	struct gq_class_table *table = NULL;
	struct gq_err err = {0};

	if (gq_class_table_new(defs, n, &table, &err))
		(void)fprintf(stderr, "%s\n", err.msg);
	return table;
}

#endif
