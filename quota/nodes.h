#ifndef GQ_QUOTA_NODES_H
#define GQ_QUOTA_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "quota/class.h"
#include "quota/object.h"

/* Which classes a pod may land on: an immutable snapshot of the nodes and the matching of pods
 * against it. Nodes that differ in nothing a selector can usefully tell share a shape, so that
 * matching costs the number of shapes (tens), not of nodes (thousands). Labels with many values
 * (kubernetes.io/hostname) stay out of shapes and are looked at only for pods that name them. */

/* What the ledger knows of one node. evidence is the last state of the node whose labels told its
 * class, and keeps telling it when the labels vanish; NULL when they never did. */
struct gq_node_facts {
	const struct gq_node *node;     /* NULL: the node is gone, or was never seen */
	const struct gq_node *evidence; /* or NULL */
	const char *name;
};

struct gq_node_snapshot;

#define GQ_NODES_MAX 100000

/* facts: borrowed during the call; nodes are referenced. table: borrowed for the snapshot's life
 * (hold the policy). Errors: GQ_ETOOBIG, GQ_ENOMEM. */
int gq_node_snapshot_new(const struct gq_class_table *table, const struct gq_node_facts *facts,
			 size_t n_facts, struct gq_node_snapshot **ret_snapshot,
			 struct gq_err *err);
struct gq_node_snapshot *gq_node_snapshot_ref(struct gq_node_snapshot *snapshot);
void gq_node_snapshot_unref(struct gq_node_snapshot *snapshot);
GQ_DEFINE_CLEANUP(gq_cleanup_node_snapshot, struct gq_node_snapshot, gq_node_snapshot_unref);

/* A value that differs between two snapshots of one table as soon as some pod may have other
 * candidates (nodes, what selectors can tell of them, and how they are read); pending pods are
 * matched again only when it changes, or with another table. */
uint64_t gq_node_snapshot_fingerprint(const struct gq_node_snapshot *snapshot);

/* How one node is read: its class by the stable evidence. class_id GQ_CLASS_NONE: never known, or
 * no such node. A model whose variant is not told is returned as the model. */
struct gq_class_reading gq_node_snapshot_read(const struct gq_node_snapshot *snapshot,
					      const char *node_name);

/* Whether there is such a node, and it offers GPUs. */
bool gq_node_snapshot_has_gpu(const struct gq_node_snapshot *snapshot, const char *node_name);
/* Whether it offers some of a GPU resource. */
bool gq_node_snapshot_offers(const struct gq_node_snapshot *snapshot, const char *node_name,
			     const char *resource);

/* A leaf class and the memory of a device there. */
struct gq_candidate {
	int class_id;
	int64_t device_mib; /* 0: not known */
	size_t nodes;       /* that fit and may be of it, or fewer; 0 when not from nodes */
};

enum gq_candidates_source {
	GQ_FROM_NODES,    /* nodes that fit */
	GQ_FROM_SELECTOR, /* no such node yet; the pod's own selector names the model */
	GQ_FROM_NOTHING,  /* neither: every class with a limit */
};

#define GQ_CANDIDATES_MAX 64

struct gq_candidates {
	enum gq_candidates_source source;
	/* Fits a GPU node whose class was never known: every class with a limit, besides those
	 * listed. */
	bool unknown;
	/* More than GQ_CANDIDATES_MAX, or selectors too long to try: treat as unknown too. */
	bool overflow;
	size_t nodes; /* that fit, or fewer: what a node's name decides is not looked into */
	size_t unknown_nodes; /* of these, those whose class was never known */
	size_t n;
	struct gq_candidate items[GQ_CANDIDATES_MAX]; /* leaf classes, each pair once, sorted */
};

/* Candidates of a pod: by spec.nodeName when set (that node only, whatever the selectors say),
 * else nodes that pass nodeSelector, required node affinity (matchExpressions, matchFields), taints
 * and offer the pod's resources; else what nodeSelector and affinity values themselves name; else
 * none. A class with variants that is not told apart is listed as all its leaves.
 * Pure: no lock, no allocation. */
void gq_node_snapshot_match(const struct gq_node_snapshot *snapshot, const struct gq_pod *pod,
			    struct gq_candidates *ret_candidates);

/* Candidates of a pod bound to node_name: the class it is read as. */
void gq_node_snapshot_match_node(const struct gq_node_snapshot *snapshot, const char *node_name,
				 struct gq_candidates *ret_candidates);

/* A selector that lands pods on a class, for hints: the label and value that tell it on some node
 * that exists now (any leaf inside class_id), or false. Pointers live as long as the snapshot. */
bool gq_node_snapshot_selector_for(const struct gq_node_snapshot *snapshot, int class_id,
				   const char **ret_label, const char **ret_value);

#endif
