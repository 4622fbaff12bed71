#include "backend/cpu/kv_pages.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/wake.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#define PAGE      ((size_t)4 << 10)
#define HUGE_PAGE ((size_t)2 << 20)
#define STRIDE    (4 * HUGE_PAGE) /* of use before the thread is woken again */
#define START_US  200000          /* spent at open */
#define QUIET_MS  20              /* without a step before the thread goes on */

struct kv_pages {
    char *base;
    size_t bytes;
    size_t ahead;
    size_t woken_at; /* bytes in use when the thread was last woken; the user's */
    size_t done;     /* backed bytes, from the first on; the thread's once it runs */
    pthread_t thread;
    bool running;
    struct wake wake;
    _Atomic size_t wanted; /* bytes that shall be backed */
    atomic_uint steps;     /* begun so far */
    atomic_uint under_way;
    atomic_bool stop;
};

static size_t kv_pages_round_up(size_t bytes)
{
    return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

/* Writes what is there: a byte in each page, of which there is only one where the kernel gives huge
 * ones. A fault, unlike MADV_POPULATE_WRITE, does not hold the lock that mmap and munmap of all
 * threads wait for (Linux 6.4 and later). A worker may write the byte meanwhile: neither write is
 * lost. */
__attribute__((no_sanitize("thread"))) static void back_page(struct kv_pages *p)
{
    for (size_t at = 0; at < HUGE_PAGE; at += PAGE) {
        char none = 0;
        __atomic_compare_exchange_n(p->base + p->done + at, &none, 0, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
    }
    p->done += HUGE_PAGE;
}

static bool is_quiet(struct kv_pages *p, unsigned steps)
{
    return atomic_load(&p->steps) == steps && atomic_load(&p->under_way) == 0;
}

/* Backs pages until a step begins. */
static void back_while_quiet(struct kv_pages *p, unsigned steps)
{
    while (p->done < atomic_load(&p->wanted) && is_quiet(p, steps) && !atomic_load(&p->stop))
        back_page(p);
}

/* Of usual priority: before Linux 6.4 a fault holds that lock too, and a thread that others keep
 * from running would hold it for as long. */
static void *kv_pages_run(void *arg)
{
    struct kv_pages *p = arg;
    struct pollfd woken = {.fd = p->wake.fd, .events = POLLIN};
    while (!atomic_load(&p->stop) && p->done < p->bytes) {
        unsigned steps = atomic_load(&p->steps);
        bool behind = p->done < atomic_load(&p->wanted);
        if (poll(&woken, 1, behind ? QUIET_MS : -1) == 0)
            back_while_quiet(p, steps);
        else
            wake_clear(&p->wake);
    }
    return NULL;
}

static void kv_pages_want(struct kv_pages *p, size_t used)
{
    size_t left = p->bytes - used;
    p->woken_at = used;
    atomic_store(&p->wanted, used + (left < p->ahead ? left : p->ahead));
}

/* Without the thread all is as right, only slower. */
static void kv_pages_start(struct kv_pages *p)
{
    int64_t until = clock_now_us() + START_US;
    kv_pages_want(p, 0);
    while (p->done < p->wanted && clock_now_us() < until)
        back_page(p);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    p->running = pthread_create(&p->thread, NULL, kv_pages_run, p) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* The pool's memory, and what wakes the thread. */
static enum status map(struct kv_pages *p, size_t bytes, struct err *err)
{
    enum status st = wake_init(&p->wake, err);
    if (st)
        return st;
    void *base = mmap(NULL, kv_pages_round_up(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %.1f MiB of keys and values",
                       (double)bytes / (1 << 20));
    p->base = base;
    p->bytes = kv_pages_round_up(bytes);
    madvise(p->base, p->bytes, MADV_HUGEPAGE);
    return STATUS_OK;
}

enum status kv_pages_open(struct kv_pages **out, size_t bytes, size_t ahead, struct err *err)
{
    struct kv_pages *p = mem_zalloc(sizeof *p);
    if (!p)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the KV pool");
    p->ahead = ahead;
    p->wake.fd = -1;
    enum status st = map(p, bytes, err);
    if (st) {
        kv_pages_close(p);
        return st;
    }
    kv_pages_start(p);
    *out = p;
    return STATUS_OK;
}

void kv_pages_close(struct kv_pages *p)
{
    if (!p)
        return;
    if (p->running) {
        atomic_store(&p->stop, true);
        wake_signal(&p->wake);
        pthread_join(p->thread, NULL);
    }
    if (p->base)
        munmap(p->base, p->bytes);
    wake_fini(&p->wake);
    mem_free(p);
}

char *kv_pages_base(const struct kv_pages *p)
{
    return p->base;
}

size_t kv_pages_bytes(const struct kv_pages *p)
{
    return p->bytes;
}

void kv_pages_step(struct kv_pages *p, size_t end)
{
    REQUIRE(end <= p->bytes);
    atomic_fetch_add(&p->steps, 1);
    atomic_fetch_add(&p->under_way, 1);
    if (end < p->woken_at + STRIDE)
        return;
    kv_pages_want(p, end);
    wake_signal(&p->wake);
}

void kv_pages_step_done(struct kv_pages *p)
{
    atomic_fetch_sub(&p->under_way, 1);
}
