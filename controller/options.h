#ifndef GQ_CONTROLLER_OPTIONS_H
#define GQ_CONTROLLER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"

/* Command lines. Every option but a flag has a value: --name VALUE, --name=VALUE, and where it has
 * a letter -n VALUE, -nVALUE, -n=VALUE. A value that begins with a dash is given by one of the
 * forms in one argument. Behind "--" nothing is an option, and "-" alone never is. */

#define GQ_OPTION_FLAG '\1'

struct gq_option {
	const char *name;   /* without the dashes */
	char letter;        /* or 0; GQ_OPTION_FLAG: it has neither a letter nor a value */
	const char **value; /* NULL until it is given; "" of a flag */
};

/* Reads options out of argv[1…]; what is no option goes to positional (at most max). Errors:
 * GQ_EINVALID an unknown option (with those there are), a missing value, given twice, too many
 * arguments. */
int gq_options_parse(int argc, char **argv, const struct gq_option *options, size_t n_options,
		     const char **positional, size_t max, size_t *ret_n, struct gq_err *err);

/* Whether a value of --namespace can be one; it becomes part of a path. */
int gq_options_namespace(const char *value, struct gq_err *err);

struct gq_serve_options {
	const char *kubeconfig; /* NULL: found */
	const char *namespace_;
	const char *listen;
	const char *metrics_listen;
	const char *tls_cert;
	const char *tls_key;
	const char *identity;
	bool leader_elect; /* false: this is the only replica */
	int64_t reservation_ttl_ns;
	enum gq_log_level log_level;
	enum gq_log_format log_format;
};

/* argv[0] is "serve". Strings point into argv or static storage. */
int gq_serve_options_parse(int argc, char **argv, struct gq_serve_options *ret_options,
			   struct gq_err *err);

#endif
