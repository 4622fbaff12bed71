/* How soon a thread runs that wakes up while others compute. */
#ifndef FIRSTLIGHT_BASE_SCHED_SLICE_H
#define FIRSTLIGHT_BASE_SCHED_SLICE_H

/* The calling thread, which mostly sleeps, runs at once when it wakes, and for a short while: since
 * 6.12 Linux lets a thread with a shorter slice pre-empt one with a longer, which else keeps its
 * processor for milliseconds, less nice or not. Older kernels do not know of it. Threads that it
 * starts from then on inherit that. */
void sched_slice_short(void);

#endif
