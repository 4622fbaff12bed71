/* Products with weights: one matrix bound to the kernel that fits its type, and the input rows in
 * the form that the kernel takes. Private to backend/cpu/. */
#ifndef FIRSTLIGHT_BACKEND_CPU_LINEAR_H
#define FIRSTLIGHT_BACKEND_CPU_LINEAR_H

#include "backend/backend.h"

/* A weight matrix (n_rows, k). Starts zeroed: n_rows = 0 means none. */
struct linear {
    matmul_fn *run;
    const char *w;
    size_t row_bytes;
    size_t n_rows;
    size_t k;
    bool takes_q8; /* else float rows */
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

/* Fills row i of `in` from x (width); x may be that very row. */
void linear_put(const struct linear_rows *in, const struct kernels *k, struct linear_want want,
                size_t i, const float *x);

/* One call of the kernel: weight rows [row, row + n_rows) with input rows [first, first + n):
 * out[t * out_stride + r] for t < n, r < n_rows. */
struct linear_part {
    size_t row;
    size_t n_rows;
    size_t first;
    size_t n;
};
void linear_run(const struct linear *l, const struct linear_rows *in, struct linear_part part,
                float *out, size_t out_stride, float *scratch);

/* Weight rows [begin, end) with input rows [0, n), in tiles of tokens that stay in cache:
 * out[t * out_stride + r] for r in [begin, end). */
void linear_slice(const struct linear *l, const struct linear_rows *in, size_t begin, size_t end,
                  size_t n, float *out, size_t out_stride, float *scratch);

#endif
