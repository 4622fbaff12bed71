/* Mapped files that lose their pages: somebody cuts the file short, or its disk fails.
 *
 * Reading such a page raises SIGBUS, which would end the process. The guard's handler finds the
 * mapping in a table, marks it as lost, puts zero pages over the rest of it and lets the thread go
 * on. What is computed from then on is garbage, so whoever computes calls map_guard_check before
 * its results count. A SIGBUS of any other address does what it did before there was a guard.
 *
 * The handler serves every thread that does not block SIGBUS, so threads that read weights must not
 * block it: the kernel ends a process whose fault is blocked.
 */
#ifndef FIRSTLIGHT_WEIGHTS_MAP_GUARD_H
#define FIRSTLIGHT_WEIGHTS_MAP_GUARD_H

#include "base/err.h"

#include <stddef.h>

/* Watches a mapping of `len` bytes, 1 or more, of the file at `path`, which is copied. `begin` is
 * the start of a page. Any thread. */
enum status map_guard_add(const void *begin, size_t len, const char *path, struct err *err);

/* To be called before the mapping is undone. Any thread. */
void map_guard_remove(const void *begin);

/* STATUS_OK while every mapping that is watched is whole; else STATUS_UNAVAILABLE, and the text
 * names the file. Any thread: what it read before the call, and what it was handed by threads that
 * read before they handed it over, is the file's own if the answer is STATUS_OK. One load of an
 * atomic while all is well; allocates nothing. */
enum status map_guard_check(struct err *err);

#endif
