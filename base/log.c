#include "base/log.h"

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
#define BURST_LINES 10
#define BURST_WINDOW_S 10
#define BURST_SLOTS 64

static enum gq_log_level min_level = GQ_LOG_INFO;
static enum gq_log_format line_format = GQ_LOG_TEXT;

/* Rate limit per message; messages share a slot when their addresses collide, which only makes
 * the limit stricter. */
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

/* Says whether this line may pass, and how many were held back before it. */
static bool burst_admit(const char *msg, unsigned *ret_held_back)
{
	struct timespec now;
	bool pass;

	clock_gettime(CLOCK_MONOTONIC, &now);
	pthread_mutex_lock(&burst_lock);
	struct burst *b = &bursts[((uintptr_t)msg >> 3) % BURST_SLOTS];
	*ret_held_back = 0;
	if (b->msg != msg || now.tv_sec - b->since >= BURST_WINDOW_S) {
		*ret_held_back = b->msg == msg ? b->held_back : 0;
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
	if (*text && !text[strcspn(text, " \t\r\n\"=\\")])
		gq_buf_puts(line, text);
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

void gq_log_emit(enum gq_log_level level, const char *msg, const struct gq_log_field *fields)
{
	struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(LINE_MAX_BYTES);
	struct timespec now;
	struct tm utc;
	char stamp[32];
	unsigned held_back;

	if (level < min_level || !burst_admit(msg, &held_back))
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	if (strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc) == 0)
		stamp[0] = '\0';
	if (line_format == GQ_LOG_JSON) {
		gq_buf_printf(&line, "{\"time\":\"%s.%03ldZ\",\"level\":\"%s\",\"msg\":", stamp,
			      now.tv_nsec / 1000000, level_names[level]);
		gq_buf_json_string(&line, msg, strlen(msg));
	} else {
		gq_buf_printf(&line, "%s.%03ldZ %-5s %s", stamp, now.tv_nsec / 1000000,
			      level_names[level], msg);
	}
	for (const struct gq_log_field *f = fields; f->key; f++)
		put_field(&line, f->key, f->text, f->number);
	if (held_back)
		put_field(&line, "held_back", NULL, held_back);
	gq_buf_puts(&line, line_format == GQ_LOG_JSON ? "}\n" : "\n");
	if (line.code && line.len) /* over the cap: keep the beginning, end the line */
		line.data[line.len - 1] = '\n';
	for (size_t at = 0; at < line.len;) {
		ssize_t n = write(STDERR_FILENO, line.data + at, line.len - at);
		if (n <= 0)
			return;
		at += (size_t)n;
	}
}
