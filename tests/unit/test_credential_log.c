#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controller/credential_log.h"
#include "tests/unit/app_testing.h"

#define S GQ_NS_PER_S
#define REFUSED "the API server refuses our credentials (401)"
#define ACCEPTED "the API server takes our credentials again"
#define UNUSABLE "the token file is of no use"

static const struct gq_credential_state good = {
    .kind = GQ_CREDENTIAL_TOKEN_FILE, .file = "/run/token", .has_token = true};
static const struct gq_credential_state refused = {.kind = GQ_CREDENTIAL_TOKEN_FILE,
						   .file = "/run/token",
						   .has_token = true,
						   .refused = true,
						   .refusals = 7};

/* What is logged from..until, ten times a second. The log's limit of lines is of no concern here.
 */
static char *logged(struct gq_credential_log *log, const struct gq_credential_state *state,
		    int64_t from_ns, int64_t until_ns)
{
	struct app_output output;

	app_output_begin(&output, 2);
	for (int64_t at = from_ns; at < until_ns; at += S / 10)
		gq_credential_log(log, state, at);
	return app_output_end(&output);
}

static void one_line_a_minute(void **state)
{
	struct gq_credential_log log = {0};
	(void)state;

	char *text = logged(&log, &good, 1 * S, 100 * S);
	assert_string_equal(text, "");
	free(text);
	text = logged(&log, &refused, 100 * S, 159 * S);
	assert_int_equal(occurrences(text, "\n"), 1);
	assert_has(text, REFUSED);
	assert_has(text, "credentials=token file=/run/token");
	assert_has(text, "do=\"see that the file gets a good token");
	assert_has(text, "for_s=0");
	assert_has(text, "times=7");
	free(text);
	text = logged(&log, &refused, 159 * S, 219 * S);
	assert_int_equal(occurrences(text, "\n"), 1);
	assert_has(text, "for_s=60");
	free(text);
	text = logged(&log, &good, 219 * S, 300 * S);
	assert_int_equal(occurrences(text, "\n"), 1);
	assert_has(text, ACCEPTED " after_s=119");
	free(text);
	/* the next time is told at once */
	text = logged(&log, &refused, 300 * S, 301 * S);
	assert_int_equal(occurrences(text, REFUSED), 1);
	free(text);
}

/* One API server of several refuses what the others take. */
static void now_refused_now_accepted(void **state)
{
	struct gq_credential_log log = {0};
	struct gq_buf all GQ_BUF_CLEANUP = GQ_BUF_INIT(1 << 20);
	(void)state;

	for (int64_t s = 100; s < 160; s++) {
		char *text = logged(&log, s % 2 ? &good : &refused, s * S, (s + 1) * S);
		gq_buf_puts(&all, text);
		free(text);
	}
	assert_int_equal(occurrences(all.data, REFUSED), 1);
	assert_int_equal(occurrences(all.data, ACCEPTED), 0);
}

static void each_kind(void **state)
{
	static const struct {
		struct gq_credential_state state;
		const char *has;
	} cases[] = {
	    {{.kind = GQ_CREDENTIAL_NONE, .refused = true}, "credentials=none"},
	    {{.kind = GQ_CREDENTIAL_TOKEN, .refused = true},
	     "credentials=token file=\"the kubeconfig\" do=\"put a good token into the kubeconfig"},
	    {{.kind = GQ_CREDENTIAL_PASSWORD, .refused = true}, "credentials=password"},
	    {{.kind = GQ_CREDENTIAL_CERTIFICATE, .refused = true, .file = "/c.crt"},
	     "credentials=\"client certificate\" file=/c.crt do=\"renew it"},
	};
	(void)state;

	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_credential_log log = {0};
		char *text = logged(&log, &cases[i].state, S, 2 * S);
		assert_has(text, cases[i].has);
		free(text);
	}
}

static void file_of_no_use(void **state)
{
	struct gq_credential_log log = {0};
	struct gq_credential_state gone = good;
	(void)state;

	(void)snprintf(gone.unusable, sizeof gone.unusable, "/run/token: No such file");
	char *text = logged(&log, &gone, 1 * S, 300 * S);
	assert_int_equal(occurrences(text, "\n"), 1);
	assert_has(text, "warn  " UNUSABLE " problem=\"/run/token: No such file\"");
	assert_has(text, "then=\"the last token that was in it serves\"");
	free(text);
	gone.has_token = false; /* it was refused, or there never was one */
	text = logged(&log, &gone, 300 * S, 600 * S);
	assert_int_equal(occurrences(text, "\n"), 1);
	assert_has(text, "error " UNUSABLE);
	assert_has(text, "then=\"there is no token to show\"");
	free(text);
	text = logged(&log, &good, 600 * S, 700 * S);
	assert_int_equal(occurrences(text, "\n"), 1);
	assert_has(text, "info  the token file is of use again file=/run/token");
	free(text);
}

static void what_it_covers(void **state)
{
	struct gq_credential_state gone = good;
	(void)state;

	assert_false(gq_credential_log_covers(&good, GQ_EDENIED)); /* a 403 */
	assert_true(gq_credential_log_covers(&refused, GQ_EDENIED));
	assert_false(gq_credential_log_covers(&refused, GQ_EIO));
	(void)snprintf(gone.unusable, sizeof gone.unusable, "gone");
	assert_false(gq_credential_log_covers(&gone, GQ_EIO)); /* of the network */
	gone.has_token = false;
	assert_true(gq_credential_log_covers(&gone, GQ_EIO));
	assert_false(gq_credential_log_covers(&gone, GQ_EGONE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_line_a_minute), cmocka_unit_test(now_refused_now_accepted),
	    cmocka_unit_test(each_kind),         cmocka_unit_test(file_of_no_use),
	    cmocka_unit_test(what_it_covers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
