#ifndef GQ_WEBHOOK_WARNINGS_H
#define GQ_WEBHOOK_WARNINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "quota/locale.h"

/* Warnings as Kubernetes passes them on. The API server drops one that is empty or has a control
 * character; it counts runes, and once those of one request are more than 4096 it cuts each at 256
 * and what comes after the 4096th is lost. client-go has the same idea of control characters and no
 * limit of its own; kubectl prints a line for each, and each text but once.
 * Source: k8s.io/apiserver/pkg/endpoints/filters/warning.go; k8s.io/apimachinery/pkg/util/net,
 * http.go; k8s.io/client-go/rest/warnings.go. */

#define GQ_WARNING_RUNES_MAX 256
#define GQ_WARNINGS_RUNES_MAX 4096

struct gq_warnings {
	const char *const *texts; /* may have several lines, and be longer than 256 runes */
	size_t n;
	bool cut; /* there were more of them than stand here */
	enum gq_locale locale;
};

/* Appends a JSON array of warnings that arrive as they are: a line each, a line of more than 256
 * runes as several, broken at a space or after a Chinese punctuation mark where there is one. All
 * together have at most 4096 runes: what would be more is left out from the end, and the last
 * warning says so. Returns out->code. */
int gq_warnings_print(struct gq_buf *out, const struct gq_warnings *warnings);

#endif
