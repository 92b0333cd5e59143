#include "webhook/http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"

#define HEAD_MAX 512
#define BODY_MAX 64

/* Writes down what the reader reports: "METHOD path query {body} " for each message. */
struct notes {
	struct gq_buf text;
	int head_status, body_status;
};

static int note_head(void *arg, const struct gq_http_head *head)
{
	struct notes *notes = arg;

	gq_buf_printf(&notes->text, "%s %s", head->method, head->path);
	if (*head->query)
		gq_buf_printf(&notes->text, " ?%s", head->query);
	if (head->chunked)
		gq_buf_puts(&notes->text, " chunked");
	else if (head->content_length)
		gq_buf_printf(&notes->text, " %u", (unsigned)head->content_length);
	if (head->expect_continue)
		gq_buf_puts(&notes->text, " expects");
	gq_buf_puts(&notes->text, " {");
	return notes->head_status;
}

static int note_body(void *arg, const char *bytes, size_t len)
{
	struct notes *notes = arg;

	gq_buf_append(&notes->text, bytes, len);
	return notes->body_status;
}

/* Feeds a stream in pieces of `step` bytes (0: whole) and appends "} keep|close" or "status". */
static void read_stream(const char *bytes, size_t len, size_t step, struct notes *notes)
{
	struct gq_http *http GQ_CLEANUP(gq_cleanup_http) =
	    gq_http_new(&(struct gq_http_handler){note_head, note_body, notes},
			&(struct gq_http_limits){HEAD_MAX, BODY_MAX});
	assert_non_null(http);
	for (size_t at = 0; at < len;) {
		size_t end = step && at + step < len ? at + step : len;
		while (at < end) {
			/* a copy of the exact size: reading past the piece is seen by ASan */
			char *piece = malloc(end - at);
			assert_non_null(piece);
			memcpy(piece, bytes + at, end - at);
			size_t used = 0;
			int result = gq_http_feed(http, piece, end - at, &used);
			free(piece);
			if (result > GQ_HTTP_COMPLETE) {
				gq_buf_printf(&notes->text, "=%d", result);
				assert_int_equal(gq_http_feed(http, "GET", 3, &used), result);
				return;
			}
			if (result == GQ_HTTP_COMPLETE) {
				gq_buf_printf(&notes->text, "} %s ",
					      gq_http_keep_alive(http) ? "keep" : "close");
			} else {
				assert_int_equal(used, end - at);
			}
			at += used;
		}
	}
}

static void expect_stream(const char *stream, const char *want)
{
	for (size_t step = 0; step < 8; step++) {
		struct notes notes = {.text = GQ_BUF_INIT(1 << 16)};
		read_stream(stream, strlen(stream), step, &notes);
		if (strcmp(notes.text.data ? notes.text.data : "", want) != 0)
			print_error("in steps of %zu: %s\n", step, stream);
		assert_string_equal(notes.text.data ? notes.text.data : "", want);
		gq_buf_done(&notes.text);
	}
}

#define HOST "Host: h\r\n"

