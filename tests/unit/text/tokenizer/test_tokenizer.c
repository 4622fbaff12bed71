#include "support/sanitized.h"
#include "support/tokenizer_model.h"

#include "base/log.h"

static void merges_go_by_rank_then_leftmost(void **state)
{
    struct model *m = opened(new_model());
    (void)state;

    CHECK_NONE(m, "", 0);
    CHECK(m, "hello", 0, HELLO);
    CHECK(m, "hellhe", 0, HELL, HE);
    CHECK(m, "lll", 0, LL, 'l');
    CHECK(m, "aaa", 0, AA, 'a');
    CHECK(m, "aaaaa", 0, AA, AA, 'a');
    CHECK(m, "abc", 0, 'a', BC); /* "b c" comes first in the list */
    CHECK(m, "aab", 0, AA, 'b');
    CHECK(m, "b a", 0, 'b', SP_A);
    CHECK(m, "wxyz", 0, 'w', 'x', 'y', 'z'); /* no merge leads to the token */
    CHECK(m, "\0a\xc3\xa9\xf4", 0, 0, 'a', 0xc3, 0xa9, 0xef, 0xbf, 0xbd);
    free_model(m);
}

static void invalid_text_is_replaced(void **state)
{
    struct model *m = opened(new_model());
    (void)state;

    CHECK(m, "\xff", 0, 0xef, 0xbf, 0xbd);
    CHECK(m, "\xe2\x82", 0, 0xef, 0xbf, 0xbd);
    CHECK(m,
          "a\xe2\x82"
          "a",
          0, 'a', 0xef, 0xbf, 0xbd, 'a');
    CHECK(m, "\xed\xa0\x80", 0, 0xef, 0xbf, 0xbd, 0xef, 0xbf, 0xbd, 0xef, 0xbf, 0xbd);
    CHECK(m, "\xff<|im_end|>\xff", TOKENIZE_SPECIAL, 0xef, 0xbf, 0xbd, IM_END, 0xef, 0xbf, 0xbd);
    free_model(m);
}

static void special_tokens(void **state)
{
    struct model *m = opened(new_model());
    (void)state;

    CHECK(m, "aa<|im_end|>bc", TOKENIZE_SPECIAL, AA, IM_END, BC);
    CHECK(m, "<|im_end|>", 0, '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>');
    CHECK(m, "<|im_end|>x<|im", TOKENIZE_SPECIAL, IM_END_X, IM);
    CHECK(m, "<|im_end|", TOKENIZE_SPECIAL, IM, '_', 'e', 'n', 'd', '|');
    CHECK(m, "<<|im<|i", TOKENIZE_SPECIAL, '<', IM, '<', '|', 'i');
    CHECK(m, "<unk>", TOKENIZE_SPECIAL, UNK);
    CHECK(m, "<unk>", 0, '<', 'u', 'n', 'k', '>');
    CHECK(m, "a<tag>a", 0, 'a', TAG, 'a'); /* user-defined: always */
    CHECK(m, "a   a", 0, 'a', SPACES, SP_A);
    free_model(m);
}

static void untrusted_text_stays_text(void **state)
{
    static const char text[] = "<|im_end|>x";
    struct model *m = opened(new_model());
    uint8_t trusted[sizeof text - 1];
    (void)state;

    memset(trusted, 1, sizeof trusted);
    check_ids(m, text, sizeof trusted, trusted, TOKENIZE_SPECIAL, (int32_t[]){IM_END_X, -1});
    trusted[10] = 0; /* the longest does not count, the one before it does */
    check_ids(m, text, sizeof trusted, trusted, TOKENIZE_SPECIAL, (int32_t[]){IM_END, 'x', -1});
    trusted[9] = 0;
    check_ids(m, text, sizeof trusted, trusted, TOKENIZE_SPECIAL,
              (int32_t[]){IM, '_', 'e', 'n', 'd', '|', '>', 'x', -1});
    trusted[0] = 0;
    check_ids(m, text, sizeof trusted, trusted, TOKENIZE_SPECIAL,
              (int32_t[]){'<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>', 'x', -1});
    memset(trusted, 0, sizeof trusted);
    check_ids(m, "<tag>", 5, trusted, TOKENIZE_SPECIAL, (int32_t[]){TAG, -1});
    memset(trusted, 1, sizeof trusted);
    check_ids(m, text, sizeof trusted, trusted, 0,
              (int32_t[]){'<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>', 'x', -1});
    free_model(m);
}

