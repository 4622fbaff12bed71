#include "observe/trace.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/ring.h"
#include "base/siphash.h"
#include "base/version.h"
#include "base/wake.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define GATHER_MS   200          /* lines of so long are one write */
#define WRITE_BYTES (256u << 10) /* or of so much */
#define ID_BITS     53

struct trace {
    struct siphash_key key; /* never changes */
    int64_t start_us;

    struct ring lines; /* I/O thread -> writer; each owns its struct trace_line */
    struct wake has_lines;
    atomic_size_t waiting_bytes; /* of the lines in the ring */
    atomic_bool stop;
    atomic_ulong dropped; /* lines: no place (I/O thread), not written (writer) */
    pthread_t thread;
    bool running;

    /* the writer's */
    int fd;
    struct buf out;
    unsigned long n_out; /* lines in out */
    off_t whole;         /* bytes of the file up to its last whole line */
    bool write_failed;
};

/* Lines */

struct trace_line *trace_line_new(void)
{
    return mem_zalloc(sizeof(struct trace_line));
}

static size_t line_bytes(uint32_t n_hashes)
{
    return sizeof(struct trace_line) + n_hashes * sizeof(uint64_t);
}

size_t trace_line_bytes(const struct trace_line *line)
{
    return line ? line_bytes(line->n_hashes) : 0;
}

void trace_line_hash(const struct trace *t, struct trace_line **line, const int32_t *ids,
                     uint32_t n)
{
    uint32_t n_hashes = n / TRACE_BLOCK_TOKENS;
    struct trace_line *l = *line ? mem_resize(*line, line_bytes(n_hashes)) : NULL;
    if (!l) {
        mem_free(*line);
        *line = NULL;
        return;
    }
    struct {
        uint64_t before;
        int32_t ids[TRACE_BLOCK_TOKENS];
    } block = {0};
    for (uint32_t i = 0; i < n_hashes; i++) {
        memcpy(block.ids, ids + (size_t)i * TRACE_BLOCK_TOKENS, sizeof block.ids);
        block.before = siphash_bytes(&t->key, &block, sizeof block);
        l->hash_ids[i] = block.before & ((UINT64_C(1) << ID_BITS) - 1);
    }
    l->n_prompt = n;
    l->n_hashes = n_hashes;
    *line = l;
}

static bool trace_push(struct trace *t, struct trace_line *l)
{
    size_t bytes = line_bytes(l->n_hashes);
    bool was_empty;
    if (atomic_load_explicit(&t->waiting_bytes, memory_order_relaxed) + bytes > LIMIT_TRACE_BYTES)
        return false;
    /* counted before it can be taken away again; only an amount, so relaxed */
    atomic_fetch_add_explicit(&t->waiting_bytes, bytes, memory_order_relaxed);
    if (!ring_push(&t->lines, (uint64_t)(uintptr_t)l, &was_empty)) {
        atomic_fetch_sub_explicit(&t->waiting_bytes, bytes, memory_order_relaxed);
        return false;
    }
    if (was_empty)
        wake_signal(&t->has_lines);
    return true;
}

void trace_add(struct trace *t, struct trace_line *take_line)
{
    if (take_line && trace_push(t, take_line))
        return;
    mem_free(take_line);
    if (atomic_fetch_add(&t->dropped, 1) == 0)
        log_warn("trace.dropping", NULL); /* how many is said in the end */
}

unsigned long trace_dropped(const struct trace *t)
{
    return atomic_load(&t->dropped);
}

/* The writer */

static void trace_put_line(const struct trace *t, struct buf *b, const struct trace_line *l)
{
    int64_t at_us = l->received_us - t->start_us;
    buf_printf(b,
               "{\"timestamp\": %" PRId64 ", \"input_length\": %u, \"output_length\": %u, "
               "\"hash_ids\": [",
               at_us > 0 ? at_us / 1000 : 0, l->n_prompt, l->output_length);
    for (uint32_t i = 0; i < l->n_hashes; i++)
        buf_printf(b, i ? ", %" PRIu64 : "%" PRIu64, l->hash_ids[i]);
    buf_printf(b,
               "], \"max_tokens\": %u, \"stream\": %s, \"chat\": %s, \"status\": %d, "
               "\"finish\": \"%s\"}\n",
               l->max_tokens, l->stream ? "true" : "false", l->chat ? "true" : "false", l->status,
               l->finish ? l->finish : "");
}

