/* Products with weights: one matrix bound to the kernel that fits its type, and the input rows in
 * the form that the kernel takes. Private to backend/cpu/.
 *
 * A matrix for int8 activations is packed (kernels/panel.h) into memory that pack.c owns; another
 * is read where it lies in the file. Both are divided at panels, that is every 16 rows. */
#ifndef FIRSTLIGHT_BACKEND_CPU_LINEAR_H
#define FIRSTLIGHT_BACKEND_CPU_LINEAR_H

#include "backend/backend.h"

/* A weight matrix (n_rows, k). Starts zeroed: n_rows = 0 means none. */
struct linear {
    matmul_q8_fn *q8; /* NULL: it takes float rows */
    matmul_f32_fn *f32;
    const struct tensor *tensor;
    size_t row_bytes; /* in the file */
    size_t n_rows;
    size_t k;
    char *packed; /* with q8: (linear_panels) */
    size_t panel_bytes;
};

/* Which forms of its input a set of products wants. */
struct linear_want {
    bool q8;
    bool f32;
};

/* Input rows; both forms may be filled. */
struct linear_rows {
    struct q8_block *q8; /* (n, width / 32) */
    float *f32;          /* (n, width) */
    size_t width;
};

/* Binds t: int8 activations when asked for and the type has such a kernel. */
void linear_bind(struct linear *l, const struct kernels *k, const struct tensor *t,
                 enum activations activations);
void linear_want_add(struct linear_want *w, const struct linear *l);

/* Its panels, the last of which may have fewer than 16 rows. */
size_t linear_panels(const struct linear *l);

/* Packs panels [begin, end) into l->packed, zeroed memory; does nothing without q8. */
void linear_pack(const struct linear *l, size_t begin, size_t end);

/* Fills row i of `in` from x (width); x may be that very row. */
void linear_put(const struct linear_rows *in, const struct kernels *k, struct linear_want want,
                size_t i, const float *x);

/* One call of the kernel: weight rows [row, row + n_rows), from the start of a panel on, with input
 * rows [first, first + n): out[t * out_stride + r] for t < n, r < n_rows. */
struct linear_part {
    size_t row;
    size_t n_rows;
    size_t first;
    size_t n;
};
void linear_run(const struct linear *l, const struct linear_rows *in, struct linear_part part,
                float *out, size_t out_stride, float *scratch);

/* Panels [begin, end) with input rows [0, n), in tiles of tokens that stay in cache:
 * out[t * out_stride + r] for the rows r of these panels. */
void linear_slice(const struct linear *l, const struct linear_rows *in, size_t begin, size_t end,
                  size_t n, float *out, size_t out_stride, float *scratch);

#endif
