/* The phases of a layer and of the output head. Each worker runs every phase on its slice: products
 * are divided by weight rows, the rest by activation rows; a barrier ends a phase. */
#include "backend/cpu/cpu_backend.h"

#include <math.h>
#include <string.h>

#define FFN_GRAIN 32 /* so that a slice is whole blocks of int8 activations */

typedef void phase_fn(struct cpu *c, uint32_t layer, int worker);

/* Rows that live on after this layer's attention. */
static size_t live_rows(const struct cpu *c, uint32_t layer)
{
    return cpu_is_last(c, layer) ? c->step.n_out : c->step.n_rows;
}

static float *residual(const struct cpu *c, uint32_t layer)
{
    return cpu_is_last(c, layer) ? c->rows.y : c->step.x;
}

static void slice(const struct cpu *c, size_t n, size_t grain, int worker, size_t *begin,
                  size_t *end)
{
    pool_slice(n, grain, worker, pool_threads(c->pool), begin, end);
}

/* A norm of rows of d_model: a bias only where the model's kind of norm has one. */
struct norm {
    const struct tensor *weight, *bias;
};

/* As add_rmsnorm_q8. */
static void norm_q8(const struct cpu *c, struct q8_block *out, float *x, const float *delta,
                    struct norm norm)
{
    const struct model_config *m = &c->base.model->config;
    if (m->norm == NORM_LAYER)
        c->k.add_layernorm_q8(out, x, delta, norm.weight->data, norm.bias->data, m->d_model,
                              m->norm_eps);
    else
        c->k.add_rmsnorm_q8(out, x, delta, norm.weight->data, m->d_model, m->norm_eps);
}

static void norm_f32(const struct cpu *c, float *out, const float *x, struct norm norm)
{
    const struct model_config *m = &c->base.model->config;
    if (m->norm == NORM_LAYER)
        c->k.layernorm(out, x, norm.weight->data, norm.bias->data, m->d_model, m->norm_eps);
    else
        c->k.rmsnorm(out, x, norm.weight->data, m->d_model, m->norm_eps);
}

/* Row i of the residual stream, to which delta is added unless it is NULL, normed if there is a
 * norm, as input of the products that follow. */
static void norm_row(struct cpu *c, float *x, const float *delta, struct norm norm,
                     struct linear_want want, size_t i)
{
    size_t d = c->base.model->config.d_model;
    if (norm.weight && !want.f32) {
        norm_q8(c, c->rows.norm.q8 + i * (d / Q8_VALUES), x, delta, norm);
        return;
    }
    if (delta)
        c->k.add(x, delta, d);
    float *out = norm.weight ? c->rows.norm.f32 + i * d : x;
    if (norm.weight)
        norm_f32(c, out, x, norm);
    linear_put(&c->rows.norm, &c->k, want, i, out);
}

static void table_row(const struct cpu *c, const struct tensor *table, size_t row, float *out)
{
    size_t bytes = tensor_row_bytes(table->type, table->dims[0]);
    c->k.dequantize[table->type](out, (const char *)table->data + row * bytes, table->dims[0]);
}

static void embed_row(struct cpu *c, size_t row, float *x, int worker)
{
    const struct model *m = c->base.model;
    const struct cpu_seq *seq = &c->step.seqs[c->step.row_seq[row]];
    size_t at = row - seq->row0, d = m->config.d_model;
    float *position = c->scratch[worker].dequantized;
    table_row(c, m->token_embd, (size_t)seq->tokens[at], x);
    for (size_t i = 0; i < d && m->config.embedding_scale != 1; i++)
        x[i] *= m->config.embedding_scale;
    if (m->position_embd) {
        table_row(c, m->position_embd, seq->n_past + at, position);
        c->k.add(x, position, d);
    }
}

static void add_bias(const struct cpu *c, float *x, const struct tensor *bias)
{
    if (bias)
        c->k.add(x, bias->data, bias->dims[0]);
}

