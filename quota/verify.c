#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quota/ledger_internal.h"

/* The ledger against a list of the pods: finds what the watch has lost. Nothing is believed of the
 * list but that a pod is worth a question; what the question's answer says is only acted upon when
 * the watch had time to say the same and did not. */

struct gq_suspect {
	struct gq_list in_queue; /* points at itself once it is asked about */
	bool heard;              /* the watch has told of it since, and knows better */
	const char *namespace_, *name, *uid;
	char bytes[];
};

struct gq_verify {
	struct gq_map *suspects; /* by uid */
	struct gq_list queue;    /* those that were not asked about yet */
};

static void suspect_remove(struct gq_verify *verify, struct gq_suspect *suspect)
{
	gq_list_remove(&suspect->in_queue);
	gq_map_remove(verify->suspects, suspect->uid, strlen(suspect->uid));
	free(suspect);
}

void gq_verify_free(struct gq_verify *verify)
{
	size_t cursor = 0;

	if (!verify)
		return;
	if (verify->suspects)
		for (struct gq_suspect *s; (s = gq_map_next(verify->suspects, &cursor));)
			free(s);
	gq_map_free(verify->suspects);
	free(verify);
}

static struct gq_suspect *suspect_find(const struct gq_ledger *ledger, const char *uid)
{
	return ledger->verify ? gq_map_get(ledger->verify->suspects, uid, strlen(uid)) : NULL;
}

void gq_verify_heard(struct gq_ledger *ledger, const char *uid)
{
	struct gq_suspect *suspect = suspect_find(ledger, uid);

	if (suspect)
		suspect->heard = true;
}

static int suspect_add(struct gq_ledger *ledger, const struct gq_pod *pod)
{
	struct gq_verify *verify = ledger->verify;
	size_t ns = strlen(pod->namespace_) + 1, name = strlen(pod->name) + 1;
	size_t uid = strlen(pod->uid) + 1;

	if (!verify || suspect_find(ledger, pod->uid))
		return 0;
	if (gq_map_count(verify->suspects) == GQ_SUSPECTS_MAX)
		return GQ_ETOOBIG;
	struct gq_suspect *suspect = malloc(sizeof *suspect + ns + name + uid);
	if (!suspect)
		return GQ_ENOMEM;
	char *at = suspect->bytes;
	*suspect = (struct gq_suspect){.namespace_ = at, .name = at + ns, .uid = at + ns + name};
	memcpy(at, pod->namespace_, ns);
	memcpy(at + ns, pod->name, name);
	memcpy(at + ns + name, pod->uid, uid);
	if (gq_map_put(verify->suspects, suspect->uid, uid - 1, suspect, NULL)) {
		free(suspect);
		return GQ_ENOMEM;
	}
	gq_list_append(&verify->queue, &suspect->in_queue);
	return 0;
}

static int suspects_fail(int code, struct gq_err *err)
{
	if (code == GQ_ETOOBIG)
		return gq_fail(err, code, "more than %d pods differ between the ledger and a list",
			       GQ_SUSPECTS_MAX);
	return code ? gq_fail(err, code, "out of memory for pods that a list told otherwise") : 0;
}

/* ---- the list ---- */

int gq_ledger_verify_begin(struct gq_ledger *ledger, struct gq_err *err)
{
	struct gq_verify *verify = calloc(1, sizeof *verify);

	if (verify) {
		gq_list_init(&verify->queue);
		verify->suspects = gq_map_new();
	}
	if (!verify || !verify->suspects) {
		gq_verify_free(verify);
		return gq_fail(err, GQ_ENOMEM, "out of memory for a list of pods");
	}
	gq_ledger_lock(ledger);
	struct gq_verify *old = ledger->verify;
	ledger->verify = verify;
	ledger->verify_epoch++;
	gq_ledger_unlock(ledger);
	gq_verify_free(old);
	return 0;
}

void gq_ledger_verify_end(struct gq_ledger *ledger)
{
	gq_ledger_lock(ledger);
	struct gq_verify *verify = GQ_STEAL(ledger->verify);
	gq_ledger_unlock(ledger);
	gq_verify_free(verify);
}

/* Whether the pod is in a state that comes after the one it is charged in: a node and a deletion,
 * once they are there, stay. What a reservation becomes is told by the watch or by its probes. */
