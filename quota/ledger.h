#ifndef GQ_QUOTA_LEDGER_H
#define GQ_QUOTA_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "quota/amount.h"
#include "quota/object.h"
#include "quota/policy.h"

/* The ledger: who holds what. It keeps the charge of every GPU pod that exists or was allowed, adds
 * them up against every limit they count in, and knows nodes, namespaces and the policy in force.
 *
 * A charge is proposed (decided, not yet committed by the store), reserved (answered, its pod not
 * seen yet), pending (seen, no node), bound (seen, on a node: exact class) or terminating.
 *
 * One lock, ledger.lock, guards everything; it is never held across I/O nor for work that grows
 * with the number of pods. Such work (a policy reload, a large namespace that moves, a recount)
 * builds a second set of totals aside, in slices, and swaps it in. All functions may be called from
 * any thread with no lock held. Time is a parameter: monotonic nanoseconds (now_ns) or Unix time in
 * seconds (wall_s). */
struct gq_ledger;

struct gq_ledger_options {
	int64_t reservation_ttl_ns; /* at least this long from the last answer; 0: 60 s */
	bool note_ended;            /* gq_ledger_ended() will be asked */
};

/* NULL when out of memory. */
struct gq_ledger *gq_ledger_new(const struct gq_ledger_options *options);
void gq_ledger_free(struct gq_ledger *ledger);
GQ_DEFINE_CLEANUP(gq_cleanup_ledger, struct gq_ledger, gq_ledger_free);

/* ---- what the cluster looks like (the informer's thread) ---- */

enum gq_collection { GQ_PODS, GQ_NODES, GQ_NAMESPACES, GQ_COLLECTIONS };

/* A full list of a collection begins and ends: what was not seen in between is gone. */
void gq_ledger_list_begin(struct gq_ledger *ledger, enum gq_collection collection);
int gq_ledger_list_end(struct gq_ledger *ledger, enum gq_collection collection, int64_t now_ns,
		       struct gq_err *err);

/* The pod exists in this state. References pod. Succeeded and failed pods, and pods that ask for no
 * GPU, hold nothing. Errors: GQ_ENOMEM. */
int gq_ledger_pod_seen(struct gq_ledger *ledger, const struct gq_pod *pod, int64_t now_ns,
		       struct gq_err *err);
/* Twice is harmless; a uid that is not known is ignored. */
void gq_ledger_pod_gone(struct gq_ledger *ledger, const char *uid, int64_t now_ns);

/* Changes of nodes take effect with gq_ledger_nodes_settle(), once for many. */
int gq_ledger_node_seen(struct gq_ledger *ledger, const struct gq_node *node, struct gq_err *err);
void gq_ledger_node_gone(struct gq_ledger *ledger, const char *name);
/* Rebuilds the snapshot when nodes changed; charges whose class changed move, pending pods are
 * matched again. Cheap when nothing changed. GQ_ENOMEM: the old snapshot stays, try again. */
int gq_ledger_nodes_settle(struct gq_ledger *ledger, int64_t now_ns, struct gq_err *err);

int gq_ledger_namespace_seen(struct gq_ledger *ledger, const struct gq_namespace *object,
			     int64_t now_ns, struct gq_err *err);
/* A GET showed it: it counts only where the watch has shown nothing yet, since it may be older. */
int gq_ledger_namespace_read(struct gq_ledger *ledger, const struct gq_namespace *object,
			     int64_t now_ns, struct gq_err *err);
void gq_ledger_namespace_gone(struct gq_ledger *ledger, const char *name);

/* Puts a policy in force: charges are counted anew under it and swapped in, in one step.
 * References policy. On failure the old one stays in force. */
int gq_ledger_set_policy(struct gq_ledger *ledger, const struct gq_policy *policy, int64_t now_ns,
			 struct gq_err *err);
/* The rules that are switched on for any tenant, as bits by enum gq_rule_id; all of them while
 * there is no policy. Takes no lock. */
