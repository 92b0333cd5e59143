#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "quota/nodes.h"

#include "node_fixture.h"

#define PRODUCT "nvidia.com/gpu.product"
#define MEMORY "nvidia.com/gpu.memory"
#define HOST "kubernetes.io/hostname"
#define A40 PRODUCT "=NVIDIA-A100-PCIE-40GB"
#define A80 PRODUCT "=NVIDIA-A100-SXM4-80GB"
#define H80 PRODUCT "=NVIDIA-H100-80GB-HBM3"
#define GPU8 "nvidia.com/gpu=8"

#define N(array) (sizeof(array) / sizeof((array)[0]))

/* A pod in short texts; NULL is none.
 * selector: "key=value,…".
 * affinity: terms between " || ", requirements between " && ": "key in a|b", "key notin a",
 * "key exists", "key absent", "key > 1", "key < 1"; "@key …" on a field; "-" is an empty term, ""
 * no term at all.
 * tolerations: "key=value:effect" or, for operator Exists, "key:effect", between ';'. */
struct match_case {
	const char *selector;
	const char *affinity;
	const char *tolerations;
	const char *node_name;
	const struct gq_gpu_ask *asks; /* NULL: one nvidia.com/gpu */
	size_t n_asks;
	const char *expected;
};

struct pod_of_text {
	char text[2048];
	size_t used;
	struct gq_label selector[8];
	struct gq_requirement requirements[16];
	size_t n_requirements;
	const char *values[64];
	size_t n_values;
	struct gq_node_term terms[8];
	struct gq_toleration tolerations[4];
	struct gq_pod pod;
};

static char *keep_text(struct pod_of_text *p, const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = p->text + p->used;

	assert_true(size <= sizeof p->text - p->used);
	memcpy(copy, text, size);
	p->used += size;
	return copy;
}

/* Cuts *rest at the next separator; NULL when nothing is left. */
static char *cut(char **rest, const char *separator)
{
	char *start = *rest;
	char *end = start ? strstr(start, separator) : NULL;

	if (end)
		*end = '\0';
	*rest = end ? end + strlen(separator) : NULL;
	return start;
}

static struct gq_requirement parse_requirement(struct pod_of_text *p, char *text)
{
	static const char *const ops[] = {"in", "notin", "exists", "absent", ">", "<"};
	char *values = text + (*text == '@');
	struct gq_requirement r = {.key = cut(&values, " "), .values = &p->values[p->n_values]};
	const char *op = cut(&values, " ");

	while (r.op < N(ops) && strcmp(ops[r.op], op) != 0)
		r.op++;
	assert_true(r.op < N(ops));
	for (char *value; (value = cut(&values, "|"));) {
		assert_true(p->n_values < N(p->values));
		p->values[p->n_values++] = value;
		r.n_values++;
	}
	return r;
}

static void parse_term(struct pod_of_text *p, char *text)
{
	struct gq_node_term *term = &p->terms[p->pod.n_affinity++];
	struct gq_requirement *from = &p->requirements[p->n_requirements];

	if (strcmp(text, "-") == 0)
		return;
	*term = (struct gq_node_term){.expressions = from};
	for (char *one; (one = cut(&text, " && "));) { /* fields behind labels */
		bool field = *one == '@';
		assert_true(p->n_requirements < N(p->requirements));
		p->requirements[p->n_requirements++] = parse_requirement(p, one);
		assert_true(field || term->n_fields == 0);
		if (field)
			term->n_fields++;
		else
			term->n_expressions++;
	}
	term->fields = from + term->n_expressions;
}

static void parse_toleration(struct pod_of_text *p, char *effect)
{
	char *value = cut(&effect, ":");
	const char *key = cut(&value, "=");

	p->tolerations[p->pod.n_tolerations++] =
	    (struct gq_toleration){key, !value, value ? value : "", effect};
}

static void parse_pod(struct pod_of_text *p, const struct match_case *c)
{
	static const struct gq_gpu_amount one = {"nvidia.com/gpu", GQ_GPU_COUNT, 1};
	static const struct gq_gpu_ask ask = {"main", GQ_ROLE_MAIN, &one, 1};
	char *rest;

	*p = (struct pod_of_text){.used = 0};
	p->pod.node_name = c->node_name ? c->node_name : "";
	p->pod.asks = c->asks ? c->asks : &ask;
	p->pod.n_asks = c->asks ? c->n_asks : 1;
	p->pod.node_selector = p->selector;
	p->pod.affinity = p->terms;
	p->pod.tolerations = p->tolerations;
	rest = c->selector ? keep_text(p, c->selector) : NULL;
	for (char *value; (value = cut(&rest, ","));) {
		const char *key = cut(&value, "=");
		p->selector[p->pod.n_node_selector++] = (struct gq_label){key, value};
	}
	p->pod.has_affinity = c->affinity != NULL;
	rest = c->affinity && *c->affinity ? keep_text(p, c->affinity) : NULL;
	for (char *term; (term = cut(&rest, " || "));)
		parse_term(p, term);
	rest = c->tolerations ? keep_text(p, c->tolerations) : NULL;
	for (char *toleration; (toleration = cut(&rest, ";"));)
		parse_toleration(p, toleration);
}

