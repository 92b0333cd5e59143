#include "controller/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define TTL_MAX_S 3600

static const struct gq_option *find_option(const struct gq_option *options, size_t n,
					   const char *name, size_t len)
{
	for (size_t i = 0; i < n; i++)
		if (strlen(options[i].name) == len && memcmp(options[i].name, name, len) == 0)
			return &options[i];
	return NULL;
}

static int unknown_option(const struct gq_option *options, size_t n, const char *arg,
			  struct gq_err *err)
{
	char known[512] = "";
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(options[i].name);
		if (at + len + 5 > sizeof known)
			break;
		memcpy(known + at, i ? ", --" : "--", i ? 4 : 2);
		at += i ? 4 : 2;
		memcpy(known + at, options[i].name, len + 1);
		at += len;
	}
	return gq_fail(err, GQ_EINVALID, "unknown option %s; there are %s", arg, known);
}

int gq_options_parse(int argc, char **argv, const struct gq_option *options, size_t n_options,
		     const char **positional, size_t max, size_t *ret_n, struct gq_err *err)
{
	size_t n = 0;

	for (int i = 1; i < argc; i++) {
		const char *arg = argv[i];
		if (strncmp(arg, "--", 2) != 0) {
			if (n == max)
				return gq_fail(err, GQ_EINVALID, "unexpected argument %s", arg);
			positional[n++] = arg;
			continue;
		}
		const char *equals = strchr(arg, '=');
		size_t len = equals ? (size_t)(equals - arg) - 2 : strlen(arg + 2);
		const struct gq_option *option =
		    find_option(options, n_options, arg + 2, len);
		if (!option)
			return unknown_option(options, n_options, arg, err);
		if (*option->value)
			return gq_fail(err, GQ_EINVALID, "--%s is given twice", option->name);
		if (!equals && i + 1 == argc)
			return gq_fail(err, GQ_EINVALID, "--%s needs a value", option->name);
		*option->value = equals ? equals + 1 : argv[++i];
	}
	*ret_n = n;
	return 0;
}

static const char *or_default(const char *value, const char *fallback)
{
	return value ? value : fallback;
}

static int parse_leader_elect(const char *value, struct gq_err *err)
{
	if (strcmp(value, "false") == 0)
		return 0;
	if (strcmp(value, "true") != 0)
		return gq_fail(err, GQ_EINVALID, "--leader-elect is true or false, not %s", value);
	return gq_fail(err, GQ_EINVALID,
		       "--leader-elect=true is not supported by this version, which runs as one "
		       "replica (strategy: Recreate): pass --leader-elect=false");
}

static int parse_ttl(const char *value, int64_t *ret_ns, struct gq_err *err)
{
	char *end;

	errno = 0;
	long seconds = strtol(value, &end, 10);
	if (errno || end == value || *end || seconds < 1 || seconds > TTL_MAX_S)
		return gq_fail(err, GQ_EINVALID,
			       "--reservation-ttl is a number of seconds from 1 to %d, not %s",
			       TTL_MAX_S, value);
	*ret_ns = seconds * GQ_NS_PER_S;
	return 0;
}

int gq_serve_options_parse(int argc, char **argv, struct gq_serve_options *ret_options,
			   struct gq_err *err)
{
	struct gq_serve_options o = {0};
	const char *leader_elect = NULL, *ttl = NULL, *level = NULL, *format = NULL;
	const struct gq_option options[] = {
	    {"kubeconfig", &o.kubeconfig},
	    {"namespace", &o.namespace_},
	    {"listen", &o.listen},
	    {"metrics-listen", &o.metrics_listen},
	    {"tls-cert", &o.tls_cert},
	    {"tls-key", &o.tls_key},
	    {"leader-elect", &leader_elect},
	    {"identity", &o.identity},
	    {"reservation-ttl", &ttl},
	    {"log-level", &level},
	    {"log-format", &format},
	};
	size_t n;

	int code = gq_options_parse(argc, argv, options, sizeof options / sizeof options[0], NULL, 0,
				    &n, err);
	if (!code)
		code = parse_leader_elect(or_default(leader_elect, "true"), err);
	if (!code)
		code = parse_ttl(or_default(ttl, "60"), &o.reservation_ttl_ns, err);
	if (code)
		return code;
	if (gq_log_level_parse(or_default(level, "info"), &o.log_level))
		return gq_fail(err, GQ_EINVALID,
			       "--log-level is debug, info, warn or error, not %s", level);
	if (gq_log_format_parse(or_default(format, "text"), &o.log_format))
		return gq_fail(err, GQ_EINVALID, "--log-format is text or json, not %s", format);
	if (!o.tls_cert || !o.tls_key)
		return gq_fail(err, GQ_EINVALID,
			       "--tls-cert and --tls-key are needed: the API server calls webhooks "
			       "over HTTPS only");
	o.namespace_ = or_default(o.namespace_, "gpuquota-system");
	o.listen = or_default(o.listen, ":9443");
	o.metrics_listen = or_default(o.metrics_listen, ":9402");
	o.identity = or_default(o.identity, or_default(getenv("HOSTNAME"), "gpuquota"));
	*ret_options = o;
	return 0;
}
