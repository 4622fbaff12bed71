/* The loops around the int8 products: stripes of rows, pieces of K, tiles of tokens. What happens
 * inside a tile is the variant's (a tile_fn).
 *
 *     for 16 rows                      the last rows: the tail repeats, and is not stored
 *       for 24 groups of K             unpacked once into the stripe
 *         for a few tokens             out += stripe . tokens, in the order of K
 */
#ifndef FIRSTLIGHT_KERNELS_X86_STRIPE_MATMUL_AVX2_H
#define FIRSTLIGHT_KERNELS_X86_STRIPE_MATMUL_AVX2_H

#include "kernels/x86/stripe_avx2.h"

#define TILE_MAX 8 /* tokens */

/* A stripe's groups against a few rows of activations. */
struct tile {
    const struct stripe *s;
    size_t n_groups;
    const struct q8_block *x[TILE_MAX];
    float *acc[TILE_MAX]; /* 16 floats each: read and written */
};

/* Runs a tile of 1 .. width tokens. */
typedef void tile_fn(const struct tile *t, size_t tokens);

/* One tile of the output. Whole stripes accumulate in place; a tail of rows goes through `edge`.
 * The first groups of a row start from zero. */
ALWAYS_INLINE void tile_at(const struct matmul_args *a, const struct stripe *s, size_t r,
                           size_t first_token, size_t tokens, size_t first_group, size_t n_groups,
                           tile_fn *run)
{
    float edge[TILE_MAX][STRIPE_ROWS];
    size_t rows = a->n_rows - r < STRIPE_ROWS ? a->n_rows - r : STRIPE_ROWS;
    struct tile t = {.s = s, .n_groups = n_groups};
    for (size_t i = 0; i < tokens; i++) {
        const char *x = (const char *)a->x + (first_token + i) * a->x_row_bytes;
        float *out = a->out + (first_token + i) * a->out_stride + r;
        t.x[i] = (const struct q8_block *)(const void *)x + first_group;
        t.acc[i] = rows == STRIPE_ROWS ? out : edge[i];
        if (first_group == 0)
            memset(t.acc[i], 0, sizeof edge[i]);
        else if (rows < STRIPE_ROWS)
            memcpy(edge[i], out, rows * sizeof *out);
    }
    run(&t, tokens);
    if (rows == STRIPE_ROWS)
        return;
    for (size_t i = 0; i < tokens; i++)
        memcpy(a->out + (first_token + i) * a->out_stride + r, edge[i], rows * sizeof **edge);
}

/* Reads a byte of every cache line of a piece of 16 rows, in the order of addresses. The unpacking
 * itself goes through 16 rows side by side, and hardware prefetchers run ahead of one stream only:
 * with weights in DRAM this doubles the speed for one token; prefetch instructions did not help. */
ALWAYS_INLINE void read_ahead(const struct matmul_args *a, size_t r, size_t g, size_t n)
{
    size_t n_groups = a->k / Q8_VALUES,
           end = r + STRIPE_ROWS < a->n_rows ? r + STRIPE_ROWS : a->n_rows;
    size_t from = g * a->w_row_bytes / n_groups, bytes = n * a->w_row_bytes / n_groups;
    for (size_t i = r; i < end; i++) {
        const volatile char *row = (const char *)a->w + i * a->w_row_bytes + from;
        for (size_t b = 0; b < bytes; b += 64)
            (void)row[b];
    }
}

/* width: tokens in a full tile, a constant <= TILE_MAX. */
ALWAYS_INLINE void matmul_q8(const struct matmul_args *a, octet_unpack *unpack, tile_fn *run,
                             size_t width)
{
    struct stripe s;
    size_t n_groups = a->k / Q8_VALUES;
    for (size_t r = 0; r < a->n_rows; r += STRIPE_ROWS) {
        for (size_t g = 0; g < n_groups; g += STRIPE_GROUPS) {
            size_t n = n_groups - g < STRIPE_GROUPS ? n_groups - g : STRIPE_GROUPS;
            read_ahead(a, r, g, n);
            stripe_fill(&s, a, r, g, n, unpack);
            for (size_t t = 0; t < a->n_tokens; t += width) {
                size_t tokens = a->n_tokens - t < width ? a->n_tokens - t : width;
                tile_at(a, &s, r, t, tokens, g, n, run);
            }
        }
    }
}

#endif
