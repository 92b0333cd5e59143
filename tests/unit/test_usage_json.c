#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/app_testing.h"
#include "webhook/metrics.h"

#define GPU GQ_SHARES_PER_GPU

static struct json_object *print(const struct gq_usage *usage)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);

	assert_int_equal(gq_usage_print_json(&out, usage), 0);
	return json_parse(out.data, out.len);
}

static struct json_object *item(struct json_object *root, const char *path, size_t i)
{
	struct json_object *list = json_at(root, path);

	assert_true(json_object_is_type(list, json_type_array));
	assert_true(i < json_object_array_length(list));
	return json_object_array_get_idx(list, i);
}

static void assert_keys(struct json_object *object, const char *const *keys, size_t n)
{
	assert_true(json_object_is_type(object, json_type_object));
	assert_int_equal(json_object_object_length(object), n);
	for (size_t i = 0; i < n; i++)
		if (!json_object_object_get_ex(object, keys[i], NULL))
			fail_msg("no key %s", keys[i]);
}

/* The keys that the command line and other tools read. */
static void shape(void **state)
{
	static const char *const top[] = {"policyHash", "synced", "tenants", "uncharged"};
	static const char *const of_tenant[] = {"name", "parent", "mode", "limits"};
	static const char *const of_limit[] = {"class", "gpus", "memoryMiB"};
	static const char *const of_numbers[] = {"limit", "used",        "reserved", "pending",
						 "bound", "terminating", "free",     "unready"};
	static const char *const of_uncharged[] = {"namespace", "pods", "ambiguous"};
	struct gq_policy *policy = app_policy(APP_POLICY, "0123abcd");
	struct gq_usage_limit limit = {
	    .class_name = "A100",
	    .most = {8 * GPU, 655360},
	    .used = {{GPU, 81920}, {GPU / 2, 40960}, {4 * GPU, 327680}, {2 * GPU, 163840}},
	    .unready = {3 * GPU / 2, 122880}};
	struct gq_usage_tenant tenants[] = {{.name = "team-a",
					     .parent = "research",
					     .mode = GQ_MODE_WARN,
					     .n_limits = 1,
					     .limits = &limit},
					    {.name = "research", .mode = GQ_MODE_AUDIT}};
	char lab[] = "lab";
	struct gq_usage_uncharged uncharged = {.namespace_ = lab, .pods = 3, .ambiguous = true};
	const struct gq_usage usage = {.policy = policy,
				       .synced = true,
				       .tenants = tenants,
				       .n_tenants = LEN(tenants),
				       .uncharged = &uncharged,
				       .n_uncharged = 1};
	struct json_object *root = print(&usage);

	(void)state;
	assert_keys(root, top, LEN(top));
	assert_string_equal(json_text(root, "policyHash"), "0123abcd");
	assert_true(json_true(root, "synced"));
	assert_int_equal(json_object_array_length(json_at(root, "tenants")), 2);
	struct json_object *one = item(root, "tenants", 0);
	assert_keys(one, of_tenant, LEN(of_tenant));
	assert_string_equal(json_text(one, "name"), "team-a");
	assert_string_equal(json_text(one, "parent"), "research");
	assert_string_equal(json_text(one, "mode"), "warn");
	struct json_object *l = item(one, "limits", 0);
	assert_keys(l, of_limit, LEN(of_limit));
	assert_keys(json_at(l, "gpus"), of_numbers, LEN(of_numbers));
	assert_keys(json_at(l, "memoryMiB"), of_numbers, LEN(of_numbers));
	static const struct {
		const char *key, *gpus;
		int64_t mib;
	} numbers[] = {
	    {"limit", "8", 655360},    {"used", "6.5", 532480},    {"reserved", "1", 81920},
	    {"pending", "0.5", 40960}, {"bound", "4", 327680},     {"terminating", "2", 163840},
	    {"free", "0.5", 40960},    {"unready", "1.5", 122880},
	};
	for (size_t i = 0; i < LEN(numbers); i++) {
		char path[64];
		(void)snprintf(path, sizeof path, "gpus.%s", numbers[i].key);
		assert_string_equal(json_text(l, path), numbers[i].gpus);
		(void)snprintf(path, sizeof path, "memoryMiB.%s", numbers[i].key);
		assert_true(json_object_get_int64(json_at(l, path)) == numbers[i].mib);
	}
	one = item(root, "tenants", 1);
	assert_null(json_at(one, "parent"));
	assert_string_equal(json_text(one, "mode"), "audit");
	assert_int_equal(json_object_array_length(json_at(one, "limits")), 0);
	one = item(root, "uncharged", 0);
	assert_keys(one, of_uncharged, LEN(of_uncharged));
	assert_string_equal(json_text(one, "namespace"), "lab");
	assert_int_equal(json_object_get_int(json_at(one, "pods")), 3);
	assert_true(json_true(one, "ambiguous"));
	json_object_put(root);
	gq_policy_unref(policy);
}

