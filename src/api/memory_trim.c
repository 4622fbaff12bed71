#include "api/memory_trim.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "http/text_worker.h"

#include <event2/event.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#define QUIET_SECONDS 5
#define GROWN_BYTES   ((size_t)16 << 20) /* of memory that is worth the while */

struct memory_trim {
    struct text_job job; /* first; the worker's from submit to done, with what follows it */
    int statm;           /* opened at the start: a confined process may not open it later */
    size_t settled;      /* bytes held after the last time; 0: there was none */
    bool under_way;      /* the job is the worker's */
    struct event *timer;
    struct text_worker *worker;
    bool (*busy)(void *arg);
    void *arg;
};

/* Bytes that are resident and of no file: heap, KV pages, stacks. 0: unknown. */
static size_t held_bytes(int statm)
{
    char text[128];
    size_t resident, shared;
    ssize_t n = pread(statm, text, sizeof text - 1, 0);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    if (sscanf(text, "%*u %zu %zu", &resident, &shared) != 2 || resident < shared)
        return 0;
    return (resident - shared) * (size_t)sysconf(_SC_PAGESIZE);
}

/* On the text worker: nobody waits for it now. Growth of the KV pool counts as well, since it
 * cannot be told apart; then there is little to give back, and that takes no time. */
static void memory_trim_work(struct text_job *job)
{
    struct memory_trim *t = (struct memory_trim *)job;
    size_t before = held_bytes(t->statm);
    if (before < t->settled + GROWN_BYTES) {
        t->settled = before < t->settled ? before : t->settled;
        return;
    }
    int64_t start_us = clock_now_us();
    malloc_trim(0);
    t->settled = held_bytes(t->statm);
    log_debug("server.trim", "before=%zu after=%zu us=%" PRId64, before, t->settled,
              clock_now_us() - start_us);
}

static void memory_trim_done(struct text_job *job)
{
    struct memory_trim *t = (struct memory_trim *)job;
    t->under_way = false;
    text_worker_refund(t->worker, job); /* it is nobody's */
}

static void on_quiet(evutil_socket_t fd, short what, void *arg)
{
    struct memory_trim *t = arg;
    (void)fd;
    (void)what;
    if (!t->under_way && !t->busy(t->arg)) /* who is busy will end, and ask again */
        t->under_way = text_worker_submit(t->worker, &t->job);
}

void memory_trim_soon(struct memory_trim *t)
{
    const struct timeval quiet = {.tv_sec = QUIET_SECONDS};
    if (t)
        event_add(t->timer, &quiet); /* from now on, if it was waiting already */
}

enum status memory_trim_open(struct memory_trim **out, struct event_base *base,
                             struct text_worker *worker, bool (*busy)(void *arg), void *arg,
                             struct err *err)
{
    struct memory_trim *t = mem_zalloc(sizeof *t);
    if (t)
        *t = (struct memory_trim){.job = {.work = memory_trim_work,
                                          .done = memory_trim_done,
                                          .bytes = SIZE_MAX,
                                          .never_slow = true},
                                  .statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC),
                                  .worker = worker,
                                  .busy = busy,
                                  .arg = arg,
                                  .timer = evtimer_new(base, on_quiet, t)};
    if (!t || !t->timer) {
        memory_trim_close(t);
        return err_set(err, STATUS_NO_MEMORY, "no memory for the server");
    }
    *out = t;
    return STATUS_OK;
}

void memory_trim_close(struct memory_trim *t)
{
    if (!t)
        return;
    if (t->timer)
        event_free(t->timer);
    if (t->statm >= 0)
        close(t->statm);
    mem_free(t);
}
