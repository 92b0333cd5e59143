#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controller/commands.h"
#include "tests/unit/app_testing.h"

struct result {
	int status;
	char *out, *err;
};

static struct result run(int argc, const char *const *argv)
{
	struct app_output out, err;
	struct result result;

	app_output_begin(&err, STDERR_FILENO);
	app_output_begin(&out, STDOUT_FILENO);
	result.status = gq_command_policy(argc, (char **)(uintptr_t)argv);
	result.out = app_output_end(&out);
	result.err = app_output_end(&err);
	return result;
}

static void result_done(struct result *result)
{
	free(result->out);
	free(result->err);
}

static char path[64];

static struct result lint(const char *text, size_t len)
{
	(void)snprintf(path, sizeof path, "/tmp/gpuquota-lint-XXXXXX");
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), (ssize_t)len);
	(void)close(fd);
	struct result result = run(3, (const char *[]){"policy", "lint", path, NULL});
	(void)unlink(path);
	return result;
}

static void good(void **state)
{
	struct result result = lint(APP_POLICY, sizeof APP_POLICY - 1);

	(void)state;
	assert_int_equal(result.status, 0);
	assert_string_equal(result.err, "");
	assert_has(result.out, path);
	assert_has(result.out, ": good, 2 tenants, sha256 ");
	assert_int_equal(strlen(strstr(result.out, "sha256 ")), 7 + 64 + 1);
	result_done(&result);
	result = lint(APP_POLICY_HEAD "tenants: [{name: t}]\n",
		      sizeof(APP_POLICY_HEAD "tenants: [{name: t}]\n") - 1);
	assert_int_equal(result.status, 0);
	assert_has(result.out, ": good, 1 tenant, ");
	result_done(&result);
}

static void bad(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
	    {APP_POLICY_HEAD "tenants:\n  - name: t\n    quotas: {}\n", ":5:5: "},
	    {"", ""},
	    {"{", ":"},
	    {"a: b\n", ":1:1: "},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct result result = lint(cases[i].text, strlen(cases[i].text));
		assert_int_equal(result.status, 1);
		assert_string_equal(result.out, "");
		assert_has(result.err, path);
		assert_has(result.err, cases[i].message);
		result_done(&result);
	}
	struct result result = lint(APP_POLICY "\0x", sizeof APP_POLICY + 1);
	assert_int_equal(result.status, 1);
	result_done(&result);
}

/* Not five errors about keys that no policy has. */
static void a_config_map(void **state)
{
	static const char text[] = "apiVersion: v1\nkind: ConfigMap\ndata: {}\n";
	struct result result = lint(text, sizeof text - 1);

	(void)state;
	assert_int_equal(result.status, 2);
	assert_has(result.err, " is a ConfigMap; what is checked is the policy in it:");
	assert_has(result.err, "jsonpath='{.data.policy\\.yaml}' | gpuquota policy lint -");
	result_done(&result);
	/* in a comment or a text it means nothing */
	result =
	    lint(APP_POLICY "# kind: ConfigMap\n", sizeof(APP_POLICY "# kind: ConfigMap\n") - 1);
	assert_int_equal(result.status, 0);
	result_done(&result);
}

static void unusable(void **state)
{
	static const char *const lines[][5] = {
	    {"policy", NULL},
	    {"policy", "lint", NULL},
	    {"policy", "lint", "a", "b", NULL},
	    {"policy", "check", "a", NULL},
	    {"policy", "lint", "/nonexistent/policy.yaml", NULL},
	    {"policy", "lint", "/", NULL},
	    {"policy", "lint", "/dev/zero", NULL}, /* larger than any policy */
	};

	(void)state;
	for (size_t i = 0; i < LEN(lines); i++) {
		int argc = 0;
		while (lines[i][argc])
			argc++;
		struct result result = run(argc, lines[i]);
		assert_int_equal(result.status, 2);
		assert_string_equal(result.out, "");
		assert_has(result.err, i < 4 ? "usage: gpuquota policy lint FILE" : lines[i][2]);
		result_done(&result);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(good),
	    cmocka_unit_test(bad),
	    cmocka_unit_test(a_config_map),
	    cmocka_unit_test(unusable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