static void bos_and_eos(void **state)
{
    struct model *m = new_model();
    (void)state;

    m->bos = IM, m->eos = IM_END, m->add_bos = m->add_eos = 1;
    opened(m);
    CHECK(m, "a", TOKENIZE_ADD, IM, 'a', IM_END);
    CHECK(m, "", TOKENIZE_ADD, IM, IM_END);
    CHECK(m, "a", 0, 'a');
    assert_int_equal(tokenizer_bos(m->tokenizer), IM);
    assert_int_equal(tokenizer_eos(m->tokenizer), IM_END);
    free_model(m);

    m = new_model();
    m->bos = IM, m->eos = IM_END;
    opened(m);
    CHECK(m, "a", TOKENIZE_ADD, 'a');
    free_model(m);
}

static void llama3_takes_whole_words_and_adds_bos(void **state)
{
    struct model *m = new_model();
    (void)state;

    m->pre = "llama-bpe", m->bos = IM;
    opened(m);
    CHECK(m, "wxyz", TOKENIZE_ADD, IM, WORD);
    CHECK(m, "<|im_end|>", 0, '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>');
    CHECK(m, "wxyza", 0, 'w', 'x', 'y', 'z', 'a');
    free_model(m);

    m = new_model();
    m->pre = "llama-bpe"; /* no bos to add */
    opened(m);
    CHECK(m, "a", TOKENIZE_ADD, 'a');
    free_model(m);
}

static void missing_bytes_yield_nothing(void **state)
{
    struct model *m = new_model();
    (void)state;

    m->tokens[1] = "<one>", m->tokens['b'] = "<b>";
    opened(m);
    CHECK_NONE(m, "\x01", 0);
    CHECK(m,
          "a\x01"
          "a",
          0, 'a', 'a');
    CHECK(m, "abca", 0, 'a', 'c', 'a');
    free_model(m);
}

static void pieces(void **state)
{
    struct model *m = opened(new_model());
    const struct tokenizer *t = m->tokenizer;
    size_t len;
    (void)state;

    assert_int_equal(tokenizer_vocab_size(t), N_TOKENS);
    assert_int_equal(tokenizer_max_piece(t), 11);
    for (int32_t byte = 0; byte < 256; byte++) {
        const char *piece = tokenizer_piece(t, byte, &len);
        assert_int_equal(len, 1);
        assert_int_equal((unsigned char)piece[0], byte);
        assert_int_equal(tokenizer_find(t, piece, 1), byte);
    }
    assert_memory_equal(tokenizer_piece(t, SP_A, &len), " a", 2);
    assert_int_equal(len, 2);
    assert_memory_equal(tokenizer_piece(t, IM_END, &len), "<|im_end|>", 10);
    assert_int_equal(tokenizer_find(t, "<|im_end|>", 10), IM_END);
    assert_int_equal(tokenizer_find(t, " a", 2), SP_A);
    assert_int_equal(tokenizer_find(t, "nothing", 7), -1);
    assert_int_equal(tokenizer_find(t, "", 0), -1);
    assert_non_null(tokenizer_piece(t, -1, &len));
    assert_int_equal(len, 0);
    assert_non_null(tokenizer_piece(t, N_TOKENS, &len));
    assert_int_equal(len, 0);
    assert_int_equal(tokenizer_bos(t), -1);
    assert_int_equal(tokenizer_eos(t), -1);
    free_model(m);
}

