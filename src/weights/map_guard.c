#include "weights/map_guard.h"

#include "base/limits.h"
#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The files of one model, and a few others while it is opened. */
#define PLACES (LIMIT_MODEL_FILES + 64)

/* A place is free while `begin` is 0. It is filled from `end` to `begin`, and emptied by `begin`
 * alone, so that the handler, which takes no lock, sees either nothing or a whole mapping. */
struct place {
    atomic_uintptr_t begin, end;
    atomic_bool lost;
    char *path; /* under the lock */
};

static struct place places[PLACES];
static atomic_uint n_lost;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for all but the handler */
static struct sigaction before;                          /* set once, before the handler runs */
static uintptr_t page_bytes;

/* --- the handler: only what a signal may do ------------------------------------------------- */

/* The mapping that the address lies in, and its end; NULL: none. */
static struct place *map_guard_find(uintptr_t at, uintptr_t *end)
{
    for (size_t i = 0; i < PLACES; i++) {
        uintptr_t begin = atomic_load(&places[i].begin);
        *end = atomic_load(&places[i].end);
        bool same = atomic_load(&places[i].begin) == begin; /* the end is of this mapping */
        if (begin != 0 && same && at >= begin && at < *end)
            return &places[i];
    }
    return NULL;
}

/* Zero pages from the fault to the end, at once: of a file that is cut short, all of them are gone,
 * and a page at a time could pass the number of mappings that a process may have. */
static bool map_guard_repair(uintptr_t at)
{
    uintptr_t end, page = at - at % page_bytes;
    struct place *p = map_guard_find(at, &end);
    if (!p)
        return false;
    /* marked first: whoever reads a zero without a fault of its own finds the mark */
    if (!atomic_exchange(&p->lost, true))
        atomic_fetch_add(&n_lost, 1);
    void *zeros = mmap((void *)page, end - page, PROT_READ,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    return zeros != MAP_FAILED;
}

static void on_sigbus(int number, siginfo_t *info, void *context)
{
    int kept = errno;
    bool fault = info->si_code > 0; /* the kernel's own; a kill has no address */
    (void)context;
    if (!fault || !map_guard_repair((uintptr_t)info->si_addr)) {
        sigaction(SIGBUS, &before, NULL);
        if (!fault)
            raise(number); /* comes when this handler has returned; a fault comes again by itself */
    }
    errno = kept;
}

static void install(void)
{
    struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_RESTART};
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, NULL, &before);
    sigaction(SIGBUS, &action, NULL);
}

/* --- the table ------------------------------------------------------------------------------ */

static struct place *map_guard_place_of(uintptr_t begin)
{
    for (size_t i = 0; i < PLACES; i++)
        if (atomic_load(&places[i].begin) == begin)
            return &places[i];
    return NULL;
}

static enum status map_guard_fill(uintptr_t begin, size_t len, char *path, struct err *err)
{
    struct place *p = map_guard_place_of(0);
    if (!path)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a file's name");
    if (!p)
        return err_set(err, STATUS_TOO_LARGE, "%d files are mapped already, which is the most",
                       PLACES);
    p->path = path;
    atomic_store(&p->lost, false);
    atomic_store(&p->end, begin + len);
    atomic_store(&p->begin, begin);
    return STATUS_OK;
}

enum status map_guard_add(const void *begin, size_t len, const char *path, struct err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char *copy = mem_strdup(path);
    pthread_once(&once, install);
    pthread_mutex_lock(&lock);
    enum status s = map_guard_fill((uintptr_t)begin, len, copy, err);
    pthread_mutex_unlock(&lock);
    if (s != STATUS_OK)
        mem_free(copy);
    return s;
}

void map_guard_remove(const void *begin)
{
    pthread_mutex_lock(&lock);
    struct place *p = map_guard_place_of((uintptr_t)begin);
    REQUIRE(begin && p);
    char *path = p->path;
    p->path = NULL;
    atomic_store(&p->begin, 0);
    if (atomic_load(&p->lost))
        atomic_fetch_sub(&n_lost, 1);
    pthread_mutex_unlock(&lock);
    mem_free(path);
}

enum status map_guard_check(struct err *err)
{
    if (atomic_load(&n_lost) == 0)
        return STATUS_OK;
    enum status s = STATUS_OK;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < PLACES && s == STATUS_OK; i++)
        if (atomic_load(&places[i].begin) != 0 && atomic_load(&places[i].lost))
            s = err_set(err, STATUS_UNAVAILABLE,
                        "%.300s was cut short, or cannot be read any more, while it was in use: "
                        "start again with a whole file, and replace model files by renaming",
                        places[i].path);
    pthread_mutex_unlock(&lock);
    return s;
}
