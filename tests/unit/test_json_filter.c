#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>

#include "fail_alloc.h"
#include "json_read.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static const struct gq_json_keep name_keep[] = {{"name", NULL}, {0}};
static const struct gq_json_keep container_keep[] = {{"name", NULL}, {"resources", NULL}, {0}};
static const struct gq_json_keep spec_keep[] = {
    {"nodeName", NULL}, {"containers", container_keep}, {0}};
static const struct gq_json_keep pod_keep[] = {{"metadata", name_keep}, {"spec", spec_keep}, {0}};
static const struct gq_json_keep request_keep[] = {
    {"uid", NULL}, {"operation", NULL}, {"object", pod_keep}, {0}};
static const struct gq_json_keep review_keep[] = {{"kind", NULL}, {"request", request_keep}, {0}};

/* The text as it is and cut in two at every byte, and byte by byte: the outcome is the same. */
static void check_cuts(struct json_read *whole, const char *text, size_t len)
{
	struct json_read cut JSON_READ_CLEANUP = *whole;

	cut.items = (struct gq_buf){0};
	json_read(whole, text, len, (const size_t[]){SIZE_MAX}, 1);
	for (size_t at = 0; at <= len; at++) {
		size_t sizes[] = {at ? at : 1, at ? SIZE_MAX : 1};
		json_read(&cut, text, len, sizes, 2);
		if (cut.code != whole->code || strcmp(cut.items.data, whole->items.data) != 0 ||
		    strcmp(cut.err.msg, whole->err.msg) != 0)
			fail_msg("cut at %zu: %d %s\n%s\nnot %d %s\n%s", at, cut.code, cut.err.msg,
				 cut.items.data, whole->code, whole->err.msg, whole->items.data);
	}
}

struct outcome {
	const char *text;
	const char *items; /* or the beginning of the message */
	int code;
};

static void check_outcomes(enum gq_json_shape shape, const struct gq_json_keep *keep,
			   const struct outcome *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct json_read r JSON_READ_CLEANUP = {.shape = shape, .keep = keep};
		const char *got = NULL;

		check_cuts(&r, cases[i].text, strlen(cases[i].text));
		got = r.code ? r.err.msg : r.items.data;
		if (r.code != cases[i].code || strcmp(got, cases[i].items) != 0)
			fail_msg("%s\ngives %d: %s\nnot %d: %s", cases[i].text, r.code, got,
				 cases[i].code, cases[i].items);
	}
}

static void test_document(void **state)
{
	static const struct outcome cases[] = {
	    {"{}", "@ {}\n", 0},
	    {" \t\r\n{ } \n", "@ {}\n", 0},
	    {"{\"a\":1,\"metadata\":{\"uid\":\"x\",\"name\":\"n\",\"resourceVersion\":\"7\"}}",
	     "@7 {\"metadata\":{\"name\":\"n\"}}\n", 0},
	    {"{\"spec\" : {\"x\":[1,[2,{\"y\":null}]], \"nodeName\" : \"a b\"} }",
	     "@ {\"spec\":{\"nodeName\":\"a b\"}}\n", 0},
	    {"{\"spec\":{\"containers\":[{\"name\":\"c\",\"env\":[]},{\"env\":{}},{\"resources\":"
	     "{ \"limits\" : { \"nvidia.com/gpu\": 1e0, \"b\": [ ] , \"c\": true} }}]}}",
	     "@ {\"spec\":{\"containers\":[{\"name\":\"c\"},{},{\"resources\":{\"limits\":{"
	     "\"nvidia.com/gpu\":1e0,\"b\":[],\"c\":true}}}]}}\n",
	     0},
	};

	(void)state;
	check_outcomes(GQ_JSON_DOCUMENT, pod_keep, cases, COUNT(cases));
}

