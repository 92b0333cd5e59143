/* The protocol that keeps a tenant within its quota while replicas crash, change and disagree:
 * the journal, the fence, the barrier, and how a reservation ends. hack/check-model.sh has spin
 * search every run of it within the bounds below.
 *
 *   P1 never over   live pods never exceed LIMIT: asserted whenever one is stored.
 *   P2 never stuck  every run ends (no cycle), and when nothing can move any more, faults are
 *                   over and no pod is left, then somebody leads with an empty ledger (-DQUIET).
 *   P3 once         the count that a leader keeps is the number of different pods that it
 *                   charged, however often it was asked about one: asserted whenever one is
 *                   charged.
 *
 * What is abstracted, and why nothing is missed by it:
 * - One tenant, one class, one GPU a pod: the protocol knows pods by UID alone, and the ledger's
 *   sums have tests of their own. A pod is one create with one UID; who tries again after a
 *   denial makes another. Pods are alike, so they begin in the order of their numbers.
 * - No clock. The time to live of a reservation (60 s from an answer or a takeover) is longer
 *   than the API server may take for a create (34 s from its begin), so when it is over, that
 *   create has been stored or is dead: FINISHED(). This is all that is assumed of it; it may be
 *   over at any moment from then on, sooner than in life. Other timeouts may happen whenever they
 *   matter.
 * - No Lease: any replica may take over or step down at any time, whoever leads. A frozen process
 *   is one that takes no step for a while, as any may here. Crash and restart are one step, since
 *   the others see no difference to a restart that comes later.
 * - A resourceVersion is only compared with the current one, hence the flag "known"; they never
 *   repeat. A seq is only compared with that of one's own last write, hence "last".
 * - A step is one with another that can always be as late by itself and that nobody watches
 *   between: an answer's way to the API server is part of grant(), the way of a journal's content
 *   to its reader is part of what is done with it, and the 503 of who does not lead is no step at
 *   all.
 * - The watch is a queue for each replica, in order and as late as can be. A list in its place
 *   (at start, after 410, or instead of the barrier) is one message with the pods of its moment.
 * - Any replica may take up any create that is not answered, also while the other has it in
 *   hands: more than the API server does.
 * - TAKEOVERS, TIMEOUTS and RELISTS bound the faults; crashes need no bound, as leading again
 *   costs a takeover. Of two writes of one replica that nobody waits for any more, the older is
 *   forgotten.
 * - A journal that a person deletes or makes unreadable (LOSSES) is an empty one that nobody
 *   holds.
 * - Not here: what bounds the journal's size and rate.
 *
 * transitions.txt maps what the program traces to the steps here. Each macro that leaves out or
 * swaps one thing (NO_FENCE, ANSWER_BEFORE_WRITE, …) must be found out by the properties. */

#ifndef PODS
#define PODS 2
#endif
#ifndef LIMIT
#define LIMIT 1
#endif
#ifndef TAKEOVERS
#define TAKEOVERS 2
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 1
#endif
/* Writes that only take out what was seen. */
#ifndef CLEANS
#define CLEANS 1
#endif
/* Stepping down but by a crash or a lost journal. */
#ifndef DOWNS
#define DOWNS 1
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef RELISTS
#define RELISTS 1
#endif

#define BIT(u) (1 << (u))
#define HAS(set, u) (((set) >> (u)) & 1)
#define SIZE(set) (HAS(set, 0) + HAS(set, 1) + HAS(set, 2))
#define ADDED(set, u) ((set) | BIT(u))
#define MINUS(set, other) ((set) & (7 - (other)))

/* ---- the API server and etcd ---- */

/* Of one create. */
#define NOT_BEGUN 0
#define ASKED 1   /* a webhook was asked and has not answered */
#define ALLOWED 2 /* it has; not stored yet */
#define STORED 3
#define OVER 4    /* denied, given up, refused by something later, or deleted */
byte create[PODS];
#define FINISHED(u) (create[u] >= STORED)
byte live; /* the set of stored pods */

