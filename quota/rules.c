#include "quota/rules.h"

#include <stdio.h>
#include <string.h>

#include "quota/decision_internal.h"
#include "quota/field.h"
#include "quota/rules_internal.h"

/* Of one rule: what a verdict takes as one message. */
#define FOUND_MAX_BYTES (8u << 10)
#define FOUND_MORE_BYTES 128 /* kept free for the count of the others */
/* Of all that refuse a pod: what a person reads, and a verdict takes. */
#define REFUSALS_MAX_BYTES (16u << 10)
/* Objects that rules may have read for one pod. */
#define READS_MAX 96

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
	struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(FOUND_MAX_BYTES);

	gq_message_print(&line, found->locale, id, args, n_args);
	gq_found_line(found, &line);
}

void gq_found_line(struct gq_found *found, const struct gq_buf *line)
{
	found->n++;
	if (line->code == GQ_ENOMEM)
		found->text.code = line->code;
	if (line->code || found->lines == GQ_FOUND_LINES_MAX ||
	    found->text.len + line->len + FOUND_MORE_BYTES > found->text.max)
		return;
	if (found->text.len)
		gq_buf_puts(&found->text, "\n");
	gq_buf_append(&found->text, line->data, line->len);
	found->lines++;
}

static void found_end(struct gq_found *found)
{
	char count[16];

	if (found->n == found->lines)
		return;
	(void)snprintf(count, sizeof count, "%u", found->n - found->lines);
	if (found->text.len)
		gq_buf_puts(&found->text, "\n");
	gq_message_print(&found->text, found->locale, GQ_MSG_RULE_MORE,
			 &(struct gq_message_arg){"count", count}, 1);
}

struct gq_container_path gq_container_path(const struct gq_posture_container *container)
{
	struct gq_container_path path;

	(void)snprintf(path.text, sizeof path.text, "%s/%s", gq_container_list(container->kind),
		       container->name);
	return path;
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

/* What refuses a pod, gathered, so that who is refused learns of all at once. */
struct refusals {
	struct gq_buf text;
	enum gq_reason reason; /* the first one's */
	unsigned n;
	unsigned left_out; /* findings there was no room for */
};

static void refuse(struct refusals *refusals, enum gq_reason reason, const struct gq_found *found)
{
	struct gq_buf *text = &refusals->text;

	if (refusals->n++ == 0)
		refusals->reason = reason;
	if (text->len + found->text.len + 1 > text->max) {
		refusals->left_out += found->n;
		return;
	}
	if (text->len)
		gq_buf_puts(text, "\n");
	gq_buf_append(text, found->text.data, found->text.len);
}

/* The findings of a rule go their way by its mode. */
static void settle(enum gq_rule_id id, enum gq_mode mode, const struct gq_found *found,
		   struct refusals *refusals, struct gq_verdict *verdict)
{
	verdict->rule_findings[mode] |= 1u << id;
	if (mode == GQ_MODE_ENFORCE) {
		refuse(refusals, rules[id].reason, found);
		return;
	}
	gq_buf_reset(&verdict->message);
	gq_buf_append(&verdict->message, found->text.data, found->text.len);
	(void)gq_verdict_refuse(verdict, mode, rules[id].reason);
}

static void tell_refusals(const struct refusals *refusals, struct gq_verdict *verdict)
{
	char count[16];

	gq_buf_done(&verdict->message);
	verdict->message = GQ_BUF_INIT(REFUSALS_MAX_BYTES + 1024);
	gq_buf_append(&verdict->message, refusals->text.data, refusals->text.len);
	if (refusals->left_out) {
		(void)snprintf(count, sizeof count, "%u", refusals->left_out);
		gq_buf_puts(&verdict->message, "\n");
		gq_message_print(&verdict->message, verdict->locale, GQ_MSG_RULE_LEFT_OUT,
				 &(struct gq_message_arg){"count", count}, 1);
	}
	gq_verdict_answer(verdict, GQ_VERDICT_DENY, refusals->reason);
}

static void refusals_done(struct refusals *refusals)
{
	gq_buf_done(&refusals->text);
}

/* What a rule finds in the pod, settled. What it finds without what it could not read holds all the
 * same; of a rule that refuses nobody it is no matter that something could not be read. */
static enum gq_rules_answer check_rule(const struct gq_ruled *ruled, enum gq_rule_id id,
				       struct refusals *refusals, struct gq_verdict *verdict)
{
	struct gq_found found = {.locale = verdict->locale, .text = GQ_BUF_INIT(FOUND_MAX_BYTES)};
	enum gq_mode mode = mode_of(ruled, (int)id);
	enum gq_rules_answer answer = rules[id].check(ruled, &found);

