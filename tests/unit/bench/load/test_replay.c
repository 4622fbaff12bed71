/* Traces read, bad ones refused; prompts that share what was shared and are as long as they were.
 */
#include "support/near.h"
#include "support/tokenizer_model.h"
#include "unit/bench/bench_file.h"

#include "base/buf.h"
#include "base/limits.h"
#include "base/mem.h"
#include "bench/load/replay.h"
#include "bench/result/random.h"
#include "observe/trace.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADER "{\"schema\": \"firstlight-trace/1\", \"block_tokens\": 32, \"started\": \"x\"}\n"

static const struct replay_options defaults = {.speed = 1};

static struct replay read_with(const char *text, const struct replay_options *o)
{
    struct replay r;
    struct err err = {0};
    bench_file_write(text, strlen(text));
    if (replay_read(&r, bench_file, o, &err))
        fail_msg("%s", err.text);
    return r;
}

/* Two lines as published (FAST '25, the synthetic trace), shortened. */
static void mooncakes_own(void **state)
{
    (void)state;
    struct replay r = read_with(
        "{\"timestamp\": 2775, \"input_length\": 546, \"output_length\": 78, \"hash_ids\": [499, "
        "500]}\n"
        "{\"timestamp\": 2469, \"input_length\": 24, \"output_length\": 216, \"hash_ids\": "
        "[498]}\n",
        &defaults);
    assert_int_equal(r.n, 2);
    assert_int_equal(r.block_tokens, 512);
    assert_near(r.requests[0].at_ms, 2469, 0); /* by time */
    assert_int_equal(r.requests[0].input_tokens, 24);
    assert_int_equal(r.requests[0].output_tokens, 216);
    assert_int_equal(r.requests[1].n_hashes, 2);
    assert_true(r.hash_ids[r.requests[1].first_hash + 1] == 500);
    assert_int_equal(r.input_tokens, 570);
    assert_int_equal(r.output_tokens, 294);
    replay_fini(&r);
}

static void ours_and_what_is_left_out(void **state)
{
    struct replay_options o = {.speed = 1, .max_length = 100};
    (void)state;
    const char *text = HEADER
        "{\"timestamp\": 9, \"input_length\": 64, \"output_length\": 2, \"hash_ids\": "
        "[9007199254740991, 7], \"max_tokens\": 5, \"stream\": true, \"status\": 200}\n"
        "{\"timestamp\": 4, \"input_length\": 0, \"output_length\": 0, \"hash_ids\": [], "
        "\"status\": 503}\n"
        "{\"timestamp\": 5, \"input_length\": 40, \"output_length\": 0, \"hash_ids\": [3]}\n"
        "{\"timestamp\": 6, \"input_length\": 99, \"output_length\": 2, \"hash_ids\": [1, 2, 3]}\n"
        "{\"timestamp\": 9, \"input_length\": 98, \"output_length\": 2}\n"
        "{\"timestamp\": 8.5, \"input_length\": 1.0, \"output_length\": 1, \"hash_ids\": []}\n"
        "{\"dropped\": 12}"; /* the last line's end may be missing */
    struct replay r = read_with(text, &o);
    assert_int_equal(r.block_tokens, 32);
    assert_int_equal(r.n, 3);
    assert_int_equal(r.empty, 2);
    assert_int_equal(r.too_long, 1);
    assert_int_equal(r.dropped, 12);
    assert_int_equal(r.requests[0].line, 7);
    assert_int_equal(r.requests[1].line, 2); /* at one time, as in the file */
    assert_int_equal(r.requests[2].line, 6);
    assert_int_equal(r.n_hash_ids, 2);
    assert_true(r.hash_ids[0] == 9007199254740991);
    assert_int_equal(strlen(r.sha256), 64);
    replay_fini(&r);
    o = (struct replay_options){.speed = 1, .num_requests = 1};
    r = read_with(text, &o);
    assert_int_equal(r.n, 1);
    assert_int_equal(r.input_tokens, 99); /* the earliest that has an output */
    replay_fini(&r);
}

