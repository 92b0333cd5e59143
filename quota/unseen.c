#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "quota/entry.h"
#include "quota/ledger_internal.h"

/* What the journal must hold: reservations whose pod was not seen, and bindings that charge more
 * than their pod was allowed for. The set is kept as printed lines, so that a journal write only
 * copies them. */

/* A tenant may take more than this only while nobody else waits and as much is left for others. */
#define TENANT_MAX_BYTES (GQ_UNSEEN_MAX_BYTES / 4)
#define WATCH_LAG_MAX_NS (5 * GQ_NS_PER_S)
#define LAG_PROBE_NS (1 * GQ_NS_PER_S)
/* Somebody who holds less than his quarter was refused: for so long nobody gets more than his. */
#define CROWDED_NS (5 * GQ_NS_PER_S)
/* How many waiting charges one look at the watch passes. */
#define LAG_SCAN_MAX 4096
#define ENDED_MAX 16384
/* More than a journal holds. */
#define OVER_MAX 4096

size_t gq_unseen_cost(const char *line, size_t len)
{
	size_t cost = len + 2; /* the line break is escaped, too */

	for (size_t i = 0; i < len; i++)
		cost += line[i] == '"' || line[i] == '\\';
	return cost;
}

static int tenant_of(const struct gq_ledger *ledger, const struct gq_ns *ns)
{
	return ledger->cur && ns ? ns->assign[ledger->cur->bank].tenant : -1;
}

static size_t tenant_cost(const struct gq_ledger *ledger, int tenant)
{
	size_t cost = 0;

	for (const struct gq_list *at = ledger->unseen.next; at != &ledger->unseen; at = at->next) {
		const struct gq_charge *charge = gq_list_entry(at, struct gq_charge, in_unseen);
		if (tenant_of(ledger, charge->slot->ns) == tenant)
			cost += charge->entry_cost;
	}
	return cost;
}

enum gq_room gq_unseen_room(struct gq_ledger *ledger, const struct gq_ns *ns, size_t cost,
			    int64_t now_ns)
{
	size_t all = ledger->unseen_cost + cost;

	if (ledger->hold_grants)
		return GQ_ROOM_HELD;
	if (ledger->watch_lags)
		return GQ_ROOM_WATCH_LAGS;
	if (all <= TENANT_MAX_BYTES)
		return GQ_ROOM;
	bool within = tenant_cost(ledger, tenant_of(ledger, ns)) + cost <= TENANT_MAX_BYTES;
	if (within && all <= GQ_UNSEEN_MAX_BYTES)
		return GQ_ROOM;
	if (within)
		ledger->crowded_until_ns = now_ns + CROWDED_NS;
	/* The last quarter is for tenants that hold less than theirs. */
	return !within && all <= GQ_UNSEEN_MAX_BYTES - TENANT_MAX_BYTES &&
		       now_ns >= ledger->crowded_until_ns
		   ? GQ_ROOM
		   : GQ_ROOM_FULL;
}

void gq_unseen_add(struct gq_ledger *ledger, struct gq_charge *charge, struct gq_buf *line)
{
	gq_unseen_remove(ledger, charge);
	charge->entry_len = line->len;
	charge->entry_cost = gq_unseen_cost(line->data, line->len);
	charge->entry = gq_buf_steal(line);
	gq_list_append(&ledger->unseen, &charge->in_unseen);
	ledger->n_unseen++;
	ledger->unseen_cost += charge->entry_cost;
	ledger->unseen_version++;
}

void gq_unseen_remove(struct gq_ledger *ledger, struct gq_charge *charge)
{
	if (!charge->entry)
		return;
	gq_list_remove(&charge->in_unseen);
	ledger->n_unseen--;
	ledger->unseen_cost -= charge->entry_cost;
	ledger->unseen_version++;
	free(charge->entry);
	charge->entry = NULL;
	charge->entry_len = charge->entry_cost = 0;
}

struct gq_unseen gq_ledger_unseen(struct gq_ledger *ledger)
{
	gq_ledger_lock(ledger);
	struct gq_unseen unseen = {ledger->n_unseen, ledger->unseen_cost, ledger->unseen_version};
	gq_ledger_unlock(ledger);
	return unseen;
}