static const struct gq_gpu_amount one_nvidia = {"nvidia.com/gpu", GQ_GPU_COUNT, 1};
static const struct gq_gpu_amount one_amd = {"amd.com/gpu", GQ_GPU_COUNT, 1};
static const struct gq_gpu_amount gpumem = {"nvidia.com/gpumem", GQ_GPU_MEMORY_MIB, 1000};
static const struct gq_gpu_ask ask_nothing = {"main", GQ_ROLE_MAIN, NULL, 0};
static const struct gq_gpu_ask ask_amd = {"main", GQ_ROLE_MAIN, &one_amd, 1};
static const struct gq_gpu_ask ask_gpumem = {"main", GQ_ROLE_MAIN, &gpumem, 1};
static const struct gq_gpu_ask ask_both[] = {{"a", GQ_ROLE_MAIN, &one_nvidia, 1},
					     {"b", GQ_ROLE_MAIN, &one_amd, 1}};

/* "source: class=mib class=mib ?" with ? for unknown and ! for overflow. */
static void print_candidates(const struct gq_class_table *table, const struct gq_candidates *c,
			     struct gq_buf *out)
{
	static const char *const sources[] = {"nodes:", "selector:", "nothing:"};

	gq_buf_puts(out, sources[c->source]);
	for (size_t i = 0; i < c->n; i++)
		gq_buf_printf(out, " %s=%lld", gq_class_name(table, c->items[i].class_id),
			      (long long)c->items[i].device_mib);
	gq_buf_puts(out, c->unknown ? " ?" : "");
	gq_buf_puts(out, c->overflow ? " !" : "");
}

static void run_cases(const struct gq_class_table *table, const struct gq_node_snapshot *s,
		      const struct match_case *cases, size_t n)
{
	struct gq_candidates candidates;
	struct pod_of_text p;

	assert_non_null(s);
	for (size_t i = 0; i < n; i++) {
		GQ_BUF_CLEANUP struct gq_buf text = GQ_BUF_INIT(1 << 16);
		parse_pod(&p, &cases[i]);
		memset(&candidates, 0xa5, sizeof candidates); /* all that is read gets written */
		gq_node_snapshot_match(s, &p.pod, &candidates);
		print_candidates(table, &candidates, &text);
		if (strcmp(text.data, cases[i].expected) != 0)
			fail_msg("case %zu (%s; %s): %s, expected %s", i,
				 cases[i].selector ? cases[i].selector : "",
				 cases[i].affinity ? cases[i].affinity : "", text.data,
				 cases[i].expected);
	}
}

static int new_table(void **state)
{
	*state = fixture_table(NULL, 0);
	return *state ? 0 : -1;
}

static int free_table(void **state)
{
	gq_class_table_free(*state);
	return 0;
}

static const struct fixture_spec cluster[] = {
    {"a1", A40 "," HOST "=host-a1,pool=train,slots=8", GPU8, ""},
    {"a2", A80 "," HOST "=host-a2,pool=train,slots=16", GPU8, ""},
    {"h1", H80 "," HOST "=host-h1,pool=serve,slots=-1", GPU8, ""},
    {"h2", H80 "," HOST "=host-h2,pool=serve,slots=x", GPU8, ""},
    {"m1", "amd.com/gpu.product-name=AMD_Instinct_MI300X_OAM," HOST "=host-m1", "amd.com/gpu=8",
     ""},
    {"t1", "nvidia.com/gpu.product=Tesla-T4," HOST "=host-t1", GPU8, "gpu=yes:NoSchedule"},
    {"l1", "nvidia.com/gpu.product=NVIDIA-L4," HOST "=host-l1", GPU8, "team=a:NoExecute"},
    {"s1", "nvidia.com/gpu.product=NVIDIA-L40S,soft=1," HOST "=host-s1", GPU8,
     "gpu=yes:PreferNoSchedule"},
    {"c1", "pool=train," HOST "=host-c1", "", ""},
    {"z1", "nvidia.com/gpu.product=NVIDIA-B200,pool=train", "nvidia.com/gpu=0", ""},
};

