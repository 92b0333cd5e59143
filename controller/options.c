#include "controller/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "quota/object.h"

#define TTL_MAX_S 3600

/* An option as it stands in an argument: "--name", "--name=value", "-n", "-nvalue", "-n=value". */
struct given {
	int shown; /* length of the option itself in the argument, for messages */
	const struct gq_option *option;
	const char *value; /* in the same argument, or NULL */
};

static struct given read_long(const char *arg, const struct gq_option *options, size_t n)
{
	const char *name = arg + 2;
	size_t len = strcspn(name, "=");
	struct given given = {.shown = (int)len + 2,
			      .value = name[len] == '=' ? name + len + 1 : NULL};

	for (size_t i = 0; i < n; i++)
		if (strlen(options[i].name) == len && memcmp(options[i].name, name, len) == 0)
			given.option = &options[i];
	return given;
}

static struct given read_short(const char *arg, const struct gq_option *options, size_t n)
{
	struct given given = {.shown = 2,
			      .value = arg[2] == '=' ? arg + 3
				       : arg[2]      ? arg + 2
						     : NULL};

	for (size_t i = 0; i < n && arg[1] != GQ_OPTION_FLAG; i++)
		if (options[i].letter && options[i].letter == arg[1])
			given.option = &options[i];
	return given;
}

/* Names the option without its value, which may be a secret. */
static int unknown_option(const struct gq_option *options, size_t n, const char *arg, int shown,
			  struct gq_err *err)
{
	struct gq_buf known GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_ERR_MAX / 2);

	for (size_t i = 0; i < n; i++) {
		gq_buf_puts(&known, i ? ", --" : "--");
		gq_buf_puts(&known, options[i].name);
		if (options[i].letter && options[i].letter != GQ_OPTION_FLAG)
			gq_buf_printf(&known, " (-%c)", options[i].letter);
	}
	return gq_fail(err, GQ_EINVALID, "unknown option %.*s; there are %s", shown, arg,
		       known.data ? known.data : "none");
}

int gq_options_parse(int argc, char **argv, const struct gq_option *options, size_t n_options,
		     const char **positional, size_t max, size_t *ret_n, struct gq_err *err)
{
	bool only_positional = false;
	size_t n = 0;

	for (int i = 1; i < argc; i++) {
		const char *arg = argv[i];
		if (!only_positional && strcmp(arg, "--") == 0) {
			only_positional = true;
			continue;
		}
		if (only_positional || arg[0] != '-' || !arg[1]) {
			if (n == max)
				return gq_fail(err, GQ_EINVALID, "unexpected argument %s", arg);
			positional[n++] = arg;
			continue;
		}
		struct given given = arg[1] == '-' ? read_long(arg, options, n_options)
						   : read_short(arg, options, n_options);
		if (!given.option)
			return unknown_option(options, n_options, arg, given.shown, err);
		if (*given.option->value)
			return gq_fail(err, GQ_EINVALID, "--%s is given twice", given.option->name);
		if (given.option->letter == GQ_OPTION_FLAG) {
			if (given.value)
				return gq_fail(err, GQ_EINVALID, "--%s takes no value",
					       given.option->name);
			*given.option->value = "";
			continue;
		}
		if (!given.value && (i + 1 == argc || (argv[i + 1][0] == '-' && argv[i + 1][1])))
			return gq_fail(err, GQ_EINVALID, "--%s needs a value", given.option->name);
		*given.option->value = given.value ? given.value : argv[++i];
	}
	*ret_n = n;
	return 0;
}

int gq_options_namespace(const char *value, struct gq_err *err)
{
	if (!gq_object_name_ok(value))
		return gq_fail(err, GQ_EINVALID, "--namespace: %s is no name of a namespace",
			       value);
	return 0;
}

static const char *or_default(const char *value, const char *fallback)
{
	return value ? value : fallback;
}

static int parse_leader_elect(const char *value, bool *ret_elect, struct gq_err *err)
{
	*ret_elect = strcmp(value, "true") == 0;
	if (!*ret_elect && strcmp(value, "false") != 0)
		return gq_fail(err, GQ_EINVALID, "--leader-elect is true or false, not %s", value);
	return 0;
}

static int parse_ttl(const char *value, int64_t *ret_ns, struct gq_err *err)
{
	char *end;

	errno = 0;
	long seconds = strtol(value, &end, 10);
	if (errno || value[0] < '0' || value[0] > '9' || *end || seconds < 1 || seconds > TTL_MAX_S)
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
	    {"kubeconfig", 0, &o.kubeconfig},   {"namespace", 'n', &o.namespace_},
	    {"listen", 0, &o.listen},           {"metrics-listen", 0, &o.metrics_listen},
	    {"tls-cert", 0, &o.tls_cert},       {"tls-key", 0, &o.tls_key},
	    {"leader-elect", 0, &leader_elect}, {"identity", 0, &o.identity},
	    {"reservation-ttl", 0, &ttl},       {"log-level", 0, &level},
	    {"log-format", 0, &format},
	};
	size_t n;

	int code = gq_options_parse(argc, argv, options, sizeof options / sizeof options[0], NULL,
				    0, &n, err);
	if (!code)
		code = parse_leader_elect(or_default(leader_elect, "true"), &o.leader_elect, err);
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
	code = gq_options_namespace(o.namespace_, err);
	if (code)
		return code;
	o.listen = or_default(o.listen, ":9443");
	o.metrics_listen = or_default(o.metrics_listen, ":9402");
	o.identity = or_default(o.identity, or_default(getenv("HOSTNAME"), "gpuquota"));
	if (!o.identity[0])
		return gq_fail(
		    err, GQ_EINVALID,
		    "--identity, or $HOSTNAME without it, is empty: give the name of the "
		    "pod, or another that no other replica has");
	*ret_options = o;
	return 0;
}
