#include "http/text_worker.h"

#include "base/allowance.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/ring.h"
#include "base/wake.h"
#include "http/client_buckets.h"

#include <event2/event.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define METERED_CLIENTS 4096
#define SLOW_NICE       19
#define PACE_JOBS       8 /* that its pace is a mean of, about */

/* One thread, with at most one job. */
struct lane {
    struct text_worker *owner;
    struct ring jobs;    /* I/O thread -> worker */
    struct ring results; /* worker -> I/O thread */
    struct wake has_jobs;
    struct wake has_results;
    struct event *results_event;
    struct text_job *running; /* I/O thread, as the next two */
    int64_t started_us;       /* when it was given the one that runs */
    double pace_us;           /* from start to end of a job, of late; 0: there was none */
    atomic_bool stop;
    pthread_t thread;
    bool started;
    bool slow;
};

enum { LANE_USUAL, LANE_SLOW, LANES };

struct text_worker {
    struct lane lanes[LANES];
    struct text_job *first_line, *last_line; /* first jobs of the lines, in turn */
    size_t n_lines, n_waiting, capacity;
    struct client_buckets *spent; /* microseconds of a processor that were for nothing */
    struct allowance inline_us;   /* that the I/O thread may work itself */
};

static struct text_job *job_of(uint64_t entry)
{
    return (struct text_job *)(uintptr_t)entry;
}

/* ---- a worker's thread ---- */

static int64_t thread_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000000) + t.tv_nsec / 1000;
}

static void text_worker_work(struct text_job *job)
{
    int64_t before = thread_us();
    job->work(job);
    job->cost_us = thread_us() - before;
}

static void *text_worker_run(void *arg)
{
    struct lane *l = arg;
    uint64_t job;
    pthread_setname_np(pthread_self(), l->slow ? "text-slow" : "text");
    if (l->slow)
        setpriority(PRIO_PROCESS, 0, SLOW_NICE); /* of this thread */
    for (;;) {
        while (ring_pop(&l->jobs, &job)) {
            text_worker_work(job_of(job));
            REQUIRE(ring_push(&l->results, job, NULL));
            wake_signal(&l->has_results);
        }
        /* stop is set after the last push, so an empty ring seen after it stays empty */
        if (atomic_load(&l->stop) && ring_empty(&l->jobs))
            return NULL;
        wake_wait(&l->has_jobs);
    }
}

/* ---- the lines ---- */

static bool text_worker_is_long(const struct text_job *job)
{
    return job->bytes > LIMIT_BODY_USUAL && !job->never_slow;
}

/* The long ones of a client have a line of their own, so that no short one waits behind them. */
static bool same_line(const struct text_job *a, const struct text_job *b)
{
    return memcmp(&a->client, &b->client, sizeof a->client) == 0 &&
           text_worker_is_long(a) == text_worker_is_long(b);
}

static void append_line(struct text_worker *w, struct text_job *first)
{
    first->next_line = NULL;
    if (w->first_line)
        w->last_line->next_line = first;
    else
        w->first_line = first;
    w->last_line = first;
    w->n_lines++;
}

/* Takes a line out, whose first job this is; `before` is the first of the line before it. */
static void remove_line(struct text_worker *w, struct text_job *before, struct text_job *first)
{
    *(before ? &before->next_line : &w->first_line) = first->next_line;
    if (w->last_line == first)
        w->last_line = before;
    w->n_lines--;
}

/* The first of the line that the job belongs to; NULL: none waits. */
static struct text_job *line_of(const struct text_worker *w, const struct text_job *job)
{
    struct text_job *first = w->first_line;
    while (first && !same_line(first, job))
        first = first->next_line;
    return first;
}

static bool is_full(const struct text_worker *w, const struct text_job *first)
{
    return first && first->n_line >= (w->capacity + 1) / 2;
}

static bool wait_in_line(struct text_worker *w, struct text_job *job)
{
    struct text_job *first = line_of(w, job);
    if (w->n_waiting == w->capacity || is_full(w, first))
        return false;
    job->next = NULL;
    job->last = job;
    job->n_line = 1;
    w->n_waiting++;
    if (!first) {
        append_line(w, job);
        return true;
    }
    first->last->next = job;
    first->last = job;
    first->n_line++;
    return true;
}

/* The line's second job becomes its first. */
static void lead(struct text_job *next, const struct text_job *first)
{
    next->last = first->last;
    next->n_line = first->n_line - 1;
}