static bool trace_write_all(struct trace *t)
{
    const char *at = t->out.data;
    size_t left = t->out.len;
    while (left > 0) {
        ssize_t n = write(t->fd, at, left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        at += n;
        left -= (size_t)n;
    }
    return true;
}

/* What a full disk took half of is cut off again, so that the file stays one of whole lines and
 * goes on when there is room. */
static void not_written(struct trace *t, int error)
{
    if (!t->write_failed)
        log_error("trace.write", "error=\"%s\"", strerror(error));
    t->write_failed = true;
    atomic_fetch_add(&t->dropped, t->n_out);
    if (ftruncate(t->fd, t->whole) == 0)
        (void)lseek(t->fd, t->whole, SEEK_SET);
}

static void trace_flush(struct trace *t)
{
    if (t->out.failed)
        not_written(t, ENOMEM);
    else if (!trace_write_all(t))
        not_written(t, errno);
    else
        t->whole += (off_t)t->out.len;
    buf_clear(&t->out);
    t->n_out = 0;
}

static void write_waiting(struct trace *t)
{
    uint64_t word;
    while (ring_pop(&t->lines, &word)) {
        struct trace_line *l = (struct trace_line *)(uintptr_t)word;
        atomic_fetch_sub_explicit(&t->waiting_bytes, line_bytes(l->n_hashes), memory_order_relaxed);
        trace_put_line(t, &t->out, l);
        mem_free(l);
        t->n_out++;
        if (t->out.failed || t->out.len >= WRITE_BYTES)
            trace_flush(t);
    }
    if (t->n_out > 0)
        trace_flush(t);
}

static void *trace_run(void *arg)
{
    struct trace *t = arg;
    for (;;) {
        /* stop is set after the last push, so what is written after it was seen is all */
        bool last = atomic_load(&t->stop);
        write_waiting(t);
        if (last)
            return NULL;
        if (!ring_empty(&t->lines))
            continue;
        wake_wait(&t->has_lines);
        /* only the end signals while lines wait, so this is the time to gather more of them */
        struct pollfd p = {.fd = t->has_lines.fd, .events = POLLIN};
        if (!atomic_load(&t->stop))
            (void)poll(&p, 1, GATHER_MS);
    }
}

/* Signals stay with the I/O thread; SIGXFSZ, blocked, leaves the error that write returns. */
static enum status start_writer(struct trace *t, struct err *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int e = pthread_create(&t->thread, NULL, trace_run, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (e)
        return err_set(err, STATUS_NO_MEMORY, "cannot start the trace's writer: %s", strerror(e));
    t->running = true;
    return STATUS_OK;
}

/* Opening and closing */

enum status trace_create(int *fd, const char *path, struct err *err)
{
    *fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (*fd < 0 && errno == EEXIST)
        return err_param(err, STATUS_INVALID, "--record",
                         "--record: %s exists: name a new file, or remove it", path);
    if (*fd < 0)
        return err_param(err, STATUS_IO, "--record", "--record: cannot write %s: %s", path,
                         strerror(errno));
    return STATUS_OK;
}

static enum status put_header(struct trace *t, const char *path, struct err *err)
{
    char date[32];
    struct tm utc;
    time_t now = (time_t)clock_unix_s();
    gmtime_r(&now, &utc);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    t->start_us = clock_now_us();
    buf_printf(&t->out,
               "{\"schema\": \"" TRACE_SCHEMA "\", \"block_tokens\": %d, \"started\": \"%s\", "
               "\"version\": \"%s\"}\n",
               TRACE_BLOCK_TOKENS, date, version_number());
    if (t->out.failed || !trace_write_all(t))
        return err_param(err, STATUS_IO, "--record", "--record: cannot write %s: %s", path,
                         t->out.failed ? "no memory" : strerror(errno));
    t->whole = (off_t)t->out.len;
    buf_clear(&t->out);
    return STATUS_OK;
}

static enum status trace_start(struct trace *t, const char *path, struct err *err)
{
    enum status st = wake_init(&t->has_lines, err);
    if (st)
        return st;
    if (!ring_init(&t->lines, LIMIT_TRACE_LINES))
        return err_set(err, STATUS_NO_MEMORY, "no memory for the trace");
    /* so few bytes never block once the system is up, and are never cut */
    REQUIRE(getrandom(&t->key, sizeof t->key, 0) == (ssize_t)sizeof t->key);
    st = put_header(t, path, err);
    return st ? st : start_writer(t, err);
}

enum status trace_open(struct trace **out, int take_fd, const char *path, struct err *err)
{
    *out = NULL;
    struct trace *t = mem_aligned(sizeof *t); /* as its ring wants */
    if (!t) {
        close(take_fd);
        return err_set(err, STATUS_NO_MEMORY, "no memory for the trace");
    }
    t->fd = take_fd;
    t->has_lines.fd = -1;
    enum status st = trace_start(t, path, err);
    if (st) {
        trace_close(t);
        return st;
    }
    *out = t;
    return STATUS_OK;
}

static void stop_writer(struct trace *t)
{
    atomic_store(&t->stop, true);
    wake_signal(&t->has_lines);
    pthread_join(t->thread, NULL);
    unsigned long dropped = trace_dropped(t);
    if (dropped == 0)
        return;
    log_warn("trace.dropped", "lines=%lu", dropped);
    buf_printf(&t->out, "{\"dropped\": %lu}\n", dropped);
    trace_flush(t);
}

void trace_close(struct trace *t)
{
    if (!t)
        return;
    if (t->running)
        stop_writer(t);
    if (t->fd >= 0)
        close(t->fd);
    wake_fini(&t->has_lines);
    ring_fini(&t->lines);
    buf_fini(&t->out);
    explicit_bzero(&t->key, sizeof t->key);
    mem_free(t);
}
