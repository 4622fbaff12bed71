#include "backend/cpu/linear.h"

#include "kernels/panel.h"

#include <string.h>

/* Input rows of one tile stay in L2 while the weights pass by. */
#define TILE_BYTES ((size_t)256 << 10)
#define TILE_GRAIN 16

void linear_bind(struct linear *l, const struct kernels *k, const struct tensor *t,
                 enum activations activations)
{
    matmul_q8_fn *q8 = activations == ACTIVATIONS_INT8 ? k->matmul_q8[t->type] : NULL;
    *l = (struct linear){
        .q8 = q8,
        .f32 = k->matmul_f32[t->type],
        .tensor = t,
        .row_bytes = tensor_row_bytes(t->type, t->dims[0]),
        .n_rows = t->dims[1],
        .k = t->dims[0],
        .panel_bytes = q8 ? panel_bytes(t->type, t->dims[0]) : 0,
    };
}

size_t linear_panels(const struct linear *l)
{
    return (l->n_rows + PANEL_ROWS - 1) / PANEL_ROWS;
}

static const char *file_row(const struct linear *l, size_t row)
{
    return (const char *)l->tensor->data + row * l->row_bytes;
}

void linear_pack(const struct linear *l, size_t begin, size_t end)
{
    for (size_t p = begin; l->q8 && p < end; p++) {
        size_t row = p * PANEL_ROWS, left = l->n_rows - row;
        panel_pack(l->tensor->type, l->packed + p * l->panel_bytes, file_row(l, row), l->row_bytes,
                   left < PANEL_ROWS ? left : PANEL_ROWS, l->k);
    }
}

void linear_want_add(struct linear_want *w, const struct linear *l)
{
    w->q8 |= l->q8 != NULL;
    w->f32 |= l->q8 == NULL && l->n_rows > 0;
}

void linear_put(const struct linear_rows *in, const struct kernels *k, struct linear_want want,
                size_t i, const float *x)
{
    if (want.q8)
        k->quantize_q8(in->q8 + i * (in->width / Q8_VALUES), x, in->width);
    if (want.f32 && in->f32 + i * in->width != x)
        memcpy(in->f32 + i * in->width, x, in->width * sizeof *x);
}

void linear_run(const struct linear *l, const struct linear_rows *in, struct linear_part part,
                float *out, size_t out_stride, float *scratch)
{
    size_t n_groups = l->k / PANEL_VALUES;
    REQUIRE(part.row % PANEL_ROWS == 0);
    if (l->q8)
        l->q8(&(struct matmul_q8_args){
            .out = out,
            .out_stride = out_stride,
            .w = l->packed + part.row / PANEL_ROWS * l->panel_bytes,
            .panel_bytes = l->panel_bytes,
            .n_rows = part.n_rows,
            .x = in->q8 + part.first * n_groups,
            .x_stride = n_groups,
            .n_tokens = part.n,
            .n_groups = n_groups,
        });
    else
        l->f32(&(struct matmul_f32_args){
            .out = out,
            .out_stride = out_stride,
            .w = file_row(l, part.row),
            .w_row_bytes = l->row_bytes,
            .n_rows = part.n_rows,
            .x = in->f32 + part.first * l->k,
            .x_stride = l->k,
            .n_tokens = part.n,
            .k = l->k,
            .scratch = scratch,
        });
}

/* Tokens whose input rows fill a tile. */
static size_t tile_tokens(const struct linear *l)
{
    size_t bytes = l->q8 ? l->k / Q8_VALUES * sizeof(struct q8_block) : l->k * sizeof(float);
    size_t tokens = TILE_BYTES / bytes / TILE_GRAIN * TILE_GRAIN;
    return tokens > 0 ? tokens : TILE_GRAIN;
}

void linear_slice(const struct linear *l, const struct linear_rows *in, size_t begin, size_t end,
                  size_t n, float *out, size_t out_stride, float *scratch)
{
    size_t row = begin * PANEL_ROWS, tile = tile_tokens(l);
    size_t end_row = end * PANEL_ROWS < l->n_rows ? end * PANEL_ROWS : l->n_rows;
    if (row >= end_row)
        return;
    for (size_t t = 0; t < n; t += tile) {
        struct linear_part part = {row, end_row - row, t, n - t < tile ? n - t : tile};
        linear_run(l, in, part, out + t * out_stride + row, out_stride, scratch);
    }
}
