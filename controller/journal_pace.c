#include "controller/journal_pace.h"

static int64_t later(int64_t a_ns, int64_t b_ns)
{
	return a_ns > b_ns ? a_ns : b_ns;
}

void gq_pace_init(struct gq_pace *pace, int64_t now_ns)
{
	*pace = (struct gq_pace){.tokens = GQ_PACE_BURST_BYTES, .tokens_ns = now_ns};
}

static void refill(struct gq_pace *pace, int64_t now_ns)
{
	double passed_s = (double)(now_ns - pace->tokens_ns) / (double)GQ_NS_PER_S;

	pace->tokens += passed_s * GQ_PACE_BYTES_PER_S;
	if (pace->tokens > GQ_PACE_BURST_BYTES)
		pace->tokens = GQ_PACE_BURST_BYTES;
	pace->tokens_ns = now_ns;
}

void gq_pace_written(struct gq_pace *pace, size_t bytes, int64_t now_ns)
{
	refill(pace, now_ns);
	pace->tokens -= (double)bytes;
	pace->written_ns = now_ns;
}

void gq_pace_failed(struct gq_pace *pace, int retry_after_s, int64_t now_ns)
{
	int64_t wait_ns = retry_after_s * GQ_NS_PER_S;

	pace->backoff_ns = pace->backoff_ns ? 2 * pace->backoff_ns : GQ_PACE_RETRY_MIN_NS;
	if (pace->backoff_ns > GQ_PACE_RETRY_MAX_NS)
		pace->backoff_ns = GQ_PACE_RETRY_MAX_NS;
	wait_ns = later(wait_ns, pace->backoff_ns);
	if (wait_ns > GQ_PACE_RETRY_MAX_NS)
		wait_ns = GQ_PACE_RETRY_MAX_NS;
	pace->retry_ns = now_ns + wait_ns;
}

void gq_pace_works(struct gq_pace *pace)
{
	pace->backoff_ns = 0;
	pace->retry_ns = 0;
}

int64_t gq_pace_write_ns(struct gq_pace *pace, int64_t now_ns)
{
	int64_t at_ns = pace->retry_ns;

	if (pace->written_ns)
		at_ns = later(at_ns, pace->written_ns + GQ_PACE_INTERVAL_NS);
	refill(pace, now_ns);
	if (pace->tokens < 0)
		at_ns = later(at_ns, now_ns + (int64_t)(-pace->tokens / GQ_PACE_BYTES_PER_S *
							(double)GQ_NS_PER_S));
	return at_ns;
}
