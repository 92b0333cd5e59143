#ifndef GQ_TESTS_NAIVE_LEDGER_H
#define GQ_TESTS_NAIVE_LEDGER_H

#include "ledger_fixture.h"

/* A ledger that knows nothing of how the real one works: a flat list of pods, and everything is
 * added up from nothing each time. test_ledger_model.c lives a random life with both. */

enum { A80, A40, H80, REST, LEAVES }; /* REST: every model there is, when nothing is known */
#define NOTHING (-1)
extern const char *const products[REST];

enum { IN_ANY, IN_A100, IN_H100, CLASSES };
extern const char *const class_names[CLASSES];

struct limit {
	const char *tenant;
	int class_;
	int64_t gpus, mib; /* NOTHING: not limited */
};

struct tenant {
	const char *name, *parent, *team;
};

struct rules {
	const char *yaml;
	struct tenant tenants[4];
	struct limit limits[9];
};
#define RULES 3
extern const struct rules rules[RULES];

#define PODS 40
#define NODES 6
#define SPACES 4
#define NAMES 5

enum choice { OF_A80, OF_A40, OF_H80, OF_A80_OR_H80, OF_ANY, CHOICES };

struct mpod {
	bool charged; /* in the ledger */
	bool exists;  /* in the API server */
	bool proposed, watched, probing;
	enum gq_charge_state state;
	char uid[24];
	int space, name, gpus;
	enum choice choice;
	int node;      /* where it really is, or NOTHING */
	int seen_node; /* where the ledger knows it to be */
	bool dying;
	bool running, ready;
	bool seen_unready; /* as the ledger knows it */
	int bind;          /* a binding was allowed to that node, or NOTHING */
	unsigned admitted; /* leaves that its creation or a binding was allowed for */
	unsigned mask;     /* leaves that count now, 0 for all */
	uint64_t ticket;   /* of its creation or a binding; 0: none open */
	bool line;         /* the journal must hold it */
	bool line_binds;   /* the line is there for a binding */
	int line_bind;     /* which it names, or NOTHING */
	int64_t answered_ns;
};

struct mnode {
	bool exists, known;
	int label, evidence;          /* now */
	bool snap_exists, snap_known; /* when the nodes last settled */
	int snap_label, snap_reading;
};

struct mspace {
	bool seen, red, blue;
	const char *tenant;
};

struct model {
	struct world *w;
	uint64_t seed;
	const struct rules *rules;
	struct mpod pods[PODS];
	struct mnode nodes[NODES];
	struct mspace spaces[SPACES];
	bool held, lags;
	unsigned serial, allowed, refused, blocked, stored_bindings, takeovers, unready;
};

/* The leaves of a node, and those that a pod may land on or counts in, as bits. REST stands for
 * every leaf. */
unsigned leaves_on(const struct model *m, int node);
unsigned all_leaves_of(const struct model *m, const struct mpod *pod);
unsigned leaves_of(const struct model *m, const struct mpod *pod);
/* NULL: no such tenant. */
const struct tenant *tenant_of(const struct model *m, const char *name);
/* GPUs and MiB that count in a limit, by state; and in each limit, all states together. */
void total_of(const struct model *m, const struct limit *limit, int64_t out[GQ_STATES][2]);
/* What of that is bound and not Ready. */
void unready_of_limit(const struct model *m, const struct limit *limit, int64_t out[2]);
void totals(const struct model *m, int64_t out[][2]);
/* Whether everything still fits as it is now; before: the totals until now. */
bool fits(const struct model *m, const int64_t before[][2]);

#endif
