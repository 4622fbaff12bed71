/* The engine thread: one step after the other (engine_step.c) while there is work, asleep
 * otherwise. Nothing here allocates or frees. */
#include "engine/internal.h"

#include "base/clock.h"
#include "base/mem.h"

#include <sys/resource.h>

#define ENGINE_NICE 1 /* above its creator: the I/O thread pre-empts it, as it does workers */

static bool has_work(const struct engine *e)
{
    return e->lists.of[REQUEST_WAITING].n > 0 || e->lists.of[REQUEST_PREFILL].n > 0 ||
           e->lists.of[REQUEST_DECODE].n > 0;
}

static void run_step(struct engine *e)
{
    int64_t start = clock_now_us();
    bool pressed = e->lists.of[REQUEST_WAITING].n + e->lists.of[REQUEST_PREFILL].n > 0;
    e->stepping = true;
    engine_step_run(e);
    e->stepping = false;
    e->step_ended_us = clock_now_us();
    ENGINE_COUNT(e, busy_us, (unsigned long long)(e->step_ended_us - start));
    admission_step(e, pressed, e->step.plan.limit, e->step_ended_us - start);
}

bool engine_thread_turn(struct engine *e)
{
    engine_mailbox_drain(e);
    if (e->stopping || !has_work(e))
        return false;
    run_step(e);
    return true;
}

void *engine_thread(void *engine)
{
    struct engine *e = engine;
    pthread_setname_np(pthread_self(), "engine"); /* another thread's name is a file in /proc */
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + ENGINE_NICE); /* of this thread */
    mem_forbid(true);
    while (!e->stopping)
        if (!engine_thread_turn(e) && !e->stopping && ring_empty(&e->messages))
            wake_wait(&e->to_engine); /* ring_empty is seq_cst, see ring.c: no wake-up is lost */
    return NULL;
}