static void reads_requests(void **state)
{
	static const struct {
		const char *stream, *want;
	} cases[] = {
	    {"GET / HTTP/1.1\r\n" HOST "\r\n", "GET / {} keep "},
	    {"GET / HTTP/1.1\r\nHost:\r\n\r\n", "GET / {} keep "},
	    {"GET / HTTP/1.0\r\n\r\n", "GET / {} close "},
	    {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "GET / {} close "},
	    {"GET / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", "GET / {} close "},
	    {"POST /validate?timeout=10s HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc",
	     "POST /validate ?timeout=10s 3 {abc} keep "},
	    {"POST /a HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", "POST /a {} keep "},
	    {"POST /a HTTP/1.1\r\n" HOST "Transfer-Encoding: Chunked \r\n\r\n"
	     "3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nAuthorization: late\r\nHost: x\r\n\r\n",
	     "POST /a chunked {abcde} keep "},
	    {"POST /a HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
	     "POST /a 1 expects {x} keep "},
	    {"GET /a HTTP/1.1\r\n" HOST "Expect: 100-Continue\r\n\r\n", "GET /a {} keep "},
	    {"GET /m HTTP/1.1\r\n" HOST "aUTHORIZATION:   Bearer abc\r\n\r\n", "GET /m {} keep "},
	    {"GET http://example.test:9443/p/q?x=/y HTTP/1.1\r\n" HOST "\r\n",
	     "GET /p/q ?x=/y {} keep "},
	    {"GET HTTPS://example.test HTTP/1.1\r\n" HOST "\r\n", "GET / {} keep "},
	    {"GET http://example.test?q HTTP/1.1\r\n" HOST "\r\n", "GET / ?q {} keep "},
	    /* pipelined, blank lines between */
	    {"POST /1 HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\na\r\n\r\n"
	     "POST /2 HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\nb\r\n0\r\n\r\n"
	     "GET /3 HTTP/1.1\r\n" HOST "\r\n",
	     "POST /1 1 {a} keep POST /2 chunked {b} keep GET /3 {} keep "},
	    /* one that has not ended */
	    {"POST /1 HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nab", "POST /1 5 {ab"},
	    {"GET /1 HT", ""},
	    {"\r\n\r\n\r\n", ""},
	    /* one that is the largest allowed, in pieces of one byte */
	    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
	     "1\r\na\r\n1\r\na\r\n1\r\na\r\n1\r\na\r\n3c\r\n"
	     "0123456789012345678901234567890123456789abcdefghijklmnopqrst\r\n0\r\n\r\n",
	     "POST / chunked {aaaa0123456789012345678901234567890123456789abcdefghijklmnopqrst} "
	     "keep "},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		expect_stream(cases[i].stream, cases[i].want);
}

static void refuses_what_is_ambiguous(void **state)
{
	static const struct {
		const char *stream, *want;
	} cases[] = {
	    {"nonsense\r\n\r\n", "=400"},
	    {"\x16\x03\x01\x02", "=400"},
	    {"GET / HTTP/1.1\r\n\r\n", "=400"}, /* no Host */
	    {"GET / HTTP/1.1\r\n" HOST HOST "\r\n", "=400"},
	    {"GET /\r\n\r\n", "=505"}, /* HTTP/0.9 */
	    {"GET / HTTP/2.0\r\n" HOST "\r\n", "=505"},
	    {"GET /a#b HTTP/1.1\r\n" HOST "\r\n", "=400"},
	    {"GET relative HTTP/1.1\r\n" HOST "\r\n", "=400"},
	    {"OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "=400"},
	    {"GET http:///p HTTP/1.1\r\n" HOST "\r\n", "=400"},
	    {"GET ftp://h/p HTTP/1.1\r\n" HOST "\r\n", "=400"},
	    {"GET https:// HTTP/1.1\r\n" HOST "\r\n", "=400"},
	    {"CONNECT h:1 HTTP/1.1\r\n" HOST "\r\n", "=501"},
	    {"GET / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "=400"},
	    {"GET / HTTP/1.1\r\n" HOST "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
	     "HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
	     "=400"},
	    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", "=501"},
	    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: identity\r\n\r\n", "=501"},
	    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n"
	     "Transfer-Encoding: chunked\r\n\r\n",
	     "=400"},
	    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
	     "=400"},
	    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
	     "=400"},
	    {"POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n", "=400"},
	    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n", "=501"},
	    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\na", "=400"},
	    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1, 1\r\n\r\na", "=400"},
	    {"POST / HTTP/1.1\r\n" HOST "Content-Length: +1\r\n\r\na", "=400"},
	    {"POST / HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\na", "=400"},
	    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 0x1\r\n\r\na", "=400"},
	    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 18446744073709551616\r\n\r\n", "=400"},
	    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 18446744073709551615\r\n\r\n", "=413"},
	    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 65\r\n\r\n", "=413"},
	    {"POST / HTTP/1.1\r\n" HOST "Expect: the-unexpected\r\nContent-Length: 1\r\n\r\n",
	     "=417"},
	    {"GET / HTTP/1.1\r\n" HOST "A b: c\r\n\r\n", "=400"},
	    {"GET / HTTP/1.1\r\n" HOST "Transfer-Encoding : chunked\r\n\r\n", "=400"},
	    /* a chunk's data must end with CRLF */
	    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\naXY0\r\n\r\n",
	     "POST / chunked {a=400"},
	    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
	     "ffffffffffffffff\r\n",
	     "POST / chunked {=413"},
	    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
	     "10000000000000000\r\n",
	     "POST / chunked {=400"},
	    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
	     "1\r\na\r\nfffffffffffffffe\r\n",
	     "POST / chunked {a=413"},
	    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n41\r\n",
	     "POST / chunked {=413"},
	    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
	     "3f\r\n0123456789012345678901234567890123456789012345678901234567890aa\r\n2\r\n",
	     "POST / chunked {0123456789012345678901234567890123456789012345678901234567890aa=413"},
	    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n-1\r\n",
	     "POST / chunked {=400"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		expect_stream(cases[i].stream, cases[i].want);
}