#define ALL_FREE "A100-40GB=40960 A100-80GB=81920 L40S=46068 H100-80GB=81559"

static void test_selectors(void **state)
{
	static const struct match_case cases[] = {
	    {.expected = "nodes: " ALL_FREE},
	    {.selector = "pool=train", .expected = "nodes: A100-40GB=40960 A100-80GB=81920"},
	    {.selector = "pool=train," PRODUCT "=NVIDIA-A100-SXM4-80GB",
	     .expected = "nodes: A100-80GB=81920"},
	    {.selector = "pool=nowhere", .expected = "nothing:"},
	    {.affinity = "pool in serve|x", .expected = "nodes: H100-80GB=81559"},
	    {.affinity = "pool notin train|x", .expected = "nodes: L40S=46068 H100-80GB=81559"},
	    {.affinity = "soft exists", .expected = "nodes: L40S=46068"},
	    {.affinity = "pool absent", .expected = "nodes: L40S=46068"},
	    {.affinity = "slots > 8", .expected = "nodes: A100-80GB=81920"},
	    {.affinity = "slots > 7", .expected = "nodes: A100-40GB=40960 A100-80GB=81920"},
	    {.affinity = "slots < 8", .expected = "nodes: H100-80GB=81559"},
	    {.affinity = "slots > -2 && slots < 0", .expected = "nodes: H100-80GB=81559"},
	    {.affinity = "slots < 8x", .expected = "nothing:"},
	    {.affinity = "slots <  8", .expected = "nothing:"},
	    {.affinity = "slots < ", .expected = "nothing:"},
	    {.affinity = "slots < 99999999999999999999", .expected = "nothing:"},
	    /* terms are alternatives, requirements all hold */
	    {.affinity = "pool in train && slots > 8 || soft exists",
	     .expected = "nodes: A100-80GB=81920 L40S=46068"},
	    {.affinity = "pool in train && soft exists", .expected = "nothing:"},
	    /* nodeSelector and affinity */
	    {.selector = "pool=train",
	     .affinity = "slots > 8",
	     .expected = "nodes: A100-80GB=81920"},
	    /* a term with nothing in it, and no term at all, match nothing */
	    {.affinity = "-", .expected = "nothing:"},
	    {.affinity = "- || soft exists", .expected = "nodes: L40S=46068"},
	    {.affinity = "", .expected = "nothing:"},
	};
	GQ_CLEANUP(gq_cleanup_node_snapshot)
	struct gq_node_snapshot *s = fixture_snapshot(*state, cluster, N(cluster));

	run_cases(*state, s, cases, N(cases));
}

static void test_single_nodes(void **state)
{
	static const struct match_case cases[] = {
	    {.selector = HOST "=host-a1", .expected = "nodes: A100-40GB=40960"},
	    {.selector = HOST "=a1", .expected = "nothing:"},
	    {.selector = HOST "=host-a1,pool=serve", .expected = "nothing:"},
	    {.selector = HOST "=host-a1",
	     .affinity = "pool in train",
	     .expected = "nodes: A100-40GB=40960"},
	    {.selector = HOST "=host-c1", .expected = "nothing:"}, /* no GPU */
	    {.selector = HOST "=host-m1", .expected = "nothing:"}, /* another vendor's */
	    {.selector = HOST "=host-t1", .expected = "nothing:"}, /* tainted */
	    {.affinity = HOST " in host-a1|host-h2|host-x",
	     .expected = "nodes: A100-40GB=40960 H100-80GB=81559"},
	    {.affinity = HOST " notin host-h1|host-a1",
	     .expected = "nodes: A100-80GB=81920 L40S=46068 H100-80GB=81559"},
	    {.affinity = HOST " notin host-h1|host-h2",
	     .expected = "nodes: A100-40GB=40960 A100-80GB=81920 L40S=46068"},
	    {.affinity = HOST " in host-a1 || pool in serve",
	     .expected = "nodes: A100-40GB=40960 H100-80GB=81559"},
	    {.affinity = HOST " in host-a1 && pool in serve", .expected = "nothing:"},
	    {.affinity = HOST " exists && soft exists", .expected = "nodes: L40S=46068"},
	    {.affinity = HOST " absent", .expected = "nothing:"},
	    {.affinity = "@metadata.name in a2", .expected = "nodes: A100-80GB=81920"},
	    {.affinity = "@metadata.name in a2|h1",
	     .expected = "nodes: A100-80GB=81920 H100-80GB=81559"},
	    {.affinity = "@metadata.name in host-a2", .expected = "nothing:"},
	    {.affinity = "@metadata.name notin a1|a2|s1|h1", .expected = "nodes: H100-80GB=81559"},
	    {.affinity = "@metadata.name notin a1|a2|s1|h1|h2", .expected = "nothing:"},
	    {.affinity = "pool in train && @metadata.name in a2|h1",
	     .expected = "nodes: A100-80GB=81920"},
	    /* what the API server does not let through matches nothing */
	    {.affinity = "@metadata.name exists", .expected = "nothing:"},
	    {.affinity = "@metadata.namespace in a2", .expected = "nothing:"},
	    {.affinity = "@spec.unschedulable notin true", .expected = "nothing:"},
	    /* spec.nodeName: that node, whatever the rest says */
	    {.node_name = "a2", .expected = "nodes: A100-80GB=81920"},
	    {.node_name = "t1", .selector = "pool=train", .expected = "nodes: T4=15360"},
	    {.node_name = "c1", .expected = "nodes: ?"},
	    {.node_name = "nowhere", .expected = "nodes: ?"},
	};
	GQ_CLEANUP(gq_cleanup_node_snapshot)
	struct gq_node_snapshot *s = fixture_snapshot(*state, cluster, N(cluster));

	run_cases(*state, s, cases, N(cases));
}

