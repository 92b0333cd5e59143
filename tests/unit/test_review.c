#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/utf8.h"
#include "quota/object.h"
#include "tests/unit/app_testing.h"
#include "webhook/review.h"

#define REVIEWS GQ_TEST_DATA "/captures/reviews/"
#define HEAD "{'apiVersion':'admission.k8s.io/v1','kind':'AdmissionReview','request':{"
#define REQUEST "'uid':'r1','operation':'CREATE','resource':{'group':'','resource':'pods'}"
#define GOOD HEAD REQUEST "}}"

static int decode(const char *single_quoted, struct gq_review *ret_review, struct gq_err *err)
{
	char *json = json_of(single_quoted);
	int code = gq_review_decode(json, strlen(json), ret_review, err);

	free(json);
	return code;
}

/* What the API server sent, by the name of the file. */
static void captures(void **state)
{
	static const struct {
		const char *file, *operation, *group, *resource, *subresource, *name;
		const char *object; /* metadata.name of it; NULL: there is no object */
		bool dry_run;
	} cases[] = {
	    {"configmap-create", "CREATE", "", "configmaps", "", "zz", "zz", false},
	    {"deployment-create", "CREATE", "apps", "deployments", "", "denye", "denye", false},
	    {"deployment-scale", "UPDATE", "apps", "deployments", "scale", "d1", "d1", false},
	    {"job-create", "CREATE", "batch", "jobs", "", "j2", "j2", false},
	    {"legacy-binding", "CREATE", "", "bindings", "", "gen-x", "gen-x", false},
	    {"namespace-create", "CREATE", "", "namespaces", "", "tt", "tt", false},
	    {"pod-binding", "CREATE", "", "pods", "binding", "ok2", "ok2", false},
	    {"pod-create-by-job", "CREATE", "", "pods", "", "j2-58qrm", "j2-58qrm", false},
	    {"pod-create-by-replicaset", "CREATE", "", "pods", "", "d1-5bb4fdc6b6-8zkfh",
	     "d1-5bb4fdc6b6-8zkfh", false},
	    {"pod-create-dra-claim", "CREATE", "", "pods", "", "dra1", "dra1", false},
	    {"pod-create-dra-extended", "CREATE", "", "pods", "", "dra2", "dra2", false},
	    {"pod-create-dryrun", "CREATE", "", "pods", "", "dry2", "dry2", true},
	    {"pod-create-generatename", "CREATE", "", "pods", "", "gen-9t2vc", "gen-9t2vc", false},
	    {"pod-create", "CREATE", "", "pods", "", "ok2", "ok2", false},
	    {"pod-delete", "DELETE", "", "pods", "", "ok2", NULL, false},
	    {"pod-ephemeralcontainers", "UPDATE", "", "pods", "ephemeralcontainers", "ok2", "ok2",
	     false},
	    {"pod-update", "UPDATE", "", "pods", "", "j2-58qrm", "j2-58qrm", false},
	    {"replicaset-update", "UPDATE", "apps", "replicasets", "", "d1-5bb4fdc6b6",
	     "d1-5bb4fdc6b6", false},
	    {"resourceclaim-create-extended", "CREATE", "resource.k8s.io", "resourceclaims", "",
	     "dra2-extended-resources-clxjw", "dra2-extended-resources-clxjw", false},
	    {"resourceclaim-create", "CREATE", "resource.k8s.io", "resourceclaims", "",
	     "dra1-g-8rgtn", "dra1-g-8rgtn", false},
	    {"resourceclaim-update-allocated", "UPDATE", "resource.k8s.io", "resourceclaims", "",
	     "dra1-g-8rgtn", "dra1-g-8rgtn", false},
	    {"resourceclaimtemplate-create", "CREATE", "resource.k8s.io", "resourceclaimtemplates",
	     "", "one", "one", false},
	};
	static const char *const name_key[] = {"metadata", "name"};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_review review = {0};
		struct gq_err err = {0};
		char path[512];
		const char *name;
		size_t len, name_len;
		(void)snprintf(path, sizeof path, REVIEWS "%s.json", cases[i].file);
		char *body = read_file(path, &len);
		struct json_object *raw = json_parse(body, len);
		print_message("%s\n", cases[i].file);
		if (gq_review_decode(body, len, &review, &err))
			fail_msg("%s", err.msg);
		free(body); /* nothing of the review lives in it */
		assert_string_equal(review.uid, json_text(raw, "request.uid"));
		assert_string_equal(review.operation, cases[i].operation);
		assert_string_equal(review.group, cases[i].group);
		assert_string_equal(review.resource, cases[i].resource);
		assert_string_equal(review.subresource, cases[i].subresource);
		assert_string_equal(review.name, cases[i].name);
		assert_string_equal(review.namespace_, json_text(raw, "request.namespace"));
		assert_string_equal(review.user, json_text(raw, "request.userInfo.username"));
		assert_true(review.dry_run == cases[i].dry_run);
		assert_int_equal(
		    gq_review_object_string(&review, name_key, 2, &name, &name_len, &err), 0);
		if (cases[i].object)
			assert_string_equal(name, cases[i].object);
		else
			assert_true(!review.object && !name);
		gq_review_done(&review);
		json_object_put(raw);
	}
}

