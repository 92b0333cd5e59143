#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "json_read.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define TWICE "this key stands twice in its object"

static const struct gq_json_keep none_keep[] = {{0}};
static const struct gq_json_keep b_keep[] = {{"b", NULL}, {0}};
static const struct gq_json_keep a_b_keep[] = {{"a", b_keep},
					       {"all", NULL},
					       {"none", none_keep},
					       {"\xC3\xA9\n", NULL},
					       {"", NULL},
					       {"x.y/z", NULL},
					       {0}};

struct outcome {
	const char *text;
	const char *kept; /* or the end of the message */
	int code;
};

static void check(const struct gq_json_keep *keep, const struct outcome *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct json_read r JSON_READ_CLEANUP = {.shape = GQ_JSON_DOCUMENT, .keep = keep};
		static const size_t steps[] = {SIZE_MAX, 1};

		for (size_t k = 0; k < 2; k++) {
			json_read(&r, cases[i].text, strlen(cases[i].text), &steps[k], 1);
			/* what is kept stands behind "@ " and in front of a newline */
			char *got = r.code ? r.err.msg : r.items.data + 2;
			if (r.code && strlen(got) > strlen(cases[i].kept))
				got += strlen(got) - strlen(cases[i].kept);
			else if (!r.code)
				got[strlen(got) - 1] = '\0';
			if (r.code != cases[i].code || strcmp(got, cases[i].kept) != 0)
				fail_msg("%s\ngives %d: %s\nnot %d: %s", cases[i].text, r.code, got,
					 cases[i].code, cases[i].kept);
		}
	}
}

static void test_keep_tree(void **state)
{
	static const struct outcome cases[] = {
	    {"{}", "{}", 0},
	    {"{\"c\":1}", "{}", 0},
	    {"{\"c\":1,\"a\":{\"b\":2},\"d\":3}", "{\"a\":{\"b\":2}}", 0},
	    {"{\"a\":{\"c\":1,\"b\":2,\"d\":3,\"bb\":4,\"\":5}}", "{\"a\":{\"b\":2}}", 0},
	    /* a node is a place in the tree, not a name anywhere */
	    {"{\"b\":1,\"a\":{\"a\":{\"b\":1}},\"c\":{\"a\":{\"b\":1}}}", "{\"a\":{}}", 0},
	    /* the order is that of the input */
	    {"{\"all\":1,\"a\":{\"b\":2}}", "{\"all\":1,\"a\":{\"b\":2}}", 0},
	    /* arrays are transparent, however deep */
	    {"{\"a\":[{\"b\":1,\"c\":0},{\"c\":0},[[{\"c\":0,\"b\":[{\"c\":1}]}]],[]]}",
	     "{\"a\":[{\"b\":1},{},[[{\"b\":[{\"c\":1}]}]],[]]}", 0},
	    /* another type than the tree expects is kept as it is */
	    {"{\"a\":7}", "{\"a\":7}", 0},
	    {"{\"a\":null}", "{\"a\":null}", 0},
	    {"{\"a\":\"x \\u0041\"}", "{\"a\":\"x \\u0041\"}", 0},
	    {"{\"a\":[1,true,{\"c\":1},\"s\"]}", "{\"a\":[1,true,{},\"s\"]}", 0},
	    /* no children: everything, but white space */
	    {"{\"all\": {\"x\" :[ 1 , {\"y\":-0.5E3}, [ ] , { } ,\"a b\"],\"\":null}}",
	     "{\"all\":{\"x\":[1,{\"y\":-0.5E3},[],{},\"a b\"],\"\":null}}", 0},
	    /* an empty list of children: nothing of it */
	    {"{\"none\":{\"a\":1}}", "{\"none\":{}}", 0},
	    {"{\"none\":[{\"a\":1},2]}", "{\"none\":[{},2]}", 0},
	    /* keys count as what they mean */
	    {"{\"\\u0061\":{\"\\u0062\":1,\"\\u0063\":2}}", "{\"a\":{\"b\":1}}", 0},
	    {"{\"\\u00e9\\n\":1}", "{\"\xC3\xA9\\n\":1}", 0},
	    {"{\"\xC3\xA9\\u000a\":1}", "{\"\xC3\xA9\\n\":1}", 0},
	    {"{\"\":1,\"x.y\\/z\":2}", "{\"\":1,\"x.y/z\":2}", 0},
	    {"{\"a\\\"\":1,\"all\":{\"q\\\"\\ud83d\\ude00\":1}}",
	     "{\"all\":{\"q\\\"\xF0\x9F\x98\x80\":1}}", 0},
	};

	(void)state;
	check(a_b_keep, cases, COUNT(cases));
}

