/* SipHash-2-4 (Aumasson and Bernstein, INDOCRYPT 2012): a keyed 64-bit hash of bytes. Who does not
 * know the key can neither guess an input from its hash nor make two inputs collide. */
#ifndef FIRSTLIGHT_BASE_SIPHASH_H
#define FIRSTLIGHT_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct siphash_key {
    uint64_t k[2]; /* the paper's k0 and k1, each of 8 little-endian bytes */
};

/* A key that nobody can guess. While the system has no entropy yet, which is only so in its first
 * moments, all zeros: whoever knows that can make inputs collide. Any thread; never waits. */
struct siphash_key siphash_key_random(void);

uint64_t siphash_bytes(const struct siphash_key *key, const void *bytes, size_t len);

#endif
