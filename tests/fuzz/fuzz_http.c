/* A stream of HTTP requests, cut in two ways: whatever the reader makes of it must not depend on
 * where it was cut, and must stay within its limits.
 *
 * The first byte says how to cut: 0 to 127: pieces of that many bytes plus one; 128 and above:
 * pieces whose lengths the bytes themselves give. The rest is the stream. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "webhook/http.h"

#define HEAD_MAX 1024
#define BODY_MAX 256

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds, const char *what)
{
	if (holds)
		return;
	(void)fprintf(stderr, "broken: %s\n", what);
	abort();
}

struct notes {
	struct gq_buf text;
	size_t body; /* of this message */
	bool head;
};

static int on_head(void *arg, const struct gq_http_head *head)
{
	struct notes *notes = arg;

	check(!notes->head, "one head a message");
	check(head->path[0] == '/', "a path is absolute");
	check(!strpbrk(head->path, "?#"), "a path has no query");
	check(strlen(head->path) + strlen(head->query) < HEAD_MAX, "a head is within its limit");
	check(head->content_length <= BODY_MAX, "an announced body is within its limit");
	check(!head->chunked || !head->content_length, "one framing");
	notes->head = true;
	notes->body = 0;
	gq_buf_printf(&notes->text, "%s %s?%s %d %u %d{", head->method, head->path, head->query,
		      head->chunked, (unsigned)head->content_length, head->expect_continue);
	return strcmp(head->path, "/refuse") == 0 ? 404 : 0;
}

static int on_body(void *arg, const char *bytes, size_t len)
{
	struct notes *notes = arg;

	check(notes->head, "a body follows its head");
	notes->body += len;
	check(notes->body <= BODY_MAX, "a body is within its limit");
	gq_buf_append(&notes->text, bytes, len);
	return 0;
}

/* mode as in the first byte; -1: whole. */
static void read_stream(const uint8_t *data, size_t size, int mode, struct notes *notes)
{
	struct gq_http *http = gq_http_new(&(struct gq_http_handler){on_head, on_body, notes},
					   &(struct gq_http_limits){HEAD_MAX, BODY_MAX});

	if (!http)
		return;
	for (size_t at = 0; at < size;) {
		size_t n = mode < 0 ? size : mode < 128 ? (size_t)mode + 1 : data[at] % 7u + 1;
		if (n > size - at)
			n = size - at;
		char *piece = malloc(n); /* of the exact size, for AddressSanitizer */
		if (!piece)
			break;
		memcpy(piece, data + at, n);
		size_t used = SIZE_MAX;
		int result = gq_http_feed(http, piece, n, &used);
		free(piece);
		if (result > GQ_HTTP_COMPLETE) {
			check(result >= 400 && result < 600, "a refusal is a status");
			gq_buf_printf(&notes->text, "=%d", result);
			break;
		}
		check(used <= n, "no more is used than there is");
		if (result == GQ_HTTP_COMPLETE) {
			check(notes->head, "a message ends after its head");
			check(used > 0, "a message has bytes");
			gq_buf_printf(&notes->text, "}%d ", gq_http_keep_alive(http));
			notes->head = false;
		} else {
			check(used == n, "all is used while more is wanted");
		}
		at += used;
	}
	gq_http_free(http);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct notes whole = {.text = GQ_BUF_INIT(1 << 24)}, cut = {.text = GQ_BUF_INIT(1 << 24)};

	if (size < 1 || size > 1 << 16)
		return 0;
	read_stream(data + 1, size - 1, -1, &whole);
	read_stream(data + 1, size - 1, data[0], &cut);
	check(whole.text.len == cut.text.len, "as much is read however it is cut");
	check(whole.text.len == 0 || memcmp(whole.text.data, cut.text.data, cut.text.len) == 0,
	      "the same is read however it is cut");
	gq_buf_done(&whole.text);
	gq_buf_done(&cut.text);
	return 0;
}
