/* What convert makes of a folder's tokenizer gives the ids that the folder gives: the published
 * ones (tests/golden/tokenizer/published), forms of SentencePiece, and files that are wrong. */
#include "model/write/hf_tokenizer.h"

#include "support/cmocka_all.h"
#include "support/sanitized.h"

#include "base/limits.h"
#include "base/log.h"
#include "text/tokenizer/tokenizer.h"
#include "weights/gguf_build.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOLDER "tests/golden/tokenizer/published/"

static json_t *load(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, FOLDER "%s.json", name);
    json_t *out = json_load_file(path, JSON_ALLOW_NUL, NULL);
    assert_non_null(out);
    return out;
}

/* A folder with the two files; NULL: without that one. */
static void write_folder(char *path, const json_t *tokenizer, const json_t *config)
{
    const struct {
        const char *name;
        const json_t *json;
    } files[] = {{"tokenizer.json", tokenizer}, {"tokenizer_config.json", config}};
    char file[64];
    assert_non_null(mkdtemp(path));
    for (size_t i = 0; i < 2; i++) {
        snprintf(file, sizeof file, "%s/%s", path, files[i].name);
        assert_true(!files[i].json || json_dump_file(files[i].json, file, JSON_COMPACT) == 0);
    }
}

static void remove_folder(const char *path)
{
    char file[64];
    snprintf(file, sizeof file, "%s/tokenizer.json", path);
    unlink(file);
    snprintf(file, sizeof file, "%s/tokenizer_config.json", path);
    unlink(file);
    assert_int_equal(rmdir(path), 0);
}

/* The keys that are written for the tokenizer, in a file without tensors. */
static enum status convert(const json_t *tokenizer, const json_t *config, uint32_t n_vocab,
                           struct buf *head, struct err *err)
{
    char path[] = "/tmp/hf-tokenizer-XXXXXX";
    struct gguf_build b = {0};
    write_folder(path, tokenizer, config);
    enum status st = hf_tokenizer_write(path, n_vocab, &b, err);
    remove_folder(path);
    gguf_build_header(&b, 0, head);
    gguf_build_fini(&b);
    return st;
}

static struct tokenizer *open_converted(const json_t *tokenizer, const json_t *config,
                                        uint32_t n_vocab)
{
    struct buf head = {0};
    struct gguf *g = NULL;
    struct tokenizer *t = NULL;
    struct err err = {0};
    if (convert(tokenizer, config, n_vocab, &head, &err) ||
        gguf_parse(&g, buf_str(&head), head.len, &err) || tokenizer_open(&t, g, &err))
        fail_msg("%s", err.text);
    gguf_close(g);
    buf_fini(&head);
    return t;
}

static struct tokenizer *open_folder(const json_t *tokenizer, const json_t *config)
{
    char *text = json_dumps(tokenizer, JSON_COMPACT);
    char *more = config ? json_dumps(config, JSON_COMPACT) : NULL;
    const struct tokenizer_json files = {
        .text = text, .len = strlen(text), .config = more, .config_len = more ? strlen(more) : 0};
    struct tokenizer *t = NULL;
    struct err err = {0};
    if (tokenizer_open_json(&t, &files, &err))
        fail_msg("%s", err.text);
    free(more);
    free(text);
    return t;
}

static void same_ids(const struct tokenizer *a, const struct tokenizer *b, const char *name,
                     const char *text, size_t len)
{
    struct tokens x = {0}, y = {0};
    struct err err = {0};
    unsigned flags = TOKENIZE_SPECIAL | TOKENIZE_ADD;
    assert_int_equal(tokenizer_encode(a, text, len, NULL, flags, &x, &err), STATUS_OK);
    assert_int_equal(tokenizer_encode(b, text, len, NULL, flags, &y, &err), STATUS_OK);
    if (x.count != y.count || (x.count > 0 && memcmp(x.ids, y.ids, x.count * sizeof *x.ids) != 0))
        fail_msg("%s: '%s': other ids than the folder's", name, text);
    tokens_fini(&x);
    tokens_fini(&y);
}

/* The file has some rows more than the tokenizer, as matrices that are filled up have. */
static void same_on_all_texts(const char *name, const json_t *tokenizer, const json_t *config)
{
    json_t *file = load("texts"), *texts = json_object_get(file, "rows");
    struct tokenizer *a = open_folder(tokenizer, config);
    uint32_t n = tokenizer_vocab_size(a) + 3;
    struct tokenizer *b = open_converted(tokenizer, config, n);
    assert_int_equal(tokenizer_vocab_size(b), n);
    assert_true(json_array_size(texts) >= 500);
    for (size_t i = 0; i < json_array_size(texts); i += SANITIZED ? 5 : 1) {
        const json_t *text = json_array_get(texts, i);
        same_ids(a, b, name, json_string_value(text), json_string_length(text));
    }
    tokenizer_close(a);
    tokenizer_close(b);
    json_decref(file);
}

