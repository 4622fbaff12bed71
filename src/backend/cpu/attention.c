/* Attention over the paged cache.
 *
 * A tile is some rows of one sequence; with the heads of a group its queries pass together over the
 * sequence's blocks, so that a block is loaded once for all of them:
 *
 *     queries (row, head of the group) │ block 0 │ block 1 │ block 2 ...   each sees its own prefix
 *
 * The work is a line of units, cut into equal costs, one piece per worker. A unit is a head of a
 * tile; of a decode, whose few queries wait for the memory, a span of a group:
 *
 *     tile 0, a chunk       tile 1, a decode of 3 groups and 4 spans
 *     h0 h1 h2 h3 h4 h5  │  g0s0 g0s1 g0s2 g0s3 g1s0 g1s1 ║ g1s2 g1s3 g2s0 g2s1 g2s2 g2s3
 *     worker 0                                            ║ worker 1
 *
 * Where a cut falls inside a group (║), each worker keeps what it has of it, and whoever takes the
 * row on merges that, span by span, in the next phase (attention_finish).
 *
 * Who computes a query, and with which others, never changes its bits: its spans lie at absolute
 * positions and are merged in their order, in the kernel or here.
 */
#include "backend/cpu/cpu_backend.h"

#include <math.h>
#include <string.h>

#define COST_UNIT       16 /* of one query in one block */
#define BLOCK_LOAD_COST 6  /* a block's loading costs as much as so many queries */

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

uint32_t attention_max_spans(const struct backend_options *o)
{
    return (o->n_ctx + ATTN_SPAN - 1) / ATTN_SPAN;
}

/* The first span that holds a position which the tile's first row, that looks back furthest, sees.
 */
static uint32_t first_span(const struct cpu *c, const struct attn_tile *tile)
{
    uint32_t window = c->step.window;
    uint32_t seen = c->step.seqs[tile->seq].n_past + tile->row + 1;
    return window && seen > window ? (seen - window) / ATTN_SPAN : 0;
}

static void add_tile(struct cpu *c, const struct attn_tile *tile)
{
    struct cpu_step *s = &c->step;
    const struct model_config *m = &c->base.model->config;
    const struct attn_tile *previous = s->n_tiles ? &s->tiles[s->n_tiles - 1] : NULL;
    uint32_t n_positions = s->seqs[tile->seq].n_past + tile->row + tile->n_rows;
    uint32_t first = first_span(c, tile), group = group_heads(m);
    uint32_t n_spans = (n_positions + ATTN_SPAN - 1) / ATTN_SPAN - first;
    uint32_t n_seen = c->step.window ? c->step.window + tile->n_rows : n_positions;
    bool divide = tile->n_rows == 1 && group <= ATTN_MAX_QUERIES;
    struct attn_tile t = *tile;
    n_seen = n_seen < n_positions ? n_seen : n_positions;
    uint64_t cost = (n_seen + KV_BLOCK - 1) / KV_BLOCK; /* of a group */
    t.span0 = first;
    cost *= COST_UNIT * (t.n_rows * group + BLOCK_LOAD_COST);
    t.n_spans = divide ? n_spans : 0;
    t.n_units = divide ? m->n_kv_heads * n_spans : m->n_heads;
    t.unit_cost = cost / (divide ? n_spans : group);
    t.cost_before = previous ? previous->cost_before + previous->unit_cost * previous->n_units : 0;
    s->tiles[s->n_tiles++] = t;
}

/* Each worker's part begins at the unit that lies nearest. */
static void cut_line(struct cpu *c)
{
    const struct cpu_step *s = &c->step;
    const struct attn_tile *last = &s->tiles[s->n_tiles - 1];
    uint64_t total = s->n_tiles ? last->cost_before + last->unit_cost * last->n_units : 0;
    uint64_t n_workers = (uint64_t)pool_threads(c->pool);
    uint32_t tile = 0;
    for (uint64_t w = 0; w <= n_workers; w++) {
        uint64_t cost = total / n_workers * w + total % n_workers * w / n_workers;
        uint32_t unit = 0;
        for (; tile < s->n_tiles; tile++) {
            const struct attn_tile *t = &s->tiles[tile];
            uint64_t inside = cost > t->cost_before ? cost - t->cost_before : 0;
            unit = (uint32_t)((inside + t->unit_cost / 2) / t->unit_cost);
            if (unit < t->n_units)
                break;
            unit = 0;
        }
        c->attn_cuts[w] = (struct attn_cut){tile, unit};
    }
    c->attn_cuts[n_workers] = (struct attn_cut){s->n_tiles, 0};
}

