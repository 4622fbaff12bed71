#include "serve/rates.h"

#include "base/limits.h"
#include "base/mem.h"
#include "base/siphash.h"

#include <math.h>
#include <string.h>
#include <sys/random.h>

#define SETS     (LIMIT_RATE_CLIENTS / RATES_SET)
#define SECOND   1e6
#define ROUNDING 1e-6 /* what sums of fractions may lack */

_Static_assert((SETS & (SETS - 1)) == 0, "sets are chosen by the low bits of a hash");

struct bucket {
    double rate; /* a second; 0: there is none */
    double most;
};

enum { REQUESTS, TOKENS, BUCKETS };

struct entry {
    struct client who;
    int64_t at_us; /* when `left` was true; 0: nobody's place */
    double left[BUCKETS];
};

struct rates {
    struct bucket buckets[BUCKETS];
    struct siphash_key key;
    struct entry entries[SETS][RATES_SET];
};

static struct bucket bucket_of(double rate, double burst_s)
{
    double most = rate * burst_s;
    return (struct bucket){.rate = rate, .most = rate > 0 && most < 1 ? 1 : most};
}

enum status rates_open(struct rates **out, const struct rates_options *o, struct err *err)
{
    struct rates *r = mem_zalloc(sizeof *r);
    if (!r)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the rates of %d clients",
                       LIMIT_RATE_CLIENTS);
    r->buckets[REQUESTS] = bucket_of(o->requests, o->burst_s);
    r->buckets[TOKENS] = bucket_of(o->tokens, o->burst_s);
    if (getrandom(&r->key, sizeof r->key, GRND_NONBLOCK) != (ssize_t)sizeof r->key)
        r->key = (struct siphash_key){{0}}; /* no entropy yet: an attacker may choose his set */
    *out = r;
    return STATUS_OK;
}

void rates_free(struct rates *r)
{
    mem_free(r);
}

static void refill(const struct rates *r, struct entry *e, int64_t now_us)
{
    double s = now_us > e->at_us ? (double)(now_us - e->at_us) / SECOND : 0;
    for (int i = 0; i < BUCKETS; i++)
        e->left[i] = fmin(r->buckets[i].most, e->left[i] + s * r->buckets[i].rate);
    e->at_us = now_us;
}

/* Seconds until a bucket has so much. */
static double until(const struct bucket *b, double left, double amount)
{
    return b->rate > 0 && left + ROUNDING < amount ? (amount - left) / b->rate : 0;
}

/* Seconds until nothing sets him apart from a stranger. */
static double until_full(const struct rates *r, const struct entry *e)
{
    double s = 0;
    for (int i = 0; i < BUCKETS; i++)
        s = fmax(s, until(&r->buckets[i], e->left[i], r->buckets[i].most));
    return s;
}

/* His entry as of now; a new one has full buckets. */
static struct entry *find(struct rates *r, const struct client *who, int64_t now_us)
{
    struct entry *set = r->entries[siphash_bytes(&r->key, who, sizeof *who) & (SETS - 1)];
    struct entry *place = NULL;
    double soonest = INFINITY;
    for (uint32_t i = 0; i < RATES_SET; i++) {
        struct entry *e = &set[i];
        if (e->at_us != 0)
            refill(r, e, now_us);
        if (e->at_us != 0 && memcmp(&e->who, who, sizeof *who) == 0)
            return e;
        double s = e->at_us != 0 ? until_full(r, e) : -1;
        if (s < soonest) {
            soonest = s;
            place = e;
        }
    }
    *place = (struct entry){.who = *who, .at_us = now_us};
    for (int i = 0; i < BUCKETS; i++)
        place->left[i] = r->buckets[i].most;
    return place;
}

static enum status refuse(const struct rates *r, int bucket, double wait_s, struct err *err)
{
    const char *flag = bucket == REQUESTS ? "--max-requests-per-second" : "--max-tokens-per-second";
    return err_param(err, STATUS_OVERLOADED, flag,
                     "this client has used up its %s: %g a second (%s), the next is taken in "
                     "%.3f seconds",
                     bucket == REQUESTS ? "requests" : "tokens", r->buckets[bucket].rate, flag,
                     wait_s);
}

enum status rates_take(struct rates *r, const struct client *who, int64_t now_us, int64_t *wait_us,
                       struct err *err)
{
    struct entry *e = find(r, who, now_us);
    double requests_s = until(&r->buckets[REQUESTS], e->left[REQUESTS], 1);
    double tokens_s = until(&r->buckets[TOKENS], e->left[TOKENS], 1);
    double wait_s = fmax(requests_s, tokens_s);
    *wait_us = (int64_t)ceil(wait_s * SECOND);
    if (wait_s > 0)
        return refuse(r, tokens_s > requests_s ? TOKENS : REQUESTS, wait_s, err);
    if (r->buckets[REQUESTS].rate > 0)
        e->left[REQUESTS] -= 1;
    return STATUS_OK;
}

void rates_charge(struct rates *r, const struct client *who, int64_t now_us, uint64_t tokens)
{
    if (r->buckets[TOKENS].rate > 0 && tokens > 0)
        find(r, who, now_us)->left[TOKENS] -= (double)tokens;
}

static struct rates_level level(const struct bucket *b, double left)
{
    return (struct rates_level){
        .most = b->most, .left = left, .full_us = (int64_t)ceil(until(b, left, b->most) * SECOND)};
}

void rates_look(struct rates *r, const struct client *who, int64_t now_us,
                struct rates_level *requests, struct rates_level *tokens)
{
    const struct entry *e = find(r, who, now_us);
    *requests = level(&r->buckets[REQUESTS], e->left[REQUESTS]);
    *tokens = level(&r->buckets[TOKENS], e->left[TOKENS]);
}
