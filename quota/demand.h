#ifndef GQ_QUOTA_DEMAND_H
#define GQ_QUOTA_DEMAND_H

#include <stdint.h>

#include "quota/amount.h"
#include "quota/object.h"

/* What a pod holds on devices of device_mib MiB each (0: not known): the Kubernetes formula over
 * its containers, per currency. Containers and sidecars sum; each init container counts beside the
 * sidecars that started before it; the larger counts; overhead is added.
 *
 * One container: a vGPU (memory or cores given) is the larger of cores/100 and memory/device_mib of
 * a GPU, rounded up to a share; memory not given is the whole device's; without memory and cores a
 * device is whole. Times the count; a container that names memory or cores without a count has one.
 * With device_mib unknown, a vGPU with memory in MiB counts as a whole GPU and a device's memory as
 * GQ_UNLIMITED, so that nothing passes a memory limit unseen.
 * Source: component-helpers/resource/helpers.go; HAMi's device documentation. */
struct gq_amount gq_demand_on(const struct gq_pod *pod, int64_t device_mib);

/* The names that a node must offer for the pod to land there, each once ("nvidia.com/gpu").
 * Writes at most max pointers (static or into the pod); returns how many there are. */
size_t gq_demand_node_resources(const struct gq_pod *pod, const char **names, size_t max);

#endif
