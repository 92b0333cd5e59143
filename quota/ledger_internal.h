#ifndef GQ_QUOTA_LEDGER_INTERNAL_H
#define GQ_QUOTA_LEDGER_INTERNAL_H

#include <stdatomic.h>

#include "base/lock.h"
#include "base/map.h"
#include "quota/ledger.h"
#include "quota/nodes.h"

/* The ledger's inside, shared by ledger.c (pods and nodes as they come), book.c (totals against
 * limits), tenancy.c (namespaces and which tenant they belong to), rebuild.c (counting anew aside),
 * drift.c (what was wrong), verify.c (a list of pods held against it), reserve.c (reservations and
 * how they end), unseen.c (what the journal must hold), makers.c (who makes them), usage.c,
 * decision.c and binding.c. Everything here is guarded by ledger.lock unless it says
 * otherwise. */

/* No single pod adds more than this to a total, so that 64 bits hold any sum and GQ_UNLIMITED,
 * which can't be taken back out of a sum, never gets into one. 2^46 shares are 13 million GPUs. */
#define GQ_CHARGE_CAP (INT64_C(1) << 46)

struct gq_list {
	struct gq_list *prev, *next;
};

#define gq_list_entry(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void gq_list_init(struct gq_list *list)
{
	list->prev = list->next = list;
}

static inline bool gq_list_empty(const struct gq_list *list)
{
	return list->next == list;
}

static inline void gq_list_append(struct gq_list *list, struct gq_list *item)
{
	item->prev = list->prev;
	item->next = list;
	list->prev->next = item;
	list->prev = item;
}

/* Leaves the item pointing at itself, so that removing twice is harmless. */
static inline void gq_list_remove(struct gq_list *item)
{
	item->prev->next = item->next;
	item->next->prev = item->prev;
	gq_list_init(item);
}

/* ---- totals ---- */

struct gq_count {
	struct gq_amount by[GQ_STATES];
	struct gq_amount unready; /* of by[GQ_STATE_BOUND]: what gq_pod_unready() pods add to it */
};

struct gq_book_limit {
	int class_id;
	const struct gq_class_set *leaves;
	struct gq_amount base; /* without grants; GQ_UNLIMITED in a currency not limited */
	struct gq_count used;
	double bound_share_s; /* shares bound, integrated over time */
	int64_t bound_since_ns;
	uint64_t drift_total;
	/* While something wrong is repaired: a charge in it was wrong; its total before. */
	bool drifted;
	struct gq_amount was;
};

struct gq_book_tenant {
	const struct gq_tenant *spec;
	int parent;
	struct gq_book_limit *limits;
	size_t n_limits;
	struct gq_class_set listed;     /* leaves that some limit of the tenant itself holds */
	const struct gq_grant **grants; /* the tenant's own, among book->grants */
	size_t n_grants;
};

/* Totals of every limit under one policy and one snapshot of the nodes. There are two at most: the
 * one in force, and one that is being built to replace it. */
struct gq_book {
	const struct gq_policy *policy;
	struct gq_node_snapshot *snapshot;
	struct gq_book_tenant *tenants;
	size_t n_tenants;
	const struct gq_grant **grants; /* sorted by tenant */
	unsigned bank;           /* which of the two parts[] and assign[] belong to this book */
	struct gq_map *named;    /* namespace -> struct gq_tenancy_name */
	struct gq_map *selected; /* "key=value" -> struct gq_tenancy_bucket */
	struct gq_tenancy *tenancy;
};

/* The language of who is no tenant's, under the policy of the book; NULL: there is none yet. */
static inline enum gq_locale gq_book_locale(const struct gq_book *book)
{
	return book ? book->policy->locale : GQ_LOCALE_EN;
}

/* ---- charges ---- */