static void test_malformed(void **state)
{
	static const struct outcome cases[] = {
	    {"", "line 1 column 1: the input is empty", GQ_EINVALID},
	    {" \n ", "line 2 column 2: the input is empty", GQ_EINVALID},
	    {"{", "line 1 column 2: the input ends too early", GQ_EINVALID},
	    {"{\"a", "line 1 column 4: the input ends too early", GQ_EINVALID},
	    {"{\"a\":tru", "line 1 column 9: the input ends too early", GQ_EINVALID},
	    {"{\"a\":1", "line 1 column 7: the input ends too early", GQ_EINVALID},
	    {"[]", "line 1 column 1: expected an object, found '['", GQ_EINVALID},
	    {"1", "line 1 column 1: expected an object, found '1'", GQ_EINVALID},
	    {"\xEF\xBB\xBF{}", "line 1 column 1: expected an object, found byte 0xef", GQ_EINVALID},
	    {"{}{}", "line 1 column 3: bytes behind the end, found '{'", GQ_EINVALID},
	    {"{}\n x", "line 2 column 2: bytes behind the end, found 'x'", GQ_EINVALID},
	    {"{'a':1}", "line 1 column 2: expected a key or '}', found byte 0x27", GQ_EINVALID},
	    {"{a:1}", "line 1 column 2: expected a key or '}', found 'a'", GQ_EINVALID},
	    {"{\"a\":1,}", "line 1 column 8: expected a key, found '}'", GQ_EINVALID},
	    {"{,}", "line 1 column 2: expected a key or '}', found ','", GQ_EINVALID},
	    {"{\"a\"}", "line 1 column 5: expected ':' behind a key, found '}'", GQ_EINVALID},
	    {"{\"a\":}", "line 1 column 6: expected a value, found '}'", GQ_EINVALID},
	    {"{\"a\"::1}", "line 1 column 6: expected a value, found ':'", GQ_EINVALID},
	    {"{\"a\":1 \"b\":2}", "line 1 column 8: expected ',' or '}', found '\"'", GQ_EINVALID},
	    {"{\"a\":[1 2]}", "line 1 column 9: expected ',' or ']', found '2'", GQ_EINVALID},
	    {"{\"a\":[1,]}", "line 1 column 9: expected a value, found ']'", GQ_EINVALID},
	    {"{\"a\":[,]}", "line 1 column 7: expected a value or ']', found ','", GQ_EINVALID},
	    {"{\"a\":[}", "line 1 column 7: expected a value or ']', found '}'", GQ_EINVALID},
	    {"{\"a\":{]}", "line 1 column 7: expected a key or '}', found ']'", GQ_EINVALID},
	    {"{\"a\":[1}", "line 1 column 8: expected ',' or ']', found '}'", GQ_EINVALID},
	    {"{\"a\":1]", "line 1 column 7: expected ',' or '}', found ']'", GQ_EINVALID},
	    {"{\"a\":NaN}", "line 1 column 6: expected a value, found 'N'", GQ_EINVALID},
	    {"{\"a\":-Infinity}", "line 1 column 7: a number without a digit here, found 'I'",
	     GQ_EINVALID},
	    {"{\"a\":'x'}", "line 1 column 6: expected a value, found byte 0x27", GQ_EINVALID},
	    {"{\"a\":1./*x*/}", "line 1 column 8: a number without a digit here, found '/'",
	     GQ_EINVALID},
	    {"{\"a\":1/*x*/}", "line 1 column 7: expected ',' or '}', found '/'", GQ_EINVALID},
	    {"{//x\n}", "line 1 column 2: expected a key or '}', found '/'", GQ_EINVALID},
	    {"{\"a\":nul}", "line 1 column 9: neither true, false nor null, found '}'",
	     GQ_EINVALID},
	    {"{\"a\":truE}", "line 1 column 9: neither true, false nor null, found 'E'",
	     GQ_EINVALID},
	    {"{\"a\":truee}", "line 1 column 10: expected ',' or '}', found 'e'", GQ_EINVALID},
	    {"{\v\"a\":1}", "line 1 column 2: expected a key or '}', found byte 0x0b", GQ_EINVALID},
	    {"{\"a\n\":1}", "line 1 column 4: a control character in a string, found byte 0x0a",
	     GQ_EINVALID},
	    {"{\"a\":\"\t\"}", "line 1 column 7: a control character in a string, found byte 0x09",
	     GQ_EINVALID},
	    {"{\"a\":\n\n  \"\\x\"}", "line 3 column 5: an unknown escape, found 'x'", GQ_EINVALID},
	    {"{\"a\\u0000b\":1}", "line 1 column 12: \\u0000 in a key", GQ_EINVALID},
	};

	(void)state;
	/* the grammar of dropped, of kept and of pruned values is one */
	check_outcomes(GQ_JSON_DOCUMENT, pod_keep, cases, COUNT(cases));
	check_outcomes(GQ_JSON_DOCUMENT, NULL, cases, COUNT(cases));
	for (size_t i = 0; i < COUNT(cases); i++) {
		char text[128];
		struct json_read r JSON_READ_CLEANUP = {.keep = pod_keep};
		if (cases[i].text[0] != '{' || strncmp(cases[i].text, "{}", 2) == 0)
			continue;
		/* inside of a dropped value the same is wrong, five columns on */
		snprintf(text, sizeof text, "{\"x\":%s}", cases[i].text);
		json_read_whole(&r, text);
		assert_int_equal(r.code, GQ_EINVALID);
		snprintf(text, sizeof text, "{\"spec\":%s}", cases[i].text);
		json_read_whole(&r, text);
		assert_int_equal(r.code, GQ_EINVALID);
	}
}