static void published(void **state)
{
    static const struct {
        const char *name, *bos;
    } rows[] = {{"gpt2", NULL},           {"llama3", "<|begin_of_text|>"},
                {"qwen2.5", NULL},        {"deepseek-llm", NULL},
                {"deepseek-coder", NULL}, {"deepseek-v3", NULL},
                {"llama2", "<s>"},        {"gemma3", "<bos>"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *golden = load(rows[i].name);
        json_t *config = json_pack("{s:s*}", "bos_token", rows[i].bos);
        same_on_all_texts(rows[i].name, json_object_get(golden, "tokenizer"), config);
        json_decref(config);
        json_decref(golden);
    }
}

/* Llama 2's vocabulary with the other ways in which files say what becomes of spaces. */
static void forms_of_spaces(void **state)
{
    static const char *const rows[][2] = {
        {"null", "{'type':'Metaspace','replacement':'\xe2\x96\x81','prepend_scheme':'first',"
                 "'split':false}"},
        {"null", "{'type':'Metaspace','replacement':'\xe2\x96\x81','prepend_scheme':'always',"
                 "'split':false}"},
        {"null", "{'type':'Metaspace','replacement':'\xe2\x96\x81','prepend_scheme':'never',"
                 "'split':false}"},
        {"{'type':'Replace','pattern':{'String':' '},'content':'\xe2\x96\x81'}", "null"},
    };
    static const char *const texts[] = {"a",    " a",      "  a b ", "<s>a", "<s> a</s>b",
                                        "</s>", "a<s>  b", " <s>",   "",     "x \xe2\x96\x81y"};
    json_t *golden = load("llama2"), *tokenizer = json_object_get(golden, "tokenizer");
    json_t *config = json_pack("{s:s}", "bos_token", "<s>");
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t k = 0; k < 2; k++) {
            char text[256];
            snprintf(text, sizeof text, "%s", rows[i][k]);
            for (char *p = text; *p; p++)
                *p = *p == '\'' ? '"' : *p;
            json_object_set_new(tokenizer, k ? "pre_tokenizer" : "normalizer",
                                json_loads(text, JSON_DECODE_ANY, NULL));
        }
        struct tokenizer *a = open_folder(tokenizer, config);
        struct tokenizer *b = open_converted(tokenizer, config, tokenizer_vocab_size(a));
        for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++)
            same_ids(a, b, rows[i][1], texts[k], strlen(texts[k]));
        tokenizer_close(a);
        tokenizer_close(b);
    }
    json_decref(config);
    json_decref(golden);
}

/* In the file: what llama.cpp reads. */
static void types_and_scores(void **state)
{
    static const char text[] =
        "{\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"special\":true},"
        "{\"id\":5,\"content\":\"\xe2\x96\x81\xe2\x96\x81\",\"special\":false},"
        "{\"id\":6,\"content\":\"<end>\",\"special\":true}],"
        "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
        "\"content\":\"\xe2\x96\x81\"},"
        "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"unk_token\":\"<unk>\",\"vocab\":"
        "{\"<unk>\":0,\"<0x41>\":1,\"a\":2,\"aa\":3,\"aaaa\":4},"
        "\"merges\":[[\"a\",\"a\"],\"aa aa\",[\"aa\",\"aa\"]]}}";
    static const int types[] = {2, 6, 1, 1, 1, 4, 3, 5};
    static const float scores[] = {-1e6f, -1e6f, -1e6f, 0, -1, -1e6f, -1e6f, -1e6f};
    struct buf head = {0};
    struct gguf *g;
    struct err err = {0};
    struct gguf_string s;
    struct gguf_cursor cursor = {0};
    json_t *json = json_loads(text, 0, NULL);
    (void)state;
    assert_int_equal(convert(json, NULL, 8, &head, &err), STATUS_OK);
    assert_int_equal(gguf_parse(&g, buf_str(&head), head.len, &err), STATUS_OK);
    for (uint32_t i = 0; i < 8; i++) {
        const struct gguf_value *tokens = gguf_value(g, "tokenizer.ggml.tokens");
        s = gguf_array_string(tokens, i, &cursor);
        assert_int_equal(gguf_integer(gguf_value(g, "tokenizer.ggml.token_type"), i), types[i]);
        assert_true(gguf_number(gguf_value(g, "tokenizer.ggml.scores"), i) == (double)scores[i]);
        if (i == 5) /* spaces in an added token are plain */
            assert_true(s.len == 2 && memcmp(s.bytes, "  ", 2) == 0);
        if (i == 7)
            assert_true(s.len == 6 && memcmp(s.bytes, "[PAD7]", 6) == 0);
    }
    gguf_close(g);
    buf_fini(&head);
    json_decref(json);
}