/* What a charge counts as on one leaf class. */
struct gq_part {
	int class_id;
	/* Not known to be possible: counted only to be safe, so that a class which the tenant has
	 * no quota for does not refuse the pod. */
	bool maybe;
	struct gq_amount amount;
};

struct gq_parts {
	struct gq_part *items;
	size_t n;
};

/* Reservations of one maker whose pod was not seen. */
struct gq_owner_attempts {
	char *key;
	struct gq_list attempts; /* oldest first */
	unsigned unseen;
};

/* A charge is an attempt of its owner, as the user who asked names one, and of that user in the
 * namespace whatever owners he names. */
enum gq_maker { GQ_MAKER_OWNER, GQ_MAKER_USER, GQ_MAKERS };

struct gq_attempt {
	struct gq_list in_owner;
	struct gq_owner_attempts *owner; /* NULL: not, or no longer */
	struct gq_charge *charge;
};

struct gq_charge {
	const struct gq_pod *pod; /* reference */
	enum gq_charge_state state;
	bool proposed;   /* RESERVED, and its ticket is not committed yet */
	uint64_t ticket; /* of its creation, or of a binding; 0: none open */
	struct gq_slot *slot;
	struct gq_list in_slot;
	struct gq_list in_node;                /* of the node it is bound to */
	struct gq_attempt attempts[GQ_MAKERS]; /* while reserved */
	/* In ledger.waiting until the watch tells: reserved, found by a GET only, or bind_node set.
	 */
	struct gq_list waiting;
	struct gq_parts parts[2];
	struct gq_node_entry *node; /* of pod->node_name, or NULL */
	char *bind_node;            /* a binding was allowed and not seen yet */
	char *request_uid;          /* of the review that reserved it, while it is reserved */
	/* Its line in the journal, and what that costs there, while it is in ledger.unseen. */
	char *entry;
	bool entry_binds; /* it names bind_node */
	size_t entry_len, entry_cost;
	struct gq_list in_unseen;
	/* Leaf classes that its creation, or a binding, was allowed for: its selectors, tolerations
	 * and the nodes may lead it to others since. By ids of each book's classes. For a pod that
	 * the watch showed first, those that it might land on then. */
	struct gq_class_set admitted[2];
	bool admitted_known;
	int64_t answered_ns;    /* last answer that allowed it (or its binding) */
	int64_t probe_after_ns; /* next time to ask the API server */
	bool probing;
	bool found_absent; /* a GET begun after the grace did not show it */
	bool unasked;      /* see struct gq_usage_holder */
	bool watched;      /* the watch has shown it, and will tell its end */
	int64_t found_ns;  /* when the GET began that has shown it */
	bool hurried;      /* was asked about early, since somebody waits for the answer */
	uint64_t list_epoch;
	uint64_t verify_epoch; /* the verification whose list has shown it, or that it is younger
				  than */
};

/* One namespace and name. Its charges count as the largest, since only one of them can exist. */
struct gq_slot {
	struct gq_ns *ns;
	char *name;
	char *key; /* namespace/name, in ledger.slots */
	struct gq_list charges;
	struct gq_list in_ns;
	struct gq_list in_all;
	uint64_t counted_in; /* the build in whose book it is counted already */
};

enum gq_assign_kind {
	GQ_ASSIGN_UNKNOWN, /* no tenant names it, and its labels are not known */
	GQ_ASSIGN_NONE,
	GQ_ASSIGN_TENANT,
	GQ_ASSIGN_AMBIGUOUS,
	GQ_ASSIGN_EXEMPT,
};

struct gq_assign {
	enum gq_assign_kind kind;
	int tenant; /* whom pods there are charged to, -1 nobody; UNKNOWN, AMBIGUOUS: as before */
	int first, second; /* AMBIGUOUS: two that match */
};

struct gq_ns {
	char *name;
	struct gq_namespace *object; /* NULL: not seen */
	uint64_t list_epoch;
	struct gq_assign assign[2];
	uint64_t assigned_in; /* the build for whose book it is assigned already */
	struct gq_list slots;
	size_t n_slots;
	struct gq_list in_all;
};