static const struct gq_json_keep only_keep[] = {
    GQ_JSON_KEEP_ONLY("t", "yes"), {"v", NULL}, {"in", b_keep}, {0}};
static const struct gq_json_keep some_keep[] = {{"a", only_keep}, {"z", NULL}, {0}};

static const struct gq_json_keep either_keep[] = {
    GQ_JSON_KEEP_ONLY("t", "yes\0no"), {"v", NULL}, {0}};
static const struct gq_json_keep some_either_keep[] = {{"a", either_keep}, {0}};

static void test_keep_either(void **state)
{
	static const struct outcome cases[] = {
	    {"{\"a\":[{\"t\":\"yes\",\"v\":1},{\"t\":\"maybe\",\"v\":2},{\"v\":3,\"t\":\"no\"}]}",
	     "{\"a\":[{\"t\":\"yes\",\"v\":1},{\"v\":3,\"t\":\"no\"}]}", 0},
	    {"{\"a\":[{\"t\":\"yesno\"},{\"t\":\"ye\"},{\"t\":\"\"},{\"t\":\"nox\"}]}",
	     "{\"a\":[]}", 0},
	};

	(void)state;
	check(some_either_keep, cases, COUNT(cases));
}

static void test_keep_only(void **state)
{
	static const struct outcome cases[] = {
	    {"{\"a\":[]}", "{\"a\":[]}", 0},
	    {"{\"a\":[{\"t\":\"no\",\"v\":1}],\"z\":1}", "{\"a\":[],\"z\":1}", 0},
	    {"{\"a\":[{\"t\":\"yes\",\"v\":1,\"w\":2}]}", "{\"a\":[{\"t\":\"yes\",\"v\":1}]}", 0},
	    {"{\"a\":[{\"t\":\"no\"},{\"v\":{},\"t\":\"yes\"},{},{\"v\":[{\"t\":\"no\"}],\"t\":"
	     "\"yes\"},"
	     "{\"t\":\"no\"}]}",
	     "{\"a\":[{\"v\":{},\"t\":\"yes\"},{\"v\":[{\"t\":\"no\"}],\"t\":\"yes\"}]}", 0},
	    {"{\"a\":[{\"t\":\"yes\"},{\"t\":\"no\"},{\"t\":\"yes\"}]}",
	     "{\"a\":[{\"t\":\"yes\"},{\"t\":\"yes\"}]}", 0},
	    /* what only resembles it */
	    {"{\"a\":[{\"t\":\"yes \"},{\"t\":\"ye\"},{\"t\":\"\"},{\"t\":yes_}]}",
	     "a value, found 'y'", GQ_EINVALID},
	    {"{\"a\":[{\"t\":\"yes \"},{\"t\":\"ye\"},{\"t\":\"\"},{\"t\":true},{\"t\":12345},"
	     "{\"t\":null},{\"t\":[\"yes\"]},{\"t\":{\"t\":\"yes\"}},{\"in\":{\"t\":\"yes\"}},"
	     "{\"w\":{\"t\":\"yes\"}},{\"v\":\"yes\"}]}",
	     "{\"a\":[]}", 0},
	    /* the key counts as what it means */
	    {"{\"a\":[{\"\\u0074\":\"yes\"}]}", "{\"a\":[{\"t\":\"yes\"}]}", 0},
	    /* an object that is in no array; what is no object; arrays in arrays */
	    {"{\"a\":{\"t\":\"no\"}}", "{\"a\":{\"t\":\"no\"}}", 0},
	    {"{\"a\":[7,{\"t\":\"no\"},\"[\",{\"t\":\"no\"},null]}", "{\"a\":[7,\"[\",null]}", 0},
	    {"{\"a\":[[{\"t\":\"no\"}],{\"t\":\"no\"},[{\"t\":\"no\"},{\"t\":\"yes\"}]]}",
	     "{\"a\":[[],[{\"t\":\"yes\"}]]}", 0},
	    /* what is left out is read as strictly */
	    {"{\"a\":[{\"t\":\"no\",\"t\":\"no\"}]}", TWICE, GQ_EINVALID},
	};

	(void)state;
	check(some_keep, cases, COUNT(cases));
}

