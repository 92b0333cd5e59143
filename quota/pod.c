#include <string.h>

#include "quota/arena.h"
#include "quota/field.h"
#include "quota/message.h"
#include "quota/object.h"
#include "quota/quantity.h"

/* Keeps what is decoded below and no more. */
static const struct gq_json_keep keep_requirement[] = {
    {"key", NULL}, {"operator", NULL}, {"values", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_term[] = {
    {"matchExpressions", keep_requirement}, {"matchFields", keep_requirement}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_terms[] = {{"nodeSelectorTerms", keep_term},
						 GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_node_affinity[] = {
    {"requiredDuringSchedulingIgnoredDuringExecution", keep_terms}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_affinity[] = {{"nodeAffinity", keep_node_affinity},
						    GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_toleration[] = {
    {"key", NULL}, {"operator", NULL}, {"value", NULL}, {"effect", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_resources[] = {
    {"requests", NULL}, {"limits", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_container[] = {
    {"name", NULL}, {"resources", keep_resources}, {"restartPolicy", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_claim[] = {{"name", NULL},
						 {"resourceClaimName", NULL},
						 {"resourceClaimTemplateName", NULL},
						 GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_owner[] = {
    {"kind", NULL}, {"name", NULL}, {"uid", NULL}, {"controller", NULL}, GQ_JSON_KEEP_END};
#define KEEP_ANNOTATION(key) {key, NULL},
/* Two that are not decoded: by them our own replicas find each other. */
static const struct gq_json_keep keep_annotations[] = {
    GQ_GPU_ANNOTATIONS(KEEP_ANNOTATION){GQ_BARRIER_ANNOTATION, NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_labels[] = {{GQ_LEADER_LABEL, NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_metadata[] = {{"name", NULL},
						    {"generateName", NULL},
						    {"namespace", NULL},
						    {"uid", NULL},
						    {"deletionTimestamp", NULL},
						    {"labels", keep_labels},
						    {"annotations", keep_annotations},
						    {"ownerReferences", keep_owner},
						    GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_spec[] = {{"nodeName", NULL},
						{"nodeSelector", NULL},
						{"affinity", keep_affinity},
						{"tolerations", keep_toleration},
						{"initContainers", keep_container},
						{"containers", keep_container},
						{"overhead", NULL},
						{"resourceClaims", keep_claim},
						GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_condition[] = {
    GQ_JSON_KEEP_ONLY("type", "Ready"), {"status", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_status[] = {
    {"phase", NULL}, {"conditions", keep_condition}, GQ_JSON_KEEP_END};
const struct gq_json_keep gq_pod_keep[] = {
    {"metadata", keep_metadata}, {"spec", keep_spec}, {"status", keep_status}, GQ_JSON_KEEP_END};

/* What building a pod reads and writes. */
struct build {
	struct json_object *root;
	const char *default_namespace;
	bool template;
	struct gq_arena *arena;
	struct gq_pod *pod;
	bool filling; /* the resources are read twice: to count, then to fill these */
	struct gq_gpu_ask *asks;
	size_t max_asks;
	const char **device_classes;
	size_t max_device_classes;
	struct gq_err *err;
};

/* One container, or the overhead, while its resources are read. */
struct asker {
	const char *list; /* "containers"; for the overhead, "overhead" */
	const char *name;
	enum gq_container_role role;
	struct gq_gpu_amount *amounts;
	size_t n_amounts;
	size_t max_amounts;
};

static int build_default_namespace(struct build *b)
{
	const char *text = b->default_namespace ? b->default_namespace : "";

	return GQ_TAKE(b->err, b->pod->namespace_, gq_arena_text(b->arena, text, strlen(text)));
}

static int build_template_metadata(struct build *b)
{
	b->pod->name = b->pod->generate_name = b->pod->uid = "";
	b->pod->owner = (struct gq_owner){"", "", ""};
	return build_default_namespace(b);
}

static int build_metadata(struct build *b, const struct gq_field *root)
{
	struct gq_field meta, owners, owner;
	struct gq_pod *pod = b->pod;
	size_t n;
	int code = gq_field_object(root, "metadata", &meta, b->err);

	if (!code)
		code = gq_field_text(&meta, "namespace", b->arena, &pod->namespace_, b->err);
	if (!code)
		code = gq_field_text(&meta, "name", b->arena, &pod->name, b->err);
	if (!code)
		code = gq_field_text(&meta, "generateName", b->arena, &pod->generate_name, b->err);
	if (!code)
		code = gq_field_text(&meta, "uid", b->arena, &pod->uid, b->err);
	if (!code && !*pod->name && !*pod->generate_name)
		return gq_field_fail(&meta, "name", GQ_EINVALID, b->err, "must be given");
	if (!code && !*pod->namespace_)
		code = build_default_namespace(b);
	const char *deleted;
	if (!code)
		code = gq_field_peek(&meta, "deletionTimestamp", &deleted, b->err);
	if (code)
		return code;
	pod->terminating = gq_field_has(&meta, "deletionTimestamp");

	pod->owner = (struct gq_owner){"", "", ""};
	code = gq_field_list(&meta, "ownerReferences", GQ_FIELD_ITEMS_MAX, &owners, &n, b->err);
	for (size_t i = 0; !code && i < n; i++) {
		bool controller;
		code = gq_field_item(&owners, i, &owner, b->err);
		if (!code)
			code = gq_field_bool(&owner, "controller", &controller, b->err);
		if (code || !controller)
			continue;
		code = gq_field_text(&owner, "kind", b->arena, &pod->owner.kind, b->err);
		if (!code)
			code = gq_field_text(&owner, "name", b->arena, &pod->owner.name, b->err);
		if (!code)
			code = gq_field_text(&owner, "uid", b->arena, &pod->owner.uid, b->err);
		break;
	}
	return code;
}

static int build_ready(struct build *b, const struct gq_field *status)
{
	struct gq_field list, item;
	const char *type, *value;
	size_t n;
	int code = gq_field_list(status, "conditions", GQ_FIELD_ITEMS_MAX, &list, &n, b->err);

	for (size_t i = 0; !code && i < n; i++) {
		code = gq_field_item(&list, i, &item, b->err);
		if (!code)
			code = gq_field_peek(&item, "type", &type, b->err);
		if (!code)
			code = gq_field_peek(&item, "status", &value, b->err);
		if (!code && strcmp(type, "Ready") == 0)
			b->pod->ready = strcmp(value, "True") == 0;
	}
	return code;
}

static int build_status(struct build *b, const struct gq_field *root)
{
	struct gq_field status;
	const char *phase;
	int code = gq_field_object(root, "status", &status, b->err);

	if (!code)
		code = build_ready(b, &status);
	if (!code)
		code = gq_field_peek(&status, "phase", &phase, b->err);
	if (code)
		return code;
	if (!*phase || strcmp(phase, "Pending") == 0)
		b->pod->phase = GQ_POD_PENDING;
	else if (strcmp(phase, "Succeeded") == 0)
		b->pod->phase = GQ_POD_SUCCEEDED;
	else if (strcmp(phase, "Failed") == 0)
		b->pod->phase = GQ_POD_FAILED;
	else
		b->pod->phase = GQ_POD_RUNNING; /* Unknown, and what a later version may add */
	return 0;
}

static int build_requirements(struct build *b, const struct gq_field *term, const char *key,
			      const struct gq_requirement **ret_requirements, size_t *ret_n)
{
	static const char *const operators[] = {
	    [GQ_OP_IN] = "In",         [GQ_OP_NOT_IN] = "NotIn",
	    [GQ_OP_EXISTS] = "Exists", [GQ_OP_DOES_NOT_EXIST] = "DoesNotExist",
	    [GQ_OP_GT] = "Gt",         [GQ_OP_LT] = "Lt"};
	struct gq_field list, item;
	struct gq_requirement *requirements;
	const char *operator;
	size_t n;
	int code = gq_field_list(term, key, GQ_FIELD_ITEMS_MAX, &list, &n, b->err);

	if (!code)
		code = GQ_TAKE(b->err, requirements,
			       GQ_ARENA_ARRAY(b->arena, struct gq_requirement, n));
	if (code)
		return code;
	for (size_t i = 0; i < n; i++) {
		size_t op = 0;
		code = gq_field_item(&list, i, &item, b->err);
		if (!code)
			code = gq_field_text(&item, "key", b->arena, &requirements[i].key, b->err);
		if (!code)
			code = gq_field_peek(&item, "operator", &operator, b->err);
		if (!code)
			code = gq_field_texts(&item, "values", b->arena, &requirements[i].values,
					      &requirements[i].n_values, b->err);
		if (code)
			return code;
		while (op < sizeof operators / sizeof *operators &&
		       strcmp(operator, operators[op]) != 0)
			op++;
		if (op == sizeof operators / sizeof *operators)
			return gq_field_fail(&item, "operator", GQ_EINVALID, b->err,
					     "unknown operator \"%.40s\"", operator);
		requirements[i].op = (enum gq_selector_op)op;
	}
	*ret_requirements = requirements;
	*ret_n = n;
	return 0;
}

static int build_affinity(struct build *b, const struct gq_field *spec)
{
	struct gq_field affinity, node, required, list, item;
	struct gq_node_term *terms;
	size_t n;
	int code = gq_field_object(spec, "affinity", &affinity, b->err);

	if (!code)
		code = gq_field_object(&affinity, "nodeAffinity", &node, b->err);
	if (!code)
		code = gq_field_object(&node, "requiredDuringSchedulingIgnoredDuringExecution",
				       &required, b->err);
	if (!code)
		code = gq_field_list(&required, "nodeSelectorTerms", GQ_FIELD_TERMS_MAX, &list, &n,
				     b->err);
	if (!code)
		code = GQ_TAKE(b->err, terms, GQ_ARENA_ARRAY(b->arena, struct gq_node_term, n));
	for (size_t i = 0; !code && i < n; i++) {
		code = gq_field_item(&list, i, &item, b->err);
		if (!code)
			code = build_requirements(b, &item, "matchExpressions",
						  &terms[i].expressions, &terms[i].n_expressions);
		if (!code)
			code = build_requirements(b, &item, "matchFields", &terms[i].fields,
						  &terms[i].n_fields);
	}
	if (code)
		return code;
	b->pod->has_affinity = required.value != NULL;
	b->pod->affinity = terms;
	b->pod->n_affinity = n;
	return 0;
}

static int build_toleration(struct build *b, const struct gq_field *item,
			    struct gq_toleration *toleration)
{
	const char *operator;
	int code = gq_field_peek(item, "operator", &operator, b->err);

	if (!code)
		code = gq_field_text(item, "key", b->arena, &toleration->key, b->err);
	if (!code)
		code = gq_field_text(item, "value", b->arena, &toleration->value, b->err);
	if (!code)
		code = gq_field_text(item, "effect", b->arena, &toleration->effect, b->err);
	if (code)
		return code;
	/* Gt and Lt compare the taint's value: taken as any value, the pod may land on more nodes
	 * than it can, and so counts in more limits rather than in fewer */
	if (strcmp(operator, "Exists") == 0 || strcmp(operator, "Gt") == 0 ||
	    strcmp(operator, "Lt") == 0)
		toleration->exists = true;
	else if (*operator&& strcmp(operator, "Equal") != 0)
		return gq_field_fail(item, "operator", GQ_EINVALID, b->err,
				     "unknown operator \"%.40s\"", operator);
	return 0;
}

static int build_tolerations(struct build *b, const struct gq_field *spec)
{
	struct gq_field list, item;
	struct gq_toleration *tolerations;
	const char *key;
	size_t n;
	size_t kept = 0;
	int code = gq_field_list(spec, "tolerations", GQ_FIELD_ITEMS_MAX, &list, &n, b->err);

	for (size_t i = 0; !code && i < n; i++) {
		code = gq_field_item(&list, i, &item, b->err);
		if (!code)
			code = gq_field_peek(&item, "key", &key, b->err);
		if (!code && !gq_taint_is_passing(key))
			kept++;
	}
	if (!code)
		code = GQ_TAKE(b->err, tolerations,
			       GQ_ARENA_ARRAY(b->arena, struct gq_toleration, kept));
	kept = 0;
	for (size_t i = 0; !code && i < n; i++) {
		code = gq_field_item(&list, i, &item, b->err);
		if (!code)
			code = gq_field_peek(&item, "key", &key, b->err);
		if (!code && !gq_taint_is_passing(key))
			code = build_toleration(b, &item, &tolerations[kept++]);
	}
	if (code)
		return code;
	b->pod->tolerations = tolerations;
	b->pod->n_tolerations = kept;
	return 0;
}

/* Remembers the first problem. Strings are copied but for detail, which is static. */
static int set_problem(struct build *b, enum gq_pod_problem_kind kind, const struct asker *asker,
		       const char *name, const char *value, struct gq_phrase detail)
{
	struct gq_pod_problem *problem = &b->pod->problem;
	char *container;
	int code;

	if (problem->kind != GQ_PROBLEM_NONE)
		return 0;
	code = GQ_TAKE(b->err, problem->name, gq_arena_text(b->arena, name, strlen(name)));
	if (!code)
		code =
		    GQ_TAKE(b->err, problem->value, gq_arena_text(b->arena, value, strlen(value)));
	if (!code && asker && asker->role != GQ_ROLE_OVERHEAD) {
		size_t list_len = strlen(asker->list), name_len = strlen(asker->name);
		code = GQ_TAKE(b->err, container,
			       gq_arena_array(b->arena, list_len + 1 + name_len + 1, 1));
		if (code)
			return code;
		memcpy(container, asker->list, list_len);
		container[list_len] = '/';
		memcpy(container + list_len + 1, asker->name, name_len);
		problem->container = container;
	} else if (asker) {
		problem->container = asker->list;
	}
	problem->detail = detail;
	problem->kind = kind;
	return code;
}

static int64_t clamp_amount(enum gq_gpu_meaning meaning, int64_t value)
{
	bool percent = meaning == GQ_GPU_MEMORY_PERCENT || meaning == GQ_GPU_CORES_PERCENT;

	return percent && value > 100 ? 100 : value;
}

/* One entry of requests, limits or overhead. */
static int build_resource(struct build *b, struct asker *asker, const struct gq_field *map,
			  const char *name, struct json_object *json_value)
{
	struct gq_phrase detail = GQ_PHRASE_NAME("");
	const char *text;
	int64_t value = 0;
	enum gq_exactness exact = GQ_EXACT;
	enum gq_gpu_meaning meaning = gq_gpu_resource_meaning(name, &detail);

	if (meaning == GQ_GPU_NONE)
		return 0;
	int code = gq_field_quantity(map, name, json_value, &text, b->err);
	if (code)
		return code;
	int bad = gq_quantity_units(text, strlen(text), 1, &value, &exact, NULL);
	if (!bad && value == 0)
		return 0; /* asks for nothing */
	if (meaning == GQ_GPU_NOT_SUPPORTED)
		return set_problem(b, GQ_PROBLEM_UNSUPPORTED_RESOURCE, asker, name, text, detail);
	if (bad == GQ_ETOOBIG)
		return set_problem(b, GQ_PROBLEM_BAD_QUANTITY, asker, name, text,
				   GQ_PHRASE_MESSAGE(GQ_MSG_QUANTITY_LARGE));
	if (bad)
		return set_problem(b, GQ_PROBLEM_BAD_QUANTITY, asker, name, text,
				   GQ_PHRASE_MESSAGE(text[0] == '-' ? GQ_MSG_QUANTITY_NEGATIVE
								    : GQ_MSG_QUANTITY_NONE));
	if (exact == GQ_ROUNDED)
		return set_problem(b, GQ_PROBLEM_BAD_QUANTITY, asker, name, text,
				   GQ_PHRASE_MESSAGE(GQ_MSG_QUANTITY_FRACTION));
	if (meaning == GQ_GPU_DEVICE_CLASS)
		return GQ_TAKE(b->err, b->device_classes[b->pod->n_device_classes++],
			       gq_arena_text(b->arena, detail.name, strlen(detail.name)));
	asker->amounts[asker->n_amounts++] =
	    (struct gq_gpu_amount){.resource = gq_gpu_static_name(name),
				   .meaning = meaning,
				   .value = clamp_amount(meaning, value)};
	return 0;
}

/* Calls for each entry of map that is not in unless_in (may be NULL). */
static int each_resource(struct build *b, const struct gq_field *map,
			 const struct gq_field *unless_in,
			 int (*fn)(struct build *b, struct asker *asker, const struct gq_field *map,
				   const char *name, struct json_object *value),
			 struct asker *asker)
{
	if (!map->value)
		return 0;
	json_object_object_foreach(map->value, name, value)
	{
		if (unless_in && unless_in->value &&
		    json_object_object_get_ex(unless_in->value, name, NULL))
			continue;
		int code = fn(b, asker, map, name, value);
		if (code)
			return code;
	}
	return 0;
}

static int count_resource(struct build *b, struct asker *asker, const struct gq_field *map,
			  const char *name, struct json_object *value)
{
	enum gq_gpu_meaning meaning = gq_gpu_resource_meaning(name, NULL);

	(void)map;
	(void)value;
	if (meaning == GQ_GPU_DEVICE_CLASS)
		b->max_device_classes++;
	else if (meaning != GQ_GPU_NONE && meaning != GQ_GPU_NOT_SUPPORTED)
		asker->max_amounts++;
	return 0;
}

/* requests and limits, or the overhead and no limits. On the first round room is counted, on the
 * second it is filled. */
static int read_asker(struct build *b, struct asker *asker, const struct gq_field *requests,
		      const struct gq_field *limits)
{
	int code = each_resource(b, requests, NULL, count_resource, asker);

	if (!code && limits)
		code = each_resource(b, limits, requests, count_resource, asker);
	if (!b->filling) {
		b->max_asks += asker->max_amounts > 0;
		return code;
	}
	if (!code)
		code = GQ_TAKE(b->err, asker->amounts,
			       GQ_ARENA_ARRAY(b->arena, struct gq_gpu_amount, asker->max_amounts));
	if (!code)
		code = each_resource(b, requests, NULL, build_resource, asker);
	if (!code && limits)
		code = each_resource(b, limits, requests, build_resource, asker);
	if (code || !asker->n_amounts)
		return code;
	struct gq_gpu_ask *ask = &b->asks[b->pod->n_asks++];
	ask->role = asker->role;
	ask->amounts = asker->amounts;
	ask->n_amounts = asker->n_amounts;
	return GQ_TAKE(b->err, ask->container,
		       gq_arena_text(b->arena, asker->name, strlen(asker->name)));
}

static int read_containers(struct build *b, const struct gq_field *spec, const char *key, bool init)
{
	struct gq_field list, item, resources, requests, limits;
	const char *restart;
	size_t n, ignored;
	int code = gq_field_list(spec, key, GQ_FIELD_ITEMS_MAX, &list, &n, b->err);

	for (size_t i = 0; !code && i < n; i++) {
		struct asker asker = {.list = key, .role = init ? GQ_ROLE_INIT : GQ_ROLE_MAIN};
		code = gq_field_item(&list, i, &item, b->err);
		if (!code)
			code = gq_field_peek(&item, "name", &asker.name, b->err);
		if (!code)
			code = gq_field_peek(&item, "restartPolicy", &restart, b->err);
		if (!code)
			code = gq_field_object(&item, "resources", &resources, b->err);
		if (!code)
			code = gq_field_map(&resources, "requests", GQ_FIELD_ITEMS_MAX, &requests,
					    &ignored, b->err);
		if (!code)
			code = gq_field_map(&resources, "limits", GQ_FIELD_ITEMS_MAX, &limits,
					    &ignored, b->err);
		if (code)
			return code;
		if (init && strcmp(restart, "Always") == 0)
			asker.role = GQ_ROLE_SIDECAR;
		code = read_asker(b, &asker, &requests, &limits);
	}
	return code;
}

static int read_askers(struct build *b, const struct gq_field *spec)
{
	struct asker asker = {.list = "overhead", .name = "", .role = GQ_ROLE_OVERHEAD};
	struct gq_field overhead;
	size_t n;
	int code = read_containers(b, spec, "initContainers", true);

	if (!code)
		code = read_containers(b, spec, "containers", false);
	if (!code)
		code = gq_field_map(spec, "overhead", GQ_FIELD_ITEMS_MAX, &overhead, &n, b->err);
	return code ? code : read_asker(b, &asker, &overhead, NULL);
}

static int build_asks(struct build *b, const struct gq_field *spec)
{
	int code = read_askers(b, spec);

	if (!code)
		code = GQ_TAKE(b->err, b->asks,
			       GQ_ARENA_ARRAY(b->arena, struct gq_gpu_ask, b->max_asks));
	if (!code)
		code = GQ_TAKE(b->err, b->device_classes,
			       GQ_ARENA_ARRAY(b->arena, const char *, b->max_device_classes));
	b->filling = true;
	if (!code)
		code = read_askers(b, spec);
	b->pod->asks = b->asks;
	b->pod->device_classes = b->device_classes;
	return code;
}

static int build_annotations(struct build *b, const struct gq_field *root)
{
	struct gq_field meta, map;
	const char *text;
	size_t n;
	int code = gq_field_object(root, "metadata", &meta, b->err);

	if (!code)
		code = gq_field_map(&meta, "annotations", GQ_FIELD_ITEMS_MAX, &map, &n, b->err);
	if (code || !map.value)
		return code;
	json_object_object_foreach(map.value, key, value)
	{
		struct gq_phrase detail = GQ_PHRASE_NAME("");
		if (gq_gpu_annotation_meaning(key, &detail) == GQ_GPU_NONE)
			continue;
		(void)value;
		code = gq_field_peek(&map, key, &text, b->err);
		if (!code)
			code = set_problem(b, GQ_PROBLEM_UNSUPPORTED_ANNOTATION, NULL, key, text,
					   detail);
		if (code)
			return code;
	}
	return 0;
}

static int build_claims(struct build *b, const struct gq_field *spec)
{
	struct gq_field list, item;
	struct gq_pod_claim *claims = NULL;
	size_t n;
	int code = gq_field_list(spec, "resourceClaims", GQ_FIELD_ITEMS_MAX, &list, &n, b->err);

	if (!code)
		code = GQ_TAKE(b->err, claims, GQ_ARENA_ARRAY(b->arena, struct gq_pod_claim, n));
	for (size_t i = 0; !code && i < n; i++) {
		struct gq_pod_claim *claim = &claims[i];
		code = gq_field_item(&list, i, &item, b->err);
		if (!code)
			code = gq_field_text(&item, "name", b->arena, &claim->name, b->err);
		if (!code)
			code = gq_field_text(&item, "resourceClaimName", b->arena, &claim->claim,
					     b->err);
		if (!code)
			code = gq_field_text(&item, "resourceClaimTemplateName", b->arena,
					     &claim->template, b->err);
	}
	if (code)
		return code;
	b->pod->claims = claims;
	b->pod->n_claims = n;
	return 0;
}

static int build_pod(void *arg, struct gq_arena *arena, void **ret_object, struct gq_err *err)
{
	struct build again = *(const struct build *)arg, *b = &again;
	struct gq_field root = {.value = b->root}, spec;

	b->arena = arena;
	b->err = err;
	int code = GQ_TAKE(err, b->pod, GQ_ARENA_ARRAY(arena, struct gq_pod, 1));
	if (code)
		return code;
	b->pod->problem = (struct gq_pod_problem){GQ_PROBLEM_NONE, "", "", "", GQ_PHRASE_NAME("")};
	code = b->template ? build_template_metadata(b) : build_metadata(b, &root);
	if (!code && !b->template)
		code = build_status(b, &root);
	if (!code)
		code = gq_field_object(&root, "spec", &spec, err);
	if (!code)
		code = gq_field_text(&spec, "nodeName", arena, &b->pod->node_name, err);
	if (!code)
		code = gq_field_labels(&spec, "nodeSelector", arena, &b->pod->node_selector,
				       &b->pod->n_node_selector, err);
	if (!code)
		code = build_affinity(b, &spec);
	if (!code)
		code = build_tolerations(b, &spec);
	if (!code)
		code = build_asks(b, &spec);
	if (!code)
		code = build_annotations(b, &root);
	if (!code)
		code = build_claims(b, &spec);
	*ret_object = b->pod;
	return code;
}

static int decode(struct build *b, struct gq_pod **ret_pod, struct gq_err *err)
{
	void *object;
	int code = gq_arena_build(build_pod, b, &object, err);

	if (code)
		return code;
	*ret_pod = object;
	return 0;
}

int gq_pod_decode_tree(struct json_object *root, const char *default_namespace,
		       struct gq_pod **ret_pod, struct gq_err *err)
{
	struct build b = {.root = root, .default_namespace = default_namespace};

	return decode(&b, ret_pod, err);
}

int gq_pod_template_decode_tree(struct json_object *root, const char *namespace_,
				struct gq_pod **ret_pod, struct gq_err *err)
{
	struct build b = {.root = root, .default_namespace = namespace_, .template = true};

	return decode(&b, ret_pod, err);
}

int gq_pod_decode(const char *json, size_t len, const char *default_namespace,
		  struct gq_pod **ret_pod, struct gq_err *err)
{
	struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;
	int code = gq_field_parse(json, len, &root, err);

	return code ? code : gq_pod_decode_tree(root, default_namespace, ret_pod, err);
}

struct gq_pod *gq_pod_ref(const struct gq_pod *pod)
{
	gq_counted_ref(pod);
	return (struct gq_pod *)(uintptr_t)pod;
}

void gq_pod_unref(const struct gq_pod *pod)
{
	gq_counted_unref(pod);
}