/* What is known of a node, and who is bound to it. Lives while the node does or a charge is bound.
 */
struct gq_node_entry {
	char *name;
	struct gq_node *node;     /* NULL: gone, or not seen yet */
	struct gq_node *evidence; /* the last state whose labels told the class */
	uint64_t list_epoch;
	struct gq_list charges;
	struct gq_list in_all;
	struct gq_class_reading read; /* in the snapshot in force; label and value unset */
};

struct gq_ledger {
	struct gq_lock lock; /* by gq_ledger_lock() and gq_ledger_unlock() */
	struct gq_lock turn;
	/* Held by whoever builds a book or a snapshot; taken before lock. */
	struct gq_lock build_lock;
	int64_t ttl_ns;
	bool synced;
	bool deciding;
	atomic_uint rules_active; /* read without lock */
	struct gq_book *cur;      /* NULL: no policy yet */
	struct gq_book *next;     /* being built */
	/* Changes when an assignment, the snapshot or the book does: what was worked out without
	 * the lock holds only while this stays. */
	uint64_t generation;
	uint64_t next_ticket;
	bool nodes_changed;
	bool pending_stale; /* charges without a node are of an older snapshot */
	uint64_t epoch[GQ_COLLECTIONS];

	struct gq_map *charges;  /* pod uid -> struct gq_charge */
	struct gq_map *tickets;  /* ticket bytes -> struct gq_charge */
	struct gq_map *requests; /* request uid -> struct gq_charge, while reserved */
	struct gq_map *slots;    /* namespace/name -> struct gq_slot */
	struct gq_map *namespaces;
	struct gq_map *nodes;
	struct gq_map *owners;
	struct gq_list all_slots;
	struct gq_list all_namespaces;
	struct gq_list all_nodes;
	struct gq_list waiting;
	/* What the journal must hold: reservations that were not seen, and bindings not seen that
	 * charge more than their pod was allowed for. */
	struct gq_list unseen;
	size_t n_unseen, unseen_cost;
	uint64_t unseen_version; /* changes with the set */
	int64_t crowded_until_ns;
	/* Hashes of the last pods that the watch has shown to hold nothing any more: what an
	 * earlier leader has reserved for them is over. */
	unsigned long long *over;
	size_t over_next;
	bool hold_grants; /* the store can't vouch for any */
	bool watch_lags;
	struct gq_ended *ended; /* the last reservations that ended, or NULL: nobody asks */
	size_t n_ended;
	/* Where the one walk over each list (under build_lock) goes on; removals step it forward.
	 */
	struct gq_list *slot_cursor;
	struct gq_list *ns_cursor;
	struct gq_list *node_cursor;
	uint64_t build;         /* number of the latest build */
	const int *class_moves; /* while next is built: ids of cur's classes -> next's, -1 none */
	struct gq_drift *drift; /* while a recount builds next: what it finds; else NULL */
	size_t by_state[GQ_STATES];
	uint64_t forced_deletions;
	struct gq_verify *verify; /* NULL: no list is held against the ledger */
	uint64_t verify_epoch;
	struct gq_list *verify_cursor; /* as slot_cursor, without build_lock */
};

/* Whoever waits for the lock holds the turn, so that one who lets the lock go and takes it again at
 * once, as the work in slices does, lets the other in between. */
static inline void gq_ledger_lock(struct gq_ledger *ledger)
{
	gq_lock_take(&ledger->turn);
	gq_lock_take(&ledger->lock);
	gq_lock_release(&ledger->turn);
}

static inline void gq_ledger_unlock(struct gq_ledger *ledger)
{
	gq_lock_release(&ledger->lock);
}

/* ---- book.c ---- */

struct gq_book *gq_book_new(const struct gq_policy *policy, struct gq_node_snapshot *snapshot,
			    unsigned bank, int64_t now_ns);
