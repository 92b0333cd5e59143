/* The program as it is started: what each first argument does, and its exit status. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#define LEN(array) (sizeof(array) / sizeof *(array))

static void first_arguments(void **state)
{
	static const struct {
		const char *arguments;
		int status;
		const char *output;
	} cases[] = {
	    {"version", 0, "gpuquota 0."},
	    {"--version", 0, "gpuquota 0."},
	    {"help", 0, "gpuquota serve --tls-cert"},
	    {"--help", 0, "gpuquota policy lint FILE"},
	    {"serve --help", 0, "[--leader-elect=BOOL]"},
	    {"", 2, "gpuquota serve --tls-cert"},
	    {"frobnicate", 2, "unknown command frobnicate"},
	    {"check", 2, "check is not supported by this version"},
	    {"nodes", 2, "nodes is not supported by this version"},
	    {"explain", 2, "explain is not supported by this version"},
	    {"simulate", 2, "simulate is not supported by this version"},
	    {"serve", 2, "gpuquota serve: "},
	    {"serve --leader-elect=maybe", 2, "--leader-elect is true or false, not maybe"},
	    {"serve --leader-elect=true", 2, "--tls-cert and --tls-key are needed"},
	    {"usage --frobnicate", 2, "gpuquota usage: "},
	    {"policy", 2, "usage: gpuquota policy lint FILE"},
	    {"policy lint /nowhere/policy.yaml", 2, "/nowhere/policy.yaml: No such file"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		char command[512], output[8192];
		(void)snprintf(command, sizeof command, "'%s' %s 2>&1 </dev/null", GQ_PROGRAM,
			       cases[i].arguments);
		FILE *pipe = popen(command, "r");
		assert_non_null(pipe);
		size_t n = fread(output, 1, sizeof output - 1, pipe);
		output[n] = '\0';
		int status = pclose(pipe);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != cases[i].status ||
		    !strstr(output, cases[i].output))
			fail_msg("\"%s\": status %d\n%s", cases[i].arguments, status, output);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(first_arguments)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
