#ifndef GQ_BASE_LOG_H
#define GQ_BASE_LOG_H

#include <stdint.h>

/* One line of log on standard error: a constant message plus key=value fields. Only controller/
 * and webhook/ log; the layers below return errors. Never a payload, never a token. */

enum gq_log_level { GQ_LOG_DEBUG, GQ_LOG_INFO, GQ_LOG_WARN, GQ_LOG_ERROR };
enum gq_log_format { GQ_LOG_TEXT, GQ_LOG_JSON };

struct gq_log_field {
	const char *key;  /* NULL ends the list */
	const char *text; /* NULL: number is meant */
	int64_t number;
};

static inline const char *gq_log_text_(const char *text)
{
	return text ? text : "";
}

/* Fields for gq_log(): a string (NULL prints as empty), an integer. */
#define GQ_S(k, v) ((struct gq_log_field){.key = (k), .text = gq_log_text_(v)})
#define GQ_I(k, v) ((struct gq_log_field){.key = (k), .number = (int64_t)(v)})

/* gq_log(GQ_LOG_INFO, "policy accepted", GQ_S("hash", hash), GQ_I("tenants", n)); */
#define gq_log(level, ...) gq_log_pick_(level, __VA_ARGS__, (struct gq_log_field){0})
#define gq_log_pick_(level, msg, ...)                                                              \
	gq_log_emit(level, msg, (const struct gq_log_field[]){__VA_ARGS__})

/* Call once, before other threads start. */
void gq_log_configure(enum gq_log_level level, enum gq_log_format format);

/* 0 or GQ_EINVALID. */
int gq_log_level_parse(const char *text, enum gq_log_level *ret_level);
int gq_log_format_parse(const char *text, enum gq_log_format *ret_format);

/* Writes one line, at most 8 KiB, with a single write(2). Fields that do not fit are left out, and
 * the line says how many. Of one message (by its address), at most 10 lines are written in 10
 * seconds; the next that passes says how many were held back. Any thread. */
void gq_log_emit(enum gq_log_level level, const char *msg, const struct gq_log_field *fields);

#endif
