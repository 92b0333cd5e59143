#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "quota/demand.h"
#include "tests/unit/quota_testing.h"

#define GPU GQ_SHARES_PER_GPU
#define CONTAINER(name, limits) "{'name':'" name "','resources':{'limits':{" limits "}}}"
#define SIDECAR(name, limits)                                                                      \
	"{'name':'" name "','restartPolicy':'Always','resources':{'limits':{" limits "}}}"
#define POD(init, main)                                                                            \
	"{'metadata':{'name':'p'},'spec':{'initContainers':[" init "],'containers':[" main "]}}"
#define N(n) "'nvidia.com/gpu':'" #n "'"
#define MEM(n) "'nvidia.com/gpumem':'" #n "'"
#define PERCENT(n) "'nvidia.com/gpumem-percentage':'" #n "'"
#define CORES(n) "'nvidia.com/gpucores':'" #n "'"

static void vectors(void **state)
{
	static const struct {
		const char *pod;
		int64_t device_mib;
		int64_t shares;
		int64_t memory_mib;
	} cases[] = {
	    {POD("", ""), 40960, 0, 0},
	    {POD("", CONTAINER("c", N(2))), 40960, 2 * GPU, 81920},
	    {POD("", CONTAINER("c", N(2))), 0, 2 * GPU, GQ_UNLIMITED},
	    {POD("", CONTAINER("c", "'amd.com/gpu':'3'")), 1000, 3 * GPU, 3000},
	    {POD("", CONTAINER("c", "'amd.com/gpu':'3'," N(1))), 1000, 4 * GPU, 4000},
	    /* memory is of each device, not of all together */
	    {POD("", CONTAINER("c", N(2) "," MEM(2048))), 40960, 2 * GPU / 20, 4096},
	    {POD("", CONTAINER("c", MEM(2048))), 40960, GPU / 20, 2048},
	    {POD("", CONTAINER("c", MEM(2048))), 0, GPU, 2048},
	    {POD("", CONTAINER("c", N(3) "," MEM(2048))), 0, 3 * GPU, 6144},
	    {POD("", CONTAINER("c", MEM(1))), 81559, 62, 1},
	    {POD("", CONTAINER("c", MEM(5000))), 1000, 5 * GPU, 5000},
	    /* a percentage, and memory left out, are never nothing */
	    {POD("", CONTAINER("c", PERCENT(25))), 40960, GPU / 4, 10240},
	    {POD("", CONTAINER("c", N(2) "," PERCENT(1))), 81559, 2 * GPU / 100, 2 * 816},
	    {POD("", CONTAINER("c", PERCENT(50))), 0, GPU / 2, GQ_UNLIMITED},
	    {POD("", CONTAINER("c", PERCENT(300))), 40960, GPU, 40960},
	    {POD("", CONTAINER("c", CORES(30))), 40960, GPU, 40960},
	    {POD("", CONTAINER("c", N(1) "," PERCENT(0))), 40960, GPU, 40960},
	    {POD("", CONTAINER("c", N(1) "," MEM(0))), 0, GPU, GQ_UNLIMITED},
	    /* the larger of memory and cores; of two sizes of memory */
	    {POD("", CONTAINER("c", MEM(4096) "," CORES(30))), 40960, 3 * GPU / 10, 4096},
	    {POD("", CONTAINER("c", MEM(20480) "," CORES(30))), 40960, GPU / 2, 20480},
	    {POD("", CONTAINER("c", PERCENT(10) "," CORES(300))), 40960, GPU, 4096},
	    {POD("", CONTAINER("c", MEM(4096) "," PERCENT(50))), 40960, GPU / 2, 20480},
	    /* HAMi's names concern the NVIDIA devices of the container only */
	    {POD("", CONTAINER("c", N(1) "," MEM(4096) ",'amd.com/gpu':'1'")), 40960,
	     GPU + GPU / 10, 40960 + 4096},
	    /* an init container without GPUs hides nothing, with fewer adds nothing */
	    {POD("{'name':'i'}", CONTAINER("c", N(4) "," MEM(2048))), 40960, 4 * GPU / 20, 8192},
	    {POD(CONTAINER("i", N(2)), CONTAINER("c", N(4))), 10, 4 * GPU, 40},
	    {POD(CONTAINER("i", N(6)), CONTAINER("c", N(4))), 10, 6 * GPU, 60},
	    /* sidecars add */
	    {POD(SIDECAR("s", N(4)), CONTAINER("c", N(4))), 10, 8 * GPU, 80},
	    {POD(SIDECAR("s", N(1)) "," CONTAINER("i", N(5)), CONTAINER("c", N(2))), 10, 6 * GPU,
	     60},
	    {POD(CONTAINER("i", N(5)) "," SIDECAR("s", N(1)), CONTAINER("c", N(2))), 10, 5 * GPU,
	     50},
	    {POD(SIDECAR("s", N(1)) "," CONTAINER("i", N(5)) "," SIDECAR("t", N(2)),
		 CONTAINER("c", N(4))),
	     10, 7 * GPU, 70},
	    {POD(SIDECAR("s", N(3)), "{'name':'idle'}"), 10, 3 * GPU, 30},
	    /* currencies are maximised apart: one init container has the shares, another the memory
	     */
	    {POD(CONTAINER("i", MEM(900)) "," CONTAINER("k", PERCENT(10) "," CORES(100)), "{}"),
	     1000, GPU, 900},
	    {"{'metadata':{'name':'p'},'spec':{'overhead':{'nvidia.com/"
	     "gpu':'1'},'initContainers':[" CONTAINER("i", N(3)) "],'containers':[" CONTAINER(
		 "c", N(2)) "]}}",
	     10, 4 * GPU, 40},
	    /* nothing overflows */
	    {POD("", CONTAINER("c", N(9223372036854775806))), 40960, GQ_UNLIMITED, GQ_UNLIMITED},
	    {POD("", CONTAINER("c", MEM(9223372036854775806))), 40960, GQ_UNLIMITED, INT64_MAX - 1},
	    {POD("", CONTAINER("c", MEM(10000000000000))), 40960, INT64_C(1230468750000000),
	     INT64_C(10000000000000)},
	    {POD("", CONTAINER("c", MEM(9223372036854775806))), 1, GQ_UNLIMITED, INT64_MAX - 1},
	    {POD("", CONTAINER("c", MEM(1))), INT64_MAX - 1, 1, 1},
	    {POD("", CONTAINER("c", PERCENT(99))), INT64_MAX - 1, 99 * GPU / 100,
	     INT64_C(9131138316486228048)},
	    {POD("", CONTAINER("c", N(1)) "," CONTAINER("d", N(9223372036854775806))), 1,
	     GQ_UNLIMITED, GQ_UNLIMITED},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = pod_of_text(cases[i].pod);
		struct gq_amount demand = gq_demand_on(pod, cases[i].device_mib);
		print_message("%s on %" PRId64 "\n", cases[i].pod, cases[i].device_mib);
		assert_int_equal(demand.shares, cases[i].shares);
		assert_int_equal(demand.memory_mib, cases[i].memory_mib);
	}
}