int gq_ledger_unseen_print(struct gq_ledger *ledger, struct gq_buf *out, struct gq_buf *uids,
			   struct gq_unseen *ret_unseen)
{
	gq_ledger_lock(ledger);
	for (const struct gq_list *at = ledger->unseen.next; at != &ledger->unseen; at = at->next) {
		const struct gq_charge *charge = gq_list_entry(at, struct gq_charge, in_unseen);
		gq_buf_append(out, charge->entry, charge->entry_len);
		gq_buf_putc(out, '\n');
		if (uids) {
			gq_buf_puts(uids, charge->pod->uid);
			gq_buf_putc(uids, '\n');
		}
	}
	*ret_unseen =
	    (struct gq_unseen){ledger->n_unseen, ledger->unseen_cost, ledger->unseen_version};
	gq_ledger_unlock(ledger);
	return out->code ? out->code : uids ? uids->code : 0;
}

/* ---- taking over ---- */

void gq_unseen_over(struct gq_ledger *ledger, const char *uid)
{
	ledger->over[ledger->over_next++ % OVER_MAX] = gq_hash(uid, strlen(uid));
}

static bool is_over(const struct gq_ledger *ledger, const char *uid)
{
	unsigned long long hash = gq_hash(uid, strlen(uid));

	for (size_t i = 0; i < OVER_MAX && i < ledger->over_next; i++)
		if (ledger->over[i] == hash)
			return true;
	return false;
}

/* A charge for a pod that the watch has not shown. GQ_ENOMEM leaves nothing behind. */
static int restore_new(struct gq_ledger *ledger, const struct gq_entry *entry, int64_t now_ns,
		       struct gq_charge **ret_charge)
{
	struct gq_maker_key makers[GQ_MAKERS] GQ_CLEANUP(gq_makers_done);
	int code = gq_makers_print(entry->pod, entry->user, makers);
	struct gq_charge *charge = code ? NULL : gq_ledger_charge_new(ledger, entry->pod);

	if (!charge)
		return GQ_ENOMEM;
	gq_ledger_uncount(ledger, charge->slot, now_ns);
	code = gq_ledger_charge_refresh(ledger, charge);
	gq_ledger_count(ledger, charge->slot, now_ns);
	if (code || gq_makers_set(ledger, charge, makers)) {
		gq_ledger_charge_remove(ledger, charge, now_ns);
		return GQ_ENOMEM;
	}
	*ret_charge = charge;
	return 0;
}

/* The line, and what it stands for: the reservation itself, or a binding besides. */
static int restore_charge(struct gq_ledger *ledger, struct gq_charge *charge,
			  const struct gq_entry *entry, int64_t now_ns)
{
	struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_ENTRY_MAX_BYTES);
	bool binds = entry->bind_node[0] && !charge->pod->node_name[0];
	const char *node = charge->bind_node ? charge->bind_node : binds ? entry->bind_node : NULL;
	bool bind = node && !charge->bind_node;

	if (charge->state != GQ_STATE_RESERVED && !binds)
		return 0;
	/* a line that does not fit any more was read, so it is printed no longer than that */
	if (gq_entry_print(&line, entry->pod, entry->user, node))
		return GQ_ENOMEM;
	if (bind && gq_reserve_bind(ledger, charge, node, now_ns))
		return GQ_ENOMEM;
	gq_unseen_add(ledger, charge, &line);
	charge->entry_binds = node != NULL;
	if (bind || !charge->admitted_known)
		gq_charge_admit_parts(ledger, charge);
	gq_reserve_wait(ledger, charge, now_ns);
	return 0;
}

static int restore(struct gq_ledger *ledger, const struct gq_entry *entry, int64_t now_ns)
{
	const char *uid = entry->pod->uid;
	struct gq_charge *charge = gq_map_get(ledger->charges, uid, strlen(uid));
	bool fresh = !charge;

	if (!charge && is_over(ledger, uid))
		return 0;
	if (charge && charge->proposed) /* its own request answers for it */
		return 0;
	if (fresh && restore_new(ledger, entry, now_ns, &charge))
		return GQ_ENOMEM;
	int code = restore_charge(ledger, charge, entry, now_ns);
	if (code && fresh)
		gq_ledger_charge_remove(ledger, charge, now_ns);
	return code;
}

