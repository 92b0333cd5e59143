#include "webhook/http.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <llhttp.h>

#include "base/buf.h"
#include "base/err.h"

/* Long enough for every field that is read; a longer name is not one of them. */
#define NAME_MAX_BYTES 24
/* Raw bytes of a chunked body for each decoded byte: a body of one-byte chunks needs 6. */
#define CHUNK_OVERHEAD 8
/* Buffers larger than this are not kept between messages. */
#define KEEP_BYTES 4096

enum field { FIELD_OTHER, FIELD_HOST, FIELD_TRANSFER_ENCODING, FIELD_EXPECT };

static const char *const field_names[] = {
    [FIELD_HOST] = "host",
    [FIELD_TRANSFER_ENCODING] = "transfer-encoding",
    [FIELD_EXPECT] = "expect",
};

enum phase { PHASE_IDLE, PHASE_HEAD, PHASE_BODY };

struct gq_http {
	llhttp_t parser;
	struct gq_http_handler handler;
	struct gq_http_limits limits;
	enum phase phase;
	size_t room; /* raw bytes that this phase may still take */
	uint64_t body_bytes;
	int refusal;
	bool head_done, complete, keep_alive;
	unsigned seen[sizeof field_names / sizeof field_names[0]];
	bool chunked, expect_continue;
	char name[NAME_MAX_BYTES];
	size_t name_len; /* NAME_MAX_BYTES: too long */
	enum field field;
	struct gq_buf url, value;
};

static int refuse(struct gq_http *http, int status)
{
	if (!http->refusal)
		http->refusal = status;
	return -1;
}

static int refuse_buf(struct gq_http *http, const struct gq_buf *buf)
{
	return refuse(http, buf->code == GQ_ETOOBIG ? 431 : 503);
}

static int on_url(llhttp_t *parser, const char *bytes, size_t len)
{
	struct gq_http *http = parser->data;

	if (gq_buf_append(&http->url, bytes, len))
		return refuse_buf(http, &http->url);
	return 0;
}

static bool is_token(const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		char c = bytes[i];
		bool alnum =
		    (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
		if (!alnum && (!c || !strchr("!#$%&'*+-.^_`|~", c)))
			return false;
	}
	return true;
}

static int on_field(llhttp_t *parser, const char *bytes, size_t len)
{
	struct gq_http *http = parser->data;

	/* unless built strict, llhttp lets spaces pass: "Transfer-Encoding : chunked" */
	if (!is_token(bytes, len))
		return refuse(http, 400);
	if (len > sizeof http->name - http->name_len) {
		http->name_len = sizeof http->name;
		return 0;
	}
	memcpy(http->name + http->name_len, bytes, len);
	http->name_len += len;
	return 0;
}

static int on_field_complete(llhttp_t *parser)
{
	struct gq_http *http = parser->data;

	http->field = FIELD_OTHER;
	for (unsigned i = FIELD_HOST; i < sizeof field_names / sizeof field_names[0]; i++) {
		if (http->name_len == strlen(field_names[i]) &&
		    strncasecmp(http->name, field_names[i], http->name_len) == 0)
			http->field = (enum field)i;
	}
	http->name_len = 0;
	gq_buf_reset(&http->value);
	return 0;
}

static int on_value(llhttp_t *parser, const char *bytes, size_t len)
{
	struct gq_http *http = parser->data;

	/* fields behind a chunked body (trailers) say nothing that is used */
	if (http->head_done || http->field == FIELD_OTHER)
		return 0;
	if (gq_buf_append(&http->value, bytes, len))
		return refuse_buf(http, &http->value);
	return 0;
}

static bool value_is(const struct gq_http *http, const char *want)
{
	size_t len = http->value.len;

	while (len && (http->value.data[len - 1] == ' ' || http->value.data[len - 1] == '\t'))
		len--;
	return len == strlen(want) && strncasecmp(http->value.data, want, len) == 0;
}

