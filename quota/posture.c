#include "quota/posture_internal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* No object has a longer name. */
#define NAME_BYTES_MAX 253

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Keeps what is decoded below and no more. */
static const struct gq_json_keep keep_name[] = {{"name", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_host_path[] = {{"path", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_claim[] = {{"claimName", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_claim_spec[] = {{"volumeName", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_template[] = {{"spec", keep_claim_spec}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_ephemeral[] = {{"volumeClaimTemplate", keep_template},
						     GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_volume[] = {{"name", NULL},
						  {"hostPath", keep_host_path},
						  {"persistentVolumeClaim", keep_claim},
						  {"ephemeral", keep_ephemeral},
						  GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_pod_security[] = {{"windowsOptions", gq_posture_keep_windows},
							GQ_JSON_KEEP_END};
#define KEEP_KEY(key) {key, NULL},
static const struct gq_json_keep keep_labels[] = {GQ_POSTURE_LABELS(KEEP_KEY) GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_annotations[] = {GQ_POSTURE_ANNOTATIONS(KEEP_KEY)
							   GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_metadata[] = {
    {"name", NULL}, {"labels", keep_labels}, {"annotations", keep_annotations}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_spec[] = {{"hostPID", NULL},
						{"hostIPC", NULL},
						{"hostNetwork", NULL},
						{"hostUsers", NULL},
						{"os", keep_name},
						{"restartPolicy", NULL},
						{"runtimeClassName", NULL},
						{"schedulerName", NULL},
						{"serviceAccountName", NULL},
						{"serviceAccount", NULL},
						{"securityContext", keep_pod_security},
						{"initContainers", gq_posture_keep_container},
						{"containers", gq_posture_keep_container},
						{"ephemeralContainers", gq_posture_keep_container},
						{"volumes", keep_volume},
						GQ_JSON_KEEP_END};
const struct gq_json_keep gq_posture_keep[] = {
    {"metadata", keep_metadata}, {"spec", keep_spec}, GQ_JSON_KEEP_END};

static const char *const lists[] = {
    [GQ_CONTAINER_INIT] = "initContainers",
    [GQ_CONTAINER_MAIN] = "containers",
    [GQ_CONTAINER_EPHEMERAL] = "ephemeralContainers",
};

const char *gq_container_list(enum gq_container_kind kind)
{
	return lists[kind];
}

static int build_containers(struct gq_posture_build *b, const struct gq_field *spec)
{
	struct gq_field list[COUNT(lists)], item;
	size_t n[COUNT(lists)] = {0};
	size_t all = 0;
	struct gq_posture_container *containers = NULL, *at;
	int code = 0;

	for (size_t kind = 0; !code && kind < COUNT(lists); kind++) {
		code = gq_field_list(spec, lists[kind], GQ_FIELD_ITEMS_MAX, &list[kind], &n[kind],
				     b->err);
		all += n[kind];
	}
	if (!code)
		code = GQ_TAKE(b->err, containers,
			       GQ_ARENA_ARRAY(b->arena, struct gq_posture_container, all));
	at = containers;
	for (size_t kind = 0; !code && kind < COUNT(lists); kind++) {
		for (size_t i = 0; !code && i < n[kind]; i++) {
			code = gq_field_item(&list[kind], i, &item, b->err);
			if (!code)
				code = gq_posture_build_container(
				    b, &item, (enum gq_container_kind)kind, at++);
		}
	}
	b->posture->containers = containers;
	b->posture->n_containers = all;
	return code;
}

/* The claim of a generic ephemeral volume: POD-VOLUME. A name longer than any object's is none. */
static int name_claim(struct gq_posture_build *b, const char *pod, struct gq_posture_volume *volume)
{
	size_t pod_len = strlen(pod), volume_len = strlen(volume->name);
	char *claim;

	volume->claim = "";
	if (!pod_len || pod_len + 1 + volume_len > NAME_BYTES_MAX)
		return 0;
	int code = GQ_TAKE(b->err, claim, gq_arena_array(b->arena, pod_len + volume_len + 2, 1));
	if (code)
		return code;
	memcpy(claim, pod, pod_len + 1);
	claim[pod_len] = '-';
	memcpy(claim + pod_len + 1, volume->name, volume_len + 1);
	volume->claim = claim;
	return 0;
}

static int build_volume(struct gq_posture_build *b, const struct gq_field *item, const char *pod,
			struct gq_posture_volume *volume)
{
	struct gq_field host_path, claim, ephemeral, template, spec;
	int code = gq_field_text(item, "name", b->arena, &volume->name, b->err);

	if (!code)
		code = gq_field_object(item, "hostPath", &host_path, b->err);
	if (!code)
		code = gq_field_text(&host_path, "path", b->arena, &volume->host_path, b->err);
	if (!code)
		code = gq_field_object(item, "persistentVolumeClaim", &claim, b->err);
	if (!code)
		code = gq_field_text(&claim, "claimName", b->arena, &volume->claim, b->err);
	if (!code)
		code = gq_field_object(item, "ephemeral", &ephemeral, b->err);
	if (!code)
		code = gq_field_object(&ephemeral, "volumeClaimTemplate", &template, b->err);
	if (!code)
		code = gq_field_object(&template, "spec", &spec, b->err);
	if (!code)
		code = gq_field_text(&spec, "volumeName", b->arena, &volume->volume_name, b->err);
	if (code || !ephemeral.value)
		return code;
	volume->ephemeral = true;
	return name_claim(b, pod, volume);
}

static int by_volume_name(const void *a, const void *b)
{
	const struct gq_posture_volume *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

/* Sorted for its containers' mounts: a pod may have many of both. */
static int sort_volumes(struct gq_posture_build *b, struct gq_posture_volume *volumes, size_t n)
{
	int code =
	    GQ_TAKE(b->err, b->volumes, GQ_ARENA_ARRAY(b->arena, struct gq_posture_volume *, n));

	if (code)
		return code;
	for (size_t i = 0; i < n; i++)
		b->volumes[i] = &volumes[i];
	if (n)
		qsort(b->volumes, n, sizeof(struct gq_posture_volume *), by_volume_name);
	b->n_volumes = n;
	return 0;
}

static int build_volumes(struct gq_posture_build *b, const struct gq_field *meta,
			 const struct gq_field *spec)
{
	struct gq_field list, item;
	struct gq_posture_volume *volumes = NULL;
	const char *pod;
	size_t n;
	int code = gq_field_peek(meta, "name", &pod, b->err);

	if (!code)
		code = gq_field_list(spec, "volumes", GQ_FIELD_ITEMS_MAX, &list, &n, b->err);
	if (!code)
		code =
		    GQ_TAKE(b->err, volumes, GQ_ARENA_ARRAY(b->arena, struct gq_posture_volume, n));
	for (size_t i = 0; !code && i < n; i++) {
		code = gq_field_item(&list, i, &item, b->err);
		if (!code)
			code = build_volume(b, &item, pod, &volumes[i]);
	}
	if (code)
		return code;
	b->posture->volumes = volumes;
	b->posture->n_volumes = n;
	return sort_volumes(b, volumes, n);
}

/* Those of a map whose keys are in keys, in that order. Others may be there too: a review is pruned
 * for several decoders at once. */
static int build_labels(struct gq_posture_build *b, const struct gq_field *meta, const char *key,
			const struct gq_json_keep *keys, const struct gq_label **ret_labels,
			size_t *ret_n)
{
	struct gq_field map;
	struct gq_label *labels = NULL;
	size_t n = 0;
	int code = gq_field_object(meta, key, &map, b->err);

	for (const struct gq_json_keep *k = keys; !code && k->key; k++)
		n += gq_field_has(&map, k->key);
	if (!code)
		code = GQ_TAKE(b->err, labels, GQ_ARENA_ARRAY(b->arena, struct gq_label, n));
	n = 0;
	for (const struct gq_json_keep *k = keys; !code && k->key; k++) {
		if (!gq_field_has(&map, k->key))
			continue;
		labels[n].key = k->key;
		code = gq_field_text(&map, k->key, b->arena, &labels[n++].value, b->err);
	}
	*ret_labels = labels;
	*ret_n = n;
	return code;
}

static int build_account(struct gq_posture_build *b, const struct gq_field *spec)
{
	static const char *const keys[] = {"serviceAccountName", "serviceAccount"};
	int code = 0;

	b->posture->service_account = "";
	for (size_t i = 0; !code && i < COUNT(keys) && !*b->posture->service_account; i++)
		code = gq_field_text(spec, keys[i], b->arena, &b->posture->service_account, b->err);
	if (!code && !*b->posture->service_account)
		b->posture->service_account = "default";
	return code;
}

/* The API server writes the default one's name into pods and not into templates. */
static const char *keep_scheduler(struct gq_arena *arena, const char *name)
{
	size_t len = strcmp(name, "default-scheduler") == 0 ? 0 : strlen(name);

	return gq_arena_text(arena, name, len);
}

static int read_pod(struct gq_posture_build *b, const struct gq_field *spec)
{
	struct gq_posture *posture = b->posture;
	struct gq_field os, security;
	const char *os_name, *restart, *scheduler;
	int code = gq_field_bool(spec, "hostPID", &posture->host_pid, b->err);

	if (!code)
		code = gq_field_bool(spec, "hostIPC", &posture->host_ipc, b->err);
	if (!code)
		code = gq_field_bool(spec, "hostNetwork", &posture->host_network, b->err);
	posture->host_users = true;
	if (!code && gq_field_has(spec, "hostUsers"))
		code = gq_field_bool(spec, "hostUsers", &posture->host_users, b->err);
	if (!code)
		code = gq_field_object(spec, "os", &os, b->err);
	if (!code)
		code = gq_field_peek(&os, "name", &os_name, b->err);
	if (!code)
		code = gq_field_peek(spec, "restartPolicy", &restart, b->err);
	if (!code)
		code = gq_field_object(spec, "securityContext", &security, b->err);
	if (!code)
		code = gq_posture_read_host_process(b, &security, &b->host_process);
	if (!code)
		code = gq_field_text(spec, "runtimeClassName", b->arena, &posture->runtime_class,
				     b->err);
	if (!code)
		code = gq_field_peek(spec, "schedulerName", &scheduler, b->err);
	if (!code)
		code = GQ_TAKE(b->err, posture->scheduler, keep_scheduler(b->arena, scheduler));
	if (code)
		return code;
	posture->windows = strcmp(os_name, "windows") == 0;
	posture->restarts = !*restart || strcmp(restart, "Always") == 0;
	return build_account(b, spec);
}

static int build_posture(void *arg, struct gq_arena *arena, void **ret_object, struct gq_err *err)
{
	struct gq_posture_build again = {.root = arg, .arena = arena, .err = err}, *b = &again;
	struct gq_field root = {.value = b->root}, meta, spec;
	int code = GQ_TAKE(err, b->posture, GQ_ARENA_ARRAY(arena, struct gq_posture, 1));

	if (!code)
		code = gq_field_object(&root, "metadata", &meta, err);
	if (!code)
		code = gq_field_object(&root, "spec", &spec, err);
	if (!code)
		code = read_pod(b, &spec);
	if (!code)
		code = build_labels(b, &meta, "labels", keep_labels, &b->posture->labels,
				    &b->posture->n_labels);
	if (!code)
		code = build_labels(b, &meta, "annotations", keep_annotations,
				    &b->posture->annotations, &b->posture->n_annotations);
	if (!code)
		code = build_volumes(b, &meta, &spec);
	if (!code)
		code = build_containers(b, &spec);
	*ret_object = b->posture;
	return code;
}

int gq_posture_decode_tree(struct json_object *root, struct gq_posture **ret_posture,
			   struct gq_err *err)
{
	void *object;
	int code = gq_arena_build(build_posture, root, &object, err);

	if (code)
		return code;
	*ret_posture = object;
	return 0;
}

struct gq_posture *gq_posture_ref(const struct gq_posture *posture)
{
	gq_counted_ref(posture);
	return (struct gq_posture *)(uintptr_t)posture;
}

void gq_posture_unref(const struct gq_posture *posture)
{
	gq_counted_unref(posture);
}
