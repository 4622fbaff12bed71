/* Hugging Face folders: what is read from a good one, and what a bad one's error says. */
#include "support/cmocka_all.h"
#include "support/hf_folder_writer.h"

#include "base/limits.h"
#include "model/load/hf_folder.h"
#include "model/load/model_file.h"

#include <math.h>

/* Opens and binds; *file is to be closed either way. */
static enum status open_model(struct hf_folder_writer *f, struct model_file *file, struct model **m,
                              struct err *err)
{
    *m = NULL;
    enum status st = model_file_open(file, f->path, err);
    return st ? st : model_file_load(m, file, err);
}

static void reads_a_good_folder(void **state)
{
    (void)state;
    static const char *const dtypes[] = {"F16", "BF16", "F32"};
    for (size_t i = 0; i < 3; i++) {
        struct hf_folder_writer f = {.dtype = dtypes[i]};
        struct model_file file;
        struct model *m;
        struct err err = {0};
        hf_writer_write(&f);
        if (open_model(&f, &file, &m, &err) != STATUS_OK)
            fail_msg("%s", err.text);
        const struct model_config *c = &m->config;
        assert_string_equal(c->arch, "llama");
        assert_true(c->n_layers == 1 && c->d_model == 8 && c->d_ff == 12 && c->n_heads == 2);
        assert_true(c->n_kv_heads == 1 && c->head_dim == 4 && c->n_rot == 4 && c->n_vocab == 10);
        assert_true(c->n_ctx_train == 64 && c->norm_eps == 1e-5f &&
                    c->rope[ROPE_MAIN].base == 1000);
        assert_int_equal(c->rope_style, ROPE_HALVES);
        assert_ptr_equal(m->output, m->token_embd);
        assert_int_equal(m->layers[0].attn_norm->type, TENSOR_F32);
        assert_string_equal(tensor_type_name(m->layers[0].wq->type), dtypes[i]);
        assert_true(gguf_tensor_offset(file.gguf, m->layers[0].wq) > 8); /* where it was */
        model_free(m);
        model_file_close(&file);
        hf_writer_remove(&f);
    }
}

/* One wrong thing each, and words of the error; the folder's path is always there. */
static const struct bad {
    struct hf_folder_writer f;
    enum status status;
    const char *words[2];
} bads[] = {
    {{.config = "\"model_type\": \"t5\""}, STATUS_UNSUPPORTED, {"model_type", "llama, mistral"}},
    {{.config = "-\"model_type\""}, STATUS_INVALID, {"model_type", "found nothing"}},
    {{.config = "-\"hidden_size\""}, STATUS_INVALID, {"hidden_size", "found nothing"}},
    {{.config = "\"hidden_size\": 0"}, STATUS_INVALID, {"hidden_size", "found 0"}},
    {{.config = "\"hidden_size\": 8.5"}, STATUS_INVALID, {"hidden_size", "found 8.5"}},
    {{.config = "\"hidden_size\": \"8\""}, STATUS_INVALID, {"hidden_size", "found \"8\""}},
    {{.config = "\"hidden_size\": 4000000000"}, STATUS_INVALID, {"hidden_size", "1048576"}},
    {{.config = "\"hidden_size\": 9"}, STATUS_INVALID, {"hidden_size", "the 2 heads, found 9"}},
    {{.config = "\"num_key_value_heads\": 3"}, STATUS_INVALID, {"num_key_value_heads", "found 3"}},
    {{.config = "\"num_hidden_layers\": 2"},
     STATUS_INVALID,
     {"model.layers.1.input_layernorm.weight", "missing"}},
    {{.config = "\"vocab_size\": 11"}, STATUS_INVALID, {"vocab_size", "10 rows of model.embed"}},
    {{.config = "\"rms_norm_eps\": -1"}, STATUS_INVALID, {"rms_norm_eps", "found -1"}},
    {{.config = "\"hidden_act\": \"gelu\""}, STATUS_UNSUPPORTED, {"hidden_act", "\"gelu\""}},
    {{.config = "\"quantization_config\": {\"bits\": 4}"},
     STATUS_UNSUPPORTED,
     {"quantization_config", "{\"bits\": 4}"}},
    {{.config = "\"tie_word_embeddings\": false"}, STATUS_INVALID, {"lm_head.weight", "missing"}},
    {{.config = "\"tie_word_embeddings\": 1"}, STATUS_INVALID, {"tie_word_embeddings", "found 1"}},
    {{.config = "\"model_type\": \"mistral\", \"sliding_window\": 0.5"},
     STATUS_INVALID,
     {"sliding_window", "found 0.5"}},
    {{.config = "\"rope_theta\": 0"}, STATUS_INVALID, {"rope_theta", "found 0"}},
    {{.config = "\"rope_scaling\": {\"type\": \"dynamic\"}"},
     STATUS_UNSUPPORTED,
     {"rope", "\"dynamic\""}},
    {{.config = "\"rope_scaling\": {\"type\": \"longrope\", \"long_factor\": [1, 2], "
                "\"short_factor\": [1, 0]}"},
     STATUS_INVALID,
     {"rope_scaling.short_factor", "found 0"}},
    {{.config = "\"rope_scaling\": 3"}, STATUS_INVALID, {"rope_scaling", "found 3"}},
    {{.config = "\"rope_scaling\": {\"rope_type\": \"linear\"}"},
     STATUS_INVALID,
     {"rope_scaling.factor", "found nothing"}},
    {{.config = "\"rope_parameters\": {\"rope_type\": \"llama3\", \"factor\": 8, "
                "\"low_freq_factor\": 4, \"high_freq_factor\": 1, "
                "\"original_max_position_embeddings\": 64}"},
     STATUS_INVALID,
     {"rope_parameters.high_freq_factor", "more than low_freq_factor 4"}},
    {{.config = "\"partial_rotary_factor\": 1.5"}, STATUS_INVALID, {"partial_rotary", "1.5"}},
    {{.skip = "model.norm.weight"}, STATUS_INVALID, {"model.norm.weight", "missing"}},
    {{.shape = "model.layers.0.self_attn.k_proj.weight"},
     STATUS_INVALID,
     {"model.layers.0.self_attn.k_proj.weight", "expected shape [8, 4], found [8, 5]"}},
    {{.dtype = "F64"}, STATUS_UNSUPPORTED, {"model.safetensors", "found F64"}},
    {{.more = "model.layers.0.mlp.gate_proj.bias"},
     STATUS_UNSUPPORTED,
     {"gate_proj.bias", "no part of a llama"}},
};

