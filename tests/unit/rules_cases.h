#ifndef GQ_TESTS_RULES_CASES_H
#define GQ_TESTS_RULES_CASES_H

#include "ledger_fixture.h"
#include "quota/posture.h"
#include "quota/rules.h"

/* The cases of tests/data/rules, whose README.md says what stands in one. */

struct json_object;

struct rules_case {
	const char *rule;
	const char *name; /* with the one of `each` */
	bool refused;
	const char *found; /* "warn", "audit" or NULL */
	const char *sent;  /* "" is none */
	struct json_object *says;
	struct json_object *objects;
	char *policy; /* what policy_make() takes */
	struct gq_pod *pod;
	struct gq_posture *posture;
	bool ephemeral;
	const char *had[8]; /* ephemeral containers that it had before */
	size_t n_had;
	struct json_object *tree;
};

/* Calls for each case of a rule's file; returns how many there were. */
size_t rules_cases_each(const char *rule, void (*run)(const struct rules_case *c, void *arg),
			void *arg);

/* A world of one case's policy: that of world_new(), and the node cpu. */
struct world *rules_world(const char *policy);
/* Asks for what the case is about; the objects that it has are read for it. */
enum gq_verdict_kind rules_case_ask(struct world *w, const struct rules_case *c);

/* A pod with its posture, from JSON in single quotes; namespace a-train, name p and uid u unless
 * metadata says otherwise. */
struct rules_pod {
	struct gq_pod *pod;
	struct gq_posture *posture;
};
struct rules_pod rules_pod(const char *single_quoted);
void rules_pod_done(struct rules_pod *pod);
/* objects: a JSON array in single quotes, or NULL. */
enum gq_verdict_kind rules_ask(struct world *w, const struct rules_pod *pod, const char *objects);
/* The same of a pod in single quotes, without objects. */
enum gq_verdict_kind rules_ask_pod(struct world *w, const char *single_quoted);

/* Answers the reads that a decision asked for: what is not in objects is not found. Returns whether
 * there were any. */
bool rules_answer_reads(struct gq_reads *reads, struct json_object *objects);
/* The same; objects: as rules_ask() has them. */
bool rules_answer_objects(struct gq_reads *reads, const char *objects);

/* Everything that a verdict tells, in the order refusal, warnings, audit; static. */
const char *rules_told(const struct gq_verdict *verdict);

#endif
