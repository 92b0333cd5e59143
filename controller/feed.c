#include "controller/feed.h"

#include <json-c/json.h>
#include <string.h>

#include "quota/field.h"

static int64_t now(const struct gq_feed *feed)
{
	return gq_clock_mono_ns(feed->clock);
}

/* The events that are alike for every collection. Returns whether this was one. */
static bool list_event(const struct gq_feed *feed, enum gq_collection collection,
		       const struct gq_event *event, int *ret_code, struct gq_err *err)
{
	*ret_code = 0;
	if (event->kind == GQ_EVENT_LIST_BEGIN)
		gq_ledger_list_begin(feed->ledger, collection);
	else if (event->kind == GQ_EVENT_LIST_END)
		*ret_code = gq_ledger_list_end(feed->ledger, collection, now(feed), err);
	else if (event->kind == GQ_EVENT_IDLE && collection == GQ_NODES)
		*ret_code = gq_ledger_nodes_settle(feed->ledger, now(feed), err);
	else
		return event->kind == GQ_EVENT_IDLE;
	return true;
}

/* What the ledger knows a deleted object by. The rest of its last state may be beyond us and must
 * not keep it alive. *ret_id lives as long as *ret_root. */
static int deleted_id(const struct gq_event *event, const char *key, struct json_object **ret_root,
		      const char **ret_id, struct gq_err *err)
{
	struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;
	struct gq_field top = {0}, metadata;
	const char *id;
	int code = gq_field_parse(event->json, event->len, &root, err);

	top.value = root;
	if (!code)
		code = gq_field_object(&top, "metadata", &metadata, err);
	if (!code)
		code = gq_field_peek(&metadata, key, &id, err);
	if (code)
		return code;
	if (!id[0])
		return gq_fail(err, GQ_EINVALID, "metadata.%s is missing", key);
	*ret_id = id;
	*ret_root = GQ_STEAL(root);
	return 0;
}

/* A pod of which something can't be read: an operator that is newer than this program, or more
 * owners than anybody has. It holds its GPUs all the same, so it is read without the fields of that
 * kind, as if it might go anywhere that its node selector allows. */
static int decode_less(const char *json, size_t len, struct gq_pod **ret_pod)
{
	struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;
	struct json_object *metadata = NULL, *spec = NULL, *status = NULL;
	struct json_object *anywhere GQ_CLEANUP(gq_cleanup_json) =
	    json_tokener_parse("[{\"operator\":\"Exists\"}]");
	int code = gq_field_parse(json, len, &root, NULL);

	if (code)
		return code;
	if (json_object_object_get_ex(root, "metadata", &metadata) &&
	    json_object_is_type(metadata, json_type_object))
		json_object_object_del(metadata, "ownerReferences");
	if (json_object_object_get_ex(root, "status", &status) &&
	    json_object_is_type(status, json_type_object))
		json_object_object_del(status, "conditions");
	if (json_object_object_get_ex(root, "spec", &spec) &&
	    json_object_is_type(spec, json_type_object)) {
		json_object_object_del(spec, "affinity");
		if (!anywhere || json_object_object_add(spec, "tolerations", anywhere))
			return GQ_ENOMEM;
		anywhere = NULL;
	}
	return gq_pod_decode_tree(root, NULL, ret_pod, NULL);
}

int gq_feed_pod_decode(const char *json, size_t len, struct gq_pod **ret_pod,
		       struct gq_err *ret_why, struct gq_err *err)
{
	struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = NULL;
	int whole = gq_pod_decode(json, len, NULL, &pod, ret_why);
	int code = whole;

	if (whole == GQ_EINVALID || whole == GQ_ETOOBIG)
		code = decode_less(json, len, &pod);
	if (code == GQ_ENOMEM)
		return gq_fail(err, code, "out of memory for a pod");
	if (code)
		return gq_fail(err, whole, "%s", ret_why->msg);
	if (!pod->uid[0])
		return gq_fail(err, GQ_EINVALID, "metadata.uid is missing");
	ret_why->code = whole;
	*ret_pod = GQ_STEAL(pod);
	return 0;
}