static bool charge_behind(const struct gq_charge *charge, const struct gq_pod *pod)
{
	return charge->state != GQ_STATE_RESERVED &&
	       ((pod->node_name[0] && !charge->pod->node_name[0]) ||
		(pod->terminating && !charge->pod->terminating));
}

static int pod_listed(struct gq_ledger *ledger, const struct gq_pod *pod)
{
	struct gq_charge *charge = gq_map_get(ledger->charges, pod->uid, strlen(pod->uid));

	if (!gq_pod_holds(pod)) /* and should not be charged */
		return 0;
	if (charge)
		charge->verify_epoch = ledger->verify_epoch;
	return charge && !charge_behind(charge, pod) ? 0 : suspect_add(ledger, pod);
}

int gq_ledger_verify_listed(struct gq_ledger *ledger, const struct gq_pod *const *pods, size_t n,
			    struct gq_err *err)
{
	int code = 0;

	for (size_t i = 0; !code && i < n;) {
		gq_ledger_lock(ledger);
		do
			code = pod_listed(ledger, pods[i]);
		while (++i % GQ_SLICE && !code && i < n);
		gq_ledger_unlock(ledger);
	}
	return suspects_fail(code, err);
}

static int slot_unlisted(struct gq_ledger *ledger, const struct gq_slot *slot)
{
	int code = 0;

	for (struct gq_list *at = slot->charges.next; !code && at != &slot->charges;
	     at = at->next) {
		const struct gq_charge *charge = gq_list_entry(at, struct gq_charge, in_slot);
		if (charge->watched && charge->verify_epoch != ledger->verify_epoch)
			code = suspect_add(ledger, charge->pod);
	}
	return code;
}

int gq_ledger_verify_unlisted(struct gq_ledger *ledger, struct gq_err *err)
{
	int code = 0;

	gq_ledger_lock(ledger);
	ledger->verify_cursor = ledger->all_slots.next;
	for (unsigned n = 1; !code && ledger->verify_cursor != &ledger->all_slots; n++) {
		struct gq_slot *slot = gq_list_entry(ledger->verify_cursor, struct gq_slot, in_all);
		ledger->verify_cursor = ledger->verify_cursor->next;
		code = slot_unlisted(ledger, slot);
		if (n % GQ_SLICE == 0) {
			gq_ledger_unlock(ledger);
			gq_ledger_lock(ledger);
		}
	}
	ledger->verify_cursor = NULL;
	gq_ledger_unlock(ledger);
	return suspects_fail(code, err);
}

/* ---- suspects ---- */

bool gq_ledger_suspect_next(struct gq_ledger *ledger, struct gq_probe *ret_probe)
{
	bool found = false;

	gq_ledger_lock(ledger);
	struct gq_verify *verify = ledger->verify;
	if (verify && !gq_list_empty(&verify->queue)) {
		struct gq_suspect *s =
		    gq_list_entry(verify->queue.next, struct gq_suspect, in_queue);
		gq_list_remove(&s->in_queue);
		(void)snprintf(ret_probe->namespace_, sizeof ret_probe->namespace_, "%s",
			       s->namespace_);
		(void)snprintf(ret_probe->name, sizeof ret_probe->name, "%s", s->name);
		(void)snprintf(ret_probe->uid, sizeof ret_probe->uid, "%s", s->uid);
		found = true;
	}
	gq_ledger_unlock(ledger);
	return found;
}

/* pod: what a GET showed that began after the suspicion, NULL for nothing. */
static bool agrees(const struct gq_suspect *suspect, const struct gq_charge *charge,
		   const struct gq_pod *pod)
{
	if (!suspect || suspect->heard)
		return true;
	if (pod && gq_pod_holds(pod))
		return charge && !charge_behind(charge, pod);
	/* One that only an answer or a GET has shown ends by its own probes. */
	return !charge || !charge->watched;
}

bool gq_ledger_suspect_agrees(struct gq_ledger *ledger, const char *uid, const struct gq_pod *pod)
{
	gq_ledger_lock(ledger);
	struct gq_suspect *suspect = suspect_find(ledger, uid);
	bool done = agrees(suspect, gq_map_get(ledger->charges, uid, strlen(uid)), pod);
	if (done && suspect)
		suspect_remove(ledger->verify, suspect);
	gq_ledger_unlock(ledger);
	return done;
}

