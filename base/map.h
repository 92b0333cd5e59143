#ifndef GQ_BASE_MAP_H
#define GQ_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

/* A hash map from byte-string keys to pointers. Open addressing, SipHash-1-3 with a key drawn at
 * start of the process, since most of our keys are chosen by users.
 *
 * Keys are borrowed: each must stay in place and unchanged while its entry exists (usually it is
 * a member of the value). Values are borrowed too, and never NULL. Not thread-safe. */
struct gq_map;

/* NULL when out of memory. */
struct gq_map *gq_map_new(void);
/* Frees the map, not the values. Takes NULL. */
void gq_map_free(struct gq_map *map);
GQ_DEFINE_CLEANUP(gq_cleanup_map, struct gq_map, gq_map_free);

/* The value, or NULL. */
void *gq_map_get(const struct gq_map *map, const char *key, size_t key_len);

/* Inserts or replaces (the key pointer too). ret_old: the value replaced, or NULL; may be NULL.
 * GQ_ENOMEM leaves the map as it was. */
int gq_map_put(struct gq_map *map, const char *key, size_t key_len, void *value, void **ret_old);

/* Removes and returns the value, or NULL when there was none. Never allocates. */
void *gq_map_remove(struct gq_map *map, const char *key, size_t key_len);

size_t gq_map_count(const struct gq_map *map);

/* Walks in no particular order: start with *cursor = 0; returns NULL at the end. The map may not
 * be changed meanwhile. */
void *gq_map_next(const struct gq_map *map, size_t *cursor);

/* The hash used above, for callers that keep tables of their own. Same value for the life of the
 * process only. */
unsigned long long gq_hash(const void *bytes, size_t len);

#endif
