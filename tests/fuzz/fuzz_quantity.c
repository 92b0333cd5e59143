/* Quantities: no overflow, rounding up and never down, and printing that reads back. */
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "quota/amount.h"
#include "quota/quantity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct gq_err err = {0};
	enum gq_exactness exact = GQ_EXACT;
	int64_t ones = -1, shares = -1;

	int code = gq_quantity_units(text, size, 1, &ones, &exact, &err);
	check(code == 0 ? ones >= 0 && ones < GQ_UNLIMITED : err.code == code && err.msg[0]);
	int share_code = gq_quantity_units(text, size, GQ_SHARES_PER_GPU, &shares, NULL, NULL);
	check((code == GQ_EINVALID) == (share_code == GQ_EINVALID));
	if (!code && !share_code) {
		check(shares <= gq_sat_mul(ones, GQ_SHARES_PER_GPU));
		check(exact == GQ_ROUNDED || shares == ones * GQ_SHARES_PER_GPU);
		check(ones == shares / GQ_SHARES_PER_GPU + (shares % GQ_SHARES_PER_GPU != 0) ||
		      exact == GQ_ROUNDED);
	}
	if (!code) {
		struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(64);
		int64_t mib = ones >> 20, again = -1;
		check(gq_mib_print(&out, mib) == 0);
		check(gq_quantity_units(out.data, out.len, 1, &again, NULL, NULL) == 0 &&
		      again >> 20 == mib);
	}
	if (!share_code) {
		struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(64);
		int64_t again = -1;
		check(gq_shares_print(&out, shares) == 0);
		check(gq_quantity_units(out.data, out.len, GQ_SHARES_PER_GPU, &again, NULL, NULL) ==
		      0);
		check(again <= shares && shares - again <= GQ_SHARES_PER_GPU / 1000);
	}
	return 0;
}
