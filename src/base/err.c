#include "base/err.h"

#include "base/log_writer.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ABORT_MS 200 /* for a message, and for the lines before it */

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

static enum status fill(struct err *e, enum status code, const char *param, const char *fmt,
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
    fill(e, code, "", fmt, args);
    va_end(args);
    return code;
}

enum status err_param(struct err *e, enum status code, const char *param, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fill(e, code, param, fmt, args);
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

/* Straight to standard error, past the log's writer, but never for long: a process that waits for a
 * reader instead of ending is not started anew. */
void err_abort(const char *cond, const char *file, int line)
{
    char text[512];
    int n = snprintf(text, sizeof text, "firstlight: broken invariant at %s:%d: %s\n", file, line,
                     cond);
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (n > 0 && poll(&p, 1, ABORT_MS) == 1) {
        ssize_t ignored =
            write(STDERR_FILENO, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
        (void)ignored;
    }
    log_writer_settle(ABORT_MS);
    abort();
}