static void ends_and_controls(void **state)
{
    static const uint32_t ends[] = {'q', 'r'};
    struct model *m = new_model();
    (void)state;

    m->eos = 'e', m->eot = 't';
    gguf_writer_array(&m->writer, "tokenizer.ggml.eos_token_ids", GGUF_U32, 2, ends, sizeof ends);
    opened(m);
    for (int32_t id = -1; id <= N_TOKENS; id++) {
        bool end = id == 'e' || id == 't' || id == 'q' || id == 'r' || id == IM_END || id == EOT;
        bool control = id == IM || id == IM_END || id == IM_END_X || id == UNK || id == EOT;
        assert_int_equal(tokenizer_is_end(m->tokenizer, id), end);
        assert_int_equal(tokenizer_is_control(m->tokenizer, id), control);
    }
    free_model(m);

    m = new_model(); /* a name alone ends nothing: the token must be control */
    m->types[IM_END] = USER;
    opened(m);
    assert_false(tokenizer_is_end(m->tokenizer, IM_END));
    free_model(m);
}

static void decode(void **state)
{
    static const int32_t ids[] = {HELLO, SP_A, IM_END, TAG, 0xc3, 0xa9, -5, N_TOKENS, UNK};
    struct model *m = opened(new_model());
    struct buf out = {0};
    (void)state;

    assert_true(tokenizer_decode(m->tokenizer, ids, 9, false, &out));
    assert_string_equal(buf_str(&out), "hello a<tag>\xc3\xa9");
    buf_clear(&out);
    assert_true(tokenizer_decode(m->tokenizer, ids, 9, true, &out));
    assert_string_equal(buf_str(&out), "hello a<|im_end|><tag>\xc3\xa9<unk>");
    buf_fini(&out);
    free_model(m);
}

/* The merge rule as it is written down: look everywhere for the best pair, join it, again. */
static size_t slow_encode(const char *word, size_t len, int32_t *ids)
{
    static const int32_t table[][3] = {{'b', 'c', BC}, {'l', 'l', LL},     {'h', 'e', HE},
                                       {HE, LL, HELL}, {HELL, 'o', HELLO}, {'a', 'a', AA},
                                       {'a', 'b', AB}};
    size_t count = len;

    for (size_t i = 0; i < len; i++)
        ids[i] = word[i];
    for (size_t rank = 0; rank < sizeof table / sizeof table[0];) {
        size_t i = 0;
        while (i + 1 < count && (ids[i] != table[rank][0] || ids[i + 1] != table[rank][1]))
            i++;
        if (i + 1 >= count) {
            rank++;
            continue;
        }
        ids[i] = table[rank][2];
        memmove(ids + i + 1, ids + i + 2, (count - i - 2) * sizeof *ids);
        count--;
        rank = 0;
    }
    return count;
}

static void random_words_as_the_slow_way(void **state)
{
    struct model *m = opened(new_model());
    unsigned seed = 11;
    (void)state;

    for (int round = 0; round < 5000; round++) {
        char word[41];
        int32_t expected[41];
        size_t len = (size_t)rand_r(&seed) % 40;
        for (size_t i = 0; i < len; i++)
            word[i] = "abchelo"[(rand_r(&seed) >> 5) % 7];
        word[len] = '\0';
        expected[slow_encode(word, len, expected)] = -1;
        check_ids(m, word, len, NULL, 0, expected);
    }
    free_model(m);
}

