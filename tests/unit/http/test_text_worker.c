#include "base/clock.h"
#include "base/limits.h"
#include "http/text_worker.h"
#include "support/cmocka_all.h"

#include <event2/event.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct world {
    struct event_base *base;
    struct text_worker *w;
    pthread_t here;
    char done[64]; /* names of jobs, in the order of their ends */
    int n_done;
};

struct job {
    struct text_job job; /* first */
    struct world *world;
    char name;
    sem_t *gate; /* work waits for it; NULL: it does not */
    int64_t burn_us;
    bool worked, here;
};

static struct job *of(struct text_job *job)
{
    return (struct job *)(void *)job;
}

static int64_t used_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000000) + t.tv_nsec / 1000;
}

static void work(struct text_job *job)
{
    struct job *j = of(job);
    int64_t start = used_us();
    j->worked = true;
    j->here = pthread_equal(pthread_self(), j->world->here);
    if (j->gate)
        sem_wait(j->gate);
    while (used_us() - start < j->burn_us)
        ;
}

static void done(struct text_job *job)
{
    struct world *o = of(job)->world;
    o->done[o->n_done++] = of(job)->name;
}

static void open_world(struct world *o, size_t capacity)
{
    struct err e;
    *o = (struct world){.base = event_base_new(), .here = pthread_self()};
    assert_non_null(o->base);
    assert_int_equal(text_worker_open(&o->w, o->base, capacity, &e), STATUS_OK);
}

static void close_world(struct world *o)
{
    text_worker_close(o->w);
    event_base_free(o->base);
}

static void wait_for(struct world *o, int n)
{
    while (o->n_done < n)
        event_base_loop(o->base, EVLOOP_ONCE);
}

static struct job new_job(struct world *o, char name, uint64_t client, size_t bytes)
{
    return (struct job){
        .job = {.work = work, .done = done, .client = client_limit_of_key(client), .bytes = bytes},
        .world = o,
        .name = name};
}

#define USUAL (LIMIT_BODY_INLINE + 1)
#define LONG  (LIMIT_BODY_USUAL + 1)

static void only_what_is_short_is_done_here(void **state)
{
    struct world o;
    (void)state;
    open_world(&o, 8);
    struct job a = new_job(&o, 'a', 1, LIMIT_BODY_INLINE), b = new_job(&o, 'b', 1, USUAL),
               c = new_job(&o, 'c', 1, LONG);
    assert_true(text_worker_submit(o.w, &a.job));
    assert_int_equal(o.n_done, 1);
    assert_true(a.here);
    assert_true(text_worker_submit(o.w, &b.job));
    assert_true(text_worker_submit(o.w, &c.job));
    assert_int_equal(o.n_done, 1);
    wait_for(&o, 3);
    assert_true(b.worked && !b.here && c.worked && !c.here);
    close_world(&o);
}

static int64_t now_us;

static void work_for_long(struct text_job *job)
{
    struct job *j = of(job);
    j->here = pthread_equal(pthread_self(), j->world->here);
    if (j->here)
        now_us += 2 * LIMIT_INLINE_US;
}

/* Short ones, each of which takes twice the time there is. After one the time for the next has to
 * pass first. */
static void only_for_so_long(void **state)
{
    static const struct {
        int64_t pause_us;
        bool here;
    } cases[] = {{0, true},  {0, false},   {1, false}, {2, true},
                 {0, false}, {2000, true}, {0, false}, {INT64_C(1) << 40, true},
                 {0, false}};
    struct world o;
    (void)state;
    now_us = 1000000;
    clock_simulate(&now_us);
    open_world(&o, 16);
    for (int i = 0; i < 9; i++) {
        struct job j = new_job(&o, (char)('a' + i), (uint64_t)i, 100);
        j.job.work = work_for_long;
        now_us += cases[i].pause_us;
        assert_true(text_worker_submit(o.w, &j.job));
        wait_for(&o, i + 1);
        if (j.here != cases[i].here)
            fail_msg("case %d: here %d", i, j.here);
    }
    close_world(&o);
    clock_simulate(NULL);
}

