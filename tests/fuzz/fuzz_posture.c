/* The posture decoder on raw bytes, and on what its keep tree leaves of them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json_object.h"
#include "quota/arena.h"
#include "quota/field.h"
#include "quota/posture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok)
{
	if (!ok)
		abort();
}

/* A sum over every byte of a string, so that a pointer out of the block is found. */
static size_t touch(const char *text)
{
	size_t sum = 1;

	for (; *text; text++)
		sum = sum * 31 + (unsigned char)*text;
	return sum;
}

static size_t touch_labels(const struct gq_label *labels, size_t n)
{
	size_t sum = n;

	for (size_t i = 0; i < n; i++) {
		sum += touch(labels[i].key) + touch(labels[i].value);
		check(i == 0 || strcmp(labels[i - 1].key, labels[i].key) < 0);
	}
	return sum;
}

static size_t touch_container(const struct gq_posture_container *c)
{
	size_t sum = touch(c->name) + touch(gq_container_list(c->kind));

	sum = sum * 2 + c->sidecar;
	sum = sum * 2 + c->privileged;
	sum = sum * 2 + c->host_process;
	sum = sum * 2 + c->unmasked_proc;
	check(!c->all_powers || (c->sys_admin && c->sys_ptrace));
	sum = sum * 2 + c->sys_admin;
	sum = sum * 2 + c->sys_ptrace;
	sum = sum * 2 + c->probed;
	sum = sum * 2 + c->has_gpu;
	for (size_t i = 0; i < c->n_envs; i++) {
		check((c->envs[i].value == NULL) == (*c->envs[i].from != '\0'));
		sum += touch(gq_gpu_env_name(c->envs[i].env)) + touch(c->envs[i].from) +
		       touch(c->envs[i].value ? c->envs[i].value : "");
	}
	for (size_t i = 0; i < c->n_env_froms; i++) {
		check(*c->env_froms[i].prefix != '\0');
		sum += touch(c->env_froms[i].prefix) + touch(c->env_froms[i].source);
	}
	for (size_t i = 0; i < c->n_mounts; i++)
		sum += touch(c->mounts[i].volume) + c->mounts[i].read_only;
	for (size_t i = 0; i < c->n_resources; i++) {
		check(strchr(c->resources[i], '/') != NULL);
		sum += touch(c->resources[i]);
	}
	return sum;
}

static size_t touch_posture(const struct gq_posture *posture)
{
	size_t sum = touch(posture->runtime_class) + touch(posture->scheduler) +
		     touch(posture->service_account) + posture->host_pid + 2 * posture->host_ipc +
		     4 * posture->host_network + 8 * posture->host_users + 16 * posture->windows +
		     32 * posture->restarts + 64 * posture->has_ports;

	check(*posture->service_account != '\0');
	sum += touch_labels(posture->labels, posture->n_labels) +
	       touch_labels(posture->annotations, posture->n_annotations);
	for (size_t i = 0; i < posture->n_containers; i++) {
		sum += touch_container(&posture->containers[i]);
		check(i == 0 || posture->containers[i - 1].kind <= posture->containers[i].kind);
	}
	for (size_t i = 0; i < posture->n_volumes; i++) {
		const struct gq_posture_volume *volume = &posture->volumes[i];
		sum += touch(volume->name) + touch(volume->host_path) + touch(volume->claim) +
		       touch(volume->volume_name) + volume->ephemeral;
	}
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gq_buf kept GQ_BUF_CLEANUP = GQ_BUF_INIT(8 * size + 64);
	struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;
	struct json_object *pruned GQ_CLEANUP(gq_cleanup_json) = NULL;
	struct gq_posture *posture = NULL, *again = NULL;
	struct gq_err err = {0};

	if (gq_field_parse((const char *)data, size, &root, NULL))
		return 0;
	int code = gq_posture_decode_tree(root, &posture, &err);
	if (code) {
		check(!posture && err.code == code && err.msg[0]);
		return 0;
	}
	size_t sum = touch_posture(posture);
	/* a key that stands twice is refused when it is kept */
	if (gq_json_prune((const char *)data, size, gq_posture_keep, &kept, NULL) == 0) {
		check(gq_field_parse(kept.data, kept.len, &pruned, NULL) == 0);
		check(gq_posture_decode_tree(pruned, &again, NULL) == 0);
		check(gq_counted_size(again) == gq_counted_size(posture));
		check(touch_posture(again) == sum);
	}
	gq_posture_unref(posture);
	gq_posture_unref(again);
	return 0;
}
