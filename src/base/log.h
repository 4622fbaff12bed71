/* Structured log lines on stderr, one event a line:
 *
 *     2026-11-21T14:00:00.123Z info request.done id=chatcmpl-1 ttft_ms=12.3
 *
 * Values with spaces or quotes must be given through LOG_STR-style quoting: use log_quote.
 * Any thread may log. A server's lines are written by a thread of their own (log_writer.h);
 * elsewhere, and at its start and end, a line is written with one write(2), which may wait.
 */
#ifndef FIRSTLIGHT_BASE_LOG_H
#define FIRSTLIGHT_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_OFF };

void log_set_level(enum log_level level);
enum log_level log_get_level(void);
/* Parses "debug", "info", "warn", "error", "off"; returns -1 on anything else. */
int log_parse_level(const char *name);

/* `event` is a dotted name; fmt gives space-separated key=value pairs, or NULL for none. */
void log_event(enum log_level level, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A line for a person, as it stands and whatever the level; goes the same way. */
void log_plain(const char *text);

/* Registers who takes the lines from now on, and answers whether it does; otherwise, and for NULL,
 * this file writes them itself. */
typedef bool log_put(const char *line, size_t len);
void log_set_writer(log_put *put);

/* The line of an event with its end, cut to fit, into `line` of `size` bytes (128 at least);
 * returns its length. */
size_t log_line(char *line, size_t size, enum log_level level, const char *event, const char *fmt,
                ...) __attribute__((format(printf, 5, 6)));

#define log_debug(...) log_event(LOG_DEBUG, __VA_ARGS__)
#define log_info(...)  log_event(LOG_INFO, __VA_ARGS__)
#define log_warn(...)  log_event(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_event(LOG_ERROR, __VA_ARGS__)

/* Writes `s` in double quotes with control bytes, quotes and backslashes escaped into out
 * (cut to fit) and returns out. */
const char *log_quote(const char *s, char *out, size_t out_size);

#endif