static int on_value_complete(llhttp_t *parser)
{
	struct gq_http *http = parser->data;

	if (http->head_done || http->field == FIELD_OTHER)
		return 0;
	/* a second one of any of these is a question of whom you ask */
	if (http->seen[http->field]++)
		return refuse(http, 400);
	switch (http->field) {
	case FIELD_TRANSFER_ENCODING:
		if (!value_is(http, "chunked"))
			return refuse(http, 501);
		http->chunked = true;
		break;
	case FIELD_EXPECT:
		if (!value_is(http, "100-continue"))
			return refuse(http, 417);
		http->expect_continue = true;
		break;
	case FIELD_HOST:
	case FIELD_OTHER:
		break;
	}
	return 0;
}

/* Cuts the target into path and query, in place. Returns 0 or a status. */
static int split_target(struct gq_http *http, struct gq_http_head *head)
{
	static const char *const schemes[] = {"http://", "https://"};
	char *url = http->url.data;

	if (!url || strchr(url, '#') || strlen(url) != http->url.len)
		return 400;
	char *query = strchr(url, '?');
	if (query)
		*query = '\0';
	head->query = query ? query + 1 : "";
	head->path = url;
	for (unsigned i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
		size_t len = strlen(schemes[i]);
		if (strncasecmp(url, schemes[i], len) == 0) {
			if (!url[len] || url[len] == '/')
				return 400; /* no authority */
			head->path = strchr(url + len, '/');
			if (!head->path)
				head->path = "/";
		}
	}
	return head->path[0] == '/' ? 0 : 400;
}

static int judge_head(struct gq_http *http)
{
	const llhttp_t *parser = &http->parser;
	struct gq_http_head head = {.method = llhttp_method_name((llhttp_method_t)parser->method)};
	bool length = parser->flags & F_CONTENT_LENGTH;

	if (parser->http_major != 1)
		return 505;
	if (parser->method == HTTP_CONNECT)
		return 501;
	if (parser->upgrade)
		return 400;
	/* llhttp frames the body by its own reading of Transfer-Encoding: both must agree */
	if (http->chunked != !!(parser->flags & F_CHUNKED) ||
	    http->chunked != !!(parser->flags & F_TRANSFER_ENCODING) || (http->chunked && length))
		return 400;
	if (parser->http_minor == 0) {
		if (http->chunked)
			return 400;
		http->expect_continue = false;
	} else if (!http->seen[FIELD_HOST]) {
		return 400;
	}
	int status = split_target(http, &head);
	if (status)
		return status;
	if (length && parser->content_length > http->limits.body_bytes)
		return 413;
	head.content_length = length ? parser->content_length : 0;
	head.chunked = http->chunked;
	head.expect_continue = http->expect_continue && (http->chunked || head.content_length);
	return http->handler.head(http->handler.arg, &head);
}

static int on_headers_complete(llhttp_t *parser)
{
	struct gq_http *http = parser->data;

	int status = judge_head(http);
	if (status)
		return refuse(http, status);
	http->head_done = true;
	/* so that the bytes of the head and of the body can be told apart, and each be bounded */
	return HPE_PAUSED;
}

static int on_chunk_header(llhttp_t *parser)
{
	struct gq_http *http = parser->data;

	/* the size is any 64-bit number that the client liked to write */
	if (parser->content_length > http->limits.body_bytes - http->body_bytes)
		return refuse(http, 413);
	return 0;
}

static int on_body(llhttp_t *parser, const char *bytes, size_t len)
{
	struct gq_http *http = parser->data;

	if (len > http->limits.body_bytes - http->body_bytes)
		return refuse(http, 413);
	http->body_bytes += len;
	int status = http->handler.body(http->handler.arg, bytes, len);
	return status ? refuse(http, status) : 0;
}