static void test_tolerations_and_resources(void **state)
{
	static const struct match_case cases[] = {
	    {.tolerations = "gpu=yes:NoSchedule", .expected = "nodes: T4=15360 " ALL_FREE},
	    {.tolerations = "gpu=yes:", .expected = "nodes: T4=15360 " ALL_FREE},
	    {.tolerations = "gpu:", .expected = "nodes: T4=15360 " ALL_FREE},
	    {.tolerations = "gpu:NoExecute", .expected = "nodes: " ALL_FREE},
	    {.tolerations = "gpu=no:", .expected = "nodes: " ALL_FREE},
	    {.tolerations = "gp:", .expected = "nodes: " ALL_FREE},
	    {.tolerations = "gpu:NoExecute;team=a:NoExecute",
	     .expected = "nodes: A100-40GB=40960 A100-80GB=81920 L4=23034 L40S=46068 "
			 "H100-80GB=81559"},
	    {.tolerations = ":", .selector = HOST "=host-l1", .expected = "nodes: L4=23034"},
	    {.tolerations = ":NoSchedule", .selector = HOST "=host-l1", .expected = "nothing:"},
	    {.asks = &ask_amd, .n_asks = 1, .expected = "nodes: MI300X=196592"},
	    {.asks = &ask_gpumem, .n_asks = 1, .expected = "nodes: " ALL_FREE},
	    {.asks = ask_both, .n_asks = 2, .expected = "nothing:"}, /* no node has both */
	    /* nothing that is known by name, as with a claim: every node with GPUs */
	    {.asks = &ask_nothing,
	     .n_asks = 1,
	     .affinity = "@metadata.name in c1",
	     .expected = "nothing:"},
	    {.asks = &ask_nothing,
	     .n_asks = 1,
	     .selector = "pool=train",
	     .expected = "nodes: A100-40GB=40960 A100-80GB=81920 B200=183359"},
	};
	GQ_CLEANUP(gq_cleanup_node_snapshot)
	struct gq_node_snapshot *s = fixture_snapshot(*state, cluster, N(cluster));

	run_cases(*state, s, cases, N(cases));
}

static void test_what_nodes_are_read_as(void **state)
{
	static const struct fixture_spec specs[] = {
	    {"a", PRODUCT "=NVIDIA-A100,pool=model", GPU8, ""},
	    {"b", MEMORY "=60000," PRODUCT "=NVIDIA-A100,pool=odd", GPU8, ""},
	    {"c", "pool=bare", GPU8, ""},
	    {"d", PRODUCT "=Brand-New,pool=new", GPU8, ""},
	    {"e", MEMORY "=39538," PRODUCT "=NVIDIA-A100-PCIE-40GB,pool=two", GPU8, ""},
	    {"f", MEMORY "=40960," PRODUCT "=NVIDIA-A100-PCIE-40GB,pool=two", GPU8, ""},
	    {"g", MEMORY "=40960," PRODUCT "=NVIDIA-A100-PCIE-40GB,pool=two", GPU8, ""},
	};
	static const struct match_case cases[] = {
	    {.selector = "pool=model", .expected = "nodes: A100-40GB=40960 A100-80GB=81920"},
	    {.selector = "pool=odd", .expected = "nodes: A100-40GB=60000 A100-80GB=60000"},
	    {.selector = "pool=bare", .expected = "nodes: ?"},
	    {.affinity = "pool in bare|two",
	     .expected = "nodes: A100-40GB=39538 A100-40GB=40960 ?"},
	    {.selector = "pool=new", .expected = "nodes: other=0"},
	    {.selector = "pool=two", .expected = "nodes: A100-40GB=39538 A100-40GB=40960"},
	    {.node_name = "a", .expected = "nodes: A100-40GB=40960 A100-80GB=81920"},
	    {.node_name = "c", .expected = "nodes: ?"},
	};
	GQ_CLEANUP(gq_cleanup_node_snapshot)
	struct gq_node_snapshot *s = fixture_snapshot(*state, specs, N(specs));

	run_cases(*state, s, cases, N(cases));
}

