#include "http/client_buckets.h"

#include "base/mem.h"
#include "base/siphash.h"

#include <math.h>
#include <string.h>

#define SECOND   1e6
#define ROUNDING 1e-7 /* what sums of fractions may have too much */

struct bucket {
    struct client who;
    double held; /* at at_us; 0: the place is nobody's */
    int64_t at_us;
};

struct client_buckets {
    double per_second;
    uint32_t mask; /* sets - 1 */
    struct siphash_key key;
    struct bucket (*sets)[CLIENT_BUCKETS_SET];
};

enum status client_buckets_open(struct client_buckets **out, uint32_t max_clients,
                                double per_second, struct err *err)
{
    uint32_t n = 1;
    while (n * CLIENT_BUCKETS_SET < max_clients)
        n *= 2;
    struct client_buckets *b = mem_zalloc(sizeof *b);
    struct bucket(*sets)[CLIENT_BUCKETS_SET] = mem_array(n, sizeof *sets);
    if (!b || !sets) {
        mem_free(b);
        mem_free(sets);
        return err_set(err, STATUS_NO_MEMORY, "no memory for what %u clients use", max_clients);
    }
    *b = (struct client_buckets){
        .per_second = per_second, .mask = n - 1, .key = siphash_key_random(), .sets = sets};
    *out = b;
    return STATUS_OK;
}

void client_buckets_close(struct client_buckets *b)
{
    if (b)
        mem_free(b->sets);
    mem_free(b);
}

static double held_in(const struct client_buckets *b, const struct bucket *one, int64_t now_us)
{
    double s = now_us > one->at_us ? (double)(now_us - one->at_us) / SECOND : 0;
    return fmax(0, one->held - s * b->per_second);
}

static struct bucket *set_of(const struct client_buckets *b, const struct client *who)
{
    return b->sets[(uint32_t)siphash_bytes(&b->key, who, sizeof *who) & b->mask];
}

/* NULL: the client has none, and so has used nothing. */
static struct bucket *client_buckets_find(const struct client_buckets *b, const struct client *who)
{
    struct bucket *set = set_of(b, who);
    for (uint32_t i = 0; i < CLIENT_BUCKETS_SET; i++)
        if (set[i].held > 0 && memcmp(&set[i].who, who, sizeof *who) == 0)
            return &set[i];
    return NULL;
}

/* The place of the client's set that holds least. */
static struct bucket *least_of(const struct client_buckets *b, const struct client *who,
                               int64_t now_us)
{
    struct bucket *set = set_of(b, who), *least = set;
    for (uint32_t i = 1; i < CLIENT_BUCKETS_SET; i++)
        if (held_in(b, &set[i], now_us) < held_in(b, least, now_us))
            least = &set[i];
    return least;
}

void client_buckets_add(struct client_buckets *b, const struct client *who, double amount,
                        int64_t now_us)
{
    struct bucket *own = client_buckets_find(b, who);
    double held = fmax(0, (own ? held_in(b, own, now_us) : 0) + amount);
    if (!own && held <= 0)
        return; /* nobody loses a place for nothing */
    if (!own)
        own = least_of(b, who, now_us);
    *own = (struct bucket){.who = *who, .held = held, .at_us = now_us};
}

double client_buckets_held(const struct client_buckets *b, const struct client *who, int64_t now_us)
{
    const struct bucket *own = client_buckets_find(b, who);
    return own ? held_in(b, own, now_us) : 0;
}

int64_t client_buckets_until_us(const struct client_buckets *b, const struct client *who,
                                double most, int64_t now_us)
{
    double over = client_buckets_held(b, who, now_us) - most;
    if (over <= ROUNDING)
        return 0;
    return (int64_t)ceil((over - ROUNDING / 2) / b->per_second * SECOND);
}
