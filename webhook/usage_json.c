#include <inttypes.h>
#include <string.h>

#include "quota/quantity.h"
#include "webhook/metrics.h"

static void put_string(struct gq_buf *out, const char *text)
{
	gq_buf_json_string(out, text, strlen(text));
}

static void put_gpus(struct gq_buf *out, const char *key, int64_t shares)
{
	gq_buf_printf(out, "\"%s\":", key);
	if (shares == GQ_UNLIMITED) {
		gq_buf_puts(out, "null");
		return;
	}
	gq_buf_putc(out, '"');
	gq_shares_print(out, shares);
	gq_buf_putc(out, '"');
}

static void put_mib(struct gq_buf *out, const char *key, int64_t mib)
{
	gq_buf_printf(out, "\"%s\":", key);
	if (mib == GQ_UNLIMITED)
		gq_buf_puts(out, "null");
	else
		gq_buf_printf(out, "%" PRId64, mib);
}

/* One currency of a limit. */
static void put_numbers(struct gq_buf *out, const char *currency,
			const struct gq_usage_limit *limit,
			int64_t (*pick)(struct gq_amount amount),
			void (*put)(struct gq_buf *out, const char *key, int64_t value))
{
	gq_buf_printf(out, ",\"%s\":{", currency);
	put(out, "limit", pick(limit->most));
	gq_buf_putc(out, ',');
	put(out, "used", pick(gq_usage_used(limit)));
	for (int s = 0; s < GQ_STATES; s++) {
		gq_buf_putc(out, ',');
		put(out, gq_charge_state_name((enum gq_charge_state)s), pick(limit->used[s]));
	}
	gq_buf_putc(out, ',');
	put(out, "unready", pick(limit->unready));
	gq_buf_putc(out, ',');
	put(out, "free", pick(gq_usage_free(limit)));
	gq_buf_putc(out, '}');
}

static int64_t pick_shares(struct gq_amount amount)
{
	return amount.shares;
}

static int64_t pick_mib(struct gq_amount amount)
{
	return amount.memory_mib;
}

void gq_usage_print_tenant(struct gq_buf *out, const struct gq_usage_tenant *tenant)
{
	gq_buf_puts(out, "{\"name\":");
	put_string(out, tenant->name);
	gq_buf_puts(out, ",\"parent\":");
	if (tenant->parent)
		put_string(out, tenant->parent);
	else
		gq_buf_puts(out, "null");
	gq_buf_printf(out, ",\"mode\":\"%s\",\"limits\":[", gq_mode_name(tenant->mode));
	for (size_t i = 0; i < tenant->n_limits; i++) {
		gq_buf_puts(out, i ? ",{\"class\":" : "{\"class\":");
		put_string(out, tenant->limits[i].class_name);
		put_numbers(out, "gpus", &tenant->limits[i], pick_shares, put_gpus);
		put_numbers(out, "memoryMiB", &tenant->limits[i], pick_mib, put_mib);
		gq_buf_putc(out, '}');
	}
	gq_buf_puts(out, "]}");
}

void gq_usage_print_uncharged(struct gq_buf *out, const struct gq_usage_uncharged *uncharged)
{
	gq_buf_puts(out, "{\"namespace\":");
	put_string(out, uncharged->namespace_);
	gq_buf_printf(out, ",\"pods\":%zu,\"ambiguous\":%s}", uncharged->pods,
		      uncharged->ambiguous ? "true" : "false");
}

int gq_usage_print_json(struct gq_buf *out, const struct gq_usage *usage)
{
	gq_buf_puts(out, "{\"policyHash\":");
	if (usage->policy)
		put_string(out, usage->policy->hash);
	else
		gq_buf_puts(out, "null");
	gq_buf_printf(out, ",\"synced\":%s,\"tenants\":[", usage->synced ? "true" : "false");
	for (size_t t = 0; t < usage->n_tenants; t++) {
		gq_buf_puts(out, t ? ",\n" : "\n");
		gq_usage_print_tenant(out, &usage->tenants[t]);
	}
	gq_buf_puts(out, "],\"uncharged\":[");
	for (size_t i = 0; i < usage->n_uncharged; i++) {
		gq_buf_puts(out, i ? "," : "");
		gq_usage_print_uncharged(out, &usage->uncharged[i]);
	}
	return gq_buf_puts(out, "]}\n");
}
