#include "backend/cpu/cpu_backend.h"

#include "backend/cpu/kv_pages.h"
#include "base/mem.h"

#include <string.h>

#define MIB  (1024.0 * 1024.0)
#define LINE 64

#define KV_AHEAD ((size_t)256 << 20) /* 11,000 tokens of SmolLM2's */

/* Parts of one allocation, laid out twice: first with base NULL, which measures. */
struct layout {
    char *base;
    size_t used;
    bool overflow;
};

/* count * width objects of `size` bytes, 64-byte aligned. */
static void *lay(struct layout *l, size_t count, size_t width, size_t size)
{
    size_t bytes, end;
    if (!mem_mul(count, width, &bytes) || !mem_mul(bytes, size, &bytes) ||
        !mem_add(bytes, LINE - 1, &bytes) || !mem_add(l->used, bytes / LINE * LINE, &end)) {
        l->overflow = true;
        return NULL;
    }
    void *p = l->base ? l->base + l->used : NULL;
    l->used = end;
    return p;
}

static struct linear_rows lay_rows(struct layout *l, size_t n, size_t width, bool q8, float *f32)
{
    return (struct linear_rows){
        .q8 = q8 ? lay(l, n, width / Q8_VALUES, sizeof(struct q8_block)) : NULL,
        .f32 = f32,
        .width = width,
    };
}

static size_t widest_input(const struct cpu *c)
{
    const struct model_config *m = &c->base.model->config;
    size_t k = m->d_model > m->d_ff ? m->d_model : m->d_ff;
    return k > c->heads_width ? k : c->heads_width;
}

static void lay_scratch(struct cpu *c, struct layout *l)
{
    const struct model_config *m = &c->base.model->config;
    size_t group = m->n_heads / m->n_kv_heads, spans = attention_max_spans(&c->base.options);
    c->scratch = lay(l, (size_t)c->base.options.n_threads, 1, sizeof *c->scratch);
    for (int i = 0; i < c->base.options.n_threads; i++) {
        struct cpu_scratch s = {
            .dequantized = lay(l, widest_input(c), 1, sizeof(float)),
            .gate = lay(l, FFN_SCRATCH, 1, sizeof(float)),
            .up = lay(l, FFN_SCRATCH, 1, sizeof(float)),
            .attn = lay(l, ATTN_SCRATCH(m->head_dim), 1, sizeof(float)),
            .span_ml = lay(l, spans, 2 * group, sizeof(float)),
            .span_acc = lay(l, spans, group * m->head_dim, sizeof(float)),
            .begun_ml = lay(l, 2 * group, 1, sizeof(float)),
        };
        if (l->base)
            c->scratch[i] = s;
    }
}

static void lay_activations(struct cpu *c, struct layout *l)
{
    const struct model_config *m = &c->base.model->config;
    const struct backend_options *o = &c->base.options;
    size_t n = o->max_rows;
    bool q8 = o->activations == ACTIVATIONS_INT8;
    c->rows.y = lay(l, o->max_outputs, m->d_model, sizeof(float));
    c->rows.qkv = lay(l, n, c->qkv_width, sizeof(float));
    c->rows.attn = lay(l, n, c->heads_width, sizeof(float));
    c->rows.norm = lay_rows(l, n, m->d_model, q8, lay(l, n, m->d_model, sizeof(float)));
    c->rows.heads = lay_rows(l, n, c->heads_width, q8, c->rows.attn);
    c->rows.ff = lay_rows(l, n, m->d_ff, q8, lay(l, n, m->d_ff, sizeof(float)));
    c->rows.logits = lay(l, o->max_outputs, m->n_vocab, sizeof(float));
}

static void lay_step(const struct cpu *c, struct layout *l, struct cpu_step *s)
{
    const struct backend_options *o = &c->base.options;
    size_t d = c->base.model->config.d_model;
    s->seqs = lay(l, o->max_seqs, 1, sizeof *s->seqs);
    s->row_seq = lay(l, o->max_rows, 1, sizeof *s->row_seq);
    s->out_row = lay(l, o->max_outputs, 1, sizeof *s->out_row);
    s->x = lay(l, o->max_rows, d, sizeof(float));
    s->delta = lay(l, o->max_rows, d, sizeof(float));
}