/* By the account of its client; `spent` runs out with time. */
static bool text_worker_is_over(const struct text_worker *w, const struct text_job *job)
{
    return client_buckets_held(w->spent, &job->client, clock_now_us()) > LIMIT_TEXT_BURST_US;
}

static bool is_slow(const struct text_worker *w, const struct text_job *job)
{
    return !job->never_slow && (text_worker_is_long(job) || text_worker_is_over(w, job));
}

static bool line_runs(const struct text_worker *w, const struct text_job *job)
{
    for (int i = 0; i < LANES; i++)
        if (w->lanes[i].running && same_line(w->lanes[i].running, job))
            return true;
    return false;
}

/* The next job for this lane; the rest of its line comes after all others. */
static struct text_job *next_for(struct text_worker *w, const struct lane *l)
{
    struct text_job *before = NULL, *job = w->first_line;
    while (job && (line_runs(w, job) || is_slow(w, job) != l->slow)) {
        before = job;
        job = job->next_line;
    }
    if (!job)
        return NULL;
    remove_line(w, before, job);
    w->n_waiting--;
    if (job->next) {
        lead(job->next, job);
        append_line(w, job->next);
    }
    return job;
}

static void start_next(struct text_worker *w)
{
    for (int i = 0; i < LANES; i++) {
        struct lane *l = &w->lanes[i];
        struct text_job *job = l->running ? NULL : next_for(w, l);
        if (!job)
            continue;
        l->running = job;
        l->started_us = clock_now_us();
        REQUIRE(ring_push(&l->jobs, (uint64_t)(uintptr_t)job, NULL));
        wake_signal(&l->has_jobs);
    }
}

/* ---- what comes back ---- */

static void charge(struct text_worker *w, const struct text_job *job)
{
    client_buckets_add(w->spent, &job->client, (double)job->cost_us, clock_now_us());
}

/* How long a job of this worker takes: as those before it, or as the one that runs has already. */
static double pace_us(const struct lane *l)
{
    double us = l->running ? (double)(clock_now_us() - l->started_us) : 0;
    return us > l->pace_us ? us : l->pace_us;
}

static void keep_pace(struct lane *l)
{
    double us = (double)(clock_now_us() - l->started_us);
    l->pace_us = l->pace_us > 0 ? l->pace_us + (us - l->pace_us) / PACE_JOBS : us;
}

static void take_result(struct text_worker *w, struct lane *l)
{
    uint64_t entry;
    if (!ring_pop(&l->results, &entry))
        return;
    l->running = NULL;
    if (!job_of(entry)->no_text)
        keep_pace(l);
    charge(w, job_of(entry));
    start_next(w); /* before done, which may take its time or submit more */
    job_of(entry)->done(job_of(entry));
}

static void on_results(evutil_socket_t fd, short what, void *arg)
{
    struct lane *l = arg;
    (void)fd;
    (void)what;
    wake_clear(&l->has_results);
    take_result(l->owner, l);
}

/* ---- on the I/O thread ---- */

/* What is short is done here, if its client is not over its allowance and has nothing waiting that
 * was there before. */
static bool is_inline(struct text_worker *w, const struct text_job *job)
{
    return !job->no_text && job->bytes <= LIMIT_BODY_INLINE && allowance_has(&w->inline_us) &&
           !is_slow(w, job) && !line_of(w, job);
}

bool text_worker_submit(struct text_worker *w, struct text_job *job)
{
    if (!is_inline(w, job)) {
        bool waits = wait_in_line(w, job);
        if (waits)
            start_next(w);
        return waits;
    }
    int64_t before = clock_now_us();
    job->work(job);
    job->cost_us = clock_now_us() - before;
    allowance_use(&w->inline_us, job->cost_us);
    charge(w, job);
    job->done(job);
    return true;
}

int64_t text_worker_wait_us(const struct text_worker *w, const struct text_job *job)
{
    const int64_t most_us = LIMIT_RETRY_SECONDS * INT64_C(1000000);
    bool slow = is_slow(w, job);
    double turns = is_full(w, line_of(w, job)) ? (double)w->n_lines : 1;
    double queue_us = turns * pace_us(&w->lanes[slow ? LANE_SLOW : LANE_USUAL]);
    int64_t us = queue_us < (double)most_us ? (int64_t)queue_us : most_us;
    int64_t allowed_us =
        job->never_slow
            ? 0
            : client_buckets_until_us(w->spent, &job->client, LIMIT_TEXT_BURST_US, clock_now_us());
    if (us < allowed_us)
        us = allowed_us;
    return us < most_us ? us : most_us;
}

