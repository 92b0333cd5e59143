#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "quota/ledger_internal.h"

/* Reservations: from the answer that allowed a pod until it is seen, or until its time to live is
 * over and a consistent GET, begun after that, did not show it. */

#define PROBE_RETRY_NS (1 * GQ_NS_PER_S)
/* How many waiting charges one look for due ones passes. */
#define PROBE_SCAN_MAX 4096

int gq_reserve_set_ticket(struct gq_ledger *ledger, struct gq_charge *charge, bool proposed)
{
	charge->ticket = ++ledger->next_ticket;
	if (gq_map_put(ledger->tickets, (const char *)&charge->ticket, sizeof charge->ticket,
		       charge, NULL)) {
		charge->ticket = 0;
		return GQ_ENOMEM;
	}
	charge->proposed = proposed;
	return 0;
}

void gq_reserve_close_ticket(struct gq_ledger *ledger, struct gq_charge *charge)
{
	if (charge->ticket)
		gq_map_remove(ledger->tickets, (const char *)&charge->ticket,
			      sizeof charge->ticket);
	charge->ticket = 0;
	charge->proposed = false;
}

int gq_reserve_set_request(struct gq_ledger *ledger, struct gq_charge *charge, const char *uid)
{
	charge->request_uid = strdup(uid);
	if (!charge->request_uid)
		return GQ_ENOMEM;
	if (gq_map_put(ledger->requests, charge->request_uid, strlen(uid), charge, NULL)) {
		free(charge->request_uid);
		charge->request_uid = NULL;
		return GQ_ENOMEM;
	}
	return 0;
}

static void request_forget(struct gq_ledger *ledger, struct gq_charge *charge)
{
	if (!charge->request_uid)
		return;
	gq_map_remove(ledger->requests, charge->request_uid, strlen(charge->request_uid));
	free(charge->request_uid);
	charge->request_uid = NULL;
}

void gq_reserve_wait(struct gq_ledger *ledger, struct gq_charge *charge, int64_t now_ns)
{
	charge->answered_ns = now_ns;
	charge->found_absent = false;
	charge->hurried = false;
	charge->probe_after_ns = now_ns + gq_min64(GQ_SEEN_GRACE_NS, ledger->ttl_ns);
	gq_list_remove(&charge->waiting);
	gq_list_append(&ledger->waiting, &charge->waiting);
	gq_makers_answered(charge);
}

void gq_reserve_settle(struct gq_ledger *ledger, struct gq_charge *charge, int64_t now_ns)
{
	gq_makers_leave(ledger, charge);
	request_forget(ledger, charge);
	if (!charge->bind_node)
		gq_list_remove(&charge->waiting);
	if (charge->bind_node && charge->entry_binds)
		return;
	if (charge->entry && !charge->proposed)
		gq_unseen_ended(ledger, charge, true, now_ns);
	gq_reserve_close_ticket(ledger, charge);
	gq_unseen_remove(ledger, charge);
}

bool gq_ledger_commit(struct gq_ledger *ledger, uint64_t ticket, int64_t now_ns)
{
	gq_ledger_lock(ledger);
	struct gq_charge *charge =
	    gq_map_get(ledger->tickets, (const char *)&ticket, sizeof ticket);
	if (charge) {
		gq_reserve_close_ticket(ledger, charge);
		gq_reserve_wait(ledger, charge, now_ns);
	}
	gq_ledger_unlock(ledger);
	return charge != NULL;
}

bool gq_ledger_ticket_uid(struct gq_ledger *ledger, uint64_t ticket,
			  char ret_uid[GQ_UID_MAX_BYTES + 1])
{
	gq_ledger_lock(ledger);
	const struct gq_charge *charge =
	    gq_map_get(ledger->tickets, (const char *)&ticket, sizeof ticket);
	if (charge)
		(void)snprintf(ret_uid, GQ_UID_MAX_BYTES + 1, "%s", charge->pod->uid);
	gq_ledger_unlock(ledger);
	return charge != NULL;
}

void gq_ledger_abort(struct gq_ledger *ledger, uint64_t ticket, int64_t now_ns)
{
	gq_ledger_lock(ledger);
	struct gq_charge *charge =
	    gq_map_get(ledger->tickets, (const char *)&ticket, sizeof ticket);
	if (charge && charge->proposed) {
		gq_ledger_charge_remove(ledger, charge, now_ns);
	} else if (charge) {
		(void)gq_reserve_unbind(ledger, charge, now_ns);
		gq_reserve_close_ticket(ledger, charge);
	}
	gq_ledger_unlock(ledger);
}

size_t gq_ledger_probes_due(struct gq_ledger *ledger, int64_t now_ns, struct gq_probe *probes,
			    size_t max)
{
	size_t n = 0, scanned = 0;

	gq_ledger_lock(ledger);
	/* Each that was looked at goes behind the others, so that these come into the next look. */
	struct gq_list *at = ledger->waiting.next, *then, *last = ledger->waiting.prev;
	for (; at != &ledger->waiting && n < max && scanned < PROBE_SCAN_MAX; at = then) {
		bool end = at == last;
		struct gq_charge *charge = gq_list_entry(at, struct gq_charge, waiting);
		then = at->next;
		scanned++;
		gq_list_remove(&charge->waiting);
		gq_list_append(&ledger->waiting, &charge->waiting);
		if (end)
			then = &ledger->waiting;
		if (charge->probing || charge->proposed || charge->probe_after_ns > now_ns)
			continue;
		const struct gq_pod *pod = charge->pod;
		struct gq_probe *probe = &probes[n++];
		(void)snprintf(probe->namespace_, sizeof probe->namespace_, "%s", pod->namespace_);
		(void)snprintf(probe->name, sizeof probe->name, "%s", pod->name);
		(void)snprintf(probe->uid, sizeof probe->uid, "%s", pod->uid);
		charge->probing = true;
	}
	gq_ledger_unlock(ledger);
	return n;
}

