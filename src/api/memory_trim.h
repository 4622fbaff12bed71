/* Memory goes back to the system after a peak: what malloc keeps of bodies and parsed JSON would
 * stay with the process for ever, and in a container count against its limit.
 *
 *     call ended, connection gone ──► timer ──► nothing under way: text worker ─► malloc_trim
 *
 * That takes milliseconds for each 100 MiB, in which whoever allocates may wait for it, and the
 * pages have to be made anew when they are needed again. So it happens only when nothing was asked
 * for some seconds, and only if the process has grown much since the last time. I/O thread only.
 */
#ifndef FIRSTLIGHT_API_MEMORY_TRIM_H
#define FIRSTLIGHT_API_MEMORY_TRIM_H

#include "base/err.h"

#include <stdbool.h>

struct event_base;
struct text_worker;
struct memory_trim;

/* `busy` says whether something is under way. The worker outlives nothing of this: it is closed
 * first. */
enum status memory_trim_open(struct memory_trim **out, struct event_base *base,
                             struct text_worker *worker, bool (*busy)(void *arg), void *arg,
                             struct err *err);
void memory_trim_close(struct memory_trim *t);

/* Something has ended that may have needed memory. NULL is fine. */
void memory_trim_soon(struct memory_trim *t);

#endif