byte j_holder;
byte j_epoch = 1;
byte j_uids; /* with MARK: it was lost, and not every reservation is in it */
bit j_last = 1; /* its seq is that of the last write that its holder began */

#define NOBODY 2 /* holds it: there is no journal */
#define MARK 8

/* Messages of a watch. */
#define ADD(u) (u)
#define DEL(u) (4 + (u))
#define BARRIER 8
#define LIST(set) (16 + (set))
chan watch[2] = [9] of { byte };

/* ---- a replica ---- */

#define FOLLOWS 0
#define FENCING 1 /* its fence is being written */
#define PASSING 2 /* waits for the barrier */
#define LEADS 3
#define WAITING 4 /* the journal was lost: waits for one time to live */

/* Of its one journal write. */
#define NO_WRITE 0
#define SENT 1      /* succeeds when it arrives, unless another one arrives before */
#define DONE 2      /* has succeeded; nothing was written since */
#define DONE_OLD 3  /* has succeeded; something was */
#define READ_BACK 4 /* conflict, or no answer: the journal is read */

typedef Replica {
	byte phase;
	byte view;    /* pods that the watch has shown */
	byte found;   /* pods that only a GET has shown */
	byte resv;    /* reserved: in the journal, not seen */
	byte prop;    /* proposed: not known to be in the journal */
	byte used;    /* the ledger's count of all these */
	byte epoch;
	bit known;    /* ours is the journal's current resourceVersion */
	byte write;
	byte w_uids;
	bit late;     /* an earlier write that nobody waits for may still arrive */
	byte l_epoch;
	byte l_uids;
	bit l_last;
	byte wait;    /* creates that may have been granted before the journal was lost */
	byte probe;   /* 1 + the pod that a GET has shown, whose answer is on its way */
#ifdef STALE_GET
	byte absent;  /* pods that some GET did not show */
#endif
};
Replica rep[2];

byte takeovers = TAKEOVERS;
byte timeouts = TIMEOUTS;
byte relists = RELISTS;
byte losses = LOSSES;
bit calm; /* no more faults and no more pods */
hidden byte over, stuck, twice; /* named in what spin prints */

#define ALL(r) (rep[r].view | rep[r].found | rep[r].resv | rep[r].prop)
#define CHARGED(r, u) HAS(ALL(r), u)
#define OWNS(r) (j_holder == r && j_epoch == rep[r].epoch)

inline recount(r) { rep[r].used = SIZE(ALL(r)) }

/* ---- clients and the API server ---- */

/* A later admission plugin refuses, the client is gone, the webhook's time is up, we deny it. */
inline give_up(u) { create[u] = OVER }

inline store(u)
{
	create[u] = STORED;
	live = ADDED(live, u);
	watch[0]!ADD(u);
	watch[1]!ADD(u);
	over = SIZE(live) > LIMIT;
	assert(!over) /* P1 */
}

inline delete(u)
{
	create[u] = OVER;
	live = MINUS(live, BIT(u));
	watch[0]!DEL(u);
	watch[1]!DEL(u)
}

/* ---- the journal in etcd ---- */

inline forget_late(r)
{
	rep[r].late = 0;
	rep[r].l_epoch = 0;
	rep[r].l_uids = 0;
	rep[r].l_last = 0
}

/* Every write makes the resourceVersions that others know old ones: what they have sent is bound to
 * fail. */
inline outdate(r)
{
	rep[r].known = 0;
#ifndef NO_FENCE
	forget_late(r);
#endif
	if
#ifndef NO_FENCE
	:: rep[r].write == SENT -> rep[r].write = READ_BACK
#endif
	:: rep[r].write == DONE -> rep[r].write = DONE_OLD
	:: else
	fi
}

inline arrive(r)
{
	j_holder = r;
	j_epoch = rep[r].epoch;
	j_uids = rep[r].w_uids;
	j_last = 1;
	rep[r].write = NO_WRITE;
	outdate(0);
	outdate(1);
	rep[r].write = DONE
}

inline arrive_late(r)
{
	j_holder = r;
	j_epoch = rep[r].l_epoch;
	j_uids = rep[r].l_uids;
	j_last = rep[r].l_last;
	forget_late(r);
	outdate(0);
	outdate(1)
}