static void bad_folders(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bads / sizeof bads[0]; i++) {
        struct hf_folder_writer f = bads[i].f;
        struct model_file file;
        struct model *m;
        struct err err = {0};
        hf_writer_write(&f);
        enum status st = open_model(&f, &file, &m, &err);
        if (st != bads[i].status || !strstr(err.text, bads[i].words[0]) ||
            !strstr(err.text, bads[i].words[1]) || !strstr(err.text, f.path))
            fail_msg("case %zu: %s: %s", i, status_name(st), err.text);
        model_free(m);
        model_file_close(&file);
        hf_writer_remove(&f);
    }
}

/* What older and newer files write, and tensors that are none of the model's. */
static void takes_what_others_write(void **state)
{
    (void)state;
    static const struct hf_folder_writer folders[] = {
        {.config = "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 1000.0}, "
                   "\"rope_theta\": 5.0"},
        {.config = "\"rope_scaling\": null, \"head_dim\": null, \"sliding_window\": null"},
        {.config = "\"sliding_window\": 32"}, /* transformers' llama has none */
        {.config = "\"model_type\": \"mistral\", \"sliding_window\": 64"},
        {.config = "\"sliding_window\": 8, \"use_sliding_window\": false"},
        {.config = "\"model_type\": \"mistral\", \"hidden_act\": \"silu\""},
        {.config = "-\"tie_word_embeddings\""},
        {.more = "model.layers.0.self_attn.rotary_emb.inv_freq"},
        {.more = "lm_head.weight"}, /* tied: left unread */
    };
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        struct hf_folder_writer f = folders[i];
        struct model_file file;
        struct model *m;
        struct err err = {0};
        hf_writer_write(&f);
        if (open_model(&f, &file, &m, &err) != STATUS_OK)
            fail_msg("case %zu: %s", i, err.text);
        assert_true(m->config.rope[ROPE_MAIN].base == 1000 && m->output == m->token_embd);
        model_free(m);
        model_file_close(&file);
        hf_writer_remove(&f);
    }
}

static void expect_text(const struct gguf *g, const char *key, const char *expected)
{
    struct gguf_string s;
    struct err err;
    assert_int_equal(gguf_get_string(g, key, &s, &err), STATUS_OK);
    assert_int_equal(s.len, strlen(expected));
    assert_memory_equal(s.bytes, expected, s.len);
}

