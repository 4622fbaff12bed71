/* The operations of a forward pass: one signature each, a C reference, variants per CPU level.
 *
 * A table is filled with the references first; a ladder over the CPU levels then overwrites entries
 * with better variants (later rungs win). Kernels are pure: no allocation, no globals, no threads.
 *
 * Determinism. Within one table a result row depends only on the operation, the weight's type, the
 * row's own inputs and absolute positions. How many rows or tokens share a call never changes a
 * bit: every variant reduces each (row, token) pair in the same order whatever the tile it sits in.
 */
#ifndef FIRSTLIGHT_KERNELS_KERNELS_H
#define FIRSTLIGHT_KERNELS_KERNELS_H

#include "weights/tensor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Activations quantised to int8, one scale per 32 values along K:
 *
 *     x[i] ~= scale * q[i],   first = q[0] + ... + q[15],   total = q[0] + ... + q[31]
 *
 * The sums serve weights that are stored with a zero point or a minimum: the product with
 * w = d * (q - 8) needs 8 * total, that with w = d * q + m needs m * total; Q6_K has a scale for
 * each half. Both are read as one 32-bit word, total in its upper half. */
#define Q8_VALUES 32
struct q8_block {
    float scale;
    int16_t first;
    int16_t total;
    int8_t q[Q8_VALUES];
};

/* Positions in one KV block. */
#define KV_BLOCK 32

/* How a cached key or value is stored; kv_layout.h draws the blocks. */
enum kv_type { KV_F32, KV_F16, KV_BF16, KV_Q8_0, KV_TYPES };

/* Rotary layouts: pairs are neighbours (2i, 2i+1) as in GGUF llama files, or halves (i, i + n/2).
 */
enum rope_style { ROPE_NEIGHBOURS, ROPE_HALVES };

/* out[t * out_stride + r] = sum over k of w[r][k] * x[t][k],  r < n_rows, t < n_tokens.
 * w: the matrix's packed panels (panel.h) from row 0 of these on, 64-byte aligned.
 * x: n_tokens rows of n_groups blocks, x_stride blocks apart. out_stride in floats.
 * What lies behind the last panel may be prefetched, not read. */
struct matmul_q8_args {
    float *out;
    size_t out_stride;
    const void *w;
    size_t panel_bytes;
    size_t n_rows;
    const struct q8_block *x;
    size_t x_stride;
    size_t n_tokens;
    size_t n_groups;
};
typedef void matmul_q8_fn(const struct matmul_q8_args *a);

/* The same with weights as they lie in the file and float activations: the exact path.
 * w: n_rows rows of k values of the weight's type, w_row_bytes apart; any alignment.
 * x: n_tokens rows of k floats, x_stride floats apart. k: a multiple of the type's block.
 * scratch: k floats for the callee, 64-byte aligned. */
struct matmul_f32_args {
    float *out;
    size_t out_stride;
    const void *w;
    size_t w_row_bytes;
    size_t n_rows;
    const float *x;
    size_t x_stride;
    size_t n_tokens;
    size_t k;
    float *scratch;
};
typedef void matmul_f32_fn(const struct matmul_f32_args *a);

/* One position's key and value of one head, to position `at` of a block (kv_layout.h). */
struct kv_store_args {
    void *k;
    void *v;
    size_t at; /* < KV_BLOCK */
    size_t head_dim;
    const float *key;   /* (head_dim) */
    const float *value; /* (head_dim) */
};

/* Attention of n_q query vectors that share a KV head over the positions [first, end) of one
 * sequence, folded into their running softmax (Milakov & Gimelshein, arXiv:1805.02867; Dao et al.,
 * FlashAttention, arXiv:2205.14135). Query i sees the positions below seen[i]; with a window only
 * the last `window` of them. What lies before them is read, so it must be finite, but weighs
 * nothing.
 *
 * Positions are taken in spans at absolute multiples of ATTN_SPAN. A span has a softmax of its own,
 * and attn_merge's arithmetic folds it into what came before, so that spans may as well be
 * computed apart, with the first state, and merged later in their order: the bits are the same.
 *
 * Per query: m the running maximum (first -INFINITY), l the running sum (first 0), acc (head_dim)
 * the running numerator (first 0); the caller divides acc by l at the end. q is already scaled by
 * 1/sqrt(head_dim). */
#define ATTN_MAX_QUERIES 64
#define ATTN_SPAN        256
struct attn_args {
    const char *keys; /* of this head in block 0; those of block b lie b * block_bytes behind */
    const char *values;
    size_t block_bytes;
    const uint32_t *blocks; /* the sequence's, from position 0 on */
    uint32_t first;         /* a multiple of ATTN_SPAN */
    uint32_t end;
    size_t head_dim;
    size_t n_q;            /* <= ATTN_MAX_QUERIES */
    const float *const *q; /* n_q pointers to (head_dim) */
    const uint32_t *seen;
    uint32_t window; /* 0: all */
    float *m;
    float *l;
    float *const *acc; /* n_q pointers to (head_dim) */
    float *scratch;    /* ATTN_SCRATCH(head_dim) floats for the callee, 64-byte aligned */
};
#define ATTN_TILE 12 /* queries that a kernel takes together at most */
#define ATTN_SCRATCH(head_dim)                                                                     \
    (ATTN_MAX_QUERIES * (((size_t)(head_dim) + 63) / 64 * 64) + 2 * ATTN_TILE * ATTN_SPAN)

