#include "ledger_fixture.h"

#include "fail_alloc.h"
#include "quota/ledger_internal.h"
#include "quota_testing.h"

/* A list of the pods held against the ledger, and what becomes of those in which they differ. */

#define POLICY                                                                                     \
	"tenants:\n"                                                                               \
	"  - {name: top, quota: {\"*\": {gpus: 40}}}\n"                                            \
	"  - {name: team-a, parent: top, namespaces: [a-train],\n"                                 \
	"     quota: {A100: {gpus: 30}, H100: {gpus: 8}}}\n"

/* The linker sends strdup() here, and its malloc() to fail_alloc.c. */
char *__wrap_strdup(const char *text);

char *__wrap_strdup(const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = malloc(size);

	if (copy)
		memcpy(copy, text, size);
	return copy;
}

static void begin(struct world *w)
{
	assert_int_equal(gq_ledger_verify_begin(w->ledger, NULL), 0);
}

static void listed(struct world *w, const struct pod_spec *spec)
{
	const struct gq_pod *pod = pod_make(spec);

	assert_int_equal(gq_ledger_verify_listed(w->ledger, &pod, 1, NULL), 0);
	gq_pod_unref(pod);
}

#define LISTED(w, ...) listed(w, SPEC(__VA_ARGS__))

/* The list is complete: the suspects' uids, with ' ' between them. */
static const char *suspects_of(struct world *w)
{
	static char text[1024];
	struct gq_probe probe;
	size_t len = 0;

	text[0] = '\0';
	assert_int_equal(gq_ledger_verify_unlisted(w->ledger, NULL), 0);
	while (gq_ledger_suspect_next(w->ledger, &probe))
		len += (size_t)snprintf(text + len, sizeof text - len, "%s%s", len ? " " : "",
					probe.uid);
	return text;
}

/* What a GET that shows this pod (NULL: none) comes to, two seconds later. */
static enum gq_suspect_verdict judge(struct world *w, const char *uid, const struct pod_spec *spec,
				     const char *drift)
{
	struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = spec ? pod_make(spec) : NULL;
	struct gq_drift noted GQ_CLEANUP(gq_drift_done) = {0};
	enum gq_suspect_verdict verdict;
	struct gq_err err;

	if (gq_ledger_suspect_judge(w->ledger, uid, pod, w->now_ns, &noted, &verdict, &err))
		fail_msg("%s", err.msg);
	assert_string_equal(print_drift(&noted), drift);
	return verdict;
}

static bool cleared(struct world *w, const char *uid, const struct pod_spec *spec)
{
	struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = spec ? pod_make(spec) : NULL;

	return gq_ledger_suspect_agrees(w->ledger, uid, pod);
}

static struct world *setup(void)
{
	struct world *w = world_new(POLICY);

	SEEN(w, .name = "bound", .gpus = 2, .node = "a1");
	SEEN(w, .name = "pending", .gpus = 3, .product = A100_80);
	ALLOWED(w, .name = "reserved", .gpus = 4, .product = A100_80);
	return w;
}

static void end(struct world *w)
{
	gq_ledger_verify_end(w->ledger);
	world_free(w);
}

/* Neither order of the list and the watch makes a pod suspect for good. */
static void all_alike(void **state)
{
	struct world *w = setup();

	(void)state;
	begin(w);
	LISTED(w, .name = "bound", .gpus = 2, .node = "a1");
	LISTED(w, .name = "pending", .gpus = 3, .product = A100_80);
	/* what holds nothing, and what the watch will show */
	LISTED(w, .name = "over", .phase = "Succeeded", .node = "a1");
	LISTED(w, .name = "reserved", .gpus = 4, .product = A100_80, .node = "a1");
	/* younger than the list */
	SEEN(w, .name = "younger", .gpus = 1, .node = "a1");
	ALLOWED(w, .name = "younger-still", .gpus = 1, .product = A100_80);
	assert_string_equal(suspects_of(w), "");
	end(w);
}