/* Unlimited is null, and so is what is free of it. */
static void unlimited(void **state)
{
	struct gq_usage_limit limit = {.class_name = "*",
				       .most = {2 * GPU, GQ_UNLIMITED},
				       .used = {{3 * GPU, 5}, {0, GQ_UNLIMITED}, {0, 0}, {0, 0}}};
	struct gq_usage_tenant tenant = {
	    .name = "t", .mode = GQ_MODE_ENFORCE, .n_limits = 1, .limits = &limit};
	struct json_object *root = print(&(struct gq_usage){.tenants = &tenant, .n_tenants = 1});
	struct json_object *l = item(item(root, "tenants", 0), "limits", 0);

	(void)state;
	assert_null(json_at(root, "policyHash"));
	assert_false(json_true(root, "synced"));
	assert_string_equal(json_text(item(root, "tenants", 0), "mode"), "enforce");
	assert_null(json_at(l, "memoryMiB.limit"));
	assert_null(json_at(l, "memoryMiB.free"));
	assert_null(json_at(l, "memoryMiB.used"));
	assert_null(json_at(l, "memoryMiB.pending"));
	assert_int_equal(json_object_get_int(json_at(l, "memoryMiB.reserved")), 5);
	/* more is held than allowed: nothing is free, not less */
	assert_string_equal(json_text(l, "gpus.free"), "0");
	json_object_put(root);
}

static void nothing_yet(void **state)
{
	struct json_object *root = print(&(struct gq_usage){0});

	(void)state;
	assert_null(json_at(root, "policyHash"));
	assert_int_equal(json_object_array_length(json_at(root, "tenants")), 0);
	assert_int_equal(json_object_array_length(json_at(root, "uncharged")), 0);
	json_object_put(root);
}

static void nasty_names(void **state)
{
	static const char *const names[] = {
	    "\"",   "\\",        "\n",           "\t\b",        "\x01",
	    "\x7f", "</script>", "\xE9\x85\x8D", "\",\"x\":\"", "",
	};

	(void)state;
	for (size_t i = 0; i < LEN(names); i++) {
		char *copy = strdup(names[i]);
		struct gq_usage_limit limit = {.class_name = names[i]};
		struct gq_usage_tenant tenant = {
		    .name = names[i], .parent = names[i], .n_limits = 1, .limits = &limit};
		struct gq_usage_uncharged uncharged = {.namespace_ = copy, .pods = 1};
		struct json_object *root = print(&(struct gq_usage){
		    .tenants = &tenant, .n_tenants = 1, .uncharged = &uncharged, .n_uncharged = 1});
		struct json_object *one = item(root, "tenants", 0);
		assert_string_equal(json_text(one, "name"), names[i]);
		assert_string_equal(json_text(one, "parent"), names[i]);
		assert_string_equal(json_text(item(one, "limits", 0), "class"), names[i]);
		assert_string_equal(json_text(item(root, "uncharged", 0), "namespace"), names[i]);
		json_object_put(root);
		free(copy);
	}
}

static void from_a_ledger(void **state)
{
	struct gq_ledger *ledger = app_ledger(APP_POLICY);
	struct gq_usage usage = {0};

	(void)state;
	assert_int_equal(gq_ledger_usage(ledger, START_NS, START_WALL_S, &usage, NULL), 0);
	struct json_object *root = print(&usage);
	assert_true(json_true(root, "synced"));
	assert_string_equal(json_text(root, "policyHash"), "0123abcd");
	struct json_object *l = item(item(root, "tenants", 0), "limits", 0);
	assert_string_equal(json_text(l, "class"), "A100");
	assert_string_equal(json_text(l, "gpus.limit"), "4");
	assert_string_equal(json_text(l, "gpus.free"), "4");
	assert_null(json_at(l, "memoryMiB.limit"));
	json_object_put(root);
	gq_usage_done(&usage);
	gq_ledger_free(ledger);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(shape),         cmocka_unit_test(unlimited),
	    cmocka_unit_test(nothing_yet),   cmocka_unit_test(nasty_names),
	    cmocka_unit_test(from_a_ledger),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