/* Somebody deletes it, or makes something of it that can't be read. */
inline lose()
{
	j_holder = NOBODY;
	j_epoch = 0;
	j_uids = MARK;
	j_last = 0;
	outdate(0);
	outdate(1)
}

/* ---- a replica's journal ---- */

inline send(r, set)
{
	rep[r].w_uids = set;
	rep[r].write = SENT
}

/* Nobody waits for the write any more; if it has not arrived, it may yet. */
inline abandon(r)
{
	if
	:: rep[r].write == SENT ->
		rep[r].late = 1;
		rep[r].l_epoch = rep[r].epoch;
		rep[r].l_uids = rep[r].w_uids;
		rep[r].l_last = 1
	:: else
	fi
}

inline time_out(r)
{
	abandon(r);
	rep[r].write = READ_BACK
}

inline begin_write(r)
{
	rep[r].known = 0;
#ifndef SEQ_REUSED
	rep[r].l_last = 0;
	if
	:: OWNS(r) -> j_last = 0
	:: else
	fi;
#endif
	send(r, rep[r].resv | rep[r].prop)
}

/* An event with the annotation of an earlier term says nothing, so it need not be kept. */
inline forget_barrier(r)
{
#ifdef OLD_BARRIER
	skip
#else
	n = len(watch[r]);
	do
	:: n > 0 ->
		watch[r]?event;
		if
		:: event != BARRIER -> watch[r]!event
		:: else
		fi;
		n--
	:: else -> break
	od;
	event = 0
#endif
}

inline step_down(r)
{
	abandon(r);
	rep[r].phase = FOLLOWS;
	rep[r].epoch = 0;
	rep[r].known = 0;
	rep[r].write = NO_WRITE;
	rep[r].w_uids = 0;
	rep[r].resv = 0;
	rep[r].prop = 0;
	rep[r].found = 0;
	rep[r].wait = 0;
#ifdef STALE_GET
	rep[r].absent = 0;
#endif
	forget_barrier(r);
	recount(r)
}

/* The list is as of now; what is stored later comes as events behind it. It shows the annotation
 * on our own pod too. */
inline relist(r)
{
	do
	:: nempty(watch[r]) -> watch[r]?_
	:: empty(watch[r]) -> break
	od;
	watch[r]!LIST(live);
	if
	:: rep[r].phase == PASSING -> watch[r]!BARRIER
	:: else
	fi
}

inline crash(r)
{
	step_down(r);
	rep[r].view = 0;
	rep[r].used = 0;
	rep[r].probe = 0;
	relist(r)
}

/* Reads the journal and sends the fence: the same reservations under the next epoch. */
inline fence(r)
{
	rep[r].epoch = j_epoch + 1;
	rep[r].phase = FENCING;
#ifdef LOSS_WITHOUT_MARK
	if
	:: j_holder == NOBODY -> send(r, j_uids)
	:: else -> send(r, (j_uids & 7))
	fi
#else
	send(r, j_uids)
#endif
}

/* There is no journal: who leads writes one of what it knows. */
inline rewrite(r)
{
	rep[r].prop = 0;
	recount(r);
	rep[r].epoch = j_epoch + 1;
	rep[r].phase = FENCING;
	send(r, rep[r].resv | MARK)
}

/* Annotates our own pod. */
inline patch(r)
{
	rep[r].phase = PASSING;
	watch[r]!BARRIER
}

inline lead(r) { rep[r].phase = LEADS }

#ifdef BARRIER_BEFORE_FENCE
#define TAKE_OVER(r) patch(r)
#define AFTER_BARRIER(r) fence(r)
#define AFTER_FENCE(r) lead(r)
#else
#define TAKE_OVER(r) fence(r)
#if defined(LOSS_BARRIER_FIRST)
#define AFTER_BARRIER(r) rep[r].phase = WAITING
#else
#define AFTER_BARRIER(r) lead(r)
#endif
#define AFTER_FENCE(r) patch(r)
#endif