/* The cap counts everything in the head, wherever it is cut, callbacks or not. */
static void bounds_the_head(void **state)
{
	static const struct {
		const char *before;
		char filler;
		const char *after;
	} cases[] = {
	    {"GET /", 'a', " HTTP/1.1\r\n" HOST "\r\n"},
	    {"GET / HTTP/1.1\r\n" HOST "X: ", 'a', "\r\n\r\n"},
	    {"GET / HTTP/1.1\r\n" HOST "X: ", ' ', "\r\n\r\n"}, /* llhttp reports none of it */
	    {"GET / HTTP/1.1\r\n" HOST, 'x', ": a\r\n\r\n"},
	    {"GET / HTTP/1.1\r\n" HOST "Authorization: ", 'a', "\r\n\r\n"},
	};
	char stream[2 * HEAD_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		size_t before = strlen(cases[i].before), after = strlen(cases[i].after);
		for (int over = 0; over <= 1; over++) {
			size_t fill = HEAD_MAX - before - after + (size_t)over;
			memcpy(stream, cases[i].before, before);
			memset(stream + before, cases[i].filler, fill);
			memcpy(stream + before + fill, cases[i].after, after);
			for (size_t step = 0; step < 4; step++) {
				struct notes notes = {.text = GQ_BUF_INIT(1 << 16)};
				read_stream(stream, before + fill + after, step, &notes);
				assert_non_null(notes.text.data);
				assert_int_equal(strcmp(notes.text.data, "=431") == 0, over);
				gq_buf_done(&notes.text);
			}
		}
	}
}

/* Chunk extensions and trailers are no way to send without end. */
static void bounds_the_framing(void **state)
{
	static const char *const heads[] = {
	    "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1;",
	    "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\nX: ",
	};
	char stream[HEAD_MAX + HEAD_MAX + 8 * BODY_MAX];

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		size_t len = strlen(heads[i]);
		memcpy(stream, heads[i], len);
		memset(stream + len, 'e', sizeof stream - len);
		for (size_t step = 0; step < 4; step++) {
			struct notes notes = {.text = GQ_BUF_INIT(1 << 16)};
			read_stream(stream, sizeof stream, step, &notes);
			assert_string_equal(notes.text.data, "POST / chunked {=413");
			gq_buf_done(&notes.text);
		}
	}
}

static void takes_refusals_of_its_caller(void **state)
{
	const char *stream = "POST /1 HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\na";
	struct notes head = {.text = GQ_BUF_INIT(1 << 16), .head_status = 404};
	struct notes body = {.text = GQ_BUF_INIT(1 << 16), .body_status = 503};

	(void)state;
	read_stream(stream, strlen(stream), 0, &head);
	assert_string_equal(head.text.data, "POST /1 1 {=404");
	read_stream(stream, strlen(stream), 0, &body);
	assert_string_equal(body.text.data, "POST /1 1 {a=503");
	gq_buf_done(&head.text);
	gq_buf_done(&body.text);
}

static void names_every_status(void **state)
{
	(void)state;
	for (int status = 200; status < 600; status++)
		assert_true(*gq_http_reason(status));
	assert_string_equal(gq_http_reason(413), "Content Too Large");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(reads_requests),
	    cmocka_unit_test(refuses_what_is_ambiguous),
	    cmocka_unit_test(bounds_the_head),
	    cmocka_unit_test(bounds_the_framing),
	    cmocka_unit_test(takes_refusals_of_its_caller),
	    cmocka_unit_test(names_every_status),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