/* sha256sum of these bytes, by coreutils. */
static void the_hash_is_of_the_file(void **state)
{
    (void)state;
    struct replay r =
        read_with("{\"timestamp\": 1, \"input_length\": 1, \"output_length\": 1}\n", &defaults);
    assert_string_equal(r.sha256, "8fc3df751d77e38ebcf527829ac8ab1e"
                                  "5f931211c4df2107a61be34b79c02c58");
    replay_fini(&r);
}

#define REQUEST(at, in, out, ids)                                                                  \
    "{\"timestamp\": " at ", \"input_length\": " in ", \"output_length\": " out                    \
    ", \"hash_ids\": " ids "}\n"
#define GOOD REQUEST("1", "70", "2", "[1]")

static void bad_lines_are_named(void **state)
{
    static const struct {
        const char *text, *line, *what;
    } cases[] = {
        {"", "", "no request"},
        {HEADER, "", "no request"},
        {REQUEST("1", "5", "0", "[]"), "", "1 without"},
        {"{", ":1:", "not JSON"},
        {GOOD "\n" GOOD, ":2:", "not JSON"},
        {GOOD GOOD "[]\n", ":3:", "an array"},
        {GOOD "5\n", ":2:", "not JSON"},
        {GOOD "{\"timestamp\": 1, \"timestamp\": 2}\n", ":2:", "duplicate"},
        {GOOD "{\"timestamp\": \"\xff\"}\n", ":2:", "not JSON"},
        {"{\"schema\": \"firstlight-trace/2\", \"block_tokens\": 32}\n" GOOD, ":1:", "schema"},
        {"{\"schema\": 7}\n" GOOD, ":1:", "schema"},
        {"{\"schema\": \"firstlight-trace/1\"}\n" GOOD, ":1:", "block_tokens"},
        {"{\"schema\": \"firstlight-trace/1\", \"block_tokens\": 0}\n", ":1:", "block_tokens"},
        {GOOD HEADER, ":2:", "timestamp"},
        {"{}\n", ":1:", "timestamp"},
        {REQUEST("-1", "70", "2", "[]"), ":1:", "timestamp"},
        {REQUEST("1e300", "70", "2", "[]"), ":1:", "timestamp"},
        {REQUEST("\"1\"", "70", "2", "[]"), ":1:", "timestamp"},
        {REQUEST("1", "-1", "2", "[]"), ":1:", "input_length"},
        {REQUEST("1", "1048577", "2", "[]"), ":1:", "input_length"}, /* LIMIT_CONTEXT */
        {REQUEST("1", "7.5", "2", "[]"), ":1:", "input_length"},
        {REQUEST("1", "70", "1048577", "[]"), ":1:", "output_length"},
        {REQUEST("1", "70", "null", "[]"), ":1:", "output_length"},
        {HEADER REQUEST("1", "70", "2", "[1, 2, 3, 4]"), ":2:", "hash_ids"},
        {REQUEST("1", "512", "2", "[1, 2]"), ":1:", "at most 1"},
        {REQUEST("1", "70", "2", "7"), ":1:", "hash_ids"},
        {REQUEST("1", "70", "2", "[-1]"), ":1:", "hash_ids[0]"},
        {REQUEST("1", "70", "2", "[9007199254740992]"), ":1:", "hash_ids[0]"},
        {REQUEST("1", "600", "2", "[1, \"2\"]"), ":1:", "hash_ids[1]"},
        {GOOD "{\"dropped\": -1}", ":2:", "dropped"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct replay r;
        struct err err = {0};
        char place[sizeof bench_file + 8];
        snprintf(place, sizeof place, "%s%s", bench_file, cases[i].line);
        bench_file_write(cases[i].text, strlen(cases[i].text));
        enum status st = replay_read(&r, bench_file, &defaults, &err);
        replay_fini(&r);
        if (st != STATUS_INVALID || !strstr(err.text, place) || !strstr(err.text, cases[i].what))
            fail_msg("case %zu: status %d, \"%s\"", i, st, err.text);
    }
}

static void no_file(void **state)
{
    struct replay r;
    struct err err;
    (void)state;
    assert_int_equal(replay_read(&r, "/nonexistent/t", &defaults, &err), STATUS_IO);
    assert_non_null(strstr(err.text, "/nonexistent/t"));
    replay_fini(&r);
    assert_int_equal(replay_read(&r, "/tmp", &defaults, &err), STATUS_IO);
    replay_fini(&r);
}

static void check_read(const struct replay *r)
{
    struct replay_options o = defaults;
    struct workload w;
    struct err err;
    uint32_t inexact;
    for (uint32_t i = 0; i < r->n; i++) {
        const struct replay_request *q = &r->requests[i];
        assert_true(i == 0 || q->at_ms >= q[-1].at_ms);
        assert_in_range(q->input_tokens, 1, LIMIT_CONTEXT);
        assert_in_range(q->output_tokens, 1, LIMIT_CONTEXT);
        assert_true(q->first_hash + q->n_hashes <= r->n_hash_ids);
    }
    if (r->input_tokens > 2000)
        return;
    assert_int_equal(replay_make(&w, r, &o, NULL, 0, &inexact, &err), STATUS_OK);
    workload_fini(&w);
}

/* Bytes of a good trace changed at random, a few at a time. */
static void any_bytes_may_come(void **state)
{
    static const char good[] =
        HEADER GOOD REQUEST("2", "96", "3", "[1, 2, 3]") GOOD "{\"dropped\": 3}\n";
    static const char bytes[] = "0123456789-.e,:[]{}\" \n\\truefalsn\xff\x00\x7f";
    struct random random;
    unsigned n_read = 0, n_refused = 0;
    (void)state;
    random_init(&random, 1, 1);
    for (int i = 0; i < 1000; i++) {
        char text[sizeof good];
        struct replay r;
        struct err err = {0};
        memcpy(text, good, sizeof good);
        for (uint32_t n = 1 + random_below(&random, 4); n > 0; n--)
            text[random_below(&random, sizeof good - 1)] =
                bytes[random_below(&random, sizeof bytes - 1)];
        bench_file_write(text, random_below(&random, 4) ? sizeof good - 1
                                                        : random_below(&random, sizeof good));
        enum status st = replay_read(&r, bench_file, &defaults, &err);
        if (st == STATUS_OK)
            check_read(&r);
        else if (st != STATUS_INVALID || !strstr(err.text, bench_file))
            fail_msg("%s", err.text);
        n_read += st == STATUS_OK;
        n_refused += st != STATUS_OK;
        replay_fini(&r);
    }
    assert_true(n_read > 20 && n_refused > 50);
}

/* LIMIT_REPLAY_LINE */
static void a_line_without_end(void **state)
{
    struct replay r;
    struct err err;
    (void)state;
    char *bytes = mem_alloc(LIMIT_REPLAY_LINE + 1);
    static const char head[] = "{\"timestamp\": 1, \"input_length\": 1, \"output_length\": 1}";
    memset(bytes, ' ', LIMIT_REPLAY_LINE + 1);
    memcpy(bytes, head, sizeof head - 1);
    bench_file_write(bytes, LIMIT_REPLAY_LINE);
    assert_int_equal(replay_read(&r, bench_file, &defaults, &err), STATUS_OK);
    replay_fini(&r);
    bench_file_write(bytes, LIMIT_REPLAY_LINE + 1);
    assert_int_equal(replay_read(&r, bench_file, &defaults, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, ":1: the line is longer than"));
    replay_fini(&r);
    mem_free(bytes);
}

/* LIMIT_REPLAY_TOKENS */
static void too_many_tokens(void **state)
{
    static const char line[] =
        "{\"timestamp\": 1, \"input_length\": 1048576, \"output_length\": 1}\n";
    struct replay_options o = defaults;
    struct replay r;
    struct err err;
    struct buf text = {0};
    (void)state;
    for (unsigned i = 0; i <= LIMIT_REPLAY_TOKENS / LIMIT_CONTEXT; i++)
        buf_puts(&text, line);
    bench_file_write(text.data, text.len);
    buf_fini(&text);
    assert_int_equal(replay_read(&r, bench_file, &o, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "--num-requests"));
    replay_fini(&r);
    o.num_requests = LIMIT_REPLAY_TOKENS / LIMIT_CONTEXT;
    assert_int_equal(replay_read(&r, bench_file, &o, &err), STATUS_OK);
    replay_fini(&r);
}

/* --- prompts -------------------------------------------------------------------------------- */

static struct workload made(const struct replay *r, const struct replay_options *o,
                            const struct tokenizer *t, uint32_t run)
{
    struct workload w;
    struct err err = {0};
    uint32_t inexact;
    if (replay_make(&w, r, o, t, run, &inexact, &err))
        fail_msg("%s", err.text);
    assert_int_equal(inexact, 0);
    assert_int_equal(w.n, r->n);
    return w;
}

static struct tokens encoded(const struct tokenizer *t, const char *text)
{
    struct tokens ids = {0};
    struct err err;
    if (tokenizer_encode(t, text, strlen(text), NULL, TOKENIZE_SPECIAL | TOKENIZE_ADD, &ids, &err))
        fail_msg("%s", err.text);
    return ids;
}

static size_t count_words(const char *text)
{
    size_t n = *text != '\0';
    for (; *text; text++)
        n += *text == ' ';
    return n;
}

/* Bytes that two texts have in common at their beginnings. */
static size_t common(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n])
        n++;
    return n;
}

