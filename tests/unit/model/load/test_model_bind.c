/* Binding a model: what is read from a good file, and what a bad one's error says. */
#include "support/cmocka_all.h"
#include "support/tiny_model.h"

#include "base/limits.h"

static void binds_a_good_file(void **state)
{
    (void)state;
    struct tiny_model t = tiny_model_default;
    struct err err = {0};
    t.biases = t.rope_factors = true;
    assert_int_equal(tiny_model_bind(&t, &err), STATUS_OK);
    const struct model_config *c = &t.model->config;
    assert_string_equal(c->arch, "llama");
    assert_int_equal(c->n_layers, 3);
    assert_int_equal(c->n_heads, 8);
    assert_int_equal(c->n_kv_heads, 2);
    assert_int_equal(c->head_dim, 24);
    assert_int_equal(c->n_rot, 24);
    assert_int_equal(c->n_vocab, 80);
    assert_int_equal(c->n_ctx_train, 512);
    assert_int_equal(c->rope_style, ROPE_NEIGHBOURS);
    assert_int_equal(c->rope[ROPE_MAIN].scaling, ROPE_SCALING_NONE);
    assert_true(c->rope[ROPE_MAIN].base == 10000.0f && c->rope[ROPE_MAIN].factor == 1.0f &&
                c->norm_eps == 1e-5f);
    assert_ptr_equal(t.model->output, t.model->token_embd); /* tied */
    assert_non_null(t.model->rope_factors);
    assert_string_equal(t.model->layers[2].w_down->name, "blk.2.ffn_down.weight");
    assert_string_equal(t.model->layers[1].bo->name, "blk.1.attn_output.bias");
    assert_int_equal(model_kv_block_bytes(c, KV_F16), 3 * 2 * 2 * KV_BLOCK * 32 * 2);
    tiny_model_fini(&t);
}

static void fills_in_what_is_absent(void **state)
{
    (void)state;
    const char *const absent[] = {"attention.head_count_kv", "rope.dimension_count", "vocab_size"};
    for (size_t i = 0; i < 3; i++) {
        struct tiny_model t = tiny_model_default;
        struct err err = {0};
        t.n_kv_heads = t.n_heads;
        t.skip = absent[i];
        assert_int_equal(tiny_model_bind(&t, &err), STATUS_OK);
        assert_int_equal(t.model->config.n_kv_heads, 8);
        assert_int_equal(t.model->config.n_rot, 24);
        assert_null(t.model->layers[0].bq);
        tiny_model_fini(&t);
    }
}

static void more_untied(struct gguf_writer *w)
{
    gguf_writer_tensor(w, "output.weight", TENSOR_F32, 2, (uint64_t[]){64, 80}, NULL);
}

static void more_linear(struct gguf_writer *w)
{
    gguf_writer_string(w, "llama.rope.scaling.type", "linear");
    gguf_writer_f32(w, "llama.rope.scaling.factor", 4.0f);
    gguf_writer_f32(w, "llama.rope.freq_base", 5e5f);
}

static void more_whole_yarn(struct gguf_writer *w)
{
    gguf_writer_string(w, "llama.rope.scaling.type", "yarn");
    gguf_writer_f32(w, "llama.rope.scaling.factor", 8.0f);
    gguf_writer_u32(w, "llama.rope.scaling.original_context_length", 64);
    gguf_writer_f32(w, "llama.rope.scaling.attn_factor", 0.5f);
    gguf_writer_f32(w, "llama.rope.scaling.yarn_attn_factor", 3.0f);
    gguf_writer_f32(w, "llama.rope.scaling.yarn_beta_slow", 2.0f);
    gguf_writer_u32(w, "llama.attention.sliding_window", 9);
    gguf_writer_f32(w, "llama.attention.scale", 0.25f);
}

static void reads_yarn_window_and_scale(void **state)
{
    (void)state;
    struct tiny_model t = tiny_model_default;
    struct err err = {0};
    t.more = more_whole_yarn;
    assert_int_equal(tiny_model_bind(&t, &err), STATUS_OK);
    const struct model_rope *r = &t.model->config.rope[ROPE_MAIN];
    assert_int_equal(r->scaling, ROPE_SCALING_YARN);
    assert_true(r->factor == 8 && r->attn_factor == 1.5f && r->n_ctx_original == 64);
    assert_true(r->beta_fast == 32 && r->beta_slow == 2);
    assert_int_equal(t.model->layers[2].window, 9);
    assert_true(t.model->config.attention_scale == 0.25f);
    tiny_model_fini(&t);
}

