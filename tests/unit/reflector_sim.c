#include "reflector_sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"

static const struct gq_json_keep keep_meta[] = {{"name", NULL}, {NULL, NULL}};
static const struct gq_json_keep keep[] = {{"metadata", keep_meta}, {"spec", NULL}, {NULL, NULL}};

static void name_of(const struct gq_event *event, char *to, size_t size)
{
	const char *at = strstr(event->json, "\"name\":\"");
	size_t len = 0;

	assert_int_equal(strlen(event->json), event->len);
	assert_null(strstr(event->json, "managedFields"));
	if (at)
		len = strcspn(at + 8, "\"");
	assert_true(len < size);
	memcpy(to, at ? at + 8 : "", len);
	to[len] = '\0';
}

static int on_event(void *arg, const struct gq_event *event, struct gq_err *err)
{
	static const char *const marks[] = {
	    [GQ_EVENT_LIST_BEGIN] = "[", [GQ_EVENT_UPSERT] = "+", [GQ_EVENT_DELETE] = "-",
	    [GQ_EVENT_LIST_END] = "]",   [GQ_EVENT_IDLE] = ".",
	};
	struct sim *sim = arg;
	char name[64];

	gq_buf_puts(&sim->log, marks[event->kind]);
	if (event->kind == GQ_EVENT_LIST_BEGIN || event->kind == GQ_EVENT_LIST_END)
		sim->begun_ns = event->begun_ns;
	else
		assert_int_equal(event->begun_ns, 0);
	if (event->kind == GQ_EVENT_LIST_END && sim->end_code)
		return gq_fail(err, sim->end_code, "no end");
	if (!event->json)
		return 0;
	name_of(event, name, sizeof name);
	gq_buf_printf(&sim->log, "%s@%s", name, event->resource_version);
	if (sim->refuse && strcmp(name, sim->refuse) == 0)
		return gq_fail(err, sim->refuse_code, "not understood");
	return 0;
}

static void on_problem(void *arg, const char *resource, int code, const char *message)
{
	struct sim *sim = arg;

	assert_string_equal(resource, "pods");
	assert_true(code < 0);
	assert_true(message[0]);
	sim->n_problems++;
	sim->last_code = code;
	gq_buf_reset(&sim->problem);
	gq_buf_puts(&sim->problem, message);
}

static void on_synced(void *arg, const char *resource)
{
	struct sim *sim = arg;

	assert_string_equal(resource, "pods");
	gq_buf_puts(&sim->log, "!synced");
}

static void sim_init(struct sim *sim)
{
	*sim = (struct sim){
	    .resource = {.name = "pods",
			 .path = "/api/v1/pods",
			 .keep = keep,
			 .on_event = on_event,
			 .arg = sim},
	    .options = {.on_problem = on_problem, .on_synced = on_synced, .arg = sim},
	    .now = 1000 * GQ_NS_PER_S,
	    .log = GQ_BUF_INIT(1 << 20),
	    .path = GQ_BUF_INIT(1 << 16),
	    .problem = GQ_BUF_INIT(1 << 16),
	};
	sim_restart(sim);
}

void sim_restart(struct sim *sim)
{
	gq_reflector_free(sim->reflector);
	sim->reflector = NULL;
	assert_int_equal(gq_reflector_new(&sim->resource, &sim->options, 42, &sim->reflector, NULL),
			 0);
}

static void sim_done(struct sim *sim)
{
	gq_reflector_free(sim->reflector);
	gq_buf_done(&sim->log);
	gq_buf_done(&sim->path);
	gq_buf_done(&sim->problem);
}

const char *sim_begin(struct sim *sim, int64_t min_wait_ns, int64_t max_wait_ns)
{
	int64_t wait = gq_reflector_deadline(sim->reflector) - sim->now;

	if (wait < 0)
		wait = 0;
	if (wait < min_wait_ns || wait > max_wait_ns)
		fail_msg("waits %lld ms", (long long)(wait / GQ_NS_PER_MS));
	sim->now += wait;
	gq_buf_reset(&sim->path);
	assert_int_equal(gq_reflector_begin(sim->reflector, sim->now, &sim->path, NULL), 0);
	return sim->path.data;
}

void sim_head(struct sim *sim, long status)
{
	(void)gq_reflector_response(sim->reflector, sim->now, status);
}

int sim_feed(struct sim *sim, const char *bytes, size_t len)
{
	return gq_reflector_data(sim->reflector, sim->now, bytes, len);
}

int sim_text(struct sim *sim, const char *text)
{
	return sim_feed(sim, text, strlen(text));
}

void sim_end(struct sim *sim)
{
	gq_reflector_end(sim->reflector, sim->now, NULL, 0);
}

void sim_break(struct sim *sim)
{
	struct gq_err broke = {.code = GQ_EIO, .msg = "connection reset"};

	gq_reflector_end(sim->reflector, sim->now, &broke, 0);
}

void sim_answer(struct sim *sim, long status, const char *body)
{
	sim_head(sim, status);
	if (sim_text(sim, body))
		sim_break(sim); /* as a transfer that was aborted */
	else
		sim_end(sim);
}

void sim_expect(struct sim *sim, const char *log)
{
	assert_int_equal(sim->log.code, 0);
	assert_string_equal(sim->log.data ? sim->log.data : "", log);
	gq_buf_reset(&sim->log);
}

void sim_to_watch(struct sim *sim)
{
	const char *path = sim_begin(sim, 0, 0);

	if (strstr(path, "sendInitialEvents")) {
		sim_head(sim, 422);
		sim_end(sim);
		(void)sim_begin(sim, 0, 0);
	}
	sim_answer(sim, 200, SIM_LIST("10", "", SIM_POD("a", "10")));
	(void)sim_begin(sim, 0, 0);
	gq_buf_reset(&sim->log);
	sim->n_problems = 0;
}

int sim_set_up(void **state)
{
	struct sim *sim = malloc(sizeof *sim);

	if (!sim)
		return -1;
	sim_init(sim);
	*state = sim;
	return 0;
}

int sim_tear_down(void **state)
{
	sim_done(*state);
	free(*state);
	return 0;
}
