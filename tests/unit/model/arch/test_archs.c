/* What binding makes of each architecture, and what a bad file's error says. */
#include "support/cmocka_all.h"
#include "support/tiny_model.h"

#include "model/arch/arch.h"
#include "model/load/model_file.h"

#include <math.h>

#define GOLDEN "tests/golden/relatives/"
#define ARCH   "tests/golden/arch/"

static struct model *bind(const char *path, struct model_file *f)
{
    struct model *m = NULL;
    struct err err = {0};
    if (model_file_open(f, path, &err) || model_file_load(&m, f, &err))
        fail_msg("%s", err.text);
    return m;
}

static void unbind(struct model *m, struct model_file *f)
{
    model_free(m);
    model_file_close(f);
}

static void a_fused_tensor_is_bound_in_rows(void **state)
{
    (void)state;
    static const char *const paths[] = {GOLDEN "phi3.gguf", GOLDEN "phi3"};
    for (size_t i = 0; i < 2; i++) {
        struct model_file f;
        struct model *m = bind(paths[i], &f);
        const struct model_layer *l = &m->layers[1];
        const struct tensor *qkv = gguf_tensor(f.gguf, "blk.1.attn_qkv.weight");
        const struct tensor *up = gguf_tensor(f.gguf, "blk.1.ffn_up.weight");
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
        unbind(m, &f);
    }
}

static void each_architecture_has_its_features(void **state)
{
    (void)state;
    static const char *const names[] = {"qwen2", "qwen3"};
    for (size_t i = 0; i < 4; i++) {
        char path[64];
        struct model_file f;
        snprintf(path, sizeof path, GOLDEN "%s%s", names[i / 2], i % 2 ? ".gguf" : "");
        struct model *m = bind(path, &f);
        const struct model_layer *l = &m->layers[0];
        assert_string_equal(m->config.arch, names[i / 2]);
        assert_int_equal(m->config.rope_style, ROPE_HALVES);
        assert_true((l->bq != NULL) == (i < 2) && (l->bv != NULL) == (i < 2));
        assert_true((l->q_norm != NULL) == (i >= 2) && (l->k_norm != NULL) == (i >= 2));
        assert_int_equal(m->config.head_dim, i < 2 ? 16 : 24);
        assert_int_equal(l->window, 0);
        assert_ptr_equal(m->output, m->token_embd);
        unbind(m, &f);
    }
}

static void olmo2_has_its_features(void **state)
{
    (void)state;
    static const char *const paths[] = {GOLDEN "olmo2.gguf", GOLDEN "olmo2", GOLDEN "olmo2_tied"};
    for (size_t i = 0; i < 3; i++) {
        struct model_file f;
        struct model *m = bind(paths[i], &f);
        const struct model_layer *l = &m->layers[1];
        assert_true(!l->attn_norm && !l->ffn_norm && l->post_attn_norm && l->post_ffn_norm);
        assert_int_equal(l->q_norm->dims[0], i < 2 ? 96 : 64);
        assert_int_equal(l->k_norm->dims[0], i < 2 ? 48 : 64);
        assert_int_equal(m->config.rope_style, ROPE_HALVES);
        assert_true(m->config.norm_eps == (i < 2 ? 1e-6f : 1e-5f));
        assert_int_equal(m->output == m->token_embd, i == 2);
        unbind(m, &f);
    }
}

static void gpt2_has_its_features(void **state)
{
    (void)state;
    static const char *const paths[] = {ARCH "gpt2.gguf", ARCH "gpt2", ARCH "gpt2_erf"};
    for (size_t i = 0; i < 3; i++) {
        struct model_file f;
        struct model *m = bind(paths[i], &f);
        const struct model_config *c = &m->config;
        const struct model_layer *l = &m->layers[0];
        const struct tensor *qkv = gguf_tensor(f.gguf, "blk.0.attn_qkv.weight");
        const struct tensor *bias = gguf_tensor(f.gguf, "blk.0.attn_qkv.bias");
        assert_true(c->norm == NORM_LAYER && c->position == POSITION_LEARNED);
        assert_int_equal(c->activation, i < 2 ? ACTIVATION_GELU_TANH : ACTIVATION_GELU_ERF);
        assert_int_equal(m->position_embd->dims[1], 128);
        assert_int_equal(c->d_ff, 4 * c->d_model);
        assert_true(m->output_norm_bias && l->attn_norm_bias && l->ffn_norm_bias);
        assert_ptr_equal(l->wq->data, qkv->data);
        assert_int_equal(l->wv->dims[1], c->d_model);
        assert_ptr_equal(l->bk->data, (const float *)bias->data + c->d_model);
        assert_true(!l->w_gate && l->b_up && l->b_down && l->bo);
        assert_ptr_equal(m->output, m->token_embd);
        unbind(m, &f);
    }
}