void gq_book_free(struct gq_book *book);

/* The largest amount, per currency, over the parts inside a limit. */
struct gq_amount gq_parts_inside(const struct gq_parts *parts, const struct gq_class_set *leaves);

/* What a slot's charges count as inside a limit, by state; extra (may be NULL) stands in for, or
 * besides, the charge `replaced` (may be NULL), as state RESERVED. */
void gq_slot_count(const struct gq_slot *slot, unsigned bank, const struct gq_class_set *leaves,
		   const struct gq_parts *extra, const struct gq_charge *replaced,
		   struct gq_count *ret_count);
struct gq_amount gq_count_total(const struct gq_count *count);

/* Adds a slot to (or takes it out of) every limit of its namespace's tenant and the parents. */
void gq_book_add(struct gq_book *book, const struct gq_slot *slot, int64_t now_ns);
void gq_book_remove(struct gq_book *book, const struct gq_slot *slot, int64_t now_ns);

/* The limit of this moment, grants included. */
struct gq_amount gq_book_most(const struct gq_book_limit *limit,
			      const struct gq_book_tenant *tenant, int64_t wall_s);

/* Works the parts out of candidates. Allocates ret_parts->items. 0 or GQ_ENOMEM. */
int gq_parts_compute(const struct gq_policy *policy, const struct gq_pod *pod,
		     const struct gq_candidates *candidates, struct gq_parts *ret_parts);
void gq_parts_done(struct gq_parts *parts);
/* Adds other's parts that parts lacks, or has smaller. */
int gq_parts_merge(struct gq_parts *parts, const struct gq_parts *other);

/* ---- tenancy.c ---- */

int gq_tenancy_build(struct gq_book *book);
void gq_tenancy_free(struct gq_book *book);
/* Whose namespace it is under the book's policy. before: the assignment until now (its tenant stays
 * charged while two selectors match, or the labels are gone with the namespace). object: labels, or
 * NULL when not known. */
struct gq_assign gq_tenancy_assign(const struct gq_book *book, const char *name,
				   const struct gq_namespace *object, int before_tenant);

/* The namespace, made when it is not there. NULL: out of memory. */
struct gq_ns *gq_ledger_ns_get(struct gq_ledger *ledger, const char *name);
void gq_ledger_ns_drop_unused(struct gq_ledger *ledger, struct gq_ns *ns);
void gq_ledger_ns_free(struct gq_ns *ns);
/* What the list that ends did not show is gone. Takes the lock. */
void gq_ledger_ns_sweep(struct gq_ledger *ledger);

/* ---- ledger.c ---- */

/* Takes a slot out of every book that counts it, and puts it back: around each change of it. */
void gq_ledger_uncount(struct gq_ledger *ledger, struct gq_slot *slot, int64_t now_ns);
void gq_ledger_count(struct gq_ledger *ledger, struct gq_slot *slot, int64_t now_ns);
/* Parts of a pod's charge under a book, from what its node is now; bind_node: where a binding was
 * allowed besides, or NULL. */
int gq_ledger_charge_parts(const struct gq_book *book, const struct gq_pod *pod,
			   const char *bind_node, struct gq_parts *ret_parts);
/* Works the charge's parts out again in every book. Its slot must be uncounted. On GQ_ENOMEM the
 * old parts stay. */
int gq_ledger_charge_refresh(struct gq_ledger *ledger, struct gq_charge *charge);
/* NULL when there is none. */
struct gq_slot *gq_ledger_slot_find(struct gq_ledger *ledger, const char *ns, const char *name);
/* A charge for a pod that has none: state RESERVED, no parts yet, so it counts nothing. NULL: out
 * of memory. */