/* There is no such pod, as of begun_ns. */
static void probe_absent(struct gq_ledger *ledger, struct gq_charge *charge, int64_t begun_ns,
			 int64_t now_ns)
{
	int64_t end_ns = charge->answered_ns + ledger->ttl_ns;
	int64_t grace_ns = charge->answered_ns + gq_min64(GQ_SEEN_GRACE_NS, ledger->ttl_ns);
	bool found = charge->state != GQ_STATE_RESERVED;

	if (charge->watched) {
		/* Only its binding is waited for; and this answer may be older than the pod. */
		charge->probe_after_ns = now_ns + ledger->ttl_ns;
		return;
	}
	charge->found_absent = begun_ns >= grace_ns;
	/* A pod that some GET has shown and a later one does not is gone. One that was never shown
	 * may still be on its way until its time to live is over. */
	if (found ? begun_ns > charge->found_ns : begun_ns >= end_ns) {
		if (charge->entry)
			gq_unseen_ended(ledger, charge, false, now_ns);
		gq_unseen_remove(ledger, charge);
		gq_ledger_charge_remove(ledger, charge, now_ns);
	} else {
		charge->probe_after_ns = charge->found_absent ? end_ns : grace_ns;
	}
}

int gq_reserve_bind(struct gq_ledger *ledger, struct gq_charge *charge, const char *bind_node,
		    int64_t now_ns)
{
	char *node = strdup(bind_node);

	if (!node)
		return GQ_ENOMEM;
	gq_ledger_uncount(ledger, charge->slot, now_ns);
	char *old = charge->bind_node;
	charge->bind_node = node;
	int code = gq_ledger_charge_refresh(ledger, charge);
	if (code) {
		charge->bind_node = old;
		old = node;
	}
	gq_ledger_count(ledger, charge->slot, now_ns);
	free(old);
	return code;
}

/* The binding that we allowed did not come to pass. */
int gq_reserve_unbind(struct gq_ledger *ledger, struct gq_charge *charge, int64_t now_ns)
{
	char *node = GQ_STEAL(charge->bind_node);

	gq_ledger_uncount(ledger, charge->slot, now_ns);
	int code = gq_ledger_charge_refresh(ledger, charge);
	gq_ledger_count(ledger, charge->slot, now_ns);
	if (code) {
		charge->bind_node = node;
		return code;
	}
	free(node);
	gq_charge_admit_no_more(ledger, charge);
	bool answered = charge->entry_binds && !charge->ticket;
	charge->entry_binds = false;
	if (!charge->watched)
		return 0;
	if (answered)
		gq_unseen_ended(ledger, charge, false, now_ns);
	gq_unseen_remove(ledger, charge);
	gq_reserve_settle(ledger, charge, now_ns);
	return 0;
}

/* A GET showed the pod, so that whoever leads next finds it, too. */
static void found(struct gq_ledger *ledger, struct gq_charge *charge, int64_t now_ns)
{
	gq_makers_leave(ledger, charge);
	request_forget(ledger, charge);
	if (charge->entry_binds)
		return;
	if (charge->entry)
		gq_unseen_ended(ledger, charge, true, now_ns);
	gq_reserve_close_ticket(ledger, charge);
	gq_unseen_remove(ledger, charge);
}

static int probe_found(struct gq_ledger *ledger, struct gq_charge *charge, const struct gq_pod *pod,
		       int64_t begun_ns, int64_t now_ns)
{
	bool bind_over = charge->bind_node && !pod->node_name[0] &&
			 begun_ns >= charge->answered_ns + ledger->ttl_ns;

	/* Only the watch settles it: it may have been deleted since, before our list began. */
	charge->probe_after_ns = now_ns + ledger->ttl_ns;
	if (!charge->watched) {
		int code = gq_ledger_pod_update(ledger, pod, now_ns);
		charge = gq_map_get(ledger->charges, pod->uid, strlen(pod->uid));
		if (code || !charge)
			return code;
		charge->found_ns = begun_ns;
		found(ledger, charge, now_ns);
	}
	return bind_over ? gq_reserve_unbind(ledger, charge, now_ns) : 0;
}

int gq_ledger_probe_done(struct gq_ledger *ledger, const char *uid, enum gq_probe_outcome outcome,
			 const struct gq_pod *pod, int64_t begun_ns, int64_t now_ns,
			 struct gq_err *err)
{
	int code = 0;

	gq_ledger_lock(ledger);
	struct gq_charge *charge = gq_map_get(ledger->charges, uid, strlen(uid));
	if (charge)
		charge->probing = false;
	/* The watch was faster: it knows better. */
	if (charge && !gq_list_empty(&charge->waiting)) {
		if (outcome == GQ_PROBE_ABSENT)
			probe_absent(ledger, charge, begun_ns, now_ns);
		else if (outcome == GQ_PROBE_FOUND)
			code = probe_found(ledger, charge, pod, begun_ns, now_ns);
		else
			charge->probe_after_ns = now_ns + PROBE_RETRY_NS;
	}
	gq_ledger_unlock(ledger);
	return code ? gq_fail(err, code, "out of memory for pod %s", uid) : 0;
}