/* One query's softmax over some positions. */
struct attn_state {
    float m;
    float l;
    float *acc; /* (head_dim) */
};

/* A row of logits in groups, whose maxima say where its large values are. A group is a lane of a
 * span, so that the maxima of a span are a vector's:
 *
 *     value   0  1 .. 15 | 16 17 .. 31 | .. | 496 497 .. 511 || 512 513 ..
 *     group   0  1 .. 15 |  0  1 .. 15 | .. |   0   1 ..  15 ||  16  17 ..        */
#define GROUP_SPAN  512u
#define GROUP_LANES 16u
#define GROUPS(n)   (((n) + GROUP_SPAN - 1) / GROUP_SPAN * GROUP_LANES)

/* In place on n_heads vectors of head_dim: the first n_rot dims of each turned by angles whose cos
 * and sin are given, cos_sin = (n_rot / 2) pairs {cos, sin}, then all dims times scale
 * (Su et al., arXiv:2104.09864). */
struct rope_args {
    float *heads; /* (n_heads, head_dim) */
    size_t n_heads;
    size_t head_dim;
    const float *cos_sin;
    size_t n_rot;
    enum rope_style style;
    float scale;
};

/* What an MLP does to its hidden units:
 *
 *     SILU        x / (1 + exp(-x))
 *     GELU_TANH   x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
 *     GELU_ERF    x / 2 * (1 + erf(x / sqrt(2)))   (Hendrycks & Gimpel, arXiv:1606.08415) */
enum activation { ACTIVATION_SILU, ACTIVATION_GELU_TANH, ACTIVATION_GELU_ERF, ACTIVATIONS };

/* n_rows rows of n values, n a multiple of 32. Many short rows pass as one long one. */
struct activate_q8_args {
    struct q8_block *out;
    size_t out_stride; /* blocks from one row to the next */
    const float *gate; /* (n_rows, n) */
    const float *up;   /* (n_rows, n), or NULL */
    size_t n_rows;
    size_t n;
};

struct kernels {
    uint32_t levels; /* the CPU levels that chose these */

    /* int8 activations; NULL for F32, F16 and BF16 weights, which take float activations */
    matmul_q8_fn *matmul_q8[TENSOR_TYPES];
    /* float activations on the dequantised weights: the exact path, every type */
    matmul_f32_fn *matmul_f32[TENSOR_TYPES];
    /* n values of a row to float; n a multiple of the type's block */
    void (*dequantize[TENSOR_TYPES])(float *out, const void *row, size_t n);
    /* n floats (a multiple of 32) to int8 blocks; round to nearest even, scale = max|x| / 127. A
     * NaN or an infinity goes into the scale, so that no product with the block is finite. */
    void (*quantize_q8)(struct q8_block *out, const float *x, size_t n);

    /* out[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i]   (Zhang & Sennrich, arXiv:1910.07467) */
    void (*rmsnorm)(float *out, const float *x, const float *weight, size_t n, float eps);
    /* x[i] += delta[i] unless delta is NULL, then rmsnorm of x into int8 blocks: in the bits of
     * add, rmsnorm and quantize_q8 one after the other. n a multiple of 32 */
    void (*add_rmsnorm_q8)(struct q8_block *out, float *x, const float *delta, const float *weight,
                           size_t n, float eps);
    /* out[i] = (x[i] - mean) / sqrt(variance + eps) * weight[i] + bias[i], the variance that of all
     * n (Ba, Kiros & Hinton, arXiv:1607.06450) */
    void (*layernorm)(float *out, const float *x, const float *weight, const float *bias, size_t n,
                      float eps);
    /* As add_rmsnorm_q8 */
    void (*add_layernorm_q8)(struct q8_block *out, float *x, const float *delta,
                             const float *weight, const float *bias, size_t n, float eps);
    void (*rope)(const struct rope_args *r);
    /* out[i] = f(gate[i]) * up[i], f(gate[i]) where up is NULL; out may be gate */
    void (*activate[ACTIVATIONS])(float *out, const float *gate, const float *up, size_t n);
    /* The same into int8 blocks, in the bits of activate and quantize_q8 */
    void (*activate_q8[ACTIVATIONS])(const struct activate_q8_args *a);
    /* out[i] += x[i] */
    void (*add)(float *out, const float *x, size_t n);
    void (*kv_store[KV_TYPES])(const struct kv_store_args *a);
    void (*attn[KV_TYPES])(const struct attn_args *a);
    /* Folds a later span into what came before it. */
    void (*attn_merge)(struct attn_state *to, const struct attn_state *later, size_t head_dim);

    /* out (GROUPS(n)): the largest of each group of values, see GROUP_SPAN; a place without a value
     * counts as -FLT_MAX. False: some value is not finite, and out means nothing. */
    bool (*group_max)(float *out, const float *x, size_t n);
    /* out[i] = exp((x[i] - max) * scale) for x <= max, scale > 0; returns the sum, added in a fixed
     * order. out may be x. */
    float (*exp_sum)(float *out, const float *x, size_t n, float max, float scale);
    /* The sum of the values above `floor`, added in a fixed order; x >= 0. */
    float (*sum_above)(const float *x, size_t n, float floor);
};

/* Fills *k for the given levels (of cpu.h), which the machine must have; 0 gives the references. */
void kernels_fill(struct kernels *k, uint32_t levels);

#endif
