#include <string.h>

#include "quota/policy_impl.h"

/* Two digits (four for a year), or -1. */
static int digits(const char *text, int n)
{
	int value = 0;

	for (int i = 0; i < n; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -1;
		value = value * 10 + (text[i] - '0');
	}
	return value;
}

static bool leap(int year)
{
	return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int month_days(int year, int month)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

	return days[month - 1] + (month == 2 && leap(year));
}

/* Days from 1970-01-01. The year is counted from March, so that a leap day comes last. */
static int64_t days_since_epoch(int year, int month, int day)
{
	int64_t y = month > 2 ? year : year - 1;
	int64_t m = month > 2 ? month - 3 : month + 9;
	int64_t era = (y >= 0 ? y : y - 399) / 400;
	int64_t of_era = y - era * 400;
	int64_t of_year = (153 * m + 2) / 5 + day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* text has at least 10 characters. */
static bool read_date(const char *text, int64_t *ret_days)
{
	int year = digits(text, 4), month = digits(text + 5, 2), day = digits(text + 8, 2);

	if (year < 0 || text[4] != '-' || text[7] != '-' || month < 1 || month > 12 || day < 1 ||
	    day > month_days(year, month))
		return false;
	*ret_days = days_since_epoch(year, month, day);
	return true;
}

/* "Z", "+02:00": seconds to take off the local time. */
static bool read_zone(const char *text, int64_t *ret_offset)
{
	if (strcmp(text, "Z") == 0 || strcmp(text, "z") == 0) {
		*ret_offset = 0;
		return true;
	}
	if (strlen(text) != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':')
		return false;
	int hours = digits(text + 1, 2), minutes = digits(text + 4, 2);
	if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59)
		return false;
	*ret_offset = (hours * 60 + minutes) * (text[0] == '-' ? -60 : 60);
	return true;
}

static bool read_time(const char *text, int64_t *ret_s)
{
	int64_t days, offset;

	if (strlen(text) < 20 || !read_date(text, &days) || (text[10] != 'T' && text[10] != 't') ||
	    text[13] != ':' || text[16] != ':')
		return false;
	int hour = digits(text + 11, 2), minute = digits(text + 14, 2);
	int second = digits(text + 17, 2);
	if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59)
		return false;
	const char *rest = text + 19;
	if (*rest ==
	    '.') { /* a part of a second is dropped: the grant ends no later than it says */
		size_t part = strspn(rest + 1, "0123456789");
		if (!part)
			return false;
		rest += 1 + part;
	}
	if (!read_zone(rest, &offset))
		return false;
	*ret_s = days * 86400 + hour * 3600 + minute * 60 + second - offset;
	return true;
}

bool gq_policy_time(struct gq_policy_reader *r, const struct gq_yaml_node *node, int64_t *ret_s)
{
	struct gq_hint hint;
	int64_t days;

	if (!gq_policy_expect(r, node, "until", GQ_POLICY_SCALAR))
		return false;
	if (read_time(node->text, ret_s))
		return true;
	gq_hint(&hint, "write it like \"2026-12-04T18:00:00Z\"");
	if (node->len == 10 && read_date(node->text, &days))
		gq_hint(&hint, "write \"%sT00:00:00Z\"", node->text);
	else if (node->len == 19 && read_date(node->text, &days))
		gq_hint(&hint, "write \"%.10sT%sZ\" or another offset", node->text,
			node->text + 11);
	GQ_REPORT(r, node, hint.text, "until: %s is not a date and time of RFC 3339",
		  GQ_QUOTE(node));
	return false;
}
