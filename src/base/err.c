#include "base/err.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define ABORT_MS 1000 /* for a message, and for the lines before it */

struct status_row {
    const char *name;
    int http;
    int grpc;
};

static const struct status_row rows[] = {
#define X(code, name, http, grpc) [STATUS_##code] = {name, http, grpc},
    STATUS_MAP(X)
#undef X
};

static _Atomic(err_settle *) settle_before_abort;

static enum status err_fill(struct err *e, enum status code, const char *param, const char *fmt,
                            va_list args)
{
    if (!e)
        return code;
    e->code = code;
    snprintf(e->param, sizeof e->param, "%s", param);
    vsnprintf(e->text, sizeof e->text, fmt, args);
    return code;
}

enum status err_set(struct err *e, enum status code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    err_fill(e, code, "", fmt, args);
    va_end(args);
    return code;
}

enum status err_param(struct err *e, enum status code, const char *param, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    err_fill(e, code, param, fmt, args);
    va_end(args);
    return code;
}

enum status err_context(struct err *e, const char *fmt, ...)
{
    if (!e)
        return STATUS_INTERNAL;
    char old[sizeof e->text];
    memcpy(old, e->text, sizeof old);
    char prefix[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(prefix, sizeof prefix, fmt, args);
    va_end(args);
    /* cut to fit: "prefix: old" may be longer than the carrier */
    char *end = stpncpy(e->text, prefix, sizeof prefix - 1);
    snprintf(end, sizeof e->text - (size_t)(end - e->text), ": %.*s", (int)sizeof old - 1, old);
    return e->code;
}

const char *status_name(enum status code)
{
    return rows[code].name;
}

int status_http(enum status code)
{
    return rows[code].http;
}

int status_grpc(enum status code)
{
    return rows[code].grpc;
}

static void err_too_late(int signal)
{
    (void)signal;
    abort();
}

/* The process aborts after ABORT_MS, whatever this thread then waits for. (To ask poll first would
 * lose messages: it calls a pipe full in whose last page there is room.) */
static void limit_time(void)
{
    const struct sigaction action = {.sa_handler = err_too_late};
    const struct itimerval timer = {.it_value = {.tv_sec = ABORT_MS / 1000}};
    sigset_t alarm_only;
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
}

void err_on_abort(err_settle *settle)
{
    atomic_store(&settle_before_abort, settle);
}

/* Straight to standard error, past the log's writer, but never for long: a process that waits for a
 * reader instead of ending is not started anew. */
void err_abort(const char *cond, const char *file, int line)
{
    char text[512];
    int n = snprintf(text, sizeof text, "firstlight: broken invariant at %s:%d: %s\n", file, line,
                     cond);
    limit_time();
    ssize_t ignored = n > 0 ? write(STDERR_FILENO, text, strlen(text)) : 0;
    (void)ignored;
    err_settle *settle = atomic_load(&settle_before_abort);
    if (settle)
        settle(ABORT_MS);
    abort();
}