/* Quadratic work would take minutes here. */
static void long_words(void **state)
{
    static const char *const units[] = {"a", "ab", "<", "<|im", "hello", "hel", "b", " "};
    enum { LEN = SANITIZED ? 1 << 16 : 1 << 20 };
    struct model *m = opened(new_model());
    char *text = malloc(LEN);
    (void)state;

    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
        struct tokens ids = {0};
        for (size_t i = 0; i < LEN; i++)
            text[i] = units[u][i % strlen(units[u])];
        assert_int_equal(
            tokenizer_encode(m->tokenizer, text, LEN, NULL, TOKENIZE_SPECIAL, &ids, &m->err),
            STATUS_OK);
        assert_true(ids.count > 0);
        tokens_fini(&ids);
    }
    free(text);
    free_model(m);
}

static void a_text_past_the_numbering_is_refused(void **state)
{
    struct model *m = opened(new_model());
    struct tokens ids = {0};
    (void)state;

    assert_int_equal(tokenizer_encode(m->tokenizer, "", SIZE_MAX, NULL, 0, &ids, &m->err),
                     STATUS_TOO_LARGE);
    assert_int_equal(ids.count, 0);
    free_model(m);
}

/* More tokens than wanted: the ones that were, and no more. */
static void no_more_than_wanted(void **state)
{
    struct model *m = opened(new_model());
    struct tokens out = {.most = 3};
    struct err err;
    (void)state;

    assert_int_equal(tokenizer_encode(m->tokenizer, "aab b", 5, NULL, 0, &out, &err),
                     STATUS_TOO_LARGE);
    assert_true(out.over);
    assert_int_equal(out.count, 3);
    assert_string_equal(err.text, "the text has more than 3 tokens");
    tokens_fini(&out);
    out.most = 4;
    assert_int_equal(tokenizer_encode(m->tokenizer, "aab b", 5, NULL, 0, &out, &err), STATUS_OK);
    assert_false(out.over);
    assert_int_equal(out.count, 4);
    assert_int_equal(tokenizer_encode(m->tokenizer, "a", 1, NULL, 0, &out, &err), STATUS_TOO_LARGE);
    tokens_fini(&out);
    free_model(m);
}

/* A word without end: one that is too long for sure is not even looked at. */
static void a_word_that_is_too_long_costs_nothing(void **state)
{
    struct model *m = opened(new_model());
    size_t len = 100 * tokenizer_max_piece(m->tokenizer);
    char *text = malloc(len);
    struct err err;
    (void)state;

    memset(text, 'z', len);
    struct tokens out = {.most = 99};
    assert_int_equal(tokenizer_encode(m->tokenizer, text, len, NULL, 0, &out, &err),
                     STATUS_TOO_LARGE);
    assert_true(out.over);
    assert_int_equal(out.count, 0);
    assert_int_equal(out.cap, 0);
    tokens_fini(&out);
    out.most = 100; /* it might be so many */
    assert_int_equal(tokenizer_encode(m->tokenizer, text, len, NULL, 0, &out, &err),
                     STATUS_TOO_LARGE);
    assert_int_equal(out.count, 100);
    tokens_fini(&out);
    out.most = len;
    assert_int_equal(tokenizer_encode(m->tokenizer, text, len, NULL, 0, &out, &err), STATUS_OK);
    assert_int_equal(out.count, len);
    tokens_fini(&out);
    free(text);
    free_model(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_go_by_rank_then_leftmost),
        cmocka_unit_test(invalid_text_is_replaced),
        cmocka_unit_test(special_tokens),
        cmocka_unit_test(untrusted_text_stays_text),
        cmocka_unit_test(bos_and_eos),
        cmocka_unit_test(llama3_takes_whole_words_and_adds_bos),
        cmocka_unit_test(missing_bytes_yield_nothing),
        cmocka_unit_test(pieces),
        cmocka_unit_test(ends_and_controls),
        cmocka_unit_test(decode),
        cmocka_unit_test(random_words_as_the_slow_way),
        cmocka_unit_test(long_words),
        cmocka_unit_test(a_text_past_the_numbering_is_refused),
        cmocka_unit_test(no_more_than_wanted),
        cmocka_unit_test(a_word_that_is_too_long_costs_nothing),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
