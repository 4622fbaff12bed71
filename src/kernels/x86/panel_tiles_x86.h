/* The loops around the products with packed weights: a tile is one or two panels (panel.h) against
 * a few tokens, its sums in registers over all of K. What happens inside is the variant's.
 *
 *     for one or two panels          stay in L1 while the tokens pass by
 *       for a few tokens             one tile; fetches its share of the panels that come next
 *
 * One tile of tokens (decode of a few sequences) takes panels singly: the weights are then one
 * stream, fetched a fixed distance ahead.
 */
#ifndef FIRSTLIGHT_KERNELS_X86_PANEL_TILES_X86_H
#define FIRSTLIGHT_KERNELS_X86_PANEL_TILES_X86_H

#include "kernels/kernels.h"
#include "kernels/panel.h"

#include <stdbool.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define UNROLL        _Pragma("GCC unroll 16")

/* gcc 12 re-associates and reorders chains of integer additions until they spill; an empty
 * statement that seems to change a sum keeps it in its place. */
#define KEEP_ORDER(v) __asm__("" : "+v"(v))

/* Nor do loads move across this, or what was loaded stay in registers: it keeps gcc from preparing
 * what comes much later, at the price of sums that live in memory. */
#define KEEP_LOADS() __asm__ volatile("" : : : "memory")

struct tile {
    const uint8_t *w;         /* the first panel */
    size_t panel_bytes;       /* from it to the second */
    const struct q8_block *x; /* the first token's blocks */
    size_t x_stride;
    size_t n_groups;
    float *out; /* of the first row and token */
    size_t out_stride;
    size_t n_rows;        /* to store; the last panel may have fewer than 16 */
    const uint8_t *ahead; /* what to fetch meanwhile */
    size_t ahead_step;    /* bytes of it per group; 0: nothing */

    /* Of a part of K: */
    bool go_on;         /* `out` has the sums so far */
    const float *units; /* the panel's head; NULL: sums stay in units, another part follows */
};

/* Runs a tile of so many panels and tokens, constants of the function. */
typedef void tile_fn(const struct tile *t);

#define AHEAD_DISTANCE 5120 /* bytes before their use that a single stream is fetched */

ALWAYS_INLINE void tile_fetch(const uint8_t *ahead, size_t step)
{
    for (size_t i = 0; i < step; i += PANEL_LINE)
        __builtin_prefetch(ahead + i, 0, 3);
}

/* Chunk of group g, and the group's quants, from a panel's start. */
ALWAYS_INLINE size_t chunk_offset(size_t g, const struct panel_format *f)
{
    return panel_chunk_at(f, g);
}

ALWAYS_INLINE size_t quants_offset(size_t g, const struct panel_format *f)
{
    return chunk_offset(g, f) + f->header + g % f->groups * f->group;
}

/* All tokens against the panels of t; tiles differ by one token at most. next: what comes after
 * them, to be fetched meanwhile, as many bytes as they have. */
static inline void tiles_run(const struct matmul_q8_args *a, struct tile *t, size_t n_tiles,
                             tile_fn *const *run, const uint8_t *next, size_t bytes)
{
    size_t share = bytes / n_tiles / a->n_groups + 1, first = 0;
    t->ahead_step = n_tiles > 1 ? (share + PANEL_LINE - 1) / PANEL_LINE * PANEL_LINE : share;
    for (size_t i = 0; i < n_tiles; i++) {
        size_t end = (i + 1) * a->n_tokens / n_tiles;
        t->x = a->x + first * a->x_stride;
        t->out = a->out + first * a->out_stride;
        t->ahead = next + i * a->n_groups * t->ahead_step;
        if (t->ahead >= next + bytes)
            t->ahead_step = 0;
        run[end - first - 1](t);
        first = end;
    }
}

/* one, two: the tiles of 1 .. max_tokens tokens with a panel and with two; `two` may be NULL. With
 * a panel there may be more, up to max_one: so many tokens are one tile. */
static inline void matmul_tiles(const struct matmul_q8_args *args, tile_fn *const *one,
                                size_t max_one, tile_fn *const *two, size_t max_tokens)
{
    struct matmul_q8_args a = *args;
    size_t n_tiles = a.n_tokens <= max_one ? 1 : (a.n_tokens + max_tokens - 1) / max_tokens;
    size_t panels = two && n_tiles > 1 ? 2 : 1, rows = panels * PANEL_ROWS;
    while (a.n_rows > 0) {
        size_t n_rows = a.n_rows < rows ? a.n_rows : rows;
        struct tile t = {
            .w = a.w,
            .panel_bytes = a.panel_bytes,
            .x_stride = a.x_stride,
            .n_groups = a.n_groups,
            .out_stride = a.out_stride,
            .n_rows = n_rows,
            .units = a.w,
        };
        size_t bytes = (n_rows + PANEL_ROWS - 1) / PANEL_ROWS * a.panel_bytes;
        tiles_run(&a, &t, n_tiles, n_rows > PANEL_ROWS ? two : one,
                  t.w + (n_tiles > 1 ? bytes : AHEAD_DISTANCE), bytes);
        a.w = (const uint8_t *)a.w + panels * a.panel_bytes;
        a.out += n_rows;
        a.n_rows -= n_rows;
    }
}

#endif
