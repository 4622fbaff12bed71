/* A step: its rows, its progress by layers, sequences that leave it, steps that stand aside. Engine
 * thread.
 *
 * Between advances a step is its residual rows, what the last layer adds to them (delta), and its
 * layer index: that is all a parked step keeps.
 */
#include "backend/cpu/cpu_backend.h"

#include "backend/cpu/kv_pages.h"

#include <string.h>

static uint32_t output_count(const struct batch_seq *q)
{
    switch (q->output) {
    case OUTPUT_NONE:
        return 0;
    case OUTPUT_LAST:
        return 1;
    case OUTPUT_ALL:
        return q->n_tokens;
    }
    return 0;
}

/* The engine checked requests against limits; what arrives here wrong is a bug. */
static void require_sane(const struct cpu *c, const struct batch_seq *q)
{
    const struct backend_options *o = &c->base.options;
    REQUIRE(q->n_tokens >= 1 && q->n_tokens <= o->max_rows - c->step.n_rows);
    REQUIRE(q->n_past <= o->n_ctx && q->n_tokens <= o->n_ctx - q->n_past);
    REQUIRE(output_count(q) <= o->max_outputs - c->step.n_out);
    for (uint32_t i = 0; i < q->n_tokens; i++)
        REQUIRE((uint32_t)q->tokens[i] < c->base.model->config.n_vocab);
}

/* The highest of its blocks, all of which are in the pool. */
static uint32_t highest_block(const struct cpu *c, const struct batch_seq *q)
{
    uint32_t highest = 0;
    for (uint32_t i = 0; i < (q->n_past + q->n_tokens + KV_BLOCK - 1) / KV_BLOCK; i++)
        highest = q->blocks[i] > highest ? q->blocks[i] : highest;
    REQUIRE(highest < c->n_blocks);
    return highest;
}

static void add_seq(struct cpu *c, const struct batch_seq *q)
{
    struct cpu_step *s = &c->step;
    require_sane(c, q);
    s->seqs[s->n_seqs] = (struct cpu_seq){
        .tokens = q->tokens,
        .blocks = q->blocks,
        .request = q->request,
        .row0 = s->n_rows,
        .n_rows = q->n_tokens,
        .n_past = q->n_past,
        .out0 = s->n_out,
        .n_out = output_count(q),
    };
    s->n_rows += q->n_tokens;
    s->n_out += output_count(q);
    s->n_seqs++;
}

/* Which sequence a row is of, and which row an output is of; a dropped sequence's outputs take row
 * 0 and mean nothing. */
static void index_rows(struct cpu_step *s)
{
    for (uint32_t i = 0; i < s->n_seqs; i++) {
        const struct cpu_seq *q = &s->seqs[i];
        for (uint32_t r = 0; r < q->n_rows; r++)
            s->row_seq[q->row0 + r] = i;
        for (uint32_t r = 0; r < q->n_out; r++)
            s->out_row[q->out0 + r] = q->dropped ? 0 : q->row0 + q->n_rows - q->n_out + r;
    }
}

void step_begin(struct backend *b, const struct batch *batch)
{
    struct cpu *c = (struct cpu *)b;
    struct cpu_step *s = &c->step;
    REQUIRE(batch->n_seqs <= b->options.max_seqs);
    s->n_seqs = s->n_rows = s->n_out = 0;
    s->layer = 0;
    s->dropped = false;
    uint32_t highest = 0;
    for (uint32_t i = 0; i < batch->n_seqs; i++) {
        uint32_t block = highest_block(c, &batch->seqs[i]);
        highest = block > highest ? block : highest;
        add_seq(c, &batch->seqs[i]);
    }
    index_rows(s);
    kv_pages_step(c->kv_pages, (highest + 1) * cpu_kv_block_bytes(c));
}

static void drop_from(struct cpu_step *s, uint32_t request)
{
    for (uint32_t i = 0; i < s->n_seqs; i++) {
        if (s->seqs[i].request == request && !s->seqs[i].dropped) {
            s->seqs[i].dropped = true;
            s->dropped = true;
        }
    }
}

void step_drop(struct backend *b, uint32_t request)
{
    struct cpu *c = (struct cpu *)b;
    drop_from(&c->step, request);
    if (c->has_parked)
        drop_from(&c->parked, request);
}

static void exchange(struct cpu *c)
{
    struct cpu_step aside = c->step;
    c->step = c->parked;
    c->parked = aside;
    c->has_parked = !c->has_parked;
}

void step_park(struct backend *b)
{
    struct cpu *c = (struct cpu *)b;
    /* in the last layer what lives on is in rows.y, which every step uses */
    REQUIRE(!c->has_parked && c->step.layer < b->model->config.n_layers);
    exchange(c);
    c->step.n_seqs = 0;
}

void step_resume(struct backend *b)
{
    struct cpu *c = (struct cpu *)b;
    REQUIRE(c->has_parked);
    exchange(c);
}

static void move_rows(float *rows, size_t width, uint32_t to, uint32_t from, uint32_t n)
{
    memmove(rows + to * width, rows + from * width, n * width * sizeof *rows);
}

/* Closes the gaps that dropped sequences leave; output rows keep their places. */
static void close_gaps(struct cpu *c)
{
    struct cpu_step *s = &c->step;
    size_t d = c->base.model->config.d_model;
    uint32_t at = 0;
    for (uint32_t i = 0; i < s->n_seqs; i++) {
        struct cpu_seq *q = &s->seqs[i];
        if (q->dropped)
            q->n_rows = 0;
        move_rows(s->x, d, at, q->row0, q->n_rows);
        move_rows(s->delta, d, at, q->row0, q->n_rows);
        q->row0 = at;
        at += q->n_rows;
    }
    s->n_rows = at;
    s->dropped = false;
    index_rows(s);
}

static void run_layers(void *arg, int worker)
{
    struct cpu *c = arg;
    for (uint32_t layer = c->step.layer; layer < c->step.layer_end; layer++)
        forward_layer(c, layer, worker);
}

static void run_head(void *arg, int worker)
{
    forward_head(arg, worker);
}

bool step_advance(struct backend *b, uint32_t n_layers)
{
    struct cpu *c = (struct cpu *)b;
    struct cpu_step *s = &c->step;
    uint32_t left = b->model->config.n_layers - s->layer;
    s->layer_end = s->layer + (n_layers < left ? n_layers : left);
    if (s->dropped)
        close_gaps(c);
    if (s->n_rows > 0 && s->layer < s->layer_end)
        pool_run(c->pool, run_layers, c);
    s->layer = s->layer_end;
    return s->layer == b->model->config.n_layers;
}

void step_finish(struct backend *b, struct step_result *out)
{
    struct cpu *c = (struct cpu *)b;
    REQUIRE(c->step.layer == b->model->config.n_layers);
    if (c->step.n_out > 0 && c->step.n_rows > 0)
        pool_run(c->pool, run_head, c);
    kv_pages_step_done(c->kv_pages);
    *out = (struct step_result){.logits = c->rows.logits, .n_rows = c->step.n_out};
}