static int on_message_complete(llhttp_t *parser)
{
	struct gq_http *http = parser->data;

	http->complete = true;
	/* HTTP/1.0 clients are not worth the trouble of answering "Connection: keep-alive" */
	http->keep_alive = parser->http_minor >= 1 && llhttp_should_keep_alive(parser);
	return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_url = on_url,
    .on_header_field = on_field,
    .on_header_field_complete = on_field_complete,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_chunk_header = on_chunk_header,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

struct gq_http *gq_http_new(const struct gq_http_handler *handler,
			    const struct gq_http_limits *limits)
{
	struct gq_http *http = calloc(1, sizeof *http);

	if (!http)
		return NULL;
	llhttp_init(&http->parser, HTTP_REQUEST, &settings);
	http->parser.data = http;
	http->handler = *handler;
	http->limits = *limits;
	http->url = GQ_BUF_INIT(limits->head_bytes);
	http->value = GQ_BUF_INIT(limits->head_bytes);
	return http;
}

void gq_http_free(struct gq_http *http)
{
	if (!http)
		return;
	gq_buf_done(&http->url);
	gq_buf_done(&http->value);
	free(http);
}

static void empty(struct gq_buf *buf)
{
	if (buf->cap > KEEP_BYTES)
		gq_buf_done(buf);
	gq_buf_reset(buf);
}

static void begin_message(struct gq_http *http)
{
	http->phase = PHASE_HEAD;
	http->room = http->limits.head_bytes;
	http->body_bytes = 0;
	http->head_done = http->complete = http->keep_alive = false;
	http->chunked = http->expect_continue = false;
	memset(http->seen, 0, sizeof http->seen);
	http->name_len = 0;
	http->field = FIELD_OTHER;
	empty(&http->url);
	empty(&http->value);
}

/* One call of llhttp: -1 when it wants more, else what gq_http_feed() returns. */
static int execute(struct gq_http *http, const char *bytes, size_t len, size_t *ret_used)
{
	llhttp_errno_t code = llhttp_execute(&http->parser, bytes, len);
	size_t used = len;

	if (code == HPE_PAUSED && (http->complete || http->phase == PHASE_HEAD)) {
		used = (size_t)(llhttp_get_error_pos(&http->parser) - bytes);
		llhttp_resume(&http->parser);
	} else if (code != HPE_OK) {
		return http->refusal ? http->refusal : 400;
	}
	*ret_used = used;
	http->room -= used;
	if (http->complete) {
		http->phase = PHASE_IDLE;
		return GQ_HTTP_COMPLETE;
	}
	if (http->phase == PHASE_HEAD && http->head_done) {
		http->phase = PHASE_BODY;
		http->room = http->limits.head_bytes + CHUNK_OVERHEAD * http->limits.body_bytes;
	} else if (http->room == 0) {
		return http->phase == PHASE_HEAD ? 431 : 413;
	}
	return -1;
}

int gq_http_feed(struct gq_http *http, const char *bytes, size_t len, size_t *ret_used)
{
	size_t at = 0;

	if (http->refusal)
		return http->refusal;
	if (http->phase == PHASE_IDLE) {
		while (at < len && (bytes[at] == '\r' || bytes[at] == '\n'))
			at++;
		if (at == len) {
			*ret_used = len;
			return GQ_HTTP_MORE;
		}
		begin_message(http);
	}
	for (;;) {
		size_t used = 0;
		bool had_head = http->head_done;
		size_t n = len - at < http->room ? len - at : http->room;
		int result = execute(http, bytes + at, n, &used);
		at += used;
		if (result > GQ_HTTP_COMPLETE)
			return http->refusal = result;
		if (result == GQ_HTTP_COMPLETE) {
			*ret_used = at;
			return result;
		}
		/* a message without a body ends in the call after the one that ended its head */
		if (at == len && had_head == http->head_done) {
			*ret_used = len;
			return GQ_HTTP_MORE;
		}
	}
}

bool gq_http_keep_alive(const struct gq_http *http)
{
	return http->keep_alive;
}

const char *gq_http_reason(int status)
{
	switch (status) {
	case 200:
		return "OK";
	case 400:
		return "Bad Request";
	case 401:
		return "Unauthorized";
	case 403:
		return "Forbidden";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 408:
		return "Request Timeout";
	case 411:
		return "Length Required";
	case 413:
		return "Content Too Large";
	case 415:
		return "Unsupported Media Type";
	case 417:
		return "Expectation Failed";
	case 429:
		return "Too Many Requests";
	case 431:
		return "Request Header Fields Too Large";
	case 500:
		return "Internal Server Error";
	case 501:
		return "Not Implemented";
	case 503:
		return "Service Unavailable";
	case 505:
		return "HTTP Version Not Supported";
	default:
		return status < 300 ? "OK" : status < 500 ? "Refused" : "Failed";
	}
}
