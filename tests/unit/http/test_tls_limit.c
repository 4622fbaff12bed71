#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "http/tls_limit.h"
#include "support/cmocka_all.h"

#include <event2/event.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

#define SECOND INT64_C(1000000)

/* Descriptors stand for connections; who was started, by the order of adding. */
struct world {
    struct event_base *base;
    struct tls_limit *h;
    int fds[4096];
    int n_added;
    int started[4096];
    int n_started, n_dropped;
};

static void on_start(void *arg, int fd, const struct client *who)
{
    struct world *w = arg;
    (void)who;
    for (int i = 0; i < w->n_added; i++)
        if (w->fds[i] == fd)
            w->started[w->n_started++] = i;
    close(fd);
}

static void on_drop(void *arg, int fd, const struct client *who)
{
    struct world *w = arg;
    (void)who;
    w->n_dropped++;
    close(fd);
}

static void open_world(struct world *w, int64_t cost_us)
{
    struct err e;
    *w = (struct world){.base = event_base_new()};
    const struct tls_limit_options o = {w->base, cost_us, on_start, on_drop, w};
    assert_int_equal(tls_limit_open(&w->h, &o, &e), STATUS_OK);
}

static void close_world(struct world *w)
{
    tls_limit_close(w->h);
    event_base_free(w->base);
}

/* One of the k-th client. False: it was dropped at once. */
static bool add(struct world *w, uint64_t k)
{
    struct client who = client_limit_of_key(k); /* any would do */
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), before = w->n_dropped;
    assert_true(fd >= 0);
    for (int i = 0; i < w->n_added; i++) /* a number that was closed and is used again */
        if (w->fds[i] == fd)
            w->fds[i] = -1;
    w->fds[w->n_added++] = fd;
    tls_limit_add(w->h, fd, &who);
    return w->n_dropped == before;
}

static void cheap_ones_start_at_once(void **state)
{
    static struct world w;
    int64_t now_us = SECOND;
    (void)state;
    clock_simulate(&now_us);
    open_world(&w, LIMIT_TLS_US_PER_SECOND / 1000);
    for (int i = 0; i < 1000; i++)
        assert_true(add(&w, 1));
    assert_int_equal(w.n_started, 1000);
    close_world(&w);
    clock_simulate(NULL);
}

/* Each takes a tenth of what is allowed in a second: ten at once, then one in a tenth of a second.
 */
static void dear_ones_wait(void **state)
{
    static struct world w;
    int64_t now_us = SECOND;
    (void)state;
    clock_simulate(&now_us);
    open_world(&w, LIMIT_TLS_US_PER_SECOND / 10);
    for (uint64_t i = 0; i < 14; i++)
        assert_true(add(&w, i));
    assert_int_equal(w.n_started, 10);
    now_us += SECOND / 10 + 1;
    while (w.n_started == 10) /* libevent's timer runs by the real time */
        event_base_loop(w.base, EVLOOP_ONCE);
    assert_int_equal(w.n_started, 11);
    now_us += 5 * SECOND;
    while (w.n_started < 14)
        event_base_loop(w.base, EVLOOP_ONCE);
    assert_int_equal(w.n_started, 14);
    close_world(&w);
    clock_simulate(NULL);
}

/* One address has connected many times before others come. */
static void addresses_take_turns(void **state)
{
    static struct world w;
    int64_t now_us = SECOND;
    int n = 0;
    (void)state;
    clock_simulate(&now_us);
    open_world(&w, LIMIT_TLS_US_PER_SECOND);
    assert_true(add(&w, 1)); /* takes all there is */
    while (add(&w, 1))
        n++;
    assert_int_equal(n, LIMIT_TLS_WAITING_EACH);
    assert_true(add(&w, 2));
    int second = w.n_added - 1;
    assert_true(add(&w, 3));
    int third = w.n_added - 1;
    for (int i = 1; i <= 4; i++) {
        now_us += 2 * SECOND;
        while (w.n_started < i + 1)
            event_base_loop(w.base, EVLOOP_ONCE);
    }
    const int expected[] = {0, second, 1, third, 2};
    assert_memory_equal(w.started, expected, sizeof expected);
    close_world(&w);
    clock_simulate(NULL);
}

static void no_more_than_there_is_place_for(void **state)
{
    static struct world w;
    int64_t now_us = SECOND;
    uint64_t n = 0;
    (void)state;
    clock_simulate(&now_us);
    open_world(&w, LIMIT_TLS_US_PER_SECOND);
    assert_true(add(&w, 0));
    while (add(&w, n + 1))
        n++;
    assert_int_equal(n, LIMIT_TLS_WAITING);
    close_world(&w); /* which drops them */
    assert_int_equal(w.n_started, 1);
    assert_int_equal(w.n_dropped, LIMIT_TLS_WAITING + 1);
    clock_simulate(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cheap_ones_start_at_once),
        cmocka_unit_test(dear_ones_wait),
        cmocka_unit_test(addresses_take_turns),
        cmocka_unit_test(no_more_than_there_is_place_for),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
