/* Published tokenizers, reduced (tests/golden/README.md): the ids of every text from tokenizer.json
 * and from GGUF metadata with the same vocabulary are those of the module `tokenizers`. */
#include "support/cmocka_all.h"
#include "support/gguf_writer.h"
#include "support/sanitized.h"

#include "base/buf.h"
#include "base/log.h"
#include "text/tokenizer/tokenizer.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER "tests/golden/tokenizer/published/"

static const char *const byte_level[] = {"gpt2",         "llama3",         "qwen2.5",
                                         "deepseek-llm", "deepseek-coder", "deepseek-v3"};
static const char *const others[] = {"llama2", "gemma3", "jiutian"};

static json_t *load(const char *name)
{
    char path[128];
    json_error_t fault;

    snprintf(path, sizeof path, FOLDER "%s.json", name);
    json_t *out = json_load_file(path, JSON_ALLOW_NUL, &fault);
    if (out == NULL)
        fail_msg("%s: %s", path, fault.text);
    return out;
}

static struct tokenizer *open_json(const json_t *tokenizer)
{
    char *text = json_dumps(tokenizer, JSON_COMPACT);
    struct tokenizer_json files = {.text = text, .len = strlen(text)};
    struct tokenizer *t = NULL;
    struct err err = {0};

    if (tokenizer_open_json(&t, &files, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    free(text);
    return t;
}

static void check_texts(const struct tokenizer *t, const char *name, const json_t *golden)
{
    json_t *file = load("texts"), *texts = json_object_get(file, "rows");
    const json_t *rows = json_object_get(golden, "rows");
    struct tokens ids = {0};
    struct err err = {0};

    assert_true(json_array_size(texts) >= 500);
    assert_int_equal(json_array_size(rows), json_array_size(texts));
    for (size_t i = 0; i < json_array_size(texts); i += SANITIZED ? 5 : 1) {
        const json_t *text = json_array_get(texts, i), *row = json_array_get(rows, i);
        ids.count = 0;
        assert_int_equal(tokenizer_encode(t, json_string_value(text), json_string_length(text),
                                          NULL, TOKENIZE_SPECIAL, &ids, &err),
                         STATUS_OK);
        for (size_t k = 0; k < json_array_size(row); k++) {
            int32_t want = (int32_t)json_integer_value(json_array_get(row, k));
            if (k >= ids.count || ids.ids[k] != want)
                fail_msg("%s: '%s': id %zu is %d, expected %d", name, json_string_value(text), k,
                         k < ids.count ? ids.ids[k] : -1, want);
        }
        assert_int_equal(ids.count, json_array_size(row));
    }
    tokens_fini(&ids);
    json_decref(file);
}

static void check_json(const char *name)
{
    json_t *golden = load(name);
    struct tokenizer *t = open_json(json_object_get(golden, "tokenizer"));

    check_texts(t, name, golden);
    tokenizer_close(t);
    json_decref(golden);
}

static void byte_level_from_json(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof byte_level / sizeof byte_level[0]; i++)
        check_json(byte_level[i]);
}

static void sentencepiece_from_json(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        check_json(others[i]);
}

/* ---- GGUF ---- */

/* The columns of a vocabulary as a GGUF file has them. */
struct columns {
    const char **tokens;
    int32_t *types;
    float *scores;
    uint64_t count;
};

static struct columns columns_of(const json_t *tokenizer, bool sentencepiece)
{
    json_t *model = json_object_get(tokenizer, "model"), *value;
    json_t *vocab = json_object_get(model, "vocab");
    const json_t *added = json_object_get(tokenizer, "added_tokens");
    struct columns c = {.count = json_object_size(vocab)};
    size_t room = (size_t)c.count + json_array_size(added), i;
    const char *key;

