#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"

#define LINE_MAX_BYTES 8192
#define LINE_TAIL_BYTES 64 /* kept free for the end of the line */
#define BURST_LINES 10
#define BURST_WINDOW_S 10
#define BURST_SLOTS 256

static enum gq_log_level min_level = GQ_LOG_INFO;
static enum gq_log_format line_format = GQ_LOG_TEXT;

/* Rate limit per message. The last slot is shared by all messages that find no other. */
static struct burst {
	const char *msg;
	time_t since;
	unsigned lines;
	unsigned held_back;
} bursts[BURST_SLOTS];
static pthread_mutex_t burst_lock = PTHREAD_MUTEX_INITIALIZER;

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void gq_log_configure(enum gq_log_level level, enum gq_log_format format)
{
	min_level = level;
	line_format = format;
}

int gq_log_level_parse(const char *text, enum gq_log_level *ret_level)
{
	for (unsigned i = 0; i < sizeof level_names / sizeof level_names[0]; i++) {
		if (strcmp(text, level_names[i]) == 0) {
			*ret_level = (enum gq_log_level)i;
			return 0;
		}
	}
	return GQ_EINVALID;
}

int gq_log_format_parse(const char *text, enum gq_log_format *ret_format)
{
	if (strcmp(text, "text") == 0)
		*ret_format = GQ_LOG_TEXT;
	else if (strcmp(text, "json") == 0)
		*ret_format = GQ_LOG_JSON;
	else
		return GQ_EINVALID;
	return 0;
}

static struct burst *burst_slot(const char *msg, time_t now)
{
	struct burst *spare = NULL;

	for (unsigned i = 0; i < BURST_SLOTS - 1; i++) {
		struct burst *b = &bursts[i];
		if (b->msg == msg)
			return b;
		if (!b->msg)
			return spare ? spare : b;
		if (!spare && now - b->since >= BURST_WINDOW_S && !b->held_back)
			spare = b;
	}
	return spare ? spare : &bursts[BURST_SLOTS - 1];
}

/* Says whether this line may pass, and how many were held back before it. */
static bool burst_admit(const char *msg, unsigned *ret_held_back)
{
	struct timespec now;
	bool pass;

	clock_gettime(CLOCK_MONOTONIC, &now);
	pthread_mutex_lock(&burst_lock);
	struct burst *b = burst_slot(msg, now.tv_sec);
	bool shared = b == &bursts[BURST_SLOTS - 1];
	*ret_held_back = 0;
	if ((b->msg != msg && !shared) || now.tv_sec - b->since >= BURST_WINDOW_S) {
		*ret_held_back = b->msg == msg || shared ? b->held_back : 0;
		*b = (struct burst){.msg = msg, .since = now.tv_sec};
	}
	pass = b->lines < BURST_LINES;
	if (pass)
		b->lines++;
	else
		b->held_back++;
	pthread_mutex_unlock(&burst_lock);
	return pass;
}

static void put_text_value(struct gq_buf *line, const char *text)
{
	size_t plain = 0;

	/* what is not plain ASCII might talk to the terminal */
	while (text[plain] > ' ' && text[plain] < 0x7F && !strchr("\"=\\", text[plain]))
		plain++;
	if (plain && !text[plain])
		gq_buf_append(line, text, plain);
	else
		gq_buf_json_string(line, text, strlen(text));
}

static void put_field(struct gq_buf *line, const char *key, const char *text, int64_t number)
{
	bool json = line_format == GQ_LOG_JSON;

	gq_buf_puts(line, json ? "," : " ");
	if (json) {
		gq_buf_json_string(line, key, strlen(key));
		gq_buf_putc(line, ':');
	} else {
		gq_buf_printf(line, "%s=", key);
	}
	if (!text)
		gq_buf_printf(line, "%" PRId64, number);
	else if (json)
		gq_buf_json_string(line, text, strlen(text));
	else
		put_text_value(line, text);
}

static void put_start(struct gq_buf *line, enum gq_log_level level, const char *msg)
{
	struct timespec now;
	struct tm utc;
	char stamp[32];

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	if (strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc) == 0)
		stamp[0] = '\0';
	if (line_format == GQ_LOG_JSON) {
		gq_buf_printf(line, "{\"time\":\"%s.%03ldZ\",\"level\":\"%s\",\"msg\":", stamp,
			      now.tv_nsec / 1000000, level_names[level]);
		gq_buf_json_string(line, msg, strlen(msg));
	} else {
		gq_buf_printf(line, "%s.%03ldZ %-5s %s", stamp, now.tv_nsec / 1000000,
			      level_names[level], msg);
	}
}

static void write_line(const struct gq_buf *line)
{
	for (size_t at = 0; at < line->len;) {
		ssize_t n = write(STDERR_FILENO, line->data + at, line->len - at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		at += (size_t)n;
	}
}

void gq_log_emit(enum gq_log_level level, const char *msg, const struct gq_log_field *fields)
{
	struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(LINE_MAX_BYTES - LINE_TAIL_BYTES);
	unsigned held_back;
	int64_t left_out = 0;

	if (level < min_level || !burst_admit(msg, &held_back))
		return;
	put_start(&line, level, msg);
	for (const struct gq_log_field *f = fields; f->key && line.len; f++) {
		size_t before = line.len;
		put_field(&line, f->key, f->text, f->number);
		if (line.code) { /* a line that can be parsed is worth more than the whole of it */
			line.len = before;
			line.code = 0;
			left_out++;
		}
	}
	line.max = LINE_MAX_BYTES;
	if (left_out)
		put_field(&line, "left_out", NULL, left_out);
	if (held_back)
		put_field(&line, "held_back", NULL, held_back);
	gq_buf_puts(&line, line_format == GQ_LOG_JSON ? "}\n" : "\n");
	if (!line.code)
		write_line(&line);
}