/* What a half of a layer adds to row x, delta, is brought to its end: a bias, or also a norm, which
 * the bias goes before. */
static void finish_delta(const struct cpu *c, float *x, float *delta, const struct tensor *bias,
                         const struct tensor *norm)
{
    const struct model_config *m = &c->base.model->config;
    add_bias(c, norm ? delta : x, bias);
    if (norm)
        c->k.rmsnorm(delta, delta, norm->data, m->d_model, m->norm_eps);
}

/* Residual stream so far: the embedding, or what the layer before adds. Norm. */
static void phase_attn_in(struct cpu *c, uint32_t layer, int worker)
{
    const struct cpu_layer *l = &c->layers[layer];
    const struct model_layer *before = layer == 0 ? NULL : l[-1].weights;
    size_t d = c->base.model->config.d_model, begin, end;
    bool other =
        layer == c->step.layer || cpu_is_last(c, layer) || before->window != l->weights->window;
    if (worker == 0 && other)
        attention_plan(c, layer);
    slice(c, c->step.n_rows, 1, worker, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        float *x = c->step.x + i * d, *delta = layer == 0 ? NULL : c->step.delta + i * d;
        if (layer == 0)
            embed_row(c, i, x, worker);
        else
            finish_delta(c, x, delta, before->b_down, before->post_ffn_norm);
        norm_row(c, x, delta, (struct norm){l->weights->attn_norm, l->weights->attn_norm_bias},
                 l->attn_in, i);
    }
}

/* Queries, keys and values as one product: their panels in a row are divided. */
static void phase_qkv(struct cpu *c, uint32_t layer, int worker)
{
    const struct linear *qkv = c->layers[layer].qkv;
    size_t panels = 0, begin, end, at = 0;
    float *out = c->rows.qkv;
    for (int i = 0; i < 3; i++)
        panels += linear_panels(&qkv[i]);
    slice(c, panels, 1, worker, &begin, &end);
    for (int i = 0; i < 3; i++) {
        size_t from = begin > at ? begin - at : 0, to = end > at ? end - at : 0;
        linear_slice(&qkv[i], &c->rows.norm, from, to, c->step.n_rows, out, c->qkv_width,
                     c->scratch[worker].dequantized);
        at += linear_panels(&qkv[i]);
        out += qkv[i].n_rows;
    }
}

/* As many values at a time as the norm has weights: each head by itself, or all as one. */
static void norm_heads(const struct cpu *c, float *heads, size_t n, const struct tensor *norm)
{
    const struct model_config *m = &c->base.model->config;
    for (size_t at = 0; at < n && norm; at += norm->dims[0])
        c->k.rmsnorm(heads + at, heads + at, norm->data, norm->dims[0], m->norm_eps);
}

static void rope_heads(const struct cpu *c, float *heads, uint32_t n_heads, const float *cos_sin,
                       float scale)
{
    const struct model_config *m = &c->base.model->config;
    c->k.rope(&(struct rope_args){
        .heads = heads,
        .n_heads = n_heads,
        .head_dim = m->head_dim,
        .cos_sin = cos_sin,
        .n_rot = cos_sin ? m->n_rot : 0,
        .style = m->rope_style,
        .scale = scale,
    });
}

static void store_row(const struct cpu *c, uint32_t layer, uint32_t block, uint32_t at,
                      const float *k, const float *v)
{
    const struct model_config *m = &c->base.model->config;
    enum kv_type type = c->base.options.kv_type;
    for (uint32_t h = 0; h < m->n_kv_heads; h++) {
        size_t head = (size_t)h * m->head_dim;
        c->k.kv_store[type](&(struct kv_store_args){
            .k = cpu_kv_span(c, layer, block, 0, h),
            .v = cpu_kv_span(c, layer, block, 1, h),
            .at = at,
            .head_dim = m->head_dim,
            .key = k + head,
            .value = v + head,
        });
    }
}