static void gemma3_has_its_features(void **state)
{
    (void)state;
    static const char *const paths[] = {ARCH "gemma3.gguf", ARCH "gemma3"};
    for (size_t i = 0; i < 2; i++) {
        struct model_file f;
        struct model *m = bind(paths[i], &f);
        const struct model_config *c = &m->config;
        assert_true(c->norm == NORM_RMS && c->activation == ACTIVATION_GELU_TANH);
        assert_true(c->head_dim == 48 && c->n_ropes == 2 && c->rope_style == ROPE_HALVES);
        assert_true(c->rope[ROPE_MAIN].base == 1e6f && c->rope[ROPE_LOCAL].base == 1e4f);
        assert_true(fabsf(c->embedding_scale - sqrtf(32)) < 1e-6f);
        assert_true(fabsf(c->attention_scale - 1 / sqrtf(48)) < 1e-7f);
        for (uint32_t l = 0; l < 7; l++) {
            assert_int_equal(m->layers[l].window, l == 5 ? 0 : 20);
            assert_int_equal(m->layers[l].rope, l == 5 ? ROPE_MAIN : ROPE_LOCAL);
        }
        const float *norm = m->layers[3].q_norm->data; /* stored as less one */
        assert_true(norm[0] >= 0.5f && norm[0] <= 1.5f && norm[47] >= 0.5f && norm[47] <= 1.5f);
        assert_true(m->layers[0].post_attn_norm && m->layers[0].post_ffn_norm);
        assert_ptr_equal(m->output, m->token_embd);
        unbind(m, &f);
    }
}

static void gemma3_has_what_its_config_says(void **state)
{
    (void)state;
    struct model_file f;
    struct model *m = bind(ARCH "gemma3_linear", &f);
    const struct model_rope *main = &m->config.rope[ROPE_MAIN],
                            *local = &m->config.rope[ROPE_LOCAL];
    assert_true(main->scaling == ROPE_SCALING_LINEAR && main->factor == 8 && main->base == 5000);
    assert_true(local->scaling == ROPE_SCALING_NONE && local->factor == 1 && local->base == 300);
    assert_true(fabsf(m->config.attention_scale - 1 / sqrtf(20)) < 1e-6f);
    assert_true(m->layers[0].window == 20 && m->layers[1].window == 20 && m->layers[2].window == 0);
    unbind(m, &f);
}

static void more_period(struct gguf_writer *w)
{
    gguf_writer_u32(w, "llama.attention.sliding_window", 8);
    gguf_writer_u32(w, "llama.attention.sliding_window_pattern", 2);
}

static void more_list(struct gguf_writer *w)
{
    static const uint32_t windows[] = {0, 1, 0};
    gguf_writer_u32(w, "llama.attention.sliding_window", 8);
    gguf_writer_array(w, "llama.attention.sliding_window_pattern", GGUF_U32, 3, windows,
                      sizeof windows);
}

