#include "webhook/timeout.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

static const struct {
	const char *name;
	int64_t ns;
} units[] = {
    /* longer names first, so that "ms" is not read as "m" */
    {"ns", 1},
    {"us", 1000},
    {"\xC2\xB5s", 1000},
    {"ms", 1000000},
    {"s", INT64_C(1000000000)},
    {"m", INT64_C(60000000000)},
    {"h", INT64_C(3600000000000)},
};

#define LONGEST_NS (INT64_C(24) * 3600 * 1000000000)

/* One "NUMBER UNIT". Returns the text behind it, or NULL. */
static const char *parse_part(const char *p, const char *end, double *total_ns)
{
	double number = 0, scale = 1;
	int digits = 0;

	for (; p < end && isdigit((unsigned char)*p); p++, digits++)
		number = number * 10 + (*p - '0');
	if (p < end && *p == '.')
		for (p++; p < end && isdigit((unsigned char)*p); p++, digits++)
			number += (scale /= 10) * (*p - '0');
	if (digits == 0)
		return NULL;
	for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
		size_t len = strlen(units[i].name);
		if ((size_t)(end - p) >= len && memcmp(p, units[i].name, len) == 0) {
			*total_ns += number * (double)units[i].ns;
			return p + len;
		}
	}
	return NULL;
}

int gq_timeout_of_query(const char *query, int64_t *ret_ns, struct gq_err *err)
{
	static const char key[] = "timeout=";
	const char *p = query;

	while (p && strncmp(p, key, sizeof key - 1) != 0)
		p = (p = strchr(p, '&')) ? p + 1 : NULL;
	if (!p)
		return 0;
	p += sizeof key - 1;
	const char *end = p + strcspn(p, "&");
	double total_ns = 0;
	while (p && p < end)
		p = parse_part(p, end, &total_ns);
	if (!p || total_ns < 1)
		return gq_fail(err, GQ_EINVALID, "the query's timeout is no duration like 10s");
	*ret_ns = total_ns > (double)LONGEST_NS ? LONGEST_NS : (int64_t)total_ns;
	return 0;
}
