#include "base/json_keys.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/map.h"

#define LINEAR_MAX 16 /* keys in an object without a table */

void gq_json_keys_done(struct gq_json_keys *keys)
{
	gq_buf_done(&keys->bytes);
	free(keys->keys);
	free(keys->slots);
	*keys = (struct gq_json_keys){.bytes = keys->bytes};
}

void gq_json_keys_trim(struct gq_json_keys *keys, size_t keep_bytes)
{
	if (keys->bytes.cap > keep_bytes || keys->cap_keys * sizeof *keys->keys > keep_bytes ||
	    keys->cap_slots * sizeof *keys->slots > keep_bytes)
		gq_json_keys_done(keys);
}

void gq_json_keys_open(struct gq_json_keys *keys, struct gq_json_key_scope *ret_scope)
{
	*ret_scope = (struct gq_json_key_scope){
	    .bytes = (uint32_t)keys->bytes.len,
	    .keys = (uint32_t)keys->n_keys,
	    .slots = (uint32_t)keys->n_slots,
	};
}

void gq_json_keys_close(struct gq_json_keys *keys, const struct gq_json_key_scope *scope)
{
	keys->bytes.len = scope->bytes;
	keys->n_keys = scope->keys;
	keys->n_slots = scope->slots;
}

static uint32_t fingerprint(const char *key, size_t len)
{
	uint64_t first = 0, last = 0;

	if (len >= 8) {
		memcpy(&first, key, 8);
		memcpy(&last, key + len - 8, 8);
	} else if (len >= 4) {
		memcpy(&first, key, 4);
		memcpy(&last, key + len - 4, 4);
	} else if (len) {
		first = (unsigned char)key[0];
		last = (uint64_t)(unsigned char)key[len / 2] << 8 | (unsigned char)key[len - 1];
	}
	return (uint32_t)(((first ^ last * 0x9E3779B97F4A7C15u ^ len) * 0xD6E8FEB86659FD93u) >> 32);
}

static const char *key_text(const struct gq_json_keys *keys, const struct gq_json_key *key)
{
	return keys->bytes.data + key->at;
}

static bool equal(const struct gq_json_keys *keys, const struct gq_json_key *a,
		  const struct gq_json_key *b)
{
	return a->print == b->print && a->len == b->len &&
	       memcmp(key_text(keys, a), key_text(keys, b), a->len) == 0;
}

/* The slot of the key, or the free one where it would go. Hashed with the map's secret key: the
 * names are chosen by whoever sends the object. */
static uint32_t *find(struct gq_json_keys *keys, const struct gq_json_key_scope *scope,
		      const struct gq_json_key *key)
{
	uint32_t *table = keys->slots + scope->slots;
	size_t mask = scope->table - 1;
	size_t at = (size_t)gq_hash(key_text(keys, key), key->len) & mask;

	while (table[at] && !equal(keys, &keys->keys[table[at] - 1], key))
		at = (at + 1) & mask;
	return &table[at];
}

/* Gives the innermost object a table, or one of twice the size. Those of the objects around it lie
 * below and stay as they are. */
static int grow_table(struct gq_json_keys *keys, struct gq_json_key_scope *scope)
{
	uint32_t table = scope->table ? scope->table * 2 : LINEAR_MAX * 4;
	size_t need = scope->slots + (size_t)table;

	if (need > keys->cap_slots) {
		size_t cap = need + need / 2;
		uint32_t *slots = realloc(keys->slots, cap * sizeof *slots);
		if (!slots)
			return GQ_ENOMEM;
		keys->slots = slots;
		keys->cap_slots = cap;
	}
	keys->n_slots = need;
	scope->table = table;
	memset(keys->slots + scope->slots, 0, table * sizeof *keys->slots);
	for (size_t i = scope->keys; i < keys->n_keys; i++)
		*find(keys, scope, &keys->keys[i]) = (uint32_t)i + 1;
	return 0;
}

int gq_json_keys_add(struct gq_json_keys *keys, struct gq_json_key_scope *scope, size_t at)
{
	size_t n = keys->n_keys - scope->keys;
	size_t len = keys->bytes.len - at;
	struct gq_json_key key = {.at = (uint32_t)at, .len = (uint32_t)len};

	if (gq_buf_reserve(&keys->bytes, 0)) /* so that an empty key has an address */
		return GQ_ENOMEM;
	key.print = fingerprint(keys->bytes.data + at, len);
	if (keys->n_keys == keys->cap_keys) {
		size_t cap = keys->cap_keys ? keys->cap_keys * 2 : 64;
		struct gq_json_key *bigger = realloc(keys->keys, cap * sizeof *bigger);
		if (!bigger)
			return GQ_ENOMEM;
		keys->keys = bigger;
		keys->cap_keys = cap;
	}
	if (n < LINEAR_MAX) {
		for (size_t i = scope->keys; i < keys->n_keys; i++)
			if (equal(keys, &keys->keys[i], &key))
				return GQ_EINVALID;
	} else {
		if (n >= scope->table / 2 && grow_table(keys, scope))
			return GQ_ENOMEM;
		uint32_t *slot = find(keys, scope, &key);
		if (*slot)
			return GQ_EINVALID;
		*slot = (uint32_t)keys->n_keys + 1;
	}
	keys->keys[keys->n_keys++] = key;
	return 0;
}
