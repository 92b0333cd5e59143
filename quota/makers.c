#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "quota/ledger_internal.h"

/* Who makes pods, and how many of his were allowed and not seen. */

/* Attempts that no pod followed, before the next create is refused: of one owner, and of one user
 * whatever owners he names. */
#define OWNER_ABSENT_MAX 2
#define USER_ABSENT_MAX 8
/* The watch usually takes milliseconds; when somebody waits, ask after so long. */
#define HURRY_NS (50 * GQ_NS_PER_MS)

/* Anybody may write any owner into a pod, so what an owner's pods did counts for the one who wrote
 * it; and somebody who writes many owners has a bound of his own. Kubernetes' own controllers speak
 * for the owners that they name. */
int gq_makers_print(const struct gq_pod *pod, const char *user,
		    struct gq_maker_key makers[GQ_MAKERS])
{
	static const char controllers[] = "system:serviceaccount:kube-system:";
	bool trusted = strncmp(user, controllers, sizeof controllers - 1) == 0;

	makers[GQ_MAKER_OWNER] =
	    (struct gq_maker_key){.key = GQ_BUF_INIT(4096),
				  .most_absent = OWNER_ABSENT_MAX,
				  .most_unseen = pod->owner.uid[0] ? OWNER_ABSENT_MAX : 0};
	makers[GQ_MAKER_USER] = (struct gq_maker_key){.key = GQ_BUF_INIT(4096),
						      .most_absent = USER_ABSENT_MAX,
						      .most_unseen = USER_ABSENT_MAX};
	gq_buf_printf(&makers[GQ_MAKER_OWNER].key, "owner %s %.1024s %.1024s", pod->namespace_,
		      user, pod->owner.uid);
	if (!trusted)
		gq_buf_printf(&makers[GQ_MAKER_USER].key, "user %s %.1024s", pod->namespace_, user);
	return makers[GQ_MAKER_OWNER].key.code ? makers[GQ_MAKER_OWNER].key.code
					       : makers[GQ_MAKER_USER].key.code;
}

void gq_makers_done(struct gq_maker_key (*makers)[GQ_MAKERS])
{
	for (int m = 0; m < GQ_MAKERS; m++)
		gq_buf_done(&(*makers)[m].key);
}

static void owner_drop_unused(struct gq_ledger *ledger, struct gq_owner_attempts *owner)
{
	if (owner->unseen > 0)
		return;
	gq_map_remove(ledger->owners, owner->key, strlen(owner->key));
	free(owner->key);
	free(owner);
}

void gq_makers_leave(struct gq_ledger *ledger, struct gq_charge *charge)
{
	for (int m = 0; m < GQ_MAKERS; m++) {
		struct gq_attempt *attempt = &charge->attempts[m];
		struct gq_owner_attempts *owner = attempt->owner;
		if (!owner)
			continue;
		attempt->owner = NULL;
		gq_list_remove(&attempt->in_owner);
		owner->unseen--;
		owner_drop_unused(ledger, owner);
	}
}

static struct gq_owner_attempts *owner_get(struct gq_ledger *ledger, const char *key)
{
	struct gq_owner_attempts *owner = gq_map_get(ledger->owners, key, strlen(key));

	if (owner)
		return owner;
	owner = calloc(1, sizeof *owner);
	if (!owner)
		return NULL;
	owner->key = strdup(key);
	gq_list_init(&owner->attempts);
	if (!owner->key ||
	    gq_map_put(ledger->owners, owner->key, strlen(owner->key), owner, NULL)) {
		free(owner->key);
		free(owner);
		return NULL;
	}
	return owner;
}

static int set_maker(struct gq_ledger *ledger, struct gq_charge *charge, enum gq_maker maker,
		     const char *key)
{
	struct gq_owner_attempts *owner = owner_get(ledger, key);
	struct gq_attempt *attempt = &charge->attempts[maker];

	if (!owner)
		return GQ_ENOMEM;
	owner->unseen++;
	attempt->owner = owner;
	attempt->charge = charge;
	gq_list_append(&owner->attempts, &attempt->in_owner);
	return 0;
}

int gq_makers_set(struct gq_ledger *ledger, struct gq_charge *charge,
		  const struct gq_maker_key makers[GQ_MAKERS])
{
	for (int m = 0; m < GQ_MAKERS; m++)
		if (makers[m].key.len &&
		    set_maker(ledger, charge, (enum gq_maker)m, makers[m].key.data))
			return GQ_ENOMEM;
	return 0;
}

void gq_makers_answered(struct gq_charge *charge)
{
	for (int m = 0; m < GQ_MAKERS; m++) {
		struct gq_attempt *attempt = &charge->attempts[m];
		if (!attempt->owner)
			continue;
		gq_list_remove(&attempt->in_owner);
		gq_list_append(&attempt->owner->attempts, &attempt->in_owner);
	}
}

struct gq_attempts gq_makers_attempts(struct gq_ledger *ledger, const char *key, int64_t now_ns)
{
	const struct gq_owner_attempts *owner = gq_map_get(ledger->owners, key, strlen(key));
	struct gq_attempts attempts = {0};

	if (!owner)
		return attempts;
	attempts.unseen = owner->unseen;
	const struct gq_list *at = owner->attempts.next;
	for (; at != &owner->attempts; at = at->next) {
		const struct gq_charge *charge =
		    gq_list_entry(at, struct gq_attempt, in_owner)->charge;
		if (now_ns - charge->answered_ns < GQ_SEEN_GRACE_NS)
			break; /* the others are younger */
		int64_t left_ns = gq_max64(charge->answered_ns + ledger->ttl_ns - now_ns, 1);
		int left_s = (int)((left_ns + GQ_NS_PER_S - 1) / GQ_NS_PER_S);
		if (attempts.old == 0 || left_s < attempts.seconds_left)
			attempts.seconds_left = left_s;
		attempts.old++;
		attempts.absent += charge->found_absent;
		if (attempts.absent >= 16) /* enough to refuse */
			break;
	}
	return attempts;
}

void gq_makers_hurry(struct gq_ledger *ledger, const char *key, int64_t now_ns)
{
	struct gq_owner_attempts *owner = gq_map_get(ledger->owners, key, strlen(key));

	for (struct gq_list *at = owner ? owner->attempts.next : NULL;
	     owner && at != &owner->attempts; at = at->next) {
		struct gq_charge *charge = gq_list_entry(at, struct gq_attempt, in_owner)->charge;
		/* once: after an answer the next probe is at the end of the grace */
		if (!charge->hurried && now_ns - charge->answered_ns > HURRY_NS) {
			charge->hurried = true;
			charge->probe_after_ns = now_ns;
		}
	}
}
