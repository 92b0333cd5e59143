#ifndef GQ_QUOTA_RULES_INTERNAL_H
#define GQ_QUOTA_RULES_INTERNAL_H

#include "quota/field.h"
#include "quota/host_path.h"
#include "quota/message.h"
#include "quota/rules.h"

/* Shared by rules.c (modes, exemptions, what becomes of a finding), rules_host.c (what a pod takes
 * of its node), rules_gpu.c (how it comes by GPUs), rules_env.c and rules_volumes.c (what its
 * environment and its volumes lead to), rules_ephemeral.c (what is added to one that runs) and
 * rules_condition.c (which pods any of it could concern). */

/* What one rule finds in one pod: a line each, up to a few. */
struct gq_found {
	enum gq_locale locale;
	struct gq_buf text;
	unsigned n;     /* findings */
	unsigned lines; /* of these, told */
};
#define GQ_FOUND_LINES_MAX 4

void gq_found_add(struct gq_found *found, enum gq_message_id id, const struct gq_message_arg *args,
		  size_t n_args);
/* A finding whose line is printed already. */
void gq_found_line(struct gq_found *found, const struct gq_buf *line);
#define GQ_FOUND(found, id, ...)                                                                   \
	gq_found_add(found, id, (const struct gq_message_arg[]){__VA_ARGS__},                      \
		     sizeof((const struct gq_message_arg[]){__VA_ARGS__}) /                        \
			 sizeof(struct gq_message_arg))

/* "initContainers/NAME", for messages. */
struct gq_container_path {
	char text[320];
};
struct gq_container_path gq_container_path(const struct gq_posture_container *container);

/* ---- rules_gpu.c ---- */

/* Whether it is NVIDIA_VISIBLE_DEVICES and may name a GPU. */
bool gq_env_gives_devices(const struct gq_env *env);

/* ---- rules_ephemeral.c ---- */

/* What is added to a pod that runs, by the places in its posture's lists. */
struct gq_added {
	bool containers[3 * GQ_FIELD_ITEMS_MAX];
	bool mounted[GQ_FIELD_ITEMS_MAX]; /* volumes that a container of these mounts */
	bool written[GQ_FIELD_ITEMS_MAX]; /* of them, not read-only */
};
/* Of a pod that is `ephemeral_only`; ruled->added of the other functions is to be that. */
void gq_added_find(const struct gq_ruled *ruled, struct gq_added *ret_added);

/* Whether a container is to be looked at: an ephemeral one that was there before is not. */
bool gq_ruled_container(const struct gq_ruled *ruled, const struct gq_posture_container *container);

/* Whether a volume is: on behalf of a pod that runs, those that a container to be looked at mounts.
 */
bool gq_ruled_volume(const struct gq_ruled *ruled, const struct gq_posture_volume *volume);

/* Whether a container to be looked at may write to it. */
bool gq_ruled_written(const struct gq_ruled *ruled, const struct gq_posture_volume *volume);

/* A rule. Those that read nothing always answer GQ_RULES_PASSED: what they find is in found. */
enum gq_rules_answer gq_rule_privileged(const struct gq_ruled *ruled, struct gq_found *found);
enum gq_rules_answer gq_rule_runtime_sockets(const struct gq_ruled *ruled, struct gq_found *found);
enum gq_rules_answer gq_rule_host_devices(const struct gq_ruled *ruled, struct gq_found *found);
enum gq_rules_answer gq_rule_host_path(const struct gq_ruled *ruled, struct gq_found *found);
enum gq_rules_answer gq_rule_user_namespace(const struct gq_ruled *ruled, struct gq_found *found);
enum gq_rules_answer gq_rule_gpu_without_request(const struct gq_ruled *ruled,
						 struct gq_found *found);
enum gq_rules_answer gq_rule_bypass_labels(const struct gq_ruled *ruled, struct gq_found *found);
enum gq_rules_answer gq_rule_pod_limit(const struct gq_ruled *ruled, struct gq_found *found);
enum gq_rules_answer gq_rule_gpu_memory(const struct gq_ruled *ruled, struct gq_found *found);
enum gq_rules_answer gq_rule_readiness_probe(const struct gq_ruled *ruled, struct gq_found *found);

/* Of two answers what is left to do: to read what can be read, be it that something could not. */
enum gq_rules_answer gq_rules_both(enum gq_rules_answer a, enum gq_rules_answer b);

/* An object that the pod refers to: PASSED with its tree, or with NULL when it is not there or may
 * not be read, so that nothing is known of it. */
enum gq_rules_answer gq_rules_read(struct gq_reads *reads, enum gq_read_kind kind, const char *path,
				   const struct gq_json_keep *keep, struct json_object **ret_root);

/* ---- rules_env.c ---- */

/* What ConfigMaps bring into a container by envFrom. */
struct gq_env_map {
	const char *name;          /* of the ConfigMap; in the posture */
	char values[GQ_ENVS][254]; /* cut */
	bool set[GQ_ENVS];
};
/* ret_map is filled with PASSED; nothing is set when the ConfigMap is not there, or may not be
 * read. */
enum gq_rules_answer gq_env_map_read(const struct gq_ruled *ruled, const char *name,
				     struct gq_env_map *ret_map);

/* ---- rules_volumes.c ---- */

/* The path of the node that a volume leads to. */
struct gq_volume_path {
	bool on_node;
	const struct gq_posture_volume *volume;
	char persistent_volume[254]; /* "" for a hostPath volume of the pod itself */
	char claim[254];
	char path[GQ_HOST_PATH_MAX + 1];  /* as written, cut */
	char clean[GQ_HOST_PATH_MAX + 1]; /* "/" when it is too long to say */
};

/* READ: the claim or its PersistentVolume has to be read. A claim that does not exist, has no
 * volume yet or may not be read leads nowhere that we know of: on_node is false. */
enum gq_rules_answer gq_volume_path(const struct gq_ruled *ruled,
				    const struct gq_posture_volume *volume,
				    struct gq_volume_path *ret_path);
/* "Volume data (hostPath /dev)". */
void gq_volume_path_print(struct gq_buf *out, enum gq_locale locale,
			  const struct gq_volume_path *path);

/* ---- rules_gpu.c ---- */

/* The first limit that one pod passes; returns whether there is one. class_id: GQ_CLASS_NONE for
 * the limit of all classes together. */
struct gq_pod_limit_finding {
	int class_id;
	int64_t limit_shares;
	int64_t asks_shares;
	bool may; /* it may land on the class, and on others */
};
bool gq_pod_limit_passed(const struct gq_policy *policy, const struct gq_pod_limit *limit,
			 const struct gq_pod *pod, const struct gq_parts *parts,
			 struct gq_pod_limit_finding *ret_finding);

#endif