static char *capture_string(const char *file, const char *parent, const char *key)
{
	struct gq_review review = {0};
	struct gq_err err = {0};
	char path[512];
	const char *text = NULL;
	size_t len, text_len;

	(void)snprintf(path, sizeof path, REVIEWS "%s.json", file);
	char *body = read_file(path, &len);
	if (gq_review_decode(body, len, &review, &err) ||
	    gq_review_object_string(&review, (const char *[]){parent, key}, 2, &text, &text_len,
				    &err))
		fail_msg("%s", err.msg);
	char *copy = text ? strdup(text) : NULL;
	free(body);
	gq_review_done(&review);
	return copy;
}

/* The scheduler's binding names the pod's uid, the legacy one can't. */
static void captured_bindings(void **state)
{
	static const struct {
		const char *file, *key[2], *value;
	} cases[] = {
	    {"pod-binding", {"metadata", "uid"}, "ad0cc4be-a128-4c5c-8355-dc2105f4c5e8"},
	    {"pod-binding", {"target", "kind"}, "Node"},
	    {"pod-binding", {"target", "name"}, "a1"},
	    {"legacy-binding", {"metadata", "uid"}, NULL},
	    {"legacy-binding", {"target", "kind"}, "Node"},
	    {"legacy-binding", {"target", "name"}, "a1"},
	    {"pod-create", {"target", "name"}, NULL},
	    {"configmap-create", {"data", "policy.yaml"}, NULL},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		char *text = capture_string(cases[i].file, cases[i].key[0], cases[i].key[1]);
		if (cases[i].value)
			assert_string_equal(text, cases[i].value);
		else
			assert_null(text);
		free(text);
	}
}

/* The pod of a review is the one that any other way leads to. */
static void captured_pods(void **state)
{
	static const struct {
		const char *file, *owner;
		size_t asks, claims, classes;
	} cases[] = {
	    {"pod-create", "", 1, 0, 0},
	    {"pod-create-dryrun", "", 1, 0, 0},
	    {"pod-create-generatename", "", 1, 0, 0},
	    {"pod-create-by-replicaset", "ReplicaSet", 1, 0, 0},
	    {"pod-create-by-job", "Job", 0, 0, 0},
	    {"pod-create-dra-claim", "", 0, 1, 0},
	    {"pod-create-dra-extended", "", 0, 0, 1},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_review review = {0};
		struct gq_pod *pod = NULL;
		struct gq_err err = {0};
		char path[512];
		size_t len;
		(void)snprintf(path, sizeof path, REVIEWS "%s.json", cases[i].file);
		char *body = read_file(path, &len);
		if (gq_review_decode(body, len, &review, &err) ||
		    gq_pod_decode_tree(review.object, review.namespace_, &pod, &err))
			fail_msg("%s", err.msg);
		assert_int_equal(pod->n_asks, cases[i].asks);
		assert_int_equal(pod->n_claims, cases[i].claims);
		assert_int_equal(pod->n_device_classes, cases[i].classes);
		assert_string_equal(pod->owner.kind, cases[i].owner);
		assert_int_equal(strlen(pod->uid), 36);
		gq_pod_unref(pod);
		gq_review_done(&review);
		free(body);
	}
}

