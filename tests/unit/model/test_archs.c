/* What binding makes of each architecture, and what a bad file's error says. */
#include "support/cmocka_all.h"
#include "support/tiny_model.h"

#include "model/source.h"

#define GOLDEN "tests/golden/relatives/"

static struct model *bind(const char *path, struct gguf **g)
{
    struct model *m = NULL;
    struct err err = {0};
    if (source_open(g, path, &err) || source_model(&m, *g, &err))
        fail_msg("%s", err.text);
    return m;
}

static void unbind(struct model *m, struct gguf *g)
{
    model_free(m);
    gguf_close(g);
}

static void a_fused_tensor_is_bound_in_rows(void **state)
{
    (void)state;
    static const char *const paths[] = {GOLDEN "phi3.gguf", GOLDEN "phi3"};
    for (size_t i = 0; i < 2; i++) {
        struct gguf *g;
        struct model *m = bind(paths[i], &g);
        const struct model_layer *l = &m->layers[1];
        const struct tensor *qkv = gguf_tensor(g, "blk.1.attn_qkv.weight");
        const struct tensor *up = gguf_tensor(g, "blk.1.ffn_up.weight");
        const char *rows = qkv->data;
        size_t row = tensor_row_bytes(qkv->type, 64);
        assert_int_equal(m->n_slices, 2 * 5);
        assert_ptr_equal(l->wq->data, rows);
        assert_ptr_equal(l->wk->data, rows + 64 * row);
        assert_ptr_equal(l->wv->data, rows + 96 * row);
        assert_int_equal(l->wv->dims[1], 32);
        assert_int_equal(l->wq->size + l->wk->size + l->wv->size, qkv->size);
        assert_ptr_equal(l->w_gate->data, up->data);
        assert_ptr_equal(l->w_up->data, (const char *)up->data + up->size / 2);
        assert_int_equal(l->w_up->dims[1], 96);
        assert_int_equal(m->config.n_rot, 24);
        assert_int_equal(l->window, 18);
        assert_int_equal(m->config.rope[ROPE_MAIN].scaling, ROPE_SCALING_LONG);
        assert_int_equal(m->config.rope[ROPE_MAIN].n_ctx_original, 64);
        assert_int_equal(m->rope_factors_long->dims[0], 12);
        unbind(m, g);
    }
}

static void each_architecture_has_its_features(void **state)
{
    (void)state;
    static const char *const names[] = {"qwen2", "qwen3"};
    for (size_t i = 0; i < 4; i++) {
        char path[64];
        struct gguf *g;
        snprintf(path, sizeof path, GOLDEN "%s%s", names[i / 2], i % 2 ? ".gguf" : "");
        struct model *m = bind(path, &g);
        const struct model_layer *l = &m->layers[0];
        assert_string_equal(m->config.arch, names[i / 2]);
        assert_int_equal(m->config.rope_style, ROPE_HALVES);
        assert_true((l->bq != NULL) == (i < 2) && (l->bv != NULL) == (i < 2));
        assert_true((l->q_norm != NULL) == (i >= 2) && (l->k_norm != NULL) == (i >= 2));
        assert_int_equal(m->config.head_dim, i < 2 ? 16 : 24);
        assert_int_equal(l->window, 0);
        assert_ptr_equal(m->output, m->token_embd);
        unbind(m, g);
    }
}

struct bad {
    const char *arch;
    bool head_norms, biases;
    const char *wrong_shape, *wrong_type;
    void (*more)(struct gguf_writer *w);
    const char *words[3];
};

static void more_factors(struct gguf_writer *w)
{
    gguf_writer_tensor(w, "rope_factors_long.weight", TENSOR_F32, 1, (uint64_t[]){12}, NULL);
}

static void more_yarn(struct gguf_writer *w)
{
    gguf_writer_string(w, "qwen3.rope.scaling.type", "yarn");
    gguf_writer_f32(w, "qwen3.rope.scaling.factor", 2);
    gguf_writer_u32(w, "qwen3.rope.scaling.original_context_length", 64);
    gguf_writer_f32(w, "qwen3.rope.scaling.yarn_ext_factor", 0.5f);
}

static void more_experts(struct gguf_writer *w)
{
    gguf_writer_u32(w, "qwen3.expert_count", 8);
}

static const struct bad bads[] = {
    {.arch = "qwen2", .words = {"blk.0.attn_q.bias", "missing"}},
    {.arch = "qwen2", .head_norms = true, .biases = true, .words = {"blk.0.attn_", "no part of"}},
    {.arch = "qwen3", .words = {"blk.0.attn_q_norm.weight", "missing"}},
    {.arch = "qwen3",
     .head_norms = true,
     .wrong_shape = "blk.1.attn_k_norm.weight",
     .words = {"blk.1.attn_k_norm.weight", "expected shape [24]", "found [48]"}},
    {.arch = "qwen3",
     .head_norms = true,
     .wrong_type = "blk.2.attn_q_norm.weight",
     .words = {"blk.2.attn_q_norm.weight", "expected type F32", "found F16"}},
    {.arch = "qwen3",
     .head_norms = true,
     .more = more_factors,
     .words = {"rope_factors_long.weight", "no part of"}},
    {.arch = "qwen3",
     .head_norms = true,
     .more = more_yarn,
     .words = {"qwen3.rope.scaling.yarn_ext_factor", "expected 1", "found 0.5"}},
    {.arch = "qwen3", .head_norms = true, .more = more_experts, .words = {"qwen3.expert_count"}},
    {.arch = "phi3", .words = {"blk.0.attn_qkv.weight", "missing"}},
};

static void bad_files_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        struct tiny_model t = tiny_model_default;
        struct err err = {0};
        t.arch = bads[i].arch;
        t.head_norms = bads[i].head_norms;
        t.biases = bads[i].biases;
        t.wrong_shape = bads[i].wrong_shape;
        t.wrong_type = bads[i].wrong_type;
        t.more = bads[i].more;
        assert_int_not_equal(tiny_model_bind(&t, &err), STATUS_OK);
        for (size_t w = 0; w < 3 && bads[i].words[w]; w++)
            if (!strstr(err.text, bads[i].words[w]))
                fail_msg("case %zu: %s", i, err.text);
        tiny_model_fini(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fused_tensor_is_bound_in_rows),
        cmocka_unit_test(each_architecture_has_its_features),
        cmocka_unit_test(bad_files_are_refused),
    };
    return cmocka_run_group_tests_name("archs", tests, NULL, NULL);
}