static int pod_exists(const struct gq_feed *feed, const struct gq_event *event, struct gq_err *err)
{
	struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = NULL;
	struct gq_err why = {0};
	int code = gq_feed_pod_decode(event->json, event->len, &pod, &why, err);

	if (code)
		return code;
	int whole = why.code;
	code = gq_ledger_pod_seen(feed->ledger, pod, now(feed), err);
	if (code || !whole)
		return code;
	return gq_fail(err, whole, "pod %s/%s is counted, though not understood: %s",
		       pod->namespace_, pod->name, why.msg);
}

static int tell_own_pod(const struct gq_feed *feed, const struct gq_event *event,
			struct gq_err *err)
{
	struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;
	struct gq_field top = {0}, metadata, labels, annotations;
	const char *namespace_, *name, *leader, *barrier;
	int code = gq_field_parse(event->json, event->len, &root, err);

	top.value = root;
	if (!code)
		code = gq_field_object(&top, "metadata", &metadata, err);
	if (!code)
		code = gq_field_peek(&metadata, "namespace", &namespace_, err);
	if (code || strcmp(namespace_, feed->own_namespace) != 0)
		return code;
	code = gq_field_peek(&metadata, "name", &name, err);
	if (!code)
		code = gq_field_object(&metadata, "labels", &labels, err);
	if (!code)
		code = gq_field_peek(&labels, GQ_LEADER_LABEL, &leader, err);
	if (!code)
		code = gq_field_object(&metadata, "annotations", &annotations, err);
	if (!code)
		code = gq_field_peek(&annotations, GQ_BARRIER_ANNOTATION, &barrier, err);
	if (!code)
		feed->on_own_pod(feed->arg, name, leader, barrier, event->kind == GQ_EVENT_DELETE,
				 feed->listing);
	return code;
}

static int pod_gone(const struct gq_feed *feed, const struct gq_event *event, struct gq_err *err)
{
	struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;
	const char *uid;
	int code = deleted_id(event, "uid", &root, &uid, err);

	if (!code)
		gq_ledger_pod_gone(feed->ledger, uid, now(feed));
	return code;
}

int gq_feed_pods(void *arg, const struct gq_event *event, struct gq_err *err)
{
	struct gq_feed *feed = arg;
	int code;

	if (list_event(feed, GQ_PODS, event, &code, err)) {
		if (event->kind != GQ_EVENT_IDLE)
			feed->listing = event->kind == GQ_EVENT_LIST_BEGIN;
		if (!code && event->kind == GQ_EVENT_LIST_END && feed->on_pods_listed)
			feed->on_pods_listed(feed->arg, event->begun_ns);
		return code;
	}
	code = event->kind == GQ_EVENT_UPSERT ? pod_exists(feed, event, err)
					      : pod_gone(feed, event, err);
	/* the few of our own are parsed once more, also when the ledger made nothing of them */
	if (code == GQ_ENOMEM || !feed->own_namespace || !strstr(event->json, feed->own_namespace))
		return code;
	int told = tell_own_pod(feed, event, code ? NULL : err);
	return code ? code : told;
}

int gq_feed_nodes(void *arg, const struct gq_event *event, struct gq_err *err)
{
	const struct gq_feed *feed = arg;
	struct gq_node *node GQ_CLEANUP(gq_cleanup_node) = NULL;
	struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;
	const char *name;
	int code;

	if (list_event(feed, GQ_NODES, event, &code, err))
		return code;
	if (event->kind == GQ_EVENT_UPSERT) {
		code = gq_node_decode(event->json, event->len, &node, err);
		return code ? code : gq_ledger_node_seen(feed->ledger, node, err);
	}
	code = deleted_id(event, "name", &root, &name, err);
	if (!code)
		gq_ledger_node_gone(feed->ledger, name);
	return code;
}

int gq_feed_namespaces(void *arg, const struct gq_event *event, struct gq_err *err)
{
	const struct gq_feed *feed = arg;
	struct gq_namespace *ns GQ_CLEANUP(gq_cleanup_namespace) = NULL;
	struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;
	const char *name;
	int code;

	if (list_event(feed, GQ_NAMESPACES, event, &code, err))
		return code;
	if (event->kind == GQ_EVENT_UPSERT) {
		code = gq_namespace_decode(event->json, event->len, &ns, err);
		return code ? code : gq_ledger_namespace_seen(feed->ledger, ns, now(feed), err);
	}
	code = deleted_id(event, "name", &root, &name, err);
	if (!code)
		gq_ledger_namespace_gone(feed->ledger, name);
	return code;
}
