#include <string.h>

#include "quota/decision_internal.h"
#include "quota/message.h"

const char *gq_reason_name(enum gq_reason reason)
{
	static const char *const names[GQ_REASON_COUNT] = {
	    [GQ_REASON_NO_GPU] = "no_gpu",
	    [GQ_REASON_FITS] = "fits",
	    [GQ_REASON_EXEMPT] = "exempt",
	    [GQ_REASON_UNASSIGNED] = "unassigned",
	    [GQ_REASON_OVER_LIMIT] = "over_limit",
	    [GQ_REASON_UNLISTED] = "unlisted",
	    [GQ_REASON_AMBIGUOUS_NAMESPACE] = "ambiguous_namespace",
	    [GQ_REASON_AMBIGUOUS_CLASS] = "ambiguous_class",
	    [GQ_REASON_PRIVILEGED] = "privileged",
	    [GQ_REASON_RUNTIME_SOCKETS] = "container_runtime_sockets",
	    [GQ_REASON_HOST_DEVICES] = "host_devices",
	    [GQ_REASON_HOST_PATH] = "host_path",
	    [GQ_REASON_GPU_WITHOUT_REQUEST] = "gpu_without_request",
	    [GQ_REASON_BYPASS_LABELS] = "bypass_labels",
	    [GQ_REASON_POD_LIMIT] = "pod_limit",
	    [GQ_REASON_REQUIRE_GPU_MEMORY] = "require_gpu_memory",
	    [GQ_REASON_REQUIRE_USER_NAMESPACE] = "require_user_namespace",
	    [GQ_REASON_REQUIRE_READINESS_PROBE] = "require_readiness_probe",
	    [GQ_REASON_UNSUPPORTED] = "unsupported",
	    [GQ_REASON_BAD_QUANTITY] = "bad_quantity",
	    [GQ_REASON_CLAIM] = "claim",
	    [GQ_REASON_REFERENCE] = "reference",
	    [GQ_REASON_OWNER_ATTEMPTS] = "owner_attempts",
	    [GQ_REASON_EARLIER_BINDING] = "earlier_binding",
	    [GQ_REASON_REQUEST_UID] = "request_uid",
	    [GQ_REASON_NOT_SYNCED] = "not_synced",
	    [GQ_REASON_NOT_LEADER] = "not_leader",
	    [GQ_REASON_JOURNAL] = "journal",
	    [GQ_REASON_JOURNAL_FULL] = "journal_full",
	    [GQ_REASON_WATCH_LAGS] = "watch_lags",
	    [GQ_REASON_TOO_LATE] = "too_late",
	    [GQ_REASON_OVERLOADED] = "overloaded",
	    [GQ_REASON_BAD_REVIEW] = "bad_review",
	    [GQ_REASON_POLICY] = "policy",
	    [GQ_REASON_NOT_OURS] = "not_ours",
	};

	return names[reason];
}

void gq_verdict_done(struct gq_verdict *verdict)
{
	gq_buf_done(&verdict->message);
	gq_buf_done(&verdict->audit);
	for (size_t i = 0; i < GQ_WARNINGS_MAX; i++)
		gq_buf_done(&verdict->warnings[i]);
	gq_policy_unref(verdict->policy);
	*verdict = GQ_VERDICT_INIT;
}

int gq_verdict_answer(struct gq_verdict *verdict, enum gq_verdict_kind kind, enum gq_reason reason)
{
	verdict->kind = kind;
	verdict->reason = reason;
	return 0;
}

static enum gq_message_id unavailable_message(enum gq_reason reason)
{
	static const struct {
		enum gq_reason reason;
		enum gq_message_id id;
	} messages[] = {
	    {GQ_REASON_TOO_LATE, GQ_MSG_TOO_LATE},
	    {GQ_REASON_REFERENCE, GQ_MSG_RULE_UNREADABLE},
	    {GQ_REASON_OVERLOADED, GQ_MSG_OVERLOADED},
	    {GQ_REASON_NOT_LEADER, GQ_MSG_NOT_LEADER},
	    {GQ_REASON_JOURNAL, GQ_MSG_JOURNAL},
	    {GQ_REASON_JOURNAL_FULL, GQ_MSG_JOURNAL_FULL},
	    {GQ_REASON_WATCH_LAGS, GQ_MSG_WATCH_LAGS},
	};