/* Without positions that turn only the scale is left to do: no dims turn. */
static void turn_row(const struct cpu *c, const struct model_layer *w, uint32_t position, float *q,
                     float *k)
{
    const struct model_config *m = &c->base.model->config;
    const float *table = c->rope[w->rope];
    const float *cos_sin = table ? table + (size_t)position * m->n_rot : NULL;
    rope_heads(c, q, m->n_heads, cos_sin, m->attention_scale);
    if (cos_sin)
        rope_heads(c, k, m->n_kv_heads, cos_sin, 1.0f);
}

/* Biases, norms of heads, rotation, keys and values into the cache; queries scaled for the
 * attention kernel. */
static void phase_rope_store(struct cpu *c, uint32_t layer, int worker)
{
    const struct model_layer *w = c->layers[layer].weights;
    size_t begin, end;
    slice(c, c->step.n_rows, 1, worker, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        const struct cpu_seq *seq = &c->step.seqs[c->step.row_seq[i]];
        uint32_t position = seq->n_past + (uint32_t)i - seq->row0;
        float *q = c->rows.qkv + i * c->qkv_width;
        float *k = q + c->heads_width, *v = k + c->kv_width;
        add_bias(c, q, w->bq);
        add_bias(c, k, w->bk);
        add_bias(c, v, w->bv);
        norm_heads(c, q, c->heads_width, w->q_norm);
        norm_heads(c, k, c->kv_width, w->k_norm);
        turn_row(c, w, position, q, k);
        store_row(c, layer, seq->blocks[position / KV_BLOCK], position % KV_BLOCK, k, v);
    }
}

/* What the heads saw, as input of the output product. In the last layer the output rows' residual
 * stream moves to its own buffer. */
static void phase_heads_put(struct cpu *c, uint32_t layer, int worker)
{
    const struct linear *wo = &c->layers[layer].wo;
    size_t d = c->base.model->config.d_model, begin, end;
    struct linear_want want = {0};
    linear_want_add(&want, wo);
    slice(c, live_rows(c, layer), 1, worker, &begin, &end);
    attention_finish(c, begin, end);
    for (size_t i = begin; i < end; i++) {
        linear_put(&c->rows.heads, &c->k, want, i, c->rows.attn + i * c->heads_width);
        if (cpu_is_last(c, layer))
            memcpy(c->rows.y + i * d, c->step.x + c->step.out_row[i] * d, d * sizeof(float));
    }
}

/* Rows of d_model outputs into delta. */
static void add_to_delta(struct cpu *c, const struct linear *l, const struct linear_rows *in,
                         uint32_t layer, int worker)
{
    size_t begin, end;
    slice(c, linear_panels(l), 1, worker, &begin, &end);
    linear_slice(l, in, begin, end, live_rows(c, layer), c->step.delta, l->n_rows,
                 c->scratch[worker].dequantized);
}

static void phase_heads_out(struct cpu *c, uint32_t layer, int worker)
{
    add_to_delta(c, &c->layers[layer].wo, &c->rows.heads, layer, worker);
}

static void phase_ffn_in(struct cpu *c, uint32_t layer, int worker)
{
    const struct cpu_layer *l = &c->layers[layer];
    size_t d = c->base.model->config.d_model, begin, end;
    slice(c, live_rows(c, layer), 1, worker, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        float *x = residual(c, layer) + i * d;
        float *delta = c->step.delta + i * d;
        finish_delta(c, x, delta, l->weights->bo, l->weights->post_attn_norm);
        norm_row(c, x, delta, (struct norm){l->weights->ffn_norm, l->weights->ffn_norm_bias},
                 l->ffn_in, i);
    }
}

/* The products that make some hidden units of some rows: into gate, and into up where the model has
 * a gate; else up's product is what the activation takes. */