/* Tokens that only tokenizer_config.json has. */
static void added_by_the_configuration(void **state)
{
    json_t *golden = load("llama2"), *tokenizer = json_object_get(golden, "tokenizer");
    struct tokenizer *plain = open_folder(tokenizer, NULL);
    uint32_t n = tokenizer_vocab_size(plain);
    char key[16], bad[16];
    struct buf head = {0};
    struct err err = {0};
    (void)state;
    snprintf(key, sizeof key, "%u", n + 1); /* n stays a hole */
    snprintf(bad, sizeof bad, "%u", n + 2);
    json_t *config = json_pack("{s:{s:{s:s,s:b},s:{s:s}}}", "added_tokens_decoder", key, "content",
                               "<|call|>", "special", 1, "1", "content", "<not it>");
    struct tokenizer *a = open_folder(tokenizer, config), *b;
    b = open_converted(tokenizer, config, n + 2);
    assert_true(tokenizer_bos(b) == 1); /* the post-processor's, since config has none */
    same_ids(a, b, "added", "x<|call|>y<not it>", strlen("x<|call|>y<not it>"));
    assert_int_equal(tokenizer_find(b, "<|call|>", 8), n + 1);
    json_object_set_new(json_object_get(config, "added_tokens_decoder"), bad,
                        json_pack("{s:s}", "content", "z"));
    assert_int_equal(convert(tokenizer, config, n + 2, &head, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "added_tokens_decoder"));
    buf_fini(&head);
    json_decref(config);
    json_decref(golden);
    tokenizer_close(plain);
    tokenizer_close(a);
    tokenizer_close(b);
}

static void bad_files(void **state)
{
#define MODEL                                                                                      \
    "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{\"a\":0},\"merges\":[]}"
#define SPACES                                                                                     \
    "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" "                             \
    "\"},\"content\":\"\xe2\x96\x81\"},"
    static const struct {
        const char *text;
        enum status status;
        const char *words;
    } rows[] = {
        {"{" MODEL "}", STATUS_UNSUPPORTED, "normalizer: expected"},
        {"{\"normalizer\":{\"type\":\"NFKC\"}," MODEL "}", STATUS_UNSUPPORTED, "normalizer"},
        {"{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\"}," MODEL "}",
         STATUS_UNSUPPORTED, "normalizer"},
        {"{\"model\":{\"type\":\"Unigram\"}}", STATUS_UNSUPPORTED, "model.type: expected BPE"},
        {"{" SPACES "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{\"a\":0},"
         "\"merges\":[\"ab\"]}}",
         STATUS_INVALID, "model.merges"},
        {"{" SPACES "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{\"a\":0}}}",
         STATUS_INVALID, "model.merges"},
        {"{" SPACES "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{\"a\":9}}}",
         STATUS_INVALID, "token \"a\": expected an id below the embedding's 4 rows, found 9"},
        {"{\"added_tokens\":[{\"id\":1}]," SPACES MODEL "}", STATUS_INVALID, "added_tokens"},
    };
#undef MODEL
#undef SPACES
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct buf head = {0};
        struct err err = {0};
        json_t *json = json_loads(rows[i].text, 0, NULL);
        assert_non_null(json);
        enum status st = convert(json, NULL, 4, &head, &err);
        if (st != rows[i].status || !strstr(err.text, rows[i].words) ||
            !strstr(err.text, "tokenizer.json"))
            fail_msg("row %zu: %s: %s", i, status_name(st), err.text);
        buf_fini(&head);
        json_decref(json);
    }
}

/* A file as long as the limit is read, and found to be no JSON behind its first bytes. */
static void a_file_is_as_long_as_the_limit(void **state)
{
    (void)state;
    json_t *empty = json_object();
    for (off_t over = 0; over < 2; over++) {
        char path[] = "/tmp/hf-tokenizer-XXXXXX", file[64];
        struct gguf_build b = {0};
        struct err err = {0};
        write_folder(path, empty, NULL);
        snprintf(file, sizeof file, "%s/tokenizer.json", path);
        assert_int_equal(truncate(file, LIMIT_TOKENIZER_BYTES + over), 0);
        enum status st = hf_tokenizer_write(path, 4, &b, &err);
        remove_folder(path);
        gguf_build_fini(&b);
        assert_int_equal(st, over ? STATUS_TOO_LARGE : STATUS_INVALID);
        assert_non_null(strstr(err.text, over ? "expected up to 134217728 bytes" : "line 1"));
    }
    json_decref(empty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published),
        cmocka_unit_test(forms_of_spaces),
        cmocka_unit_test(types_and_scores),
        cmocka_unit_test(bad_files),
        cmocka_unit_test(added_by_the_configuration),
        cmocka_unit_test(a_file_is_as_long_as_the_limit),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