static void test_nul_bytes(void **state)
{
	struct json_read r JSON_READ_CLEANUP = {.shape = GQ_JSON_DOCUMENT};

	(void)state;
	assert_int_equal(json_read(&r, "{}\0{", 4, (const size_t[]){4}, 1), GQ_EINVALID);
	assert_string_equal(r.err.msg, "line 1 column 3: bytes behind the end, found byte 0x00");
	assert_int_equal(json_read(&r, "{\"a\0\":1}", 8, (const size_t[]){8}, 1), GQ_EINVALID);
	assert_int_equal(json_read(&r, "{\"a\":\"\0\"}", 9, (const size_t[]){9}, 1), GQ_EINVALID);
	/* escaped, in a dropped key too; but in a kept text it is text */
	r.keep = pod_keep;
	assert_int_equal(json_read_whole(&r, "{\"x\":{\"\\u0000\":1}}"), GQ_EINVALID);
	assert_int_equal(json_read_whole(&r, "{\"x\":[{\"a\\u0000b\":1}]}"), GQ_EINVALID);
	assert_int_equal(json_read_whole(&r, "{\"spec\":{\"nodeName\":\"a\\u0000b\"}}"), 0);
	assert_string_equal(r.items.data, "@ {\"spec\":{\"nodeName\":\"a\\u0000b\"}}\n");
}

static char *nested(unsigned depth, const char *key, char open, char close)
{
	struct gq_buf b = GQ_BUF_INIT(1u << 24);

	gq_buf_printf(&b, "{\"%s\":", key);
	for (unsigned i = 1; i < depth; i++)
		gq_buf_puts(&b, open == '[' ? "[" : i + 1 < depth ? "{\"a\":" : "{");
	for (unsigned i = 1; close && i < depth; i++)
		gq_buf_putc(&b, close);
	gq_buf_putc(&b, '}');
	return gq_buf_steal(&b);
}

static void test_depth(void **state)
{
	static const struct {
		unsigned depth;
		const char *key;
		char open, close;
		int code;
	} cases[] = {
	    {GQ_JSON_DEPTH_MAX, "x", '[', ']', 0},
	    {GQ_JSON_DEPTH_MAX + 1, "x", '[', ']', GQ_ETOOBIG},
	    {GQ_JSON_DEPTH_MAX, "spec", '[', ']', 0},
	    {GQ_JSON_DEPTH_MAX + 1, "spec", '[', ']', GQ_ETOOBIG},
	    {GQ_JSON_DEPTH_MAX, "x", '{', '}', 0},
	    {GQ_JSON_DEPTH_MAX + 1, "x", '{', '}', GQ_ETOOBIG},
	    {GQ_JSON_DEPTH_MAX, "metadata", '{', '}', 0},
	    {GQ_JSON_DEPTH_MAX + 1, "metadata", '{', '}', GQ_ETOOBIG},
	    {1000000, "x", '[', 0, GQ_ETOOBIG},
	    {1000000, "spec", '{', 0, GQ_ETOOBIG},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		char *text GQ_AUTOFREE =
		    nested(cases[i].depth, cases[i].key, cases[i].open, cases[i].close);
		const struct gq_json_keep *const keeps[] = {pod_keep, NULL};
		for (size_t k = 0; k < 2; k++) {
			struct json_read r JSON_READ_CLEANUP = {.keep = keeps[k]};
			json_read_whole(&r, text);
			assert_int_equal(r.code, cases[i].code);
			if (r.code)
				assert_non_null(strstr(r.err.msg, "nested too deeply"));
		}
	}
}

