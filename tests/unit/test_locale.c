/* Which language a decision speaks, and how it reads in Chinese. */
#include "ledger_fixture.h"

#include "quota/decision_internal.h"
#include "quota_testing.h"

#define FAMILY(locale)                                                                             \
	"locale: " locale "\n"                                                                     \
	"tenants:\n"                                                                               \
	"  - {name: research, quota: {A100: {gpus: 16}}}\n"                                        \
	"  - {name: team-a, parent: research, namespaces: [a-train, a-serve],\n"                   \
	"     quota: {A100: {gpus: 8, memory: 640Gi}, H100: {gpus: 4}}}\n"

static void said(struct world *w, const char *message)
{
	if (strcmp(message_of(w), message) != 0)
		fail_msg("expected\n%s\nbut got\n%s", message, message_of(w));
}

#define REFUSED(w, message, ...)                                                                   \
	do {                                                                                       \
		assert_int_equal(CREATE(w, __VA_ARGS__), GQ_VERDICT_DENY);                         \
		said(w, message);                                                                  \
	} while (0)

/* The tenant's language, whoever owns the limit; without one the policy's. */
static void whose_language(void **state)
{
	struct world *w =
	    world_new("locale: zh\n"
		      "unassigned: deny\n"
		      "tenants:\n"
		      "  - {name: top, locale: en, quota: {\"*\": {gpus: 6}}}\n"
		      "  - {name: team-a, parent: top, namespaces: [a-train], quota: {A100: {gpus: "
		      "8}}}\n"
		      "  - {name: team-b, parent: top, locale: en, namespaces: [a-serve], quota: "
		      "{A100: {gpus: 8}}}\n");

	(void)state;
	world_namespace(w, "nobody", "");
	RUN(w, .name = "p", .gpus = 4, .product = A100_80);
	DENIED(w, GQ_REASON_OVER_LIMIT, "租户 top 的配额为 6 张 GPU（不限型号），", .name = "q",
	       .gpus = 4, .product = A100_80);
	assert_int_equal(w->verdict.locale, GQ_LOCALE_ZH);
	DENIED(w, GQ_REASON_OVER_LIMIT, "top may hold 6 GPUs of any model", .ns = "a-serve",
	       .name = "q", .gpus = 4, .product = A100_80);
	assert_int_equal(w->verdict.locale, GQ_LOCALE_EN);
	DENIED(w, GQ_REASON_UNASSIGNED, "命名空间 nobody 不属于任何租户", .ns = "nobody");
	/* the policy that is in force now */
	world_policy(w, "tenants: [{name: team-a, locale: zh, namespaces: [a-train]}]\n");
	DENIED(w, GQ_REASON_UNASSIGNED, "Namespace nobody belongs to no tenant", .ns = "nobody");
	DENIED(w, GQ_REASON_UNLISTED, "租户 team-a 没有 A100-80GB 型号 GPU 的配额，", .name = "q",
	       .product = A100_80);
	world_free(w);
}

/* Answers that are no decision, too. */
static void without_a_decision(void **state)
{
	struct world *w = world_bare(NULL);

	(void)state;
	assert_int_equal(gq_ledger_locale(w->ledger), GQ_LOCALE_EN);
	assert_int_equal(CREATE(w, .name = "p"), GQ_VERDICT_UNAVAILABLE);
	assert_non_null(strstr(message_of(w), "try again in a few seconds"));
	world_policy(w, FAMILY("zh"));
	assert_int_equal(gq_ledger_locale(w->ledger), GQ_LOCALE_ZH);
	assert_int_equal(CREATE(w, .name = "p"), GQ_VERDICT_UNAVAILABLE);
	said(w, "gpuquota 尚未读完集群的节点、Pod 和策略，在此之前不作任何决定：请几秒后重试。");
	assert_int_equal(world_bind(w, SPEC(.name = "p"), "a1", false), GQ_VERDICT_UNAVAILABLE);
	assert_non_null(strstr(message_of(w), "尚未读完"));
	world_free(w);

	w = world_new(FAMILY("zh"));
	assert_int_equal(
	    world_ask(w, SPEC(.name = "p", .product = A100_80), &(struct ask){.late = true}),
	    GQ_VERDICT_UNAVAILABLE);
	said(w, "API 服务器等待此响应的时间已到，而决定尚未作出，未作任何预留：请重试。");
	/* a namespace that has to be read first */
	world_policy(w, "locale: zh\n"
			"tenants: [{name: team-a, namespaceSelector: {matchLabels: {team: a}}}]\n");
	assert_int_equal(CREATE(w, .ns = "new", .name = "p"), GQ_VERDICT_READ);
	w->reads.items[0].done = true;
	w->reads.items[0].code = GQ_EIO;
	assert_int_equal(CREATE(w, .ns = "new", .name = "p"), GQ_VERDICT_UNAVAILABLE);
	assert_non_null(strstr(message_of(w), "尚未读完"));
	world_free(w);
}

