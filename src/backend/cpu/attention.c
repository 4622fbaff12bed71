/* Attention over the paged cache.
 *
 * A tile is some rows of one sequence; with the heads of a group its queries pass together over the
 * sequence's blocks, so that a block is loaded once for all of them:
 *
 *     queries (row, head of the group) │ block 0 │ block 1 │ block 2 ...   each sees its own prefix
 *
 * The work is a line of (tile, head), cut into equal costs, one piece per worker; a cut may fall
 * inside a group of heads. Who computes a query, and with which others, never changes its bits: a
 * query folds its own blocks in the order of their positions.
 */
#include "backend/cpu/cpu.h"

#include <math.h>
#include <string.h>

#define BLOCK_LOAD_COST 4 /* a block's loading costs as much as so many rows' queries */

static uint32_t group_heads(const struct model_config *m)
{
    return m->n_heads / m->n_kv_heads;
}

/* Rows of a tile: a power of two, so that tiles do not straddle blocks. */
static uint32_t tile_rows(const struct model_config *m)
{
    uint32_t rows = 1;
    while (2 * rows * group_heads(m) <= ATTN_MAX_QUERIES && 2 * rows <= KV_BLOCK)
        rows *= 2;
    return rows;
}

uint32_t attention_max_tiles(const struct model_config *m, const struct backend_options *o)
{
    return o->max_rows / tile_rows(m) + 2 * o->max_seqs;
}

static void add_tile(struct cpu *c, const struct attn_tile *tile)
{
    struct cpu_step *s = &c->step;
    const struct cpu_seq *q = &s->seqs[tile->seq];
    const struct attn_tile *previous = s->n_tiles ? &s->tiles[s->n_tiles - 1] : NULL;
    uint32_t heads = c->base.model->config.n_heads;
    struct attn_tile t = *tile;
    uint32_t n_blocks = (q->n_past + t.row + t.n_rows + KV_BLOCK - 1) / KV_BLOCK;
    t.cost = (uint64_t)n_blocks * (t.n_rows + BLOCK_LOAD_COST);
    t.cost_before = previous ? previous->cost_before + previous->cost * heads : 0;
    s->tiles[s->n_tiles++] = t;
}

void attention_plan(struct cpu *c, bool last_layer)
{
    struct cpu_step *s = &c->step;
    uint32_t rows = tile_rows(&c->base.model->config);
    s->n_tiles = 0;
    for (uint32_t i = 0; i < s->n_seqs; i++) {
        const struct cpu_seq *q = &s->seqs[i];
        if (q->dropped)
            continue;
        uint32_t skip = last_layer ? q->n_rows - q->n_out : 0;
        uint32_t out0 = last_layer ? q->out0 : q->row0;
        for (uint32_t row = skip; row < q->n_rows;) {
            uint32_t n = rows - (q->n_past + row) % rows;
            n = q->n_rows - row < n ? q->n_rows - row : n;
            add_tile(c, &(struct attn_tile){i, row, n, out0 + row - skip, 0, 0});
            row += n;
        }
    }
}

/* The queries of one tile and of n_heads heads of one group. */
struct query_set {
    const float *q[ATTN_MAX_QUERIES];
    float *acc[ATTN_MAX_QUERIES];
    uint32_t seen[ATTN_MAX_QUERIES]; /* positions it sees */
    float m[ATTN_MAX_QUERIES];
    float l[ATTN_MAX_QUERIES];
    size_t n;
};

static void gather_queries(const struct cpu *c, const struct attn_tile *t, uint32_t head,
                           uint32_t n_heads, struct query_set *set)
{
    const struct cpu_seq *seq = &c->step.seqs[t->seq];
    size_t dim = c->base.model->config.head_dim;
    set->n = 0;
    for (uint32_t r = 0; r < t->n_rows; r++) {
        const float *q = c->rows.qkv + (size_t)(seq->row0 + t->row + r) * c->qkv_width;
        float *acc = c->rows.attn + (size_t)(t->out + r) * c->heads_width;
        memset(acc + head * dim, 0, n_heads * dim * sizeof *acc);
        for (uint32_t h = head; h < head + n_heads; h++, set->n++) {
            set->q[set->n] = q + h * dim;
            set->acc[set->n] = acc + h * dim;
            set->seen[set->n] = seq->n_past + t->row + r + 1;
            set->m[set->n] = -INFINITY;
            set->l[set->n] = 0;
        }
    }
}

static void divide_sums(const struct query_set *set, size_t dim)
{
    for (size_t i = 0; i < set->n; i++) {
        float inverse = 1.0f / set->l[i];
        for (size_t d = 0; d < dim; d++)
            set->acc[i][d] *= inverse;
    }
}

/* Heads [head, head + n_heads) of one group. */
static void attend(const struct cpu *c, uint32_t layer, const struct attn_tile *t, uint32_t head,
                   uint32_t n_heads, int worker)
{
    const struct model_config *m = &c->base.model->config;
    const struct cpu_seq *seq = &c->step.seqs[t->seq];
    uint32_t kv_head = head / group_heads(m);
    struct query_set set;
    gather_queries(c, t, head, n_heads, &set);
    c->k.attn[c->base.options.kv_type](&(struct attn_args){
        .keys = cpu_kv_span(c, layer, 0, 0, kv_head),
        .values = cpu_kv_span(c, layer, 0, 1, kv_head),
        .block_bytes = cpu_kv_block_bytes(c),
        .blocks = seq->blocks,
        .first = 0,
        .end = seq->n_past + t->row + t->n_rows,
        .head_dim = m->head_dim,
        .n_q = set.n,
        .q = set.q,
        .seen = set.seen,
        .m = set.m,
        .l = set.l,
        .acc = set.acc,
        .scratch = c->scratch[worker].attn,
    });
    divide_sums(&set, m->head_dim);
}

/* Heads [begin, end) of a tile, group by group, as many at once as the kernel takes. */
static void attend_heads(const struct cpu *c, uint32_t layer, const struct attn_tile *t,
                         uint32_t begin, uint32_t end, int worker)
{
    uint32_t group = group_heads(&c->base.model->config);
    uint32_t most = ATTN_MAX_QUERIES / t->n_rows;
    while (begin < end) {
        uint32_t n = group - begin % group; /* to the group's end */
        n = n < end - begin ? n : end - begin;
        n = n < most ? n : most;
        attend(c, layer, t, begin, n, worker);
        begin += n;
    }
}

/* How many of a tile's heads lie before `cost` on the line of all work. */
static uint32_t heads_before(const struct attn_tile *t, uint64_t cost, uint32_t n_heads)
{
    if (cost <= t->cost_before)
        return 0;
    uint64_t heads = (cost - t->cost_before + t->cost / 2) / t->cost;
    return heads < n_heads ? (uint32_t)heads : n_heads;
}

void attention_run(struct cpu *c, uint32_t layer, int worker)
{
    const struct cpu_step *s = &c->step;
    uint32_t n_heads = c->base.model->config.n_heads;
    if (s->n_tiles == 0)
        return;
    const struct attn_tile *last = &s->tiles[s->n_tiles - 1];
    uint64_t total = last->cost_before + last->cost * n_heads;
    uint64_t n_workers = (uint64_t)pool_threads(c->pool);
    uint64_t from = total * (uint64_t)worker / n_workers;
    uint64_t to = total * ((uint64_t)worker + 1) / n_workers;
    for (uint32_t i = 0; i < s->n_tiles; i++) {
        const struct attn_tile *t = &s->tiles[i];
        attend_heads(c, layer, t, heads_before(t, from, n_heads), heads_before(t, to, n_heads),
                     worker);
    }
}
