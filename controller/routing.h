#ifndef GQ_CONTROLLER_ROUTING_H
#define GQ_CONTROLLER_ROUTING_H

#include "base/cleanup.h"
#include "informer/api.h"

struct gq_routing;

struct gq_routing_options {
	struct gq_api *api;
	const char *namespace_;
	const char *identity;
};

struct gq_routing *gq_routing_new(const struct gq_routing_options *options);
void gq_routing_free(struct gq_routing *routing);
GQ_DEFINE_CLEANUP(gq_cleanup_routing, struct gq_routing, gq_routing_free);

void gq_routing_leave(struct gq_routing *routing);
void gq_routing_take(struct gq_routing *routing);
void gq_routing_barrier(struct gq_routing *routing, const char *nonce,
			void (*done)(void *arg, int code), void *arg);

#endif
