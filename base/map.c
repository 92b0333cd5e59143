#include "base/map.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/err.h"

struct entry {
	const char *key; /* NULL: free */
	size_t key_len;
	uint64_t hash;
	void *value;
};

struct gq_map {
	struct entry *entries;
	size_t cap; /* a power of two, or 0 */
	size_t count;
};

static uint64_t sip_key[2];
static pthread_once_t sip_once = PTHREAD_ONCE_INIT;

static void sip_seed(void)
{
	if (getrandom(sip_key, sizeof sip_key, GRND_NONBLOCK) == (ssize_t)sizeof sip_key)
		return;
	/* Early boot without entropy: still differs between processes. */
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	sip_key[0] = (uint64_t)now.tv_nsec * 0x9E3779B97F4A7C15u;
	sip_key[1] = (uint64_t)now.tv_sec ^ (uint64_t)(uintptr_t)&now;
}

static uint64_t rotl(uint64_t x, int b)
{
	return (x << b) | (x >> (64 - b));
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = rotl(v[1], 13) ^ v[0];
	v[0] = rotl(v[0], 32);
	v[2] += v[3];
	v[3] = rotl(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotl(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotl(v[1], 17) ^ v[2];
	v[2] = rotl(v[2], 32);
}

/* SipHash-1-3. Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF". */
unsigned long long gq_hash(const void *bytes, size_t len)
{
	const unsigned char *p = bytes;

	pthread_once(&sip_once, sip_seed);
	uint64_t v[4] = {sip_key[0] ^ 0x736f6d6570736575u, sip_key[1] ^ 0x646f72616e646f6du,
			 sip_key[0] ^ 0x6c7967656e657261u, sip_key[1] ^ 0x7465646279746573u};
	size_t left = len;
	uint64_t m = 0;
	for (; left >= 8; left -= 8, p += 8) {
		memcpy(&m, p, 8);
		v[3] ^= m;
		sip_round(v);
		v[0] ^= m;
	}
	m = (uint64_t)len << 56;
	for (size_t i = 0; i < left; i++)
		m |= (uint64_t)p[i] << (8 * i);
	v[3] ^= m;
	sip_round(v);
	v[0] ^= m;
	v[2] ^= 0xff;
	for (int i = 0; i < 3; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

struct gq_map *gq_map_new(void)
{
	return calloc(1, sizeof(struct gq_map));
}

void gq_map_free(struct gq_map *map)
{
	if (!map)
		return;
	free(map->entries);
	free(map);
}

/* The slot that holds the key, or the free slot where it would go. cap is not 0. */
static struct entry *find(const struct gq_map *map, uint64_t hash, const char *key, size_t key_len)
{
	size_t at = (size_t)hash & (map->cap - 1);

	for (;; at = (at + 1) & (map->cap - 1)) {
		struct entry *e = &map->entries[at];
		if (!e->key ||
		    (e->hash == hash && e->key_len == key_len && memcmp(e->key, key, key_len) == 0))
			return e;
	}
}

static int grow(struct gq_map *map)
{
	size_t cap = map->cap ? map->cap * 2 : 16;
	struct gq_map bigger = {.cap = cap, .count = map->count};

	bigger.entries = calloc(cap, sizeof *bigger.entries);
	if (!bigger.entries)
		return GQ_ENOMEM;
	for (size_t i = 0; i < map->cap; i++) {
		struct entry *e = &map->entries[i];
		if (e->key)
			*find(&bigger, e->hash, e->key, e->key_len) = *e;
	}
	free(map->entries);
	*map = bigger;
	return 0;
}

void *gq_map_get(const struct gq_map *map, const char *key, size_t key_len)
{
	if (map->count == 0)
		return NULL;
	struct entry *e = find(map, gq_hash(key, key_len), key, key_len);
	return e->key ? e->value : NULL;
}

int gq_map_put(struct gq_map *map, const char *key, size_t key_len, void *value, void **ret_old)
{
	uint64_t hash = gq_hash(key, key_len);

	/* at most 3/4 full, so that probing stays short and always ends */
	if (map->count + 1 > map->cap - map->cap / 4 && grow(map))
		return GQ_ENOMEM;
	struct entry *e = find(map, hash, key, key_len);
	if (ret_old)
		*ret_old = e->key ? e->value : NULL;
	if (!e->key)
		map->count++;
	*e = (struct entry){.key = key, .key_len = key_len, .hash = hash, .value = value};
	return 0;
}

void *gq_map_remove(struct gq_map *map, const char *key, size_t key_len)
{
	if (map->count == 0)
		return NULL;
	struct entry *e = find(map, gq_hash(key, key_len), key, key_len);
	if (!e->key)
		return NULL;
	void *value = e->value;
	size_t mask = map->cap - 1;
	size_t hole = (size_t)(e - map->entries);

	/* Linear probing without tombstones: move back every later entry of the run whose home lies
	 * at or before the hole. */
	for (size_t at = (hole + 1) & mask; map->entries[at].key; at = (at + 1) & mask) {
		size_t home = (size_t)map->entries[at].hash & mask;
		if (((at - home) & mask) >= ((at - hole) & mask)) {
			map->entries[hole] = map->entries[at];
			hole = at;
		}
	}
	map->entries[hole] = (struct entry){0};
	map->count--;
	return value;
}

size_t gq_map_count(const struct gq_map *map)
{
	return map->count;
}

void *gq_map_next(const struct gq_map *map, size_t *cursor)
{
	while (*cursor < map->cap) {
		struct entry *e = &map->entries[(*cursor)++];
		if (e->key)
			return e->value;
	}
	return NULL;
}
