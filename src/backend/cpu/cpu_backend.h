/* The CPU backend's state, shared by its files. Private to backend/cpu/.
 *
 *     cpu.c        open, close, KV storage, memory
 *     step.c       a step's rows: begin, advance, drop, finish
 *     forward.c    the phases of a layer and of the output head
 *     attention.c  the attention phase and its division of work
 *     kv_pages.c   the memory of the KV pool
 *     linear.c     products with weights
 *     pack.c       the packed weights: memory, packing at open
 *     rope.c       the table of angles
 *
 * The engine thread owns all of it. Inside pool_run the workers share it under one rule: a phase
 * writes only its worker's slice, and reads what earlier phases wrote; barriers lie between phases.
 *
 * Rows of a step, in the order of the batch's sequences:
 *
 *     row    0 1 2 3 4 5 6 | 7 | 8 9 10 11        3 sequences: a chunk, a decode, a chunk
 *     output             0 | 1 | 2 3  4  5        LAST, LAST, ALL: always a suffix of a sequence
 *
 * In the last layer only output rows need what follows the KV store, so from its attention on all
 * buffers hold output rows only, in that order.
 */
#ifndef FIRSTLIGHT_BACKEND_CPU_CPU_BACKEND_H
#define FIRSTLIGHT_BACKEND_CPU_CPU_BACKEND_H

#include "backend/backend.h"
#include "backend/cpu/linear.h"
#include "base/pool.h"
#include "kernels/kv_layout.h"

/* One layer's products, and in which forms their common inputs are wanted. */
struct cpu_layer {
    const struct model_layer *weights;
    struct linear qkv[3]; /* q, k, v: side by side in a row of the qkv buffer */
    struct linear wo;
    struct linear gate; /* none in a plain feed-forward part */
    struct linear up;
    struct linear down;
    struct linear_want attn_in;
    struct linear_want ffn_in;
};

/* A sequence of the step under way. */
struct cpu_seq {
    const int32_t *tokens;
    const uint32_t *blocks;
    uint32_t request;
    uint32_t row0; /* of n_rows rows */
    uint32_t n_rows;
    uint32_t n_past;
    uint32_t out0; /* of n_out output rows: its last ones */
    uint32_t n_out;
    bool dropped;
};

/* Some rows of one sequence whose queries are taken through the cache together. */
struct attn_tile {
    uint32_t seq;
    uint32_t row; /* the first, in the sequence */
    uint32_t n_rows;
    uint32_t out;         /* the row of the attention buffer that takes its first row's result */
    uint32_t n_units;     /* its heads; or, with spans, its KV heads times their spans */
    uint32_t span0;       /* of ATTN_SPAN positions: the first that it sees */
    uint32_t n_spans;     /* from there on, when they may be divided; else 0 */
    uint64_t unit_cost;   /* a block of positions for one row and head is COST_UNIT */
    uint64_t cost_before; /* of all earlier tiles */
};

/* A place on the line of all tiles' units, where a worker's part begins. */
struct attn_cut {
    uint32_t tile;
    uint32_t unit;
};

struct cpu_step {
    struct cpu_seq *seqs;    /* (max_seqs) */
    uint32_t *row_seq;       /* (max_rows) the sequence of a row */
    uint32_t *out_row;       /* (max_outputs) the row of an output row */
    struct attn_tile *tiles; /* (attention_max_tiles) */
    uint32_t n_seqs;
    uint32_t n_rows;
    uint32_t n_out;
    uint32_t n_tiles;
    uint32_t window;    /* that the tiles were planned with */
    uint32_t layer;     /* the next to compute */
    uint32_t layer_end; /* of the advance under way */
    bool dropped;       /* rows of dropped sequences are still among the rows */
    float *x;           /* (max_rows, d_model) residual stream */
    float *delta;       /* (max_rows, d_model) what the last product adds to it */
};

/* Activations that live within a layer, or between the last one and the head: sized at open. */
struct cpu_rows {
    float *y;                 /* (max_outputs, d_model) residual stream of the output rows */
    float *qkv;               /* (max_rows, qkv_width) */
    float *attn;              /* (max_rows, n_heads * head_dim) */
    struct linear_rows norm;  /* width d_model: input of qkv, gate and up, output head */
    struct linear_rows heads; /* width n_heads * head_dim: input of wo; f32 is attn */
    struct linear_rows ff;    /* width d_ff: input of down */
    float *logits;            /* (max_outputs, n_vocab) */
};