/* Every create that may have been granted is over when the time to live is: the barrier comes after
 * that, as they may be stored until then. */
inline start_to_wait(r)
{
	rep[r].wait = 0;
	n = 0;
	do
	:: n < PODS ->
		if
		:: create[n] == ASKED || create[n] == ALLOWED ->
			rep[r].wait = ADDED(rep[r].wait, n)
		:: else
		fi;
		n++
	:: else -> break
	od;
	n = 0;
#if defined(LOSS_WITHOUT_WAIT)
	rep[r].wait = 0;
	patch(r)
#elif defined(LOSS_BARRIER_FIRST)
	patch(r)
#else
	rep[r].phase = WAITING
#endif
}

inline fenced(r, set)
{
#ifdef FORGET_RESERVATIONS
	rep[r].resv = 0;
#else
	rep[r].resv = MINUS(set, rep[r].view);
#endif
	recount(r);
	if
	:: (set) >= MARK -> start_to_wait(r)
	:: else -> AFTER_FENCE(r)
	fi
}

/* What was in the write is reserved, but for what was seen meanwhile. */
inline commit(r)
{
	rep[r].resv = rep[r].resv | (rep[r].prop & rep[r].w_uids);
	rep[r].prop = MINUS(rep[r].prop, rep[r].w_uids)
}

inline written(r)
{
	rep[r].known = (rep[r].write == DONE);
	if
	:: rep[r].phase == FENCING -> fenced(r, rep[r].w_uids)
	:: else -> commit(r)
	fi;
	rep[r].w_uids = 0;
	rep[r].write = NO_WRITE
}

inline read_back(r)
{
	rep[r].write = NO_WRITE;
	if
	:: OWNS(r) ->
		rep[r].known = 1;
		if
		:: rep[r].phase == FENCING -> fenced(r, j_uids)
		:: rep[r].phase != FENCING && j_last -> commit(r)
		:: else
		fi;
		rep[r].w_uids = 0
	:: !OWNS(r) && j_holder == NOBODY && rep[r].phase == LEADS -> rewrite(r)
	:: else -> step_down(r)
	fi
}

/* ---- a replica's ledger ---- */

inline seen(r, u)
{
	rep[r].view = ADDED(rep[r].view, u);
	rep[r].found = MINUS(rep[r].found, BIT(u));
	rep[r].resv = MINUS(rep[r].resv, BIT(u));
	rep[r].prop = MINUS(rep[r].prop, BIT(u))
}

inline gone(r, u)
{
	rep[r].view = MINUS(rep[r].view, BIT(u));
	rep[r].found = MINUS(rep[r].found, BIT(u));
	rep[r].resv = MINUS(rep[r].resv, BIT(u));
	rep[r].prop = MINUS(rep[r].prop, BIT(u))
}

inline listed(r, set)
{
	rep[r].view = set;
	rep[r].found = MINUS(rep[r].found, set);
	rep[r].resv = MINUS(rep[r].resv, set);
	rep[r].prop = MINUS(rep[r].prop, set)
}

inline deliver(r)
{
	watch[r]?event;
	if
	:: event >= 16 -> listed(r, (event - 16))
	:: event == BARRIER && rep[r].phase == PASSING -> AFTER_BARRIER(r)
	:: event == BARRIER && rep[r].phase != PASSING
	:: event >= 4 && event < 8 -> gone(r, (event - 4))
	:: event < 4 -> seen(r, event)
	fi;
	recount(r);
	event = 0
}

/* The API server begins the create now, or asks again. */
inline propose(r, u)
{
	create[u] = ASKED;
	rep[r].prop = ADDED(rep[r].prop, u);
	rep[r].used++;
	twice = rep[r].used != SIZE(ALL(r));
	assert(!twice) /* P3 */
}

/* The request's time is up; what was sent of it may yet be written. */
inline drop(r, u)
{
	rep[r].prop = MINUS(rep[r].prop, BIT(u));
	rep[r].used--
}

inline grant(r, u) { create[u] = ALLOWED }

