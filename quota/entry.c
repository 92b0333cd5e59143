#include "quota/entry.h"

#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"
#include "quota/field.h"

/* What U+FFFD takes, which stands for a byte that is not UTF-8. */
#define REPLACEMENT_BYTES 3

/* What is wrong with what an entry goes by; NULL: nothing. */
static const char *find_fault(const struct gq_pod *pod, const char *bind_node)
{
	if (!gq_object_name_ok(pod->namespace_))
		return "metadata.namespace: no namespace can have such a name";
	if (!gq_object_name_ok(pod->name))
		return "metadata.name: no pod can have such a name";
	if (!*pod->uid)
		return "metadata.uid: must be given";
	if (strlen(pod->uid) > GQ_UID_MAX_BYTES)
		return "metadata.uid: is too long";
	if (*bind_node && !gq_object_name_ok(bind_node))
		return "bindNode: no node can have such a name";
	return NULL;
}

/* The comma before a member or an item that is not the first. */
static void separate(struct gq_buf *out)
{
	char last = out->len ? out->data[out->len - 1] : '{';

	if (last != '{' && last != '[')
		gq_buf_putc(out, ',');
}

/* Opens a member: its key, and what its value begins with. */
static void print_key(struct gq_buf *out, const char *key, const char *begin)
{
	separate(out);
	gq_buf_putc(out, '"');
	gq_buf_puts(out, key);
	gq_buf_puts(out, "\":");
	gq_buf_puts(out, begin);
}

static void print_string(struct gq_buf *out, const char *text)
{
	gq_buf_json_string(out, text, strlen(text));
}

/* A member that is left out when it is "". */
static void print_text(struct gq_buf *out, const char *key, const char *text)
{
	if (!*text)
		return;
	print_key(out, key, "");
	print_string(out, text);
}

static void print_metadata(struct gq_buf *out, const struct gq_pod *pod)
{
	const struct gq_owner *owner = &pod->owner;

	print_key(out, "metadata", "{");
	print_text(out, "namespace", pod->namespace_);
	print_text(out, "name", pod->name);
	print_text(out, "uid", pod->uid);
	if (*owner->kind || *owner->name || *owner->uid) {
		print_key(out, "ownerReferences", "[{");
		print_text(out, "kind", owner->kind);
		print_text(out, "name", owner->name);
		print_text(out, "uid", owner->uid);
		print_key(out, "controller", "true}]");
	}
	gq_buf_putc(out, '}');
}

static void print_selector(struct gq_buf *out, const struct gq_pod *pod)
{
	if (!pod->n_node_selector)
		return;
	print_key(out, "nodeSelector", "{");
	for (size_t i = 0; i < pod->n_node_selector; i++) {
		separate(out);
		print_string(out, pod->node_selector[i].key);
		gq_buf_putc(out, ':');
		print_string(out, pod->node_selector[i].value);
	}
	gq_buf_putc(out, '}');
}

static void print_requirements(struct gq_buf *out, const char *key,
			       const struct gq_requirement *requirements, size_t n)
{
	static const char *const operators[] = {
	    [GQ_OP_IN] = "In",         [GQ_OP_NOT_IN] = "NotIn",
	    [GQ_OP_EXISTS] = "Exists", [GQ_OP_DOES_NOT_EXIST] = "DoesNotExist",
	    [GQ_OP_GT] = "Gt",         [GQ_OP_LT] = "Lt"};

	if (!n)
		return;
	print_key(out, key, "[");
	for (size_t i = 0; i < n; i++) {
		const struct gq_requirement *requirement = &requirements[i];
		separate(out);
		gq_buf_putc(out, '{');
		print_text(out, "key", requirement->key);
		print_text(out, "operator", operators[requirement->op]);
		if (requirement->n_values)
			print_key(out, "values", "[");
		for (size_t k = 0; k < requirement->n_values; k++) {
			separate(out);
			print_string(out, requirement->values[k]);
		}
		gq_buf_puts(out, requirement->n_values ? "]}" : "}");
	}
	gq_buf_putc(out, ']');
}

