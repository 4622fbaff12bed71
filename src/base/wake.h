/* An eventfd: one thread sleeps on it, others wake it. Wake-ups before a sleep are not lost and
 * several of them count as one. */
#ifndef FIRSTLIGHT_BASE_WAKE_H
#define FIRSTLIGHT_BASE_WAKE_H

#include "base/err.h"

struct wake {
    int fd; /* readable when woken; may be given to an event loop */
};

enum status wake_init(struct wake *w, struct err *err);
void wake_fini(struct wake *w);
void wake_signal(struct wake *w);
void wake_clear(struct wake *w); /* takes all wake-ups so far; never blocks */
void wake_wait(struct wake *w);  /* sleeps until woken, then clears */

#endif
