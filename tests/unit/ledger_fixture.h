#ifndef GQ_TESTS_LEDGER_FIXTURE_H
#define GQ_TESTS_LEDGER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "quota/decision.h"
#include "quota/ledger.h"

/* A ledger with a cluster around it, as its tests tell it: pods, nodes and namespaces from short
 * descriptions, through the decoders that every object takes; time moves only when a test says so.
 */

#define S GQ_NS_PER_S

/* Products as GPU feature discovery names them. */
#define A100_80 "NVIDIA-A100-SXM4-80GB"
#define A100_40 "NVIDIA-A100-SXM4-40GB"
#define H100 "NVIDIA-H100-80GB-HBM3"
#define L40S "NVIDIA-L40S"
#define PRODUCT "nvidia.com/gpu.product"

/* What a pod is; everything that is left out has the default in brackets. JSON is written with
 * single quotes. */
struct pod_spec {
	const char *ns;        /* [a-train] */
	const char *name;      /* [p] */
	const char *uid;       /* [the namespace and name with a '/'] */
	int gpus;              /* nvidia.com/gpu [1 without resources] */
	const char *resources; /* limits of the container: "'nvidia.com/gpumem':'1000'" */
	const char *product;   /* nodeSelector nvidia.com/gpu.product */
	const char *products;  /* required affinity to one of: "'A','B'" */
	const char *node;
	const char *phase; /* [Pending, whatever the node] */
	bool ready;        /* its condition */
	bool terminating;
	const char *owner; /* "ReplicaSet/llm"; its uid is the same text */
	const char *spec;  /* further fields: "'resourceClaims':[…]" */
};

/* How it is asked for. */
struct ask {
	const char *request_uid; /* [a new one each time] */
	const char *user;        /* [jane] */
	bool dry_run;
	bool late; /* its deadline is over */
};

struct world {
	struct gq_ledger *ledger;
	int64_t now_ns;
	int64_t wall_s;
	struct gq_verdict verdict; /* the last one */
	uint64_t ticket;           /* of the last one, whether committed since or not */
	struct gq_reads reads;
	unsigned requests;
	bool drift_expected; /* else the world's end counts anew and finds nothing */
};

/* A world that has synced, with this policy (without its first two lines; NULL: none yet), two
 * nodes of each of A100-80GB (a1, a2) and H100 (h1, h2), and namespaces a-train and a-serve. */
struct world *world_new(const char *policy);
/* The same without nodes and namespaces, and not synced. */
struct world *world_bare(const char *policy);
struct world *world_with(const struct gq_ledger_options *options, const char *policy);
/* Those nodes and namespaces. */
void world_fill(struct world *w);
/* Checks that a recount finds nothing to repair, and frees it. */
void world_free(struct world *w);

struct gq_policy *policy_make(const char *policy);
void world_policy(struct world *w, const char *policy);
/* labels, resources: "key=value,…" */
void world_node_unsettled(struct world *w, const char *name, const char *labels,
			  const char *resources);
void world_node(struct world *w, const char *name, const char *labels);
void world_node_gone(struct world *w, const char *name);
void world_settle(struct world *w);
void world_namespace(struct world *w, const char *name, const char *labels);
void world_pass(struct world *w, int64_t ns);

struct gq_pod *pod_make(const struct pod_spec *spec);
/* The uid that a pod_spec stands for. */
const char *pod_uid(const struct pod_spec *spec);
struct gq_namespace *namespace_make(const char *name, const char *labels);

/* Asks for the creation; commits what is allowed, unless only proposed is wanted. */
enum gq_verdict_kind world_ask(struct world *w, const struct pod_spec *spec, const struct ask *ask);
enum gq_verdict_kind world_propose(struct world *w, const struct pod_spec *spec,
				   const struct ask *ask);
void world_commit(struct world *w);
void world_abort(struct world *w);
void world_seen(struct world *w, const struct pod_spec *spec);
void world_gone(struct world *w, const struct pod_spec *spec);
enum gq_verdict_kind world_bind(struct world *w, const struct pod_spec *spec, const char *node,
				bool legacy);