/* Which layers have the window, as a period or one by one. */
static void windows_follow_the_pattern(void **state)
{
    (void)state;
    static const uint32_t expected[2][3] = {{8, 0, 8}, {0, 8, 0}};
    for (size_t i = 0; i < 2; i++) {
        struct tiny_model t = tiny_model_default;
        struct err err = {0};
        t.more = i ? more_list : more_period;
        if (tiny_model_bind(&t, &err) != STATUS_OK)
            fail_msg("%s", err.text);
        for (uint32_t l = 0; l < 3; l++)
            assert_int_equal(t.model->layers[l].window, expected[i][l]);
        tiny_model_fini(&t);
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

static void more_short_list(struct gguf_writer *w)
{
    static const uint32_t windows[] = {0, 1};
    gguf_writer_array(w, "llama.attention.sliding_window_pattern", GGUF_U32, 2, windows,
                      sizeof windows);
}

static void more_soft_cap(struct gguf_writer *w)
{
    gguf_writer_f32(w, "gemma3.final_logit_softcapping", 30);
}

static void more_window(struct gguf_writer *w)
{
    gguf_writer_u32(w, "olmo2.attention.sliding_window", 8);
}

static const struct bad bads[] = {
    {.arch = "olmo2", .words = {"blk.0.attn_q_norm.weight", "missing"}},
    {.arch = "olmo2",
     .head_norms = true,
     .words = {"blk.0.attn_q_norm.weight", "expected shape [192]", "found [24]"}},
    {.arch = "olmo2", .more = more_window, .words = {"olmo2.attention.sliding_window"}},
    {.arch = "llama",
     .more = more_short_list,
     .words = {"llama.attention.sliding_window_pattern", "an array of 3", "found 2"}},
    {.arch = "gpt2", .words = {"gpt2.attention.layer_norm_epsilon"}},
    {.arch = "gemma3", .words = {"blk.0.attn_q_norm.weight", "missing"}},
    {.arch = "gemma3", .more = more_soft_cap, .words = {"gemma3.final_logit_softcapping"}},
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

/* Each architecture is found by its name and by each of its model types, each row by its name. */
static void every_row_is_found(void **state)
{
    (void)state;
    const struct arch *a;
    const struct hf_type *type;
    char name[ARCH_NAME_BYTES];
    uint32_t layer;
    for (size_t i = 0; (a = arch_at(i)); i++) {
        assert_ptr_equal(arch_find(a->name, strlen(a->name)), a);
        for (const struct hf_type *t = a->hf.types; t->name; t++) {
            assert_ptr_equal(arch_find_type(t->name, &type), a);
            assert_ptr_equal(type, t);
        }
        for (size_t k = 0; k < a->n_tensors; k++) {
            arch_gguf_name(name, &a->tensors[k], ARCH_NO_LAYER);
            assert_ptr_equal(arch_find_tensor(a, name, &layer), &a->tensors[k]);
            assert_int_equal(layer, ARCH_NO_LAYER);
        }
        for (size_t k = 0; k < a->n_layer_tensors; k++) {
            arch_gguf_name(name, &a->layer_tensors[k], 17);
            assert_ptr_equal(arch_find_tensor(a, name, &layer), &a->layer_tensors[k]);
            assert_int_equal(layer, 17);
        }
    }
    assert_null(arch_find("llam", 4));
    assert_null(arch_find_type("gemma3", &type)); /* GGUF's name, no model type */
    static const char *const others[] = {"attn_q.weight", "blk.attn_q.weight",
                                         "blk.03.attn_q.weight", "blk.3.token_embd.weight",
                                         "blk.4294967295.attn_q.weight"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_null(arch_find_tensor(&arch_llama, others[i], &layer));
}

static void a_folder_has_its_own_names(void **state)
{
    (void)state;
    char name[ARCH_NAME_BYTES];
    uint32_t layer;
    const struct arch_tensor *row = arch_find_tensor(&arch_gpt2, "blk.3.attn_qkv.weight", &layer);
    assert_string_equal(arch_hf_name(name, &arch_gpt2, arch_gpt2.hf.prefix, row, layer),
                        "transformer.h.3.attn.c_attn.weight");
    row = arch_find_tensor(&arch_llama, "output_norm.weight", &layer);
    assert_string_equal(arch_hf_name(name, &arch_llama, "", row, layer), "norm.weight");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fused_tensor_is_bound_in_rows),
        cmocka_unit_test(each_architecture_has_its_features),
        cmocka_unit_test(olmo2_has_its_features),
        cmocka_unit_test(gpt2_has_its_features),
        cmocka_unit_test(gemma3_has_its_features),
        cmocka_unit_test(gemma3_has_what_its_config_says),
        cmocka_unit_test(windows_follow_the_pattern),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(every_row_is_found),
        cmocka_unit_test(a_folder_has_its_own_names),
    };
    return cmocka_run_group_tests_name("archs", tests, NULL, NULL);
}
