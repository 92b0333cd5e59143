#ifndef GQ_TESTS_REFLECTOR_SIM_H
#define GQ_TESTS_REFLECTOR_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "informer/reflector.h"

/* Drives one reflector by hand, without network and with a clock that stands. What it tells is
 * written down as text: "[" LIST_BEGIN, "+name@version" UPSERT, "-name@version" DELETE, "]"
 * LIST_END, "." IDLE, "!synced". */
struct sim {
	struct gq_informer_resource resource;
	struct gq_informer_options options;
	struct gq_reflector *reflector;
	int64_t now;
	struct gq_buf log;
	struct gq_buf path;    /* of the request that runs */
	struct gq_buf problem; /* the last one */
	size_t n_problems;
	int last_code;
	const char *refuse; /* on_event fails for the object of this name … */
	int refuse_code;    /* … so */
	int end_code;       /* on_event's answer to LIST_END */
	int64_t begun_ns;   /* as the last LIST_BEGIN or LIST_END told it */
};

/* Of each test; *state is its sim. */
int sim_set_up(void **state);
int sim_tear_down(void **state);
/* After options were changed; sim_set_up() has done it once. */
void sim_restart(struct sim *sim);

/* Lets time pass to the deadline, begins the request and returns its path. Fails the test when the
 * reflector wants it sooner than after min_wait_ns or later than max_wait_ns. */
const char *sim_begin(struct sim *sim, int64_t min_wait_ns, int64_t max_wait_ns);
/* A whole answer: head, body and end. */
void sim_answer(struct sim *sim, long status, const char *body);
/* Head only; bytes; the end in order, or as a broken connection. */
void sim_head(struct sim *sim, long status);
int sim_feed(struct sim *sim, const char *bytes, size_t len);
int sim_text(struct sim *sim, const char *text);
void sim_end(struct sim *sim);
void sim_break(struct sim *sim);
/* Empties and compares the log. */
void sim_expect(struct sim *sim, const char *log);
/* Lists one object ("a" at version 10) by pages or WatchList, up to a watch from 10 that has begun
 * (not yet answered). */
void sim_to_watch(struct sim *sim);

#define SIM_POD(name, version)                                                                     \
	"{\"kind\":\"Pod\",\"metadata\":{\"name\":\"" name "\",\"resourceVersion\":\"" version     \
	"\",\"managedFields\":[{\"x\":[1,2,{}]}]},\"spec\":{\"é\":\"\\\"}\"}}"
#define SIM_EVENT(type, name, version)                                                             \
	"{\"type\":\"" type "\",\"object\":" SIM_POD(name, version) "}\n"
#define SIM_BOOKMARK(version)                                                                      \
	"{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":"   \
	"\"" version "\"}}}\n"
#define SIM_MARKER(version)                                                                        \
	"{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":"   \
	"\"" version "\",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n"
#define SIM_ERROR(code, reason)                                                                    \
	"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":"  \
	"{},\"status\":\"Failure\",\"message\":\"said so\",\"reason\":\"" reason                   \
	"\",\"code\":" #code "}}\n"
#define SIM_LIST(version, token, items)                                                            \
	"{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"" version \
	"\",\"continue\":\"" token "\"},\"items\":[" items "]}"
#define SIM_STATUS(code, reason)                                                                   \
	"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{\"continue\":\"inconsistent\"}," \
	"\"status\":\"Failure\",\"message\":\"said so\",\"reason\":\"" reason "\",\"code\":" #code \
	"}"

#endif