static void optional_fields(void **state)
{
	struct gq_review review = {0};
	struct gq_err err = {0};

	(void)state;
	assert_int_equal(decode(GOOD, &review, &err), 0);
	assert_string_equal(review.uid, "r1");
	assert_string_equal(review.subresource, "");
	assert_string_equal(review.namespace_, "");
	assert_string_equal(review.name, "");
	assert_string_equal(review.user, "");
	assert_false(review.dry_run);
	assert_null(review.object);
	gq_review_done(&review);
	/* null is absent, as in Go */
	assert_int_equal(decode(HEAD REQUEST ",'name':null,'namespace':null,'dryRun':null,"
					     "'object':null,'userInfo':null,'subResource':null}}",
				&review, &err),
			 0);
	assert_false(review.dry_run);
	assert_null(review.object);
	gq_review_done(&review);
	gq_review_done(&review); /* twice is harmless */
}

/* What is no review, and a part of the message that says why. */
static void malformed(void **state)
{
	static const struct {
		const char *body, *message;
	} cases[] = {
	    {"", ""},
	    {" ", ""},
	    {"x", ""},
	    {"null", ""},
	    {"[]", ""},
	    {"'AdmissionReview'", ""},
	    {"{}", "AdmissionReview"},
	    {HEAD REQUEST "}", ""},
	    {GOOD "x", ""},
	    {GOOD GOOD, ""},
	    {"[" GOOD "]", ""},
	    {"{'apiVersion':'admission.k8s.io/v1beta1','kind':'AdmissionReview','request':{" REQUEST
	     "}}",
	     "admission.k8s.io/v1"},
	    {"{'apiVersion':'admission.k8s.io/v1','kind':'Pod','request':{" REQUEST "}}",
	     "AdmissionReview"},
	    {"{'apiVersion':'admission.k8s.io/v1','request':{" REQUEST "}}", "AdmissionReview"},
	    {"{'apiVersion':1,'kind':'AdmissionReview','request':{" REQUEST "}}", "apiVersion"},
	    {"{'apiVersion':'admission.k8s.io/v1','kind':['AdmissionReview'],'request':{" REQUEST
	     "}}",
	     "kind"},
	    {"{'apiVersion':'admission.k8s.io/v1','kind':'AdmissionReview'}", "request"},
	    {"{'apiVersion':'admission.k8s.io/v1','kind':'AdmissionReview','request':null}",
	     "request"},
	    {"{'apiVersion':'admission.k8s.io/v1','kind':'AdmissionReview','request':[]}",
	     "request"},
	    {"{'apiVersion':'admission.k8s.io/v1','kind':'AdmissionReview','request':'x'}",
	     "request"},
	    {HEAD "'operation':'CREATE','resource':{'resource':'pods'}}}", "request.uid"},
	    {HEAD "'uid':'','operation':'CREATE','resource':{'resource':'pods'}}}", "request.uid"},
	    {HEAD "'uid':7,'operation':'CREATE','resource':{'resource':'pods'}}}", "request.uid"},
	    {HEAD "'uid':'a b','operation':'CREATE','resource':{'resource':'pods'}}}",
	     "request.uid"},
	    {HEAD "'uid':'a\\u0000','operation':'CREATE','resource':{'resource':'pods'}}}",
	     "request.uid"},
	    {HEAD "'uid':'a\\n','operation':'CREATE','resource':{'resource':'pods'}}}",
	     "request.uid"},
	    {HEAD "'uid':'\xC3\xA9','operation':'CREATE','resource':{'resource':'pods'}}}",
	     "request.uid"},
	    {HEAD "'uid':'r1','uid':'r2','operation':'CREATE','resource':{'resource':'pods'}}}",
	     ""},
	    {HEAD "'uid':'r1','resource':{'resource':'pods'}}}", "request.operation"},
	    {HEAD "'uid':'r1','operation':'create','resource':{'resource':'pods'}}}",
	     "request.operation"},
	    {HEAD "'uid':'r1','operation':'PATCH','resource':{'resource':'pods'}}}",
	     "request.operation"},
	    {HEAD "'uid':'r1','operation':{},'resource':{'resource':'pods'}}}",
	     "request.operation"},
	    {HEAD "'uid':'r1','operation':'CREATE'}}", "request.resource"},
	    {HEAD "'uid':'r1','operation':'CREATE','resource':'pods'}}", "request.resource"},
	    {HEAD "'uid':'r1','operation':'CREATE','resource':{'group':''}}}", "request.resource"},
	    {HEAD "'uid':'r1','operation':'CREATE','resource':{'group':1,'resource':'pods'}}}",
	     "request.resource.group"},
	    {HEAD REQUEST ",'namespace':1}}", "request.namespace"},
	    {HEAD REQUEST ",'name':{}}}", "request.name"},
	    {HEAD REQUEST ",'name':'a\\u0000b'}}", "request.name"},
	    {HEAD REQUEST ",'subResource':true}}", "request.subResource"},
	    {HEAD REQUEST ",'userInfo':'admin'}}", "request.userInfo"},
	    {HEAD REQUEST ",'userInfo':{'username':1}}}", "request.userInfo.username"},
	    {HEAD REQUEST ",'dryRun':'true'}}", "request.dryRun"},
	    {HEAD REQUEST ",'dryRun':0}}", "request.dryRun"},
	    {HEAD REQUEST ",'object':[]}}", "request.object"},
	    {HEAD REQUEST ",'object':'Pod'}}", "request.object"},
	    {HEAD REQUEST ",'object':{'metadata':{'name':'a','name':'b'}}}}", ""},
	    {HEAD REQUEST ",'object':{'x\\u0000':1}}}", ""},
	    {HEAD REQUEST ",'object':{'metadata':{'name':'\xFF'}}}}", ""},
	    {HEAD REQUEST ",'object':{'metadata':{'name':'\\ud800'}}}}", ""},
	    {HEAD REQUEST ",'object':{'spec':{'containers':[{'name':1.}]}}}}", ""},
	    {HEAD REQUEST ",'object':{'other':NaN}}}", ""},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_review review = {.uid = "untouched"};
		struct gq_err err = {0};
		int code = decode(cases[i].body, &review, &err);
		if (code != GQ_EINVALID)
			fail_msg("%s: code %d", cases[i].body, code);
		assert_int_equal(err.code, code);
		assert_true(err.msg[0] != '\0');
		assert_has(err.msg, cases[i].message);
		assert_string_equal(review.uid, "untouched");
	}
}