/* ---- repair ---- */

/* Each limit that pods of the tenant count in. */
static void each_limit(struct gq_book *book, int t, const void *arg,
		       void (*visit)(const void *arg, const struct gq_book *book,
				     const struct gq_book_tenant *tenant,
				     struct gq_book_limit *limit))
{
	for (; book && t >= 0; t = book->tenants[t].parent)
		for (size_t i = 0; i < book->tenants[t].n_limits; i++)
			visit(arg, book, &book->tenants[t], &book->tenants[t].limits[i]);
}

static void note_before(const void *arg, const struct gq_book *book,
			const struct gq_book_tenant *tenant, struct gq_book_limit *limit)
{
	(void)arg;
	(void)book;
	(void)tenant;
	limit->was = gq_count_total(&limit->used);
	limit->drifted = false;
}

/* arg: a charge that is wrong or was missing. */
static void mark_counted(const void *arg, const struct gq_book *book,
			 const struct gq_book_tenant *tenant, struct gq_book_limit *limit)
{
	const struct gq_charge *charge = arg;

	(void)tenant;
	if (!gq_amount_is_zero(gq_parts_inside(&charge->parts[book->bank], limit->leaves)))
		limit->drifted = true;
}

static void count_marked(const void *arg, const struct gq_book *book,
			 const struct gq_book_tenant *tenant, struct gq_book_limit *limit)
{
	struct gq_drift *const *drift = arg;

	if (limit->drifted)
		gq_drift_count(*drift, book, tenant, limit, limit->was,
			       gq_count_total(&limit->used));
}

/* The charge becomes what pod says (NULL: it ends). */
static int repair(struct gq_ledger *ledger, struct gq_charge *charge, const struct gq_pod *pod,
		  int64_t now_ns, struct gq_drift *drift)
{
	bool known = charge;
	struct gq_pod *named GQ_CLEANUP(gq_cleanup_pod) = gq_pod_ref(pod ? pod : charge->pod);
	struct gq_book *cur = ledger->cur;
	struct gq_ns *ns = charge ? charge->slot->ns : gq_ledger_ns_get(ledger, pod->namespace_);
	int code = 0;

	if (!ns)
		return GQ_ENOMEM;
	int tenant = cur ? ns->assign[cur->bank].tenant : -1;
	each_limit(cur, tenant, NULL, note_before);
	if (charge)
		each_limit(cur, tenant, charge, mark_counted);
	if (pod && gq_pod_holds(pod)) {
		code = gq_ledger_pod_update(ledger, pod, now_ns);
		charge = gq_map_get(ledger->charges, named->uid, strlen(named->uid));
	} else if (charge) {
		gq_ledger_charge_remove(ledger, charge, now_ns);
		charge = NULL;
	}
	if (code)
		return code;
	if (charge)
		each_limit(cur, tenant, charge, mark_counted);
	/* Its beginning was lost, not its end: that comes, or the next list is without it. */
	if (charge && !known)
		gq_ledger_charge_watched(ledger, charge, known, now_ns);
	each_limit(cur, tenant, &drift, count_marked);
	gq_drift_note_pod(drift, named);
	return 0;
}

int gq_ledger_suspect_judge(struct gq_ledger *ledger, const char *uid, const struct gq_pod *pod,
			    int64_t now_ns, struct gq_drift *drift,
			    enum gq_suspect_verdict *ret_verdict, struct gq_err *err)
{
	enum gq_suspect_verdict verdict = GQ_SUSPECT_AGREES;
	int code = 0;

	gq_ledger_lock(ledger);
	struct gq_suspect *suspect = suspect_find(ledger, uid);
	struct gq_charge *charge = gq_map_get(ledger->charges, uid, strlen(uid));
	if (!agrees(suspect, charge, pod)) {
		verdict = !charge                    ? GQ_SUSPECT_CHARGED
			  : pod && gq_pod_holds(pod) ? GQ_SUSPECT_CORRECTED
						     : GQ_SUSPECT_REMOVED;
		code = repair(ledger, charge, pod, now_ns, drift);
	}
	if (suspect)
		suspect_remove(ledger->verify, suspect);
	gq_ledger_unlock(ledger);
	if (code)
		return gq_fail(err, code, "out of memory for pod %s", uid);
	*ret_verdict = verdict;
	return 0;
}
