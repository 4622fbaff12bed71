/* The worker pool: every worker runs once a run, barriers separate phases, slices cover exactly. */
#include "base/pool.h"
#include "support/cmocka_all.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define MAX_WORKERS 8
#define PHASES      50

struct shared {
    struct pool *pool;
    int n;
    long cells[MAX_WORKERS][16];
    bool wrong;
};

/* In each phase every worker writes its own cell, then checks everyone's after the barrier. Plain
 * memory on purpose: the barrier alone must order it (the thread sanitizer watches). */
static void phases(void *arg, int worker)
{
    struct shared *s = arg;
    for (long phase = 1; phase <= PHASES; phase++) {
        s->cells[worker][0] += phase;
        pool_barrier(s->pool);
        for (int i = 1; i < s->n; i++)
            if (s->cells[i][0] != s->cells[0][0] && worker == 0)
                s->wrong = true;
        pool_barrier(s->pool);
    }
}

static void check_threads(int n, useconds_t pause)
{
    struct shared s = {.n = n};
    struct err err;
    assert_int_equal(pool_create(&s.pool, n, &err), STATUS_OK);
    assert_int_equal(pool_threads(s.pool), n);
    const int runs = 40;
    for (int i = 0; i < runs; i++) {
        pool_run(s.pool, phases, &s);
        if (pause)
            usleep(pause); /* long enough for the workers to fall asleep */
    }
    assert_false(s.wrong);
    for (int i = 0; i < n; i++)
        assert_int_equal(s.cells[i][0], (long)runs * PHASES * (PHASES + 1) / 2);
    pool_destroy(s.pool);
}

static void runs_phases_together(void **state)
{
    (void)state;
    for (int n = 1; n <= MAX_WORKERS; n += n < 4 ? 1 : 4)
        check_threads(n, 0);
}

static void wakes_sleeping_workers(void **state)
{
    (void)state;
    check_threads(2, 500);
    check_threads(3, 500);
}

static struct pool_usage usage_of(const struct pool *p)
{
    struct pool_usage u;
    pool_usage(p, &u);
    return u;
}

/* Worker 0 keeps the other one waiting. */
static void one_is_late(void *arg, int worker)
{
    if (worker == 0)
        usleep(2000);
    pool_barrier(arg);
}

/* How soon the other one wakes up is the machine's affair; were its wait counted as work, no run
 * would show less than two workers' time. */
static void waiting_is_not_being_busy(void **state)
{
    (void)state;
    struct pool *p;
    struct err err;
    assert_int_equal(pool_create(&p, 2, &err), STATUS_OK);
    bool seen = false;
    for (int i = 0; i < 200 && !seen; i++) {
        struct pool_usage before = usage_of(p);
        pool_run(p, one_is_late, p);
        struct pool_usage after = usage_of(p);
        uint64_t busy = after.busy - before.busy, capacity = after.capacity - before.capacity;
        assert_true(busy > 0 && busy <= capacity);
        seen = busy < capacity * 3 / 4;
    }
    assert_true(seen);
    struct pool_usage before = usage_of(p);
    usleep(5000);
    assert_int_equal(usage_of(p).busy, before.busy);
    assert_true(usage_of(p).capacity > before.capacity);
    pool_destroy(p);
}

static void slices_cover_everything_once(void **state)
{
    (void)state;
    for (size_t n = 0; n < 70; n++)
        for (size_t grain = 1; grain <= 16; grain *= 2)
            for (int workers = 1; workers <= 5; workers++) {
                size_t next = 0;
                for (int w = 0; w < workers; w++) {
                    size_t begin, end;
                    pool_slice(n, grain, w, workers, &begin, &end);
                    assert_int_equal(begin, next);
                    assert_true(begin <= end);
                    assert_true(begin % grain == 0 || begin == n);
                    next = end;
                }
                assert_int_equal(next, n);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_phases_together),
        cmocka_unit_test(wakes_sleeping_workers),
        cmocka_unit_test(waiting_is_not_being_busy),
        cmocka_unit_test(slices_cover_everything_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
