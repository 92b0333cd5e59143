#include "quota/rules.h"

#include <stdio.h>
#include <string.h>

#include "quota/decision_internal.h"
#include "quota/field.h"
#include "quota/rules_internal.h"

#define TEXT_MAX_BYTES (16u << 10)

static const struct {
	enum gq_rules_answer (*check)(const struct gq_ruled *ruled, struct gq_found *found);
	enum gq_reason reason;
	bool of_running; /* holds for ephemeral containers of a pod that runs, too */
} rules[GQ_RULES] = {
    [GQ_RULE_PRIVILEGED] = {gq_rule_privileged, GQ_REASON_PRIVILEGED, true},
    [GQ_RULE_RUNTIME_SOCKETS] = {gq_rule_runtime_sockets, GQ_REASON_RUNTIME_SOCKETS, true},
    [GQ_RULE_HOST_DEVICES] = {gq_rule_host_devices, GQ_REASON_HOST_DEVICES, true},
    [GQ_RULE_HOST_PATH] = {gq_rule_host_path, GQ_REASON_HOST_PATH, true},
    [GQ_RULE_GPU_WITHOUT_REQUEST] = {gq_rule_gpu_without_request, GQ_REASON_GPU_WITHOUT_REQUEST,
				     true},
    [GQ_RULE_BYPASS_LABELS] = {gq_rule_bypass_labels, GQ_REASON_BYPASS_LABELS, true},
    [GQ_RULE_POD_LIMIT] = {gq_rule_pod_limit, GQ_REASON_POD_LIMIT, false},
    [GQ_RULE_REQUIRE_GPU_MEMORY] = {gq_rule_gpu_memory, GQ_REASON_REQUIRE_GPU_MEMORY, false},
    [GQ_RULE_REQUIRE_USER_NAMESPACE] = {gq_rule_user_namespace, GQ_REASON_REQUIRE_USER_NAMESPACE,
					false},
    [GQ_RULE_REQUIRE_READINESS_PROBE] = {gq_rule_readiness_probe, GQ_REASON_REQUIRE_READINESS_PROBE,
					 false},
};

void gq_found_add(struct gq_found *found, enum gq_message_id id, const struct gq_message_arg *args,
		  size_t n_args)
{
	if (found->n++ >= GQ_FOUND_LINES_MAX)
		return;
	if (found->text.len)
		gq_buf_puts(&found->text, "\n");
	gq_message_print(&found->text, found->locale, id, args, n_args);
}

static void found_end(struct gq_found *found)
{
	char count[16];

	if (found->n <= GQ_FOUND_LINES_MAX)
		return;
	(void)snprintf(count, sizeof count, "%u", found->n - GQ_FOUND_LINES_MAX);
	found->n = GQ_FOUND_LINES_MAX - 1; /* so that there is room for this one */
	GQ_FOUND(found, GQ_MSG_RULE_MORE, {"count", count});
}

struct gq_container_path gq_container_path(const struct gq_posture_container *container)
{
	struct gq_container_path path;

	(void)snprintf(path.text, sizeof path.text, "%s/%s", gq_container_list(container->kind),
		       container->name);
	return path;
}

bool gq_ruled_container(const struct gq_ruled *ruled, const struct gq_posture_container *container)
{
	if (!ruled->ephemeral_only)
		return true;
	if (container->kind != GQ_CONTAINER_EPHEMERAL)
		return false;
	for (size_t i = 0; i < ruled->n_had; i++)
		if (strcmp(ruled->had[i], container->name) == 0)
			return false;
	return true;
}

bool gq_ruled_volume(const struct gq_ruled *ruled, const struct gq_posture_volume *volume)
{
	const struct gq_posture *posture = ruled->posture;

	if (!ruled->ephemeral_only)
		return true;
	for (size_t i = 0; i < posture->n_containers; i++) {
		const struct gq_posture_container *container = &posture->containers[i];
		for (size_t m = 0; m < container->n_mounts; m++)
			if (strcmp(container->mounts[m].volume, volume->name) == 0 &&
			    gq_ruled_container(ruled, container))
				return true;
	}
	return false;
}

static enum gq_mode mode_of(const struct gq_ruled *ruled, int id)
{
	int own = ruled->tenant ? ruled->tenant->rule_modes[id] : -1;

	return own >= 0 ? (enum gq_mode)own : ruled->policy->rules.by[id].mode;
}

unsigned gq_rules_active(const struct gq_policy *policy, const struct gq_tenant *tenant)
{
	const struct gq_ruled ruled = {.policy = policy, .tenant = tenant};
	unsigned active = 0;

	for (int id = 0; id < GQ_RULES; id++)
		if (mode_of(&ruled, id) != GQ_MODE_DISABLED)
			active |= 1u << id;
	return active;
}