/* A generator of its own, so that every machine tries the same pods. */
static uint64_t random_state;

static int64_t below(int64_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (int64_t)(random_state % (uint64_t)n);
}

struct made {
	bool sidecar;
	int64_t count, mib, percent, cores, amd; /* -1: not written */
};

static struct made make(void)
{
	return (struct made){.sidecar = below(2) == 0,
			     .count = below(3) ? below(9) : -1,
			     .mib = below(3) ? -1 : below(90000),
			     .percent = below(3) ? -1 : below(140),
			     .cores = below(3) ? -1 : below(140),
			     .amd = below(5) ? -1 : below(4)};
}

static void write_made(struct gq_buf *out, const struct made *made, bool init)
{
	const struct {
		const char *name;
		int64_t value;
	} entries[] = {{"nvidia.com/gpu", made->count},
		       {"nvidia.com/gpumem", made->mib},
		       {"nvidia.com/gpumem-percentage", made->percent},
		       {"nvidia.com/gpucores", made->cores},
		       {"amd.com/gpu", made->amd}};

	gq_buf_printf(out, "{\"name\":\"c\",%s\"resources\":{\"%s\":{\"cpu\":\"1\"",
		      init && made->sidecar ? "\"restartPolicy\":\"Always\"," : "",
		      below(2) ? "limits" : "requests");
	for (size_t i = 0; i < LEN(entries); i++)
		if (entries[i].value >= 0)
			gq_buf_printf(out, ",\"%s\":\"%" PRId64 "\"", entries[i].name,
				      entries[i].value);
	gq_buf_puts(out, "}}}");
}

/* The rules as a person would work them out, device by device. */
static struct gq_amount expect_of(const struct made *made, int64_t device_mib)
{
	int64_t shares = 0, memory = 0;
	bool memory_given = made->mib > 0 || made->percent > 0;
	int64_t devices = made->count > 0 ? made->count : memory_given || made->cores > 0 ? 1 : 0;

