#include "base/pool.h"

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/cpu_topology.h"
#include "base/mem.h"

#include <errno.h>
#include <immintrin.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SPIN_NS     20000
#define WORKER_NICE 1 /* above the creating thread's: the I/O thread pre-empts the workers */

struct worker {
    struct pool *pool;
    pthread_t thread;
    int index;
    alignas(64) atomic_ullong waited; /* ticks inside runs; this worker adds, anyone reads */
};

struct pool {
    int n_threads;
    int64_t spin_ns;
    pool_fn *fn;
    void *arg;
    struct worker *workers; /* n_threads; 0 is whoever calls pool_run */
    struct place *places;   /* (n_places) */
    int n_places;
    int n_cores;       /* that they are of */
    cpu_set_t allowed; /* what they were found in */
    bool fenced;       /* each worker keeps to its own */
    uint64_t made;     /* ticks */
    atomic_ullong ran; /* ticks inside pool_run */

    /* A run: the caller sets fn and arg, bumps `generation` (release); workers load it (acquire).
     */
    alignas(64) atomic_uint generation;
    alignas(64) atomic_uint sleepers;
    alignas(64) atomic_uint running; /* workers that have not returned from this run */

    /* The barrier: the last to arrive resets `arrived` and bumps `phase` (release). */
    alignas(64) atomic_uint arrived;
    alignas(64) atomic_uint phase;
    atomic_bool stop;
};

/* This thread's place among the workers of the pool that it is in. */
static _Thread_local int own_index;

/* The time stamp counter: waits are too many and too short for the clock. */
static uint64_t ticks(void)
{
    return __rdtsc();
}

/* One writer: no locked instruction. */
static void add_ticks(atomic_ullong *total, uint64_t since)
{
    uint64_t before = atomic_load_explicit(total, memory_order_relaxed);
    atomic_store_explicit(total, before + (ticks() - since), memory_order_relaxed);
}

static void futex_wait(atomic_uint *word, unsigned seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake_all(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* Spins until *word differs from seen or the time is over. */
static bool spin_changed(const struct pool *p, atomic_uint *word, unsigned seen)
{
    int64_t until = 0;
    for (unsigned i = 0;; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != seen)
            return true;
        if (p->spin_ns == 0)
            return false;
        _mm_pause();
        if (i % 64 == 63) {
            int64_t now = clock_now_ns();
            if (until == 0)
                until = now + p->spin_ns;
            else if (now > until)
                return false;
        }
    }
}

static void wait_changed(struct pool *p, atomic_uint *word, unsigned seen)
{
    while (!spin_changed(p, word, seen)) {
        /* seq_cst on both sides: the waker bumps *word and then looks at sleepers, we announce
         * ourselves and the kernel then looks at *word again, so one sees the other. */
        atomic_fetch_add_explicit(&p->sleepers, 1, memory_order_seq_cst);
        futex_wait(word, seen);
        atomic_fetch_sub_explicit(&p->sleepers, 1, memory_order_relaxed);
    }
}

static void wait_in_run(struct pool *p, atomic_uint *word, unsigned seen)
{
    uint64_t start = ticks();
    wait_changed(p, word, seen);
    add_ticks(&p->workers[own_index].waited, start);
}

static void publish(struct pool *p, atomic_uint *word)
{
    atomic_fetch_add_explicit(word, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&p->sleepers, memory_order_seq_cst) > 0)
        futex_wake_all(word);
}

/* --- fences ---------------------------------------------------------------------------------- */

/* Linux may put two workers on one processor while another one is idle, and leave them there: in a
 * virtual machine it takes an idle processor for one that the host has taken away, and wakes a
 * worker on the processor of whoever wakes it. So the processors are dealt out to the workers, a
 * core's threads to the same one, and each keeps to its own. Where there are as many workers as
 * cores that is one core each; where there are more cores, Linux has a choice and other programs
 * find room. */

/* Where there are fewer cores than workers each processor is dealt out by itself; with fewer
 * processors than workers there are no fences. */
static bool in_fence(const struct pool *p, int place, int worker)
{
    int unit = p->n_threads <= p->n_cores ? p->places[place].core : place;
    return unit % p->n_threads == worker;
}

/* The pool whose worker this thread was last; its `allowed` is what the thread may use besides. */
static _Thread_local const struct pool *fenced_by;

/* Also where there are no fences: the thread, or the one that made it, may be in another pool's. A
 * mask that Linux refuses leaves the worker where it is. */
static void enter_fence(const struct pool *p, int worker)
{
    cpu_set_t own = p->allowed;
    if (p->fenced) {
        CPU_ZERO(&own);
        for (int i = 0; i < p->n_places; i++)
            if (in_fence(p, i, worker))
                CPU_SET((size_t)p->places[i].cpu, &own);
    }
    fenced_by = p;
    sched_setaffinity(0, sizeof own, &own);
}

void pool_leave(const struct pool *p)
{
    if (fenced_by != p)
        return;
    sched_setaffinity(0, sizeof p->allowed, &p->allowed);
    fenced_by = NULL;
}