static void test_raw_cap(void **state)
{
	/* an event of 50 bytes, an item of 32 */
	static const char watch[] = "{\"type\":\"ADDED\",\"object\":{\"a\":\"0123456789012\"}}";
	static const char list[] = "{\"items\":[{\"a\":\"012345678901234567890123\"},{},"
				   "{\"a\":\"012345678901234567890123\"}]}";

	(void)state;
	struct json_read r JSON_READ_CLEANUP = {.shape = GQ_JSON_WATCH, .keep = pod_keep};
	for (r.max_raw_bytes = 1; r.max_raw_bytes < 60; r.max_raw_bytes++) {
		char twice[200];
		snprintf(twice, sizeof twice, "   %s\n\n      %s  ", watch, watch);
		check_cuts(&r, twice, strlen(twice));
		assert_int_equal(r.code, r.max_raw_bytes < strlen(watch) ? GQ_ETOOBIG : 0);
		assert_int_equal(r.n_items, r.code ? 0 : 2);
	}
	r.shape = GQ_JSON_LIST;
	for (r.max_raw_bytes = 1; r.max_raw_bytes < 60; r.max_raw_bytes++) {
		check_cuts(&r, list, strlen(list));
		assert_int_equal(r.code, r.max_raw_bytes < 32 ? GQ_ETOOBIG : 0);
		assert_int_equal(r.n_items, r.code ? 0 : 3);
	}
	r.shape = GQ_JSON_DOCUMENT;
	r.max_raw_bytes = 2;
	assert_int_equal(json_read_whole(&r, "   {}   "), 0);
	assert_int_equal(json_read_whole(&r, "   { }   "), GQ_ETOOBIG);
	assert_string_equal(r.err.msg, "line 1 column 6: too large an object");
}

static void test_kept_cap(void **state)
{
	static const char text[] = "{\"spec\":{\"nodeName\":\"0123456789\"},\"x\":\"not counted\"}";
	size_t kept = strlen("{\"spec\":{\"nodeName\":\"0123456789\"}}");

	(void)state;
	for (size_t max = 1; max <= kept; max++) {
		struct json_read r JSON_READ_CLEANUP = {.keep = pod_keep, .max_kept_bytes = max};
		check_cuts(&r, text, strlen(text));
		assert_int_equal(r.code, max < kept ? GQ_ETOOBIG : 0);
	}
}

static void test_watch(void **state)
{
	static const struct outcome cases[] = {
	    {"", "", 0},
	    {" \n", "", 0},
	    {"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":"
	     "\"1\"}}}\n"
	     "{\"object\":{\"metadata\":{\"resourceVersion\":\"2\"},\"x\":{}},\"type\":\"DELETED\"}"
	     "{\"type\":\"BOOK\\u004dARK\",\"more\":[{}],\"object\":{}}\r\n\n",
	     "ADDED @1 {\"metadata\":{\"name\":\"a\"}}\nDELETED @2 {\"metadata\":{}}\n"
	     "BOOKMARK @ {}\n",
	     0},
	    {"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"metadata\":{},\"reason\":"
	     "\"Expired\","
	     "\"code\":410}}{\"object\":{\"code\":500,\"message\":\"x\"},\"type\":\"ERROR\"}"
	     "{\"type\":\"ADDED\",\"object\":{}}",
	     "ERROR @ {\"metadata\":{}} 410 Expired\nERROR @ {} 500 \nADDED @ {}\n", 0},
	    /* what is no Status is not misread as one */
	    {"{\"type\":\"ADDED\",\"object\":{\"code\":\"410\",\"reason\":{\"code\":1},"
	     "\"metadata\":[{"
	     "\"resourceVersion\":\"3\"}]}}{\"type\":\"ADDED\",\"object\":{\"code\":4.5,"
	     "\"metadata\":{"
	     "\"resourceVersion\":4}}}{\"type\":\"ADDED\",\"object\":{\"code\":"
	     "99999999999999999999,"
	     "\"metadata\":{\"resourceVersion\":\"a\\u0000b\"}}}",
	     "ADDED @ {\"metadata\":[{}]}\nADDED @ {\"metadata\":{}}\nADDED @ {\"metadata\":{}}\n",
	     0},
	    {"{\"type\":\"ADDED\"}", "line 1 column 16: an event without type or object",
	     GQ_EINVALID},
	    {"{\"object\":{}}", "line 1 column 13: an event without type or object", GQ_EINVALID},
	    {"{\"type\":\"\",\"object\":{}}", "line 1 column 23: an event without type or object",
	     GQ_EINVALID},
	    {"{\"type\":null,\"object\":{}}", "line 1 column 25: an event without type or object",
	     GQ_EINVALID},
	    {"{\"type\":1,\"object\":{}}", "line 1 column 9: expected a string, found '1'",
	     GQ_EINVALID},
	    {"{\"type\":\"A\\u0000\",\"object\":{}}",
	     "line 1 column 18: \\u0000 in a string that names something", GQ_EINVALID},
	    {"{\"type\":\"ADDED\",\"object\":null}",
	     "line 1 column 26: expected an object, found 'n'", GQ_EINVALID},
	    {"{\"type\":\"ADDED\",\"object\":[{}]}",
	     "line 1 column 26: expected an object, found '['", GQ_EINVALID},
	    {"{\"type\":\"ADDED\",\"type\":\"ADDED\",\"object\":{}}",
	     "line 1 column 17: this key stands twice in its object", GQ_EINVALID},
	    {"{\"type\":\"ADDED\",\"object\":{}},",
	     "line 1 column 29: expected an object, found ','", GQ_EINVALID},
	    {"{\"type\":\"ADDED\",\"object\":{}}\n{\"type",
	     "line 2 column 7: the input ends too early", GQ_EINVALID},
	};

	(void)state;
	check_outcomes(GQ_JSON_WATCH, pod_keep, cases, COUNT(cases));
}