static void lay_all(struct cpu *c, struct layout *l)
{
    const struct model_config *m = &c->base.model->config;
    const struct backend_options *o = &c->base.options;
    c->layers = lay(l, m->n_layers, 1, sizeof *c->layers);
    for (uint32_t i = 0; i < m->n_ropes && m->position == POSITION_ROPE; i++)
        c->rope[i] = lay(l, o->n_ctx, m->n_rot, sizeof(float));
    lay_step(c, l, &c->step);
    lay_step(c, l, &c->parked);
    c->step.tiles = lay(l, attention_max_tiles(m, o), 1, sizeof *c->step.tiles);
    c->parked.tiles = c->step.tiles;
    c->attn_cuts = lay(l, (size_t)o->n_threads + 1, 1, sizeof *c->attn_cuts);
    lay_scratch(c, l);
    lay_activations(c, l);
}

static enum status cpu_backend_check_memory(size_t needed, const char *what, const char *flag,
                                            struct err *err)
{
    size_t available = mem_available();
    if (needed <= available)
        return STATUS_OK;
    return err_set(err, STATUS_NO_MEMORY, "%s need %.1f MiB, %.1f MiB are available; %s", what,
                   (double)needed / MIB, (double)available / MIB, flag);
}

/* Measures, checks, allocates and lays out everything but the KV cache. */
static enum status cpu_backend_allocate(struct cpu *c, struct err *err)
{
    struct layout l = {0};
    lay_all(c, &l);
    if (l.overflow)
        return err_set(err, STATUS_TOO_LARGE, "activations of %u rows overflow the address space",
                       c->base.options.max_rows);
    enum status st =
        cpu_backend_check_memory(l.used, "activations", "a smaller --ctx or batch helps", err);
    if (st)
        return st;
    c->rows_bytes = l.used;
    c->memory = mem_aligned(l.used);
    if (!c->memory)
        return err_set(err, STATUS_NO_MEMORY, "no memory for activations of %.1f MiB",
                       (double)l.used / MIB);
    l = (struct layout){.base = c->memory};
    lay_all(c, &l);
    return STATUS_OK;
}

static void bind_layer(struct cpu *c, uint32_t i)
{
    const struct model_layer *w = &c->base.model->layers[i];
    const struct tensor *qkv[3] = {w->wq, w->wk, w->wv};
    enum activations a = c->base.options.activations;
    struct cpu_layer *l = &c->layers[i];
    l->weights = w;
    for (int j = 0; j < 3; j++) {
        linear_bind(&l->qkv[j], &c->k, qkv[j], a);
        linear_want_add(&l->attn_in, &l->qkv[j]);
    }
    linear_bind(&l->wo, &c->k, w->wo, a);
    if (w->w_gate)
        linear_bind(&l->gate, &c->k, w->w_gate, a);
    linear_bind(&l->up, &c->k, w->w_up, a);
    linear_bind(&l->down, &c->k, w->w_down, a);
    linear_want_add(&l->ffn_in, &l->gate);
    linear_want_add(&l->ffn_in, &l->up);
}

static void bind_weights(struct cpu *c)
{
    const struct model *m = c->base.model;
    for (uint32_t i = 0; i < m->config.n_layers; i++)
        bind_layer(c, i);
    linear_bind(&c->head, &c->k, m->output, c->base.options.activations);
    linear_want_add(&c->head_in, &c->head);
}

static void cpu_close(struct backend *b)
{
    struct cpu *c = (struct cpu *)b;
    if (!c)
        return;
    pool_destroy(c->pool);
    kv_pages_close(c->kv_pages);
    pack_free(c);
    mem_free(c->memory);
    mem_free(c);
}

/* Learned positions end with their table. */
static enum status check_positions(const struct model *m, uint32_t n_ctx, struct err *err)
{
    if (!m->position_embd || n_ctx <= m->config.n_ctx_train)
        return STATUS_OK;
    return err_param(err, STATUS_INVALID, "ctx",
                     "a context of %u positions was asked for, %s has %u", n_ctx,
                     m->position_embd->name, m->config.n_ctx_train);
}