/* Line for line as in English. */
static void a_refusal(void **state)
{
	struct world *w = world_new(FAMILY("zh"));

	(void)state;
	SEEN(w, .name = "train-0", .gpus = 4, .product = A100_80, .node = "a1");
	SEEN(w, .ns = "a-serve", .name = "llm-7f9c", .gpus = 1, .product = A100_80, .node = "a2");
	SEEN(w, .ns = "a-serve", .name = "llm-8a0d", .gpus = 1, .product = A100_80, .node = "a2");
	SEEN(w, .name = "train-1", .gpus = 1, .product = A100_80);
	REFUSED(w,
		"租户 team-a 的配额为 8 张 A100 GPU，已占用 7 张（已绑定 6，待调度 1，已预留 0）；"
		"此 Pod 申请 2 张，超出 1 张。\n"
		"命名空间 a-serve 中占用配额的 Pod：llm-7f9c（1）、llm-8a0d（1）；"
		"其他命名空间还占用 5。\n"
		"若只申请 1 张 GPU，或改用 H100（剩余配额：4），则可通过；改用时请将 nodeSelector "
		"设为 nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3。",
		.ns = "a-serve", .name = "q", .gpus = 2, .product = A100_80);
	REFUSED(w,
		"租户 team-a 没有 L40S 型号 GPU 的配额，只有 A100、H100 的配额：请用 nodeSelector "
		"选择其中一种，或联系集群管理员申请 L40S 的配额。",
		.name = "q", .product = L40S);
	GONE(w, .name = "train-0");
	GONE(w, .name = "train-1");
	SEEN(w, .name = "old", .gpus = 4, .product = A100_80, .owner = "ReplicaSet/llm-5d4b");
	DENIED(w, GQ_REASON_OVER_LIMIT,
	       "\nReplicaSet llm-7f9c 会先启动新 Pod 再结束旧 Pod，所需的 GPU 多于它已占用的：",
	       .name = "new", .gpus = 4, .product = A100_80, .owner = "ReplicaSet/llm-7f9c");
	DENIED(w, GQ_REASON_OVER_LIMIT,
	       "此 Pod 可能被调度到 A100-80GB、H100-80GB，因此计入其中每一种的配额；", .name = "q",
	       .gpus = 4, .products = "'" A100_80 "','" H100 "'");
	world_free(w);
}

/* What is filled into sentences is Chinese as well. */
static void what_cannot_be_counted(void **state)
{
	static const struct {
		const char *resources, *message;
	} cases[] = {
	    {"'nvidia.com/gpu':'500m'",
	     "containers/main 申请了 nvidia.com/gpu: 500m，该数量无法统计"
	     "（必须是整数），因此拒绝此 Pod：请填写大于或等于 0 的整数。"},
	    {"'nvidia.com/gpu':'-1'", "（不能为负数）"},
	    {"'nvidia.com/gpu':'many'", "（不是 Kubernetes 的数量格式）"},
	    {"'nvidia.com/gpu':'100E'", "（数值过大）"},
	    {"'nvidia.com/mig-1g.5gb':'1'", "申请了 nvidia.com/mig-1g.5gb（MIG），"},
	    {"'nvidia.com/gpu.shared':'1'", "（NVIDIA 设备插件改名后的时间片）"},
	    {"'nvidia.com/gpu-memory':'1'", "（HAMi 不提供的 NVIDIA 显存资源）"},
	    {"'nvidia.com/new':'1'", "（未知的 NVIDIA 资源）"},
	    {"'amd.com/gpumem':'1'", "（HAMi 的 AMD vGPU）"},
	    {"'amd.com/new':'1'", "（未知的 AMD 资源）"},
	    {"'example.com/vgpu':'1'", "（未知的 GPU 设备插件）"},
	    {"'volcano.sh/vgpu-number':'1'", "（Volcano vGPU）"},
	};
	struct world *w = world_new(FAMILY("zh"));

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		assert_int_equal(CREATE(w, .name = "p", .resources = cases[i].resources),
				 GQ_VERDICT_DENY);
		if (!strstr(message_of(w), cases[i].message))
			fail_msg("%s: %s", cases[i].resources, message_of(w));
	}
	world_free(w);
}

