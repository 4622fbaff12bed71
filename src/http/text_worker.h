/* The text workers: two threads that parse and tokenize what would hold up the I/O thread, and
 * compute TLS handshakes.
 *
 *     text_worker_submit ─┬─ short, and the I/O thread has time ──► work, done at once
 *                         └─ waits ─┬─► worker: work ─┬─► I/O thread: done
 *                                   └─► slow worker ──┘
 *
 * The I/O thread works itself on what is short (LIMIT_BODY_INLINE), but only for so long at a time
 * (LIMIT_INLINE_US). Everything else waits in line: each client has a line for its usual jobs and
 * one for its long ones (LIMIT_BODY_USUAL), the lines take turns, and the workers run at most one
 * job of each. The slow worker is very nice, so that it takes next to nothing from a machine that
 * is busy. It has the long jobs, and those of clients who have lately had much done for nothing:
 * what a job takes is put on its client's account, and taken off again when the client got an
 * answer (text_worker_refund). A job that is `never_slow` is not for it.
 *
 * A job belongs to the workers from text_worker_submit until done(job) or until it is dropped; the
 * I/O thread does not touch what work uses in between. I/O thread only, but for `work`.
 */
#ifndef FIRSTLIGHT_HTTP_TEXT_WORKER_H
#define FIRSTLIGHT_HTTP_TEXT_WORKER_H

#include "base/err.h"
#include "http/client_limit.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_base;
struct text_worker;

struct text_job {
    void (*work)(struct text_job *job); /* on any one thread */
    void (*done)(struct text_job *job); /* on the I/O thread */
    struct client client;               /* whose it is */
    size_t bytes;                       /* that work reads: how long it may take */
    bool never_slow;                    /* not for the slow worker: somebody waits for its end */
    bool no_text;                       /* not for the I/O thread, and no measure for texts */

    atomic_bool dropped; /* nobody wants it any more, but it runs: work may end early */

    /* the text workers' own */
    int64_t cost_us;       /* that work took and the client's account still holds */
    struct text_job *next; /* in the same line */
    /* of the first job of a line: */
    struct text_job *last, *next_line; /* of this line; the first of the next one */
    size_t n_line;                     /* jobs in it */
};

/* `capacity`: jobs that wait at once; one line has at most half of them. */
enum status text_worker_open(struct text_worker **out, struct event_base *base, size_t capacity,
                             struct err *err);
/* Waits for the jobs that run; done is called for these, and for those that wait, undone. */
void text_worker_close(struct text_worker *w);

/* Calls work and done before it returns, or later. False: too many jobs wait, in all or in this
 * line, and nothing was called. */
bool text_worker_submit(struct text_worker *w, struct text_job *job);

/* Of a job that was refused: microseconds until such a job is likely to be taken. That is when each
 * line that waits has had a turn, if its own is full, else when one job has ended, at the pace of
 * the worker that would have it; and, for a client that is over its allowance, not before that is
 * paid off. It promises no place. At most LIMIT_RETRY_SECONDS. */
int64_t text_worker_wait_us(const struct text_worker *w, const struct text_job *job);

/* Nobody wants the job any more. True: it had waited, and is the caller's again. False: it runs, is
 * told so (job->dropped), and done will be called. */
bool text_worker_drop(struct text_worker *w, struct text_job *job);

/* The work was worth its while: its client's account no longer holds it. */
void text_worker_refund(struct text_worker *w, struct text_job *job);

#endif
