#include "api/client_admission.h"

#include "api/server_state.h"
#include "base/clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

struct client client_admission_client(const struct server *s, bool needs_key, uint64_t key,
                                      const struct sockaddr *peer)
{
    return s->keys && needs_key ? client_limit_of_key(key) : client_limit_of_address(peer);
}

enum status client_admission_body(struct byte_budget *of, struct hold *held,
                                  const struct client *who, size_t announced, struct err *err)
{
    if (!byte_budget_open(held, of, who))
        return http_no_room(held, err);
    if (byte_budget_fits(held, announced))
        return STATUS_OK;
    byte_budget_refuse(held);
    return http_no_room(held, err);
}

struct client client_admission_client_of(const struct server *s, const struct http_exchange *x)
{
    struct sockaddr_storage peer;
    bool known = http_peer(x, &peer);
    return client_admission_client(s, true, x->key, known ? (const struct sockaddr *)&peer : NULL);
}

/* One of the client's requests ends within half the usual time of one, by the middle of those so
 * far. */
static int64_t client_wait_us(const struct server *s)
{
    struct histogram_view ends;
    metrics_read(&s->metrics, METRICS_E2E, &ends);
    return (int64_t)(histogram_quantile(&ends, 0.5) / 2);
}

/* As OpenAI's API names and spells them. */
static void add_level(struct http_exchange *x, const char *what, const struct rate_limit_level *l)
{
    char name[48], value[32];
    if (l->most <= 0)
        return;
    snprintf(name, sizeof name, "X-RateLimit-Limit-%s", what);
    snprintf(value, sizeof value, "%.0f", floor(l->most));
    http_add_header(x, name, value);
    snprintf(name, sizeof name, "X-RateLimit-Remaining-%s", what);
    snprintf(value, sizeof value, "%.0f", floor(fmax(l->left, 0)));
    http_add_header(x, name, value);
    snprintf(name, sizeof name, "X-RateLimit-Reset-%s", what);
    snprintf(value, sizeof value, "%.3fs", (double)l->full_us / 1e6);
    http_add_header(x, name, value);
}

static void add_levels(struct server *s, struct http_exchange *x, const struct client *who)
{
    struct rate_limit_level requests, tokens;
    rate_limit_look(s->rates, who, clock_now_us(), &requests, &tokens);
    add_level(x, "Requests", &requests);
    add_level(x, "Tokens", &tokens);
}

static enum status take_rate(struct server *s, struct http_exchange *x, const struct client *who,
                             const char **limit, struct err *err)
{
    int64_t wait_us;
    if (!s->rates || rate_limit_take(s->rates, who, clock_now_us(), &wait_us, err) == STATUS_OK)
        return STATUS_OK;
    *limit = strstr(err->param, "token") ? "token_rate" : "request_rate";
    err->param[0] = '\0'; /* no field of the request is at fault */
    http_retry_after(x, wait_us);
    add_levels(s, x, who);
    return STATUS_OVERLOADED;
}

/* What is refused for its requests under way takes nothing from its rate. */
enum status client_admission_begin(struct server *s, struct http_exchange *x, struct admitted *out,
                                   const char **limit, struct err *err)
{
    *out = (struct admitted){.client = client_admission_client_of(s, x), .n = 1};
    if (s->clients && client_limit_enter(s->clients, &out->client, err)) {
        *limit = "client_limit";
        http_retry_after(x, client_wait_us(s));
        return STATUS_OVERLOADED;
    }
    enum status st = take_rate(s, x, &out->client, limit, err);
    if (st && s->clients)
        client_limit_leave(s->clients, &out->client);
    return st;
}

enum status client_admission_text(struct server *s, struct http_exchange *x, struct text_job *job,
                                  const char **limit, struct err *err)
{
    if (text_worker_submit(s->text, job))
        return STATUS_OK;
    int64_t wait_us = text_worker_wait_us(s->text, job);
    *limit = "text_worker";
    http_retry_after(x, wait_us);
    return err_set(err, STATUS_OVERLOADED,
                   "too many texts wait to be tokenized, of this client or of all: the next may be "
                   "taken in %.3f seconds",
                   (double)wait_us / 1e6);
}

enum status client_admission_answers(struct server *s, struct http_exchange *x, struct admitted *a,
                                     uint32_t n_answers, const char **limit, struct err *err)
{
    uint32_t more = n_answers > a->n ? n_answers - a->n : 0;
    if (s->clients && client_limit_enter_all(s->clients, &a->client, more, err)) {
        *limit = "client_limit";
        http_retry_after(x, client_wait_us(s));
        if (n_answers > s->options.max_per_client) /* however long it waits */
            http_add_header(x, "X-Should-Retry", "false");
        return STATUS_OVERLOADED;
    }
    a->n += more;
    return STATUS_OK;
}

void client_admission_tokens(struct server *s, struct http_exchange *x, const struct admitted *a,
                             uint64_t tokens)
{
    if (!s->rates)
        return;
    rate_limit_charge(s->rates, &a->client, clock_now_us(), tokens);
    if (x)
        add_levels(s, x, &a->client);
}

void client_admission_end(struct server *s, struct admitted *a, uint64_t tokens)
{
    if (s->clients)
        client_limit_leave_all(s->clients, &a->client, a->n);
    if (s->rates)
        rate_limit_charge(s->rates, &a->client, clock_now_us(), tokens);
    a->n = 0;
}
