#include "controller/drift_log.h"

#include "base/buf.h"
#include "base/log.h"
#include "quota/quantity.h"

/* Twenty names at their longest fit. */
#define TEXT_MAX_BYTES (7u << 10)

static void log_limit(const struct gq_drift_limit *limit)
{
	struct gq_buf gpus GQ_BUF_CLEANUP = GQ_BUF_INIT(64);

	gq_buf_puts(&gpus, limit->shares < 0 ? "-" : "");
	gq_shares_print(&gpus, limit->shares < 0 ? -limit->shares : limit->shares);
	gq_log(GQ_LOG_ERROR, "a recount found a total that was wrong and repaired it",
	       GQ_S("tenant", limit->tenant), GQ_S("class", limit->class_name),
	       GQ_S("gpus_too_many", gpus.data), GQ_I("mib_too_many", limit->memory_mib));
}

void gq_drift_log(const struct gq_drift *drift)
{
	struct gq_buf pods GQ_BUF_CLEANUP = GQ_BUF_INIT(TEXT_MAX_BYTES);

	for (size_t i = 0; i < drift->n_limits; i++)
		log_limit(&drift->limits[i]);
	if (drift->more_limits)
		gq_log(GQ_LOG_ERROR, "a recount repaired more totals than it can name",
		       GQ_I("more", drift->more_limits));
	for (size_t i = 0; i < drift->n_pods; i++)
		gq_buf_printf(&pods, "%s%s", i ? " " : "", drift->pods[i]);
	if (drift->more_pods)
		gq_buf_printf(&pods, " and %zu more", drift->more_pods);
	if (drift->n_pods || drift->more_pods)
		gq_log(GQ_LOG_ERROR, "a recount found charges that were wrong and repaired them",
		       GQ_S("pods", pods.data));
}