static void test_list(void **state)
{
	static const struct outcome cases[] = {
	    {"{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"12\","
	     "\"continue\":\"abc\",\"remainingItemCount\":3},\"items\":[{\"metadata\":{\"name\":"
	     "\"a\","
	     "\"resourceVersion\":\"5\"},\"status\":{}},{}]}",
	     "@5 {\"metadata\":{\"name\":\"a\"}}\n@ {}\n"
	     "list kind=PodList rv=12 continue=abc code=0 reason=\n",
	     0},
	    {"{\"items\":[{\"metadata\":{\"resourceVersion\":\"5\"}}],\"more\":[1],\"metadata\":{"
	     "\"continue\":\"\",\"resourceVersion\":\"12\"},\"kind\":\"L\"}",
	     "@5 {\"metadata\":{}}\nlist kind=L rv=12 continue= code=0 reason=\n", 0},
	    {"{\"items\":[]}", "list kind= rv= continue= code=0 reason=\n", 0},
	    {"{\"items\":null,\"metadata\":null,\"kind\":null}",
	     "list kind= rv= continue= code=0 reason=\n", 0},
	    /* an item's own code, reason and kind are not the list's */
	    {"{\"items\":[{\"kind\":\"K\",\"code\":1,\"reason\":\"r\",\"items\":[{}]}]}",
	     "@ {}\nlist kind= rv= continue= code=0 reason=\n", 0},
	    {"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
	     "\"message\":\"too old\",\"reason\":\"Expired\",\"code\":410}",
	     "list kind=Status rv= continue= code=410 reason=Expired\n", 0},
	    {"{\"code\":-3,\"reason\":\"\\u00e9\\ud83d\\ude00\\n\",\"kind\":\"Sta\\u0074us\"}",
	     "list kind=Status rv= continue= code=-3 reason=\xC3\xA9\xF0\x9F\x98\x80\n\n", 0},
	    {"{}", "line 1 column 3: neither a list nor a Status", GQ_EINVALID},
	    {"{\"kind\":\"PodList\"}", "line 1 column 19: neither a list nor a Status",
	     GQ_EINVALID},
	    {"", "line 1 column 1: the input is empty", GQ_EINVALID},
	    {"{\"items\":[]}{}", "line 1 column 13: bytes behind the end, found '{'", GQ_EINVALID},
	    {"{\"items\":{}}", "line 1 column 10: expected an array of items, found '{'",
	     GQ_EINVALID},
	    {"{\"items\":\"\"}", "line 1 column 10: expected an array of items, found '\"'",
	     GQ_EINVALID},
	    {"{\"items\":[null]}", "line 1 column 11: expected an object, found 'n'", GQ_EINVALID},
	    {"{\"items\":[[]]}", "line 1 column 11: expected an object, found '['", GQ_EINVALID},
	    {"{\"items\":[],\"items\":[]}", "line 1 column 13: this key stands twice in its object",
	     GQ_EINVALID},
	    {"{\"kind\":7}", "line 1 column 9: expected a string, found '7'", GQ_EINVALID},
	    {"{\"metadata\":[]}", "line 1 column 13: expected the list's metadata, found '['",
	     GQ_EINVALID},
	    {"{\"metadata\":{\"resourceVersion\":1}}",
	     "line 1 column 32: expected a string, found '1'", GQ_EINVALID},
	    {"{\"metadata\":{\"continue\":\"a\",\"continue\":\"b\"}}",
	     "line 1 column 29: this key stands twice in its object", GQ_EINVALID},
	};

	(void)state;
	check_outcomes(GQ_JSON_LIST, pod_keep, cases, COUNT(cases));
}

