/* The pod decoder on raw bytes, which in the program the JSON guard has checked before. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "quota/arena.h"
#include "quota/demand.h"
#include "quota/message.h"
#include "quota/object.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok)
{
	if (!ok)
		abort();
}

/* Reads every byte of a string, so that a pointer out of the block is found. */
static size_t touch(const char *text)
{
	return strlen(text);
}

static size_t touch_requirements(const struct gq_requirement *requirements, size_t n)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		sum += touch(requirements[i].key);
		for (size_t k = 0; k < requirements[i].n_values; k++)
			sum += touch(requirements[i].values[k]);
	}
	return sum;
}

static size_t touch_pod(const struct gq_pod *pod)
{
	size_t sum = touch(pod->namespace_) + touch(pod->name) + touch(pod->generate_name) +
		     touch(pod->uid) + touch(pod->node_name) + touch(pod->owner.kind) +
		     touch(pod->owner.name) + touch(pod->owner.uid) +
		     touch(pod->problem.container) + touch(pod->problem.name) +
		     touch(pod->problem.value) +
		     touch(gq_phrase_text(GQ_LOCALE_ZH, &pod->problem.detail));

	for (size_t i = 0; i < pod->n_node_selector; i++) {
		sum += touch(pod->node_selector[i].key) + touch(pod->node_selector[i].value);
		check(i == 0 ||
		      strcmp(pod->node_selector[i - 1].key, pod->node_selector[i].key) < 0);
	}
	for (size_t i = 0; i < pod->n_affinity; i++)
		sum += touch_requirements(pod->affinity[i].expressions,
					  pod->affinity[i].n_expressions) +
		       touch_requirements(pod->affinity[i].fields, pod->affinity[i].n_fields);
	for (size_t i = 0; i < pod->n_tolerations; i++)
		sum += touch(pod->tolerations[i].key) + touch(pod->tolerations[i].value) +
		       touch(pod->tolerations[i].effect);
	for (size_t i = 0; i < pod->n_asks; i++) {
		sum += touch(pod->asks[i].container);
		check(pod->asks[i].n_amounts > 0);
		for (size_t k = 0; k < pod->asks[i].n_amounts; k++) {
			sum += touch(pod->asks[i].amounts[k].resource);
			check(pod->asks[i].amounts[k].value > 0);
			check(pod->asks[i].amounts[k].value < GQ_UNLIMITED);
		}
	}
	for (size_t i = 0; i < pod->n_claims; i++)
		sum += touch(pod->claims[i].name) + touch(pod->claims[i].claim) +
		       touch(pod->claims[i].template);
	for (size_t i = 0; i < pod->n_device_classes; i++)
		sum += touch(pod->device_classes[i]);
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const int64_t devices[] = {0, 1, 40960, INT64_MAX - 1};
	struct gq_err err = {0};
	struct gq_pod *pod = NULL, *again = NULL;

	int code = gq_pod_decode((const char *)data, size, "fallback", &pod, &err);
	if (code) {
		check(!pod && err.code == code && err.msg[0]);
		return 0;
	}
	size_t sum = touch_pod(pod);
	check(*pod->namespace_ && (*pod->name || *pod->generate_name));
	check((pod->problem.kind == GQ_PROBLEM_NONE) ==
	      !*gq_phrase_text(GQ_LOCALE_EN, &pod->problem.detail));
	for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
		struct gq_amount demand = gq_demand_on(pod, devices[i]);
		check(demand.shares >= 0 && demand.memory_mib >= 0);
		check((pod->n_asks > 0) == (demand.shares > 0));
		check((pod->n_asks > 0) == (demand.memory_mib > 0));
	}
	check((gq_demand_node_resources(pod, NULL, 0) > 0) == (pod->n_asks > 0));
	check(gq_pod_decode((const char *)data, size, "fallback", &again, NULL) == 0);
	check(gq_counted_size(again) == gq_counted_size(pod) && touch_pod(again) == sum);
	gq_pod_unref(pod);
	check(touch_pod(again) == sum);
	gq_pod_unref(again);
	return 0;
}