/* A node without its labels keeps its class, but selectors no longer find it. */
static void test_evidence(void **state)
{
	static const struct match_case cases[] = {
	    {.expected = "nodes: A100-80GB=81920"},
	    {.selector = PRODUCT "=NVIDIA-A100-SXM4-80GB", .expected = "selector: A100-80GB=81920"},
	    {.node_name = "a", .expected = "nodes: A100-80GB=81920"},
	    {.node_name = "gone", .expected = "nodes: H100-80GB=81559"},
	    {.affinity = "@metadata.name in gone", .expected = "nothing:"},
	};
	GQ_CLEANUP(gq_cleanup_node) struct gq_node *now = fixture_node("a", "", GPU8, "");
	GQ_CLEANUP(gq_cleanup_node) struct gq_node *before = fixture_node("a", A80, GPU8, "");
	GQ_CLEANUP(gq_cleanup_node) struct gq_node *gone = fixture_node("gone", H80, GPU8, "");
	const struct gq_node_facts facts[] = {{now, before, "a"}, {NULL, gone, "gone"}};
	struct gq_node_snapshot *s = NULL;

	assert_int_equal(gq_node_snapshot_new(*state, facts, 2, &s, NULL), 0);
	run_cases(*state, s, cases, N(cases));
	gq_node_snapshot_unref(s);
}

#define GKE "cloud.google.com/gke-accelerator"
#define SEVENTEEN "NVIDIA-L4|1|2|3|4|5|6|7|8|9|10|11|12|13|14|15|16"

static void test_from_selector(void **state)
{
	static const struct match_case cases[] = {
	    {.selector = PRODUCT "=NVIDIA-H100-80GB-HBM3", .expected = "selector: H100-80GB=81559"},
	    {.selector = GKE "=nvidia-tesla-a100", .expected = "selector: A100-40GB=40960"},
	    {.selector = PRODUCT "=NVIDIA-A100",
	     .expected = "selector: A100-40GB=40960 A100-80GB=81920"},
	    {.selector = PRODUCT "=NVIDIA-A100," MEMORY "=81920,zone=x",
	     .expected = "selector: A100-80GB=81920"},
	    {.selector = PRODUCT "=Brand-New", .expected = "selector: other=0"},
	    {.selector = "zone=x", .expected = "nothing:"},
	    {.selector = MEMORY "=81920", .expected = "nothing:"},
	    {.affinity = PRODUCT " in NVIDIA-H200|Tesla-T4",
	     .expected = "selector: T4=15360 H200=143771"},
	    {.affinity = PRODUCT " in NVIDIA-H200 || " PRODUCT " in Tesla-T4",
	     .expected = "selector: T4=15360 H200=143771"},
	    {.affinity = PRODUCT " in NVIDIA-A100 && " MEMORY " in 40960|12345",
	     .expected = "selector: A100-40GB=12345 A100-40GB=40960 A100-80GB=12345"},
	    /* every alternative must tell */
	    {.affinity = PRODUCT " in NVIDIA-H200 || zone in x", .expected = "nothing:"},
	    {.affinity = PRODUCT " in NVIDIA-H200|", .expected = "nothing:"},
	    {.affinity = PRODUCT " exists", .expected = "nothing:"},
	    {.affinity = PRODUCT " notin NVIDIA-H200", .expected = "nothing:"},
	    {.affinity = "@metadata.name in new-node", .expected = "nothing:"},
	    /* nodeSelector and the other requirements narrow it */
	    {.selector = PRODUCT "=Tesla-T4",
	     .affinity = "zone in x",
	     .expected = "selector: T4=15360"},
	    {.selector = PRODUCT "=Tesla-T4",
	     .affinity = PRODUCT " in Tesla-T4|NVIDIA-H200",
	     .expected = "selector: T4=15360"},
	    {.affinity = PRODUCT " in Tesla-T4|NVIDIA-H200 && " PRODUCT " notin Tesla-T4",
	     .expected = "selector: H200=143771"},
	    {.selector = PRODUCT "=Tesla-T4",
	     .affinity = PRODUCT " in NVIDIA-H200",
	     .expected = "nothing:"},
	    {.selector = PRODUCT "=Tesla-T4",
	     .affinity = PRODUCT " in NVIDIA-H200 || zone in x",
	     .expected = "selector: T4=15360"},
	    {.affinity = PRODUCT " in", .expected = "nothing:"},
	    {.affinity = "- || " PRODUCT " in Tesla-T4", .expected = "selector: T4=15360"},
	    /* too many combinations to try */
	    {.affinity = PRODUCT " in " SEVENTEEN " && " GKE " in " SEVENTEEN,
	     .expected = "nothing:"},
	    {.affinity = PRODUCT " in Tesla-T4 && " GKE " in " SEVENTEEN,
	     .expected = "selector: T4=15360"},
	};
	GQ_CLEANUP(gq_cleanup_node_snapshot)
	struct gq_node_snapshot *empty = fixture_snapshot(*state, NULL, 0);

	run_cases(*state, empty, cases, N(cases));
}

