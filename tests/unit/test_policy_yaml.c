#include "policy_cases.h"

#include <unistd.h>

static const struct policy_case cases[] = {
    {.name = "empty",
     .yaml = "",
     .bare = true,
     .problems = "p:1:1: the policy is empty; begin with apiVersion: "
		 "config.gpuquota.io/v1alpha1\n"},
    {.name = "comments only",
     .yaml = "# nothing\n"
	     "\n",
     .bare = true,
     .problems = "p:1:1: the policy is empty; begin with apiVersion: "
		 "config.gpuquota.io/v1alpha1\n"},
    {.name = "a list",
     .yaml = "- a\n",
     .bare = true,
     .problems = "p:1:1: policy: a list where a map is expected; write {key: value}, or "
		 "\"key: value\" on lines further in\n"},
    {.name = "plain text",
     .yaml = "hello\n",
     .bare = true,
     .problems = "p:1:1: policy: text where a map is expected; write {key: value}, or \"key: "
		 "value\" on lines further in\n"},
    {.name = "not utf-8",
     .yaml = "a: \377\n",
     .bare = true,
     .problems = "p:1:4: not UTF-8: byte 0xff; save the file as UTF-8\n"},
    {.name = "utf-16",
     .yaml = "\377\376a\000",
     .bare = true,
     .len = 4,
     .problems = "p:1:1: not UTF-8: byte 0xff; save the file as UTF-8\n"},
    {.name = "overlong",
     .yaml = "é: ü\n"
	     "b: \300\200\n",
     .bare = true,
     .problems = "p:2:4: not UTF-8: byte 0xc0; save the file as UTF-8\n"},
    {.name = "nul byte",
     .yaml = "mode: enf\000rce\n",
     .bare = true,
     .len = 14,
     .problems = "p:1:10: control character 0x00; remove it\n"},
    {.name = "escape byte",
     .yaml = "mode: \033[31m\n",
     .bare = true,
     .problems = "p:1:7: control character 0x1b; remove it\n"},
    {.name = "delete byte",
     .yaml = "a: \177\n",
     .bare = true,
     .problems = "p:1:4: control character 0x7f; remove it\n"},
    {.name = "duplicate key",
     .yaml = "mode: enforce\n"
	     "unassigned: deny\n"
	     "mode: warn\n",
     .problems = "p:5:1: duplicate key \"mode\", which stands in line 3 already; remove one "
		 "of the two\n"},
    {.name = "duplicate key further in",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    name: b\n",
     .problems = "p:5:5: duplicate key \"name\", which stands in line 4 already; remove one "
		 "of the two\n"},
    {.name = "duplicate key by escape",
     .yaml = "mode: enforce\n"
	     "\"m\\x6fde\": warn\n",
     .problems = "p:4:1: duplicate key \"mode\", which stands in line 3 already; remove one "
		 "of the two\n"},
    {.name = "tab as indentation",
     .yaml = "tenants:\n"
	     "\t- name: a\n",
     .problems = "p:4:1: not YAML: tab character may not be used as indentation; indent with "
		 "spaces\n"},
    {.name = "tab further in",
     .yaml = "exempt:\n"
	     "  namespaces: []\n"
	     "\tfoo: 1\n",
     .problems = "p:5:1: not YAML: tab character may not be used as indentation; indent with "
		 "spaces\n"},
    {.name = "bad indentation",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "   namespaces: [b]\n",
     .problems = "p:5:4: not YAML: did not find expected '-' indicator; compare the "
		 "indentation and the colons here with the lines around\n"},
    {.name = "unclosed list",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaces: [b, c\n",
     .problems = "p:6:1: not YAML: flow sequence without a closing bracket; close each [ with "
		 "a ]\n"},
    {.name = "unclosed map",
     .yaml = "tenants:\n"
	     "  - {name: a\n",
     .problems = "p:5:1: not YAML: missing comma in flow mapping; close each { with a }, put "
		 "a comma between entries\n"},
    {.name = "unclosed quote",
     .yaml = "mode: \"enforce\n",
     .problems = "p:3:8: not YAML: double-quoted scalar without closing quote; close the "
		 "quote\n"},
    {.name = "text behind a quote",
     .yaml = "mode: \"enforce\" now\n",
     .problems = "p:3:17: not YAML: invalid trailing content after double-quoted scalar; put "
		 "the whole value between the quotes\n"},
    {.name = "two maps on a line",
     .yaml = "mode: a: b\n",
     .problems = "p:3:8: not YAML: invalid nested block mapping on the same line; put the "
		 "value in quotes, or begin a new line\n"},
    {.name = "reserved character",
     .yaml = "mode: @enforce\n",
     .problems = "p:3:7: not YAML: plain scalar cannot start with '@'; put the value in "
		 "quotes\n"},
    {.name = "bad escape",
     .yaml = "mode: \"\\q\"\n",
     .problems = "p:3:8: not YAML: invalid escape 'q' in double-quoted string; use single "
		 "quotes, or write \\\\ for a backslash\n"},
    {.name = "no colon",
     .yaml = "mode: enforce\n"
	     "unassigned\n",
     .problems = "p:4:1: not YAML: invalid value after mapping; compare the indentation and "
		 "the colons here with the lines around\n"},
    {.name = "star without quotes",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      *: {gpus: 1}\n",
     .problems = "p:6:7: aliases (*) are not supported in a policy; repeat the value; the "
		 "class of every model is \"*\", with quotes\n"
		 "p:6:10: not YAML: did not find expected key; compare the indentation and "
		 "the colons here with the lines around\n"},
    {.name = "alias as a value",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota: {A100: *q}\n",
     .problems = "p:5:19: aliases (*) are not supported in a policy; repeat the value; the "
		 "class of every model is \"*\", with quotes\n"},
    {.name = "anchor and alias",
     .yaml = "tenants:\n"
	     "  - &a\n"
	     "    name: a\n"
	     "  - *a\n",
     .problems = "p:4:5: anchors (&) are not supported in a policy; remove it, and repeat the "
		 "value where it is needed\n"
		 "p:6:5: aliases (*) are not supported in a policy; repeat the value; the "
		 "class of every model is \"*\", with quotes\n"},
    {.name = "many aliases",
     .yaml = "a: &a [x, x]\n"
	     "b: &b [*a, *a]\n"
	     "c: [*b, *b]\n",
     .problems = "p:3:1: unknown key \"a\"; known here: apiVersion, kind, mode, locale, "
		 "unassigned, ambiguous, holders, exempt, classes, tenants, grants, rules\n"
		 "p:3:4: anchors (&) are not supported in a policy; remove it, and repeat the "
		 "value where it is needed\n"
		 "p:4:1: unknown key \"b\"; known here: apiVersion, kind, mode, locale, "
		 "unassigned, ambiguous, holders, exempt, classes, tenants, grants, rules\n"
		 "p:4:4: anchors (&) are not supported in a policy; remove it, and repeat the "
		 "value where it is needed\n"
		 "p:4:8: aliases (*) are not supported in a policy; repeat the value; the "
		 "class of every model is \"*\", with quotes\n"
		 "p:4:12: aliases (*) are not supported in a policy; repeat the value; the "
		 "class of every model is \"*\", with quotes\n"
		 "p:5:1: unknown key \"c\"; known here: apiVersion, kind, mode, locale, "
		 "unassigned, ambiguous, holders, exempt, classes, tenants, grants, rules\n"
		 "p:5:5: aliases (*) are not supported in a policy; repeat the value; the "
		 "class of every model is \"*\", with quotes\n"
		 "p:5:9: aliases (*) are not supported in a policy; repeat the value; the "
		 "class of every model is \"*\", with quotes\n"},
    {.name = "tag",
     .yaml = "mode: !!str enforce\n",
     .problems = "p:3:7: tags (!) are not supported in a policy; remove it; for text use "
		 "quotes\n"},
    {.name = "own tag",
     .yaml = "mode: !enforce enforce\n",
     .problems = "p:3:7: tags (!) are not supported in a policy; remove it; for text use "
		 "quotes\n"},
    {.name = "directive",
     .yaml = "%YAML 1.2\n"
	     "---\n"
	     "apiVersion: config.gpuquota.io/v1alpha1\n"
	     "kind: QuotaPolicy\n",
     .bare = true,
     .problems = "p:1:1: directives (%) are not supported in a policy; remove them\n"},
    {.name = "many quotes in quotes, which libfyaml counts wrong",
     .yaml = "exempt: {namespaces: ['"
	     ""
	     "']}\n",
     .problems = "p:3:23: \"\" is not the name of a "
		 "namespace; use a-z, 0-9 and \"-\", at most 63 characters\n"},
    {.name = "tag directive behind a comment",
     .yaml = "# a\n"
	     "%TAG ! tag:x,2000:\n"
	     "---\n"
	     "a: 1\n",
     .bare = true,
     .problems = "p:2:1: directives (%) are not supported in a policy; remove them\n"},
    {.name = "block scalar without an end",
     .yaml = "mode: |\n"
	     " ",
     .problems = "p:4:1: mode \"\" is not one of enforce, warn, audit; write one of these words\n"},
    {.name = "block scalar at the end",
     .yaml = "mode: >-\n"
	     "  enforced",
     .problems = "p:4:1: mode \"enforced\" is not one of enforce, warn, audit; did you mean "
		 "\"enforce\"?\n"},
    {.name = "explicit key and a tab, which libfyaml frees twice",
     .yaml = "? t:\t>",
     .problems = "p:3:1: a \"?\" before white space and a tab further on could be read as an "
		 "explicit key, which is not supported in a policy; write spaces in place of "
		 "tabs\n"},
    {.name = "explicit key",
     .yaml = "? mode\n"
	     ": warned\n",
     .problems = "p:4:3: mode \"warned\" is not one of enforce, warn, audit; did you mean "
		 "\"warn\"?\n"},
    {.name = "two documents",
     .yaml = "mode: enforce\n"
	     "---\n"
	     "mode: warn\n",
     .problems = "p:4:1: a second YAML document in one policy; put everything into one "
		 "document\n"},
    {.name = "two documents, first wrong",
     .yaml = "mode: enforced\n"
	     "---\n"
	     "mode: warn\n",
     .problems = "p:3:7: mode \"enforced\" is not one of enforce, warn, audit; did you mean "
		 "\"enforce\"?\n"
		 "p:4:1: a second YAML document in one policy; put everything into one "
		 "document\n"},
    {.name = "document behind dots",
     .yaml = "mode: enforce\n"
	     "...\n"
	     "mode: warn\n",
     .problems = "p:4:1: a second YAML document in one policy; put everything into one "
		 "document\n"},
    {.name = "a key that is a map",
     .yaml = "? {a: 1}\n"
	     ": b\n",
     .problems = "p:3:3: a key that is no text; write a word\n"},
    {.name = "a key that is an alias",
     .yaml = "*a : b\n",
     .problems = "p:3:1: aliases (*) are not supported in a policy; repeat the value; the "
		 "class of every model is \"*\", with quotes\n"},
    {.name = "escaped control character",
     .yaml = "mode: \"enf\\x01orce\"\n",
     .problems = "p:3:7: text with a line break, a tab or a control character; write it on "
		 "one line and without such characters\n"},
    {.name = "escaped nul",
     .yaml = "mode: \"enforce\\0\"\n",
     .problems = "p:3:7: text with a line break, a tab or a control character; write it on "
		 "one line and without such characters\n"},
    {.name = "text over lines",
     .yaml = "grants:\n"
	     "  - tenant: a\n"
	     "    class: A100\n"
	     "    gpus: 1\n"
	     "    until: \"2026-12-04T18:00:00Z\"\n"
	     "    reason: |\n"
	     "      one\n"
	     "      two\n",
     .problems = "p:4:13: unknown tenant \"a\"; add it to \"tenants\", or remove the grant\n"
		 "p:9:1: text with a line break, a tab or a control character; write it on "
		 "one line and without such characters\n"},
    {.name = "merge key",
     .yaml = "<<: {mode: warn}\n",
     .problems = "p:3:1: unknown key \"<<\"; known here: apiVersion, kind, mode, locale, "
		 "unassigned, ambiguous, holders, exempt, classes, tenants, grants, rules\n"},
    {.name = "empty item in a list",
     .yaml = "exempt:\n"
	     "  namespaces:\n"
	     "    - a # - not this\n"
	     "    # - nor this\n"
	     "    -\n"
	     "    - b\n"
	     "    -\n",
     .problems = "p:7:5: namespace: nothing where text is expected; write a value, or remove "
		 "the item\n"
		 "p:9:5: namespace: nothing where text is expected; write a value, or remove "
		 "the item\n"},
    {.name = "columns count characters",
     .yaml = "exempt: {\"é\": 1, \"ü-ö-x\": 2}\n",
     .problems = "p:3:10: unknown key \"é\"; known here: namespaces\n"
		 "p:3:18: unknown key \"ü-ö-x\"; known here: namespaces\n"},
    {.name = "windows line ends",
     .yaml = "mode: enforce\r\n"
	     "unassigned: denied\r\n",
     .problems = "p:4:13: unassigned \"denied\" is not one of deny, allow; write one of these "
		 "words\n"},
    {.name = "byte order mark",
     .yaml = "﻿apiVersion: v1\n"
	     "kind: QuotaPolicy\n",
     .bare = true,
     .problems = "p:1:13: apiVersion \"v1\" is not known to this version; write apiVersion: "
		 "config.gpuquota.io/v1alpha1\n"},
    {.name = "json",
     .yaml = "{\"apiVersion\":\"config.gpuquota.io/v1alpha1\",\"kind\":\"QuotaPolicy\",\n"
	     " \"mode\":\"on\"}",
     .bare = true,
     .problems = "p:2:9: mode \"on\" is not one of enforce, warn, audit; write one of these "
		 "words\n"},
};

static void problems(void **state)
{
	(void)state;
	check_policy_cases(cases, sizeof cases / sizeof cases[0]);
}

static void repeat(struct gq_buf *out, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		gq_buf_puts(out, text);
	assert_int_equal(out->code, 0);
}

/* Nesting ends the reading at once: a hundred thousand levels cost as little as thirty-three. */
static void deep_nesting(void **state)
{
	static const char *const openers[] = {"[", "{a: ", "- "};

	(void)state;
	for (size_t i = 0; i < sizeof openers / sizeof openers[0]; i++) {
		struct gq_buf yaml = GQ_BUF_INIT(GQ_POLICY_MAX_BYTES);
		gq_buf_puts(&yaml, POLICY_HEAD "mode:\n  ");
		repeat(&yaml, openers[i], 100000);
		char *problems = policy_problems(yaml.data, yaml.len);
		assert_non_null(strstr(problems, "nested deeper than 32 levels"));
		free(problems);
		gq_buf_done(&yaml);
	}
}

static void many_values(void **state)
{
	struct gq_buf yaml = GQ_BUF_INIT(GQ_POLICY_MAX_BYTES);

	(void)state;
	gq_buf_puts(&yaml, POLICY_HEAD "mode: [");
	repeat(&yaml, "a,", 500000);
	char *problems = policy_problems(yaml.data, yaml.len);
	assert_non_null(strstr(problems, "more than 400000 values"));
	free(problems);
	gq_buf_done(&yaml);
}

/* Neither one key a hundred thousand times nor as many keys take more than linear time. */
static void many_keys(void **state)
{
	struct gq_buf yaml = GQ_BUF_INIT(GQ_POLICY_MAX_BYTES);

	(void)state;
	gq_buf_puts(&yaml, POLICY_HEAD);
	repeat(&yaml, "a: 1\n", 100000);
	char *problems = policy_problems(yaml.data, yaml.len);
	assert_non_null(strstr(problems, "p:4:1: duplicate key \"a\", which stands in line 3"));
	assert_non_null(strstr(problems, "p: 99980 more\n"));
	free(problems);
	gq_buf_reset(&yaml);
	gq_buf_puts(&yaml, POLICY_HEAD);
	for (int i = 0; i < 100000; i++)
		gq_buf_printf(&yaml, "k%d:\n", i);
	assert_int_equal(yaml.code, 0);
	problems = policy_problems(yaml.data, yaml.len);
	assert_non_null(strstr(problems, "p:3:1: unknown key \"k0\""));
	free(problems);
	gq_buf_done(&yaml);
}

/* libfyaml takes some of its stack for each line end behind a block scalar. */
static void empty_lines(void **state)
{
	struct gq_buf yaml = GQ_BUF_INIT(GQ_POLICY_MAX_BYTES);

	(void)state;
	gq_buf_puts(&yaml, POLICY_HEAD "mode: |\n  warn\n");
	repeat(&yaml, " \n", 500000);
	assert_policy_problems("empty lines", yaml.data,
			       "p:1004:2: too many empty lines; remove them\n");
	gq_buf_reset(&yaml);
	gq_buf_puts(&yaml, POLICY_HEAD "mode: |\n  warn\n");
	repeat(&yaml, "\r\n", 499);
	assert_policy_problems("a few are fine", yaml.data, "");
	gq_buf_done(&yaml);
}

/* libfyaml would like to write what it thinks to stderr. */
static void silent(void **state)
{
	int saved[2] = {dup(1), dup(2)};
	FILE *sink = tmpfile();

	(void)state;
	assert_non_null(sink);
	fflush(NULL);
	assert_true(dup2(fileno(sink), 1) == 1 && dup2(fileno(sink), 2) == 2);
	char *problems = policy_problems("a: [\n", 5);
	char *warning = policy_problems("a: *b\n", 6);
	fflush(NULL);
	assert_true(dup2(saved[0], 1) == 1 && dup2(saved[1], 2) == 2);
	close(saved[0]);
	close(saved[1]);
	assert_int_equal(lseek(fileno(sink), 0, SEEK_END), 0);
	assert_non_null(strstr(problems, "not YAML"));
	assert_non_null(strstr(warning, "aliases"));
	free(problems);
	free(warning);
	fclose(sink);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(problems),    cmocka_unit_test(deep_nesting),
	    cmocka_unit_test(many_values), cmocka_unit_test(many_keys),
	    cmocka_unit_test(empty_lines), cmocka_unit_test(silent),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