/* One client has many before another comes: it waits for one of them only. */
static void clients_take_turns(void **state)
{
    struct world o;
    sem_t gate;
    (void)state;
    open_world(&o, 16);
    sem_init(&gate, 0, 0);
    struct job all[] = {new_job(&o, 'a', 1, USUAL), new_job(&o, 'b', 1, USUAL),
                        new_job(&o, 'c', 1, USUAL), new_job(&o, 'd', 1, USUAL),
                        new_job(&o, 'X', 2, USUAL), new_job(&o, 'Y', 2, USUAL)};
    all[0].gate = &gate;
    for (size_t i = 0; i < 6; i++)
        assert_true(text_worker_submit(o.w, &all[i].job));
    sem_post(&gate);
    wait_for(&o, 6);
    assert_string_equal(o.done, "abXcYd");
    close_world(&o);
}

/* A long one does not hold up the short ones, neither its own client's nor another's. */
static void long_ones_have_a_worker_of_their_own(void **state)
{
    struct world o;
    sem_t gate;
    (void)state;
    open_world(&o, 16);
    sem_init(&gate, 0, 0);
    struct job all[] = {new_job(&o, 'L', 1, LONG), new_job(&o, 'M', 2, LONG),
                        new_job(&o, 'a', 1, USUAL), new_job(&o, 'b', 2, USUAL)};
    all[0].gate = &gate;
    for (size_t i = 0; i < 4; i++)
        assert_true(text_worker_submit(o.w, &all[i].job));
    wait_for(&o, 2);
    assert_string_equal(o.done, "ab");
    sem_post(&gate);
    wait_for(&o, 4);
    assert_string_equal(o.done, "abLM");
    close_world(&o);
}

/* An answer's job, however long, goes to the usual worker. */
static void some_are_never_slow(void **state)
{
    struct world o;
    sem_t gate;
    (void)state;
    open_world(&o, 16);
    sem_init(&gate, 0, 0);
    struct job all[] = {new_job(&o, 'L', 1, LONG), new_job(&o, 'M', 1, LONG),
                        new_job(&o, 'a', 1, SIZE_MAX)};
    all[0].gate = &gate;
    all[2].job.never_slow = true;
    for (size_t i = 0; i < 3; i++)
        assert_true(text_worker_submit(o.w, &all[i].job));
    assert_int_equal(o.n_done, 0);
    wait_for(&o, 1);
    assert_string_equal(o.done, "a");
    assert_false(all[2].here);
    sem_post(&gate);
    wait_for(&o, 3);
    assert_string_equal(o.done, "aLM");
    close_world(&o);
}

/* Whoever has left is not worked for: the first of a line, one in the middle, its last. */
static void dropped_jobs_are_not_done(void **state)
{
    static const char *const order[] = {"acXde", "abXde", "abXce", "abcde"};
    (void)state;
    for (int which = 1; which < 5; which++) {
        struct world o;
        sem_t gate;
        open_world(&o, 16);
        sem_init(&gate, 0, 0);
        struct job all[] = {new_job(&o, 'a', 1, USUAL), new_job(&o, 'b', 1, USUAL),
                            new_job(&o, 'c', 1, USUAL), new_job(&o, 'd', 1, USUAL),
                            new_job(&o, 'X', 2, USUAL)};
        all[0].gate = &gate;
        for (size_t i = 0; i < 5; i++)
            assert_true(text_worker_submit(o.w, &all[i].job));
        assert_false(text_worker_drop(o.w, &all[0].job)); /* it runs, and may look */
        assert_true(all[0].job.dropped && !all[which].job.dropped);
        assert_true(text_worker_drop(o.w, &all[which].job));
        assert_false(text_worker_drop(o.w, &all[which].job));
        struct job late = new_job(&o, 'e', 1, USUAL);
        assert_true(text_worker_submit(o.w, &late.job));
        sem_post(&gate);
        wait_for(&o, 5);
        assert_false(all[which].worked);
        assert_string_equal(o.done, order[which - 1]);
        close_world(&o);
    }
}

