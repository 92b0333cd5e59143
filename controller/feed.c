#include "controller/feed.h"

#include "quota/object.h"

static int64_t now(const struct gq_feed *feed)
{
	return gq_clock_mono_ns(feed->clock);
}

/* The events that are alike for every collection. Returns whether this was one. */
static bool list_event(const struct gq_feed *feed, enum gq_collection collection,
		       const struct gq_event *event, int *ret_code, struct gq_err *err)
{
	*ret_code = 0;
	if (event->kind == GQ_EVENT_LIST_BEGIN)
		gq_ledger_list_begin(feed->ledger, collection);
	else if (event->kind == GQ_EVENT_LIST_END)
		*ret_code = gq_ledger_list_end(feed->ledger, collection, now(feed), err);
	else if (event->kind == GQ_EVENT_IDLE && collection == GQ_NODES)
		*ret_code = gq_ledger_nodes_settle(feed->ledger, now(feed), err);
	else
		return event->kind == GQ_EVENT_IDLE;
	return true;
}

int gq_feed_pods(void *arg, const struct gq_event *event, struct gq_err *err)
{
	struct gq_feed *feed = arg;
	struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = NULL;
	int code;

	if (list_event(feed, GQ_PODS, event, &code, err))
		return code;
	code = gq_pod_decode(event->json, event->len, NULL, &pod, err);
	if (code)
		return code;
	if (event->kind == GQ_EVENT_UPSERT)
		return gq_ledger_pod_seen(feed->ledger, pod, now(feed), err);
	gq_ledger_pod_gone(feed->ledger, pod->uid, now(feed));
	return 0;
}

int gq_feed_nodes(void *arg, const struct gq_event *event, struct gq_err *err)
{
	struct gq_feed *feed = arg;
	struct gq_node *node GQ_CLEANUP(gq_cleanup_node) = NULL;
	int code;

	if (list_event(feed, GQ_NODES, event, &code, err))
		return code;
	code = gq_node_decode(event->json, event->len, &node, err);
	if (code)
		return code;
	if (event->kind == GQ_EVENT_UPSERT)
		return gq_ledger_node_seen(feed->ledger, node, err);
	gq_ledger_node_gone(feed->ledger, node->name);
	return 0;
}

int gq_feed_namespaces(void *arg, const struct gq_event *event, struct gq_err *err)
{
	struct gq_feed *feed = arg;
	struct gq_namespace *ns GQ_CLEANUP(gq_cleanup_namespace) = NULL;
	int code;

	if (list_event(feed, GQ_NAMESPACES, event, &code, err))
		return code;
	code = gq_namespace_decode(event->json, event->len, &ns, err);
	if (code)
		return code;
	if (event->kind == GQ_EVENT_UPSERT)
		return gq_ledger_namespace_seen(feed->ledger, ns, now(feed), err);
	gq_ledger_namespace_gone(feed->ledger, ns->name);
	return 0;
}