void attention_plan(struct cpu *c, uint32_t layer)
{
    struct cpu_step *s = &c->step;
    bool last_layer = cpu_is_last(c, layer);
    uint32_t rows = tile_rows(&c->base.model->config);
    s->window = c->layers[layer].weights->window;
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
            add_tile(c, &(struct attn_tile){
                            .seq = i, .row = row, .n_rows = n, .out = out0 + row - skip});
            row += n;
        }
    }
    cut_line(c);
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

static float *attn_row(const struct cpu *c, const struct attn_tile *t, uint32_t row, uint32_t head)
{
    return c->rows.attn + (size_t)(t->out + row) * c->heads_width +
           (size_t)head * c->base.model->config.head_dim;
}

static void gather_queries(const struct cpu *c, const struct attn_tile *t, uint32_t head,
                           uint32_t n_heads, struct query_set *set)
{
    const struct cpu_seq *seq = &c->step.seqs[t->seq];
    size_t dim = c->base.model->config.head_dim;
    set->n = 0;
    for (uint32_t r = 0; r < t->n_rows; r++) {
        const float *q = c->rows.qkv + (size_t)(seq->row0 + t->row + r) * c->qkv_width;
        for (uint32_t h = head; h < head + n_heads; h++, set->n++) {
            set->q[set->n] = q + h * dim;
            set->acc[set->n] = attn_row(c, t, r, h);
            set->seen[set->n] = seq->n_past + t->row + r + 1;
        }
    }
}

static void divide_sum(float *acc, float l, size_t dim)
{
    float inverse = 1.0f / l;
    for (size_t d = 0; d < dim; d++)
        acc[d] *= inverse;
}

/* Over the spans [begin, end) of the tile, from the first state. */
static void attend_spans(const struct cpu *c, uint32_t layer, const struct attn_tile *t,
                         uint32_t kv_head, struct query_set *set, uint32_t begin, uint32_t end,
                         int worker)
{
    const struct model_config *m = &c->base.model->config;
    const struct cpu_seq *seq = &c->step.seqs[t->seq];
    uint32_t n_positions = seq->n_past + t->row + t->n_rows;
    uint32_t to = (t->span0 + end) * ATTN_SPAN;
    for (size_t i = 0; i < set->n; i++) {
        memset(set->acc[i], 0, m->head_dim * sizeof(float));
        set->m[i] = -INFINITY;
        set->l[i] = 0;
    }
    c->k.attn[c->base.options.kv_type](&(struct attn_args){
        .keys = cpu_kv_span(c, layer, 0, 0, kv_head),
        .values = cpu_kv_span(c, layer, 0, 1, kv_head),
        .block_bytes = cpu_kv_block_bytes(c),
        .blocks = seq->blocks,
        .first = (t->span0 + begin) * ATTN_SPAN,
        .end = to < n_positions ? to : n_positions,
        .head_dim = m->head_dim,
        .n_q = set->n,
        .q = set->q,
        .seen = set->seen,
        .window = c->step.window,
        .m = set->m,
        .l = set->l,
        .acc = set->acc,
        .scratch = c->scratch[worker].attn,
    });
}