static void find_places(struct pool *p)
{
    if (fenced_by)
        p->allowed = fenced_by->allowed;
    else if (sched_getaffinity(0, sizeof p->allowed, &p->allowed) != 0)
        CPU_ZERO(&p->allowed);
    p->n_places = cpu_topology_find(&p->allowed, p->places, CPU_SETSIZE);
    for (int i = 0; i < p->n_places; i++)
        p->n_cores += p->places[i].turn == 0;
    p->fenced = p->n_threads > 1 && p->n_threads <= p->n_places;
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->pool;
    own_index = w->index;
    mem_forbid(true);
    enter_fence(p, w->index);
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + WORKER_NICE); /* of this thread */
    unsigned seen = 0;
    for (;;) {
        wait_changed(p, &p->generation, seen);
        seen++;
        if (atomic_load_explicit(&p->stop, memory_order_acquire))
            return NULL;
        p->fn(p->arg, w->index);
        /* release: the caller's acquire load of zero sees this worker's results */
        if (atomic_fetch_sub_explicit(&p->running, 1, memory_order_seq_cst) == 1 &&
            atomic_load_explicit(&p->sleepers, memory_order_seq_cst) > 0)
            futex_wake_all(&p->running);
    }
}

static void stop_workers(struct pool *p, int started)
{
    atomic_store_explicit(&p->stop, true, memory_order_release);
    publish(p, &p->generation);
    for (int i = 1; i <= started; i++)
        pthread_join(p->workers[i].thread, NULL);
}

static void free_pool(struct pool *p)
{
    if (p) {
        mem_free(p->workers);
        mem_free(p->places);
    }
    mem_free(p);
}

static struct pool *make_pool(int n_threads)
{
    struct pool *p = mem_aligned(sizeof *p);
    if (!p)
        return NULL;
    p->n_threads = n_threads;
    p->workers = mem_aligned((size_t)n_threads * sizeof *p->workers);
    p->places = mem_array(CPU_SETSIZE, sizeof *p->places);
    if (p->workers && p->places)
        return p;
    free_pool(p);
    return NULL;
}

enum status pool_create(struct pool **out, int n_threads, struct err *err)
{
    struct pool *p = make_pool(n_threads);
    if (!p)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %d worker threads", n_threads);
    p->made = ticks();
    find_places(p);
    p->spin_ns = n_threads <= p->n_places && n_threads <= cgroup_processors() ? SPIN_NS : 0;
    for (int i = 1; i < n_threads; i++) {
        p->workers[i].pool = p;
        p->workers[i].index = i;
        int rc = pthread_create(&p->workers[i].thread, NULL, worker_main, &p->workers[i]);
        if (rc) {
            stop_workers(p, i - 1);
            free_pool(p);
            return err_set(err, STATUS_NO_MEMORY, "cannot start worker thread %d of %d: %s", i,
                           n_threads - 1, strerror(rc));
        }
    }
    *out = p;
    return STATUS_OK;
}

void pool_destroy(struct pool *p)
{
    if (!p)
        return;
    stop_workers(p, p->n_threads - 1);
    pool_leave(p);
    free_pool(p);
}

int pool_threads(const struct pool *p)
{
    return p->n_threads;
}

void pool_run(struct pool *p, pool_fn *fn, void *arg)
{
    uint64_t start = ticks();
    p->fn = fn;
    p->arg = arg;
    atomic_store_explicit(&p->running, (unsigned)p->n_threads - 1, memory_order_relaxed);
    publish(p, &p->generation);
    if (fenced_by != p)
        enter_fence(p, 0);
    fn(arg, 0);
    unsigned left;
    while ((left = atomic_load_explicit(&p->running, memory_order_acquire)) != 0)
        wait_in_run(p, &p->running, left);
    add_ticks(&p->ran, start);
}

void pool_usage(const struct pool *p, struct pool_usage *out)
{
    uint64_t n = (uint64_t)p->n_threads, waited = 0;
    uint64_t ran = n * atomic_load_explicit(&p->ran, memory_order_relaxed);
    for (int i = 0; i < p->n_threads; i++)
        waited += atomic_load_explicit(&p->workers[i].waited, memory_order_relaxed);
    out->capacity = n * (ticks() - p->made);
    out->busy = ran > waited ? ran - waited : 0;
}

void pool_barrier(struct pool *p)
{
    unsigned phase = atomic_load_explicit(&p->phase, memory_order_relaxed);
    /* acq_rel: the last to arrive has seen what all others wrote before they came */
    unsigned n = atomic_fetch_add_explicit(&p->arrived, 1, memory_order_acq_rel) + 1;
    if (n == (unsigned)p->n_threads) {
        atomic_store_explicit(&p->arrived, 0, memory_order_relaxed);
        publish(p, &p->phase);
    } else {
        wait_in_run(p, &p->phase, phase);
    }
}

void pool_slice(size_t n, size_t grain, int worker, int n_workers, size_t *begin, size_t *end)
{
    size_t units = (n + grain - 1) / grain;
    size_t from = units * (size_t)worker / (size_t)n_workers * grain;
    size_t to = units * ((size_t)worker + 1) / (size_t)n_workers * grain;
    *begin = from < n ? from : n;
    *end = to < n ? to : n;
}
