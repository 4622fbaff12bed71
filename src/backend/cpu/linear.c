#include "backend/cpu/linear.h"

#include <string.h>

/* Input rows of one tile stay in L2 while the weights pass by. */
#define TILE_BYTES ((size_t)256 << 10)
#define TILE_GRAIN 16

void linear_bind(struct linear *l, const struct kernels *k, const struct tensor *t,
                 enum activations activations)
{
    matmul_fn *q8 = activations == ACTIVATIONS_INT8 ? k->matmul_q8[t->type] : NULL;
    *l = (struct linear){
        .run = q8 ? q8 : k->matmul_f32[t->type],
        .w = t->data,
        .row_bytes = tensor_row_bytes(t->type, t->dims[0]),
        .n_rows = t->dims[1],
        .k = t->dims[0],
        .takes_q8 = q8 != NULL,
    };
}

void linear_want_add(struct linear_want *w, const struct linear *l)
{
    w->q8 |= l->takes_q8;
    w->f32 |= !l->takes_q8;
}

void linear_put(const struct linear_rows *in, const struct kernels *k, struct linear_want want,
                size_t i, const float *x)
{
    if (want.q8)
        k->quantize_q8(in->q8 + i * (in->width / Q8_VALUES), x, in->width);
    if (want.f32 && in->f32 + i * in->width != x)
        memcpy(in->f32 + i * in->width, x, in->width * sizeof *x);
}

static size_t row_bytes(const struct linear *l)
{
    return l->takes_q8 ? l->k / Q8_VALUES * sizeof(struct q8_block) : l->k * sizeof(float);
}

void linear_run(const struct linear *l, const struct linear_rows *in, struct linear_part part,
                float *out, size_t out_stride, float *scratch)
{
    size_t stride = row_bytes(l);
    const char *x = l->takes_q8 ? (const char *)in->q8 : (const char *)in->f32;
    l->run(&(struct matmul_args){
        .out = out,
        .out_stride = out_stride,
        .w = l->w + part.row * l->row_bytes,
        .w_row_bytes = l->row_bytes,
        .n_rows = part.n_rows,
        .x = x + part.first * stride,
        .x_row_bytes = stride,
        .n_tokens = part.n,
        .k = l->k,
        .scratch = scratch,
    });
}

void linear_slice(const struct linear *l, const struct linear_rows *in, size_t begin, size_t end,
                  size_t n, float *out, size_t out_stride, float *scratch)
{
    if (begin >= end)
        return;
    size_t tile = TILE_BYTES / row_bytes(l) / TILE_GRAIN * TILE_GRAIN;
    if (tile == 0)
        tile = TILE_GRAIN;
    for (size_t t = 0; t < n; t += tile) {
        struct linear_part part = {begin, end - begin, t, n - t < tile ? n - t : tile};
        linear_run(l, in, part, out + t * out_stride + begin, out_stride, scratch);
    }
}
