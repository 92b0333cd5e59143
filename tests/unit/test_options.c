#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "controller/options.h"
#include "tests/unit/app_testing.h"

#define ARGV_MAX 24

/* Splits at spaces; "~" is an empty argument. Uses text. */
static int split(char *text, char **argv)
{
	int argc = 0;

	argv[argc++] = (char *)(uintptr_t) "command";
	for (char *word = strtok_r(text, " ", &text); word; word = strtok_r(NULL, " ", &text)) {
		assert_true(argc < ARGV_MAX - 1);
		if (strcmp(word, "~") == 0)
			*word = '\0';
		argv[argc++] = word;
	}
	argv[argc] = NULL;
	return argc;
}

static void general(void **state)
{
	static const struct {
		const char *line, *output, *file, *first, *second; /* positional */
		size_t n;
	} cases[] = {
	    {"", NULL, NULL, NULL, NULL, 0},
	    {"--output json", "json", NULL, NULL, NULL, 0},
	    {"--output=json", "json", NULL, NULL, NULL, 0},
	    {"-o json", "json", NULL, NULL, NULL, 0},
	    {"-ojson", "json", NULL, NULL, NULL, 0},
	    {"-o=json", "json", NULL, NULL, NULL, 0},
	    {"--output=", "", NULL, NULL, NULL, 0},
	    {"--output ~", "", NULL, NULL, NULL, 0},
	    {"--output=a=b", "a=b", NULL, NULL, NULL, 0},
	    {"--output=-x", "-x", NULL, NULL, NULL, 0},
	    {"-o--", "--", NULL, NULL, NULL, 0},
	    {"--file -", NULL, "-", NULL, NULL, 0},
	    {"x -o json y", "json", NULL, "x", "y", 2},
	    {"- --file=f", NULL, "f", "-", NULL, 1},
	    {"-o json -- --file", "json", NULL, "--file", NULL, 1},
	    {"-- -- -o", NULL, NULL, "--", "-o", 2},
	    {"~ x", NULL, NULL, "", "x", 2},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		const char *output = NULL, *file = NULL, *positional[2];
		const struct gq_option options[] = {{"output", 'o', &output}, {"file", 0, &file}};
		char *text = strdup(cases[i].line), *argv[ARGV_MAX];
		struct gq_err err = {0};
		size_t n = 99;
		int argc = split(text, argv);
		print_message("%s\n", cases[i].line);
		if (gq_options_parse(argc, argv, options, LEN(options), positional, 2, &n, &err))
			fail_msg("%s", err.msg);
		assert_int_equal(n, cases[i].n);
		if (cases[i].output)
			assert_string_equal(output, cases[i].output);
		else
			assert_null(output);
		if (cases[i].file)
			assert_string_equal(file, cases[i].file);
		else
			assert_null(file);
		if (n > 0)
			assert_string_equal(positional[0], cases[i].first);
		if (n > 1)
			assert_string_equal(positional[1], cases[i].second);
		free(text);
	}
}