static enum status cpu_open(struct backend **out, const struct model *model,
                            const struct backend_options *options, struct err *err)
{
    const struct model_config *m = &model->config;
    REQUIRE(options->n_threads >= 1 && options->max_rows >= 1 && options->max_seqs >= 1);
    REQUIRE(options->n_ctx >= 1 && options->max_outputs >= 1);
    enum status st = check_positions(model, options->n_ctx, err);
    if (st)
        return st;
    struct cpu *c = mem_zalloc(sizeof *c);
    if (!c)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the CPU backend");
    c->base = (struct backend){&cpu_backend, model, *options};
    c->heads_width = m->n_heads * m->head_dim;
    c->kv_width = m->n_kv_heads * m->head_dim;
    c->qkv_width = c->heads_width + 2 * c->kv_width;
    kernels_fill(&c->k, options->cpu_levels);
    st = cpu_backend_allocate(c, err);
    if (!st)
        st = pool_create(&c->pool, options->n_threads, err);
    if (!st) {
        bind_weights(c);
        st = pack_weights(c, err);
    }
    if (st) {
        cpu_close(&c->base);
        return st;
    }
    rope_fill(c);
    pool_leave(c->pool); /* the engine thread is worker 0, not whoever opens */
    *out = &c->base;
    return STATUS_OK;
}

static enum status cpu_backend_kv_create(struct backend *b, uint32_t n_blocks, struct err *err)
{
    struct cpu *c = (struct cpu *)b;
    const struct model_config *m = &b->model->config;
    size_t bytes;
    REQUIRE(!c->kv && n_blocks >= 1);
    if (!mem_mul(model_kv_block_bytes(m, b->options.kv_type), n_blocks, &bytes))
        return err_set(err, STATUS_TOO_LARGE, "%u KV blocks overflow the address space", n_blocks);
    enum status st = cpu_backend_check_memory(bytes, "cached keys and values",
                                              "--kv-memory or --ctx make it less", err);
    if (!st)
        st = kv_pages_open(&c->kv_pages, bytes, KV_AHEAD, err);
    if (st)
        return st;
    c->kv = kv_pages_base(c->kv_pages);
    c->kv_span_bytes = kv_layout_bytes(b->options.kv_type, m->head_dim);
    c->n_blocks = n_blocks;
    return STATUS_OK;
}

static void cpu_backend_kv_copy(struct backend *b, uint32_t to, uint32_t from, uint32_t n_positions)
{
    struct cpu *c = (struct cpu *)b;
    REQUIRE(to < c->n_blocks && from < c->n_blocks && n_positions <= KV_BLOCK && to != from);
    /* Positions are interleaved in a block; those behind n_positions come along and mean nothing.
     */
    memcpy(cpu_kv_span(c, 0, to, 0, 0), cpu_kv_span(c, 0, from, 0, 0), cpu_kv_block_bytes(c));
}

static size_t layer_weight_bytes(const struct model_layer *l)
{
    const struct tensor *const some[] = {l->w_gate, l->attn_norm, l->ffn_norm};
    size_t n = l->wq->size + l->wk->size + l->wv->size + l->wo->size + l->w_up->size;
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        n += some[i] ? some[i]->size : 0;
    return n + l->w_down->size;
}

static void cpu_backend_memory(const struct backend *b, struct backend_memory *out)
{
    const struct cpu *c = (const struct cpu *)b;
    const struct model *m = b->model;
    *out = (struct backend_memory){
        .repacked = c->packed_bytes,
        .kv = c->kv_pages ? kv_pages_bytes(c->kv_pages) : 0,
        .activations = c->rows_bytes,
    };
    out->weights = m->token_embd->size + m->output_norm->size;
    if (m->output != m->token_embd)
        out->weights += m->output->size;
    if (m->position_embd)
        out->weights += m->position_embd->size;
    for (uint32_t i = 0; i < m->config.n_layers; i++)
        out->weights += layer_weight_bytes(&m->layers[i]);
}

/* Plain C runs anywhere; that a machine without AVX2 is refused is the command line's decision. */
static bool cpu_backend_available(char *why, size_t why_size)
{
    (void)why;
    (void)why_size;
    return true;
}

static void usage(const struct backend *b, struct pool_usage *out)
{
    pool_usage(((const struct cpu *)b)->pool, out);
}

const struct backend_ops cpu_backend = {
    .name = "cpu",
    .available = cpu_backend_available,
    .repacked_bytes = pack_bytes,
    .open = cpu_open,
    .close = cpu_close,
    .kv_create = cpu_backend_kv_create,
    .kv_copy = cpu_backend_kv_copy,
    .step_begin = step_begin,
    .step_advance = step_advance,
    .step_drop = step_drop,
    .step_park = step_park,
    .step_resume = step_resume,
    .step_finish = step_finish,
    .memory = cpu_backend_memory,
    .usage = usage,
};
