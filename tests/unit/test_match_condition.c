#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "quota/gpu_names.h"
#include "quota/match_condition.h"
#include "quota/rules.h"
#include "tests/unit/quota_testing.h"

static const char *const entries[] = {"quota",           "rules",     "references",
				      "user-namespaces", "workloads", "workload-user-namespaces"};

static void print(struct gq_buf *out, const char *entry)
{
	gq_buf_reset(out);
	assert_int_equal(gq_match_condition_print(out, entry), 0);
	assert_true(out->len > 0);
}

/* hack/generate-manifests.sh folds them at single spaces. */
static void one_line_each(void **state)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);

	(void)state;
	for (size_t i = 0; i < LEN(entries); i++) {
		int depth = 0;
		print(&out, entries[i]);
		assert_int_equal(strlen(out.data), out.len);
		assert_null(strchr(out.data, '\n'));
		assert_null(strstr(out.data, "  "));
		assert_true(out.data[0] != ' ' && out.data[out.len - 1] != ' ');
		for (const char *at = out.data; *at; at++) {
			depth += (*at == '(') - (*at == ')');
			assert_true(depth >= 0);
		}
		assert_int_equal(depth, 0);
	}
}

/* How often a text stands in another. */
static unsigned count(const char *text, const char *part)
{
	unsigned n = 0;

	for (; (text = strstr(text, part)); text += strlen(part))
		n++;
	return n;
}

/* Each pod is asked about once: an entry has a part of its own, and leaves out what those before it
 * ask about. */
static void entries_leave_out_each_others_pods(void **state)
{
	struct gq_buf gpu GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	struct gq_buf part GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);

	(void)state;
	gq_gpu_names_print_match_condition(&gpu, "object");
	print(&out, "quota");
	assert_string_equal(out.data, gpu.data);
	for (size_t i = 1; i <= 3; i++) {
		char *others = NULL;
		print(&out, entries[i]);
		assert_true(asprintf(&others, "!(%s)", gpu.data) > 0);
		assert_int_equal(count(out.data, others), 1);
		assert_int_equal(count(out.data, gpu.data), 1);
		free(others);
	}
	gq_rules_print_container_condition(&part, "object");
	print(&out, "rules");
	assert_int_equal(count(out.data, part.data), 1);
	for (size_t i = 2; i <= 3; i++) {
		char *others = NULL;
		print(&out, entries[i]);
		assert_true(asprintf(&others, "!(%s || ", part.data) > 0);
		assert_int_equal(count(out.data, others), 1);
		free(others);
	}
	gq_buf_reset(&part);
	gq_rules_print_reference_condition(&part, "object");
	print(&out, "references");
	assert_ptr_equal(strstr(out.data, part.data), out.data);
	print(&out, "user-namespaces");
	assert_int_equal(count(out.data, part.data), 0);
	assert_int_equal(count(out.data, "object.spec.hostUsers"), 2);
}

/* quota is not asked about ephemeral containers, and what their pod chose is none of theirs. */
static void ephemeral_containers(void **state)
{
	static const char is[] = "has(request.subResource) && "
				 "request.subResource == 'ephemeralcontainers'";
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	char *text = NULL;

	(void)state;
	print(&out, "rules");
	assert_int_equal(count(out.data, is), 2);
	assert_true(asprintf(&text, "((%s) || !(", is) > 0);
	assert_ptr_equal(strstr(out.data, text), out.data);
	free(text);
	assert_true(asprintf(&text, " || (!(%s) && (", is) > 0);
	const char *chosen = strstr(out.data, text);
	assert_non_null(chosen);
	assert_non_null(strstr(chosen, "object.spec.nodeName"));
	assert_null(strstr(chosen, "object.spec.containers"));
	free(text);
}

/* What has to be read to tell is asked about for ephemeral containers too, but where rules does
 * already; and their pod may ask for a GPU, which quota never asks about for them. */
static void ephemeral_containers_with_references(void **state)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	struct gq_buf reference GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	struct gq_buf container GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	struct gq_buf gpu GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	char *begins = NULL;

	(void)state;
	print(&out, "references");
	gq_rules_print_reference_condition(&reference, "object");
	gq_rules_print_container_condition(&container, "object");
	gq_gpu_names_print_match_condition(&gpu, "object");
	assert_true(asprintf(&begins,
			     "%s && ((has(request.subResource) && request.subResource == "
			     "'ephemeralcontainers') ? !(%s) : !(%s)",
			     reference.data, container.data, gpu.data) > 0);
	assert_ptr_equal(strstr(out.data, begins), out.data);
	free(begins);
}

/* A template is asked about for whatever its pods would be, by the same words. */
static void templates(void **state)
{
	int (*const parts[])(struct gq_buf *, const char *) = {
	    gq_gpu_names_print_match_condition, gq_rules_print_container_condition,
	    gq_rules_print_pod_condition, gq_rules_print_reference_condition};
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);

	(void)state;
	print(&out, "workloads");
	for (size_t i = 0; i < LEN(parts); i++) {
		struct gq_buf part GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
		parts[i](&part, "t");
		assert_int_equal(count(out.data, part.data), 1);
	}
}

static void workloads(void **state)
{
	static const char *const parts[] = {
	    "object.spec.jobTemplate.spec.template",
	    "object.spec.template",
	    "object.template",
	    "!has(object.metadata.deletionTimestamp)",
	    "request.subResource == 'scale'",
	    "t.spec.nodeName",
	    "t.spec.resourceClaims",
	    "v.hostPath",
	};
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);

	(void)state;
	print(&out, "workloads");
	for (size_t i = 0; i < LEN(parts); i++)
		if (!strstr(out.data, parts[i]))
			fail_msg("%s is not in %s", parts[i], out.data);
}

static void other_entries(void **state)
{
	static const char *const others[] = {"", "policy", "binding", "Quota", "quota ", "rule"};
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);

	(void)state;
	for (size_t i = 0; i < LEN(others); i++) {
		assert_int_equal(gq_match_condition_print(&out, others[i]), GQ_EINVALID);
		assert_int_equal(out.len, 0);
	}
}

static void too_little_room(void **state)
{
	(void)state;
	for (size_t i = 0; i < LEN(entries); i++) {
		struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(100);
		assert_int_equal(gq_match_condition_print(&out, entries[i]), GQ_ETOOBIG);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_line_each),
	    cmocka_unit_test(entries_leave_out_each_others_pods),
	    cmocka_unit_test(ephemeral_containers),
	    cmocka_unit_test(ephemeral_containers_with_references),
	    cmocka_unit_test(templates),
	    cmocka_unit_test(workloads),
	    cmocka_unit_test(other_entries),
	    cmocka_unit_test(too_little_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
