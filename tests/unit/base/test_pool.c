/* The worker pool: every worker runs once a run, barriers separate phases, slices cover exactly.
 * `test_pool --bench` times it instead. */
#include "base/clock.h"
#include "base/cpu.h"
#include "base/pool.h"
#include "support/cmocka_all.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
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

/* --- fences ----------------------------------------------------------------------------------- */

struct seen {
    struct pool *pool;
    cpu_set_t masks[MAX_WORKERS];
};

static void note_mask(void *arg, int worker)
{
    struct seen *s = arg;
    assert_int_equal(sched_getaffinity(0, sizeof(cpu_set_t), &s->masks[worker]), 0);
    pool_barrier(s->pool);
}

/* With a processor for each, no two workers have one in common, and together they have all. */
static void expect_fences(struct pool *pool, const cpu_set_t *allowed)
{
    struct seen s = {.pool = pool};
    int n = pool_threads(pool);
    cpu_set_t all;
    CPU_ZERO(&all);
    pool_run(pool, note_mask, &s);
    for (int i = 0; i < n; i++) {
        cpu_set_t common;
        CPU_AND(&common, &all, &s.masks[i]);
        assert_true(CPU_COUNT(&s.masks[i]) > 0);
        if (n > 1 && n <= CPU_COUNT(allowed))
            assert_int_equal(CPU_COUNT(&common), 0);
        else
            assert_true(CPU_EQUAL(&s.masks[i], allowed));
        CPU_OR(&all, &all, &s.masks[i]);
    }
    assert_true(CPU_EQUAL(&all, allowed));
}

static void expect_mask(const cpu_set_t *want)
{
    cpu_set_t now;
    assert_int_equal(sched_getaffinity(0, sizeof now, &now), 0);
    assert_true(CPU_EQUAL(&now, want));
}

static void workers_keep_to_processors_of_their_own(void **state)
{
    (void)state;
    struct err err;
    cpu_set_t before;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    for (int n = 1; n <= MAX_WORKERS; n++) {
        struct pool *p, *other;
        assert_int_equal(pool_create(&p, n, &err), STATUS_OK);
        expect_fences(p, &before);
        assert_int_equal(pool_create(&other, 2, &err), STATUS_OK); /* by a thread in a fence */
        pool_run(other, note_mask, &(struct seen){.pool = other});
        expect_fences(p, &before);
        pool_leave(p);
        expect_mask(&before);
        expect_fences(other, &before);
        pool_destroy(p);
        expect_fences(other, &before);
        pool_destroy(other);
        expect_mask(&before);
    }
}

/* An operator's taskset is kept. */
static void fences_stay_within_the_affinity_mask(void **state)
{
    (void)state;
    struct err err;
    struct pool *p;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (size_t i = CPU_SETSIZE; i-- > 0 && CPU_COUNT(&one) == 0;)
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(pool_create(&p, 3, &err), STATUS_OK);
    expect_fences(p, &one);
    pool_destroy(p);
    expect_mask(&one);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

/* --- idleness --------------------------------------------------------------------------------- */

static int64_t processor_ns(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* 300 ms without work cost less than 30 ms of processor time, spinning before sleep included. */
static void an_idle_pool_uses_no_processor(void **state)
{
    (void)state;
    struct shared s = {.n = 2};
    struct err err;
    assert_int_equal(pool_create(&s.pool, 2, &err), STATUS_OK);
    pool_run(s.pool, phases, &s);
    int64_t before = processor_ns();
    usleep(300000);
    assert_true(processor_ns() - before < 30000000);
    pool_destroy(s.pool);
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

/* --- `test_pool --bench` ---------------------------------------------------------------------- */

#define BENCH_BARRIERS 2000
#define BENCH_SAMPLES  200

static void many_barriers(void *arg, int worker)
{
    (void)worker;
    for (int i = 0; i < BENCH_BARRIERS; i++)
        pool_barrier(arg);
}

/* About a millisecond of work for each worker. */
static void some_work(void *arg, int worker)
{
    volatile double x = 1 + worker;
    for (int i = 0; i < 300000; i++)
        x = x * 1.0000001;
    pool_barrier(arg);
}

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void bench_one(struct pool *p, const char *what, pool_fn *fn, useconds_t pause, double unit)
{
    static int64_t ns[BENCH_SAMPLES];
    pool_run(p, fn, p);
    for (int i = 0; i < BENCH_SAMPLES; i++) {
        usleep(pause);
        ns[i] = clock_now_ns();
        pool_run(p, fn, p);
        ns[i] = clock_now_ns() - ns[i];
    }
    qsort(ns, BENCH_SAMPLES, sizeof *ns, by_time);
    printf("%d threads, %-34s best %9.3f  median %9.3f  p95 %9.3f us\n", pool_threads(p), what,
           (double)ns[0] * unit, (double)ns[BENCH_SAMPLES / 2] * unit,
           (double)ns[BENCH_SAMPLES * 95 / 100] * unit);
}

static void bench(void)
{
    for (int n = 1; n <= cpu_usable_count(); n *= 2) {
        struct pool *p;
        struct err err;
        assert_int_equal(pool_create(&p, n, &err), STATUS_OK);
        bench_one(p, "a barrier", many_barriers, 0, 1e-3 / BENCH_BARRIERS);
        bench_one(p, "a run of 1 ms after another", some_work, 0, 1e-3);
        bench_one(p, "a run of 1 ms after 4 ms of sleep", some_work, 4000, 1e-3);
        pool_destroy(p);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--bench") == 0) {
        bench();
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_phases_together),
        cmocka_unit_test(wakes_sleeping_workers),
        cmocka_unit_test(waiting_is_not_being_busy),
        cmocka_unit_test(workers_keep_to_processors_of_their_own),
        cmocka_unit_test(fences_stay_within_the_affinity_mask),
        cmocka_unit_test(an_idle_pool_uses_no_processor),
        cmocka_unit_test(slices_cover_everything_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
