#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "quota/field.h"
#include "tests/unit/quota_testing.h"

static void parsing(void **state)
{
	static const struct {
		const char *json;
		int code;
		const char *message;
	} cases[] = {
	    {"{}", 0, ""},
	    {"  {'a':[1,2,{'b':null}]}", 0, ""},
	    {"{'a':1", GQ_EINVALID, "not a JSON object: it is cut off"},
	    {"", GQ_EINVALID, "not a JSON object: it is cut off"},
	    {"{}x", GQ_EINVALID, "not a JSON object"},
	    {"{a:1}", GQ_EINVALID, "not a JSON object"},
	    {"{'a':'\xff'}", GQ_EINVALID, "not a JSON object"},
	    {"[1]", GQ_EINVALID, "not a JSON object"},
	    {"null", GQ_EINVALID, "not a JSON object"},
	    {"7 ", GQ_EINVALID, "not a JSON object"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;
		struct gq_err err = {0};
		char *json = json_of(cases[i].json);
		print_message("%s\n", cases[i].json);
		assert_int_equal(gq_field_parse(json, strlen(json), &root, &err), cases[i].code);
		assert_int_equal(root != NULL, cases[i].code == 0);
		assert_int_equal(strncmp(err.msg, cases[i].message, strlen(cases[i].message)), 0);
		free(json);
	}
	struct json_object *root = NULL;
	assert_int_equal(gq_field_parse("{}", GQ_FIELD_TREE_BYTES_MAX + 1, &root, NULL),
			 GQ_ETOOBIG);
}

static void paths_are_named_and_bounded(void **state)
{
	struct gq_err err = {0};
	char long_key[2000];
	struct gq_field fields[40] = {{.up = NULL}};

	(void)state;
	assert_int_equal(gq_field_fail(&fields[0], "spec", GQ_EINVALID, &err, "is %s", "odd"),
			 GQ_EINVALID);
	assert_string_equal(err.msg, "spec: is odd");
	fields[1] = (struct gq_field){.up = &fields[0], .key = "spec"};
	fields[2] = (struct gq_field){.up = &fields[1], .key = "list"};
	fields[3] = (struct gq_field){.up = &fields[2], .index = 7};
	(void)gq_field_fail(&fields[3], NULL, GQ_EINVALID, &err, "is odd");
	assert_string_equal(err.msg, "spec.list[7]: is odd");
	(void)gq_field_fail(&fields[3], "a/b", GQ_ETOOBIG, &err, "is odd");
	assert_string_equal(err.msg, "spec.list[7].a/b: is odd");
	assert_int_equal(err.code, GQ_ETOOBIG);

	memset(long_key, 'k', sizeof long_key - 1);
	long_key[sizeof long_key - 1] = '\0';
	assert_int_equal(gq_field_fail(&fields[3], long_key, GQ_EINVALID, &err, "is odd"),
			 GQ_EINVALID);
	assert_non_null(strstr(err.msg, "spec.list[7]"));
	assert_non_null(strstr(err.msg, "is odd"));
	for (size_t i = 4; i < LEN(fields); i++)
		fields[i] = (struct gq_field){.up = &fields[i - 1], .index = i};
	(void)gq_field_fail(&fields[LEN(fields) - 1], NULL, GQ_EINVALID, &err, "is odd");
	assert_non_null(strstr(err.msg, "[39]: is odd"));
	assert_int_equal(gq_field_fail(&fields[3], "x", GQ_EINVALID, NULL, "is odd"), GQ_EINVALID);
}

/* What each accessor says of each type of value. */
static void types(void **state)
{
	static const struct {
		const char *value;
		int object, list, text, boolean, quantity;
	} cases[] = {
	    {"null", 0, 0, 0, 0, 0},   {"true", -1, -1, -1, 0, -1},
	    {"1", -1, -1, -1, -1, 0},  {"1.5", -1, -1, -1, -1, 0},
	    {"'x'", -1, -1, 0, -1, 0}, {"'x\\u0000'", -1, -1, -1, -1, -1},
	    {"[]", -1, 0, -1, -1, -1}, {"{}", 0, -1, -1, -1, -1},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;
		struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(64);
		struct gq_field field;
		struct json_object *value;
		const char *string;
		bool boolean;
		size_t n;
		gq_buf_printf(&text, "{'v':%s}", cases[i].value);
		char *json = json_of(text.data);
		print_message("%s\n", json);
		assert_int_equal(gq_field_parse(json, strlen(json), &root, NULL), 0);
		free(json);
		struct gq_field top = {.value = root};
		(void)json_object_object_get_ex(root, "v", &value);
		const int codes[] = {gq_field_object(&top, "v", &field, NULL),
				     gq_field_list(&top, "v", 10, &field, &n, NULL),
				     gq_field_peek(&top, "v", &string, NULL),
				     gq_field_bool(&top, "v", &boolean, NULL),
				     gq_field_quantity(&top, "v", value, &string, NULL)};
		const int want[] = {cases[i].object, cases[i].list, cases[i].text, cases[i].boolean,
				    cases[i].quantity};
		for (size_t k = 0; k < LEN(codes); k++)
			assert_int_equal(codes[k], want[k] ? GQ_EINVALID : 0);
		assert_int_equal(gq_field_has(&top, "v"), value != NULL);
	}
	/* below a member that is absent everything is absent */
	struct gq_field absent = {.key = "spec"}, below;
	const char *string = NULL;
	size_t n = 9;
	assert_int_equal(gq_field_object(&absent, "x", &below, NULL), 0);
	assert_null(below.value);
	assert_int_equal(gq_field_list(&below, "y", 1, &below, &n, NULL), 0);
	assert_int_equal(n, 0);
	assert_int_equal(gq_field_peek(&absent, "x", &string, NULL), 0);
	assert_string_equal(string, "");
	assert_false(gq_field_has(&absent, "x"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(parsing),
	    cmocka_unit_test(paths_are_named_and_bounded),
	    cmocka_unit_test(types),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