static void count(struct text_job *job)
{
    of(job)->world->n_done++;
}

/* One runs, and as many as there are places wait, of four clients. */
static void as_many_jobs_wait(void **state)
{
    enum { JOBS = LIMIT_TEXT_JOBS + 2 };
    static struct job jobs[JOBS];
    struct world o;
    sem_t gate;
    (void)state;
    open_world(&o, LIMIT_TEXT_JOBS);
    sem_init(&gate, 0, 0);
    for (uint32_t i = 0; i < JOBS; i++) {
        jobs[i] = new_job(&o, 'a', i % 4, USUAL);
        jobs[i].job.done = count;
        jobs[i].gate = i == 0 ? &gate : NULL;
        assert_int_equal(text_worker_submit(o.w, &jobs[i].job), i < JOBS - 1);
    }
    sem_post(&gate);
    wait_for(&o, JOBS - 1);
    assert_true(jobs[JOBS - 2].worked && !jobs[JOBS - 1].worked);
    close_world(&o);
}

/* One client's line is full before there is no place for others. */
static void one_client_does_not_take_all_places(void **state)
{
    struct world o;
    sem_t gate;
    struct job jobs[8];
    (void)state;
    open_world(&o, 4);
    sem_init(&gate, 0, 0);
    for (int i = 0; i < 8; i++)
        jobs[i] = new_job(&o, (char)('a' + i), i < 4 ? 1 : 2, USUAL);
    jobs[0].gate = &gate;
    for (int i = 0; i < 3; i++)
        assert_true(text_worker_submit(o.w, &jobs[i].job));
    assert_false(text_worker_submit(o.w, &jobs[3].job));
    assert_true(text_worker_submit(o.w, &jobs[4].job));
    assert_true(text_worker_submit(o.w, &jobs[5].job));
    assert_false(text_worker_submit(o.w, &jobs[6].job)); /* four wait */
    sem_post(&gate);
    wait_for(&o, 5);
    assert_int_equal(o.n_done, 5);
    close_world(&o);
}

/* A client over its allowance goes to the slow worker, behind a long one; one with answers not.
 */
static void work_for_nothing_counts(void **state)
{
    (void)state;
    clock_simulate(&now_us); /* no time passes */
    for (int answered = 0; answered < 2; answered++) {
        struct world o;
        sem_t gate;
        open_world(&o, 16);
        sem_init(&gate, 0, 0);
        struct job much = new_job(&o, 'm', 1, USUAL), next = new_job(&o, 'n', 1, 100);
        struct job blocker = new_job(&o, 'L', 2, LONG), other = new_job(&o, 'o', 3, USUAL);
        much.burn_us = 3 * LIMIT_TEXT_BURST_US / 2;
        assert_true(text_worker_submit(o.w, &much.job));
        wait_for(&o, 1);
        if (answered)
            text_worker_refund(o.w, &much.job);
        blocker.gate = &gate;
        assert_true(text_worker_submit(o.w, &blocker.job));
        assert_true(text_worker_submit(o.w, &next.job));
        assert_true(text_worker_submit(o.w, &other.job));
        wait_for(&o, answered ? 3 : 2);
        sem_post(&gate);
        wait_for(&o, 4);
        assert_string_equal(o.done, answered ? "mnoL" : "moLn");
        assert_int_equal(next.here, answered);
        close_world(&o);
    }
    clock_simulate(NULL);
}

