#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 2048 /* a longer line is cut */

static const char *const level_names[] = {"debug", "info", "warn", "error", "off"};
static atomic_int threshold = LOG_INFO;
static _Atomic(log_put *) writer;

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&threshold, (int)level, memory_order_relaxed);
}

enum log_level log_get_level(void)
{
    return (enum log_level)atomic_load_explicit(&threshold, memory_order_relaxed);
}

int log_parse_level(const char *name)
{
    for (int i = LOG_DEBUG; i <= LOG_OFF; i++)
        if (strcmp(name, level_names[i]) == 0)
            return i;
    return -1;
}

static size_t write_stamp(char *line, size_t size)
{
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t n = strftime(line, size, "%Y-%m-%dT%H:%M:%S", &utc);
    return n + (size_t)snprintf(line + n, size - n, ".%03dZ ", (int)(now.tv_nsec / 1000000));
}

static size_t make_line(char *line, size_t size, enum log_level level, const char *event,
                        const char *fmt, va_list args)
{
    size_t n = write_stamp(line, size);
    n += (size_t)snprintf(line + n, size - n, "%s %s", level_names[level], event);
    if (fmt && n < size - 2) {
        line[n++] = ' ';
        int more = vsnprintf(line + n, size - n, fmt, args);
        n += more > 0 ? (size_t)more : 0;
    }
    if (n > size - 1)
        n = size - 1;
    line[n++] = '\n';
    return n;
}

size_t log_line(char *line, size_t size, enum log_level level, const char *event, const char *fmt,
                ...)
{
    va_list args;
    va_start(args, fmt);
    size_t n = make_line(line, size, level, event, fmt, args);
    va_end(args);
    return n;
}

void log_set_writer(log_put *put)
{
    atomic_store_explicit(&writer, put, memory_order_release);
}

static void write_line(const char *line, size_t len)
{
    log_put *put = atomic_load_explicit(&writer, memory_order_acquire);
    if (put && put(line, len))
        return;
    ssize_t ignored = write(STDERR_FILENO, line, len);
    (void)ignored;
}

void log_event(enum log_level level, const char *event, const char *fmt, ...)
{
    if (level < log_get_level())
        return;
    char line[LINE_BYTES];
    va_list args;
    va_start(args, fmt);
    size_t n = make_line(line, sizeof line, level, event, fmt, args);
    va_end(args);
    write_line(line, n);
}

void log_plain(const char *text)
{
    char line[LINE_BYTES];
    size_t n = strnlen(text, sizeof line - 1);
    memcpy(line, text, n);
    line[n++] = '\n';
    write_line(line, n);
}

const char *log_quote(const char *s, char *out, size_t out_size)
{
    size_t n = 0;
    out[n++] = '"';
    for (; *s && n + 6 < out_size; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') {
            out[n++] = '\\';
            out[n++] = (char)c;
        } else if (c < 0x20 || c == 0x7f) {
            n += (size_t)snprintf(out + n, out_size - n, "\\x%02x", c);
        } else {
            out[n++] = (char)c;
        }
    }
    out[n++] = '"';
    out[n] = '\0';
    return out;
}
