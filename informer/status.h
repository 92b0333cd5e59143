#ifndef GQ_INFORMER_STATUS_H
#define GQ_INFORMER_STATUS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json_filter.h"

/* What a Status object says: the body of a failed request, or the object of an ERROR event.
 * Source: apimachinery, meta/v1 Status. */
struct gq_api_status {
	long code; /* 0 when absent */
	char reason[64];
	char message[512];
	int retry_after_s;      /* 0 when not told */
	bool version_too_large; /* the resourceVersion asked for is ahead of the server */
};

/* The fields that gq_api_status_parse() reads. */
extern const struct gq_json_keep gq_api_status_keep[];

/* False when the bytes are no Status (not JSON, another kind); ret is all zero then. */
bool gq_api_status_parse(const char *json, size_t len, struct gq_api_status *ret);

/* The error code of an HTTP status, 0 for 2xx. */
int gq_api_status_code(long http_status);

#endif