unsigned gq_ledger_rules_active(const struct gq_ledger *ledger);
/* The policy in force with a reference for the caller, or NULL. */
struct gq_policy *gq_ledger_policy(struct gq_ledger *ledger);
/* Its language; English without one. */
enum gq_locale gq_ledger_locale(struct gq_ledger *ledger);

/* Every cache has synced: from now on (and with a policy) decisions are made. */
void gq_ledger_set_synced(struct gq_ledger *ledger);
/* Whether who creates pods is sent to this process, as it is from the start: not to one that
 * follows a leader. Tells pods that nobody asked about from those that another process allowed. */
void gq_ledger_set_deciding(struct gq_ledger *ledger, bool deciding);
/* Synced, and a policy is in force. */
bool gq_ledger_ready(struct gq_ledger *ledger);

/* ---- drift: what was wrong in the ledger, and repaired ---- */

#define GQ_DRIFT_LIMITS_MAX 64
#define GQ_DRIFT_PODS_MAX 20

struct gq_drift_limit {
	char *tenant;
	char *class_name;
	/* The total, all states together, less what it should have been. Both are 0 where only the
	 * states were wrong or what is unready of them, or a charge was before its total was. */
	int64_t shares;
	int64_t memory_mib;
};

struct gq_drift {
	struct gq_drift_limit limits[GQ_DRIFT_LIMITS_MAX];
	size_t n_limits;
	size_t more_limits;            /* that there was no room for */
	char *pods[GQ_DRIFT_PODS_MAX]; /* whose charge was wrong: "namespace/name" */
	size_t n_pods;
	size_t more_pods;
	size_t counted; /* charges that were counted anew */
};
void gq_drift_done(struct gq_drift *drift);

/* Computes every charge and total anew, by the decision's own classifier, and repairs what differs.
 * Reservations whose pod was not seen are left as they are. ret_drift: emptied by the caller with
 * gq_drift_done(). GQ_ENOMEM: the totals in force stay. */
int gq_ledger_recount(struct gq_ledger *ledger, int64_t now_ns, struct gq_drift *ret_drift,
		      struct gq_err *err);

/* A pod about which the API server should be asked. */
struct gq_probe {
	char namespace_[256];
	char name[256];
	char uid[GQ_UID_MAX_BYTES + 1];
};

/* A fresh, consistent list of the pods is held against the ledger, for what no recount of our own
 * charges can find: that the watch lost an event. Both may be ahead of the other, so where they
 * differ the pod is only suspect, and is asked about by a consistent GET. One list at a time:
 * begin, listed for each page, unlisted, then next and judge for each suspect, end. */

#define GQ_SUSPECTS_MAX 10000

/* The list begins; one that was begun before is forgotten. GQ_ENOMEM. */
int gq_ledger_verify_begin(struct gq_ledger *ledger, struct gq_err *err);
/* These pods are in the list. pods: borrowed. GQ_ETOOBIG: too many are suspect; GQ_ENOMEM. */
int gq_ledger_verify_listed(struct gq_ledger *ledger, const struct gq_pod *const *pods, size_t n,
			    struct gq_err *err);
/* No others are: those that the watch has shown before the list began, and it has not, are suspect.
 * Errors as above. */
int gq_ledger_verify_unlisted(struct gq_ledger *ledger, struct gq_err *err);
/* The next suspect to ask about; false: no more. */
bool gq_ledger_suspect_next(struct gq_ledger *ledger, struct gq_probe *ret_probe);
/* Whether the ledger, by now, agrees with what a GET showed (NULL: no pod with that uid), or the
 * watch has told of the pod since it is suspect. It is suspect no longer then. */
bool gq_ledger_suspect_agrees(struct gq_ledger *ledger, const char *uid, const struct gq_pod *pod);

enum gq_suspect_verdict {
	GQ_SUSPECT_AGREES,
	GQ_SUSPECT_REMOVED,   /* was charged and holds nothing any more */
	GQ_SUSPECT_CHARGED,   /* was not charged */
	GQ_SUSPECT_CORRECTED, /* was charged as before it was bound, or deleted */
};

