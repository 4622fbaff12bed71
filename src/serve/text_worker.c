#include "serve/text_worker.h"

#include "base/mem.h"
#include "base/ring.h"
#include "base/wake.h"

#include <event2/event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct text_worker {
    struct ring jobs;    /* I/O thread -> worker */
    struct ring results; /* worker -> I/O thread; as many fit as jobs, so a push never fails */
    struct wake has_jobs;
    struct wake has_results;
    struct event *results_event;
    size_t under_way; /* I/O thread */
    size_t capacity;
    atomic_bool stop;
    pthread_t thread;
    bool running;
};

static struct text_job *job_of(uint64_t entry)
{
    return (struct text_job *)(uintptr_t)entry;
}

static void *run(void *arg)
{
    struct text_worker *w = arg;
    uint64_t job;
    for (;;) {
        while (ring_pop(&w->jobs, &job)) {
            job_of(job)->work(job_of(job));
            REQUIRE(ring_push(&w->results, job, NULL));
            wake_signal(&w->has_results);
        }
        /* stop is set after the last push, so an empty ring seen after it stays empty */
        if (atomic_load(&w->stop) && ring_empty(&w->jobs))
            return NULL;
        wake_wait(&w->has_jobs);
    }
}

static void take_results(struct text_worker *w)
{
    uint64_t job;
    while (ring_pop(&w->results, &job)) {
        w->under_way--;
        job_of(job)->done(job_of(job));
    }
}

static void on_results(evutil_socket_t fd, short what, void *arg)
{
    struct text_worker *w = arg;
    (void)fd;
    (void)what;
    wake_clear(&w->has_results);
    take_results(w);
}

static enum status start(struct text_worker *w, struct event_base *base, struct err *err)
{
    enum status st;
    if (!ring_init(&w->jobs, w->capacity) || !ring_init(&w->results, w->capacity))
        return err_set(err, STATUS_NO_MEMORY, "no memory for the text worker");
    if ((st = wake_init(&w->has_jobs, err)) || (st = wake_init(&w->has_results, err)))
        return st;
    w->results_event = event_new(base, w->has_results.fd, EV_READ | EV_PERSIST, on_results, w);
    if (!w->results_event || event_add(w->results_event, NULL))
        return err_set(err, STATUS_NO_MEMORY, "no memory for the text worker");
    int e = pthread_create(&w->thread, NULL, run, w);
    if (e)
        return err_set(err, STATUS_NO_MEMORY, "cannot start the text worker: %s", strerror(e));
    w->running = true;
    return STATUS_OK;
}

enum status text_worker_open(struct text_worker **out, struct event_base *base, size_t capacity,
                             struct err *err)
{
    struct text_worker *w = mem_aligned(sizeof *w); /* as its rings want */
    if (!w)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the text worker");
    w->capacity = capacity;
    w->has_jobs.fd = w->has_results.fd = -1;
    enum status st = start(w, base, err);
    if (st) {
        text_worker_close(w);
        return st;
    }
    *out = w;
    return STATUS_OK;
}

void text_worker_close(struct text_worker *w)
{
    if (!w)
        return;
    if (w->running) {
        atomic_store(&w->stop, true);
        wake_signal(&w->has_jobs);
        pthread_join(w->thread, NULL);
        take_results(w);
    }
    if (w->results_event)
        event_free(w->results_event);
    wake_fini(&w->has_jobs);
    wake_fini(&w->has_results);
    ring_fini(&w->jobs);
    ring_fini(&w->results);
    mem_free(w);
}

bool text_worker_submit(struct text_worker *w, struct text_job *job)
{
    if (w->under_way == w->capacity || !ring_push(&w->jobs, (uint64_t)(uintptr_t)job, NULL))
        return false;
    w->under_way++;
    wake_signal(&w->has_jobs);
    return true;
}