	for (int64_t i = 0; i < devices; i++) {
		int64_t part = memory_given ? 0 : GPU, held = memory_given ? 0 : device_mib;
		if (made->mib > 0) {
			int64_t p = made->mib * GPU / device_mib;
			part = p * device_mib < made->mib * GPU ? p + 1 : p;
			held = made->mib;
		}
		if (made->percent > 0) {
			int64_t percent = made->percent < 100 ? made->percent : 100;
			int64_t m = device_mib * percent / 100;
			m += m * 100 < device_mib * percent;
			held = held > m ? held : m;
			part = part > GPU / 100 * percent ? part : GPU / 100 * percent;
		}
		int64_t cores = GPU / 100 * (made->cores < 100 ? made->cores : 100);
		shares += part > cores ? part : cores;
		memory += held;
	}
	for (int64_t i = 0; i < made->amd; i++) {
		shares += GPU;
		memory += device_mib;
	}
	return (struct gq_amount){shares, memory};
}

/* The pod's life step by step: what is held at each, at most. */
static struct gq_amount expect_life(const struct made *init, size_t n_init,
				    const struct made *main_, size_t n_main, int64_t device_mib)
{
	struct gq_amount most = {0, 0};

	for (size_t step = 0; step <= n_init; step++) {
		struct gq_amount held = {0, 0};
		for (size_t i = 0; i < step; i++)
			if (init[i].sidecar)
				held = gq_amount_add(held, expect_of(&init[i], device_mib));
		if (step < n_init)
			held = gq_amount_add(held, expect_of(&init[step], device_mib));
		for (size_t i = 0; step == n_init && i < n_main; i++)
			held = gq_amount_add(held, expect_of(&main_[i], device_mib));
		most.shares = held.shares > most.shares ? held.shares : most.shares;
		most.memory_mib =
		    held.memory_mib > most.memory_mib ? held.memory_mib : most.memory_mib;
	}
	return most;
}

static void random_pods_agree_with_their_life(void **state)
{
	static const int64_t devices[] = {1, 7, 16384, 40960, 81559, 81920, 143771};
	struct made init[5], main_[5], overhead;

	(void)state;
	random_state = 20261130;
	for (int round = 0; round < 3000; round++) {
		struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(65536);
		size_t n_init = (size_t)below(5), n_main = (size_t)below(4) + 1;
		gq_buf_puts(&json, "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"initContainers\":[");
		for (size_t i = 0; i < n_init; i++) {
			init[i] = make();
			gq_buf_puts(&json, i ? "," : "");
			write_made(&json, &init[i], true);
		}
		gq_buf_puts(&json, "],\"containers\":[");
		for (size_t i = 0; i < n_main; i++) {
			main_[i] = make();
			gq_buf_puts(&json, i ? "," : "");
			write_made(&json, &main_[i], false);
		}
		overhead = (struct made){.count = below(3), .amd = -1};
		gq_buf_printf(&json, "],\"overhead\":{\"nvidia.com/gpu\":\"%" PRId64 "\"}}}",
			      overhead.count);
		struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = pod_of(json.data, json.len);
		for (size_t d = 0; d < LEN(devices); d++) {
			struct gq_amount want =
			    gq_amount_add(expect_life(init, n_init, main_, n_main, devices[d]),
					  expect_of(&overhead, devices[d]));
			struct gq_amount demand = gq_demand_on(pod, devices[d]);
			if (demand.shares != want.shares || demand.memory_mib != want.memory_mib)
				print_message("%s on %" PRId64 "\n", json.data, devices[d]);
			assert_int_equal(demand.shares, want.shares);
			assert_int_equal(demand.memory_mib, want.memory_mib);
			/* what is not known is never less */
			struct gq_amount blind = gq_demand_on(pod, 0);
			assert_true(blind.memory_mib >= demand.memory_mib || pod->n_asks == 0);
		}
	}
}

static void node_resources(void **state)
{
	const char *names[4] = {NULL};

	(void)state;
	struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) =
	    pod_of_text(POD(CONTAINER("i", MEM(5)),
			    CONTAINER("c", N(1)) "," CONTAINER("d", "'amd.com/gpu':1," CORES(5))));
	assert_int_equal(gq_demand_node_resources(pod, names, LEN(names)), 2);
	assert_string_equal(names[0], "nvidia.com/gpu");
	assert_string_equal(names[1], "amd.com/gpu");
	names[1] = NULL;
	assert_int_equal(gq_demand_node_resources(pod, names, 1), 2);
	assert_null(names[1]);
	assert_int_equal(gq_demand_node_resources(pod, NULL, 0), 2);

	struct gq_pod *none GQ_CLEANUP(gq_cleanup_pod) =
	    pod_of_text(POD("", CONTAINER("c", "'cpu':'1'")));
	assert_int_equal(gq_demand_node_resources(none, names, LEN(names)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(vectors),
	    cmocka_unit_test(random_pods_agree_with_their_life),
	    cmocka_unit_test(node_resources),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
