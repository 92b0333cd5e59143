/* The decoders of nodes and namespaces on raw bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "quota/object.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok)
{
	if (!ok)
		abort();
}

static void check_labels(const struct gq_label *labels, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		check(i == 0 || strcmp(labels[i - 1].key, labels[i].key) < 0);
		check(gq_label_get(labels, n, labels[i].key) == labels[i].value);
		check(strlen(labels[i].value) < SIZE_MAX);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gq_err err = {0};
	struct gq_node *node = NULL, *again = NULL;
	struct gq_namespace *ns = NULL;

	int code = gq_namespace_decode((const char *)data, size, &ns, &err);
	if (!code) {
		check_labels(ns->labels, ns->n_labels);
		check(*ns->name != '\0');
	} else {
		check(!ns && err.code == code && err.msg[0]);
	}
	code = gq_node_decode((const char *)data, size, &node, &err);
	if (!code) {
		check(ns != NULL); /* a node has what a namespace has */
		check_labels(node->labels, node->n_labels);
		for (size_t i = 0; i < node->n_resources; i++) {
			check(node->resources[i].count >= 0);
			check(i == 0 ||
			      strcmp(node->resources[i - 1].name, node->resources[i].name) < 0);
		}
		for (size_t i = 0; i < node->n_taints; i++)
			check(strcmp(node->taints[i].effect, "NoSchedule") == 0 ||
			      strcmp(node->taints[i].effect, "NoExecute") == 0);
		check(gq_node_decode((const char *)data, size, &again, NULL) == 0);
		check(gq_node_equal(node, again) && gq_node_equal(node, node));
	}
	gq_node_unref(again);
	gq_node_unref(node);
	gq_namespace_unref(ns);
	return 0;
}
