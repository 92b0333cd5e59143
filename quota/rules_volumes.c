#include <stdio.h>
#include <string.h>

#include "quota/decision_internal.h"
#include "quota/field.h"
#include "quota/rules_internal.h"

/* Where the volumes of a pod lead: to a path of the node by the pod's own hostPath, or by a claim
 * that is bound to a PersistentVolume of type hostPath or local. */

static const struct gq_json_keep keep_claim_spec[] = {{"volumeName", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_claim[] = {{"spec", keep_claim_spec}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_path[] = {{"path", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_volume_spec[] = {
    {"hostPath", keep_path}, {"local", keep_path}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_volume[] = {{"spec", keep_volume_spec}, GQ_JSON_KEEP_END};

static void copy(char *to, size_t size, const char *from)
{
	(void)snprintf(to, size, "%s", from);
}

static void set_path(struct gq_volume_path *path, const char *text)
{
	path->on_node = true;
	copy(path->path, sizeof path->path, text);
	if (!gq_host_path_clean(text, path->clean))
		copy(path->clean, sizeof path->clean, "/");
}

/* spec.FIRST, or spec.FIRST.SECOND; "" when it is absent or something else than a string. */
static void get_text(struct json_object *root, const char *first, const char *second, char *ret,
		     size_t size)
{
	struct gq_field top = {.value = root}, spec, inner;
	const char *text = "";

	ret[0] = '\0';
	if (gq_field_object(&top, "spec", &spec, NULL))
		return;
	if (second && gq_field_object(&spec, first, &inner, NULL))
		return;
	if (gq_field_peek(second ? &inner : &spec, second ? second : first, &text, NULL) == 0)
		copy(ret, size, text);
}

static enum gq_rules_answer claimed_volume(const struct gq_ruled *ruled, const char *claim,
					   char *ret_name, size_t size)
{
	struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;
	char path[640];

	(void)snprintf(path, sizeof path, "/api/v1/namespaces/%s/persistentvolumeclaims/%s",
		       ruled->pod->namespace_, claim);
	enum gq_rules_answer answer =
	    gq_rules_read(ruled->reads, GQ_READ_VOLUME_CLAIM, path, keep_claim, &root);
	if (root)
		get_text(root, "volumeName", NULL, ret_name, size);
	return answer;
}

static enum gq_rules_answer volume_behind(const struct gq_ruled *ruled, struct gq_volume_path *path)
{
	struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;
	char text[GQ_HOST_PATH_MAX + 2]; /* one more: what is too long must stay so */
	char url[640];

	(void)snprintf(url, sizeof url, "/api/v1/persistentvolumes/%s", path->persistent_volume);
	enum gq_rules_answer answer =
	    gq_rules_read(ruled->reads, GQ_READ_VOLUME, url, keep_volume, &root);
	if (!root)
		return answer;
	get_text(root, "hostPath", "path", text, sizeof text);
	if (!text[0])
		get_text(root, "local", "path", text, sizeof text);
	if (text[0])
		set_path(path, text);
	return answer;
}

enum gq_rules_answer gq_volume_path(const struct gq_ruled *ruled,
				    const struct gq_posture_volume *volume,
				    struct gq_volume_path *ret_path)
{
	enum gq_rules_answer answer = GQ_RULES_PASSED;

	ret_path->on_node = false;
	ret_path->volume = volume;
	ret_path->claim[0] = ret_path->persistent_volume[0] = '\0';
	if (volume->host_path[0]) {
		set_path(ret_path, volume->host_path);
		return answer;
	}
	if (!ruled->reads)
		return answer;
	copy(ret_path->claim, sizeof ret_path->claim, volume->claim);
	if (volume->ephemeral)
		copy(ret_path->persistent_volume, sizeof ret_path->persistent_volume,
		     volume->volume_name);
	else if (volume->claim[0] && gq_object_name_ok(volume->claim) &&
		 gq_object_name_ok(ruled->pod->namespace_))
		answer = claimed_volume(ruled, volume->claim, ret_path->persistent_volume,
					sizeof ret_path->persistent_volume);
	if (answer != GQ_RULES_PASSED || !gq_object_name_ok(ret_path->persistent_volume))
		return answer;
	return volume_behind(ruled, ret_path);
}

void gq_volume_path_print(struct gq_buf *out, enum gq_locale locale,
			  const struct gq_volume_path *path)
{
	const struct gq_message_arg args[] = {{"volume", path->volume->name},
					      {"path", path->path},
					      {"claim", path->claim},
					      {"name", path->persistent_volume}};
	enum gq_message_id id = !path->persistent_volume[0] ? GQ_MSG_VOLUME_HOST_PATH
				: path->claim[0]            ? GQ_MSG_VOLUME_CLAIM
							    : GQ_MSG_VOLUME_EPHEMERAL;

	gq_message_print(out, locale, id, args, sizeof args / sizeof *args);
}
