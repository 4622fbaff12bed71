/* How fast each client may ask: a token bucket of requests and one of tokens (of text).
 *
 *     a bucket fills with its rate, up to what the rate brings in burst_s seconds (at least 1)
 *     a request is taken while its client has a whole request, and a whole token, in its buckets
 *     the tokens of a request are charged when they are known, so that bucket may fall below zero:
 *     then nothing is taken until it has filled up again
 *
 * So a client gets no more than its rate in the long run, and a burst at first; what it has under
 * way when its bucket empties goes on. Each kind of bucket has a table of LIMIT_RATE_CLIENTS places
 * (http/client_buckets.h): who is forgotten there starts with a full bucket. I/O thread only.
 */
#ifndef FIRSTLIGHT_API_RATE_LIMIT_H
#define FIRSTLIGHT_API_RATE_LIMIT_H

#include "base/err.h"
#include "http/client_limit.h"

#include <stdint.h>

struct rate_limit;

struct rate_limit_options {
    double requests, tokens; /* a second; 0: no bound */
    double burst_s;
};

/* One bucket of a client. */
struct rate_limit_level {
    double most;     /* that it holds; 0: there is no such bucket */
    double left;     /* below zero: owed */
    int64_t full_us; /* from now until it is full */
};

enum status rate_limit_open(struct rate_limit **out, const struct rate_limit_options *o,
                            struct err *err);
void rate_limit_free(struct rate_limit *r);

/* One request more. STATUS_OVERLOADED: err->param is the flag that refuses it, and in *wait_us it
 * is taken if nothing else is charged. now_us: of a clock that does not go back. */
enum status rate_limit_take(struct rate_limit *r, const struct client *who, int64_t now_us,
                            int64_t *wait_us, struct err *err);
/* Tokens that were read, or generated, for this client. */
void rate_limit_charge(struct rate_limit *r, const struct client *who, int64_t now_us,
                       uint64_t tokens);
void rate_limit_look(const struct rate_limit *r, const struct client *who, int64_t now_us,
                     struct rate_limit_level *requests, struct rate_limit_level *tokens);

#endif