inline find(r, u)
{
	rep[r].resv = MINUS(rep[r].resv, BIT(u));
	rep[r].found = ADDED(rep[r].found, u)
}

inline end(r, u)
{
	gone(r, u);
	recount(r)
}

/* ---- what may happen ---- */

#define IN_HANDS(u) (CHARGED(0, u) || CHARGED(1, u) || HAS(j_uids, u) || calm || \
	HAS(rep[0].wait | rep[1].wait, u))
#define IN_TURN(u) (u == 0 || create[(u + PODS - 1) % PODS] != NOT_BEGUN)

/* Nobody cares for a create that is given up before anybody took it up. */
#define POD(u) \
	:: d_step { create[u] == ASKED && IN_HANDS(u) || create[u] == ALLOWED -> give_up(u) } \
	:: d_step { create[u] == ALLOWED -> store(u) } \
	:: d_step { create[u] == STORED -> delete(u) }

#ifdef ANSWER_BEFORE_WRITE
#define ANSWERABLE(r) (rep[r].resv | rep[r].prop)
#else
#define ANSWERABLE(r) rep[r].resv
#endif

#ifdef DOUBLE_CHARGE
#define NEW(r, u) !HAS(rep[r].prop, u)
#else
#define NEW(r, u) !CHARGED(r, u)
#endif

/* A reservation ends when its time to live is over and a GET that was begun then did not show the
 * pod. No pod comes back, so that answer is as good as new whenever it arrives. */
#define WAITS(r, u) (rep[r].phase == LEADS && HAS(rep[r].resv | rep[r].found, u))
#if defined(STALE_GET)
#define ENDS(r, u) \
	:: d_step { WAITS(r, u) && !HAS(live, u) && !HAS(rep[r].absent, u) -> \
		rep[r].absent = ADDED(rep[r].absent, u) } \
	:: d_step { WAITS(r, u) && FINISHED(u) && HAS(rep[r].absent, u) -> end(r, u) }
#elif defined(CLOCK_ONLY_EXPIRY)
#define ENDS(r, u) \
	:: d_step { WAITS(r, u) && FINISHED(u) -> end(r, u) }
#elif defined(NO_EXPIRY)
#define ENDS(r, u)
#else
#define ENDS(r, u) \
	:: d_step { WAITS(r, u) && FINISHED(u) && !HAS(live, u) -> end(r, u) }
#endif

/* A GET that shows the pod: it may have been deleted, and the watch may have said so, before the
 * answer is there. */
#ifdef GET_IS_WATCH
#define FIND(r, u) seen(r, u)
#else
#define FIND(r, u) find(r, u)
#endif
#define PROBES(r, u) \
	:: d_step { rep[r].phase == LEADS && HAS(rep[r].resv, u) && HAS(live, u) && \
		rep[r].probe == 0 -> rep[r].probe = u + 1 } \
	:: d_step { rep[r].probe == u + 1 -> \
		rep[r].probe = 0; \
		if \
		:: HAS(rep[r].resv, u) -> FIND(r, u) \
		:: else \
		fi; \
		recount(r) }

#define REPLICA_POD(r, u) \
	:: d_step { rep[r].phase == LEADS && rep[r].used < LIMIT && NEW(r, u) && \
		(create[u] == ASKED || create[u] == NOT_BEGUN && IN_TURN(u)) && !calm -> \
		propose(r, u) } \
	:: d_step { rep[r].phase == LEADS && create[u] == ASKED && HAS(ANSWERABLE(r), u) -> \
		grant(r, u) } \
	:: d_step { timeouts > 0 && HAS(rep[r].prop, u) -> timeouts--; drop(r, u) } \
	ENDS(r, u) \
	PROBES(r, u)

#define PENDS(r, u) (HAS(rep[r].wait, u) && !FINISHED(u))
#if PODS > 2
#define WAIT_OVER(r) (!PENDS(r, 0) && !PENDS(r, 1) && !PENDS(r, 2))
#else
#define WAIT_OVER(r) (!PENDS(r, 0) && !PENDS(r, 1))
#endif
#ifdef LOSS_BARRIER_FIRST
#define AFTER_WAIT(r) lead(r)
#else
#define AFTER_WAIT(r) patch(r)
#endif