static void test_callback_fails(void **state)
{
	struct json_read r JSON_READ_CLEANUP = {
	    .shape = GQ_JSON_LIST, .keep = pod_keep, .fail_at_item = 2};

	(void)state;
	check_cuts(&r, "{\"items\":[{},{},{}]}", 20);
	assert_int_equal(r.code, GQ_ECONFLICT);
	assert_string_equal(r.err.msg, "refused by the test");
	assert_string_equal(r.items.data, "@ {}\n");
}

static void test_dead_stream(void **state)
{
	struct json_read r JSON_READ_CLEANUP = {0};
	struct gq_json_stream_options options = {.shape = GQ_JSON_WATCH,
						 .max_raw_bytes = 99,
						 .max_kept_bytes = 99,
						 .on_item = json_read_item,
						 .arg = &r};
	struct gq_json_stream *s GQ_CLEANUP(gq_cleanup_json_stream) = gq_json_stream_new(&options);
	struct gq_err first, again;

	(void)state;
	assert_int_equal(gq_json_stream_feed(s, "x", 1, &first), GQ_EINVALID);
	assert_int_equal(gq_json_stream_feed(s, "{}", 2, &again), GQ_EINVALID);
	assert_string_equal(first.msg, again.msg);
	assert_int_equal(gq_json_stream_end(s, &again), GQ_EINVALID);
	assert_string_equal(first.msg, again.msg);
	assert_int_equal(gq_json_stream_feed(s, "", 0, NULL), GQ_EINVALID);
	gq_json_stream_free(NULL);
}

static void test_prune(void **state)
{
	static const char text[] = "{\"spec\":{\"nodeName\":\"n\",\"x\":0}}";
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(100);
	struct gq_err err;

	(void)state;
	gq_buf_puts(&out, "before ");
	assert_int_equal(gq_json_prune(text, strlen(text), pod_keep, &out, &err), 0);
	assert_string_equal(out.data, "before {\"spec\":{\"nodeName\":\"n\"}}");
	assert_int_equal(gq_json_prune(text, strlen(text) - 1, pod_keep, &out, &err), GQ_EINVALID);
	assert_int_equal(gq_json_prune("{} {}", 5, pod_keep, &out, &err), GQ_EINVALID);
	assert_string_equal(out.data, "before {\"spec\":{\"nodeName\":\"n\"}}");
	/* a key that grows when it is escaped anew still fits */
	gq_buf_reset(&out);
	assert_int_equal(gq_json_prune("{\"\\b\\b\":1}", 10, NULL, &out, &err), 0);
	assert_string_equal(out.data, "{\"\\u0008\\u0008\":1}");
	out.max = 10;
	gq_buf_reset(&out);
	assert_int_equal(gq_json_prune(text, strlen(text), pod_keep, &out, &err), GQ_ETOOBIG);
	assert_int_equal(out.len, 0);
}