static void print_affinity(struct gq_buf *out, const struct gq_pod *pod)
{
	if (!pod->has_affinity)
		return;
	print_key(out, "affinity",
		  "{\"nodeAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":{");
	if (pod->n_affinity)
		print_key(out, "nodeSelectorTerms", "[");
	for (size_t i = 0; i < pod->n_affinity; i++) {
		const struct gq_node_term *term = &pod->affinity[i];
		separate(out);
		gq_buf_putc(out, '{');
		print_requirements(out, "matchExpressions", term->expressions, term->n_expressions);
		print_requirements(out, "matchFields", term->fields, term->n_fields);
		gq_buf_putc(out, '}');
	}
	gq_buf_puts(out, pod->n_affinity ? "]}}}" : "}}}");
}

static void print_tolerations(struct gq_buf *out, const struct gq_pod *pod)
{
	if (!pod->n_tolerations)
		return;
	print_key(out, "tolerations", "[");
	for (size_t i = 0; i < pod->n_tolerations; i++) {
		const struct gq_toleration *toleration = &pod->tolerations[i];
		separate(out);
		gq_buf_putc(out, '{');
		print_text(out, "key", toleration->key);
		print_text(out, "operator", toleration->exists ? "Exists" : "");
		print_text(out, "value", toleration->value);
		print_text(out, "effect", toleration->effect);
		gq_buf_putc(out, '}');
	}
	gq_buf_putc(out, ']');
}

static void print_amounts(struct gq_buf *out, const char *key, const struct gq_gpu_ask *ask)
{
	print_key(out, key, "{");
	for (size_t i = 0; i < ask->n_amounts; i++) {
		separate(out);
		print_string(out, ask->amounts[i].resource);
		gq_buf_printf(out, ":%" PRId64, ask->amounts[i].value);
	}
	gq_buf_putc(out, '}');
}

/* The containers of one list, in their order: those whose role is one of two. */
static void print_containers(struct gq_buf *out, const struct gq_pod *pod, const char *key,
			     enum gq_container_role role, enum gq_container_role or_role)
{
	bool any = false;

	for (size_t i = 0; i < pod->n_asks; i++) {
		const struct gq_gpu_ask *ask = &pod->asks[i];
		if (ask->role != role && ask->role != or_role)
			continue;
		if (!any)
			print_key(out, key, "[");
		any = true;
		separate(out);
		gq_buf_putc(out, '{');
		print_key(out, "resources", "{");
		print_amounts(out, "requests", ask);
		gq_buf_putc(out, '}');
		print_text(out, "restartPolicy", ask->role == GQ_ROLE_SIDECAR ? "Always" : "");
		gq_buf_putc(out, '}');
	}
	if (any)
		gq_buf_putc(out, ']');
}

static void print_spec(struct gq_buf *out, const struct gq_pod *pod)
{
	print_key(out, "spec", "{");
	print_text(out, "nodeName", pod->node_name);
	print_selector(out, pod);
	print_affinity(out, pod);
	print_tolerations(out, pod);
	print_containers(out, pod, "initContainers", GQ_ROLE_INIT, GQ_ROLE_SIDECAR);
	print_containers(out, pod, "containers", GQ_ROLE_MAIN, GQ_ROLE_MAIN);
	for (size_t i = 0; i < pod->n_asks; i++)
		if (pod->asks[i].role == GQ_ROLE_OVERHEAD)
			print_amounts(out, "overhead", &pod->asks[i]);
	gq_buf_putc(out, '}');
}

static void print_user(struct gq_buf *out, const char *user)
{
	size_t len = strlen(user), kept = 0, bytes = 0;

	while (kept < len) {
		size_t width = gq_utf8_width(user + kept, len - kept);
		bytes += width ? width : REPLACEMENT_BYTES;
		if (bytes > GQ_ENTRY_USER_MAX_BYTES)
			break;
		kept += width ? width : 1;
	}
	if (!kept)
		return;
	print_key(out, "user", "");
	gq_buf_json_string(out, user, kept);
}

int gq_entry_print(struct gq_buf *out, const struct gq_pod *pod, const char *user,
		   const char *bind_node)
{
	size_t begin = out->len, max = out->max;

	if (!bind_node)
		bind_node = "";
	if (find_fault(pod, bind_node))
		return GQ_EINVALID;
	if (max - begin > GQ_ENTRY_MAX_BYTES)
		out->max = begin + GQ_ENTRY_MAX_BYTES;
	gq_buf_putc(out, '{');
	print_metadata(out, pod);
	print_spec(out, pod);
	print_user(out, user ? user : "");
	print_text(out, "bindNode", bind_node);
	gq_buf_putc(out, '}');
	out->max = max;
	if (out->code && out->data) {
		out->len = begin;
		out->data[begin] = '\0';
	}
	return out->code;
}

static int copy_text(const struct gq_field *root, const char *key, char **ret_text,
		     struct gq_err *err)
{
	const char *text;
	int code = gq_field_peek(root, key, &text, err);

	return code ? code : GQ_TAKE(err, *ret_text, strdup(text));
}

static int check(const struct gq_entry *entry, struct gq_err *err)
{
	const struct gq_pod *pod = entry->pod;
	const char *fault = find_fault(pod, entry->bind_node);

	if (fault)
		return gq_fail(err, GQ_EINVALID, "%s", fault);
	if (strlen(entry->user) > GQ_ENTRY_USER_MAX_BYTES)
		return gq_fail(err, GQ_EINVALID, "user: is too long");
	if (pod->problem.kind != GQ_PROBLEM_NONE || pod->n_claims || pod->n_device_classes)
		return gq_fail(err, GQ_EINVALID, "it asks for what can't be counted here");
	if (pod->terminating || pod->phase != GQ_POD_PENDING)
		return gq_fail(err, GQ_EINVALID, "its pod is past its start");
	return 0;
}

int gq_entry_decode(const char *line, size_t len, struct gq_entry *ret_entry, struct gq_err *err)
{
	struct gq_buf sound GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_ENTRY_MAX_BYTES);
	struct gq_entry entry GQ_CLEANUP(gq_entry_done) = {0};
	struct json_object *tree GQ_CLEANUP(gq_cleanup_json) = NULL;

	if (len > GQ_ENTRY_MAX_BYTES)
		return gq_fail(err, GQ_ETOOBIG, "the entry is longer than %u bytes",
			       GQ_ENTRY_MAX_BYTES);
	int code = gq_json_prune(line, len, NULL, &sound, err);
	if (!code)
		code = gq_field_parse(sound.data, sound.len, &tree, err);
	const struct gq_field root = {.value = tree};
	if (!code)
		code = copy_text(&root, "user", &entry.user, err);
	if (!code)
		code = copy_text(&root, "bindNode", &entry.bind_node, err);
	if (!code)
		code = gq_pod_decode_tree(tree, NULL, &entry.pod, err);
	if (!code)
		code = check(&entry, err);
	if (code)
		return code;
	*ret_entry = entry;
	entry = (struct gq_entry){0};
	return 0;
}

void gq_entry_done(struct gq_entry *entry)
{
	gq_pod_unref(entry->pod);
	free(entry->user);
	free(entry->bind_node);
	*entry = (struct gq_entry){0};
}
