#include "ledger_fixture.h"

#include "quota/decision_internal.h"
#include "quota_testing.h"

#define POLICY(mode)                                                                               \
	"tenants: [{name: team-a, mode: " mode ", namespaces: [a-train], quota: {A100: {gpus: "    \
	"8}}}]\n"
#define CLAIMS(list) .resources = "'cpu':'1'", .spec = "'resourceClaims':[" list "]"
#define CLASS_PATH "/apis/resource.k8s.io/v1/deviceclasses/"
#define CLAIM_PATH "/apis/resource.k8s.io/v1/namespaces/a-train/resourceclaims/"
#define TEMPLATE_PATH "/apis/resource.k8s.io/v1/namespaces/a-train/resourceclaimtemplates/"

/* What the API server has. code: why a read fails. */
struct object {
	const char *path, *json;
	int code;
};

#define SPEC_OF(class_name)                                                                        \
	"'spec':{'devices':{'requests':[{'name':'r','exactly':{'deviceClassName':'" class_name     \
	"'}}]}}"
#define NIC_CLASS                                                                                  \
	{                                                                                          \
		CLASS_PATH "nic.example.com",                                                      \
		    "{'spec':{'selectors':[{'cel':{'expression':'device.driver == "                \
		    "\\\"nic.example.com\\\"'}}]}}",                                               \
		    0                                                                              \
	}

static const struct object objects[] = {
    {CLAIM_PATH "nic", "{" SPEC_OF("nic.example.com") "}", 0},
    {CLAIM_PATH "two",
     "{'spec':{'devices':{'requests':[{'name':'r','exactly':{'deviceClassName':'nic.example.com'}},"
     "{'name':'s','exactly':{'deviceClassName':'fpga.example.com'}}]}}}",
     0},
    {CLASS_PATH "fpga.example.com",
     "{'spec':{'selectors':[{'cel':{'expression':'device.driver == \\\"fpga.example.com\\\"'}}]}}",
     0},
    {CLAIM_PATH "gpu", "{" SPEC_OF("gpu.nvidia.com") "}", 0},
    {CLAIM_PATH "odd", "{" SPEC_OF("odd.example.com") "}", 0},
    {CLAIM_PATH "lost-class", "{" SPEC_OF("lost.example.com") "}", 0},
    {CLAIM_PATH "broken", "{'spec':{'devices':{'requests':[{'name':'r','newForm':{}}]}}}", 0},
    {CLAIM_PATH "forbidden", NULL, GQ_EDENIED},
    {CLAIM_PATH "slow", NULL, GQ_EIO},
    {TEMPLATE_PATH "nics", "{'spec':{" SPEC_OF("nic.example.com") "}}", 0},
    {TEMPLATE_PATH "gpus", "{'spec':{" SPEC_OF("gpu.nvidia.com") "}}", 0},
    NIC_CLASS,
    {CLASS_PATH "odd.example.com", "{'spec':{}}", 0},
    {CLASS_PATH "hidden.example.com", NULL, GQ_EDENIED},
    {CLASS_PATH "flaky.example.com", NULL, GQ_EIO},
};

/* Answers what was asked for, as the store does. */
static void answer_reads(struct world *w)
{
	for (size_t i = 0; i < w->reads.n; i++) {
		struct gq_read *read = &w->reads.items[i];
		size_t k = 0;
		if (read->done)
			continue;
		read->done = true;
		while (k < LEN(objects) && strcmp(objects[k].path, read->path) != 0)
			k++;
		read->code = k < LEN(objects) ? objects[k].code : GQ_ENOTFOUND;
		if (read->code)
			continue;
		struct gq_buf kept = GQ_BUF_INIT(1u << 16);
		char *json = json_of(objects[k].json);
		assert_int_equal(prune(json, strlen(json), read->keep, &kept), 0);
		free(json);
		read->len = kept.len;
		read->body = gq_buf_steal(&kept);
	}
}