/* The same some time after that GET: what the watch could have told by now and has not is repaired,
 * counted as drift and noted in drift, which the caller empties. GQ_ENOMEM: nothing has changed. It
 * is suspect no longer in any case. */
int gq_ledger_suspect_judge(struct gq_ledger *ledger, const char *uid, const struct gq_pod *pod,
			    int64_t now_ns, struct gq_drift *drift,
			    enum gq_suspect_verdict *ret_verdict, struct gq_err *err);
void gq_ledger_verify_end(struct gq_ledger *ledger);

/* ---- reservations (the store) ---- */

/* A decision that changes what is held hands out a ticket. Its answer may go out once the journal
 * holds what gq_ledger_unseen_print() gave after that, and the ticket was committed.
 *
 * The write that holds the ticket's charge succeeded: proposed becomes reserved, and its time to
 * live starts. Returns whether the ticket was open: it is not when it was aborted or committed
 * before, or its pod was seen meanwhile. */
bool gq_ledger_commit(struct gq_ledger *ledger, uint64_t ticket, int64_t now_ns);
/* It failed: what was proposed is taken back, if its pod was not seen meanwhile. */
void gq_ledger_abort(struct gq_ledger *ledger, uint64_t ticket, int64_t now_ns);
/* The UID of the pod that an open ticket is about. Returns whether there is one. */
bool gq_ledger_ticket_uid(struct gq_ledger *ledger, uint64_t ticket,
			  char ret_uid[GQ_UID_MAX_BYTES + 1]);

/* What all lines together may cost in the journal: what they take as a string of JSON. Leaves room
 * for the rest of the object in 128 KiB. */
#define GQ_UNSEEN_MAX_BYTES (120u << 10)

struct gq_unseen {
	size_t n;
	size_t bytes;     /* as they count against GQ_UNSEEN_MAX_BYTES */
	uint64_t version; /* changes with the set */
};
struct gq_unseen gq_ledger_unseen(struct gq_ledger *ledger);

/* Appends a line (quota/entry.h) with its line break for each reservation that was not seen yet,
 * proposed ones included, and their UIDs to uids in the same way (may be NULL). Work grows with
 * what a journal may hold, not with pods. Returns 0 or GQ_ENOMEM, GQ_ETOOBIG. */
int gq_ledger_unseen_print(struct gq_ledger *ledger, struct gq_buf *out, struct gq_buf *uids,
			   struct gq_unseen *ret_unseen);

struct gq_entry;
/* Takes over a reservation of an earlier leader: its time to live starts anew. What the watch has
 * shown already is left as it is. References the entry's pod. Errors: GQ_ENOMEM. */
int gq_ledger_restore(struct gq_ledger *ledger, const struct gq_entry *entry, int64_t now_ns,
		      struct gq_err *err);

/* A new leader begins: the time to live of everything in the journal starts anew, since whoever led
 * before may have sent his last answers until now. */
void gq_ledger_renew(struct gq_ledger *ledger, int64_t now_ns);

/* While held, whatever would need a ticket is answered with GQ_REASON_JOURNAL. */
void gq_ledger_hold_grants(struct gq_ledger *ledger, bool hold);

/* Looks whether the pod watch is more than five seconds behind: a GET has shown a pod that long
 * after its answer, and the watch has not. While it is, whatever would need a ticket is answered
 * with GQ_REASON_WATCH_LAGS. Call a few times a second. */
bool gq_ledger_check_watch(struct gq_ledger *ledger, int64_t now_ns);

/* A reservation that ended. */
struct gq_ended {
	char uid[GQ_UID_MAX_BYTES + 1];
	bool seen; /* else given back */
	int64_t at_ns;
};
/* The oldest ones that were not told yet, at most max. With note_ended only. */
size_t gq_ledger_ended(struct gq_ledger *ledger, struct gq_ended *items, size_t max);

/* Takes up to max reservations whose pod was not seen though it should have been (2 s), or whose
 * time to live is over. Each must be answered by gq_ledger_probe_done(). */
