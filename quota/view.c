#include <stdio.h>
#include <string.h>

#include "quota/decision_internal.h"

/* What a decision works on without the lock. */

void gq_view_done(struct gq_view *view)
{
	gq_policy_unref(view->policy);
	gq_node_snapshot_unref(view->snapshot);
	*view = (struct gq_view){0};
}

const struct gq_tenant *gq_view_tenant(const struct gq_view *view)
{
	return view->assign.tenant >= 0 ? &view->policy->tenants[view->assign.tenant] : NULL;
}

bool gq_check_too_late(struct gq_ledger *ledger, int64_t now_ns, int64_t deadline_ns,
		       struct gq_verdict *verdict)
{
	if (now_ns < deadline_ns)
		return false;
	verdict->locale = gq_ledger_locale(ledger);
	gq_verdict_unavailable(verdict, GQ_REASON_TOO_LATE);
	return true;
}

struct gq_explain gq_view_explain(const struct gq_view *view, const struct gq_pod *pod,
				  const struct gq_verdict *verdict)
{
	return (struct gq_explain){.policy = view->policy,
				   .snapshot = view->snapshot,
				   .pod = pod,
				   .namespace_ = pod->namespace_,
				   .locale = verdict->locale};
}

/* false: not ready. */
static bool look(struct gq_ledger *ledger, const char *ns_name, struct gq_verdict *verdict,
		 struct gq_view *view)
{
	gq_ledger_lock(ledger);
	verdict->locale = gq_book_locale(ledger->cur);
	bool ready = ledger->synced && ledger->cur;
	if (ready) {
		const struct gq_book *book = ledger->cur;
		const struct gq_ns *ns = gq_map_get(ledger->namespaces, ns_name, strlen(ns_name));
		*view = (struct gq_view){
		    .generation = ledger->generation,
		    .policy = gq_policy_ref(book->policy),
		    .snapshot = gq_node_snapshot_ref(book->snapshot),
		    .assign =
			ns ? ns->assign[book->bank] : gq_tenancy_assign(book, ns_name, NULL, -1),
		};
	}
	gq_ledger_unlock(ledger);
	return ready;
}

/* Takes over the labels of a namespace that the watch has not shown yet. */
static int namespace_read(struct gq_ledger *ledger, const struct gq_read *read, int64_t now_ns)
{
	struct gq_namespace *object GQ_CLEANUP(gq_cleanup_namespace) = NULL;
	int code = gq_namespace_decode(read->body, read->len, &object, NULL);

	return code ? code : gq_ledger_namespace_read(ledger, object, now_ns, NULL);
}

/* An unknown namespace is read first. Returns whether the view holds; else the verdict is made. */
static bool look_at_unknown(struct gq_ledger *ledger, const char *ns_name, struct gq_reads *reads,
			    int64_t now_ns, struct gq_verdict *verdict, struct gq_view *view)
{
	static const struct gq_assign none = {GQ_ASSIGN_NONE, -1, -1, -1};
	char path[320];

	(void)snprintf(path, sizeof path, "/api/v1/namespaces/%s", ns_name);
	struct gq_read *read = gq_object_name_ok(ns_name)
				   ? gq_reads_get(reads, GQ_READ_NAMESPACE, path, gq_namespace_keep)
				   : NULL;
	if (read && !read->done) {
		gq_verdict_answer(verdict, GQ_VERDICT_READ, GQ_REASON_NOT_SYNCED);
		return false;
	}
	if (!read || read->code == GQ_ENOTFOUND) {
		view->assign = none;
		return true;
	}
	if (read->code || namespace_read(ledger, read, now_ns)) {
		gq_verdict_unavailable(verdict, GQ_REASON_NOT_SYNCED);
		return false;
	}
	gq_view_done(view);
	look(ledger, ns_name, verdict, view); /* ready once is ready for good */
	if (view->assign.kind == GQ_ASSIGN_UNKNOWN)
		view->assign = none;
	return true;
}

bool gq_view_take(struct gq_ledger *ledger, const char *ns_name, struct gq_reads *reads,
		  int64_t now_ns, struct gq_verdict *verdict, struct gq_view *ret_view)
{
	if (!look(ledger, ns_name, verdict, ret_view)) {
		gq_verdict_unavailable(verdict, GQ_REASON_NOT_SYNCED);
		return false;
	}
	if (ret_view->assign.kind == GQ_ASSIGN_UNKNOWN &&
	    !look_at_unknown(ledger, ns_name, reads, now_ns, verdict, ret_view))
		return false;
	const struct gq_tenant *tenant = gq_view_tenant(ret_view);
	verdict->policy = gq_policy_ref(ret_view->policy);
	verdict->tenant = tenant ? tenant->name : NULL;
	verdict->locale = tenant ? tenant->locale : ret_view->policy->locale;
	return true;
}
