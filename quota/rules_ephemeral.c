#include <stdlib.h>
#include <string.h>

#include "quota/rules_internal.h"

/* Ephemeral containers that are added to a pod which runs. It may have many of everything: lists
 * are sorted once and not gone through for each other's items. */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void find_containers(const struct gq_ruled *ruled, struct gq_added *added)
{
	const struct gq_posture *posture = ruled->posture;
	const char *had[GQ_FIELD_ITEMS_MAX];
	size_t n = ruled->n_had < GQ_FIELD_ITEMS_MAX ? ruled->n_had : GQ_FIELD_ITEMS_MAX;

	for (size_t i = 0; i < n; i++)
		had[i] = ruled->had[i];
	if (n)
		qsort(had, n, sizeof *had, by_text);
	for (size_t i = 0; i < posture->n_containers; i++) {
		const struct gq_posture_container *container = &posture->containers[i];
		added->containers[i] =
		    container->kind == GQ_CONTAINER_EPHEMERAL &&
		    (!n || !bsearch(&container->name, had, n, sizeof *had, by_text));
	}
}

static void find_volumes(const struct gq_ruled *ruled, struct gq_added *added)
{
	const struct gq_posture *posture = ruled->posture;

	for (size_t i = 0; i < posture->n_containers; i++) {
		const struct gq_posture_container *container = &posture->containers[i];
		for (size_t m = 0; added->containers[i] && m < container->n_mounts; m++) {
			const struct gq_mount *mount = &container->mounts[m];
			if (!mount->of)
				continue;
			added->mounted[mount->of - posture->volumes] = true;
			added->written[mount->of - posture->volumes] |= !mount->read_only;
		}
	}
}

void gq_added_find(const struct gq_ruled *ruled, struct gq_added *ret_added)
{
	memset(ret_added, 0, sizeof *ret_added);
	find_containers(ruled, ret_added);
	find_volumes(ruled, ret_added);
}

bool gq_ruled_container(const struct gq_ruled *ruled, const struct gq_posture_container *container)
{
	return !ruled->ephemeral_only ||
	       ruled->added->containers[container - ruled->posture->containers];
}

bool gq_ruled_volume(const struct gq_ruled *ruled, const struct gq_posture_volume *volume)
{
	return !ruled->ephemeral_only || ruled->added->mounted[volume - ruled->posture->volumes];
}

bool gq_ruled_written(const struct gq_ruled *ruled, const struct gq_posture_volume *volume)
{
	return ruled->ephemeral_only ? ruled->added->written[volume - ruled->posture->volumes]
				     : volume->written;
}
