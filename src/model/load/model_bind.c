#include "model/load/model_bind.h"

#include "base/limits.h"
#include "base/mem.h"
#include "model/load/config.h"

#include <stdio.h>
#include <string.h>

/* One binding under way. */
struct binder {
    struct model *m;
    const struct gguf *g;
    bool *taken; /* (tensors of g) */
};

static enum status check_tensor(const struct tensor *t, const struct arch_tensor *row,
                                const struct model_config *c, struct err *err)
{
    struct tensor want = {.n_dims = row->out == ARCH_NONE ? 1 : 2,
                          .dims = {arch_extent(c, row->in), arch_extent(c, row->out), 1, 1}};
    char expected[96], found[96];
    if (memcmp(t->dims, want.dims, sizeof want.dims) != 0)
        return err_param(err, STATUS_INVALID, t->name, "tensor %s: expected shape %s, found %s",
                         t->name, tensor_shape_text(&want, expected, sizeof expected),
                         tensor_shape_text(t, found, sizeof found));
    if (row->out == ARCH_NONE && t->type != TENSOR_F32)
        return err_param(err, STATUS_UNSUPPORTED, t->name, "tensor %s: expected type F32, found %s",
                         t->name, tensor_type_name(t->type));
    return STATUS_OK;
}

/* Points the fields of a fused tensor's parts to slices of it. */
static void bind_parts(struct binder *b, const struct arch_tensor *row, const struct tensor *t,
                       void *base)
{
    bool vector = row->out == ARCH_NONE;
    size_t row_bytes = tensor_row_bytes(t->type, vector ? 1 : (size_t)t->dims[0]);
    const char *data = t->data;
    for (const struct arch_part *p = row->parts; p->rows != ARCH_NONE; p++) {
        uint64_t rows = arch_extent(&b->m->config, p->rows);
        struct tensor *slice = &b->m->slices[b->m->n_slices++];
        *slice = *t;
        slice->dims[vector ? 0 : 1] = rows;
        slice->data = data;
        slice->size = (size_t)rows * row_bytes;
        data += slice->size;
        memcpy((char *)base + p->offset, &slice, sizeof(void *));
    }
}

/* Binds the rows of one table; `base` is the struct their offsets are in. */
static enum status bind_table(struct binder *b, const struct arch_tensor *rows, size_t n_rows,
                              void *base, uint32_t layer, struct err *err)
{
    for (size_t i = 0; i < n_rows; i++) {
        char name[ARCH_NAME_BYTES];
        const struct tensor *t = gguf_tensor(b->g, arch_gguf_name(name, &rows[i], layer));
        if (!t && (rows[i].flags & ARCH_OPTIONAL))
            continue;
        if (!t)
            return err_param(err, STATUS_INVALID, name, "tensor %s is missing", name);
        enum status st = check_tensor(t, &rows[i], &b->m->config, err);
        if (st)
            return st;
        if (rows[i].parts)
            bind_parts(b, &rows[i], t, base);
        else
            memcpy((char *)base + rows[i].offset, &t, sizeof(void *));
        b->taken[t - gguf_tensor_at(b->g, 0)] = true;
    }
    return STATUS_OK;
}

/* A tensor that no row asked for belongs to a feature the forward pass would silently leave out. */
static enum status model_bind_check_all_taken(const struct binder *b, const struct arch *arch,
                                              struct err *err)
{
    for (size_t i = 0; i < gguf_tensor_count(b->g); i++) {
        const struct tensor *t = gguf_tensor_at(b->g, i);
        if (!b->taken[i])
            return err_param(err, STATUS_UNSUPPORTED, t->name,
                             "tensor %s: no part of architecture %s with %u layers as implemented "
                             "here",
                             t->name, arch->name, b->m->config.n_layers);
    }
    return STATUS_OK;
}

/* Factors for long contexts come in pairs, and mean that scaling whatever the keys say. */
static enum status check_long(struct model *m, struct err *err)
{
    struct model_rope *r = &m->config.rope[ROPE_MAIN];
    const char *missing = "rope_factors_long.weight";
    if (!m->rope_factors_long && !m->rope_factors_short && r->scaling != ROPE_SCALING_LONG)
        return STATUS_OK;
    if (m->rope_factors_long)
        missing = m->rope_factors_short ? NULL : "rope_factors_short.weight";
    if (missing)
        return err_param(err, STATUS_INVALID, missing, "tensor %s is missing", missing);
    r->scaling = ROPE_SCALING_LONG;
    if (r->n_ctx_original > 0)
        return STATUS_OK;
    return err_param(err, STATUS_INVALID, "rope.scaling.original_context_length",
                     "%s.rope.scaling.original_context_length: expected a whole number beside "
                     "tensor rope_factors_long.weight, found nothing",
                     m->config.arch);
}

static enum status bind_tensors(struct binder *b, const struct arch *arch, struct err *err)
{
    struct model *m = b->m;
    enum status st = bind_table(b, arch->tensors, arch->n_tensors, m, ARCH_NO_LAYER, err);
    for (uint32_t l = 0; l < m->config.n_layers && !st; l++)
        st = bind_table(b, arch->layer_tensors, arch->n_layer_tensors, &m->layers[l], l, err);
    if (!st)
        st = model_bind_check_all_taken(b, arch, err);
    if (!st)
        st = check_long(m, err);
    if (!m->output)
        m->output = m->token_embd;
    return st;
}