/* The first job of a line leaves it. */
static void drop_first(struct text_worker *w, struct text_job *before, struct text_job *first)
{
    struct text_job *next = first->next;
    if (!next) {
        remove_line(w, before, first);
        return;
    }
    lead(next, first);
    next->next_line = first->next_line;
    *(before ? &before->next_line : &w->first_line) = next;
    if (w->last_line == first)
        w->last_line = next;
}

static bool drop_later(struct text_job *first, const struct text_job *job)
{
    struct text_job *before = first;
    while (before && before->next != job)
        before = before->next;
    if (!before)
        return false;
    before->next = job->next;
    if (first->last == job)
        first->last = before;
    first->n_line--;
    return true;
}

bool text_worker_drop(struct text_worker *w, struct text_job *job)
{
    struct text_job *before = NULL, *first = w->first_line;
    while (first && !same_line(first, job)) {
        before = first;
        first = first->next_line;
    }
    if (first == job)
        drop_first(w, before, job);
    else if (!drop_later(first, job)) {
        atomic_store(&job->dropped, true);
        return false;
    }
    w->n_waiting--;
    return true;
}

void text_worker_refund(struct text_worker *w, struct text_job *job)
{
    if (job->cost_us == 0)
        return;
    client_buckets_add(w->spent, &job->client, -(double)job->cost_us, clock_now_us());
    job->cost_us = 0;
}

/* ---- the beginning and the end ---- */

static enum status text_worker_start_thread(struct lane *l, struct err *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the I/O thread's */
    int e = pthread_create(&l->thread, NULL, text_worker_run, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (e)
        return err_set(err, STATUS_NO_MEMORY, "cannot start a text worker: %s", strerror(e));
    l->started = true;
    return STATUS_OK;
}

static enum status open_lane(struct lane *l, struct event_base *base, struct err *err)
{
    enum status st;
    if (!ring_init(&l->jobs, 1) || !ring_init(&l->results, 1))
        return err_set(err, STATUS_NO_MEMORY, "no memory for the text workers");
    if ((st = wake_init(&l->has_jobs, err)) || (st = wake_init(&l->has_results, err)))
        return st;
    l->results_event = event_new(base, l->has_results.fd, EV_READ | EV_PERSIST, on_results, l);
    if (!l->results_event || event_add(l->results_event, NULL))
        return err_set(err, STATUS_NO_MEMORY, "no memory for the text workers");
    return text_worker_start_thread(l, err);
}

static enum status text_worker_open_all(struct text_worker *w, struct event_base *base,
                                        struct err *err)
{
    enum status st = client_buckets_open(&w->spent, METERED_CLIENTS, LIMIT_TEXT_US_PER_SECOND, err);
    for (int i = 0; i < LANES && st == STATUS_OK; i++)
        st = open_lane(&w->lanes[i], base, err);
    return st;
}

enum status text_worker_open(struct text_worker **out, struct event_base *base, size_t capacity,
                             struct err *err)
{
    struct text_worker *w = mem_aligned(sizeof *w); /* as its rings want */
    if (!w)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the text workers");
    w->capacity = capacity;
    /* half of the time that passes, at most so much of it at once */
    allowance_init(&w->inline_us, 500000, LIMIT_INLINE_US);
    for (int i = 0; i < LANES; i++) {
        struct lane *l = &w->lanes[i];
        l->owner = w;
        l->slow = i == LANE_SLOW;
        l->has_jobs.fd = l->has_results.fd = -1;
    }
    enum status st = text_worker_open_all(w, base, err);
    if (st) {
        text_worker_close(w);
        return st;
    }
    *out = w;
    return STATUS_OK;
}

static void stop_lane(struct lane *l)
{
    uint64_t job;
    if (!l->started)
        return;
    atomic_store(&l->stop, true);
    wake_signal(&l->has_jobs);
    pthread_join(l->thread, NULL);
    l->running = NULL;
    if (ring_pop(&l->results, &job))
        job_of(job)->done(job_of(job));
}

static void close_lane(struct lane *l)
{
    if (l->results_event)
        event_free(l->results_event);
    wake_fini(&l->has_jobs);
    wake_fini(&l->has_results);
    ring_fini(&l->jobs);
    ring_fini(&l->results);
}

void text_worker_close(struct text_worker *w)
{
    struct text_job *job;
    if (!w)
        return;
    while ((job = w->first_line) && text_worker_drop(w, job))
        job->done(job);
    for (int i = 0; i < LANES; i++)
        stop_lane(&w->lanes[i]);
    for (int i = 0; i < LANES; i++)
        close_lane(&w->lanes[i]);
    client_buckets_close(w->spent);
    mem_free(w);
}