/* Words in common at the beginnings. */
static size_t common_words(const char *a, const char *b)
{
    size_t n = common(a, b), words = 0;
    for (size_t i = 0; i < n; i++)
        words += a[i] == ' ';
    return words + (a[n] == '\0' && b[n] == '\0');
}

#define SHARING                                                                                    \
    HEADER REQUEST("1000", "100", "3", "[11, 22, 33]") REQUEST("1010", "90", "4", "[11, 22]")      \
        REQUEST("1020", "100", "5", "[11, 44, 55]") REQUEST("1030.5", "70", "6", "[66, 77]")       \
            REQUEST("1040", "96", "7", "[11, 22, 33]") REQUEST("1050", "20", "1", "[]")            \
                REQUEST("1060", "96", "7", "[11, 22, 33]")                                         \
                    REQUEST("1070", "80", "7", "[11, 22, 33]")

static void prompts_share_what_was_shared(void **state)
{
    static const uint32_t lengths[] = {100, 90, 100, 70, 96, 20, 96, 80};
    (void)state;
    struct replay r = read_with(SHARING, &defaults);
    struct workload w = made(&r, &defaults, NULL, 0);
    for (uint32_t i = 0; i < w.n; i++) {
        assert_int_equal(count_words(w.items[i].prompt), lengths[i]);
        assert_int_equal(w.items[i].max_tokens, r.requests[i].output_tokens);
        assert_true(w.items[i].ignore_eos && w.items[i].stream && !w.items[i].chat);
    }
    /* a random word may be the same by chance, three in a row do not happen with these ids */
    const char *first = w.items[0].prompt;
    assert_in_range(common_words(first, w.items[1].prompt), 64, 66);
    assert_in_range(common_words(first, w.items[2].prompt), 32, 34);
    assert_in_range(common_words(first, w.items[3].prompt), 0, 2);
    assert_in_range(common_words(first, w.items[4].prompt), 95, 98);
    assert_in_range(common_words(first, w.items[5].prompt), 0, 2);
    assert_string_equal(w.items[4].prompt, w.items[6].prompt);
    assert_int_equal(common(w.items[4].prompt, w.items[7].prompt), strlen(w.items[7].prompt));
    workload_fini(&w);
    replay_fini(&r);
}

