#include "api/client_admission.h"

#include "base/clock.h"
#include "api/server_state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

struct client admit_client(const struct server *s, bool needs_key, uint64_t key,
                           const struct sockaddr *peer)
{
    return s->keys && needs_key ? clients_of_key(key) : clients_of_address(peer);
}

enum status admit_body(struct budget *of, struct hold *held, const struct client *who,
                       size_t announced, struct err *err)
{
    if (!budget_open(held, of, who))
        return http_no_room(held, err);
    if (budget_fits(held, announced))
        return STATUS_OK;
    budget_refuse(held);
    return http_no_room(held, err);
}

struct client admit_client_of(const struct server *s, const struct http_exchange *x)
{
    struct sockaddr_storage peer;
    bool known = http_peer(x, &peer);
    return admit_client(s, true, x->key, known ? (const struct sockaddr *)&peer : NULL);
}

/* One of his requests ends within half the usual time of one, by the middle of those so far. */
static int64_t client_wait_us(const struct server *s)
{
    struct histogram_view ends;
    metrics_read(&s->metrics, METRICS_E2E, &ends);
    return (int64_t)(histogram_quantile(&ends, 0.5) / 2);
}

/* As OpenAI's API names and spells them. */
static void add_level(struct http_exchange *x, const char *what, const struct rates_level *l)
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
    struct rates_level requests, tokens;
    rates_look(s->rates, who, clock_now_us(), &requests, &tokens);
    add_level(x, "Requests", &requests);
    add_level(x, "Tokens", &tokens);
}

static enum status take_rate(struct server *s, struct http_exchange *x, const struct client *who,
                             const char **limit, struct err *err)
{
    int64_t wait_us;
    if (!s->rates || rates_take(s->rates, who, clock_now_us(), &wait_us, err) == STATUS_OK)
        return STATUS_OK;
    *limit = strstr(err->param, "token") ? "token_rate" : "request_rate";
    err->param[0] = '\0'; /* no field of the request is at fault */
    http_retry_after(x, wait_us);
    add_levels(s, x, who);
    return STATUS_OVERLOADED;
}

/* What is refused for its requests under way takes nothing from its rate. */
enum status admit_begin(struct server *s, struct http_exchange *x, struct admitted *out,
                        const char **limit, struct err *err)
{
    *out = (struct admitted){.client = admit_client_of(s, x), .n = 1};
    if (s->clients && clients_enter(s->clients, &out->client, err)) {
        *limit = "client_limit";
        http_retry_after(x, client_wait_us(s));
        return STATUS_OVERLOADED;
    }
    enum status st = take_rate(s, x, &out->client, limit, err);
    if (st && s->clients)
        clients_leave(s->clients, &out->client);
    return st;
}

enum status admit_text(struct server *s, struct http_exchange *x, struct text_job *job,
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

enum status admit_answers(struct server *s, struct http_exchange *x, struct admitted *a,
                          uint32_t n_answers, const char **limit, struct err *err)
{
    uint32_t more = n_answers > a->n ? n_answers - a->n : 0;
    if (s->clients && clients_enter_all(s->clients, &a->client, more, err)) {
        *limit = "client_limit";
        http_retry_after(x, client_wait_us(s));
        if (n_answers > s->options.max_per_client) /* however long it waits */
            http_add_header(x, "X-Should-Retry", "false");
        return STATUS_OVERLOADED;
    }
    a->n += more;
    return STATUS_OK;
}

void admit_tokens(struct server *s, struct http_exchange *x, const struct admitted *a,
                  uint64_t tokens)
{
    if (!s->rates)
        return;
    rates_charge(s->rates, &a->client, clock_now_us(), tokens);
    if (x)
        add_levels(s, x, &a->client);
}

void admit_end(struct server *s, struct admitted *a, uint64_t tokens)
{
    if (s->clients)
        clients_leave_all(s->clients, &a->client, a->n);
    if (s->rates)
        rates_charge(s->rates, &a->client, clock_now_us(), tokens);
    a->n = 0;
}