/* Classes that a policy hangs below built-in ones. */
static void test_policy_classes(void **state)
{
	static const char *const ib[] = {"ib"};
	static const struct gq_class_match match = {"fabric", ib, 1};
	static const struct gq_class_def defs[] = {
	    {.name = "H100-80GB-IB", .parent = "H100-80GB", .matches = &match, .n_matches = 1},
	};
	static const struct fixture_spec specs[] = {{"h1", H80, GPU8, ""},
						    {"h2", H80 ",fabric=ib", GPU8, ""}};
	static const struct match_case cases[] = {
	    {.selector = "fabric=ib", .expected = "nodes: H100-80GB-IB=81559"},
	    {.affinity = "fabric absent", .expected = "nodes: H100-80GB-IB=81559"},
	    {.selector = "fabric=ib,zone=new", .expected = "selector: H100-80GB-IB=81559"},
	    {.selector = "fabric=eth", .expected = "nothing:"},
	};
	GQ_CLEANUP(gq_cleanup_class_table) struct gq_class_table *table = fixture_table(defs, 1);
	(void)state;
	GQ_CLEANUP(gq_cleanup_node_snapshot)
	struct gq_node_snapshot *s = fixture_snapshot(table, specs, N(specs));

	run_cases(table, s, cases, N(cases));
}

/* Many nodes: labels that differ on each stay out of shapes and still match exactly. */
static void test_many_nodes(void **state)
{
	enum { COUNT = 300 };
	static char text[COUNT][2][256];
	static struct fixture_spec specs[COUNT];
	static const struct match_case cases[] = {
	    {.selector = "serial=17", .expected = "nodes: H100-80GB=81559"},
	    {.selector = "serial=18", .expected = "nodes: A100-40GB=40960"},
	    {.selector = "serial=300", .expected = "nothing:"},
	    {.selector = "serial=17," HOST "=n18", .expected = "nothing:"},
	    {.affinity = "serial < 1", .expected = "nodes: A100-40GB=40960"},
	    {.affinity = "serial > 298", .expected = "nodes: H100-80GB=81559"},
	    {.affinity = "serial in 17 && rack in r2", .expected = "nodes: H100-80GB=81559"},
	    {.affinity = "serial in 17 && rack in r1", .expected = "nothing:"},
	    {.affinity = "serial notin 17 && rack in r0",
	     .expected = "nodes: A100-40GB=40960 H100-80GB=81559"},
	    {.affinity = "serial exists", .expected = "nodes: A100-40GB=40960 H100-80GB=81559"},
	    {.affinity = "serial absent", .expected = "nothing:"},
	    {.affinity = "@metadata.name in n299", .expected = "nodes: H100-80GB=81559"},
	};

	for (size_t i = 0; i < COUNT; i++) {
		(void)snprintf(text[i][0], sizeof text[i][0], "n%zu", i);
		(void)snprintf(text[i][1], sizeof text[i][1],
			       "%s," HOST "=n%zu,rack=r%zu,serial=%zu", i % 2 ? H80 : A40, i, i % 5,
			       i);
		specs[i] = (struct fixture_spec){text[i][0], text[i][1], GPU8, ""};
	}
	GQ_CLEANUP(gq_cleanup_node_snapshot)
	struct gq_node_snapshot *s = fixture_snapshot(*state, specs, COUNT);
	run_cases(*state, s, cases, N(cases));
}