static void general_errors(void **state)
{
	static const struct {
		const char *line, *message;
	} cases[] = {
	    {"--nope", "unknown option --nope; there are --output (-o), --file"},
	    {"--nope=secret", "unknown option --nope;"},
	    {"--outputs json", "unknown option --outputs"},
	    {"--outpu json", "unknown option --outpu"},
	    {"--=x", "unknown option --;"},
	    {"-x", "unknown option -x;"},
	    {"-f", "unknown option -f;"},
	    {"-fx", "unknown option -f;"},
	    {"---output=x", "unknown option ---output"},
	    {"-=x", "unknown option -="},
	    {"--output", "--output needs a value"},
	    {"-o", "--output needs a value"},
	    {"--output --file x", "--output needs a value"},
	    {"--output -o", "--output needs a value"},
	    {"--output --", "--output needs a value"},
	    {"--output a --output b", "--output is given twice"},
	    {"--output=a -ob", "--output is given twice"},
	    {"--output= --output=", "--output is given twice"},
	    {"a b c", "unexpected argument c"},
	    {"-- a b -c", "unexpected argument -c"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		const char *output = NULL, *file = NULL, *positional[2];
		const struct gq_option options[] = {{"output", 'o', &output}, {"file", 0, &file}};
		char *text = strdup(cases[i].line), *argv[ARGV_MAX];
		struct gq_err err = {0};
		size_t n = 99;
		int argc = split(text, argv);
		if (gq_options_parse(argc, argv, options, LEN(options), positional, 2, &n, &err) !=
		    GQ_EINVALID)
			fail_msg("%s is taken", cases[i].line);
		assert_has(err.msg, cases[i].message);
		assert_has_not(err.msg, "secret");
		assert_int_equal(n, 99);
		free(text);
	}
}

/* An option without a value. */
static void flags(void **state)
{
	static const struct {
		const char *line, *output, *message;
		bool given;
	} cases[] = {
	    {"", NULL, NULL, false},
	    {"--fast", NULL, NULL, true},
	    {"--fast -o json", "json", NULL, true},
	    {"-o json --fast", "json", NULL, true},
	    {"-- ", NULL, NULL, false},
	    {"--fast json", NULL, "unexpected argument json", true},
	    {"--fast=yes", NULL, "--fast takes no value", false},
	    {"--fast=", NULL, "--fast takes no value", false},
	    {"--fast --fast", NULL, "--fast is given twice", true},
	    {"-\1", NULL, "unknown option", false},
	    {"-x", NULL, "there are --output (-o), --fast", false},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		const char *output = NULL, *fast = NULL;
		const struct gq_option options[] = {{"output", 'o', &output},
						    {"fast", GQ_OPTION_FLAG, &fast}};
		char *text = strdup(cases[i].line), *argv[ARGV_MAX];
		struct gq_err err = {0};
		size_t n = 99;
		int argc = split(text, argv);
		int code = gq_options_parse(argc, argv, options, LEN(options), NULL, 0, &n, &err);
		assert_int_equal(code, cases[i].message ? GQ_EINVALID : 0);
		if (cases[i].message)
			assert_has(err.msg, cases[i].message);
		else
			assert_int_equal(cases[i].given, fast != NULL);
		if (cases[i].output)
			assert_string_equal(output, cases[i].output);
		free(text);
	}
}

static int serve(const char *line, struct gq_serve_options *ret_options, struct gq_err *err)
{
	static char text[1024]; /* the options point into it */
	static char *argv[ARGV_MAX];

	(void)snprintf(text, sizeof text, "%s", line);
	int argc = split(text, argv);
	return gq_serve_options_parse(argc, argv, ret_options, err);
}

#define NEEDED "--tls-cert c --tls-key k"

static void serve_defaults(void **state)
{
	struct gq_serve_options o = {0};
	struct gq_err err = {0};

	(void)state;
	assert_int_equal(setenv("HOSTNAME", "gpuquota-0", 1), 0);
	assert_int_equal(serve(NEEDED, &o, &err), 0);
	assert_null(o.kubeconfig);
	assert_string_equal(o.namespace_, "gpuquota-system");
	assert_string_equal(o.listen, ":9443");
	assert_string_equal(o.metrics_listen, ":9402");
	assert_string_equal(o.tls_cert, "c");
	assert_string_equal(o.tls_key, "k");
	assert_true(o.leader_elect);
	assert_string_equal(o.identity, "gpuquota-0");
	assert_true(o.reservation_ttl_ns == 60 * GQ_NS_PER_S);
	assert_int_equal(o.log_level, GQ_LOG_INFO);
	assert_int_equal(o.log_format, GQ_LOG_TEXT);
	assert_int_equal(unsetenv("HOSTNAME"), 0);
	assert_int_equal(serve(NEEDED, &o, &err), 0);
	assert_true(o.identity[0] != '\0');
}

static void serve_every_option(void **state)
{
	static const char *const lines[] = {
	    "--kubeconfig f --namespace ns --listen 1.2.3.4:5 --metrics-listen [::1]:6 --tls-cert "
	    "c --tls-key k --leader-elect false --identity me --reservation-ttl 90 --log-level "
	    "debug --log-format json",
	    "--kubeconfig=f --namespace=ns --listen=1.2.3.4:5 --metrics-listen=[::1]:6 "
	    "--tls-cert=c --tls-key=k --leader-elect=false --identity=me --reservation-ttl=90 "
	    "--log-level=debug --log-format=json"};

	(void)state;
	for (size_t i = 0; i < LEN(lines); i++) {
		struct gq_serve_options o = {0};
		struct gq_err err = {0};
		if (serve(lines[i], &o, &err))
			fail_msg("%s", err.msg);
		assert_string_equal(o.kubeconfig, "f");
		assert_string_equal(o.namespace_, "ns");
		assert_string_equal(o.listen, "1.2.3.4:5");
		assert_string_equal(o.metrics_listen, "[::1]:6");
		assert_string_equal(o.tls_cert, "c");
		assert_string_equal(o.tls_key, "k");
		assert_false(o.leader_elect);
		assert_string_equal(o.identity, "me");
		assert_true(o.reservation_ttl_ns == 90 * GQ_NS_PER_S);
		assert_int_equal(o.log_level, GQ_LOG_DEBUG);
		assert_int_equal(o.log_format, GQ_LOG_JSON);
	}
}

static void serve_errors(void **state)
{
	static const struct {
		const char *line, *message;
	} cases[] = {
	    {NEEDED " --leader-elect=maybe", "true or false, not maybe"},
	    {NEEDED " --leader-elect=", "true or false"},
	    {NEEDED " --leader-elect=False", "true or false"},
	    {NEEDED " --leader-elect=0", "true or false"},
	    {NEEDED " --leader-elect", "--leader-elect needs a value"},
	    {NEEDED " --leader-elect=true --leader-elect=false", "given twice"},
	    {"--tls-cert c", "--tls-key"},
	    {"--tls-key k", "--tls-cert"},
	    {"", "HTTPS"},
	    {NEEDED " --reservation-ttl 0", "from 1 to 3600"},
	    {NEEDED " --reservation-ttl=-1", "from 1 to 3600"},
	    {NEEDED " --reservation-ttl 3601", "from 1 to 3600"},
	    {NEEDED " --reservation-ttl 60s", "from 1 to 3600"},
	    {NEEDED " --reservation-ttl=+60", "from 1 to 3600"},
	    {NEEDED " --reservation-ttl=\t60", "from 1 to 3600"},
	    {NEEDED " --reservation-ttl 1.5", "from 1 to 3600"},
	    {NEEDED " --reservation-ttl=", "from 1 to 3600"},
	    {NEEDED " --reservation-ttl 99999999999999999999", "from 1 to 3600"},
	    {NEEDED " --log-level verbose", "--log-level is debug, info, warn or error"},
	    {NEEDED " --log-level=", "--log-level is"},
	    {NEEDED " --log-format xml", "--log-format is text or json, not xml"},
	    {NEEDED " --namespace ../../x", "--namespace"},
	    {NEEDED " --namespace=", "--namespace"},
	    {NEEDED " --namespace a?b", "--namespace"},
	    {NEEDED " --tls-cert d", "given twice"},
	    {NEEDED " stray", "unexpected argument stray"},
	    {NEEDED " --listne :1", "unknown option --listne; there are --kubeconfig"},
	    {NEEDED " --listen", "--listen needs a value"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_serve_options o = {.listen = "untouched"};
		struct gq_err err = {0};
		if (serve(cases[i].line, &o, &err) != GQ_EINVALID)
			fail_msg("%s is taken", cases[i].line);
		assert_has(err.msg, cases[i].message);
		assert_string_equal(o.listen, "untouched");
	}
}

static void serve_leader_elect(void **state)
{
	static const struct {
		const char *line;
		bool elect;
	} cases[] = {
	    {NEEDED, true},
	    {NEEDED " --leader-elect=true", true},
	    {NEEDED " --leader-elect true", true},
	    {NEEDED " --leader-elect=false", false},
	    {"--leader-elect false " NEEDED, false},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_serve_options o = {.leader_elect = !cases[i].elect};
		struct gq_err err = {0};
		if (serve(cases[i].line, &o, &err))
			fail_msg("%s: %s", cases[i].line, err.msg);
		assert_int_equal(o.leader_elect, cases[i].elect);
	}
}

static void serve_ttl_bounds(void **state)
{
	struct gq_serve_options o = {0};
	struct gq_err err = {0};

	(void)state;
	assert_int_equal(serve(NEEDED " --reservation-ttl 1", &o, &err), 0);
	assert_true(o.reservation_ttl_ns == GQ_NS_PER_S);
	assert_int_equal(serve(NEEDED " --reservation-ttl 3600", &o, &err), 0);
	assert_true(o.reservation_ttl_ns == 3600 * GQ_NS_PER_S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(general),
	    cmocka_unit_test(general_errors),
	    cmocka_unit_test(flags),
	    cmocka_unit_test(serve_defaults),
	    cmocka_unit_test(serve_every_option),
	    cmocka_unit_test(serve_errors),
	    cmocka_unit_test(serve_leader_elect),
	    cmocka_unit_test(serve_ttl_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