/* The list is older than the ledger, or younger; the question settles it without delay. */
static void churn(void **state)
{
	struct world *w = setup();

	(void)state;
	begin(w);
	GONE(w, .name = "bound");
	LISTED(w, .name = "bound", .gpus = 2, .node = "a1");     /* deleted since */
	LISTED(w, .name = "new", .gpus = 1, .product = A100_80); /* not yet seen */
	LISTED(w, .name = "pending", .gpus = 3, .node = "a1");   /* bound, not yet seen */
	assert_string_equal(suspects_of(w), "a-train/bound a-train/new a-train/pending");
	assert_true(cleared(w, "a-train/bound", NULL));
	assert_false(cleared(w, "a-train/new", SPEC(.name = "new", .product = A100_80)));
	assert_false(
	    cleared(w, "a-train/pending", SPEC(.name = "pending", .gpus = 3, .node = "a1")));
	SEEN(w, .name = "new", .gpus = 1, .product = A100_80);
	SEEN(w, .name = "pending", .gpus = 3, .node = "a1");
	assert_true(cleared(w, "a-train/new", SPEC(.name = "new", .product = A100_80)));
	assert_int_equal(
	    judge(w, "a-train/pending", SPEC(.name = "pending", .gpus = 3, .node = "a1"), ""),
	    GQ_SUSPECT_AGREES);
	assert_usage(w, "team-a", "A100", "8/30 b3 p1 r4 t0");
	end(w);
}

/* It came and went while its question was under way: what the GET has shown is over. */
static void the_watch_knows_better(void **state)
{
	struct world *w = setup();

	(void)state;
	begin(w);
	LISTED(w, .name = "bound", .gpus = 2, .node = "a1");
	LISTED(w, .name = "short", .gpus = 1, .node = "a1");
	assert_string_equal(suspects_of(w), "a-train/short a-train/pending");
	assert_false(cleared(w, "a-train/short", SPEC(.name = "short", .node = "a1")));
	assert_false(cleared(w, "a-train/pending", NULL));
	SEEN(w, .name = "short", .node = "a1");
	GONE(w, .name = "short");
	/* late, but on its way: its end will come as well */
	SEEN(w, .name = "pending", .gpus = 3, .product = A100_80, .terminating = true);
	world_pass(w, 2 * S);
	assert_int_equal(judge(w, "a-train/short", SPEC(.name = "short", .node = "a1"), ""),
			 GQ_SUSPECT_AGREES);
	assert_int_equal(judge(w, "a-train/pending", NULL, ""), GQ_SUSPECT_AGREES);
	assert_usage(w, "team-a", "A100", "9/30 b2 p0 r4 t3");
	end(w);
}

static void a_lost_end(void **state)
{
	struct world *w = setup();

	(void)state;
	begin(w);
	LISTED(w, .name = "pending", .gpus = 3, .product = A100_80);
	assert_string_equal(suspects_of(w), "a-train/bound");
	assert_false(cleared(w, "a-train/bound", NULL));
	assert_usage(w, "team-a", "A100", "9/30 b2 p3 r4 t0");
	assert_int_equal(judge(w, "a-train/bound", NULL,
			       "team-a A100 +2 +160Gi, top * +2 +160Gi; pods a-train/bound"),
			 GQ_SUSPECT_REMOVED);
	assert_usage(w, "team-a", "A100", "7/30 b0 p3 r4 t0");
	assert_usage(w, "top", "*", "7/40 b0 p3 r4 t0");
	/* only once */
	assert_int_equal(judge(w, "a-train/bound", NULL, ""), GQ_SUSPECT_AGREES);
	end(w);
}

static void a_lost_success(void **state)
{
	struct world *w = setup();
	const struct pod_spec over = {
	    .name = "bound", .gpus = 2, .node = "a1", .phase = "Succeeded"};

	(void)state;
	begin(w);
	LISTED(w, .name = "pending", .gpus = 3, .product = A100_80);
	listed(w, &over);
	assert_string_equal(suspects_of(w), "a-train/bound");
	assert_false(cleared(w, "a-train/bound", &over));
	assert_int_equal(judge(w, "a-train/bound", &over,
			       "team-a A100 +2 +160Gi, top * +2 +160Gi; pods a-train/bound"),
			 GQ_SUSPECT_REMOVED);
	assert_usage(w, "team-a", "A100", "7/30 b0 p3 r4 t0");
	end(w);
}

