#include "base/log_writer.h"

#include "base/limits.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHUNK_BYTES PIPE_BUF /* of one write: whole lines, which a pipe takes in one piece */
#define END_SECONDS 1

typedef uint16_t line_length; /* stands before each line in the ring */

static struct writer {
    pthread_mutex_t lock;     /* held to copy lines, never while they are written */
    pthread_cond_t has_lines; /* or is to stop */
    bool open;                /* takes lines */
    bool stop;
    size_t first, used;   /* bytes of the ring: where the oldest line is, and all that wait */
    atomic_bool settled;  /* nothing waits, and nothing is being written */
    atomic_ulong dropped; /* lines */
    unsigned long told;   /* of these, by the writer's thread */
    pthread_t thread;
    int null; /* for standard error in the end; opened while it is sure that it can be */
    char ring[LIMIT_LOG_BYTES];
} writer = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .has_lines = PTHREAD_COND_INITIALIZER, .settled = true};

/* The ring, under the lock */

static void log_writer_put_bytes(struct writer *w, const void *from, size_t n)
{
    size_t at = (w->first + w->used) % sizeof w->ring;
    size_t before_end = sizeof w->ring - at < n ? sizeof w->ring - at : n;
    memcpy(w->ring + at, from, before_end);
    memcpy(w->ring, (const char *)from + before_end, n - before_end);
    w->used += n;
}

static void peek_bytes(const struct writer *w, void *to, size_t n)
{
    size_t before_end = sizeof w->ring - w->first < n ? sizeof w->ring - w->first : n;
    memcpy(to, w->ring + w->first, before_end);
    memcpy((char *)to + before_end, w->ring, n - before_end);
}

static void skip_bytes(struct writer *w, size_t n)
{
    w->first = (w->first + n) % sizeof w->ring;
    w->used -= n;
}

static void log_writer_put_line(struct writer *w, const char *line, line_length len)
{
    if (sizeof w->ring - w->used < sizeof len + len) {
        atomic_fetch_add_explicit(&w->dropped, 1, memory_order_relaxed);
        return;
    }
    log_writer_put_bytes(w, &len, sizeof len);
    log_writer_put_bytes(w, line, len);
    atomic_store(&w->settled, false);
    pthread_cond_signal(&w->has_lines);
}

bool log_writer_put(const char *line, size_t len)
{
    struct writer *w = &writer;
    REQUIRE(len > 0 && len <= CHUNK_BYTES);
    pthread_mutex_lock(&w->lock);
    bool open = w->open;
    if (open)
        log_writer_put_line(w, line, (line_length)len);
    pthread_mutex_unlock(&w->lock);
    return open;
}

unsigned long log_writer_dropped(void)
{
    return atomic_load_explicit(&writer.dropped, memory_order_relaxed);
}

/* The thread */

/* Whole lines, as many as a chunk holds; waits for the first. 0: it is to end, and none is left. */
static size_t log_writer_take(struct writer *w, char *chunk, unsigned long *n_lines)
{
    size_t n = 0;
    line_length len;
    *n_lines = 0;
    pthread_mutex_lock(&w->lock);
    atomic_store(&w->settled, w->used == 0);
    while (w->used == 0 && !w->stop)
        pthread_cond_wait(&w->has_lines, &w->lock);
    for (; w->used > 0; ++*n_lines, n += len) {
        peek_bytes(w, &len, sizeof len);
        if (n + len > CHUNK_BYTES)
            break;
        skip_bytes(w, sizeof len);
        peek_bytes(w, chunk + n, len);
        skip_bytes(w, len);
    }
    pthread_mutex_unlock(&w->lock);
    return n;
}

static bool log_writer_write_all(const char *bytes, size_t left)
{
    while (left > 0) {
        ssize_t n = write(STDERR_FILENO, bytes, left);
        if (n < 0 &&
            errno == EAGAIN) { /* somebody has made the descriptor so, for all who have it */
            struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
            (void)poll(&p, 1, -1);
        } else if (n < 0) {
            return false; /* signals are blocked, so it was not interrupted */
        } else {
            bytes += n;
            left -= (size_t)n;
        }
    }
    return true;
}

/* Whatever the level: a log that lacks lines says so. */
static void tell_dropped(struct writer *w)
{
    char line[128];
    unsigned long dropped = log_writer_dropped();
    if (dropped == w->told)
        return;
    size_t n = log_line(line, sizeof line, LOG_WARN, "log.dropped", "lines=%lu", dropped - w->told);
    if (log_writer_write_all(line, n))
        w->told = dropped;
}

static void *log_writer_run(void *arg)
{
    struct writer *w = arg;
    char chunk[CHUNK_BYTES];
    unsigned long n_lines;
    size_t n;
    pthread_setname_np(pthread_self(), "log");
    while ((n = log_writer_take(w, chunk, &n_lines)) > 0) {
        if (log_writer_write_all(chunk, n))
            tell_dropped(w);
        else
            atomic_fetch_add_explicit(&w->dropped, n_lines, memory_order_relaxed);
    }
    return NULL;
}

/* Start and end */

enum status log_writer_start(struct err *err)
{
    struct writer *w = &writer;
    sigset_t all, before;
    sigfillset(&all);
    w->stop = false;
    w->null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (w->null < 0)
        return err_set(err, STATUS_IO, "cannot open /dev/null: %s", strerror(errno));
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int e = pthread_create(&w->thread, NULL, log_writer_run, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (e)
        close(w->null);
    if (e)
        return err_set(err, STATUS_NO_MEMORY, "cannot start the log's writer: %s", strerror(e));
    pthread_mutex_lock(&w->lock);
    w->open = true;
    pthread_mutex_unlock(&w->lock);
    log_set_writer(log_writer_put);
    err_on_abort(log_writer_settle);
    return STATUS_OK;
}

/* The thread is left where it waits, and ends with the process. */
static void abandon(struct writer *w)
{
    pthread_detach(w->thread);
    dup2(w->null, STDERR_FILENO);
}

void log_writer_stop(void)
{
    struct writer *w = &writer;
    struct timespec until;
    pthread_mutex_lock(&w->lock);
    bool was_open = w->open;
    w->open = false;
    w->stop = true;
    pthread_cond_signal(&w->has_lines);
    pthread_mutex_unlock(&w->lock);
    if (!was_open)
        return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += END_SECONDS;
    if (pthread_timedjoin_np(w->thread, NULL, &until) != 0)
        abandon(w);
    close(w->null);
}

void log_writer_settle(int milliseconds)
{
    const struct timespec one = {.tv_nsec = 1000000};
    for (int i = 0; i < milliseconds && !atomic_load(&writer.settled); i++)
        nanosleep(&one, NULL);
}