	found_end(&found);
	if (found.text.code == GQ_ENOMEM)
		answer = GQ_RULES_NOMEM;
	else if (found.n && (answer != GQ_RULES_READ || mode == GQ_MODE_ENFORCE))
		settle(id, mode, &found, refusals, verdict);
	gq_buf_done(&found.text);
	if (answer == GQ_RULES_FAILED && mode != GQ_MODE_ENFORCE)
		answer = GQ_RULES_PASSED;
	return answer;
}

static enum gq_rules_answer check_rules(const struct gq_ruled *ruled, struct gq_verdict *verdict)
{
	struct refusals refusals GQ_CLEANUP(refusals_done) = {.text =
								  GQ_BUF_INIT(REFUSALS_MAX_BYTES)};
	enum gq_rules_answer answer = GQ_RULES_PASSED;
	unsigned concerned = gq_rules_active(ruled->policy, ruled->tenant) &
			     (ruled->posture ? gq_rules_concern(ruled->posture, ruled->pod)
					     : 1u << GQ_RULE_POD_LIMIT);

	for (int id = 0; id < GQ_RULES; id++) {
		if (!(concerned >> id & 1) || (ruled->ephemeral_only && !rules[id].of_running) ||
		    is_exempt(ruled, &ruled->policy->rules.by[id]))
			continue;
		enum gq_rules_answer one =
		    check_rule(ruled, (enum gq_rule_id)id, &refusals, verdict);
		if (one == GQ_RULES_NOMEM)
			return one;
		answer = gq_rules_both(answer, one);
	}
	if (refusals.text.code == GQ_ENOMEM || verdict->message.code == GQ_ENOMEM)
		return GQ_RULES_NOMEM;
	if (refusals.n) { /* nothing that could be read would change that */
		tell_refusals(&refusals, verdict);
		return verdict->message.code ? GQ_RULES_NOMEM : GQ_RULES_REFUSED;
	}
	return answer;
}

enum gq_rules_answer gq_rules_check(const struct gq_ruled *ruled, struct gq_verdict *verdict)
{
	struct gq_ruled all = *ruled;
	struct gq_added added;

	if (ruled->ephemeral_only) {
		gq_added_find(ruled, &added);
		all.added = &added;
	}
	return check_rules(&all, verdict);
}

enum gq_rules_answer gq_rules_both(enum gq_rules_answer a, enum gq_rules_answer b)
{
	if (a == GQ_RULES_READ || b == GQ_RULES_READ)
		return GQ_RULES_READ;
	return a == GQ_RULES_FAILED || b == GQ_RULES_FAILED ? GQ_RULES_FAILED : GQ_RULES_PASSED;
}

unsigned gq_rules_active_anywhere(const struct gq_policy *policy)
{
	unsigned active = gq_rules_active(policy, NULL);

	for (size_t t = 0; t < policy->n_tenants; t++)
		active |= gq_rules_active(policy, &policy->tenants[t]);
	return active;
}

static bool may_read(const struct gq_reads *reads, const char *path)
{
	bool may = reads->n < READS_MAX;

	for (size_t i = 0; !may && i < reads->n; i++)
		may = strcmp(reads->items[i].path, path) == 0;
	return may;
}

enum gq_rules_answer gq_rules_read(struct gq_reads *reads, enum gq_read_kind kind, const char *path,
				   const struct gq_json_keep *keep, struct json_object **ret_root)
{
	*ret_root = NULL;
	const struct gq_read *read =
	    may_read(reads, path) ? gq_reads_get(reads, kind, path, keep) : NULL;
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
		gq_verdict_answer(verdict, GQ_VERDICT_READ, GQ_REASON_REFERENCE);
		break;
	case GQ_RULES_FAILED:
	case GQ_RULES_TOO_MANY:
		gq_verdict_unavailable(verdict, GQ_REASON_REFERENCE);
		break;
	case GQ_RULES_NOMEM:
		gq_verdict_unavailable(verdict, GQ_REASON_OVERLOADED);
		break;
	case GQ_RULES_REFUSED:
		break;
	}
	return true;
}
