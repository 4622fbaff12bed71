#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[] = {"debug", "info", "warn", "error", "off"};
static atomic_int threshold = LOG_INFO;

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

void log_event(enum log_level level, const char *event, const char *fmt, ...)
{
    if (level < log_get_level())
        return;
    char line[2048];
    size_t n = write_stamp(line, sizeof line);
    n += (size_t)snprintf(line + n, sizeof line - n, "%s %s", level_names[level], event);
    if (fmt && n < sizeof line - 2) {
        line[n++] = ' ';
        va_list args;
        va_start(args, fmt);
        int more = vsnprintf(line + n, sizeof line - n, fmt, args);
        va_end(args);
        n += more > 0 ? (size_t)more : 0;
    }
    if (n > sizeof line - 1)
        n = sizeof line - 1;
    line[n++] = '\n';
    ssize_t ignored = write(STDERR_FILENO, line, n);
    (void)ignored;
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
