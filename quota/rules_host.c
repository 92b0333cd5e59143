#include <string.h>

#include "quota/rules_internal.h"

/* Rules about what a pod takes of its node. */

static void check_powers(const struct gq_ruled *ruled, const struct gq_posture_container *container,
			 struct gq_found *found)
{
	struct gq_container_path path = gq_container_path(container);
	bool both = container->sys_admin && container->sys_ptrace;
	const char *capability = container->all_powers   ? "ALL"
				 : both                  ? "SYS_ADMIN, SYS_PTRACE"
				 : container->sys_admin  ? "SYS_ADMIN"
				 : container->sys_ptrace ? "SYS_PTRACE"
							 : NULL;

	if (container->privileged)
		GQ_FOUND(found, GQ_MSG_RULE_PRIVILEGED, {"container", path.text});
	if (container->host_process)
		GQ_FOUND(found, GQ_MSG_RULE_HOST_PROCESS, {"container", path.text});
	if (ruled->posture->host_pid && capability)
		GQ_FOUND(found, GQ_MSG_RULE_HOST_PID, {"container", path.text},
			 {"capability", capability});
	if (container->unmasked_proc && ruled->posture->host_users)
		GQ_FOUND(found, GQ_MSG_RULE_PROC_MOUNT, {"container", path.text});
}

enum gq_rules_answer gq_rule_privileged(const struct gq_ruled *ruled, struct gq_found *found)
{
	const struct gq_posture *posture = ruled->posture;

	for (size_t i = 0; i < posture->n_containers; i++)
		if (gq_ruled_container(ruled, &posture->containers[i]))
			check_powers(ruled, &posture->containers[i], found);
	return GQ_RULES_PASSED;
}

/* Calls for each volume that leads to a path of the node. */
static enum gq_rules_answer each_path(const struct gq_ruled *ruled, struct gq_found *found,
				      void (*check)(const struct gq_ruled *ruled,
						    const struct gq_volume_path *path,
						    struct gq_found *found))
{
	const struct gq_posture *posture = ruled->posture;
	enum gq_rules_answer answer = GQ_RULES_PASSED;
	struct gq_volume_path path;

	for (size_t i = 0; i < posture->n_volumes; i++) {
		if (!gq_ruled_volume(ruled, &posture->volumes[i]))
			continue;
		enum gq_rules_answer one = gq_volume_path(ruled, &posture->volumes[i], &path);
		answer = gq_rules_both(answer, one);
		if (one == GQ_RULES_TOO_MANY)
			GQ_FOUND(found, GQ_MSG_RULE_CLAIMS, {"volume", posture->volumes[i].name});
		else if (path.on_node)
			check(ruled, &path, found);
	}
	return answer;
}

static struct gq_host_path_reading read_path(const struct gq_ruled *ruled,
					     const struct gq_volume_path *path)
{
	return gq_host_path_read(path->clean, gq_ruled_written(ruled, path->volume));
}

/* opens: the node's that the path leads to, for the placeholder called name; NULL: none. */
static void found_path(struct gq_found *found, const struct gq_volume_path *path,
		       enum gq_message_id id, const char *name, const char *opens)
{
	struct gq_buf where GQ_BUF_CLEANUP = GQ_BUF_INIT(2048);

	if (!opens)
		return;
	gq_volume_path_print(&where, found->locale, path);
	GQ_FOUND(found, id, {"where", where.data ? where.data : ""}, {name, opens});
}

static void check_socket(const struct gq_ruled *ruled, const struct gq_volume_path *path,
			 struct gq_found *found)
{
	found_path(found, path, GQ_MSG_RULE_SOCKET, "socket", read_path(ruled, path).socket);
}

static void check_device(const struct gq_ruled *ruled, const struct gq_volume_path *path,
			 struct gq_found *found)
{
	found_path(found, path, GQ_MSG_RULE_DEVICE, "device", read_path(ruled, path).device);
}

enum gq_rules_answer gq_rule_runtime_sockets(const struct gq_ruled *ruled, struct gq_found *found)
{
	return each_path(ruled, found, check_socket);
}

enum gq_rules_answer gq_rule_host_devices(const struct gq_ruled *ruled, struct gq_found *found)
{
	return each_path(ruled, found, check_device);
}