	for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++)
		if (messages[i].reason == reason)
			return messages[i].id;
	return GQ_MSG_NOT_SYNCED;
}

int gq_verdict_unavailable(struct gq_verdict *verdict, enum gq_reason reason)
{
	enum gq_message_id id = unavailable_message(reason);

	gq_buf_reset(&verdict->message);
	gq_message_print(&verdict->message, verdict->locale, id, NULL, 0);
	return gq_verdict_answer(verdict, GQ_VERDICT_UNAVAILABLE, reason);
}

int gq_verdict_no_room(struct gq_verdict *verdict, enum gq_room room)
{
	return gq_verdict_unavailable(verdict, room == GQ_ROOM_HELD ? GQ_REASON_JOURNAL
					       : room == GQ_ROOM_WATCH_LAGS
						   ? GQ_REASON_WATCH_LAGS
						   : GQ_REASON_JOURNAL_FULL);
}

int gq_verdict_wait(struct gq_verdict *verdict, int64_t wait_ns)
{
	verdict->wait_ns = wait_ns;
	return gq_verdict_answer(verdict, GQ_VERDICT_WAIT, GQ_REASON_OWNER_ATTEMPTS);
}

/* A whole message and what stands in front of it. */
#define WARNING_MAX_BYTES (8192 + 256)

/* The text is in verdict->message. refused: it would be, in another mode. */
static void add_warning(struct gq_verdict *verdict, bool refused)
{
	const struct gq_buf *text = &verdict->message;

	if (verdict->n_warnings == GQ_WARNINGS_MAX) {
		verdict->warnings_cut = true;
		return;
	}
	struct gq_buf *warning = &verdict->warnings[verdict->n_warnings];
	*warning = GQ_BUF_INIT(WARNING_MAX_BYTES);
	if (refused)
		gq_message_print(warning, verdict->locale, GQ_MSG_WARNING_PREFIX, NULL, 0);
	if (gq_buf_append(warning, text->data ? text->data : "", text->len) == 0)
		verdict->n_warnings++;
	else {
		gq_buf_done(warning);
		verdict->warnings_cut = true;
	}
}

static bool ends_with(const struct gq_buf *buf, const char *text)
{
	size_t len = strlen(text);

	return buf->len >= len && memcmp(buf->data + buf->len - len, text, len) == 0;
}

/* What there is no room for is left out whole, and that shown. */
static void add_audit(struct gq_verdict *verdict)
{
	static const char more[] = "\n…";
	const struct gq_buf *text = &verdict->message;
	struct gq_buf *audit = &verdict->audit;

	if (audit->len + text->len + sizeof more + 1 <= audit->max) {
		if (audit->len)
			gq_buf_puts(audit, "\n");
		gq_buf_append(audit, text->data ? text->data : "", text->len);
	} else if (audit->len + sizeof more <= audit->max && !ends_with(audit, more)) {
		gq_buf_puts(audit, more);
	}
}

bool gq_verdict_refuse(struct gq_verdict *verdict, enum gq_mode mode, enum gq_reason reason)
{
	if (mode == GQ_MODE_ENFORCE) {
		gq_verdict_answer(verdict, GQ_VERDICT_DENY, reason);
		return true;
	}
	if (mode == GQ_MODE_WARN) {
		add_warning(verdict, true);
	} else if (mode == GQ_MODE_AUDIT) {
		add_audit(verdict);
	}
	verdict->reason = reason;
	gq_buf_reset(&verdict->message);
	return false;
}

void gq_verdict_warn(struct gq_verdict *verdict, enum gq_reason reason)
{
	if (verdict->message.len)
		add_warning(verdict, false);
	else /* there was no memory for it */
		verdict->warnings_cut = true;
	verdict->reason = reason;
	gq_buf_reset(&verdict->message);
}

void gq_verdict_allow(struct gq_verdict *verdict, enum gq_reason reason)
{
	gq_verdict_answer(verdict, GQ_VERDICT_ALLOW, reason);
}

void gq_verdict_pass(struct gq_verdict *verdict, enum gq_reason reason)
{
	bool found = verdict->n_warnings || verdict->audit.len;

	gq_verdict_allow(verdict, found ? verdict->reason : reason);
}

enum gq_reason gq_finding_reason(const struct gq_finding *finding)
{
	return finding->kind == GQ_FINDING_UNLISTED ? GQ_REASON_UNLISTED : GQ_REASON_OVER_LIMIT;
}
