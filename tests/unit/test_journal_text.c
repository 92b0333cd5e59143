#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "controller/journal_text.h"
#include "tests/unit/app_testing.h"
#include "tests/unit/fail_alloc.h"

/* Through the filter that the API client reads with. */
static int read_back(const char *json, size_t len, struct gq_journal_text *ret_text,
		     struct gq_err *err)
{
	struct gq_buf pruned GQ_BUF_CLEANUP = GQ_BUF_INIT(8u << 20);
	int code = gq_json_prune(json, len, gq_journal_keep, &pruned, err);

	*ret_text = (struct gq_journal_text){.version = ""};
	return code ? code : gq_journal_text_parse(pruned.data, pruned.len, ret_text, err);
}

static void test_round_trip(void **state)
{
	static const struct gq_journal_text texts[] = {
	    {.holder = "pod-a", .lines = "", .version = ""},
	    {.holder = "gpuquota-7d4b9c-x2x1z",
	     .epoch = 41,
	     .seq = 7,
	     .lines = "{\"metadata\":{\"name\":\"p\"}}\n{}\n",
	     .version = "123456"},
	    {.holder = "\"\\/\b\f\n\r\t\x01\x7f",
	     .epoch = INT64_MAX - 1,
	     .seq = INT64_MAX - 1,
	     .lines = "\\u0000 \\ \" \x1f \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\n\n",
	     .held = true,
	     .version = "no \"number\""},
	};

	(void)state;
	for (size_t i = 0; i < LEN(texts); i++) {
		struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
		struct gq_journal_text in = texts[i], text GQ_CLEANUP(gq_journal_text_done);
		struct gq_err err = {0};
		in.lines_len = strlen(in.lines);
		assert_int_equal(gq_journal_text_print(&out, "gq-\"system", &in), 0);
		struct json_object *root = json_parse(out.data, out.len);
		assert_string_equal(json_text(root, "apiVersion"), "v1");
		assert_string_equal(json_text(root, "kind"), "ConfigMap");
		assert_string_equal(json_text(root, "metadata.name"), GQ_JOURNAL_NAME);
		assert_string_equal(json_text(root, "metadata.namespace"), "gq-\"system");
		assert_int_equal(json_at(root, "metadata.resourceVersion") != NULL,
				 in.version[0] != '\0');
		assert_int_equal(json_at(root, "data.held") != NULL, in.held);
		json_object_put(root);
		if (read_back(out.data, out.len, &text, &err))
			fail_msg("%s", err.msg);
		assert_string_equal(text.holder, in.holder);
		assert_int_equal(text.epoch, in.epoch);
		assert_int_equal(text.seq, in.seq);
		assert_int_equal(text.held, in.held);
		assert_int_equal(text.lines_len, in.lines_len);
		assert_memory_equal(text.lines, in.lines, in.lines_len + 1);
		assert_string_equal(text.version, in.version);
	}
}

static void test_as_large_as_a_config_map_can_be(void **state)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(8u << 20);
	struct gq_journal_text text GQ_CLEANUP(gq_journal_text_done);
	size_t len = 1u << 20;
	char *lines = malloc(len + 1);
	struct gq_err err = {0};

	(void)state;
	assert_non_null(lines);
	memset(lines, '\x01', len); /* six bytes each, as JSON */
	lines[len] = '\0';
	assert_int_equal(
	    gq_journal_text_print(
		&out, "gq",
		&(struct gq_journal_text){
		    .holder = "a", .epoch = 1, .lines = lines, .lines_len = len, .version = "1"}),
	    0);
	assert_int_equal(read_back(out.data, out.len, &text, &err), 0);
	assert_int_equal(text.lines_len, len);
	assert_string_equal(text.lines, lines);
	free(lines);
}

static void test_no_room(void **state)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(100);

	(void)state;
	assert_int_equal(
	    gq_journal_text_print(
		&out, "gq", &(struct gq_journal_text){.holder = "a", .lines = "", .version = ""}),
	    GQ_ETOOBIG);
}

#define META "'metadata':{'resourceVersion':'9'}"
#define DATA(more) "{" META ",'data':{'format':'1'," more "}}"
#define GOOD "'holder':'a','epoch':'1','seq':'2'"