static void a_lost_beginning(void **state)
{
	struct world *w = setup();
	const struct pod_spec lost = {.name = "lost", .gpus = 5, .node = "h1"};

	(void)state;
	begin(w);
	LISTED(w, .name = "bound", .gpus = 2, .node = "a1");
	LISTED(w, .name = "pending", .gpus = 3, .product = A100_80);
	listed(w, &lost);
	assert_string_equal(suspects_of(w), "a-train/lost");
	assert_int_equal(judge(w, "a-train/lost", &lost,
			       "team-a H100 -5 -407795Mi, top * -5 -407795Mi; pods a-train/lost"),
			 GQ_SUSPECT_CHARGED);
	assert_usage(w, "team-a", "H100", "5/8 b5 p0 r0 t0");
	/* its end is the watch's, as any other's; nobody waits for its beginning */
	world_pass(w, 100 * S);
	assert_string_equal(probes_of(w), "a-train/reserved");
	assert_false(gq_ledger_check_watch(w->ledger, w->now_ns));
	SEEN(w, .name = "lost", .gpus = 5, .node = "h1", .terminating = true);
	assert_usage(w, "team-a", "H100", "5/8 b0 p0 r0 t5");
	GONE(w, .name = "lost");
	assert_usage(w, "team-a", "H100", "0/8 b0 p0 r0 t0");
	end(w);
}

/* The watch lost all of it: the next list is without it. */
static void a_lost_beginning_and_end(void **state)
{
	struct world *w = setup();
	const struct pod_spec lost = {.name = "lost", .gpus = 5, .node = "h1"};

	(void)state;
	for (int relist = 0; relist < 2; relist++) {
		begin(w);
		LISTED(w, .name = "bound", .gpus = 2, .node = "a1");
		LISTED(w, .name = "pending", .gpus = 3, .product = A100_80);
		listed(w, &lost);
		assert_string_equal(suspects_of(w), "a-train/lost");
		/* another list that began before the pod did is no evidence against it */
		gq_ledger_list_begin(w->ledger, GQ_PODS);
		SEEN(w, .name = "bound", .gpus = 2, .node = "a1");
		SEEN(w, .name = "pending", .gpus = 3, .product = A100_80);
		assert_int_equal(judge(w, "a-train/lost", &lost,
				       "team-a H100 -5 -407795Mi, top * -5 -407795Mi; "
				       "pods a-train/lost"),
				 GQ_SUSPECT_CHARGED);
		assert_int_equal(gq_ledger_list_end(w->ledger, GQ_PODS, w->now_ns, NULL), 0);
		assert_usage(w, "team-a", "H100", "5/8 b5 p0 r0 t0");
		gq_ledger_verify_end(w->ledger);
		begin(w);
		LISTED(w, .name = "bound", .gpus = 2, .node = "a1");
		LISTED(w, .name = "pending", .gpus = 3, .product = A100_80);
		if (relist) {
			gq_ledger_list_begin(w->ledger, GQ_PODS);
			SEEN(w, .name = "bound", .gpus = 2, .node = "a1");
			SEEN(w, .name = "pending", .gpus = 3, .product = A100_80);
			assert_int_equal(gq_ledger_list_end(w->ledger, GQ_PODS, w->now_ns, NULL),
					 0);
		} else {
			assert_string_equal(suspects_of(w), "a-train/lost");
			assert_int_equal(judge(w, "a-train/lost", NULL,
					       "team-a H100 +5 +407795Mi, top * +5 +407795Mi; "
					       "pods a-train/lost"),
					 GQ_SUSPECT_REMOVED);
		}
		assert_usage(w, "team-a", "H100", "0/8 b0 p0 r0 t0");
	}
	end(w);
}

static void a_lost_binding(void **state)
{
	struct world *w = setup();
	const struct pod_spec late = {
	    .name = "wide", .gpus = 1, .products = "'" A100_80 "','" H100 "'", .node = "h1"};

	(void)state;
	SEEN(w, .name = "wide", .gpus = 1, .products = "'" A100_80 "','" H100 "'");
	begin(w);
	LISTED(w, .name = "bound", .gpus = 2, .node = "a1");
	LISTED(w, .name = "pending", .gpus = 3, .product = A100_80, .terminating = true);
	listed(w, &late);
	assert_string_equal(suspects_of(w), "a-train/pending a-train/wide");
	assert_int_equal(judge(w, "a-train/wide", &late,
			       "team-a A100 +1 +80Gi, team-a H100 +0 +0, top * +0 +361Mi; "
			       "pods a-train/wide"),
			 GQ_SUSPECT_CORRECTED);
	assert_usage(w, "team-a", "H100", "1/8 b1 p0 r0 t0");
	assert_int_equal(
	    judge(w, "a-train/pending",
		  SPEC(.name = "pending", .gpus = 3, .product = A100_80, .terminating = true),
		  "team-a A100 +0 +0, top * +0 +0; pods a-train/pending"),
	    GQ_SUSPECT_CORRECTED);
	assert_usage(w, "team-a", "A100", "9/30 b2 p0 r4 t3");
	/* the watch's, as before */
	world_pass(w, 100 * S);
	assert_string_equal(probes_of(w), "a-train/reserved");
	end(w);
}