/* Every way to cut a review short is malformed. */
static void truncated(void **state)
{
	char *json = json_of(HEAD REQUEST ",'object':{'metadata':{'name':'p'}},'dryRun':true}}");
	size_t whole = strlen(json);

	(void)state;
	for (size_t len = 0; len < whole; len++) {
		struct gq_review review = {0};
		char *exact = malloc(len ? len : 1); /* so that a sanitizer sees a read past it */
		assert_non_null(exact);
		memcpy(exact, json, len);
		assert_int_equal(gq_review_decode(exact, len, &review, NULL), GQ_EINVALID);
		free(exact);
	}
	free(json);
}

static void caps(void **state)
{
	struct gq_buf body GQ_BUF_CLEANUP = GQ_BUF_INIT(16u << 20);
	struct gq_review review = {0};
	struct gq_err err = {0};
	char uid[200];

	(void)state;
	for (size_t len = 127; len <= 129; len++) {
		memset(uid, 'u', len);
		uid[len] = '\0';
		gq_buf_reset(&body);
		gq_buf_printf(&body,
			      HEAD "'uid':'%s','operation':'CREATE','resource':{'resource':"
				   "'pods'}}}",
			      uid);
		int code = decode(body.data, &review, &err);
		assert_int_equal(code, len <= 128 ? 0 : GQ_EINVALID);
		if (!code)
			gq_review_done(&review);
	}
	/* what nobody reads may be large; what is kept may not */
	for (int kept = 0; kept < 2; kept++) {
		gq_buf_reset(&body);
		gq_buf_puts(&body, HEAD REQUEST ",'object':{'data':{'");
		gq_buf_puts(&body, kept ? "policy.yaml" : "other");
		gq_buf_puts(&body, "':'");
		assert_int_equal(gq_buf_reserve(&body, 5u << 20), 0);
		memset(body.data + body.len, 'x', 5u << 20);
		body.len += 5u << 20;
		gq_buf_puts(&body, "'}}}}");
		int code = decode(body.data, &review, &err);
		assert_int_equal(code, kept ? GQ_ETOOBIG : 0);
		if (!code)
			gq_review_done(&review);
	}
	/* nesting */
	gq_buf_reset(&body);
	gq_buf_puts(&body, HEAD REQUEST ",'object':{'other':");
	for (int i = 0; i < 100000; i++)
		gq_buf_putc(&body, '[');
	assert_int_equal(decode(body.data, &review, &err), GQ_ETOOBIG);
	for (int depth = 20; depth < 130; depth++) {
		gq_buf_reset(&body);
		gq_buf_puts(&body, HEAD REQUEST ",'object':{'metadata':{'name':");
		for (int i = 0; i < depth; i++)
			gq_buf_putc(&body, '[');
		for (int i = 0; i < depth; i++)
			gq_buf_putc(&body, ']');
		gq_buf_puts(&body, "}}}}");
		int code = decode(body.data, &review, &err);
		assert_true(!code || code == GQ_EINVALID || code == GQ_ETOOBIG);
		assert_true(depth < 100 || code);
		if (!code)
			gq_review_done(&review);
	}
}

