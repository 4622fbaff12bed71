#include "serve/meter.h"

#include "base/mem.h"
#include "base/siphash.h"

#include <string.h>
#include <sys/random.h>

#define WAYS      8 /* places that a client may have */
#define SECOND_US INT64_C(1000000)

struct bucket {
    struct client who;
    int64_t used; /* at at_us; 0: nobody's */
    int64_t at_us;
};

struct meter {
    int64_t burst, per_second;
    uint32_t mask; /* buckets - 1 */
    struct siphash_key key;
    struct bucket *buckets;
};

enum status meter_open(struct meter **out, uint32_t max_clients, int64_t burst, int64_t per_second,
                       struct err *err)
{
    uint32_t n = WAYS;
    while (n < max_clients)
        n *= 2;
    struct meter *m = mem_zalloc(sizeof *m);
    struct bucket *buckets = mem_array(n, sizeof *buckets);
    if (!m || !buckets) {
        mem_free(m);
        mem_free(buckets);
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u clients", max_clients);
    }
    *m =
        (struct meter){.burst = burst, .per_second = per_second, .mask = n - 1, .buckets = buckets};
    if (getrandom(&m->key, sizeof m->key, GRND_NONBLOCK) != (ssize_t)sizeof m->key)
        m->key = (struct siphash_key){{0}}; /* no entropy yet: places could be guessed */
    *out = m;
    return STATUS_OK;
}

void meter_close(struct meter *m)
{
    if (m)
        mem_free(m->buckets);
    mem_free(m);
}

static int64_t left_in(const struct meter *m, const struct bucket *b, int64_t now_us)
{
    int64_t us = now_us - b->at_us;
    int64_t whole = b->used / m->per_second + 1; /* seconds after which it is empty */
    if (us / SECOND_US >= whole)
        return 0;
    int64_t left = b->used - us * m->per_second / SECOND_US;
    return left > 0 ? left : 0;
}

/* The client's own bucket, else the one of those it may have that holds least. */
static struct bucket *find(const struct meter *m, const struct client *who, int64_t now_us,
                           bool *own)
{
    uint32_t first = (uint32_t)siphash_bytes(&m->key, who, sizeof *who);
    struct bucket *least = NULL;
    for (uint32_t i = 0; i < WAYS; i++) {
        struct bucket *b = &m->buckets[(first + i) & m->mask];
        *own = b->used > 0 && memcmp(&b->who, who, sizeof *who) == 0;
        if (*own)
            return b;
        if (!least || left_in(m, b, now_us) < left_in(m, least, now_us))
            least = b;
    }
    return least;
}

void meter_use(struct meter *m, const struct client *who, int64_t amount, int64_t now_us)
{
    bool own;
    struct bucket *b = find(m, who, now_us, &own);
    int64_t left = left_in(m, b, now_us);
    if (!own && amount <= left)
        return; /* whoever owes more keeps the place */
    left = (own ? left : 0) + amount;
    *b = (struct bucket){.who = *who, .used = left > 0 ? left : 0, .at_us = now_us};
}

bool meter_is_over(const struct meter *m, const struct client *who, int64_t now_us)
{
    bool own;
    const struct bucket *b = find(m, who, now_us, &own);
    return own && left_in(m, b, now_us) > m->burst;
}
