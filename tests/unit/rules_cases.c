#include "rules_cases.h"

#include <json-c/json.h>

#include "quota/field.h"
#include "quota_testing.h"

#define FLAGS (JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)
#define NAMESPACE "a-train"

/* ---- JSON ---- */

static struct json_object *parse(const char *text)
{
	struct json_object *root = json_tokener_parse(text);

	if (!root)
		fail_msg("no JSON: %s", text);
	return root;
}

static struct json_object *get(struct json_object *object, const char *key)
{
	return object ? json_object_object_get(object, key) : NULL;
}

static const char *get_text(struct json_object *object, const char *key)
{
	struct json_object *value = get(object, key);

	return value && json_object_is_type(value, json_type_string) ? json_object_get_string(value)
								     : NULL;
}

static void set_default(struct json_object *object, const char *key, struct json_object *value)
{
	if (get(object, key))
		json_object_put(value);
	else
		json_object_object_add(object, key, value);
}

static struct json_object *copy(struct json_object *from)
{
	struct json_object *to = NULL;

	assert_int_equal(json_object_deep_copy(from, &to, NULL), 0);
	return to;
}

/* text with each `what` replaced; free() */
static char *replaced(const char *text, const char *what, const char *by)
{
	struct gq_buf out = GQ_BUF_INIT(1u << 22);
	const char *at;

	for (; (at = strstr(text, what)); text = at + strlen(what)) {
		gq_buf_append(&out, text, (size_t)(at - text));
		gq_buf_puts(&out, by);
	}
	assert_int_equal(gq_buf_puts(&out, text), 0);
	return out.data;
}

/* ---- pods ---- */

static struct json_object *complete(struct json_object *pod)
{
	set_default(pod, "metadata", json_object_new_object());
	struct json_object *metadata = get(pod, "metadata");
	set_default(metadata, "name", json_object_new_string("p"));
	set_default(metadata, "namespace", json_object_new_string(NAMESPACE));
	set_default(metadata, "uid", json_object_new_string("u"));
	set_default(pod, "spec", json_object_new_object());
	set_default(get(pod, "spec"), "containers", parse("[{\"name\":\"c\"}]"));
	return pod;
}

/* As a review brings it: through the keep trees. */
static struct rules_pod decode(struct json_object *tree)
{
	struct gq_buf kept GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 22);
	struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;
	struct rules_pod ret = {0};
	struct gq_err err = {0};
	size_t len;
	const char *json = json_object_to_json_string_length(tree, FLAGS, &len);

	ret.pod = pod_of(json, len);
	assert_int_equal(prune(json, len, gq_posture_keep, &kept), 0);
	assert_int_equal(gq_field_parse(kept.data, kept.len, &root, NULL), 0);
	if (gq_posture_decode_tree(root, &ret.posture, &err))
		fail_msg("%s", err.msg);
	return ret;
}

struct rules_pod rules_pod(const char *single_quoted)
{
	char *json = json_of(single_quoted);
	struct json_object *tree = complete(parse(json));
	struct rules_pod ret = decode(tree);

	json_object_put(tree);
	free(json);
	return ret;
}

void rules_pod_done(struct rules_pod *pod)
{
	gq_pod_unref(pod->pod);
	gq_posture_unref(pod->posture);
}

/* ---- cases ---- */

static char *print_policy(const char *rule, struct json_object *tree)
{
	struct gq_buf out = GQ_BUF_INIT(64u << 10);
	struct json_object *policy = get(tree, "policy"), *tenant = get(tree, "tenant");

	gq_buf_puts(&out, "tenants:\n  - name: team\n    namespaces: [" NAMESPACE "]\n"
			  "    quota: {\"*\": {gpus: 1000}}\n");
	if (tenant)
		gq_buf_printf(&out, "    rules: %s\n",
			      json_object_to_json_string_ext(tenant, FLAGS));
	gq_buf_printf(&out, "rules: {%s: %s}\n", rule,
		      policy ? json_object_to_json_string_ext(policy, FLAGS) : "enforce");
	assert_int_equal(out.code, 0);
	return out.data;
}