static void reads_template_and_defaults(void **state)
{
    (void)state;
    struct hf_folder_writer f = {.config = "\"eos_token_id\": 5"};
    struct model_file file;
    struct err err = {0};
    float x;
    hf_writer_write(&f);
    hf_writer_put(&f, "tokenizer_config.json",
                  "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"no\"},"
                  " {\"name\": \"default\", \"template\": \"yes\"}]}");
    hf_writer_put(&f, "generation_config.json",
                  "{\"eos_token_id\": [3, 5, 4], \"do_sample\": true, \"temperature\": 0.5}");
    assert_int_equal(model_file_open(&file, f.path, &err), STATUS_OK);
    expect_text(file.gguf, "tokenizer.chat_template", "yes");
    assert_int_equal(gguf_get_f32(file.gguf, "general.sampling.temp", &x, &err), STATUS_OK);
    assert_true(x == 0.5f);
    const struct gguf_value *ends = gguf_value(file.gguf, "tokenizer.ggml.eos_token_ids");
    assert_true(ends && ends->count == 3);
    assert_true(gguf_integer(ends, 0) == 3 && gguf_integer(ends, 1) == 5);
    model_file_close(&file);
    hf_writer_put(&f, "chat_template.jinja", "file");
    hf_writer_put(&f, "generation_config.json", "{\"do_sample\": false, \"temperature\": 9}");
    assert_int_equal(model_file_open(&file, f.path, &err), STATUS_OK);
    expect_text(file.gguf, "tokenizer.chat_template", "file");
    assert_int_equal(gguf_get_f32(file.gguf, "general.sampling.temp", &x, &err), STATUS_OK);
    assert_true(x == 0); /* greedy */
    model_file_close(&file);
    hf_writer_remove(&f);
}

static void bad_files_beside_it(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
        enum status status;
        const char *words;
    } cases[] = {
        {"generation_config.json", "{", STATUS_INVALID, "line 1"},
        {"generation_config.json", "{\"do_sample\": true, \"top_p\": []}", STATUS_INVALID,
         "top_p: expected a number, found"},
        {"generation_config.json", "{\"eos_token_id\": \"x\"}", STATUS_INVALID, "eos_token_id"},
        {"generation_config.json", "{\"eos_token_id\": [1, -1]}", STATUS_INVALID, "found -1"},
        {"tokenizer_config.json", "[]", STATUS_INVALID, "expected a JSON object"},
        {"tokenizer_config.json", "{\"chat_template\": 1}", STATUS_INVALID, "chat_template"},
        {"config.json", "{\"model_type\": \"llama\", \"model_type\": \"llama\"}", STATUS_INVALID,
         "duplicate"},
        {"model.safetensors", "", STATUS_INVALID, "at least 8 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hf_folder_writer f = {0};
        struct model_file file;
        struct err err = {0};
        hf_writer_write(&f);
        hf_writer_put(&f, cases[i].name, cases[i].text);
        enum status st = model_file_open(&file, f.path, &err);
        if (st != cases[i].status || !strstr(err.text, cases[i].words) ||
            !strstr(err.text, cases[i].name))
            fail_msg("case %zu: %s: %s", i, status_name(st), err.text);
        hf_writer_remove(&f);
    }
}

/* A file one byte or one entry larger than its limit. */
static void limits(void **state)
{
    (void)state;
    struct hf_folder_writer f = {0};
    struct model_file file;
    struct err err = {0};
    struct buf text = {0};
    hf_writer_write(&f);
    buf_puts(&text, "{\"eos_token_id\": [");
    for (int i = 0; i <= LIMIT_END_IDS; i++)
        buf_printf(&text, "%s%d", i ? "," : "", i);
    buf_puts(&text, "]}");
    hf_writer_put(&f, "generation_config.json", buf_str(&text));
    assert_int_equal(model_file_open(&file, f.path, &err), STATUS_TOO_LARGE);
    assert_non_null(strstr(err.text, "up to 64 ids"));
    buf_clear(&text);
    while (text.len <= LIMIT_CONFIG_BYTES)
        buf_puts(&text, "                                                                ");
    hf_writer_put(&f, "config.json", buf_str(&text));
    assert_int_equal(model_file_open(&file, f.path, &err), STATUS_TOO_LARGE);
    assert_non_null(strstr(err.text, "4194304"));
    buf_fini(&text);
    hf_writer_remove(&f);
}

static void a_folder_without_config(void **state)
{
    (void)state;
    char path[] = "/tmp/hf-XXXXXX";
    struct model_file file;
    struct err err = {0};
    assert_non_null(mkdtemp(path));
    assert_int_equal(model_file_open(&file, path, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "config.json"));
    rmdir(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_good_folder),     cmocka_unit_test(bad_folders),
        cmocka_unit_test(takes_what_others_write), cmocka_unit_test(reads_template_and_defaults),
        cmocka_unit_test(bad_files_beside_it),     cmocka_unit_test(limits),
        cmocka_unit_test(a_folder_without_config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