/* What one worker has to itself. */
struct cpu_scratch {
    float *dequantized; /* (widest input) for the matmul kernels */
    float *gate;        /* FFN_SCRATCH floats */
    float *up;          /* FFN_SCRATCH floats */
    float *attn;        /* ATTN_SCRATCH floats */

    /* A group of heads that is divided at a span: what this worker has of its end, span by span,
     * and the state of what it has of its beginning, whose numerator is in the attention buffer. */
    float *span_ml;  /* (attention_max_spans, 2, group) */
    float *span_acc; /* (attention_max_spans, group, head_dim) */
    float *begun_ml; /* (2, group) */
};

struct cpu {
    struct backend base;
    struct kernels k;
    struct pool *pool;
    struct cpu_layer *layers;
    struct linear head;
    struct linear_want head_in;
    float *rope[ROPE_TABLES]; /* (n_ctx, n_rot / 2, 2): cos, sin; NULL where the model has none */
    struct cpu_step step;
    struct cpu_step parked; /* its tiles are step's: they are planned anew at each advance */
    bool has_parked;
    struct attn_cut *attn_cuts; /* (n_threads + 1), planned with the tiles */
    struct cpu_rows rows;
    struct cpu_scratch *scratch; /* (n_threads) */

    uint32_t heads_width; /* n_heads * head_dim */
    uint32_t kv_width;    /* n_kv_heads * head_dim */
    uint32_t qkv_width;   /* heads_width + 2 * kv_width */

    /* (n_blocks, n_layers, 2, n_kv_heads) spans of kv_layout.h's form: a block is one
     * piece of memory, so that the pool's pages are backed block by block as it fills. */
    char *kv;
    struct kv_pages *kv_pages; /* which it lies in */
    size_t kv_span_bytes;      /* of KV_BLOCK keys or values of a head */
    uint32_t n_blocks;
    char *packed; /* all matrices that take int8 activations, in the order of their use */
    size_t packed_bytes;
    void *memory;      /* all of the above but pool, kv, packed: one allocation */
    size_t rows_bytes; /* its size */
};

/* Keys (which = 0) or values (1) of one block and head, as kv_layout.h has it. */
static inline char *cpu_kv_span(const struct cpu *c, uint32_t layer, uint32_t block, uint32_t which,
                                uint32_t kv_head)
{
    const struct model_config *m = &c->base.model->config;
    size_t span = (((size_t)block * m->n_layers + layer) * m->n_kv_heads + kv_head) * 2 + which;
    return c->kv + span * c->kv_span_bytes;
}

static inline size_t cpu_kv_block_bytes(const struct cpu *c)
{
    const struct model_config *m = &c->base.model->config;
    return (size_t)m->n_layers * 2 * m->n_kv_heads * c->kv_span_bytes;
}

/* Is this the layer after whose KV store only output rows go on? */
static inline bool cpu_is_last(const struct cpu *c, uint32_t layer)
{
    return layer + 1 == c->base.model->config.n_layers;
}

/* pack.c: the bytes that pack_weights will take. */
size_t pack_bytes(const struct model *m, enum activations activations);

/* pack.c: maps memory for the packed weights and fills it with the pool's help; pack_free gives it
 * back, also after a failed or no pack_weights. */
enum status pack_weights(struct cpu *c, struct err *err);
void pack_free(struct cpu *c);

/* rope.c: fills c->rope with the pool's help. */
void rope_fill(struct cpu *c);

/* step.c */
void step_begin(struct backend *b, const struct batch *batch);
bool step_advance(struct backend *b, uint32_t n_layers);
void step_drop(struct backend *b, uint32_t request);
void step_park(struct backend *b);
void step_resume(struct backend *b);
void step_finish(struct backend *b, struct step_result *out);

/* forward.c: every worker runs these inside pool_run. */
#define FFN_TILE    128  /* tokens whose gate and up stay in cache until they are multiplied */
#define FFN_SCRATCH 8192 /* floats: FFN_TILE tokens of 64 rows of weights, or fewer of more */
void forward_layer(struct cpu *c, uint32_t layer, int worker);
void forward_head(struct cpu *c, int worker);

/* attention.c: the step's tiles for a layer, made by the engine thread before the layer runs;
 * attention_run is the phase. */
void attention_plan(struct cpu *c, uint32_t layer);
uint32_t attention_max_tiles(const struct model_config *m, const struct backend_options *o);
uint32_t attention_max_spans(const struct backend_options *o);
void attention_run(struct cpu *c, uint32_t layer, int worker);
/* In the phase after: merges what several workers have of the rows [begin, end) of the attention
 * buffer. */
void attention_finish(struct cpu *c, size_t begin, size_t end);

#endif