static void ffn_products(struct cpu *c, const struct cpu_layer *l, struct linear_part part,
                         const struct cpu_scratch *s)
{
    const struct tensor *bias = l->weights->b_up;
    float *up = l->weights->w_gate ? s->up : s->gate;
    if (l->weights->w_gate)
        linear_run(&l->gate, &c->rows.norm, part, s->gate, part.n_rows, s->dequantized);
    linear_run(&l->up, &c->rows.norm, part, up, part.n_rows, s->dequantized);
    for (size_t t = 0; t < part.n && bias; t++)
        c->k.add(up + t * part.n_rows, (const float *)bias->data + part.row, part.n_rows);
}

/* act(gate) * up for some hidden units of some rows, straight into the form that `down` takes. */
static void ffn_part(struct cpu *c, const struct cpu_layer *l, struct linear_part part, int worker)
{
    const struct cpu_scratch *s = &c->scratch[worker];
    const struct linear_rows *ff = &c->rows.ff;
    enum activation f = c->base.model->config.activation;
    const float *up = l->weights->w_gate ? s->up : NULL;
    size_t at = part.first * ff->width + part.row;
    ffn_products(c, l, part, s);
    if (l->down.q8)
        c->k.activate_q8[f](&(struct activate_q8_args){
            .out = ff->q8 + at / Q8_VALUES,
            .out_stride = ff->width / Q8_VALUES,
            .gate = s->gate,
            .up = up,
            .n_rows = part.n,
            .n = part.n_rows,
        });
    for (size_t t = 0; !l->down.q8 && t < part.n; t++)
        c->k.activate[f](ff->f32 + at + t * ff->width, s->gate + t * part.n_rows,
                         up ? up + t * part.n_rows : NULL, part.n_rows);
}

static void phase_ffn(struct cpu *c, uint32_t layer, int worker)
{
    const struct cpu_layer *l = &c->layers[layer];
    size_t begin, end, n = live_rows(c, layer);
    size_t tokens = n < FFN_TILE ? n : FFN_TILE;
    slice(c, l->up.n_rows, FFN_GRAIN, worker, &begin, &end);
    for (size_t t = 0; t < n; t += tokens) {
        size_t part_n = n - t < tokens ? n - t : tokens;
        size_t rows = FFN_SCRATCH / tokens / FFN_GRAIN * FFN_GRAIN;
        for (size_t r = begin; r < end; r += rows) {
            size_t part_rows = end - r < rows ? end - r : rows;
            ffn_part(c, l, (struct linear_part){r, part_rows, t, part_n}, worker);
        }
    }
}

static void phase_ffn_out(struct cpu *c, uint32_t layer, int worker)
{
    add_to_delta(c, &c->layers[layer].down, &c->rows.ff, layer, worker);
}

static phase_fn *const phases[] = {
    phase_attn_in,   phase_qkv,    phase_rope_store, attention_run, phase_heads_put,
    phase_heads_out, phase_ffn_in, phase_ffn,        phase_ffn_out,
};

void forward_layer(struct cpu *c, uint32_t layer, int worker)
{
    for (size_t i = 0; i < sizeof phases / sizeof phases[0]; i++) {
        phases[i](c, layer, worker);
        pool_barrier(c->pool);
    }
}

void forward_head(struct cpu *c, int worker)
{
    const struct model *m = c->base.model;
    const struct model_layer *last = &m->layers[m->config.n_layers - 1];
    size_t d = m->config.d_model, begin, end;
    slice(c, c->step.n_out, 1, worker, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        float *y = c->rows.y + i * d, *delta = c->step.delta + i * d;
        finish_delta(c, y, delta, last->b_down, last->post_ffn_norm);
        norm_row(c, y, delta, (struct norm){m->output_norm, m->output_norm_bias}, c->head_in, i);
    }
    pool_barrier(c->pool);
    slice(c, linear_panels(&c->head), 1, worker, &begin, &end);
    linear_slice(&c->head, &c->rows.norm, begin, end, c->step.n_out, c->rows.logits, c->head.n_rows,
                 c->scratch[worker].dequantized);
}