/* Why a claim cannot be read, or decided about. */
static void claims(void **state)
{
	static const struct {
		const char *claim;
		int code;
		const char *json, *message;
	} cases[] = {
	    {"'resourceClaimName':'c'", GQ_ENOTFOUND, NULL,
	     "无法读取资源申领 a（所引用的申领尚不存在，请先创建），因而无法得知它是否申请了 GPU，"
	     "所以拒绝此 Pod：请先创建该申领或其模板，再创建 Pod。"},
	    {"'resourceClaimName':'c'", GQ_EDENIED, NULL, "（gpuquota 无权读取）"},
	    {"'resourceClaimName':'../c'", 0, NULL, "（没有指明申领或模板）"},
	    {"'resourceClaimName':'c'", 0,
	     "{'spec':{'devices':{'requests':[{'name':'r','new':{}}]}}}",
	     "（本版本不认识 spec.devices.requests[0] 的写法）"},
	    {"'resourceClaimName':'c'", 0,
	     "{'spec':{'devices':{'requests':[{'name':'r','exactly':{'deviceClassName':"
	     "'gpu.nvidia.com'}}]}}}",
	     "资源申领 a 申请了设备类 gpu.nvidia.com 的设备，该设备可能是 GPU，"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct world *w = world_new(FAMILY("zh"));
		struct gq_buf spec GQ_BUF_CLEANUP = GQ_BUF_INIT(1024);
		gq_buf_printf(&spec, "'resourceClaims':[{'name':'a',%s}]", cases[i].claim);
		const struct pod_spec *pod = SPEC(.resources = "'cpu':'1'", .spec = spec.data);
		enum gq_verdict_kind kind = world_ask(w, pod, &(struct ask){0});
		if (kind == GQ_VERDICT_READ) {
			struct gq_read *read = &w->reads.items[0];
			read->done = true;
			read->code = cases[i].code;
			read->body = cases[i].json ? json_of(cases[i].json) : NULL;
			read->len = read->body ? strlen(read->body) : 0;
			kind = world_ask(w, pod, &(struct ask){0});
		}
		assert_int_equal(kind, GQ_VERDICT_DENY);
		if (!strstr(message_of(w), cases[i].message))
			fail_msg("case %zu: %s", i, message_of(w));
		world_free(w);
	}
}

static void rules_and_warnings(void **state)
{
	struct world *w =
	    world_new("locale: zh\n"
		      "mode: warn\n"
		      "ambiguous: deny\n"
		      "tenants: [{name: team-a, namespaces: [a-train], podLimit: {gpus: "
		      "1}, quota: {A100: {gpus: 1}, H100: {gpus: 4}}}]\n"
		      "rules: {podLimit: {mode: audit, gpus: 1}}\n");

	(void)state;
	assert_int_equal(CREATE(w, .name = "p", .gpus = 2, .products = "'" A100_80 "','" H100 "'"),
			 GQ_VERDICT_ALLOW);
	assert_int_equal(w->verdict.n_warnings, 3);
	assert_string_equal(
	    w->verdict.warnings[0].data,
	    "在 enforce 模式下会被拒绝：租户 team-a 的单个 Pod 最多可申请 1 张 GPU；此 Pod 申请 2 "
	    "张：请减少申请数量，或将任务拆分到多个 Pod。");
	assert_non_null(strstr(w->verdict.warnings[1].data, "（A100-80GB、H100-80GB）"));
	assert_non_null(strstr(w->verdict.warnings[2].data, "超出 1 张。"));
	assert_non_null(strstr(w->verdict.audit.data, "本集群中单个 Pod 最多可申请 1 张 GPU；"));
	world_free(w);
}

static void bindings(void **state)
{
	struct world *w = world_new(FAMILY("zh"));

	(void)state;
	RUN(w, .name = "p", .gpus = 2, .product = A100_80);
	RUN(w, .name = "q", .gpus = 4, .product = H100);
	assert_int_equal(world_bind(w, SPEC(.name = "p"), "h1", false), GQ_VERDICT_DENY);
	said(w, "此 Pod 不能调度到节点 h1（GPU 型号：H100-80GB）：租户 team-a 的配额为 4 张 H100 "
		"GPU，已占用 4，而此 Pod 申请 2。GPU 释放后即可调度到该节点；用 nodeSelector "
		"选择其他型号则无需等待。");
	assert_int_equal(world_bind(w, SPEC(.name = "p"), "new", false), GQ_VERDICT_DENY);
	assert_non_null(strstr(message_of(w), "节点 new（GPU 型号：未知）"));
	world_free(w);
}

static void attempts(void **state)
{
	struct world *w = world_new(FAMILY("zh"));

	(void)state;
	ALLOWED(w, .name = "p", .uid = "1", .product = A100_80);
	ALLOWED(w, .name = "p", .uid = "2", .product = A100_80);
	world_pass(w, 3 * S);
	assert_int_equal(CREATE(w, .name = "p", .uid = "3", .product = A100_80), GQ_VERDICT_WAIT);
	world_probed(w, SPEC(.name = "p", .uid = "1"), GQ_PROBE_ABSENT, NULL, w->now_ns);
	world_probed(w, SPEC(.name = "p", .uid = "2"), GQ_PROBE_ABSENT, NULL, w->now_ns);
	DENIED(w, GQ_REASON_OWNER_ATTEMPTS, "Pod p 先前有 2 个 Pod 获准后始终未出现，", .name = "p",
	       .uid = "3", .product = A100_80);
	assert_non_null(strstr(message_of(w), "请查看 Pod p 的事件"));
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(whose_language), cmocka_unit_test(without_a_decision),
	    cmocka_unit_test(a_refusal),      cmocka_unit_test(what_cannot_be_counted),
	    cmocka_unit_test(claims),         cmocka_unit_test(rules_and_warnings),
	    cmocka_unit_test(bindings),       cmocka_unit_test(attempts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