/* Who finds no place is told when there is likely to be one. */
static void the_wait_for_a_place(void **state)
{
    const int64_t second = 1000000;
    struct world o;
    sem_t gate;
    struct job jobs[8];
    (void)state;
    clock_simulate(&now_us);
    open_world(&o, 6);
    sem_init(&gate, 0, 0);
    for (int i = 0; i < 8; i++)
        jobs[i] = new_job(&o, (char)('a' + i), i < 5 ? 1 : (uint64_t)i, USUAL);
    jobs[0].gate = &gate;
    for (int i = 0; i < 4; i++)
        assert_true(text_worker_submit(o.w, &jobs[i].job));
    assert_false(text_worker_submit(o.w, &jobs[4].job));
    assert_int_equal(text_worker_wait_us(o.w, &jobs[4].job), 0); /* nothing is known yet */
    now_us += 3 * second;
    assert_int_equal(text_worker_wait_us(o.w, &jobs[4].job), 3 * second); /* one takes so long */
    for (int i = 5; i < 8; i++)
        assert_true(text_worker_submit(o.w, &jobs[i].job));
    struct job late = new_job(&o, 'l', 9, USUAL);
    assert_false(text_worker_submit(o.w, &late.job));
    assert_int_equal(text_worker_wait_us(o.w, &late.job), 3 * second);     /* until any has ended */
    assert_int_equal(text_worker_wait_us(o.w, &jobs[4].job), 12 * second); /* a turn of 4 lines */
    now_us += 4000 * second;
    assert_int_equal(text_worker_wait_us(o.w, &late.job), LIMIT_RETRY_SECONDS * second);
    sem_post(&gate);
    wait_for(&o, 7);
    close_world(&o);
    clock_simulate(NULL);
}

/* A client over its allowance comes back when it is under it. */
static void the_wait_for_an_allowance(void **state)
{
    struct world o;
    (void)state;
    clock_simulate(&now_us); /* no time passes */
    open_world(&o, 2);
    struct job much = new_job(&o, 'm', 1, USUAL), next = new_job(&o, 'n', 1, USUAL);
    struct job other = new_job(&o, 'o', 2, USUAL);
    much.burn_us = 3 * LIMIT_TEXT_BURST_US / 2;
    assert_true(text_worker_submit(o.w, &much.job));
    wait_for(&o, 1);
    int64_t over_us = much.job.cost_us - LIMIT_TEXT_BURST_US;
    int64_t wait_us = over_us * 1000000 / LIMIT_TEXT_US_PER_SECOND;
    assert_true(over_us >= LIMIT_TEXT_BURST_US / 2);
    assert_int_equal(text_worker_wait_us(o.w, &next.job), wait_us);
    assert_int_equal(text_worker_wait_us(o.w, &other.job), 0);
    now_us += wait_us;
    assert_int_equal(text_worker_wait_us(o.w, &next.job), 0);
    close_world(&o);
    clock_simulate(NULL);
}

/* Those that run are waited for, those that wait are given back undone. */
static void closing(void **state)
{
    struct world o;
    (void)state;
    open_world(&o, 16);
    struct job all[] = {new_job(&o, 'a', 1, USUAL), new_job(&o, 'b', 1, USUAL),
                        new_job(&o, 'c', 2, USUAL), new_job(&o, 'L', 2, LONG)};
    for (size_t i = 0; i < 4; i++)
        assert_true(text_worker_submit(o.w, &all[i].job));
    close_world(&o);
    assert_int_equal(o.n_done, 4);
    assert_true(all[0].worked && all[3].worked);
    assert_false(all[1].worked || all[2].worked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_short_is_done_here),
        cmocka_unit_test(only_for_so_long),
        cmocka_unit_test(clients_take_turns),
        cmocka_unit_test(long_ones_have_a_worker_of_their_own),
        cmocka_unit_test(some_are_never_slow),
        cmocka_unit_test(dropped_jobs_are_not_done),
        cmocka_unit_test(as_many_jobs_wait),
        cmocka_unit_test(one_client_does_not_take_all_places),
        cmocka_unit_test(work_for_nothing_counts),
        cmocka_unit_test(the_wait_for_a_place),
        cmocka_unit_test(the_wait_for_an_allowance),
        cmocka_unit_test(closing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
