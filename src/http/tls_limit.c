#include "http/tls_limit.h"

#include "base/allowance.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"

#include <event2/event.h>
#include <string.h>

#define SECOND_US INT64_C(1000000)

struct waiting {
    int fd;
    struct client who;
};

struct tls_limit {
    struct tls_limit_options o;
    struct event *timer;
    struct allowance time_us; /* that handshakes may take */
    struct client last;       /* who was started last */
    struct waiting waiting[LIMIT_TLS_WAITING];
    uint32_t n;
};

static bool same(const struct client *a, const struct client *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static void tls_limit_start(struct tls_limit *h, int fd, const struct client *who)
{
    allowance_use(&h->time_us, h->o.cost_us);
    h->last = *who;
    h->o.start(h->o.arg, fd, who);
}

/* The longest-waiting one of another address than the last; else of the same. */
static struct waiting take_next(struct tls_limit *h)
{
    uint32_t i = 0;
    while (i < h->n && same(&h->waiting[i].who, &h->last))
        i++;
    if (i == h->n)
        i = 0;
    struct waiting w = h->waiting[i];
    memmove(&h->waiting[i], &h->waiting[i + 1], (h->n - i - 1) * sizeof w);
    h->n--;
    return w;
}

static void wait_for_time(struct tls_limit *h)
{
    int64_t us = allowance_wait_us(&h->time_us);
    struct timeval tv = {.tv_sec = us / SECOND_US, .tv_usec = us % SECOND_US};
    if (h->n > 0)
        event_add(h->timer, &tv);
}

static void tls_limit_on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct tls_limit *h = arg;
    (void)fd;
    (void)what;
    while (h->n > 0 && allowance_has(&h->time_us)) {
        struct waiting w = take_next(h);
        tls_limit_start(h, w.fd, &w.who);
    }
    wait_for_time(h);
}

static bool has_place(const struct tls_limit *h, const struct client *who)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < h->n; i++)
        n += same(&h->waiting[i].who, who);
    return h->n < LIMIT_TLS_WAITING && n < LIMIT_TLS_WAITING_EACH;
}

void tls_limit_add(struct tls_limit *h, int fd, const struct client *who)
{
    if (h->n == 0 && allowance_has(&h->time_us)) {
        tls_limit_start(h, fd, who);
        return;
    }
    if (!has_place(h, who)) {
        log_info("connection.refused", "reason=\"too many TLS handshakes wait\"");
        h->o.drop(h->o.arg, fd, who);
        return;
    }
    h->waiting[h->n++] = (struct waiting){fd, *who};
    if (h->n == 1)
        wait_for_time(h);
}

uint32_t tls_limit_count(const struct tls_limit *h)
{
    return h->n;
}

void tls_limit_set_cost(struct tls_limit *h, int64_t cost_us)
{
    h->o.cost_us = cost_us;
}

enum status tls_limit_open(struct tls_limit **out, const struct tls_limit_options *o,
                           struct err *err)
{
    struct tls_limit *h = mem_zalloc(sizeof *h);
    if (h) {
        h->o = *o;
        /* what a second without any saves up may come at once */
        allowance_init(&h->time_us, LIMIT_TLS_US_PER_SECOND, LIMIT_TLS_US_PER_SECOND);
        h->timer = evtimer_new(o->base, tls_limit_on_timer, h);
    }
    if (!h || !h->timer) {
        mem_free(h);
        return err_set(err, STATUS_NO_MEMORY, "no memory for TLS");
    }
    *out = h;
    return STATUS_OK;
}

void tls_limit_close(struct tls_limit *h)
{
    if (!h)
        return;
    for (uint32_t i = 0; i < h->n; i++)
        h->o.drop(h->o.arg, h->waiting[i].fd, &h->waiting[i].who);
    event_free(h->timer);
    mem_free(h);
}
