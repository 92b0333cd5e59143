#ifndef GQ_QUOTA_POSTURE_INTERNAL_H
#define GQ_QUOTA_POSTURE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json_object.h"
#include "quota/arena.h"
#include "quota/field.h"
#include "quota/posture.h"

/* Shared by posture.c (a pod and its volumes) and posture_container.c. */

/* What building a posture reads and writes. */
struct gq_posture_build {
	struct json_object *root;
	struct gq_arena *arena;
	struct gq_posture *posture;
	bool host_process;                  /* of the pod */
	struct gq_posture_volume **volumes; /* of the posture, by name; before its containers */
	size_t n_volumes;
	struct gq_err *err;
};

extern const struct gq_json_keep gq_posture_keep_container[];
/* windowsOptions of a pod or a container. */
extern const struct gq_json_keep gq_posture_keep_windows[];

/* Decodes one container into c. Returns 0 or GQ_EINVALID, GQ_ETOOBIG, GQ_ENOMEM with b->err set. */
int gq_posture_build_container(struct gq_posture_build *b, const struct gq_field *item,
			       enum gq_container_kind kind, struct gq_posture_container *c);

/* security: the securityContext of a pod or a container. Leaves *ret_host_process where it says
 * nothing. */
int gq_posture_read_host_process(struct gq_posture_build *b, const struct gq_field *security,
				 bool *ret_host_process);

#endif