static const struct {
	const char *json;
	const char *version; /* "" none can be read */
	const char *problem; /* NULL: it is one */
} reads[] = {
    {DATA(GOOD), "9", NULL},
    {DATA(GOOD ",'reservations':'x','more':'y','held':'true'"), "9", NULL},
    {"{" META ",'data':{'format':'1'," GOOD "},'binaryData':{'format':'2'},'x':[1]}", "9", NULL},
    {"{'data':{'format':'1'," GOOD "}}", "", NULL},
    {"{" META "}", "9", "no reservations yet"},
    {"{" META ",'data':null}", "9", "no reservations yet"},
    {"{" META ",'data':{}}", "9", "no reservations yet"},
    {"{" META ",'data':{" GOOD "}}", "9", "no reservations yet"},
    {"{" META ",'data':[]}", "9", "data"},
    {"{" META ",'data':{'format':1}}", "9", "data.format"},
    {"{" META ",'data':{'format':'2'," GOOD "}}", "9", "format 2, not 1"},
    {"{" META ",'data':{'format':'10'," GOOD "}}", "9", "format 10, not 1"},
    {DATA("'epoch':'1','seq':'2'"), "9", "holder, epoch or seq"},
    {DATA("'holder':'','epoch':'1','seq':'2'"), "9", "holder, epoch or seq"},
    {DATA("'holder':'a','seq':'2'"), "9", "holder, epoch or seq"},
    {DATA("'holder':'a','epoch':'1'"), "9", "holder, epoch or seq"},
    {DATA("'holder':'a','epoch':'-1','seq':'2'"), "9", "holder, epoch or seq"},
    {DATA("'holder':'a','epoch':'+1','seq':'2'"), "9", "holder, epoch or seq"},
    {DATA("'holder':'a','epoch':' 1','seq':'2'"), "9", "holder, epoch or seq"},
    {DATA("'holder':'a','epoch':'1 ','seq':'2'"), "9", "holder, epoch or seq"},
    {DATA("'holder':'a','epoch':'0x1','seq':'2'"), "9", "holder, epoch or seq"},
    {DATA("'holder':'a','epoch':'1','seq':'1e3'"), "9", "holder, epoch or seq"},
    {DATA("'holder':'a','epoch':'9223372036854775807','seq':'2'"), "9", "holder, epoch or seq"},
    {DATA("'holder':'a','epoch':'18446744073709551617','seq':'2'"), "9", "holder, epoch or seq"},
    {DATA("'holder':'a','epoch':'1','seq':'99999999999999999999'"), "9", "holder, epoch or seq"},
    {DATA("'holder':'a','epoch':1,'seq':'2'"), "9", "data.epoch"},
    {DATA("'holder':['a'],'epoch':'1','seq':'2'"), "9", "data.holder"},
    {DATA(GOOD ",'reservations':{}"), "9", "data.reservations"},
    {DATA(GOOD ",'reservations':'a\\u0000b'"), "9", "data.reservations"},
    {DATA(GOOD ",'held':true"), "9", "data.held"},
    {"{'metadata':[],'data':{}}", "", "metadata"},
    {"{'metadata':{'resourceVersion':9}}", "", "metadata.resourceVersion"},
    {"{" META ",'data':{'format':'1'", "", ""},
    {"[]", "", ""},
    {"", "", ""},
};

static void test_what_can_be_read(void **state)
{
	(void)state;
	for (size_t i = 0; i < LEN(reads); i++) {
		struct gq_journal_text text GQ_CLEANUP(gq_journal_text_done);
		char *json = json_of(reads[i].json);
		struct gq_err err = {0};
		int code = gq_journal_text_parse(json, strlen(json), &text, &err);
		if (code != (reads[i].problem ? GQ_EINVALID : 0))
			fail_msg("%s: %d %s", json, code, err.msg);
		if (code) {
			assert_has(err.msg, reads[i].problem);
			assert_string_equal(text.holder, "");
			assert_string_equal(text.lines, "");
			assert_int_equal(text.lines_len, 0);
			assert_int_equal(text.epoch, 0);
			assert_int_equal(text.seq, 0);
			assert_false(text.held);
		} else {
			assert_string_equal(text.holder, "a");
			assert_int_equal(text.epoch, 1);
			assert_int_equal(text.seq, 2);
			assert_int_equal(text.held, strstr(json, "held") != NULL);
		}
		assert_string_equal(text.version, reads[i].version);
		free(json);
	}
}

/* A member that stands twice means two things: nobody's filter lets it through. */
static void test_duplicates(void **state)
{
	static const char *const twice[] = {
	    "{" META "," META ",'data':{}}",
	    DATA(GOOD ",'epoch':'7'"),
	    "{" META ",'data':{'format':'1'," GOOD "},'data':{}}",
	};

	(void)state;
	for (size_t i = 0; i < LEN(twice); i++) {
		struct gq_journal_text text GQ_CLEANUP(gq_journal_text_done);
		char *json = json_of(twice[i]);
		struct gq_err err = {0};
		assert_int_equal(read_back(json, strlen(json), &text, &err), GQ_EINVALID);
		assert_string_equal(text.version, "");
		free(json);
	}
}

static void test_a_version_too_long(void **state)
{
	for (size_t more = 0; more < 2; more++) {
		struct gq_journal_text text GQ_CLEANUP(gq_journal_text_done);
		char version[300] = "", json[600];
		struct gq_err err = {0};
		memset(version, '1', GQ_JOURNAL_VERSION_MAX_BYTES + more);
		int len = snprintf(json, sizeof json,
				   "{\"metadata\":{\"resourceVersion\":\"%s\"},\"data\":{"
				   "\"format\":\"1\",\"holder\":\"a\",\"epoch\":\"1\","
				   "\"seq\":\"2\"}}",
				   version);
		assert_int_equal(gq_journal_text_parse(json, (size_t)len, &text, &err),
				 more ? GQ_EINVALID : 0);
		assert_string_equal(text.version, more ? "" : version);
	}
	(void)state;
}

static void test_out_of_memory(void **state)
{
	bool failed = true;

	(void)state;
	for (long n = 0; failed; n++) {
		struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
		struct gq_journal_text text GQ_CLEANUP(gq_journal_text_done) = {0};
		const struct gq_journal_text in = {
		    .holder = "a", .lines = "x\n", .lines_len = 2, .version = "1"};
		struct gq_err err = {0};
		fail_alloc(n);
		int code = gq_journal_text_print(&out, "gq", &in);
		if (!code)
			code = read_back(out.data, out.len, &text, &err);
		failed = fail_alloc_done();
		assert_int_equal(code, failed ? GQ_ENOMEM : 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_round_trip),
	    cmocka_unit_test(test_as_large_as_a_config_map_can_be),
	    cmocka_unit_test(test_no_room),
	    cmocka_unit_test(test_what_can_be_read),
	    cmocka_unit_test(test_duplicates),
	    cmocka_unit_test(test_a_version_too_long),
	    cmocka_unit_test(test_out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
