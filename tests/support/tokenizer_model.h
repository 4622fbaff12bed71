/* A small byte-level BPE model written to memory, whole or with something wrong, and its tokenizer.
 *
 *     struct model *m = new_model();
 *     m->pre = "llama-bpe";
 *     opened(m);
 *     CHECK(m, "hello", 0, HELLO);
 *     free_model(m);
 */
#ifndef FIRSTLIGHT_TESTS_SUPPORT_TOKENIZER_MODEL_H
#define FIRSTLIGHT_TESTS_SUPPORT_TOKENIZER_MODEL_H

#include "support/byte_vocab.h"
#include "support/cmocka_all.h"
#include "support/gguf_writer.h"

#include "text/tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER = 4 };

/* Every byte's token comes first, so that the id of a byte is its value; these follow. */
enum {
    LL = 256,
    HE,
    HELL,
    HELLO,
    AA,
    AB,
    BC,
    SP_A,
    IM,
    IM_END,
    IM_END_X,
    UNK,
    SPACES,
    TAG,
    WORD,
    EOT,
    N_TOKENS,
};

static const char *const extra_tokens[] = {
    "ll",
    "he",
    "hell",
    "hello",
    "aa",
    "ab",
    "bc",
    "\xc4\xa0"
    "a",
    "<|im",
    "<|im_end|>",
    "<|im_end|>x",
    "<unk>",
    "  ",
    "<tag>",
    "wxyz",
    "<|eot_id|>",
};
static const int32_t extra_types[] = {
    NORMAL,  NORMAL,  NORMAL,  NORMAL,  NORMAL, NORMAL, NORMAL, NORMAL,
    CONTROL, CONTROL, CONTROL, UNKNOWN, USER,   USER,   NORMAL, CONTROL,
};
static const char *const usual_merges[] = {
    "b c", "l l", "h e", "he ll", "hell o", "a a",   "a b", "\xc4\xa0 a",
    "a b", "q q", "zz",  "a  b",  "l \xff", "x y z", /* a repetition, and five that cannot apply */
};
enum { N_MERGES = sizeof usual_merges / sizeof usual_merges[0] };

/* A file to be: fields left NULL are not written. */
struct model {
    const char *model, *pre;
    char spelled[N_TOKENS][32];
    const char *tokens[N_TOKENS];
    int32_t types[N_TOKENS];
    uint64_t n_tokens, n_types, n_merges;
    const char *const *merges;
    int64_t bos, eos, eot; /* -1: absent */
    int add_bos, add_eos;  /* -1: absent */
    struct gguf_writer writer;
    struct gguf *gguf;
    struct tokenizer *tokenizer;
    struct err err;
};

static inline struct model *new_model(void)
{
    struct model *m = calloc(1, sizeof *m);

    m->model = "gpt2";
    m->pre = "gpt-2";
    for (int i = 0; i < N_TOKENS; i++) {
        if (i < 256)
            spell_byte(i, m->spelled[i]);
        m->tokens[i] = i < 256 ? m->spelled[i] : extra_tokens[i - 256];
        m->types[i] = i < 256 ? NORMAL : extra_types[i - 256];
    }
    m->n_tokens = m->n_types = N_TOKENS;
    m->merges = usual_merges;
    m->n_merges = N_MERGES;
    m->bos = m->eos = m->eot = m->add_bos = m->add_eos = -1;
    gguf_writer_init(&m->writer, 3);
    return m;
}

static inline void write_id(struct model *m, const char *key, int64_t id)
{
    if (id >= 0)
        gguf_writer_u32(&m->writer, key, (uint32_t)id);
}

static inline enum status open_model(struct model *m)
{
    struct gguf_writer *w = &m->writer;
    size_t len;

    if (m->model)
        gguf_writer_string(w, "tokenizer.ggml.model", m->model);
    if (m->pre)
        gguf_writer_string(w, "tokenizer.ggml.pre", m->pre);
    if (m->n_tokens)
        gguf_writer_strings(w, "tokenizer.ggml.tokens", m->n_tokens, m->tokens);
    if (m->n_types)
        gguf_writer_array(w, "tokenizer.ggml.token_type", GGUF_I32, m->n_types, m->types,
                          m->n_types * sizeof m->types[0]);
    if (m->merges)
        gguf_writer_strings(w, "tokenizer.ggml.merges", m->n_merges, m->merges);
    write_id(m, "tokenizer.ggml.bos_token_id", m->bos);
    write_id(m, "tokenizer.ggml.eos_token_id", m->eos);
    write_id(m, "tokenizer.ggml.eot_token_id", m->eot);
    if (m->add_bos >= 0)
        gguf_writer_bool(w, "tokenizer.ggml.add_bos_token", m->add_bos);
    if (m->add_eos >= 0)
        gguf_writer_bool(w, "tokenizer.ggml.add_eos_token", m->add_eos);
    const void *bytes = gguf_writer_finish(w, &len);
    enum status status = gguf_parse(&m->gguf, bytes, len, &m->err);
    if (status == STATUS_OK)
        status = tokenizer_open(&m->tokenizer, m->gguf, &m->err);
    return status;
}

static inline struct model *opened(struct model *m)
{
    if (open_model(m) != STATUS_OK)
        fail_msg("%s", m->err.text);
    return m;
}

static inline void free_model(struct model *m)
{
    tokenizer_close(m->tokenizer);
    gguf_close(m->gguf);
    gguf_writer_fini(&m->writer);
    free(m);
}

/* Encodes and compares with ids that end in -1. */
static inline void check_ids(const struct model *m, const char *text, size_t len,
                             const uint8_t *trusted, unsigned flags, const int32_t *expected)
{
    struct tokens ids = {0};
    struct err err = {0};
    size_t n = 0;

    if (tokenizer_encode(m->tokenizer, text, len, trusted, flags, &ids, &err) != STATUS_OK)
        fail_msg("'%s': %s", text, err.text);
    for (; expected[n] >= 0; n++)
        if (n >= ids.count || ids.ids[n] != expected[n])
            fail_msg("'%s': id %zu is %d, expected %d", text, n, n < ids.count ? ids.ids[n] : -1,
                     expected[n]);
    assert_int_equal(ids.count, n);
    tokens_fini(&ids);
}

#define CHECK(m, text, flags, ...)                                                                 \
    check_ids(m, text, sizeof(text) - 1, NULL, flags, (const int32_t[]){__VA_ARGS__, -1})
#define CHECK_NONE(m, text, flags)                                                                 \
    check_ids(m, text, sizeof(text) - 1, NULL, flags, (const int32_t[]){-1})

#endif
