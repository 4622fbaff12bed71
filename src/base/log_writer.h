/* The log's writer: a thread that writes lines to standard error, so that whoever logs never waits
 * for whoever reads the log.
 *
 *     any thread: log_event ══ ring of bytes ══► writer ─► standard error
 *
 * While it runs, a line that finds no room in the ring (LIMIT_LOG_BYTES) is dropped and counted,
 * and the writer says how many were dropped (log.dropped lines=N) with the next lines that it gets
 * rid of. Before it is started and after it has stopped, log_event writes by itself, and may wait.
 * A process has one.
 */
#ifndef FIRSTLIGHT_BASE_LOG_WRITER_H
#define FIRSTLIGHT_BASE_LOG_WRITER_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* Starts the thread, which leaves all signals to others. STATUS_NO_MEMORY: there can be none;
 * STATUS_IO: no /dev/null. */
enum status log_writer_start(struct err *err);

/* Lets it write what waits, and ends it. If nobody reads, this gives up after a second, and
 * standard error is /dev/null from then on: nothing that is said later can keep the process from
 * ending. */
void log_writer_stop(void);

/* Any thread; never waits for a reader. `line` ends in '\n'. False: no writer runs. */
bool log_writer_put(const char *line, size_t len);

/* Lines dropped so far; any thread. */
unsigned long log_writer_dropped(void);

/* Waits until nothing is left to be written, or for as long as given: for a process that is about
 * to abort. Takes no lock. */
void log_writer_settle(int milliseconds);

#endif