static void read_ephemeral(struct rules_case *c, struct json_object *spec)
{
	struct json_object *added = get(c->tree, "ephemeral");

	if (!added)
		return;
	c->ephemeral = true;
	set_default(spec, "nodeName", json_object_new_string("cpu"));
	set_default(spec, "ephemeralContainers", json_object_new_array());
	struct json_object *all = get(spec, "ephemeralContainers");
	for (size_t i = 0; i < json_object_array_length(all); i++) {
		assert_true(c->n_had < LEN(c->had));
		c->had[c->n_had++] = get_text(json_object_array_get_idx(all, i), "name");
	}
	for (size_t i = 0; i < json_object_array_length(added); i++)
		json_object_array_add(all, copy(json_object_array_get_idx(added, i)));
}

/* tree: now the case's. */
static void read_case(const char *rule, struct json_object *tree, struct rules_case *c)
{
	struct json_object *pod = complete(get(tree, "pod"));

	assert_non_null(get(tree, "refused"));
	assert_non_null(get(tree, "sent"));
	*c = (struct rules_case){
	    .rule = rule,
	    .name = get_text(tree, "name"),
	    .refused = json_object_get_boolean(get(tree, "refused")),
	    .found = get_text(tree, "found"),
	    .sent = get_text(tree, "sent"),
	    .says = get(tree, "says"),
	    .objects = get(tree, "objects"),
	    .policy = print_policy(rule, tree),
	    .tree = tree,
	};
	if (!c->sent)
		c->sent = "";
	read_ephemeral(c, get(pod, "spec"));
	struct rules_pod decoded = decode(pod);
	c->pod = decoded.pod;
	c->posture = decoded.posture;
}

static void case_done(struct rules_case *c)
{
	gq_pod_unref(c->pod);
	gq_posture_unref(c->posture);
	free(c->policy);
	json_object_put(c->tree);
}

/* The case with $EACH replaced by one. */
static struct json_object *expand(struct json_object *tree, struct json_object *each)
{
	char name[256], inside[256];
	const char *text = json_object_to_json_string_ext(each, FLAGS);

	(void)snprintf(inside, sizeof inside, "%.*s", (int)strlen(text) - 2, text + 1);
	char *all = replaced(json_object_to_json_string_ext(tree, FLAGS), "$EACH", inside);
	struct json_object *ret = parse(all);
	free(all);
	(void)snprintf(name, sizeof name, "%s: %s", get_text(tree, "name"),
		       json_object_get_string(each));
	json_object_object_add(ret, "name", json_object_new_string(name));
	return ret;
}

static void run_case(const char *rule, struct json_object *tree,
		     void (*run)(const struct rules_case *c, void *arg), void *arg)
{
	struct rules_case c;

	read_case(rule, tree, &c);
	run(&c, arg);
	case_done(&c);
}

static struct json_object *read_cases(const char *rule)
{
	static const char *const names[][2] = {{"$NS", NAMESPACE}, {"$GPU", "a1"}, {"$CPU", "cpu"}};
	char path[512];
	size_t len;

	(void)snprintf(path, sizeof path, GQ_TEST_DATA "/rules/%s.json", rule);
	char *text = read_file(path, &len);
	for (size_t i = 0; i < LEN(names); i++) {
		char *next = replaced(text, names[i][0], names[i][1]);
		free(text);
		text = next;
	}
	struct json_object *root = parse(text);
	free(text);
	assert_string_equal(get_text(root, "rule"), rule);
	return root;
}

size_t rules_cases_each(const char *rule, void (*run)(const struct rules_case *c, void *arg),
			void *arg)
{
	struct json_object *root = read_cases(rule), *cases = get(root, "cases");
	size_t n = 0;

	for (size_t i = 0; i < json_object_array_length(cases); i++) {
		struct json_object *tree = json_object_array_get_idx(cases, i);
		struct json_object *each = get(tree, "each");
		size_t n_each = each ? json_object_array_length(each) : 1;
		for (size_t e = 0; e < n_each; e++, n++)
			run_case(rule,
				 each ? expand(tree, json_object_array_get_idx(each, e))
				      : copy(tree),
				 run, arg);
	}
	json_object_put(root);
	return n;
}

/* ---- asking ---- */

struct world *rules_world(const char *policy)
{
	struct world *w = world_new(policy);

	world_node_unsettled(w, "cpu", "", "");
	world_settle(w);
	return w;
}