size_t gq_ledger_probes_due(struct gq_ledger *ledger, int64_t now_ns, struct gq_probe *probes,
			    size_t max);

enum gq_probe_outcome {
	GQ_PROBE_FAILED, /* no answer: the reservation stays; asked again a second later */
	GQ_PROBE_ABSENT, /* there is no such pod, or one with another uid */
	GQ_PROBE_FOUND,  /* pod is its present state */
};

/* The result of a consistent GET begun at begun_ns. Only an absence established after the time to
 * live ends a reservation; no clock alone ever does. pod: borrowed; only with FOUND. */
int gq_ledger_probe_done(struct gq_ledger *ledger, const char *uid, enum gq_probe_outcome outcome,
			 const struct gq_pod *pod, int64_t begun_ns, int64_t now_ns,
			 struct gq_err *err);

/* ---- reading it ---- */

enum gq_charge_state {
	GQ_STATE_RESERVED, /* proposed ones included */
	GQ_STATE_PENDING,
	GQ_STATE_BOUND,
	GQ_STATE_TERMINATING,
	GQ_STATES,
};
const char *gq_charge_state_name(enum gq_charge_state state);

/* A pod that counts in a limit. */
struct gq_usage_holder {
	char *namespace_;
	char *name;
	struct gq_amount amount; /* what it counts there */
	/* The watch showed it though it was not asked about: the webhook was not called, or it is a
	 * static pod. False for pods that were there before this process had synced. */
	bool unasked;
};

#define GQ_USAGE_HOLDERS_MAX 10

struct gq_usage_limit {
	const char *class_name;
	struct gq_amount most; /* grants of this moment included */
	struct gq_amount used[GQ_STATES];
	struct gq_amount unready; /* of used[GQ_STATE_BOUND]: held by running, not Ready pods */
	double bound_gpu_seconds; /* since the limit exists in this process */
	/* Of a limit that is over, after gq_ledger_usage_holders(): who holds most, most first. */
	struct gq_usage_holder *holders;
	size_t n_holders;
	size_t pods;          /* that count in it; the others are not named */
	uint64_t drift_total; /* times that it was found wrong, since then */
};

struct gq_usage_tenant {
	const char *name;
	const char *parent; /* or NULL */
	enum gq_mode mode;
	size_t n_limits;
	struct gq_usage_limit *limits;
};

struct gq_usage_uncharged {
	char *namespace_;
	size_t pods;    /* GPU pods there that no tenant is charged for */
	bool ambiguous; /* selectors of two tenants match the namespace: */
	const char *first, *second;
};

/* A consistent copy. Strings of tenants and classes live as long as its policy reference. */
struct gq_usage {
	struct gq_policy *policy; /* or NULL: no policy yet, and nothing else */
	bool synced;
	struct gq_usage_tenant *tenants;
	size_t n_tenants;
	struct gq_usage_uncharged *uncharged;
	size_t n_uncharged;
	size_t charges[GQ_STATES]; /* pods by state */
	/* Pods that were deleted while they were bound and had not ended, since this process
	 * started: a kubelet may still run them. */
	uint64_t forced_deletions;
};

int gq_ledger_usage(struct gq_ledger *ledger, int64_t now_ns, int64_t wall_s,
		    struct gq_usage *ret_usage, struct gq_err *err);
void gq_usage_done(struct gq_usage *usage);

/* Adds the holders of limits that are over, when there are any: then every pod is looked at, in
 * slices. Does nothing when another policy is in force since. GQ_ENOMEM leaves out holders. */
int gq_ledger_usage_holders(struct gq_ledger *ledger, struct gq_usage *usage, struct gq_err *err);

/* What is held beyond the limit; 0 in a currency that is not over. */
struct gq_amount gq_usage_over(const struct gq_usage_limit *limit);

/* used of all states but reserved; free = most - used - reserved, never below 0. */
struct gq_amount gq_usage_used(const struct gq_usage_limit *limit);
struct gq_amount gq_usage_free(const struct gq_usage_limit *limit);

#endif