/* A pod of some 200 KB, and its pruned copy. */
static void big_pod(struct gq_buf *raw, struct gq_buf *kept)
{
	gq_buf_puts(raw, "{ \"kind\" : \"Pod\", \"metadata\": {\n\t\"managedFields\": [");
	for (int i = 0; i < 500; i++)
		gq_buf_printf(raw,
			      "%s{\"f:x%d\" : {\"k:{\\\"uid\\\":\\\"%d\\\"}\":{\".\":{}}, "
			      "\"n\":[-1.5e+%d,0,true , null,\"\xE4\xB8\xAD\xE6\x96\x87\"]}}",
			      i ? " ,\n" : "", i, i, i);
	gq_buf_puts(raw, "], \"name\": \"big\", \"resourceVersion\": \"99\"}, \"spec\":{"
			 "\"containers\":[");
	gq_buf_puts(kept, "@99 {\"metadata\":{\"name\":\"big\"},\"spec\":{\"containers\":[");
	for (int i = 0; i < 400; i++) {
		gq_buf_printf(
		    raw,
		    "%s\r\n{\"name\":\"c%d\",\"env\":[{\"name\":\"E\",\"value\":\"%0200d\"}]"
		    ", \"resources\" : {\"limits\" : {\"nvidia.com/gpu\" : \"%d\"} } }",
		    i ? "," : "", i, i, i);
		gq_buf_printf(kept,
			      "%s{\"name\":\"c%d\",\"resources\":{\"limits\":{\"nvidia.com/gpu\":"
			      "\"%d\"}}}",
			      i ? "," : "", i, i);
	}
	gq_buf_puts(raw, "]},\"status\":{}}");
	gq_buf_puts(kept, "]}}\n");
}

static void test_big_pod(void **state)
{
	static const size_t steps[] = {1, 2, 3, 5, 7, 13, 31, 64, 1000, 4096, 65536};
	struct gq_buf raw GQ_BUF_CLEANUP = GQ_BUF_INIT(4u << 20);
	struct gq_buf kept GQ_BUF_CLEANUP = GQ_BUF_INIT(4u << 20);
	struct json_read r JSON_READ_CLEANUP = {.keep = pod_keep};

	(void)state;
	big_pod(&raw, &kept);
	assert_int_equal(raw.code | kept.code, 0);
	assert_true(raw.len > 150000);
	for (size_t i = 0; i < COUNT(steps); i++) {
		json_read(&r, raw.data, raw.len, &steps[i], 1);
		assert_int_equal(r.code, 0);
		assert_string_equal(r.items.data, kept.data);
	}
}

static void read_file(const char *path, struct gq_buf *out)
{
	char piece[4096];
	FILE *file = fopen(path, "rb");

	if (!file)
		fail_msg("%s: cannot open", path);
	for (size_t n; (n = fread(piece, 1, sizeof piece, file)) > 0;)
		gq_buf_append(out, piece, n);
	fclose(file);
	assert_int_equal(out->code, 0);
}

static void test_captured_reviews(void **state)
{
	unsigned n = 0;
	DIR *dir = opendir(GQ_TEST_DATA "/captures/reviews");

	(void)state;
	assert_non_null(dir);
	for (struct dirent *e; (e = readdir(dir));) {
		char path[1024];
		struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
		struct json_read r JSON_READ_CLEANUP = {.keep = review_keep};

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "%s/%s", GQ_TEST_DATA "/captures/reviews", e->d_name);
		read_file(path, &text);
		check_cuts(&r, text.data, text.len);
		assert_int_equal(r.code, 0);
		assert_ptr_equal(strstr(r.items.data,
					"@ {\"kind\":\"AdmissionReview\",\"request\":{"
					"\"uid\":\""),
				 r.items.data);
		assert_null(strstr(r.items.data, "managedFields"));
		assert_non_null(strstr(r.items.data, "\"operation\":\""));
		n++;
	}
	closedir(dir);
	assert_int_equal(n, 22);
}

static void test_captured_watch(void **state)
{
	static const size_t steps[] = {1, 3, 17, 1000, 65536};
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	struct json_read r JSON_READ_CLEANUP = {.shape = GQ_JSON_WATCH, .keep = pod_keep};
	char *first GQ_AUTOFREE = NULL;

	(void)state;
	read_file(GQ_TEST_DATA "/captures/pods-watchlist.jsonl", &text);
	for (size_t i = 0; i < COUNT(steps); i++) {
		unsigned added = 0;
		json_read(&r, text.data, text.len, &steps[i], 1);
		assert_int_equal(r.code, 0);
		for (const char *p = r.items.data; (p = strstr(p, "ADDED @")); p++)
			added++;
		assert_int_equal(added, r.n_items - 1);
		assert_non_null(strstr(r.items.data, "\nBOOKMARK @"));
		assert_non_null(strstr(
		    r.items.data, "ADDED @314 {\"metadata\":{\"name\":\"d1-5bb4fdc6b6-2b5cp\"}"));
		if (!first)
			first = strdup(r.items.data);
		assert_string_equal(r.items.data, first);
	}
}

