#include "base/siphash.h"

#include <string.h>
#include <sys/random.h>

struct state {
    uint64_t v[4];
};

static uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static void siphash_mix(struct state *s, int rounds)
{
    uint64_t *v = s->v;
    for (int i = 0; i < rounds; i++) {
        v[0] += v[1], v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0], v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1], v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2], v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

static void take_word(struct state *s, uint64_t word)
{
    s->v[3] ^= word;
    siphash_mix(s, 2);
    s->v[0] ^= word;
}

struct siphash_key siphash_key_random(void)
{
    struct siphash_key key;
    if (getrandom(&key, sizeof key, GRND_NONBLOCK) != (ssize_t)sizeof key)
        key = (struct siphash_key){{0}};
    return key;
}

uint64_t siphash_bytes(const struct siphash_key *key, const void *bytes, size_t len)
{
    struct state s = {{
        key->k[0] ^ 0x736f6d6570736575,
        key->k[1] ^ 0x646f72616e646f6d,
        key->k[0] ^ 0x6c7967656e657261,
        key->k[1] ^ 0x7465646279746573,
    }};
    const unsigned char *at = bytes;
    uint64_t word = 0;
    for (size_t left = len; left >= sizeof word; left -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word); /* x86-64 is little-endian, as the paper reads words */
        take_word(&s, word);
    }
    word = (uint64_t)len << 56; /* the last word: what is left, and the length's low byte */
    for (size_t i = 0; i < len % sizeof word; i++)
        word |= (uint64_t)at[i] << (8 * i);
    take_word(&s, word);
    s.v[2] ^= 0xff;
    siphash_mix(&s, 4);
    return s.v[0] ^ s.v[1] ^ s.v[2] ^ s.v[3];
}