/* The allowed path that lets it be mounted as it is; else one that would, were it read-only; else
 * NULL. */
static const struct gq_allowed_path *allowed_for(const struct gq_rules *rules, const char *clean,
						 bool read_only)
{
	const struct gq_allowed_path *nearly = NULL;

	for (size_t i = 0; i < rules->n_allowed_paths; i++) {
		const struct gq_allowed_path *allowed = &rules->allowed_paths[i];
		if (!gq_host_path_inside(clean, allowed->prefix))
			continue;
		if (read_only || !allowed->read_only)
			return allowed;
		nearly = allowed;
	}
	return nearly;
}

static void print_allowed(struct gq_buf *out, enum gq_locale locale, const struct gq_rules *rules)
{
	for (size_t i = 0; i < rules->n_allowed_paths; i++) {
		const struct gq_allowed_path *allowed = &rules->allowed_paths[i];
		if (i)
			gq_message_print(out, locale, GQ_MSG_LIST_SEPARATOR, NULL, 0);
		if (allowed->read_only)
			gq_message_print(out, locale, GQ_MSG_PATH_READ_ONLY,
					 &(struct gq_message_arg){"path", allowed->prefix}, 1);
		else
			gq_buf_puts(out, allowed->prefix);
	}
}

/* Only what the pod itself names: a PersistentVolume is made by whoever runs the cluster. */
enum gq_rules_answer gq_rule_host_path(const struct gq_ruled *ruled, struct gq_found *found)
{
	const struct gq_posture *posture = ruled->posture;
	const struct gq_rules *rules = &ruled->policy->rules;
	struct gq_volume_path path;

	for (size_t i = 0; i < posture->n_volumes; i++) {
		struct gq_buf where GQ_BUF_CLEANUP = GQ_BUF_INIT(2048);
		struct gq_buf list GQ_BUF_CLEANUP = GQ_BUF_INIT(8192);
		if (!posture->volumes[i].host_path[0] ||
		    !gq_ruled_volume(ruled, &posture->volumes[i]) ||
		    gq_volume_path(ruled, &posture->volumes[i], &path) || !path.on_node)
			continue;
		bool read_only = !gq_ruled_written(ruled, &posture->volumes[i]);
		const struct gq_allowed_path *allowed = allowed_for(rules, path.clean, read_only);
		if (allowed && (read_only || !allowed->read_only))
			continue;
		gq_volume_path_print(&where, found->locale, &path);
		const char *text = where.data ? where.data : "";
		print_allowed(&list, found->locale, rules);
		if (allowed)
			GQ_FOUND(found, GQ_MSG_RULE_HOST_PATH_READ_ONLY, {"where", text},
				 {"path", allowed->prefix}, {"volume", path.volume->name});
		else if (rules->n_allowed_paths)
			GQ_FOUND(found, GQ_MSG_RULE_HOST_PATH, {"where", text},
				 {"list", list.data ? list.data : ""});
		else
			GQ_FOUND(found, GQ_MSG_RULE_HOST_PATH_NONE, {"where", text});
	}
	return GQ_RULES_PASSED;
}

enum gq_rules_answer gq_rule_user_namespace(const struct gq_ruled *ruled, struct gq_found *found)
{
	const struct gq_posture *posture = ruled->posture;
	const struct {
		const char *field;
		bool set;
	} hosts[] = {{"hostNetwork", posture->host_network},
		     {"hostPID", posture->host_pid},
		     {"hostIPC", posture->host_ipc}};

	if (!posture->host_users)
		return GQ_RULES_PASSED;
	if (posture->windows) {
		GQ_FOUND(found, GQ_MSG_RULE_USER_NAMESPACE_WINDOWS, {"field", "os.name"});
		return GQ_RULES_PASSED;
	}
	for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
		if (hosts[i].set)
			GQ_FOUND(found, GQ_MSG_RULE_USER_NAMESPACE_HOST, {"field", hosts[i].field});
	if (!found->n)
		GQ_FOUND(found, GQ_MSG_RULE_USER_NAMESPACE, {"field", "hostUsers"});
	return GQ_RULES_PASSED;
}
