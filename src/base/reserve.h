/* A reserve of memory for small things: allocations that take a block of it when the system gives
 * none. For libraries that do not survive a failed allocation (libevent's HTTP parser), and for
 * what must be had to refuse a request in good order. Whoever sees that it is low takes no new
 * work.
 *
 * Any thread. The functions take and give what malloc gives, too. */
#ifndef FIRSTLIGHT_BASE_RESERVE_H
#define FIRSTLIGHT_BASE_RESERVE_H

#include <stdbool.h>
#include <stddef.h>

#define RESERVE_BLOCK_BYTES (8u << 10) /* what is larger has no reserve */
#define RESERVE_BLOCKS      64

void reserve_open(void); /* backs it with pages; before that it is there, too, but not for sure */

void *reserve_alloc(size_t size); /* not cleared; NULL: none, and no block is free or fits */
void *reserve_zalloc(size_t size);
void *reserve_resize(void *p, size_t size); /* as realloc */
void reserve_free(void *p);

bool reserve_is_low(void); /* more than half of it is in use */

#endif