static void test_keep_everything(void **state)
{
	static const struct outcome cases[] = {
	    {" { \"a\" : [ { } , 1.0 ] } ", "{\"a\":[{},1.0]}", 0},
	    {"{\"metadata\":{\"resourceVersion\":{}}}", "{\"metadata\":{\"resourceVersion\":{}}}",
	     0},
	    {"{\"a\":{\"b\":{\"a\":{\"b\":1}}},\"b\":1}",
	     "{\"a\":{\"b\":{\"a\":{\"b\":1}}},\"b\":1}", 0},
	};
	static const struct outcome nothing[] = {{"{\"a\":[{}],\"b\":{}}", "{}", 0}};

	(void)state;
	check(NULL, cases, COUNT(cases));
	check(none_keep, nothing, COUNT(nothing));
}

static void test_twice(void **state)
{
	static const struct outcome cases[] = {
	    {"{\"a\":1,\"a\":1}", "line 1 column 8: " TWICE, GQ_EINVALID},
	    {"{\"a\":1,\n \"\\u0061\":1}", "line 2 column 2: " TWICE, GQ_EINVALID},
	    {"{\"\\u0061\":1,\"a\":1}", TWICE, GQ_EINVALID},
	    {"{\"a\":{\"b\":1,\"b\":1}}", TWICE, GQ_EINVALID},
	    {"{\"a\":[0,{\"b\":1,\"b\":1}]}", TWICE, GQ_EINVALID},
	    {"{\"all\":{\"x\":{\"y\":[{\"z\":0,\"z\":0}]}}}", TWICE, GQ_EINVALID},
	    {"{\"\":1,\"\":1}", TWICE, GQ_EINVALID},
	    /* a key that is dropped, in an object that is not */
	    {"{\"x\":1,\"x\":1}", TWICE, GQ_EINVALID},
	    {"{\"a\":{\"x\":{},\"b\":1,\"x\":2}}", TWICE, GQ_EINVALID},
	    {"{\"none\":{\"x\":1,\"x\":2}}", TWICE, GQ_EINVALID},
	    /* where a resourceVersion is looked for, too */
	    {"{\"metadata\":{\"x\":1,\"x\":2}}", TWICE, GQ_EINVALID},
	    /* the same key, but elsewhere */
	    {"{\"a\":{\"b\":1},\"all\":{\"a\":{\"a\":1}},\"x\":{\"a\":1}}",
	     "{\"a\":{\"b\":1},\"all\":{\"a\":{\"a\":1}}}", 0},
	    {"{\"a\":[{\"b\":1},{\"b\":1}]}", "{\"a\":[{\"b\":1},{\"b\":1}]}", 0},
	    {"{\"a\":{\"b\":1,\"B\":2,\"b \":3,\"bb\":4,\"\":5}}", "{\"a\":{\"b\":1}}", 0},
	    /* nobody reads what is dropped */
	    {"{\"x\":{\"y\":1,\"y\":1}}", "{}", 0},
	    {"{\"a\":{\"x\":[{\"y\":1,\"y\":1}]}}", "{\"a\":{}}", 0},
	};

	(void)state;
	check(a_b_keep, cases, COUNT(cases));
}

/* 100,000 keys are checked without comparing all of them with each other. */
static void test_twice_in_many(void **state)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(16u << 20);
	struct json_read r JSON_READ_CLEANUP = {.keep = a_b_keep};

	(void)state;
	gq_buf_puts(&text, "{\"all\":{\"again\":0");
	for (int i = 0; i < 100000; i++)
		gq_buf_printf(&text, ",\"key number %d\":{\"again\":%d}", i, i);
	size_t len = text.len;
	gq_buf_puts(&text, "}}");
	assert_int_equal(json_read_whole(&r, text.data), 0);
	assert_int_equal(r.items.len, text.len + 3);
	text.len = len;
	gq_buf_puts(&text, ",\"\\u0061gain\":0}}");
	assert_int_equal(json_read_whole(&r, text.data), GQ_EINVALID);
	assert_non_null(strstr(r.err.msg, TWICE));
}

