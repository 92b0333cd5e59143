#include "workload_world.h"

/* The words about workloads in their forms. English ones stand in test_workload_fit.c and
 * test_workload_decision.c. */

static void in_chinese(void **state)
{
	struct world *w =
	    world_new("locale: zh\n" TEAM_A "    quota: {A100: {gpus: 8}, H100: {memory: 80Gi}}\n");

	(void)state;
	judge(w, W(.fields = "'replicas':7"), NULL);
	assert_warned(
	    w, "Deployment web：租户 team-a 的配额为 8 张 A100 GPU，剩余 8 张；此 Deployment "
	       "需要 9 张（7 个 Pod，每个 1 张，滚动更新时另加 2 个），还缺 1 张。\n"
	       "Deployment web：其 Pod 全部可以容纳，但滚动更新时额外启动的 Pod 会被拒绝：请将 "
	       "maxSurge 设为 0，将 maxUnavailable 设为 1。");
	judge(w, W(.fields = "'replicas':12"), W(.fields = "'replicas':2"));
	assert_warned(w, "Deployment web：租户 team-a 的配额为 8 张 A100 GPU，剩余 8 张；此 "
			 "Deployment 需要 10 张（新增 10 个 Pod，每个 1 张），还缺 2 张。\n"
			 "Deployment web：目前最多能容纳其 10 个 Pod，其余的在 GPU 释放前会被拒绝："
			 "请将 spec.replicas 设为 10。");
	judge(w, W(.resources = "'nvidia.com/gpu':'9'"), NULL);
	assert_denied(w, GQ_REASON_OVER_LIMIT,
		      "Deployment web：租户 team-a 的配额为 8 张 A100 GPU，而此模板的每个 Pod 申请 "
		      "9 张，超出 1 张，即使其他 Pod 都不占用也无法通过。\n"
		      "若只申请 8 张 GPU，则可通过。");
	world_free(w);
}

/* Where no smaller number of GPUs would help, waiting would not either. */
static void nothing_would_help(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 0}}\n");

	(void)state;
	judge(w, W(.resources = "'nvidia.com/gpu':'1'"), NULL);
	assert_denied(w, GQ_REASON_OVER_LIMIT,
		      "Deployment web: team-a may hold 0 A100 GPUs, and each pod of this template "
		      "asks for 1: 1 too many, whatever others hold.\n"
		      "It would not fit with fewer GPUs or on another model either: ask who runs "
		      "the cluster for more quota.");
	world_free(w);
}

/* With generateName there is no name yet. */
static void without_a_name(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 1}}\n");

	(void)state;
	judge(w,
	      W(.kind = GQ_WORKLOAD_JOB, .meta = "'generateName':'j-'", .nameless = true,
		.fields = "'parallelism':2"),
	      NULL);
	assert_non_null(strstr(warnings_of(w), "Job: team-a may hold 1 A100 GPU and has 1 free"));
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(in_chinese),
	    cmocka_unit_test(nothing_would_help),
	    cmocka_unit_test(without_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