static const char *path_of(struct json_object *object, char *path, size_t size)
{
	static const char *const places[][2] = {
	    {"PersistentVolume", "persistentvolumes"},
	    {"PersistentVolumeClaim", "namespaces/" NAMESPACE "/persistentvolumeclaims"},
	    {"ConfigMap", "namespaces/" NAMESPACE "/configmaps"},
	};
	const char *kind = get_text(object, "kind"), *place = "others";

	for (size_t i = 0; i < LEN(places); i++)
		if (strcmp(kind, places[i][0]) == 0)
			place = places[i][1];
	(void)snprintf(path, size, "/api/v1/%s/%s", place,
		       get_text(get(object, "metadata"), "name"));
	return path;
}

static void answer(struct gq_read *read, struct json_object *object)
{
	struct gq_buf kept = GQ_BUF_INIT(64u << 10);
	size_t len;
	const char *json = json_object_to_json_string_length(object, FLAGS, &len);

	assert_int_equal(prune(json, len, read->keep, &kept), 0);
	read->code = 0;
	read->body = kept.data;
	read->len = kept.len;
}

bool rules_answer_reads(struct gq_reads *reads, struct json_object *objects)
{
	bool any = false;
	char path[640];

	for (size_t i = 0; i < reads->n; i++) {
		struct gq_read *read = &reads->items[i];
		if (read->done)
			continue;
		any = read->done = true;
		read->code = GQ_ENOTFOUND;
		for (size_t o = 0; objects && o < json_object_array_length(objects); o++) {
			struct json_object *object = json_object_array_get_idx(objects, o);
			if (strcmp(path_of(object, path, sizeof path), read->path) == 0)
				answer(read, object);
		}
	}
	return any;
}

bool rules_answer_objects(struct gq_reads *reads, const char *objects)
{
	char *json = json_of(objects);
	struct json_object *list = parse(json);
	bool any = rules_answer_reads(reads, list);

	json_object_put(list);
	free(json);
	return any;
}

static enum gq_verdict_kind ask(struct world *w, const struct gq_pod *pod,
				const struct gq_posture *posture, struct json_object *objects,
				const struct rules_case *ephemeral)
{
	const struct gq_create create = {.pod = pod,
					 .posture = posture,
					 .request_uid = "r",
					 .user = "jane",
					 .now_ns = w->now_ns,
					 .wall_s = w->wall_s,
					 .deadline_ns = w->now_ns + 10 * S,
					 .reads = &w->reads};
	struct gq_err err = {0};

	gq_verdict_done(&w->verdict);
	gq_reads_done(&w->reads);
	for (int rounds = 0; rounds < 8; rounds++) {
		if (ephemeral)
			assert_int_equal(gq_decide_ephemeral(w->ledger, &create, ephemeral->had,
							     ephemeral->n_had, &w->verdict),
					 0);
		else if (gq_decide_create(w->ledger, &create, &w->verdict, &err))
			fail_msg("%s", err.msg);
		if (w->verdict.kind != GQ_VERDICT_READ)
			return w->verdict.kind;
		assert_true(rules_answer_reads(&w->reads, objects));
	}
	fail_msg("it reads for ever");
	return w->verdict.kind;
}

enum gq_verdict_kind rules_case_ask(struct world *w, const struct rules_case *c)
{
	return ask(w, c->pod, c->posture, c->objects, c->ephemeral ? c : NULL);
}

enum gq_verdict_kind rules_ask(struct world *w, const struct rules_pod *pod, const char *objects)
{
	char *json = objects ? json_of(objects) : NULL;
	struct json_object *list = json ? parse(json) : NULL;
	enum gq_verdict_kind kind = ask(w, pod->pod, pod->posture, list, NULL);

	json_object_put(list);
	free(json);
	return kind;
}

enum gq_verdict_kind rules_ask_pod(struct world *w, const char *single_quoted)
{
	struct rules_pod pod GQ_CLEANUP(rules_pod_done) = rules_pod(single_quoted);

	return rules_ask(w, &pod, NULL);
}

const char *rules_told(const struct gq_verdict *verdict)
{
	static char text[64u << 10];
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(sizeof text - 1);

	gq_buf_puts(&out, verdict->message.data ? verdict->message.data : "");
	for (size_t i = 0; i < verdict->n_warnings; i++)
		gq_buf_puts(&out, verdict->warnings[i].data);
	gq_buf_puts(&out, verdict->audit.data ? verdict->audit.data : "");
	assert_int_equal(out.code, 0);
	(void)snprintf(text, sizeof text, "%s", out.data ? out.data : "");
	return text;
}