/* The list shows the next pod of a StatefulSet, the ledger has the one before it besides. */
static void same_name(void **state)
{
	struct world *w = setup();

	(void)state;
	SEEN(w, .name = "db-0", .uid = "old", .gpus = 2, .node = "h1");
	SEEN(w, .name = "db-0", .uid = "new", .gpus = 1, .node = "h1");
	assert_usage(w, "team-a", "H100", "2/8 b2 p0 r0 t0");
	begin(w);
	LISTED(w, .name = "bound", .gpus = 2, .node = "a1");
	LISTED(w, .name = "pending", .gpus = 3, .product = A100_80);
	LISTED(w, .name = "db-0", .uid = "new", .gpus = 1, .node = "h1");
	assert_string_equal(suspects_of(w), "old");
	assert_int_equal(
	    judge(w, "old", NULL, "team-a H100 +1 +81559Mi, top * +1 +81559Mi; pods a-train/db-0"),
	    GQ_SUSPECT_REMOVED);
	assert_usage(w, "team-a", "H100", "1/8 b1 p0 r0 t0");
	/* and the other way round: the ledger has only the one before */
	begin(w);
	LISTED(w, .name = "bound", .gpus = 2, .node = "a1");
	LISTED(w, .name = "pending", .gpus = 3, .product = A100_80);
	LISTED(w, .name = "db-0", .uid = "third", .gpus = 4, .node = "h1");
	assert_string_equal(suspects_of(w), "third new");
	assert_int_equal(judge(w, "third",
			       SPEC(.name = "db-0", .uid = "third", .gpus = 4, .node = "h1"),
			       "team-a H100 -3 -244677Mi, top * -3 -244677Mi; pods a-train/db-0"),
			 GQ_SUSPECT_CHARGED);
	assert_int_equal(judge(w, "new", NULL, "team-a H100 +0 +0, top * +0 +0; pods a-train/db-0"),
			 GQ_SUSPECT_REMOVED);
	assert_usage(w, "team-a", "H100", "4/8 b4 p0 r0 t0");
	end(w);
}

/* Reservations, and pods that only a GET has shown, end by their own questions. */
static void unseen_ones_are_left_alone(void **state)
{
	struct world *w = setup();

	(void)state;
	world_pass(w, 3 * S);
	world_probed(w, SPEC(.name = "reserved"), GQ_PROBE_FOUND,
		     SPEC(.name = "reserved", .gpus = 4, .product = A100_80), w->now_ns);
	ALLOWED(w, .name = "another", .gpus = 1, .product = A100_80);
	begin(w);
	LISTED(w, .name = "bound", .gpus = 2, .node = "a1");
	LISTED(w, .name = "pending", .gpus = 3, .product = A100_80);
	assert_string_equal(suspects_of(w), "");
	assert_usage(w, "team-a", "A100", "10/30 b2 p7 r1 t0");
	/* a list that was begun before the watch lost sight of one is no reason either */
	begin(w);
	LISTED(w, .name = "lost", .gpus = 1, .node = "a1");
	(void)suspects_of(w);
	ALLOWED(w, .name = "lost", .gpus = 1, .product = A100_80);
	assert_int_equal(judge(w, "a-train/lost", NULL, ""), GQ_SUSPECT_AGREES);
	assert_usage(w, "team-a", "A100", "11/30 b2 p7 r2 t0");
	end(w);
}

static void begun_again(void **state)
{
	struct world *w = setup();

	(void)state;
	begin(w);
	assert_string_equal(suspects_of(w), "a-train/bound a-train/pending");
	/* nothing of the list before is left */
	begin(w);
	assert_int_equal(judge(w, "a-train/pending", NULL, ""), GQ_SUSPECT_AGREES);
	assert_string_equal(suspects_of(w), "a-train/bound a-train/pending");
	gq_ledger_verify_end(w->ledger);
	assert_int_equal(judge(w, "a-train/pending", NULL, ""), GQ_SUSPECT_AGREES);
	assert_usage(w, "team-a", "A100", "9/30 b2 p3 r4 t0");
	LISTED(w, .name = "x"); /* no list is under way */
	assert_string_equal(suspects_of(w), "");
	end(w);
}

#define PAGE 100

