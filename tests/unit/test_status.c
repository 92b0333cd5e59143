#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "informer/status.h"

static void test_reads_statuses(void **state)
{
	static const struct {
		const char *json;
		bool ok;
		struct gq_api_status want;
	} cases[] = {
	    {"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"message\":\"too "
	     "old\","
	     "\"reason\":\"Expired\",\"code\":410}",
	     true,
	     {.code = 410, .reason = "Expired", .message = "too old"}},
	    {"{\"kind\":\"Status\",\"code\":429,\"details\":{\"retryAfterSeconds\":7}}",
	     true,
	     {.code = 429, .retry_after_s = 7}},
	    {"{\"kind\":\"Status\",\"code\":429,\"details\":{\"retryAfterSeconds\":99999999999}}",
	     true,
	     {.code = 429, .retry_after_s = 300}},
	    {"{\"kind\":\"Status\",\"code\":504,\"reason\":\"Timeout\",\"details\":{\"causes\":["
	     "{\"reason\":\"Other\"},{\"reason\":\"ResourceVersionTooLarge\",\"message\":\"m\"}]}}",
	     true,
	     {.code = 504, .reason = "Timeout", .version_too_large = true}},
	    {"{\"kind\":\"Status\",\"code\":504,\"message\":\"Too large resource version: 9\"}",
	     true,
	     {.code = 504, .message = "Too large resource version: 9", .version_too_large = true}},
	    {"{\"kind\":\"Status\",\"code\":-3,\"details\":{\"retryAfterSeconds\":-3}}", true, {0}},
	    {"{\"kind\":\"Status\",\"code\":\"410\",\"reason\":[],\"message\":{},\"details\":[]}",
	     true,
	     {0}},
	    {"{\"kind\":\"Status\",\"details\":{\"causes\":[1,null,\"x\",{}],\"retryAfterSeconds\":"
	     "1.5}}",
	     true,
	     {0}},
	    {"{\"kind\":\"Pod\",\"code\":410}", false, {0}},
	    {"{\"kind\":7}", false, {0}},
	    {"{}", false, {0}},
	    {"{\"kind\":\"Status\",", false, {0}},
	    {"<html>Bad Gateway</html>", false, {0}},
	    {"", false, {0}},
	};
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct gq_api_status got = {.code = 1};
		assert_int_equal(gq_api_status_parse(cases[i].json, strlen(cases[i].json), &got),
				 cases[i].ok);
		assert_int_equal(got.code, cases[i].want.code);
		assert_string_equal(got.reason, cases[i].want.reason);
		assert_string_equal(got.message, cases[i].want.message);
		assert_int_equal(got.retry_after_s, cases[i].want.retry_after_s);
		assert_int_equal(got.version_too_large, cases[i].want.version_too_large);
	}
}

static void test_cuts_long_messages_between_characters(void **state)
{
	char json[2000] = "{\"kind\":\"Status\",\"message\":\"x";
	struct gq_api_status got;
	(void)state;

	for (int i = 0; i < 400; i++)
		strncat(json, "é", sizeof json - strlen(json) - 1);
	strncat(json, "\"}", sizeof json - strlen(json) - 1);
	assert_true(gq_api_status_parse(json, strlen(json), &got));
	assert_int_equal(strlen(got.message), 511);
	assert_int_equal((unsigned char)got.message[510], 0xa9);
}

static void test_codes(void **state)
{
	static const struct {
		long http;
		int code;
	} cases[] = {{200, 0},
		     {201, 0},
		     {204, 0},
		     {401, GQ_EDENIED},
		     {403, GQ_EDENIED},
		     {404, GQ_ENOTFOUND},
		     {409, GQ_ECONFLICT},
		     {410, GQ_EGONE},
		     {422, GQ_EINVALID},
		     {429, GQ_ETHROTTLED},
		     {500, GQ_EIO},
		     {503, GQ_EIO},
		     {302, GQ_EIO},
		     {400, GQ_EINVALID}};
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(gq_api_status_code(cases[i].http), cases[i].code);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_reads_statuses),
	    cmocka_unit_test(test_cuts_long_messages_between_characters),
	    cmocka_unit_test(test_codes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