static void reads_optional_features(void **state)
{
    (void)state;
    struct tiny_model t = tiny_model_default;
    struct err err = {0};
    t.more = more_untied;
    assert_int_equal(tiny_model_bind(&t, &err), STATUS_OK);
    assert_string_equal(t.model->output->name, "output.weight");
    tiny_model_fini(&t);

    t = tiny_model_default;
    t.more = more_linear;
    assert_int_equal(tiny_model_bind(&t, &err), STATUS_OK);
    assert_int_equal(t.model->config.rope[ROPE_MAIN].scaling, ROPE_SCALING_LINEAR);
    assert_true(t.model->config.rope[ROPE_MAIN].factor == 4.0f &&
                t.model->config.rope[ROPE_MAIN].base == 5e5f);
    tiny_model_fini(&t);
}

/* One wrong thing each, and words its error must have. */
struct bad_case {
    const char *skip, *wrong_key;
    uint32_t wrong_value;
    const char *wrong_type, *wrong_shape;
    enum status status;
    const char *words[3];
};

static const struct bad_case bad_cases[] = {
    {.skip = "block_count", .status = STATUS_NOT_FOUND, .words = {"llama.block_count"}},
    {.skip = "attention.layer_norm_rms_epsilon",
     .status = STATUS_NOT_FOUND,
     .words = {"layer_norm_rms_epsilon"}},
    {.wrong_key = "block_count",
     .wrong_value = 0,
     .status = STATUS_INVALID,
     .words = {"llama.block_count", "found 0"}},
    {.wrong_key = "block_count",
     .wrong_value = LIMIT_MODEL_LAYERS + 1,
     .status = STATUS_INVALID,
     .words = {"llama.block_count", "1024", "1025"}},
    {.wrong_key = "embedding_length",
     .wrong_value = LIMIT_MODEL_WIDTH + 1,
     .status = STATUS_INVALID,
     .words = {"llama.embedding_length", "1048576"}},
    {.wrong_key = "embedding_length",
     .wrong_value = 128,
     .status = STATUS_INVALID,
     .words = {"token_embd.weight", "[128, 80]", "[64, 80]"}},
    {.wrong_key = "attention.head_count",
     .wrong_value = LIMIT_MODEL_HEADS + 1,
     .status = STATUS_INVALID,
     .words = {"head_count", "4096", "4097"}},
    {.wrong_key = "attention.head_count_kv",
     .wrong_value = 3,
     .status = STATUS_INVALID,
     .words = {"head_count_kv", "divisor", "found 3"}},
    {.wrong_key = "attention.key_length",
     .wrong_value = LIMIT_MODEL_HEAD_DIM + 1,
     .status = STATUS_INVALID,
     .words = {"key_length", "256", "257"}},
    {.wrong_key = "attention.value_length",
     .wrong_value = 32,
     .status = STATUS_UNSUPPORTED,
     .words = {"value_length", "24", "32"}},
    {.wrong_key = "rope.dimension_count",
     .wrong_value = 7,
     .status = STATUS_INVALID,
     .words = {"rope.dimension_count", "even", "found 7"}},
    {.wrong_key = "rope.dimension_count",
     .wrong_value = 26,
     .status = STATUS_INVALID,
     .words = {"rope.dimension_count", "24", "26"}},
    {.wrong_key = "vocab_size",
     .wrong_value = 81,
     .status = STATUS_INVALID,
     .words = {"llama.vocab_size", "80", "81"}},
    {.skip = "attention.key_length",
     .wrong_key = "attention.head_count",
     .wrong_value = 6,
     .status = STATUS_INVALID,
     .words = {"llama.embedding_length", "multiple", "6"}},
    {.skip = "token_embd.weight",
     .status = STATUS_INVALID,
     .words = {"token_embd.weight", "missing"}},
    {.skip = "blk.1.ffn_up.weight",
     .status = STATUS_INVALID,
     .words = {"blk.1.ffn_up.weight", "missing"}},
    {.wrong_shape = "blk.2.attn_q.weight",
     .status = STATUS_INVALID,
     .words = {"blk.2.attn_q.weight", "[64, 192]", "[128, 192]"}},
    {.wrong_type = "blk.0.attn_norm.weight",
     .status = STATUS_UNSUPPORTED,
     .words = {"blk.0.attn_norm.weight", "F32", "F16"}},
};

