#ifndef GQ_BASE_JSON_KEYS_H
#define GQ_BASE_JSON_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* The keys seen so far in each of the objects that are open, one inside the other: finds a key that
 * stands twice. Part of json_filter.
 *
 * Everything is a stack, since the keys of an object that is closed are of no further use: the
 * bytes of the keys, their records, and, for objects of many keys, a hash table. */
struct gq_json_key {
	uint32_t at; /* in bytes */
	uint32_t len;
	uint32_t print; /* a cheap hash that tells most keys apart */
};

struct gq_json_keys {
	struct gq_buf bytes; /* the last key is appended here by the caller; below 4 GiB */
	struct gq_json_key *keys;
	size_t n_keys;
	size_t cap_keys;
	uint32_t *slots; /* 0: free, else the index of a key, plus 1 */
	size_t n_slots;
	size_t cap_slots;
};

/* Where an object's part of the stacks begins. */
struct gq_json_key_scope {
	uint32_t bytes;
	uint32_t keys;
	uint32_t slots;
	uint32_t table; /* slots of its hash table, a power of two; 0: few keys, no table */
};

void gq_json_keys_done(struct gq_json_keys *keys);
/* Gives back memory that one huge object made us take. Call with no object open. */
void gq_json_keys_trim(struct gq_json_keys *keys, size_t keep_bytes);

/* An object opens, as the innermost one. */
void gq_json_keys_open(struct gq_json_keys *keys, struct gq_json_key_scope *ret_scope);

/* Adds the key that ends the bytes and begins at `at`, to the innermost object. GQ_EINVALID: it is
 * there already. GQ_ENOMEM. */
int gq_json_keys_add(struct gq_json_keys *keys, struct gq_json_key_scope *scope, size_t at);

/* The innermost object closes. */
void gq_json_keys_close(struct gq_json_keys *keys, const struct gq_json_key_scope *scope);

#endif