static void too_many(void **state)
{
	struct world *w = world_bare(POLICY);
	const struct gq_pod *pods[PAGE];
	struct gq_err err;
	char name[16];
	int code = 0;

	(void)state;
	begin(w);
	for (int i = 0; i < GQ_SUSPECTS_MAX + 1; i += PAGE) {
		for (int k = 0; k < PAGE; k++) {
			(void)snprintf(name, sizeof name, "p%d", i + k);
			pods[k] = pod_make(SPEC(.name = name));
		}
		code = gq_ledger_verify_listed(w->ledger, pods, PAGE, &err);
		assert_int_equal(code, i < GQ_SUSPECTS_MAX ? 0 : GQ_ETOOBIG);
		for (int k = 0; k < PAGE; k++)
			gq_pod_unref(pods[k]);
	}
	assert_non_null(strstr(err.msg, "10000"));
	SEEN(w, .name = "q");
	begin(w);
	for (int i = 0; i < GQ_SUSPECTS_MAX; i++) {
		(void)snprintf(name, sizeof name, "p%d", i);
		LISTED(w, .name = name);
	}
	assert_int_equal(gq_ledger_verify_unlisted(w->ledger, &err), GQ_ETOOBIG);
	end(w);
}

/* More pods than one slice has. */
#define MANY (5 * GQ_SLICE)

static void many(void **state)
{
	struct world *w = world_new(POLICY);
	const struct gq_pod *pods[MANY];
	char name[16];

	(void)state;
	for (int i = 0; i < MANY; i++) {
		(void)snprintf(name, sizeof name, "p%d", i);
		SEEN(w, .ns = "lab", .name = name, .node = "a1");
		pods[i] = pod_make(SPEC(.ns = "lab", .name = name, .node = "a1"));
	}
	begin(w);
	assert_int_equal(gq_ledger_verify_listed(w->ledger, pods, MANY - 1, NULL), 0);
	assert_string_equal(suspects_of(w), "lab/p319");
	for (int i = 0; i < MANY; i++)
		gq_pod_unref(pods[i]);
	/* of nobody: no limit differs */
	assert_int_equal(judge(w, "lab/p319", NULL, "; pods lab/p319"), GQ_SUSPECT_REMOVED);
	end(w);
}

static void without_memory(void **state)
{
	struct gq_pod *lost = pod_make(SPEC(.ns = "new", .name = "lost", .gpus = 5, .node = "h9"));
	const struct gq_pod *list = lost;

	(void)state;
	for (long n = 0, step = 0; step < 4; n++) {
		struct gq_drift drift GQ_CLEANUP(gq_drift_done) = {0};
		enum gq_suspect_verdict verdict = GQ_SUSPECT_AGREES;
		struct world *w = setup();
		struct gq_err err;
		step = 0;
		fail_alloc(n);
		int code = gq_ledger_verify_begin(w->ledger, &err);
		step += !code;
		if (!code)
			code = gq_ledger_verify_listed(w->ledger, &list, 1, &err);
		step += !code;
		if (!code)
			code = gq_ledger_verify_unlisted(w->ledger, &err);
		step += !code;
		if (!code)
			code = gq_ledger_suspect_judge(w->ledger, lost->uid, lost, w->now_ns,
						       &drift, &verdict, &err);
		step += !code;
		bool failed = fail_alloc_done();
		assert_true(code == 0 || (failed && code == GQ_ENOMEM && err.code == GQ_ENOMEM));
		/* a name that could not be kept is no reason to leave it wrong */
		assert_int_equal(verdict, code ? GQ_SUSPECT_AGREES : GQ_SUSPECT_CHARGED);
		assert_string_equal(pods_of(w), code ? "1 reserved, 1 pending, 1 bound"
						     : "1 reserved, 1 pending, 2 bound");
		assert_int_equal(drift.n_pods + drift.more_pods, code == 0);
		if (failed)
			step = 0;
		end(w);
	}
	gq_pod_unref(lost);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(all_alike),
	    cmocka_unit_test(churn),
	    cmocka_unit_test(the_watch_knows_better),
	    cmocka_unit_test(a_lost_end),
	    cmocka_unit_test(a_lost_success),
	    cmocka_unit_test(a_lost_beginning),
	    cmocka_unit_test(a_lost_beginning_and_end),
	    cmocka_unit_test(a_lost_binding),
	    cmocka_unit_test(same_name),
	    cmocka_unit_test(unseen_ones_are_left_alone),
	    cmocka_unit_test(begun_again),
	    cmocka_unit_test(too_many),
	    cmocka_unit_test(many),
	    cmocka_unit_test(without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