static void due_when_they_were(void **state)
{
    struct replay_options o = defaults;
    (void)state;
    struct replay r = read_with(SHARING, &o);
    struct workload w = made(&r, &o, NULL, 0);
    assert_int_equal(w.items[0].due_us, 0); /* the wait before the first is left out */
    assert_int_equal(w.items[3].due_us, 30500);
    workload_fini(&w);
    o.speed = 4;
    w = made(&r, &o, NULL, 0);
    assert_int_equal(w.items[3].due_us, 7625);
    workload_fini(&w);
    replay_fini(&r);
}

static void a_run_has_words_of_its_own(void **state)
{
    struct replay_options o = defaults;
    (void)state;
    struct replay r = read_with(SHARING, &o);
    struct workload a = made(&r, &o, NULL, 0), same = made(&r, &o, NULL, 0),
                    run = made(&r, &o, NULL, 1);
    o.seed = 1;
    struct workload seed = made(&r, &o, NULL, 0);
    for (uint32_t i = 0; i < a.n; i++) {
        assert_string_equal(a.items[i].prompt, same.items[i].prompt);
        assert_in_range(common_words(a.items[i].prompt, run.items[i].prompt), 0, 2);
        assert_in_range(common_words(a.items[i].prompt, seed.items[i].prompt), 0, 2);
    }
    assert_string_equal(run.items[4].prompt, run.items[6].prompt);
    o = defaults;
    o.salt = 1;
    struct workload salted = made(&r, &o, NULL, 0);
    for (uint32_t i = 0; i < a.n; i++) {
        assert_in_range(common_words(a.items[i].prompt, salted.items[i].prompt), 0, 2);
        assert_int_equal(a.items[i].due_us, salted.items[i].due_us);
    }
    assert_string_equal(salted.items[4].prompt, salted.items[6].prompt); /* shared as before */
    workload_fini(&salted);
    workload_fini(&a);
    workload_fini(&same);
    workload_fini(&run);
    workload_fini(&seed);
    replay_fini(&r);
}

