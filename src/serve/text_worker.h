/* The text worker: one thread that parses and tokenizes what would hold up the I/O thread.
 *
 *     I/O thread ── ring of jobs ──► worker: work(job) ── ring of jobs ──► I/O thread: done(job)
 *
 * A job belongs to the worker from text_worker_submit until done(job); the I/O thread does not
 * touch what work uses in between. It is the first member of whatever is to be worked on.
 */
#ifndef FIRSTLIGHT_SERVE_TEXT_WORKER_H
#define FIRSTLIGHT_SERVE_TEXT_WORKER_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct event_base;
struct text_worker;

struct text_job {
    void (*work)(struct text_job *job); /* on the worker's thread */
    void (*done)(struct text_job *job); /* on the I/O thread */
};

/* `capacity`: jobs under way at once. */
enum status text_worker_open(struct text_worker **out, struct event_base *base, size_t capacity,
                             struct err *err);
/* Finishes what was submitted: done has been called for every job. */
void text_worker_close(struct text_worker *w);
bool text_worker_submit(struct text_worker *w, struct text_job *job); /* false: full */

#endif