/* Heads [head, head + n_heads) of one group, all positions. */
static void attend(const struct cpu *c, uint32_t layer, const struct attn_tile *t, uint32_t head,
                   uint32_t n_heads, int worker)
{
    const struct model_config *m = &c->base.model->config;
    struct query_set set;
    gather_queries(c, t, head, n_heads, &set);
    attend_spans(c, layer, t, head / group_heads(m), &set, 0,
                 attention_max_spans(&c->base.options) - t->span0, worker);
    for (size_t i = 0; i < set.n; i++)
        divide_sum(set.acc[i], set.l[i], m->head_dim);
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

/* The end of a divided group: each span's state is kept. */
static void attend_end(const struct cpu *c, uint32_t layer, const struct attn_tile *t,
                       uint32_t kv_head, uint32_t begin, uint32_t end, int worker)
{
    const struct cpu_scratch *s = &c->scratch[worker];
    size_t dim = c->base.model->config.head_dim, group = group_heads(&c->base.model->config);
    struct query_set set;
    gather_queries(c, t, kv_head * (uint32_t)group, (uint32_t)group, &set);
    for (uint32_t span = begin; span < end; span++) {
        float *ml = s->span_ml + (span - begin) * 2 * group;
        for (size_t h = 0; h < group; h++)
            set.acc[h] = s->span_acc + ((span - begin) * group + h) * dim;
        attend_spans(c, layer, t, kv_head, &set, span, span + 1, worker);
        memcpy(ml, set.m, group * sizeof *ml);
        memcpy(ml + group, set.l, group * sizeof *ml);
    }
}

/* The beginning of a divided group: the state is kept, undivided. */
static void attend_begin(const struct cpu *c, uint32_t layer, const struct attn_tile *t,
                         uint32_t kv_head, uint32_t end, int worker)
{
    float *ml = c->scratch[worker].begun_ml;
    uint32_t group = group_heads(&c->base.model->config);
    struct query_set set;
    gather_queries(c, t, kv_head * group, group, &set);
    attend_spans(c, layer, t, kv_head, &set, 0, end, worker);
    memcpy(ml, set.m, group * sizeof *ml);
    memcpy(ml + group, set.l, group * sizeof *ml);
}

/* Units [begin, end) of a tile that is divided into spans. */
static void attend_units(const struct cpu *c, uint32_t layer, const struct attn_tile *t,
                         uint32_t begin, uint32_t end, int worker)
{
    uint32_t group = group_heads(&c->base.model->config);
    while (begin < end) {
        uint32_t kv_head = begin / t->n_spans, from = begin % t->n_spans;
        uint32_t n = t->n_spans - from < end - begin ? t->n_spans - from : end - begin;
        if (from > 0)
            attend_end(c, layer, t, kv_head, from, from + n, worker);
        else if (n < t->n_spans)
            attend_begin(c, layer, t, kv_head, n, worker);
        else
            attend(c, layer, t, kv_head * group, group, worker);
        begin += n;
    }
}

void attention_run(struct cpu *c, uint32_t layer, int worker)
{
    struct attn_cut from = c->attn_cuts[worker], to = c->attn_cuts[worker + 1];
    for (uint32_t i = from.tile; i < c->step.n_tiles && i <= to.tile; i++) {
        const struct attn_tile *t = &c->step.tiles[i];
        uint32_t begin = i == from.tile ? from.unit : 0;
        uint32_t end = i == to.tile ? to.unit : t->n_units;
        if (t->n_spans)
            attend_units(c, layer, t, begin, end, worker);
        else
            attend_heads(c, layer, t, begin, end, worker);
    }
}

/* Does worker w begin inside this group? */
static bool begins_inside(const struct cpu *c, int w, uint32_t tile, uint32_t kv_head)
{
    const struct attn_cut *cut = &c->attn_cuts[w];
    const struct attn_tile *t = &c->step.tiles[tile];
    return cut->tile == tile && cut->unit / t->n_spans == kv_head && cut->unit % t->n_spans > 0;
}

/* Folds the spans that worker w has of a head into what came before. */
static void merge_spans(const struct cpu *c, int w, uint32_t h, struct attn_state *to)
{
    const struct cpu_scratch *s = &c->scratch[w];
    size_t dim = c->base.model->config.head_dim, group = group_heads(&c->base.model->config);
    struct attn_cut from = c->attn_cuts[w], next = c->attn_cuts[w + 1];
    uint32_t n_spans = c->step.tiles[from.tile].n_spans, n = n_spans - from.unit % n_spans;
    if (next.tile == from.tile && next.unit - from.unit < n)
        n = next.unit - from.unit;
    for (size_t span = 0; span < n; span++) {
        const float *ml = s->span_ml + span * 2 * group + h;
        struct attn_state later = {ml[0], ml[group], s->span_acc + (span * group + h) * dim};
        c->k.attn_merge(to, &later, dim);
    }
}

/* A group in which worker w is the first to begin: the one before has its first span. */
static void merge_group(const struct cpu *c, int w, uint32_t tile, uint32_t kv_head)
{
    const float *ml = c->scratch[w - 1].begun_ml;
    uint32_t group = group_heads(&c->base.model->config);
    for (uint32_t h = 0; h < group; h++) {
        float *acc = attn_row(c, &c->step.tiles[tile], 0, kv_head * group + h);
        struct attn_state state = {ml[h], ml[group + h], acc};
        for (int i = w; i < pool_threads(c->pool) && begins_inside(c, i, tile, kv_head); i++)
            merge_spans(c, i, h, &state);
        divide_sum(acc, state.l, c->base.model->config.head_dim);
    }
}

void attention_finish(struct cpu *c, size_t begin, size_t end)
{
    for (int w = 1; w < pool_threads(c->pool); w++) {
        struct attn_cut cut = c->attn_cuts[w];
        if (cut.tile >= c->step.n_tiles)
            return;
        const struct attn_tile *t = &c->step.tiles[cut.tile];
        if (t->n_spans == 0 || t->out < begin || t->out >= end || cut.unit % t->n_spans == 0)
            continue;
        uint32_t kv_head = cut.unit / t->n_spans;
        if (!begins_inside(c, w - 1, cut.tile, kv_head))
            merge_group(c, w, cut.tile, kv_head);
    }
}