static void object_strings(void **state)
{
	static const struct {
		const char *object, *key[2], *text;
		size_t len;
		int code;
	} cases[] = {
	    {"{'target':{'name':'n'}}", {"target", "name"}, "n", 1, 0},
	    {"{'target':{'name':''}}", {"target", "name"}, "", 0, 0},
	    {"{'target':{'name':'a\\u0000b'}}", {"target", "name"}, "a", 3, 0},
	    {"{'target':{'name':null}}", {"target", "name"}, NULL, 0, 0},
	    {"{'target':null}", {"target", "name"}, NULL, 0, 0},
	    {"{'target':{}}", {"target", "name"}, NULL, 0, 0},
	    {"{}", {"target", "name"}, NULL, 0, 0},
	    {"{'target':{'name':7}}", {"target", "name"}, NULL, 0, GQ_EINVALID},
	    {"{'target':{'name':{}}}", {"target", "name"}, NULL, 0, GQ_EINVALID},
	    {"{'target':'n'}", {"target", "name"}, NULL, 0, GQ_EINVALID},
	    {"{'target':['n']}", {"target", "name"}, NULL, 0, GQ_EINVALID},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_buf body GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
		struct gq_review review = {0};
		struct gq_err err = {0};
		const char *text = "untouched";
		size_t len = 99;
		gq_buf_printf(&body, HEAD REQUEST ",'object':%s}}", cases[i].object);
		assert_int_equal(decode(body.data, &review, &err), 0);
		assert_int_equal(
		    gq_review_object_string(&review, cases[i].key, 2, &text, &len, &err),
		    cases[i].code);
		if (cases[i].code) {
			assert_string_equal(text, "untouched");
			assert_has(err.msg, "request.object");
		} else if (cases[i].text) {
			assert_string_equal(text, cases[i].text);
			assert_int_equal(len, cases[i].len);
		} else {
			assert_null(text);
			assert_int_equal(len, 0);
		}
		gq_review_done(&review);
	}
}

/* ---- answers ---- */

