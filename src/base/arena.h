/* An arena: many small allocations that die together.
 *
 *     head ─> [block ▓▓▓▓▓▓░░░░] ─> [block ▓▓▓▓▓▓▓▓▓▓] ─> NULL
 *                      └ next allocation
 *
 * One owner, no thread safety while it allocates; what was allocated may be read by any thread. The
 * memory of a parse or a rendering comes from one arena, so no object in it has an owner of its own
 * and nothing is freed before arena_fini.
 */
#ifndef FIRSTLIGHT_BASE_ARENA_H
#define FIRSTLIGHT_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *head;
    size_t used;    /* bytes handed out */
    size_t limit;   /* most bytes to hand out */
    bool exhausted; /* an allocation failed because of the limit, not of the memory */
};

void arena_init(struct arena *a, size_t limit);

/* 16-byte aligned. NULL when memory is short or the limit is reached. */
void *arena_alloc(struct arena *a, size_t size);               /* not cleared */
void *arena_array(struct arena *a, size_t count, size_t size); /* cleared; count * size checked */
char *arena_copy(struct arena *a, const void *bytes, size_t len); /* followed by a NUL */

void arena_fini(struct arena *a); /* frees everything; the arena may be used again */

#endif
