/* Model files whose tokenizer is wrong, and what the error says. */
#include "support/tokenizer_model.h"

#include "base/limits.h"
#include "base/log.h"

static void refuse(struct model *m, enum status status, const char *part)
{
    assert_int_equal(open_model(m), status);
    assert_null(m->tokenizer);
    if (strstr(m->err.text, part) == NULL)
        fail_msg("'%s' does not say '%s'", m->err.text, part);
    free_model(m);
}

static void other_models_are_unsupported(void **state)
{
    struct model *m = new_model();
    (void)state;

    m->model = "rwkv";
    refuse(m, STATUS_UNSUPPORTED, "tokenizer.ggml.model: expected 'gpt2'");
    m = new_model();
    m->model = NULL;
    refuse(m, STATUS_NOT_FOUND, "tokenizer.ggml.model");
    m = new_model();
    m->pre = "no-such";
    refuse(m, STATUS_UNSUPPORTED, "'no-such'");
    m = new_model();
    m->pre = NULL; /* as llama.cpp: "default" */
    opened(m);
    CHECK(m, "12345", 0, '1', '2', '3', '4', '5');
    free_model(m);
}

static void bad_vocabularies(void **state)
{
    static char long_token[LIMIT_TOKEN_BYTES + 2];
    struct model *m = new_model();
    (void)state;

    m->n_tokens = 0;
    refuse(m, STATUS_NOT_FOUND, "tokenizer.ggml.tokens");
    m = new_model();
    m->tokens[AB] = "hello";
    refuse(m, STATUS_INVALID, "tokens 259 and 261 are the same text 'hello'");
    m = new_model();
    m->n_types = N_TOKENS - 1;
    refuse(m, STATUS_INVALID, "expected 272 elements");
    m = new_model();
    m->types[3] = 9;
    refuse(m, STATUS_INVALID, "token 3 has type 9");
    memset(long_token, 'k', LIMIT_TOKEN_BYTES);
    m = new_model();
    m->tokens[AB] = long_token;
    opened(m);
    free_model(m);
    long_token[LIMIT_TOKEN_BYTES] = 'k';
    m = new_model();
    m->tokens[AB] = long_token;
    refuse(m, STATUS_INVALID, "token 261 has 1025 bytes");
}

static void odd_vocabularies_are_fine(void **state)
{
    struct model *m = new_model();
    (void)state;

    m->n_types = 0; /* all are normal: nothing special to find */
    m->tokens[AB] = "", m->tokens[BC] = "";
    opened(m);
    CHECK(m, "abc<|im_end|>", TOKENIZE_SPECIAL, 'a', 'b', 'c', '<', '|', 'i', 'm', '_', 'e', 'n',
          'd', '|', '>');
    free_model(m);
}

static void wrong_types(void **state)
{
    static const char *const arrays[] = {"tokenizer.ggml.tokens", "tokenizer.ggml.token_type",
                                         "tokenizer.ggml.merges", "tokenizer.ggml.eos_token_ids"};
    static const char *const scalars[] = {"tokenizer.ggml.bos_token_id",
                                          "tokenizer.ggml.eot_token_id",
                                          "tokenizer.ggml.add_bos_token"};
    (void)state;

    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        for (int as_array = 0; as_array < 2; as_array++) {
            struct model *m = new_model();
            if (i == 0)
                m->n_tokens = 0;
            if (i == 1)
                m->n_types = 0;
            if (i == 2)
                m->merges = NULL;
            if (as_array)
                gguf_writer_array(&m->writer, arrays[i], GGUF_F32, 1, &(float){1}, sizeof(float));
            else
                gguf_writer_string(&m->writer, arrays[i], "text");
            refuse(m, STATUS_INVALID, arrays[i]);
        }
    }
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
        struct model *m = new_model();
        gguf_writer_string(&m->writer, scalars[i], "text");
        refuse(m, STATUS_INVALID, scalars[i]);
    }
}

static void ids_out_of_range(void **state)
{
    static const int32_t negative = -1;
    struct model *m = new_model();
    (void)state;

    m->bos = N_TOKENS;
    refuse(m, STATUS_INVALID, "tokenizer.ggml.bos_token_id: expected an id below 272, found 272");
    m = new_model();
    m->eot = UINT32_MAX;
    refuse(m, STATUS_INVALID, "found 4294967295");
    m = new_model();
    gguf_writer_array(&m->writer, "tokenizer.ggml.eos_token_ids", GGUF_I32, 1, &negative, 4);
    refuse(m, STATUS_INVALID, "found -1");
    m = new_model();
    m->add_bos = 1;
    refuse(m, STATUS_INVALID, "tokenizer.ggml.bos_token_id, absent");
    m = new_model();
    m->add_eos = 1;
    refuse(m, STATUS_INVALID, "tokenizer.ggml.eos_token_id, absent");
    m = new_model();
    m->merges = NULL;
    refuse(m, STATUS_NOT_FOUND, "tokenizer.ggml.merges");
}

static void too_many_of_anything(void **state)
{
    static const char *const keys[] = {"tokenizer.ggml.tokens", "tokenizer.ggml.merges"};
    static const uint64_t limits[] = {LIMIT_MODEL_VOCAB, LIMIT_MODEL_MERGES};
    (void)state;

    for (int i = 0; i < 2; i++) {
        struct model *m = new_model();
        size_t size = (limits[i] + 1) * 8; /* empty strings: a length of eight zero bytes each */
        void *zeros = calloc(1, size);
        if (i == 0)
            m->n_tokens = 0;
        else
            m->merges = NULL;
        gguf_writer_array(&m->writer, keys[i], GGUF_STRING, limits[i] + 1, zeros, size);
        refuse(m, STATUS_INVALID, keys[i]);
        free(zeros);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_models_are_unsupported),
        cmocka_unit_test(bad_vocabularies),
        cmocka_unit_test(odd_vocabularies_are_fine),
        cmocka_unit_test(wrong_types),
        cmocka_unit_test(ids_out_of_range),
        cmocka_unit_test(too_many_of_anything),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