/* Tokens in common at the beginnings. */
static size_t common_tokens(const struct tokenizer *t, const char *a, const char *b)
{
    struct tokens x = encoded(t, a), y = encoded(t, b);
    size_t n = 0;
    while (n < x.count && n < y.count && x.ids[n] == y.ids[n])
        n++;
    tokens_fini(&x);
    tokens_fini(&y);
    return n;
}

static struct tokenizer *tiny(struct gguf **g)
{
    struct tokenizer *t;
    struct err err = {0};
    assert_int_equal(gguf_open(g, "tests/golden/tiny/base.gguf", &err), STATUS_OK);
    assert_int_equal(tokenizer_open(&t, *g, &err), STATUS_OK);
    return t;
}

/* A vocabulary of 274 tokens, in which hardly a word is one: blocks are counted, not words. */
static void lengths_and_blocks_are_exact(void **state)
{
    struct gguf *g;
    (void)state;
    struct tokenizer *t = tiny(&g);
    struct replay r = read_with(SHARING, &defaults);
    struct workload w = made(&r, &defaults, t, 0);
    for (uint32_t i = 0; i < w.n; i++) {
        struct tokens ids = encoded(t, w.items[i].prompt);
        assert_int_equal(ids.count, r.requests[i].input_tokens);
        tokens_fini(&ids);
    }
    const char *first = w.items[0].prompt;
    /* a token at a border may merge with what follows, and letters may agree by chance */
    assert_in_range(common_tokens(t, first, w.items[1].prompt), 63, 68);
    assert_in_range(common_tokens(t, first, w.items[2].prompt), 31, 36);
    assert_in_range(common_tokens(t, first, w.items[3].prompt), 0, 4);
    assert_string_equal(w.items[4].prompt, w.items[6].prompt);
    workload_fini(&w);
    replay_fini(&r);
    tokenizer_close(t);
    gguf_close(g);
}

/* A vocabulary in which each word is a token, with and without a space before it, and where bos
 * comes before every text: counted without looking at it again. */
struct word_model {
    struct gguf_writer writer;
    struct gguf *gguf;
    struct tokenizer *tokenizer;
    char spelled[1024][32];
    const char *tokens[1024];
    size_t n;
};

static void add_word(struct word_model *m, const char *word, size_t len)
{
    for (size_t i = 256; i < m->n; i += 2)
        if (strlen(m->spelled[i]) == len && memcmp(m->spelled[i], word, len) == 0)
            return;
    assert_true(m->n + 2 < 1024);
    snprintf(m->spelled[m->n++], sizeof m->spelled[0], "%.*s", (int)len, word);
    snprintf(m->spelled[m->n++], sizeof m->spelled[0], "\xc4\xa0%.*s", (int)len, word);
}