enum gq_verdict_kind world_propose_bind(struct world *w, const struct pod_spec *spec,
					const char *node, bool legacy);

#define SPEC(...) (&(struct pod_spec){__VA_ARGS__})
#define CREATE(w, ...) world_ask(w, SPEC(__VA_ARGS__), &(struct ask){0})
#define SEEN(w, ...) world_seen(w, SPEC(__VA_ARGS__))
#define GONE(w, ...) world_gone(w, SPEC(__VA_ARGS__))

/* The pod is allowed, and without warnings. */
#define ALLOWED(w, ...)                                                                            \
	do {                                                                                       \
		enum gq_verdict_kind kind_ = CREATE(w, __VA_ARGS__);                               \
		if (kind_ != GQ_VERDICT_ALLOW || (w)->verdict.n_warnings)                          \
			fail_msg("verdict %d: %s", kind_, message_of(w));                          \
	} while (0)
/* The pod is refused for this reason, and the message has the text in it. */
#define DENIED(w, why, text, ...)                                                                  \
	do {                                                                                       \
		enum gq_verdict_kind kind_ = CREATE(w, __VA_ARGS__);                               \
		if (kind_ != GQ_VERDICT_DENY || (w)->verdict.reason != (why) ||                    \
		    !strstr(message_of(w), text))                                                  \
			fail_msg("verdict %d, %s: %s", kind_, gq_reason_name((w)->verdict.reason), \
				 message_of(w));                                                   \
	} while (0)

/* Allowed and seen at once. */
#define RUN(w, ...)                                                                                \
	do {                                                                                       \
		ALLOWED(w, __VA_ARGS__);                                                           \
		SEEN(w, __VA_ARGS__);                                                              \
	} while (0)

const char *message_of(const struct world *w);

/* "7/8 b6 p1 r0 t0": held of the limit; bound, pending, reserved, terminating. */
const char *usage_of(struct world *w, const char *tenant, const char *class_name);
const char *memory_of(struct world *w, const char *tenant, const char *class_name);
/* "2 160Gi": what is unready of what is bound. */
const char *unready_of(struct world *w, const char *tenant, const char *class_name);
/* "1 bound" and the like: pods by state, those with none left out. */
const char *pods_of(struct world *w);
#define assert_usage(w, tenant, class_name, text)                                                  \
	assert_string_equal(usage_of(w, tenant, class_name), text)
#define assert_memory(w, tenant, class_name, text)                                                 \
	assert_string_equal(memory_of(w, tenant, class_name), text)
#define assert_unready(w, tenant, class_name, text)                                                \
	assert_string_equal(unready_of(w, tenant, class_name), text)
#define assert_pods(w, text) assert_string_equal(pods_of(w), text)

/* Counts anew; how many limits and charges were wrong. */
unsigned world_recount(struct world *w);
/* Counts anew; what was wrong: "team-a A100 +2 +160Gi; pods a-train/p". */
const char *drift_of(struct world *w);
const char *print_drift(const struct gq_drift *drift);

/* The uids about which the API server should be asked now, with ' ' between them. */
const char *probes_of(struct world *w);
/* The answer to a GET that began at begun_ns. pod: FOUND only. */
void world_probed(struct world *w, const struct pod_spec *spec, enum gq_probe_outcome outcome,
		  const struct pod_spec *found, int64_t begun_ns);

/* The reservations that the journal must hold, in their order: "uid" or "uid>node", with ' '
 * between them. Checks what is told of them besides. */
const char *unseen_of(struct world *w);
#define assert_unseen(w, text) assert_string_equal(unseen_of(w), text)
/* Takes over what the journal of another world must hold. */
void world_restore(struct world *w, struct world *from);
/* Takes over one reservation. user, node (of a binding): may be NULL. */
void restore_line(struct world *w, const struct pod_spec *spec, const char *user, const char *node);

/* The seed of a random test, printed: a fixed one, or $GQ_SEED ("random": from the clock). */
uint64_t seed_take(const char *test);
uint32_t seed_next(uint64_t *seed);

#endif