struct gq_charge *gq_ledger_charge_new(struct gq_ledger *ledger, const struct gq_pod *pod);
void gq_ledger_charge_remove(struct gq_ledger *ledger, struct gq_charge *charge, int64_t now_ns);
void gq_ledger_state_set(struct gq_ledger *ledger, struct gq_charge *charge,
			 enum gq_charge_state state);
/* What a charge is whose pod was seen so. */
enum gq_charge_state gq_ledger_seen_state(const struct gq_pod *pod);
/* From now on it is the watch's to tell the pod's end. known: it was charged before. */
void gq_ledger_charge_watched(struct gq_ledger *ledger, struct gq_charge *charge, bool known,
			      int64_t now_ns);
/* The body of gq_ledger_pod_seen(), with the lock held. */
int gq_ledger_pod_update(struct gq_ledger *ledger, const struct gq_pod *pod, int64_t now_ns);

/* Notes, under every book, that the charge was allowed for these classes of the one in force. */
void gq_charge_admit(const struct gq_ledger *ledger, struct gq_charge *charge,
		     const struct gq_parts *parts);
/* What it is not charged for any more, it was not allowed for: others may have taken the room. */
void gq_charge_admit_no_more(const struct gq_ledger *ledger, struct gq_charge *charge);
/* The same for whatever it is charged for now. Does nothing before anything can be decided: then
 * all that is there is taken together, once that is so. */
void gq_charge_admit_parts(const struct gq_ledger *ledger, struct gq_charge *charge);

/* ---- rebuild.c ---- */

/* Counts everything anew under policy and the present nodes (under those in force for NULL), aside,
 * and swaps it in. drift (NULL: not asked for): what differed is noted there; only without a
 * policy. Takes build_lock, then lock, in slices. */
int gq_ledger_rebuild(struct gq_ledger *ledger, const struct gq_policy *policy, int64_t now_ns,
		      struct gq_drift *drift, struct gq_err *err);
/* The same with build_lock held. */
int gq_ledger_rebuild_held(struct gq_ledger *ledger, const struct gq_policy *policy, int64_t now_ns,
			   struct gq_drift *drift, struct gq_err *err);

/* Takes what every charge without `admitted` may land on now as what it was allowed for. With
 * build_lock and lock held, which is let go between slices. */
void gq_ledger_admit_seen(struct gq_ledger *ledger);

/* How many slots are worked on before the lock is let go for others. */
#define GQ_SLICE 64

/* ---- drift.c ---- */

/* Holds what a slot's charges were in the book in force against what they are in the one that is
 * built: notes pods that differ, marks limits of next, and puts states right. */
void gq_drift_check_slot(struct gq_ledger *ledger, const struct gq_slot *slot);
/* The limit was found wrong: counts that, and notes what it had less what it has. */
void gq_drift_count(struct gq_drift *drift, const struct gq_book *book,
		    const struct gq_book_tenant *tenant, struct gq_book_limit *limit,
		    struct gq_amount had, struct gq_amount has);
void gq_drift_note_pod(struct gq_drift *drift, const struct gq_pod *pod);

/* ---- verify.c ---- */

/* The watch has told of the pod. */
void gq_verify_heard(struct gq_ledger *ledger, const char *uid);
void gq_verify_free(struct gq_verify *verify);

/* ---- reserve.c ---- */

/* The charge was answered: waits until its pod is seen, counted as an attempt of its owner. */
void gq_reserve_wait(struct gq_ledger *ledger, struct gq_charge *charge, int64_t now_ns);
/* The watch showed the pod, or it is gone: it waits for nothing any more but, with a bind_node, for
 * being seen there. */
void gq_reserve_settle(struct gq_ledger *ledger, struct gq_charge *charge, int64_t now_ns);
/* Charges what the pod counts as on the node besides, until it is seen there. GQ_ENOMEM changes
 * nothing. */
int gq_reserve_bind(struct gq_ledger *ledger, struct gq_charge *charge, const char *node,
		    int64_t now_ns);
