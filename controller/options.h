#ifndef GQ_CONTROLLER_OPTIONS_H
#define GQ_CONTROLLER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"

/* Command lines. Every option is --name VALUE or --name=VALUE. */

struct gq_option {
	const char *name; /* without the dashes */
	const char **value;
};

/* Reads options out of argv[1…]; what is no option goes to positional (at most max). Errors:
 * GQ_EINVALID an unknown option (with the nearest known one), a missing value, given twice, too many
 * arguments. */
int gq_options_parse(int argc, char **argv, const struct gq_option *options, size_t n_options,
		     const char **positional, size_t max, size_t *ret_n, struct gq_err *err);

struct gq_serve_options {
	const char *kubeconfig; /* NULL: found */
	const char *namespace_;
	const char *listen;
	const char *metrics_listen;
	const char *tls_cert;
	const char *tls_key;
	const char *identity;
	int64_t reservation_ttl_ns;
	enum gq_log_level log_level;
	enum gq_log_format log_format;
};

/* argv[0] is "serve". Strings point into argv or static storage. */
int gq_serve_options_parse(int argc, char **argv, struct gq_serve_options *ret_options,
			   struct gq_err *err);

#endif