static void open_word_model(struct word_model *m)
{
    static const char *const merges[] = {"q q"};
    struct random r;
    struct err err = {0};
    bool exact;
    size_t len;
    for (; m->n < 256; m->n++)
        spell_byte((int)m->n, m->spelled[m->n]);
    random_init(&r, 0, 0);
    char *text = workload_text(&r, 20000, NULL, &exact);
    for (const char *at = text; *at; at += len + (at[len] == ' ')) {
        len = strcspn(at, " ");
        add_word(m, at, len);
    }
    mem_free(text);
    assert_int_equal(m->n, 256 + 2 * 256);
    strcpy(m->spelled[m->n++], "<bos>");
    for (size_t i = 0; i < m->n; i++)
        m->tokens[i] = m->spelled[i];
    gguf_writer_init(&m->writer, 3);
    gguf_writer_string(&m->writer, "tokenizer.ggml.model", "gpt2");
    gguf_writer_string(&m->writer, "tokenizer.ggml.pre", "llama-bpe");
    gguf_writer_strings(&m->writer, "tokenizer.ggml.tokens", m->n, m->tokens);
    gguf_writer_strings(&m->writer, "tokenizer.ggml.merges", 1, merges);
    gguf_writer_u32(&m->writer, "tokenizer.ggml.bos_token_id", (uint32_t)m->n - 1);
    gguf_writer_bool(&m->writer, "tokenizer.ggml.add_bos_token", true);
    const void *bytes = gguf_writer_finish(&m->writer, &len);
    if (gguf_parse(&m->gguf, bytes, len, &err) || tokenizer_open(&m->tokenizer, m->gguf, &err))
        fail_msg("%s", err.text);
}

static void words_that_are_tokens_and_bos(void **state)
{
    (void)state;
    struct word_model *m = mem_zalloc(sizeof *m);
    open_word_model(m);
    struct replay r = read_with(SHARING, &defaults);
    struct workload w = made(&r, &defaults, m->tokenizer, 0);
    for (uint32_t i = 0; i < w.n; i++) {
        struct tokens ids = encoded(m->tokenizer, w.items[i].prompt);
        assert_int_equal(ids.count, r.requests[i].input_tokens);
        assert_int_equal(count_words(w.items[i].prompt), ids.count - 1);
        tokens_fini(&ids);
    }
    const char *first = w.items[0].prompt;
    assert_in_range(common_tokens(m->tokenizer, first, w.items[1].prompt), 64, 66);
    assert_in_range(common_tokens(m->tokenizer, first, w.items[2].prompt), 32, 34);
    assert_in_range(common_tokens(m->tokenizer, first, w.items[3].prompt), 1, 3); /* bos */
    assert_in_range(common_tokens(m->tokenizer, first, w.items[4].prompt), 96, 98);
    workload_fini(&w);
    replay_fini(&r);
    tokenizer_close(m->tokenizer);
    gguf_close(m->gguf);
    gguf_writer_fini(&m->writer);
    mem_free(m);
}

/* A result of one trace at one speed compares with another of the same. */
static void workload_of_the_result(void **state)
{
    (void)state;
    struct replay_options o = {.speed = 2, .seed = 7};
    struct replay r = read_with(SHARING, &o);
    json_t *a = replay_json(&r, &o, 0), *b = replay_json(&r, &o, 0), *c = replay_json(&r, &o, 4);
    assert_true(json_equal(a, b) && !json_equal(a, c));
    assert_string_equal(json_string_value(json_object_get(a, "trace_sha256")), r.sha256);
    assert_near(json_real_value(json_object_get(a, "speed")), 2, 0);
    assert_int_equal(json_integer_value(json_object_get(a, "num_requests")), 8);
    assert_int_equal(json_integer_value(json_object_get(a, "seed")), 7);
    json_decref(a);
    json_decref(b);
    json_decref(c);
    replay_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mooncakes_own),
        cmocka_unit_test(ours_and_what_is_left_out),
        cmocka_unit_test(the_hash_is_of_the_file),
        cmocka_unit_test(bad_lines_are_named),
        cmocka_unit_test(no_file),
        cmocka_unit_test(any_bytes_may_come),
        cmocka_unit_test(a_line_without_end),
        cmocka_unit_test(too_many_tokens),
        cmocka_unit_test(prompts_share_what_was_shared),
        cmocka_unit_test(due_when_they_were),
        cmocka_unit_test(a_run_has_words_of_its_own),
        cmocka_unit_test(lengths_and_blocks_are_exact),
        cmocka_unit_test(words_that_are_tokens_and_bos),
        cmocka_unit_test(workload_of_the_result),
    };
    return cmocka_run_group_tests(tests, bench_file_make, bench_file_remove);
}