/* Undoes that. */
int gq_reserve_unbind(struct gq_ledger *ledger, struct gq_charge *charge, int64_t now_ns);
/* proposed: it is of the charge's creation, which an abort takes back whole. */
int gq_reserve_set_ticket(struct gq_ledger *ledger, struct gq_charge *charge, bool proposed);
void gq_reserve_close_ticket(struct gq_ledger *ledger, struct gq_charge *charge);
int gq_reserve_set_request(struct gq_ledger *ledger, struct gq_charge *charge, const char *uid);

/* ---- unseen.c ---- */

enum gq_room {
	GQ_ROOM,
	GQ_ROOM_FULL,
	GQ_ROOM_HELD, /* nothing at all is granted */
	GQ_ROOM_WATCH_LAGS,
};
/* Whether something may be granted that costs so much in the journal. ns: whose tenant asks, NULL
 * none. */
enum gq_room gq_unseen_room(struct gq_ledger *ledger, const struct gq_ns *ns, size_t cost,
			    int64_t now_ns);
int gq_unseen_init(struct gq_ledger *ledger, bool note_ended);
/* What a line costs in the journal, which is JSON in a string of JSON. */
size_t gq_unseen_cost(const char *line, size_t len);
/* The journal must hold the charge from now on, by this line, which is taken out of its buffer; it
 * takes the place of an earlier one. */
void gq_unseen_add(struct gq_ledger *ledger, struct gq_charge *charge, struct gq_buf *line);
/* It need not any more. */
void gq_unseen_remove(struct gq_ledger *ledger, struct gq_charge *charge);
/* The watch shows that the pod, by this UID, holds nothing any more, and never will. */
void gq_unseen_over(struct gq_ledger *ledger, const char *uid);
/* Tells whoever asked for it that the reservation is over. */
void gq_unseen_ended(struct gq_ledger *ledger, const struct gq_charge *charge, bool seen,
		     int64_t now_ns);

/* ---- makers.c ---- */

/* A pod that was stored is seen long before that; one that was not may have been refused by
 * something after us. */
#define GQ_SEEN_GRACE_NS (2 * GQ_NS_PER_S)

/* Who makes an attempt, and how many of his pods may be on their way. */
struct gq_maker_key {
	struct gq_buf key;    /* empty: nobody is counted */
	unsigned most_absent; /* attempts that no pod followed, before the next is refused */
	unsigned most_unseen; /* unseen ones before the next waits for the watch; 0 any number */
};
/* Any thread, no lock. 0 or GQ_ENOMEM; either way gq_makers_done() empties it. */
int gq_makers_print(const struct gq_pod *pod, const char *user,
		    struct gq_maker_key makers[GQ_MAKERS]);
void gq_makers_done(struct gq_maker_key (*makers)[GQ_MAKERS]);
/* Files the charge under those who made the attempt. 0 or GQ_ENOMEM. */
int gq_makers_set(struct gq_ledger *ledger, struct gq_charge *charge,
		  const struct gq_maker_key makers[GQ_MAKERS]);
/* It was answered, perhaps again: the youngest attempt now. */
void gq_makers_answered(struct gq_charge *charge);
/* Its pod was seen, or will never be. */
void gq_makers_leave(struct gq_ledger *ledger, struct gq_charge *charge);

/* What earlier attempts of a maker say about its next one. */
struct gq_attempts {
	unsigned unseen;  /* reservations whose pod was not seen */
	unsigned old;     /* of these, older than the grace */
	unsigned absent;  /* of the old ones, not shown by a GET either */
	int seconds_left; /* until the first of them can be given back */
};
struct gq_attempts gq_makers_attempts(struct gq_ledger *ledger, const char *key, int64_t now_ns);
/* Somebody waits for the maker's unseen pods: asks about them soon. */
void gq_makers_hurry(struct gq_ledger *ledger, const char *key, int64_t now_ns);

#endif