#ifdef NO_FENCE
#define COMPARES(r) true
#else
#define COMPARES(r) rep[r].known /* else the answer is 409 */
#endif

/* What a follower is told is all told before the barrier, so it may as well wait for the fence:
 * this leaves out no run that differs in anything but the time of it. */
#define REPLICA(r) \
	:: d_step { rep[r].phase != FOLLOWS && nempty(watch[r]) -> deliver(r) } \
	:: d_step { rep[r].phase == FOLLOWS && takeovers > 0 -> takeovers--; TAKE_OVER(r) } \
	:: d_step { rep[r].phase == LEADS && rep[r].write == NO_WRITE && \
		(rep[r].prop != 0 || CLEANS && OWNS(r) && j_uids != rep[r].resv) -> \
		if \
		:: COMPARES(r) -> begin_write(r) \
		:: else -> rep[r].write = READ_BACK \
		fi } \
	:: d_step { rep[r].phase == WAITING && WAIT_OVER(r) -> rep[r].wait = 0; AFTER_WAIT(r) } \
	:: d_step { rep[r].write == SENT -> arrive(r) } \
	:: d_step { rep[r].late -> arrive_late(r) } \
	:: d_step { rep[r].write == DONE || rep[r].write == DONE_OLD -> written(r) } \
	:: d_step { rep[r].write == READ_BACK -> read_back(r) } \
	:: d_step { timeouts > 0 && rep[r].write >= SENT && rep[r].write <= DONE_OLD -> \
		timeouts--; time_out(r) } \
	:: d_step { !calm && DOWNS && rep[r].phase != FOLLOWS -> step_down(r) } \
	:: d_step { !calm && rep[r].phase != FOLLOWS -> crash(r) } \
	:: d_step { relists > 0 && rep[r].phase != FOLLOWS -> relists--; relist(r) }

/* P2: faults end at some moment, whatever has happened; from then on a Lease has one holder, who
 * leads the journal or takes it over. */
inline come_to_rest()
{
	calm = 1;
	takeovers = 0;
	timeouts = 0;
	relists = 0;
	losses = 0;
	n = 0;
	do
	:: n < PODS ->
		if
		:: create[n] == NOT_BEGUN -> create[n] = OVER
		:: else
		fi;
		n++
	:: else -> break
	od;
	n = 0
}
#define RESTS \
	:: d_step { !calm -> come_to_rest() } \
	:: d_step { calm && rep[0].late -> forget_late(0) } \
	:: d_step { calm && rep[1].late -> forget_late(1) } \
	:: d_step { calm && rep[0].phase == LEADS && !OWNS(0) -> step_down(0) } \
	:: d_step { calm && rep[1].phase == LEADS && !OWNS(1) -> step_down(1) } \
	:: d_step { calm && rep[0].phase == FOLLOWS && rep[1].phase == FOLLOWS -> TAKE_OVER(0) }

active proctype world()
{
	byte event, n;

	d_step {
		rep[0].phase = LEADS;
		rep[0].epoch = 1;
		rep[0].known = 1
	}
	do
	POD(0)
	POD(1)
#if PODS > 2
	POD(2)
#endif
	REPLICA(0)
	REPLICA(1)
	REPLICA_POD(0, 0)
	REPLICA_POD(1, 0)
	REPLICA_POD(0, 1)
	REPLICA_POD(1, 1)
#if PODS > 2
	REPLICA_POD(0, 2)
	REPLICA_POD(1, 2)
#endif
#if LOSSES > 0
	:: d_step { losses > 0 -> losses--; lose() }
#endif
#ifdef QUIET
	RESTS
#endif
	:: else -> break
	od;
#ifdef QUIET
	stuck = live != 0 ||
		!(OWNS(0) && rep[0].phase == LEADS && rep[0].used == 0 ||
		  OWNS(1) && rep[1].phase == LEADS && rep[1].used == 0);
	assert(!stuck) /* P2 */
#endif
}
