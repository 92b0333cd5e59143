/* A line of the journal, read, printed, and read again: nothing changes, and nothing is lost. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "quota/demand.h"
#include "quota/entry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok)
{
	if (!ok)
		abort();
}

static void check_same(const struct gq_entry *a, const struct gq_entry *b)
{
	check(strcmp(a->user, b->user) == 0 && strcmp(a->bind_node, b->bind_node) == 0);
	check(strcmp(a->pod->namespace_, b->pod->namespace_) == 0);
	check(strcmp(a->pod->name, b->pod->name) == 0);
	check(strcmp(a->pod->uid, b->pod->uid) == 0);
	check(strcmp(a->pod->owner.kind, b->pod->owner.kind) == 0);
	check(strcmp(a->pod->owner.name, b->pod->owner.name) == 0);
	check(strcmp(a->pod->owner.uid, b->pod->owner.uid) == 0);
	check(gq_pod_asks_alike(a->pod, b->pod));
	struct gq_amount of_a = gq_demand_on(a->pod, 40960), of_b = gq_demand_on(b->pod, 40960);
	check(of_a.shares == of_b.shares && of_a.memory_mib == of_b.memory_mib);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_ENTRY_MAX_BYTES);
	struct gq_buf again GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_ENTRY_MAX_BYTES);
	struct gq_entry entry GQ_CLEANUP(gq_entry_done) = {0};
	struct gq_entry back GQ_CLEANUP(gq_entry_done) = {0};
	struct gq_err err = {0};

	int code = gq_entry_decode((const char *)data, size, &entry, &err);
	if (code) {
		check(!entry.pod && !entry.user && !entry.bind_node);
		check(err.code == code && err.msg[0]);
		return 0;
	}
	check(size <= GQ_ENTRY_MAX_BYTES);
	check(gq_object_name_ok(entry.pod->namespace_) && gq_object_name_ok(entry.pod->name));
	check(*entry.pod->uid && strlen(entry.pod->uid) <= GQ_UID_MAX_BYTES);
	check(strlen(entry.user) <= GQ_ENTRY_USER_MAX_BYTES);
	code = gq_entry_print(&line, entry.pod, entry.user, entry.bind_node);
	if (code == GQ_ETOOBIG) /* another way to write it was shorter: "1E", "\b" */
		return 0;
	check(code == 0 && !memchr(line.data, '\n', line.len));
	check(gq_entry_decode(line.data, line.len, &back, NULL) == 0);
	check_same(&entry, &back);
	check(gq_entry_print(&again, back.pod, back.user, back.bind_node) == 0);
	check(strcmp(line.data, again.data) == 0);
	return 0;
}