    c.tokens = calloc(room, sizeof *c.tokens);
    c.types = calloc(room, sizeof *c.types);
    c.scores = calloc(room, sizeof *c.scores);
    json_object_foreach(vocab, key, value)
    {
        size_t id = (size_t)json_integer_value(value);
        c.tokens[id] = key;
        c.scores[id] = -1e6f; /* nothing makes it */
        c.types[id] = sentencepiece && strlen(key) == 6 && memcmp(key, "<0x", 3) == 0 ? 6 : 1;
    }
    json_array_foreach(added, i, value)
    {
        size_t id = (size_t)json_integer_value(json_object_get(value, "id"));
        c.tokens[id] = json_string_value(json_object_get(value, "content"));
        c.types[id] = json_is_true(json_object_get(value, "special")) ? 3 : 4;
        if (strcmp(c.tokens[id], "<unk>") == 0)
            c.types[id] = 2;
        c.count = id + 1 > c.count ? id + 1 : c.count;
    }
    return c;
}

/* A piece scores by the first merge that makes it: what a converter of such a model sorted by. (The
 * scores themselves are in no tokenizer.json. They are not the ids: runs of spaces come last.) */
static void score_by_merges(struct columns *c, const json_t *model)
{
    const json_t *merges = json_object_get(model, "merges"), *vocab;
    char piece[512];

    vocab = json_object_get(model, "vocab");
    for (size_t i = json_array_size(merges); i-- > 0;) {
        const json_t *merge = json_array_get(merges, i);
        snprintf(piece, sizeof piece, "%s%s", json_string_value(json_array_get(merge, 0)),
                 json_string_value(json_array_get(merge, 1)));
        c->scores[json_integer_value(json_object_get(vocab, piece))] = -(float)i;
    }
}

static void write_merges(struct gguf_writer *w, const json_t *model)
{
    const json_t *merges = json_object_get(model, "merges");
    size_t count = json_array_size(merges);
    char **lines = calloc(count, sizeof *lines);

    for (size_t i = 0; i < count; i++) {
        const json_t *merge = json_array_get(merges, i);
        assert_true(asprintf(&lines[i], "%s %s", json_string_value(json_array_get(merge, 0)),
                             json_string_value(json_array_get(merge, 1))) > 0);
    }
    gguf_writer_strings(w, "tokenizer.ggml.merges", count, (const char *const *)lines);
    for (size_t i = 0; i < count; i++)
        free(lines[i]);
    free(lines);
}

/* The file that a converter makes: `pre` names the pre-tokenizer, NULL is SentencePiece. */
static void check_gguf(const char *name, bool add_space)
{
    json_t *golden = load(name), *tokenizer = json_object_get(golden, "tokenizer");
    const char *pre = json_string_value(json_object_get(golden, "pre"));
    struct columns c = columns_of(tokenizer, pre == NULL);
    struct tokenizer *t = NULL;
    struct gguf *g = NULL;
    struct gguf_writer w;
    struct err err = {0};
    size_t len;

    gguf_writer_init(&w, 3);
    gguf_writer_string(&w, "tokenizer.ggml.model", pre ? "gpt2" : "llama");
    if (pre)
        gguf_writer_string(&w, "tokenizer.ggml.pre", pre);
    gguf_writer_strings(&w, "tokenizer.ggml.tokens", c.count, c.tokens);
    gguf_writer_array(&w, "tokenizer.ggml.token_type", GGUF_I32, c.count, c.types,
                      c.count * sizeof *c.types);
    if (pre) {
        write_merges(&w, json_object_get(tokenizer, "model"));
    } else {
        score_by_merges(&c, json_object_get(tokenizer, "model"));
        gguf_writer_array(&w, "tokenizer.ggml.scores", GGUF_F32, c.count, c.scores,
                          c.count * sizeof *c.scores);
        gguf_writer_bool(&w, "tokenizer.ggml.add_space_prefix", add_space);
    }
    const void *bytes = gguf_writer_finish(&w, &len);
    assert_int_equal(gguf_parse(&g, bytes, len, &err), STATUS_OK);
    if (tokenizer_open(&t, g, &err) != STATUS_OK)
        fail_msg("%s: %s", name, err.text);
    check_texts(t, name, golden);
    tokenizer_close(t);
    gguf_close(g);
    gguf_writer_fini(&w);
    free(c.tokens);
    free(c.types);
    free(c.scores);
    json_decref(golden);
}

static void byte_level_from_gguf(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof byte_level / sizeof byte_level[0]; i++)
        check_gguf(byte_level[i], false);
}

static void sentencepiece_from_gguf(void **state)
{
    (void)state;
    check_gguf("llama2", true);
    check_gguf("gemma3", false);
}

/* Every text that the tokenizer can spell comes back from its ids. */
static void ids_become_the_text_again(void **state)
{
    static const char text[] =
        "  Hello, w\xc3\xb6rld \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x98\x80!\n\n x";
    static const char *const names[] = {"gpt2", "llama3", "qwen2.5", "llama2", "gemma3"};
    (void)state;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        json_t *golden = load(names[i]);
        struct tokenizer *t = open_json(json_object_get(golden, "tokenizer"));
        struct tokens ids = {0};
        struct buf out = {0};
        struct err err = {0};
        assert_int_equal(tokenizer_encode(t, text, sizeof text - 1, NULL, 0, &ids, &err),
                         STATUS_OK);
        assert_true(tokenizer_decode(t, ids.ids, ids.count, true, &out));
        assert_string_equal(buf_str(&out), text);
        tokens_fini(&ids);
        buf_fini(&out);
        tokenizer_close(t);
        json_decref(golden);
    }
}

/* Quadratic work would take minutes here. */
static void long_runs(void **state)
{
    static const char *const units[] = {
        "a", "7", " ", "\n", "ab ", "\xe5\xad\x97", "e\xcc\x81", "\xcc\x81\xcc\x96", "\xff"};
    enum { LEN = SANITIZED ? 1 << 14 : 1 << 16 };
    char *text = malloc(LEN + 1);
    (void)state;

    for (size_t i = 0; i < 9; i++) {
        json_t *golden = load(i < 6 ? byte_level[i] : others[i - 6]);
        struct tokenizer *t = open_json(json_object_get(golden, "tokenizer"));
        for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
            struct tokens ids = {0};
            struct err err = {0};
            size_t n = strlen(units[u]);
            for (size_t at = 0; at < LEN; at++)
                text[at] = units[u][at % n];
            text[LEN] = 'x';
            if (tokenizer_encode(t, text, LEN + 1, NULL, TOKENIZE_SPECIAL, &ids, &err) != STATUS_OK)
                fail_msg("%zu, unit %zu: %s", i, u, err.text);
            assert_true(ids.count > 0);
            tokens_fini(&ids);
        }
        tokenizer_close(t);
        json_decref(golden);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_level_from_json),      cmocka_unit_test(sentencepiece_from_json),
        cmocka_unit_test(byte_level_from_gguf),      cmocka_unit_test(sentencepiece_from_gguf),
        cmocka_unit_test(ids_become_the_text_again), cmocka_unit_test(long_runs),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
