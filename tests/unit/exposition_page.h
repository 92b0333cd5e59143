#ifndef GQ_TESTS_UNIT_EXPOSITION_PAGE_H
#define GQ_TESTS_UNIT_EXPOSITION_PAGE_H

/* Reads a page of metrics as a scraper would, and fails the test on anything that one refuses or
 * that its linter complains about. Include after <cmocka.h>. */

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/unit/app_testing.h"

#define PAGE_MAX 4000

struct page {
	char *text; /* its lines, cut in place */
	struct {
		const char *name, *type;
	} families[PAGE_MAX];
	size_t n_families;
	struct {
		const char *series; /* name and labels as they stand */
		double value;
	} samples[PAGE_MAX];
	size_t n_samples;
};

static inline size_t page_name(const char *text)
{
	size_t n = 0;

	while (isalnum((unsigned char)text[n]) || text[n] == '_' || text[n] == ':')
		n++;
	assert_true(n > 0 && !isdigit((unsigned char)text[0]));
	return n;
}

/* Whether a series of this name belongs to the family announced last. */
static inline bool page_in_family(const struct page *page, const char *name, size_t len)
{
	static const char *const suffixes[] = {"_bucket", "_sum", "_count"};

	assert_true(page->n_families > 0);
	const char *family = page->families[page->n_families - 1].name;
	size_t base = strlen(family);
	if (strcmp(page->families[page->n_families - 1].type, "histogram") != 0)
		return len == base && memcmp(name, family, len) == 0;
	for (size_t i = 0; i < LEN(suffixes); i++)
		if (len == base + strlen(suffixes[i]) && memcmp(name, family, base) == 0 &&
		    memcmp(name + base, suffixes[i], strlen(suffixes[i])) == 0)
			return true;
	return false;
}

/* Length of {a="b",…}; every escape must be one of the three there are. */
static inline size_t page_labels(const char *text)
{
	const char *p = text + 1;

	for (;;) {
		p += page_name(p);
		assert_memory_equal(p, "=\"", 2);
		for (p += 2; *p != '"'; p++) {
			assert_true(*p != '\0');
			if (*p == '\\')
				assert_true(*++p && strchr("n\\\"", *p));
		}
		p++;
		if (*p == '}')
			return (size_t)(p + 1 - text);
		assert_true(*p++ == ',');
	}
}

static inline void page_comment(struct page *page, char *line)
{
	char *name = line + 7;
	size_t len = page_name(name);

	assert_true(name[len] == ' ' && name[len + 1]);
	name[len] = '\0';
	if (strncmp(line, "# HELP ", 7) == 0) {
		for (size_t i = 0; i < page->n_families; i++)
			if (strcmp(page->families[i].name, name) == 0)
				fail_msg("%s is announced twice", name);
		assert_in_range(page->n_families, 0, PAGE_MAX - 1);
		page->families[page->n_families].name = name;
		page->families[page->n_families++].type = NULL;
		return;
	}
	assert_memory_equal(line, "# TYPE ", 7);
	assert_true(page->n_families > 0);
	assert_string_equal(page->families[page->n_families - 1].name, name);
	assert_null(page->families[page->n_families - 1].type);
	char *type = name + len + 1;
	assert_true(strcmp(type, "counter") == 0 || strcmp(type, "gauge") == 0 ||
		    strcmp(type, "histogram") == 0);
	page->families[page->n_families - 1].type = type;
}

static inline void page_sample(struct page *page, char *line)
{
	size_t len = page_name(line), end = len;
	char *rest;

	if (!page_in_family(page, line, len))
		fail_msg("%s does not follow its family", line);
	if (line[len] == '{')
		end += page_labels(line + len);
	assert_true(line[end] == ' ');
	line[end] = '\0';
	for (size_t i = 0; i < page->n_samples; i++)
		if (strcmp(page->samples[i].series, line) == 0)
			fail_msg("%s is there twice", line);
	assert_in_range(page->n_samples, 0, PAGE_MAX - 1);
	page->samples[page->n_samples].series = line;
	page->samples[page->n_samples++].value = strtod(line + end + 1, &rest);
	if (rest == line + end + 1 || *rest)
		fail_msg("%s: %s is no value", line, line + end + 1);
}

static inline struct page *page_parse(const char *text)
{
	struct page *page = calloc(1, sizeof *page);

	assert_non_null(page);
	page->text = strdup(text);
	assert_non_null(page->text);
	assert_true(*text && text[strlen(text) - 1] == '\n');
	for (char *line = page->text, *next; *line; line = next) {
		char *end = strchr(line, '\n');
		*end = '\0';
		next = end + 1;
		if (line[0] == '#')
			page_comment(page, line);
		else
			page_sample(page, line);
	}
	return page;
}

static inline void page_free(struct page *page)
{
	free(page->text);
	free(page);
}

/* The value of a series; fails the test when it is not there. */
static inline double page_value(const struct page *page, const char *series)
{
	for (size_t i = 0; i < page->n_samples; i++)
		if (strcmp(page->samples[i].series, series) == 0)
			return page->samples[i].value;
	fail_msg("%s is not on the page", series);
	return 0;
}

/* How many series begin so. */
static inline size_t page_count(const struct page *page, const char *prefix)
{
	size_t n = 0;

	for (size_t i = 0; i < page->n_samples; i++)
		n += strncmp(page->samples[i].series, prefix, strlen(prefix)) == 0;
	return n;
}

/* What Prometheus' own linter says; skips the test where there is none. */
static inline void page_lint(const char *text)
{
	char path[] = "/tmp/gpuquota-metrics-XXXXXX";
	char command[128];

	if (system("command -v promtool >/dev/null 2>&1") != 0) {
		print_message("promtool is not installed: the page is not linted\n");
		skip();
	}
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	(void)close(fd);
	(void)snprintf(command, sizeof command, "promtool check metrics <%s >&2", path);
	int status = system(command);
	(void)unlink(path);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

#endif