static bool is_exempt(const struct gq_ruled *ruled, const struct gq_rule *rule)
{
	for (size_t i = 0; i < rule->n_exempt_namespaces; i++)
		if (strcmp(rule->exempt_namespaces[i], ruled->pod->namespace_) == 0)
			return true;
	for (size_t i = 0; ruled->posture && i < rule->n_exempt_accounts; i++)
		if (strcmp(rule->exempt_accounts[i].namespace_, ruled->pod->namespace_) == 0 &&
		    strcmp(rule->exempt_accounts[i].name, ruled->posture->service_account) == 0)
			return true;
	return false;
}

/* The modes of a rule's findings go their own ways; those that refuse are gathered, so that who is
 * refused learns of all at once. */
static void settle(enum gq_rule_id id, enum gq_mode mode, struct gq_found *found,
		   struct gq_buf *refusals, enum gq_reason *reason, struct gq_verdict *verdict)
{
	const char *text = found->text.data ? found->text.data : "";

	verdict->rule_findings[mode] |= 1u << id;
	if (mode == GQ_MODE_ENFORCE) {
		if (!refusals->len)
			*reason = rules[id].reason;
		gq_buf_printf(refusals, "%s%s", refusals->len ? "\n" : "", text);
		return;
	}
	gq_buf_reset(&verdict->message);
	gq_buf_puts(&verdict->message, text);
	(void)gq_verdict_refuse(verdict, mode, rules[id].reason);
}

enum gq_rules_answer gq_rules_check(const struct gq_ruled *ruled, struct gq_verdict *verdict)
{
	struct gq_buf refusals GQ_BUF_CLEANUP = GQ_BUF_INIT(TEXT_MAX_BYTES);
	enum gq_reason reason = GQ_REASON_NO_GPU;
	enum gq_rules_answer answer = GQ_RULES_PASSED;
	unsigned concerned = gq_rules_active(ruled->policy, ruled->tenant) &
			     (ruled->posture ? gq_rules_concern(ruled->posture, ruled->pod)
					     : 1u << GQ_RULE_POD_LIMIT);

	for (int id = 0; id < GQ_RULES; id++) {
		struct gq_found found = {.locale = verdict->locale,
					 .text = GQ_BUF_INIT(TEXT_MAX_BYTES)};
		enum gq_mode mode = mode_of(ruled, id);
		if (!(concerned >> id & 1) || (ruled->ephemeral_only && !rules[id].of_running) ||
		    is_exempt(ruled, &ruled->policy->rules.by[id]))
			continue;
		enum gq_rules_answer one = rules[id].check(ruled, &found);
		found_end(&found);
		if (one == GQ_RULES_PASSED && found.n)
			settle(id, mode, &found, &refusals, &reason, verdict);
		gq_buf_done(&found.text);
		if (one == GQ_RULES_FAILED)
			return one;
		if (one == GQ_RULES_READ)
			answer = one; /* the others may have something to read as well */
	}
	if (answer != GQ_RULES_PASSED || !refusals.len)
		return answer;
	gq_buf_reset(&verdict->message);
	gq_buf_puts(&verdict->message, refusals.data);
	gq_verdict_answer(verdict, GQ_VERDICT_DENY, reason);
	return GQ_RULES_REFUSED;
}

enum gq_rules_answer gq_rules_read(struct gq_reads *reads, enum gq_read_kind kind, const char *path,
				   const struct gq_json_keep *keep, struct json_object **ret_root)
{
	const struct gq_read *read = gq_reads_get(reads, kind, path, keep);

	*ret_root = NULL;
	if (!read)
		return GQ_RULES_TOO_MANY;
	if (!read->done)
		return GQ_RULES_READ;
	if (read->code == GQ_ENOTFOUND || read->code == GQ_EDENIED)
		return GQ_RULES_PASSED;
	if (read->code)
		return GQ_RULES_FAILED;
	return gq_field_parse(read->body, read->len, ret_root, NULL) ? GQ_RULES_FAILED
								     : GQ_RULES_PASSED;
}

bool gq_rules_verdict(const struct gq_ruled *ruled, struct gq_verdict *verdict)
{
	switch (gq_rules_check(ruled, verdict)) {
	case GQ_RULES_PASSED:
		return false;
	case GQ_RULES_READ:
		gq_verdict_answer(verdict, GQ_VERDICT_READ, GQ_REASON_VOLUME);
		break;
	case GQ_RULES_FAILED:
	case GQ_RULES_TOO_MANY:
		gq_verdict_unavailable(verdict, GQ_REASON_VOLUME);
		break;
	case GQ_RULES_REFUSED:
		break;
	}
	return true;
}
