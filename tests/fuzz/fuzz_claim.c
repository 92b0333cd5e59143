/* The decoders of DRA objects on raw bytes: as JSON, and as the CEL expression of a DeviceClass. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "quota/object.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	struct gq_claim *claim = NULL;
	struct gq_err err = {0};
	bool harmless = false;

	int code = gq_claim_decode((const char *)data, size, &claim, &err);
	if (code) {
		check(!claim && err.code == code && err.msg[0]);
	} else {
		check(claim->n_device_classes > 0);
		for (size_t i = 0; i < claim->n_device_classes; i++)
			check(*claim->device_classes[i] != '\0');
	}
	gq_claim_free(claim);
	(void)gq_device_class_decode((const char *)data, size, &harmless, NULL);

	gq_buf_puts(&json, "{\"spec\":{\"selectors\":[{\"cel\":{\"expression\":");
	gq_buf_json_string(&json, (const char *)data, size);
	if (gq_buf_puts(&json, "}}]}}"))
		return 0;
	harmless = false;
	if (gq_device_class_decode(json.data, json.len, &harmless, NULL) == 0 && harmless)
		check(memmem(data, size, "device", 6) && memmem(data, size, "driver", 6));
	return 0;
}