static void test_resource_version(void **state)
{
	static const struct gq_json_keep metadata[] = {{"metadata", NULL}, {0}};
	static const struct {
		const struct gq_json_keep *keep;
		const char *text, *items;
	} cases[] = {
	    {b_keep, "{\"metadata\":{\"resourceVersion\":\"7\"}}", "@7 {}\n"},
	    {metadata, "{\"metadata\":{\"resourceVersion\":\"7\"}}",
	     "@7 {\"metadata\":{\"resourceVersion\":\"7\"}}\n"},
	    {NULL, "{\"metad\\u0061ta\":{\"resourceVersi\\u006fn\":\"\\u0037\"}}",
	     "@7 {\"metadata\":{\"resourceVersion\":\"\\u0037\"}}\n"},
	    {b_keep, "{\"metadata\":{\"x\":{\"resourceVersion\":\"7\"}}}", "@ {}\n"},
	    {b_keep, "{\"x\":{\"metadata\":{\"resourceVersion\":\"7\"}}}", "@ {}\n"},
	    {b_keep, "{\"resourceVersion\":\"7\",\"metadata\":\"8\"}", "@ {}\n"},
	    {b_keep, "{\"metadata\":{\"resourceVersion\":7}}", "@ {}\n"},
	    {b_keep, "{\"metadata\":{\"resourceVersion\":[\"7\"]}}", "@ {}\n"},
	    {b_keep, "{\"metadata\":{\"resourceVersion\":null}}", "@ {}\n"},
	    {metadata, "{\"metadata\":{\"resourceVersion\":[\"7\"]}}",
	     "@ {\"metadata\":{\"resourceVersion\":[\"7\"]}}\n"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		static const size_t steps[] = {SIZE_MAX, 1};
		for (size_t k = 0; k < 2; k++) {
			struct json_read r JSON_READ_CLEANUP = {.keep = cases[i].keep};
			json_read(&r, cases[i].text, strlen(cases[i].text), &steps[k], 1);
			assert_int_equal(r.code, 0);
			assert_string_equal(r.items.data, cases[i].items);
		}
	}
}

/* Strings that are taken out have caps of their own. */
static void test_long_strings(void **state)
{
	static const struct {
		enum gq_json_shape shape;
		const char *format;
		size_t digits;
		int code;
		const char *items; /* the beginning */
	} cases[] = {
	    {GQ_JSON_DOCUMENT, "{\"metadata\":{\"resourceVersion\":\"%0*d\"}}", 254, 0, "@0000"},
	    {GQ_JSON_DOCUMENT, "{\"metadata\":{\"resourceVersion\":\"%0*d\"}}", 255, 0, "@ {}"},
	    {GQ_JSON_WATCH, "{\"object\":{},\"type\":\"%0*d\"}", 62, 0, "0000"},
	    {GQ_JSON_WATCH, "{\"object\":{},\"type\":\"%0*d\"}", 63, GQ_ETOOBIG, ""},
	    {GQ_JSON_WATCH, "{\"object\":{\"reason\":\"%0*d\"},\"type\":\"ERROR\"}", 9999, 0,
	     "ERROR @ {}\n"},
	    {GQ_JSON_LIST, "{\"items\":[],\"metadata\":{\"continue\":\"%0*d\"}}", 8190, 0,
	     "list kind= rv= continue=0000"},
	    {GQ_JSON_LIST, "{\"items\":[],\"metadata\":{\"continue\":\"%0*d\"}}", 8191, GQ_ETOOBIG,
	     ""},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		char text[12000];
		static const size_t steps[] = {SIZE_MAX, 1};
		snprintf(text, sizeof text, cases[i].format, (int)cases[i].digits, 0);
		for (size_t k = 0; k < 2; k++) {
			struct json_read r JSON_READ_CLEANUP = {.shape = cases[i].shape,
								.keep = b_keep};
			json_read(&r, text, strlen(text), &steps[k], 1);
			assert_int_equal(r.code, cases[i].code);
			assert_ptr_equal(strstr(r.items.data, cases[i].items), r.items.data);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_keep_tree),
	    cmocka_unit_test(test_keep_only),
	    cmocka_unit_test(test_keep_either),
	    cmocka_unit_test(test_keep_everything),
	    cmocka_unit_test(test_twice),
	    cmocka_unit_test(test_twice_in_many),
	    cmocka_unit_test(test_resource_version),
	    cmocka_unit_test(test_long_strings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