static void assert_words(const struct err *err, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n && words[i]; i++)
        if (!strstr(err->text, words[i]))
            fail_msg("\"%s\" is not in \"%s\"", words[i], err->text);
}

static void refuses_what_is_wrong(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_cases / sizeof bad_cases[0]; i++) {
        const struct bad_case *b = &bad_cases[i];
        struct tiny_model t = tiny_model_default;
        struct err err = {0};
        t.skip = b->skip;
        t.wrong_key = b->wrong_key;
        t.wrong_value = b->wrong_value;
        t.wrong_type = b->wrong_type;
        t.wrong_shape = b->wrong_shape;
        enum status st = tiny_model_bind(&t, &err);
        assert_words(&err, b->words, 3);
        assert_int_equal(st, b->status);
        assert_null(t.model);
        tiny_model_fini(&t);
    }
}

static void refuses_an_unknown_architecture(void **state)
{
    (void)state;
    struct tiny_model t = tiny_model_default;
    struct err err = {0};
    t.arch = "lemma";
    assert_int_equal(tiny_model_bind(&t, &err), STATUS_UNSUPPORTED);
    assert_words(&err, (const char *const[]){"general.architecture", "llama", "lemma"}, 3);
    tiny_model_fini(&t);
}

static void more_yarn(struct gguf_writer *w)
{
    gguf_writer_string(w, "llama.rope.scaling.type", "yarn");
    gguf_writer_f32(w, "llama.rope.scaling.factor", 4.0f);
}

static void more_dynamic(struct gguf_writer *w)
{
    gguf_writer_string(w, "llama.rope.scaling.type", "dynamic");
}

static void more_experts(struct gguf_writer *w)
{
    gguf_writer_u32(w, "llama.expert_count", 8);
}

static void more_unknown_tensor(struct gguf_writer *w)
{
    gguf_writer_tensor(w, "blk.0.attn_q_norm.weight", TENSOR_F32, 1, (uint64_t[]){24}, NULL);
}

static void more_zero_factor(struct gguf_writer *w)
{
    gguf_writer_string(w, "llama.rope.scaling.type", "linear");
    gguf_writer_f32(w, "llama.rope.scaling.factor", 0.0f);
}

static void refuses_features_it_lacks(void **state)
{
    (void)state;
    static const struct {
        void (*more)(struct gguf_writer *w);
        enum status status;
        const char *words[2];
    } cases[] = {
        {more_dynamic, STATUS_UNSUPPORTED, {"llama.rope.scaling.type", "dynamic"}},
        {more_yarn, STATUS_INVALID, {"llama.rope.scaling.original_context_length"}},
        {more_experts, STATUS_UNSUPPORTED, {"llama.expert_count"}},
        {more_unknown_tensor, STATUS_UNSUPPORTED, {"blk.0.attn_q_norm.weight"}},
        {more_zero_factor, STATUS_INVALID, {"llama.rope.scaling.factor", "positive"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tiny_model t = tiny_model_default;
        struct err err = {0};
        t.more = cases[i].more;
        enum status st = tiny_model_bind(&t, &err);
        assert_words(&err, cases[i].words, 2);
        assert_int_equal(st, cases[i].status);
        tiny_model_fini(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(binds_a_good_file),
        cmocka_unit_test(fills_in_what_is_absent),
        cmocka_unit_test(reads_optional_features),
        cmocka_unit_test(reads_yarn_window_and_scale),
        cmocka_unit_test(refuses_what_is_wrong),
        cmocka_unit_test(refuses_an_unknown_architecture),
        cmocka_unit_test(refuses_features_it_lacks),
    };
    return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