static struct json_object *print(const struct gq_review_answer *answer)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(256u << 10);

	assert_int_equal(gq_review_print(&out, answer), 0);
	struct json_object *root = json_parse(out.data, out.len);
	assert_string_equal(json_text(root, "apiVersion"), "admission.k8s.io/v1");
	assert_string_equal(json_text(root, "kind"), "AdmissionReview");
	assert_string_equal(json_text(root, "response.uid"), answer->uid);
	assert_true(json_true(root, "response.allowed") == answer->allowed);
	return root;
}

static void print_allowed(void **state)
{
	struct json_object *root = print(&(struct gq_review_answer){
	    .uid = "47ab9b11-c5a7-40ca-97e6-2dbda6a618ad", .allowed = true, .message = "unused"});

	(void)state;
	assert_null(json_at(root, "response.status"));
	assert_null(json_at(root, "response.warnings"));
	assert_null(json_at(root, "response.auditAnnotations"));
	json_object_put(root);
}

static void print_refused(void **state)
{
	static const char *const messages[] = {
	    "",
	    "one line",
	    "team-a may hold 8\nHolders in a-serve: llm (2).\n",
	    "\xE9\x85\x8D\xE9\xA2\x9D \xF0\x9F\x9A\x80 caf\xC3\xA9",
	    "quote \" backslash \\ tab \t bell \a del \x7f",
	    "</script><!-- {{x}} %s %n",
	};

	(void)state;
	for (size_t i = 0; i < LEN(messages); i++) {
		struct json_object *root = print(&(struct gq_review_answer){
		    .uid = "u\"\\", .code = 403, .message = messages[i]});
		assert_string_equal(json_text(root, "response.status.message"), messages[i]);
		assert_string_equal(json_text(root, "response.status.reason"), "Forbidden");
		assert_int_equal(json_object_get_int(json_at(root, "response.status.code")), 403);
		json_object_put(root);
	}
	/* what is no UTF-8 must not make the answer unreadable */
	struct json_object *root =
	    print(&(struct gq_review_answer){.uid = "u", .code = 403, .message = "a\xFFz\xC3"});
	assert_string_equal(json_text(root, "response.status.message"),
			    "a\xEF\xBF\xBDz\xEF\xBF\xBD");
	json_object_put(root);
}

static void print_warnings(void **state)
{
	static const char *const texts[] = {"one", "two\nlines"};
	struct json_object *root =
	    print(&(struct gq_review_answer){.uid = "u", .allowed = true, .warnings = {texts, 2}});
	struct json_object *list = json_at(root, "response.warnings");

	(void)state;
	assert_int_equal(json_object_array_length(list), 3);
	assert_string_equal(json_object_get_string(json_object_array_get_idx(list, 2)), "lines");
	json_object_put(root);
}

static void print_audit(void **state)
{
	static const char *const audit[] = {"tenant", "team-a", "would-refuse", "line\n\"two\""};
	struct json_object *root = print(
	    &(struct gq_review_answer){.uid = "u", .allowed = true, .audit = audit, .n_audit = 2});

	(void)state;
	struct json_object *map = json_at(root, "response.auditAnnotations");
	assert_int_equal(json_object_object_length(map), 2);
	assert_string_equal(json_text(map, "tenant"), "team-a");
	assert_string_equal(json_text(map, "would-refuse"), "line\n\"two\"");
	json_object_put(root);
}

static void print_too_large(void **state)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(64);

	(void)state;
	assert_int_equal(
	    gq_review_print(&out, &(struct gq_review_answer){.uid = "u", .message = "m"}),
	    GQ_ETOOBIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(captures),
	    cmocka_unit_test(captured_bindings),
	    cmocka_unit_test(captured_pods),
	    cmocka_unit_test(optional_fields),
	    cmocka_unit_test(malformed),
	    cmocka_unit_test(truncated),
	    cmocka_unit_test(caps),
	    cmocka_unit_test(object_strings),
	    cmocka_unit_test(print_allowed),
	    cmocka_unit_test(print_refused),
	    cmocka_unit_test(print_warnings),
	    cmocka_unit_test(print_audit),
	    cmocka_unit_test(print_too_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
