#ifndef GQ_WEBHOOK_TIMEOUT_H
#define GQ_WEBHOOK_TIMEOUT_H

#include <stdint.h>

#include "base/err.h"

/* The API server's ?timeout=10s as nanoseconds; *ret_ns stays when the query has none. Go's
 * duration syntax: decimal numbers with a unit each, "1m30s", "1.5s", "500ms". Errors: GQ_EINVALID
 * not a positive duration. Source: Go, time.ParseDuration. */
int gq_timeout_of_query(const char *query, int64_t *ret_ns, struct gq_err *err);

#endif