/* Asks again until there is an answer; returns how many rounds of reads it took. */
static int rounds(struct world *w, const struct pod_spec *spec, enum gq_verdict_kind *ret_kind)
{
	int n = 0;

	gq_reads_done(&w->reads);
	while ((*ret_kind = world_ask(w, spec, &(struct ask){0})) == GQ_VERDICT_READ) {
		answer_reads(w);
		assert_true(++n < 10);
	}
	return n;
}

static void verdicts(void **state)
{
	static const struct {
		const char *claims;
		enum gq_verdict_kind kind;
		int rounds;
		const char *message;
	} cases[] = {
	    {"{'name':'a','resourceClaimName':'nic'}", GQ_VERDICT_ALLOW, 2, ""},
	    {"{'name':'a','resourceClaimTemplateName':'nics'}", GQ_VERDICT_ALLOW, 2, ""},
	    /* everything that can be asked at once is */
	    {"{'name':'a','resourceClaimName':'nic'},{'name':'b','resourceClaimTemplateName':'nics'"
	     "}",
	     GQ_VERDICT_ALLOW, 2, ""},
	    {"{'name':'a','resourceClaimName':'two'}", GQ_VERDICT_ALLOW, 2, ""},
	    {"{'name':'a','resourceClaimName':'nic'},{'name':'b','resourceClaimName':'gpu'}",
	     GQ_VERDICT_DENY, 1,
	     "The resource claim b asks for a device of class gpu.nvidia.com, which may be a GPU"},
	    {"{'name':'a','resourceClaimTemplateName':'gpus'}", GQ_VERDICT_DENY, 1,
	     "class gpu.nvidia.com"},
	    {"{'name':'a','resourceClaimName':'odd'}", GQ_VERDICT_DENY, 2, "class odd.example.com"},
	    {"{'name':'a','resourceClaimName':'missing'}", GQ_VERDICT_DENY, 1,
	     "The resource claim a could not be read (the claim it names does not exist yet"},
	    {"{'name':'a','resourceClaimName':'forbidden'}", GQ_VERDICT_DENY, 1,
	     "gpuquota may not read it"},
	    {"{'name':'a','resourceClaimName':'lost-class'}", GQ_VERDICT_DENY, 2,
	     "The resource claim a asks for a device of class lost.example.com, and the "
	     "DeviceClass lost.example.com does not exist or may not be read, so it cannot be told "
	     "whether it is a GPU's"},
	    {"{'name':'a','resourceClaimName':'broken'}", GQ_VERDICT_DENY, 1,
	     "The resource claim a could not be read ("},
	    {"{'name':'a','resourceClaimName':'slow'}", GQ_VERDICT_UNAVAILABLE, 1, ""},
	    {"{'name':'a'}", GQ_VERDICT_DENY, 0, "it names no claim or template"},
	    {"{'name':'a','resourceClaimName':'../x'}", GQ_VERDICT_DENY, 0, "it names no claim"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct world *w = world_new(POLICY("enforce"));
		struct gq_buf spec GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
		enum gq_verdict_kind kind;
		gq_buf_printf(&spec, "'resourceClaims':[%s]", cases[i].claims);
		int n = rounds(w, SPEC(.resources = "'cpu':'1'", .spec = spec.data), &kind);
		if (kind != cases[i].kind || n != cases[i].rounds ||
		    !strstr(message_of(w), cases[i].message))
			fail_msg("%s: verdict %d after %d rounds: %s", cases[i].claims, kind, n,
				 message_of(w));
		if (kind == GQ_VERDICT_DENY)
			assert_int_equal(w->verdict.reason, GQ_REASON_CLAIM);
		assert_pods(w, "");
		world_free(w);
	}
}

static void resource_names_of_device_classes(void **state)
{
	static const struct {
		const char *name;
		enum gq_verdict_kind kind;
		const char *message;
	} cases[] = {
	    {"nic.example.com", GQ_VERDICT_ALLOW, ""},
	    {"gpu.nvidia.com", GQ_VERDICT_DENY,
	     "The resource claim deviceclass.resource.kubernetes.io/gpu.nvidia.com asks for a "
	     "device "
	     "of class gpu.nvidia.com"},
	    {"odd.example.com", GQ_VERDICT_DENY, "class odd.example.com"},
	    {"hidden.example.com", GQ_VERDICT_DENY,
	     "the DeviceClass hidden.example.com does not exist or may not be read"},
	    {"flaky.example.com", GQ_VERDICT_UNAVAILABLE, ""},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct world *w = world_new(POLICY("enforce"));
		struct gq_buf limits GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
		enum gq_verdict_kind kind;
		gq_buf_printf(&limits, "'deviceclass.resource.kubernetes.io/%s':'1'",
			      cases[i].name);
		(void)rounds(w, SPEC(.resources = limits.data), &kind);
		if (kind != cases[i].kind || !strstr(message_of(w), cases[i].message))
			fail_msg("%s: verdict %d: %s", cases[i].name, kind, message_of(w));
		world_free(w);
	}
}

static void with_gpus_besides(void **state)
{
	struct world *w = world_new(POLICY("enforce"));
	enum gq_verdict_kind kind;
	static const char nic[] = "'resourceClaims':[{'name':'a','resourceClaimName':'nic'}]";

	(void)state;
	assert_int_equal(rounds(w, SPEC(.gpus = 8, .product = A100_80, .spec = nic), &kind), 2);
	assert_int_equal(kind, GQ_VERDICT_ALLOW);
	assert_usage(w, "team-a", "A100", "8/8 b0 p0 r8 t0");
	/* nothing is reserved while it is read */
	gq_reads_done(&w->reads);
	assert_int_equal(CREATE(w, .name = "q", .product = A100_80, .spec = nic), GQ_VERDICT_READ);
	assert_pods(w, "1 reserved");
	(void)rounds(w, SPEC(.name = "q", .product = A100_80, .spec = nic), &kind);
	assert_int_equal(kind, GQ_VERDICT_DENY);
	assert_int_equal(w->verdict.reason, GQ_REASON_OVER_LIMIT);
	world_free(w);

	w = world_new(POLICY("warn"));
	(void)rounds(w, SPEC(CLAIMS("{'name':'a','resourceClaimName':'gpu'}")), &kind);
	assert_int_equal(kind, GQ_VERDICT_ALLOW);
	assert_int_equal(w->verdict.n_warnings, 1);
	world_free(w);
}

static void too_many(void **state)
{
	struct world *w = world_new(POLICY("enforce"));
	struct gq_buf spec GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 16);
	enum gq_verdict_kind kind;

	(void)state;
	gq_buf_puts(&spec, "'resourceClaims':[");
	for (int i = 0; i <= GQ_READS_MAX; i++)
		gq_buf_printf(&spec, "%s{'name':'c%d','resourceClaimName':'n%d'}", i ? "," : "", i,
			      i);
	gq_buf_puts(&spec, "]");
	assert_int_equal(rounds(w, SPEC(.resources = "'cpu':'1'", .spec = spec.data), &kind), 0);
	assert_int_equal(kind, GQ_VERDICT_DENY);
	assert_non_null(strstr(message_of(w), "the pod has too many claims"));
	world_free(w);
}

static void the_same_read_once(void **state)
{
	struct gq_reads *reads = calloc(1, sizeof *reads);
	char path[700];

	(void)state;
	struct gq_read *a = gq_reads_get(reads, GQ_READ_CLAIM, "/a", gq_claim_keep);
	assert_ptr_equal(gq_reads_get(reads, GQ_READ_CLAIM, "/a", gq_claim_keep), a);
	assert_ptr_not_equal(gq_reads_get(reads, GQ_READ_CLAIM, "/b", gq_claim_keep), a);
	assert_int_equal(reads->n, 2);
	memset(path, 'x', sizeof path - 1);
	path[sizeof path - 1] = '\0';
	assert_null(gq_reads_get(reads, GQ_READ_CLAIM, path, gq_claim_keep));
	assert_int_equal(reads->n, 2);
	gq_reads_done(reads);
	assert_int_equal(reads->n, 0);
	free(reads);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(verdicts),
	    cmocka_unit_test(resource_names_of_device_classes),
	    cmocka_unit_test(with_gpus_besides),
	    cmocka_unit_test(too_many),
	    cmocka_unit_test(the_same_read_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
