#include <json-c/json.h>
#include <string.h>

#include "base/json_object.h"
#include "informer/reflector_internal.h"

#define MARKER "k8s.io/initial-events-end"

const struct gq_json_keep gq_reflector_keep_marker[] = {{MARKER, NULL}, GQ_JSON_KEEP_END};

void gq_reflector_problem(struct gq_reflector *r, const struct gq_err *why)
{
	if (r->options->on_problem)
		r->options->on_problem(r->options->arg, r->resource->name, why->code, why->msg);
}

static bool is_object_event(enum gq_event_kind kind)
{
	return kind == GQ_EVENT_UPSERT || kind == GQ_EVENT_DELETE;
}

int gq_reflector_tell(struct gq_reflector *r, enum gq_event_kind kind,
		      const struct gq_json_item *item, struct gq_err *err)
{
	struct gq_err why = {0};
	struct gq_event event = {.kind = kind};

	if (item) {
		event.json = item->json;
		event.len = item->len;
		event.resource_version = item->resource_version;
	}
	if (kind == GQ_EVENT_LIST_BEGIN || kind == GQ_EVENT_LIST_END)
		event.begun_ns = r->list_began_ns;
	r->dirty = true;
	if (is_object_event(kind))
		atomic_fetch_add(&r->counters.events, 1);
	int code = r->resource->on_event(r->resource->arg, &event, &why);
	if (code >= 0)
		return 0;
	/* an object that there was no memory for is not lost: it is listed again */
	if (code == GQ_ENOMEM || !is_object_event(kind))
		return gq_fail(err, code, "%s", why.msg[0] ? why.msg : gq_code_name(code));
	atomic_fetch_add(&r->counters.skipped, 1);
	gq_reflector_problem(r, &why);
	return 0;
}

static int set_version(struct gq_reflector *r, const char *version, struct gq_err *err)
{
	size_t len = strlen(version);

	if (len == 0)
		return gq_fail(err, GQ_EINVALID, "there is no resourceVersion");
	if (len > GQ_VERSION_MAX)
		return gq_fail(err, GQ_ETOOBIG, "a resourceVersion of more than %d characters",
			       GQ_VERSION_MAX);
	memcpy(r->version, version, len + 1);
	return 0;
}

int gq_reflector_listed(struct gq_reflector *r, const char *version, struct gq_err *err)
{
	int code = set_version(r, version, err);
	if (!code)
		code = gq_reflector_tell(r, GQ_EVENT_LIST_END, NULL, err);
	if (code)
		return code;
	r->phase = GQ_PHASE_WATCH;
	if (!atomic_exchange(&r->counters.synced, true) && r->options->on_synced)
		r->options->on_synced(r->options->arg, r->resource->name);
	return 0;
}

static bool is_marker(const struct gq_json_item *item)
{
	GQ_CLEANUP(gq_cleanup_json) struct json_object *root = json_tokener_parse(item->json);
	struct json_object *metadata = NULL, *annotations = NULL, *value = NULL;

	return json_object_is_type(root, json_type_object) &&
	       json_object_object_get_ex(root, "metadata", &metadata) &&
	       json_object_is_type(metadata, json_type_object) &&
	       json_object_object_get_ex(metadata, "annotations", &annotations) &&
	       json_object_is_type(annotations, json_type_object) &&
	       json_object_object_get_ex(annotations, MARKER, &value) &&
	       json_object_is_type(value, json_type_string) &&
	       strcmp(json_object_get_string(value), "true") == 0;
}

static int on_bookmark(struct gq_reflector *r, const struct gq_json_item *item, struct gq_err *err)
{
	if (r->phase == GQ_PHASE_WATCH)
		return set_version(r, item->resource_version, err);
	if (!is_marker(item))
		return 0;
	atomic_store(&r->counters.connected, true);
	return gq_reflector_listed(r, item->resource_version, err);
}

static int on_error(struct gq_reflector *r, const struct gq_json_item *item, struct gq_err *err)
{
	if (!gq_api_status_parse(item->json, item->len, &r->told))
		return gq_fail(err, GQ_EIO, "an ERROR event that can't be read");
	int code = gq_api_status_code(r->told.code ? r->told.code : 500);
	if (strcmp(r->told.reason, "Expired") == 0 || strcmp(r->told.reason, "Gone") == 0)
		code = GQ_EGONE;
	return gq_fail(err, code ? code : GQ_EIO, "ERROR event %ld %s: %s", r->told.code,
		       r->told.reason, r->told.message);
}

int gq_reflector_item(void *arg, const struct gq_json_item *item, struct gq_err *err)
{
	struct gq_reflector *r = arg;

	r->items++;
	if (r->phase == GQ_PHASE_PAGED_LIST)
		return gq_reflector_tell(r, GQ_EVENT_UPSERT, item, err);
	if (strcmp(item->type, "BOOKMARK") == 0)
		return on_bookmark(r, item, err);
	if (strcmp(item->type, "ERROR") == 0)
		return on_error(r, item, err);
	enum gq_event_kind kind = GQ_EVENT_UPSERT;
	if (strcmp(item->type, "DELETED") == 0)
		kind = GQ_EVENT_DELETE;
	else if (strcmp(item->type, "ADDED") != 0 && strcmp(item->type, "MODIFIED") != 0)
		return gq_fail(err, GQ_EINVALID, "an event of the unknown type %.32s", item->type);
	int code = gq_reflector_tell(r, kind, item, err);
	/* only now: what was not handed over has to come again */
	if (!code && r->phase == GQ_PHASE_WATCH)
		code = set_version(r, item->resource_version, err);
	return code;
}
