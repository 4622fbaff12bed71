#include "api/rate_limit.h"

#include "base/limits.h"
#include "base/mem.h"
#include "http/client_buckets.h"

#include <math.h>

/* A kind of bucket: what a client has used of it is in the table, what is left of `most` is its. */
struct rate {
    struct client_buckets *used; /* NULL: there is no such bound */
    double per_second, most;
};

struct rate_limit {
    struct rate requests, tokens;
};

static enum status open_rate(struct rate *out, double per_second, double burst_s, struct err *err)
{
    if (per_second <= 0)
        return STATUS_OK;
    *out = (struct rate){.per_second = per_second, .most = fmax(1, per_second * burst_s)};
    return client_buckets_open(&out->used, LIMIT_RATE_CLIENTS, per_second, err);
}

enum status rate_limit_open(struct rate_limit **out, const struct rate_limit_options *o,
                            struct err *err)
{
    enum status st;
    struct rate_limit *r = mem_zalloc(sizeof *r);
    if (!r)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the rates of clients");
    if ((st = open_rate(&r->requests, o->requests, o->burst_s, err)) ||
        (st = open_rate(&r->tokens, o->tokens, o->burst_s, err))) {
        rate_limit_free(r);
        return st;
    }
    *out = r;
    return STATUS_OK;
}

void rate_limit_free(struct rate_limit *r)
{
    if (!r)
        return;
    client_buckets_close(r->requests.used);
    client_buckets_close(r->tokens.used);
    mem_free(r);
}

/* Until one more fits. */
static int64_t until_one(const struct rate *r, const struct client *who, int64_t now_us)
{
    return r->used ? client_buckets_until_us(r->used, who, r->most - 1, now_us) : 0;
}

static enum status rate_limit_refuse(const struct rate *r, const char *flag, const char *what,
                                     int64_t wait_us, struct err *err)
{
    return err_param(err, STATUS_OVERLOADED, flag,
                     "this client has used up its %s: %g a second (%s), the next is taken in "
                     "%.3f seconds",
                     what, r->per_second, flag, (double)wait_us / 1e6);
}

enum status rate_limit_take(struct rate_limit *r, const struct client *who, int64_t now_us,
                            int64_t *wait_us, struct err *err)
{
    int64_t requests_us = until_one(&r->requests, who, now_us);
    int64_t tokens_us = until_one(&r->tokens, who, now_us);
    *wait_us = requests_us > tokens_us ? requests_us : tokens_us;
    if (tokens_us > requests_us)
        return rate_limit_refuse(&r->tokens, "--max-tokens-per-second", "tokens", tokens_us, err);
    if (requests_us > 0)
        return rate_limit_refuse(&r->requests, "--max-requests-per-second", "requests", requests_us,
                                 err);
    if (r->requests.used)
        client_buckets_add(r->requests.used, who, 1, now_us);
    return STATUS_OK;
}

void rate_limit_charge(struct rate_limit *r, const struct client *who, int64_t now_us,
                       uint64_t tokens)
{
    if (r->tokens.used)
        client_buckets_add(r->tokens.used, who, (double)tokens, now_us);
}

static struct rate_limit_level level(const struct rate *r, const struct client *who, int64_t now_us)
{
    if (!r->used)
        return (struct rate_limit_level){0};
    return (struct rate_limit_level){.most = r->most,
                                     .left = r->most - client_buckets_held(r->used, who, now_us),
                                     .full_us = client_buckets_until_us(r->used, who, 0, now_us)};
}

void rate_limit_look(const struct rate_limit *r, const struct client *who, int64_t now_us,
                     struct rate_limit_level *requests, struct rate_limit_level *tokens)
{
    *requests = level(&r->requests, who, now_us);
    *tokens = level(&r->tokens, who, now_us);
}