/* Which layers see everything: each one after a whole number of periods, or a list says 0. */
struct pattern {
    uint32_t period; /* 0: none */
    const struct gguf_value *list;
};

static enum status model_bind_read_pattern(struct pattern *p, const struct model *m,
                                           const struct arch *arch, const struct gguf *g,
                                           struct err *err)
{
    char key[CONFIG_KEY];
    config_name(key, arch, "attention.sliding_window_pattern");
    const struct gguf_value *v = gguf_value(g, key);
    *p = (struct pattern){.period = arch->global_period};
    if (!v)
        return STATUS_OK;
    if (v->type != GGUF_ARRAY)
        return config_whole(g, key, UINT32_MAX, &p->period, err);
    if (!gguf_type_is_integer(v->element) || v->count != m->config.n_layers)
        return err_param(err, STATUS_INVALID, key,
                         "%s: expected a whole number or an array of %u, found %llu of type %s",
                         key, m->config.n_layers, (unsigned long long)v->count,
                         gguf_type_name(v->element));
    p->list = v;
    return STATUS_OK;
}

static enum status set_windows(struct model *m, const struct arch *arch, const struct gguf *g,
                               struct err *err)
{
    struct pattern p;
    enum status st = model_bind_read_pattern(&p, m, arch, g, err);
    for (uint32_t l = 0; l < m->config.n_layers && !st; l++) {
        bool global = p.period > 0 && (l + 1) % p.period == 0;
        if (p.list)
            global = gguf_integer(p.list, l) == 0;
        if (arch->local_rope_base > 0 && m->config.window == 0)
            global = true; /* all layers are alike */
        m->layers[l].window = global ? 0 : m->config.window;
        m->layers[l].rope = global || m->config.n_ropes == 1 ? ROPE_MAIN : ROPE_LOCAL;
    }
    return st;
}

/* The vocabulary's size is what the embedding has rows for. */
static enum status model_bind_read_vocab(struct model_config *c, const struct gguf *g,
                                         struct err *err)
{
    const struct tensor *embd = gguf_tensor(g, "token_embd.weight");
    if (!embd)
        return err_param(err, STATUS_INVALID, "token_embd.weight",
                         "tensor token_embd.weight is missing");
    if (embd->dims[1] < 1 || embd->dims[1] > LIMIT_MODEL_VOCAB)
        return err_param(err, STATUS_INVALID, embd->name,
                         "tensor %s: expected 1 to %u rows, found %llu", embd->name,
                         LIMIT_MODEL_VOCAB, (unsigned long long)embd->dims[1]);
    c->n_vocab = (uint32_t)embd->dims[1];
    char key[CONFIG_KEY];
    snprintf(key, sizeof key, "%s.vocab_size", c->arch);
    uint32_t stated = c->n_vocab;
    if (gguf_value(g, key) && gguf_get_u32(g, key, &stated, err))
        return err->code;
    if (stated != c->n_vocab)
        return err_param(err, STATUS_INVALID, key, "%s: expected the embedding's %u rows, found %u",
                         key, c->n_vocab, stated);
    return STATUS_OK;
}

/* Slices that the layers' fused tensors are cut into. */
static size_t count_slices(const struct model_config *c, const struct arch *arch)
{
    size_t n = 0;
    for (size_t i = 0; i < arch->n_layer_tensors; i++)
        for (const struct arch_part *p = arch->layer_tensors[i].parts; p && p->rows; p++)
            n++;
    return n * c->n_layers;
}

static enum status model_bind_allocate(struct model **out, const struct model_config *c,
                                       const struct arch *arch, struct err *err)
{
    size_t slices = count_slices(c, arch);
    struct model *m = mem_zalloc(sizeof *m);
    *out = m;
    if (m) {
        m->config = *c;
        m->layers = mem_array(c->n_layers, sizeof *m->layers);
        m->slices = slices ? mem_array(slices, sizeof *m->slices) : NULL;
    }
    if (!m || !m->layers || (slices && !m->slices))
        return err_set(err, STATUS_NO_MEMORY, "no memory for a model of %u layers", c->n_layers);
    return STATUS_OK;
}

enum status model_bind(struct model **out, const struct gguf *g, struct err *err)
{
    const struct arch *arch = NULL;
    enum status st = arch_of(&arch, g, err);
    if (st)
        return st;
    struct model_config config;
    st = config_read(&config, arch, g, err);
    if (!st)
        st = model_bind_read_vocab(&config, g, err);
    if (st)
        return st;
    struct binder b = {.g = g, .taken = mem_array(gguf_tensor_count(g), sizeof *b.taken)};
    st = b.taken ? model_bind_allocate(&b.m, &config, arch, err)
                 : err_set(err, STATUS_NO_MEMORY, "no memory to bind a model");
    if (!st)
        st = bind_tensors(&b, arch, err);
    if (!st)
        st = set_windows(b.m, arch, g, err);
    mem_free(b.taken);
    if (st)
        model_free(b.m);
    else
        *out = b.m;
    return st;
}