int gq_ledger_restore(struct gq_ledger *ledger, const struct gq_entry *entry, int64_t now_ns,
		      struct gq_err *err)
{
	gq_ledger_lock(ledger);
	int code = restore(ledger, entry, now_ns);
	gq_ledger_unlock(ledger);
	return code ? gq_fail(err, code, "out of memory for the reservation of pod %s/%s",
			      entry->pod->namespace_, entry->pod->name)
		    : 0;
}

void gq_ledger_renew(struct gq_ledger *ledger, int64_t now_ns)
{
	gq_ledger_lock(ledger);
	for (struct gq_list *at = ledger->unseen.next; at != &ledger->unseen; at = at->next) {
		struct gq_charge *charge = gq_list_entry(at, struct gq_charge, in_unseen);
		if (charge->proposed)
			continue;
		gq_reserve_wait(ledger, charge, now_ns);
		/* It may have been seen by the earlier leader, and be over by now: one GET may
		 * tell. */
		charge->probe_after_ns = now_ns;
	}
	gq_ledger_unlock(ledger);
}

/* ---- when nothing can be granted ---- */

void gq_ledger_hold_grants(struct gq_ledger *ledger, bool hold)
{
	gq_ledger_lock(ledger);
	ledger->hold_grants = hold;
	gq_ledger_unlock(ledger);
}

bool gq_ledger_check_watch(struct gq_ledger *ledger, int64_t now_ns)
{
	bool lags = false;
	unsigned n = 0;

	gq_ledger_lock(ledger);
	struct gq_list *at = ledger->waiting.next;
	for (; at != &ledger->waiting && n < LAG_SCAN_MAX; at = at->next, n++) {
		struct gq_charge *charge = gq_list_entry(at, struct gq_charge, waiting);
		/* one that nobody asked about is there since the watch has lost it */
		if (charge->watched || charge->state == GQ_STATE_RESERVED || !charge->answered_ns ||
		    now_ns - charge->answered_ns <= WATCH_LAG_MAX_NS)
			continue;
		lags = true;
		/* a list tells of no deletion, so the pod may be gone for long */
		charge->probe_after_ns = gq_min64(charge->probe_after_ns, now_ns + LAG_PROBE_NS);
	}
	ledger->watch_lags = lags;
	gq_ledger_unlock(ledger);
	return lags;
}

/* ---- what ended ---- */

void gq_unseen_ended(struct gq_ledger *ledger, const struct gq_charge *charge, bool seen,
		     int64_t now_ns)
{
	if (!ledger->ended || ledger->n_ended == ENDED_MAX)
		return;
	struct gq_ended *ended = &ledger->ended[ledger->n_ended++];
	*ended = (struct gq_ended){.seen = seen, .at_ns = now_ns};
	memcpy(ended->uid, charge->pod->uid, strnlen(charge->pod->uid, GQ_UID_MAX_BYTES));
}

size_t gq_ledger_ended(struct gq_ledger *ledger, struct gq_ended *items, size_t max)
{
	gq_ledger_lock(ledger);
	size_t n = ledger->n_ended < max ? ledger->n_ended : max;
	if (n) {
		memcpy(items, ledger->ended, n * sizeof *items);
		ledger->n_ended -= n;
		memmove(ledger->ended, ledger->ended + n, ledger->n_ended * sizeof *items);
	}
	gq_ledger_unlock(ledger);
	return n;
}

int gq_unseen_init(struct gq_ledger *ledger, bool note_ended)
{
	gq_list_init(&ledger->unseen);
	ledger->over = calloc(OVER_MAX, sizeof *ledger->over);
	if (note_ended)
		ledger->ended = calloc(ENDED_MAX, sizeof *ledger->ended);
	return !ledger->over || (note_ended && !ledger->ended) ? GQ_ENOMEM : 0;
}