static void test_overflow(void **state)
{
	enum { COUNT = GQ_CANDIDATES_MAX + 1 };
	static char text[COUNT][2][256];
	static struct fixture_spec specs[COUNT];
	const struct match_case any = {.expected = ""};
	struct pod_of_text p;

	parse_pod(&p, &any);

	for (size_t i = 0; i < COUNT; i++) {
		(void)snprintf(text[i][0], sizeof text[i][0], "n%zu", i);
		(void)snprintf(text[i][1], sizeof text[i][1], A80 "," MEMORY "=%zu", 81920 - i);
		specs[i] = (struct fixture_spec){text[i][0], text[i][1], GPU8, ""};
	}
	for (size_t n = COUNT - 1; n <= COUNT; n++) {
		GQ_CLEANUP(gq_cleanup_node_snapshot)
		struct gq_node_snapshot *s = fixture_snapshot(*state, specs, n);
		struct gq_candidates c;
		assert_non_null(s);
		gq_node_snapshot_match(s, &p.pod, &c);
		assert_int_equal(c.n, GQ_CANDIDATES_MAX);
		assert_int_equal(c.overflow, n > GQ_CANDIDATES_MAX);
		for (size_t i = 1; i < c.n; i++)
			assert_true(c.items[i - 1].device_mib < c.items[i].device_mib);
	}
}

static unsigned next_random(unsigned *seed, unsigned below)
{
	*seed = *seed * 1103515245u + 12345u;
	return (*seed >> 16) % below;
}

static void random_requirement(unsigned *seed, struct gq_buf *out)
{
	static const char *const keys[] = {"pool", "serial", HOST, PRODUCT, "rare"};
	static const char *const lists[] = {"in", "notin"};
	const char *key = keys[next_random(seed, N(keys))];
	unsigned at = next_random(seed, 40), to = next_random(seed, 40);

	switch (next_random(seed, 6)) {
	case 0:
		gq_buf_printf(out, "%s %s", key, next_random(seed, 2) ? "exists" : "absent");
		break;
	case 1:
		gq_buf_printf(out, "serial %s %u", next_random(seed, 2) ? ">" : "<", at);
		break;
	case 2:
		gq_buf_printf(out, "pool %s p%u|p%u", lists[at % 2], at % 4, to % 4);
		break;
	case 3:
		gq_buf_printf(out, "serial %s %u|%u", lists[to % 2], at, to);
		break;
	case 4:
		gq_buf_printf(out, HOST " %s n%u|n%u", lists[(at + to) % 2], at, to);
		break;
	default:
		gq_buf_printf(out, PRODUCT " %s %s", lists[at % 2],
			      to % 2 ? "NVIDIA-L4" : "NVIDIA-A100-SXM4-80GB");
	}
}

static void random_affinity(unsigned *seed, struct gq_buf *out)
{
	for (unsigned terms = 1 + next_random(seed, 3), t = 0; t < terms; t++) {
		unsigned n = 1 + next_random(seed, 3);
		gq_buf_puts(out, t ? " || " : "");
		for (unsigned i = 0; i < n; i++) {
			gq_buf_puts(out, i ? " && " : "");
			random_requirement(seed, out);
		}
		if (next_random(seed, 4) == 0)
			gq_buf_printf(out, " && @metadata.name %s n%u",
				      next_random(seed, 2) ? "in" : "notin", next_random(seed, 40));
	}
}

/* The bit of a class among candidates; 0 when it is none. */
static uint64_t bit_of(const struct gq_candidates *c, int class_id)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->items[i].class_id == class_id)
			return UINT64_C(1) << i;
	return 0;
}