static void test_captured_list(void **state)
{
	static const struct gq_json_keep keep[] = {{"kind", NULL}, {"metadata", name_keep}, {0}};
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	struct json_read r JSON_READ_CLEANUP = {.shape = GQ_JSON_LIST, .keep = keep};

	(void)state;
	read_file(GQ_TEST_DATA "/captures/dra-objects.json", &text);
	check_cuts(&r, text.data, text.len);
	assert_int_equal(r.code, 0);
	assert_ptr_equal(strstr(r.items.data,
				"@528 {\"kind\":\"ResourceClaim\",\"metadata\":{\"name\":"
				"\"dra1-g-8rgtn\"}}\n@530 "),
			 r.items.data);
	assert_non_null(strstr(r.items.data, "\nlist kind=List "));
}

/* Each allocation in turn fails: an error, no leak; and one that is not reached changes nothing. */
static void test_out_of_memory(void **state)
{
	static const char text[] =
	    "{\"items\":[{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"1\"}},"
	    "{\"spec\":{\"nodeName\":\"b\"}}],\"metadata\":{\"continue\":\"c\"}}";
	struct gq_json_stream_options options = {.shape = GQ_JSON_LIST,
						 .keep = pod_keep,
						 .max_raw_bytes = 1000,
						 .max_kept_bytes = 1000,
						 .on_item = json_read_item};
	bool failed = true;

	(void)state;
	for (long nth = 0; failed; nth++) {
		struct json_read r JSON_READ_CLEANUP = {.items = GQ_BUF_INIT(1000)};
		struct gq_json_stream *s GQ_CLEANUP(gq_cleanup_json_stream) = NULL;
		int code = GQ_ENOMEM;

		assert_true(nth < 100);
		gq_buf_reserve(&r.items, 500);
		options.arg = &r;
		fail_alloc(nth);
		s = gq_json_stream_new(&options);
		if (s)
			code = gq_json_stream_feed(s, text, strlen(text), &r.err);
		if (!code)
			code = gq_json_stream_end(s, &r.err);
		failed = fail_alloc_done();
		assert_int_equal(code, failed ? GQ_ENOMEM : 0);
		assert_true(failed || nth > 4);
	}
	for (long nth = 0, done = 0; !done; nth++) {
		struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(1000);
		fail_alloc(nth);
		int code = gq_json_prune("{\"a\":1}", 7, NULL, &out, NULL);
		done = !fail_alloc_done();
		assert_int_equal(code, done ? 0 : GQ_ENOMEM);
		assert_int_equal(out.len, done ? 7 : 0);
	}
}

/* Memory that one huge object took is given back, the next object is read as if nothing was. */
static void test_after_huge(void **state)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 20);
	struct json_read r JSON_READ_CLEANUP = {.shape = GQ_JSON_WATCH};

	(void)state;
	gq_buf_puts(&text, "{\"type\":\"ADDED\",\"object\":{\"z\":0");
	for (int i = 0; i < 200000; i++)
		gq_buf_printf(&text, ",\"%d\":\"0123456789\"", i);
	gq_buf_puts(&text, "}}{\"type\":\"ADDED\",\"object\":{\"a\":{\"b\":1},\"c\":\"\"}}");
	json_read_whole(&r, text.data);
	assert_int_equal(r.code, 0);
	assert_int_equal(r.n_items, 2);
	assert_non_null(strstr(r.items.data, "\nADDED @ {\"a\":{\"b\":1},\"c\":\"\"}\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_document),
	    cmocka_unit_test(test_malformed),
	    cmocka_unit_test(test_nul_bytes),
	    cmocka_unit_test(test_depth),
	    cmocka_unit_test(test_raw_cap),
	    cmocka_unit_test(test_kept_cap),
	    cmocka_unit_test(test_watch),
	    cmocka_unit_test(test_list),
	    cmocka_unit_test(test_callback_fails),
	    cmocka_unit_test(test_dead_stream),
	    cmocka_unit_test(test_prune),
	    cmocka_unit_test(test_big_pod),
	    cmocka_unit_test(test_captured_reviews),
	    cmocka_unit_test(test_captured_watch),
	    cmocka_unit_test(test_captured_list),
	    cmocka_unit_test(test_out_of_memory),
	    cmocka_unit_test(test_after_huge),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