/* Whatever is shared between nodes: all of them together answer as each of them alone. */
static void test_as_each_node_alone(void **state)
{
	enum { COUNT = 40, PODS = 400 };
	static const char *const products[] = {A40, A80, H80, PRODUCT "=NVIDIA-L4", "none=1"};
	static char text[COUNT][2][256];
	static struct fixture_spec specs[COUNT];
	struct gq_node_snapshot *alone[COUNT];
	unsigned seed = 7, fitting = 0;
	struct pod_of_text p;

	for (unsigned i = 0; i < COUNT; i++) {
		(void)snprintf(text[i][0], sizeof text[i][0], "n%u", i);
		(void)snprintf(
		    text[i][1], sizeof text[i][1], "%s," HOST "=n%u,pool=p%u,serial=%u%s",
		    products[next_random(&seed, N(products))], i, i % 3, i, i % 7 ? "" : ",rare=x");
		specs[i] = (struct fixture_spec){text[i][0], text[i][1], i % 11 ? GPU8 : "",
						 i % 5 ? "" : "gpu=yes:NoSchedule"};
		alone[i] = fixture_snapshot(*state, &specs[i], 1);
		assert_non_null(alone[i]);
	}
	GQ_CLEANUP(gq_cleanup_node_snapshot)
	struct gq_node_snapshot *all = fixture_snapshot(*state, specs, COUNT);
	assert_non_null(all);
	for (unsigned i = 0; i < PODS; i++) {
		GQ_BUF_CLEANUP struct gq_buf affinity = GQ_BUF_INIT(4096);
		struct gq_candidates together, one;
		uint64_t found = 0;
		bool unknown = false;
		random_affinity(&seed, &affinity);
		parse_pod(&p, &(struct match_case){.affinity = affinity.data,
						   .tolerations = i % 2 ? "gpu:" : NULL});
		gq_node_snapshot_match(all, &p.pod, &together);
		bool nodes = together.source == GQ_FROM_NODES;
		for (unsigned k = 0; k < COUNT; k++) {
			gq_node_snapshot_match(alone[k], &p.pod, &one);
			if (one.source != GQ_FROM_NODES)
				continue;
			unknown |= one.unknown;
			uint64_t bit = one.n ? bit_of(&together, one.items[0].class_id) : 0;
			if (one.n && (!nodes || !bit))
				fail_msg("pod %u: n%u is missing (%s)", i, k, affinity.data);
			found |= bit;
		}
		if (nodes &&
		    (found != (UINT64_C(1) << together.n) - 1 || unknown != together.unknown))
			fail_msg("pod %u: other candidates (%s)", i, affinity.data);
		assert_int_equal(nodes, found || unknown);
		fitting += nodes;
	}
	assert_in_range(fitting, PODS / 4, PODS - PODS / 10); /* both kinds were tried */
	for (unsigned i = 0; i < COUNT; i++)
		gq_node_snapshot_unref(alone[i]);
}

/* A selector that would take long to try is answered as a pod that may land anywhere. */
static void test_endless_selector(void **state)
{
	enum { COUNT = 300, VALUES = 2000 };
	static char text[COUNT][2][256];
	static struct fixture_spec specs[COUNT];
	static const char *values[VALUES];
	static const struct gq_gpu_ask ask = {"main", GQ_ROLE_MAIN, &one_nvidia, 1};
	struct gq_requirement requirement = {HOST, GQ_OP_NOT_IN, values, VALUES};
	struct gq_requirement both[] = {requirement, {"rack", GQ_OP_EXISTS, NULL, 0}};
	struct gq_node_term term = {both, 2, NULL, 0};
	const struct gq_pod pod = {.node_name = "",
				   .asks = &ask,
				   .n_asks = 1,
				   .has_affinity = true,
				   .affinity = &term,
				   .n_affinity = 1};
	struct gq_candidates c;

	for (size_t i = 0; i < VALUES; i++)
		values[i] = "elsewhere";
	for (size_t i = 0; i < COUNT; i++) {
		(void)snprintf(text[i][0], sizeof text[i][0], "n%zu", i);
		(void)snprintf(text[i][1], sizeof text[i][1], A80 "," HOST "=n%zu,rack=r", i);
		specs[i] = (struct fixture_spec){text[i][0], text[i][1], GPU8, ""};
		values[i] = text[i][0]; /* every node is named, so that all must be tried */
	}
	GQ_CLEANUP(gq_cleanup_node_snapshot)
	struct gq_node_snapshot *s = fixture_snapshot(*state, specs, COUNT);
	assert_non_null(s);
	gq_node_snapshot_match(s, &pod, &c);
	assert_true(c.overflow);
	assert_int_equal(c.source, GQ_FROM_NODES);
	/* the same with a list of common length is tried to its end */
	both[0].n_values = COUNT;
	gq_node_snapshot_match(s, &pod, &c);
	assert_false(c.overflow);
	assert_int_equal(c.source, GQ_FROM_NOTHING);
	both[0].n_values = COUNT - 1;
	gq_node_snapshot_match(s, &pod, &c);
	assert_false(c.overflow);
	assert_int_equal(c.n, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_selectors),
	    cmocka_unit_test(test_single_nodes),
	    cmocka_unit_test(test_tolerations_and_resources),
	    cmocka_unit_test(test_what_nodes_are_read_as),
	    cmocka_unit_test(test_evidence),
	    cmocka_unit_test(test_from_selector),
	    cmocka_unit_test(test_policy_classes),
	    cmocka_unit_test(test_many_nodes),
	    cmocka_unit_test(test_overflow),
	    cmocka_unit_test(test_as_each_node_alone),
	    cmocka_unit_test(test_endless_selector),
	};
	return cmocka_run_group_tests(tests, new_table, free_table);
}
