/* Log probabilities as JSON: both dialects, parts of characters, what is held back and cut off. */
#include "api/openai_logprobs.h"

#include "api/api_kind.h"
#include "support/cmocka_all.h"
#include "unit/engine/group_world.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { A = 0, B = 1, SPACE = 26, C3 = 27, A9 = 28, AB = 29 };

/* An answer of up to eight tokens with two alternatives each: the token itself and 'z'. */
struct answer_of {
    int32_t tokens[8];
    struct token_logprob rows[8 * 3];
    size_t before[8];
    struct request_news all;
};

static void fill(struct answer_of *a, const char *text, const int32_t *tokens, const size_t *before,
                 uint32_t n)
{
    *a = (struct answer_of){0};
    for (uint32_t i = 0; i < n; i++) {
        a->tokens[i] = tokens[i];
        a->before[i] = before[i];
        a->rows[3 * i] = (struct token_logprob){tokens[i], -0.5f};
        a->rows[3 * i + 1] = a->rows[3 * i];
        a->rows[3 * i + 2] = (struct token_logprob){25, -1e30f};
    }
    a->all = (struct request_news){.text = text,
                                   .text_len = strlen(text),
                                   .tokens = a->tokens,
                                   .n_tokens = n,
                                   .logprobs = a->rows,
                                   .logprobs_width = 3,
                                   .text_before = a->before};
}

/* What comes now; NULL when nothing does. */
static json_t *put(const struct api_kind *kind, const struct answer_of *a,
                   struct openai_logprobs_cursor *cursor)
{
    struct buf b = {0};
    json_t *v = NULL;
    if (openai_logprobs_put(&b, kind, world.tokenizer, &a->all, NULL, cursor)) {
        v = json_loads(buf_str(&b), JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(v);
    } else {
        assert_int_equal(b.len, 0);
    }
    buf_fini(&b);
    return v;
}

static void expect(const struct api_kind *kind, const struct answer_of *a,
                   struct openai_logprobs_cursor *cursor, const char *expected)
{
    json_t *found = put(kind, a, cursor), *wanted = json_loads(expected, 0, NULL);
    assert_non_null(wanted);
    if (!json_equal(found, wanted)) {
        char *text = json_dumps(found, JSON_ENCODE_ANY);
        fail_msg("%s", text ? text : "nothing");
    }
    json_decref(found);
    json_decref(wanted);
}

static size_t count(const struct answer_of *a, struct openai_logprobs_cursor *cursor)
{
    json_t *v = put(&api_completions, a, cursor);
    size_t n = json_array_size(json_object_get(v, "tokens"));
    json_decref(v);
    return n;
}

static void both_dialects(void **state)
{
    (void)state;
    struct answer_of a;
    struct openai_logprobs_cursor cursor = {0};
    fill(&a, "ab", (int32_t[]){AB}, (size_t[]){0}, 1);
    expect(&api_chat, &a, &cursor,
           "{\"content\":[{\"token\":\"ab\",\"logprob\":-0.5,\"bytes\":[97,98],\"top_logprobs\":["
           "{\"token\":\"ab\",\"logprob\":-0.5,\"bytes\":[97,98]},"
           "{\"token\":\"z\",\"logprob\":-9999,\"bytes\":[122]}]}],\"refusal\":null}");
    assert_null(put(&api_chat, &a, &cursor));
    cursor = (struct openai_logprobs_cursor){0};
    expect(&api_completions, &a, &cursor,
           "{\"tokens\":[\"ab\"],\"token_logprobs\":[-0.5],"
           "\"top_logprobs\":[{\"ab\":-0.5,\"z\":-9999}],\"text_offset\":[0]}");
}

static void the_token_itself_is_among_the_alternatives(void **state)
{
    (void)state;
    struct answer_of a;
    struct openai_logprobs_cursor cursor = {0};
    fill(&a, "a", (int32_t[]){A}, (size_t[]){0}, 1);
    a.rows[1] = (struct token_logprob){B, -0.25f};
    expect(&api_completions, &a, &cursor,
           "{\"tokens\":[\"a\"],\"token_logprobs\":[-0.5],"
           "\"top_logprobs\":[{\"b\":-0.25,\"z\":-9999,\"a\":-0.5}],\"text_offset\":[0]}");
}

/* e-acute in two tokens, between letters: offsets count characters. */
static void parts_of_characters(void **state)
{
    (void)state;
    struct answer_of a;
    struct openai_logprobs_cursor cursor = {0};
    const int32_t tokens[] = {A, C3, A9, B};
    const size_t before[] = {0, 1, 1, 3};
    fill(&a, "a\u00e9b", tokens, before, 4);
    json_t *v = put(&api_completions, &a, &cursor);
    json_t *wanted = json_loads("[\"a\",\"bytes:\\\\xc3\",\"bytes:\\\\xa9\",\"b\"]", 0, NULL);
    assert_true(json_equal(json_object_get(v, "tokens"), wanted));
    json_decref(wanted);
    wanted = json_loads("[0,1,1,2]", 0, NULL);
    assert_true(json_equal(json_object_get(v, "text_offset"), wanted));
    json_decref(wanted);
    json_decref(v);
    cursor = (struct openai_logprobs_cursor){0};
    v = put(&api_chat, &a, &cursor);
    const json_t *part = json_array_get(json_object_get(v, "content"), 1);
    assert_string_equal(json_string_value(json_object_get(part, "token")), "\\xc3");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(part, "bytes"), 0)), 0xc3);
    json_decref(v);
}

/* The prompt is e-acute and "a" behind a token that is not in its text; the answer is "b". */
static void the_prompt_goes_first(void **state)
{
    (void)state;
    struct answer_of a;
    struct openai_logprobs_cursor cursor = {0};
    const int32_t ids[] = {FAKE_START, C3, A9, A};
    const struct openai_logprobs_prompt prompt = {ids, 4, "\u00e9a", 3};
    struct token_logprob rows[4 * 3] = {{0, 0}};
    for (int i = 1; i < 4; i++)
        rows[3 * i] = rows[3 * i + 1] = rows[3 * i + 2] = (struct token_logprob){ids[i], (float)-i};
    fill(&a, "bb", (int32_t[]){B, B}, (size_t[]){0, 1}, 2);
    a.all.prompt_logprobs = rows;
    a.all.text_len = 1;
    for (int round = 0; round < 2; round++) {
        struct buf b = {0};
        assert_true(
            openai_logprobs_put(&b, &api_completions, world.tokenizer, &a.all, &prompt, &cursor));
        assert_string_equal(
            buf_str(&b),
            round == 0
                ? "{\"tokens\":[\"<|im_start|>\",\"bytes:\\\\xc3\",\"bytes:\\\\xa9\",\"a\",\"b\"],"
                  "\"token_logprobs\":[null,-1,-2,-3,-0.5],"
                  "\"top_logprobs\":[null,{\"bytes:\\\\xc3\":-1},{\"bytes:\\\\xa9\":-2},{\"a\":-3},"
                  "{\"b\":-0.5,\"z\":-9999}],\"text_offset\":[0,0,0,1,2]}"
                : "{\"tokens\":[\"b\"],\"token_logprobs\":[-0.5],"
                  "\"top_logprobs\":[{\"b\":-0.5,\"z\":-9999}],\"text_offset\":[3]}");
        buf_fini(&b);
        a.all.text_len = 2;
    }
}

/* The tokens of a text that is held back wait; when it was a stop string they never come. */
static void held_text_holds_its_tokens(void **state)
{
    (void)state;
    struct answer_of a;
    struct openai_logprobs_cursor cursor = {0};
    const int32_t tokens[] = {A, B, A, B};
    const size_t before[] = {0, 1, 2, 3};
    fill(&a, "abab", tokens, before, 3);
    a.all.text_len = 1;
    assert_int_equal(count(&a, &cursor), 1);
    assert_int_equal(count(&a, &cursor), 0);
    struct openai_logprobs_cursor other = cursor;
    a.all.n_tokens = 4;
    a.all.finish = FINISH_STOP; /* it was one */
    assert_int_equal(count(&a, &cursor), 0);
    a.all.text_len = 4;
    a.all.finish = FINISH_LENGTH; /* it was none */
    assert_int_equal(count(&a, &other), 3);
    assert_int_equal(other.next, 4);
}

static void the_end_token_has_no_entry(void **state)
{
    (void)state;
    struct answer_of a;
    struct openai_logprobs_cursor cursor = {0}, ignoring = {.ends_shown = true};
    const int32_t tokens[] = {A, FAKE_END};
    const size_t before[] = {0, 1};
    fill(&a, "a", tokens, before, 2);
    assert_int_equal(count(&a, &cursor), 1);
    a.all.finish = FINISH_STOP;
    assert_int_equal(count(&a, &cursor), 0);
    a.all.finish = FINISH_LENGTH; /* with ignore_eos it ends nothing */
    assert_int_equal(count(&a, &ignoring), 2);
}

/* However the answer is cut into pieces, the entries are the same in the end. */
static void pieces_make_the_whole(void **state)
{
    (void)state;
    const int32_t tokens[] = {A, C3, A9, AB, SPACE, C3, B, C3};
    const size_t before[] = {0, 1, 1, 3, 5, 6, 6, 10};
    const char text[] = "a\u00e9ab \ufffdb";
    for (uint32_t n = 0; n <= 8; n++)
        for (size_t shown = 0; shown <= 10; shown++) {
            struct answer_of a;
            struct openai_logprobs_cursor cursor = {0};
            fill(&a, text, tokens, before, n);
            if (shown > (n < 8 ? before[n] : 10) || ((unsigned char)text[shown] & 0xc0) == 0x80)
                continue;
            a.all.text_len = shown;
            size_t first = count(&a, &cursor);
            assert_true(first <= n);
            for (size_t i = 0; i < first; i++)
                assert_true(before[i] <= shown);
            fill(&a, text, tokens, before, 8);
            a.all.finish = FINISH_LENGTH;
            assert_int_equal(first + count(&a, &cursor), 8);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_dialects),
        cmocka_unit_test(the_token_itself_is_among_the_alternatives),
        cmocka_unit_test(parts_of_characters),
        cmocka_unit_test(the_prompt_goes_first),
        cmocka_unit_test(held_text_holds_its_tokens),
        cmocka_unit_test(the_end_token_has_no_entry),
        cmocka_unit_test(pieces_make_the_whole),
    };
    return cmocka_run_group_tests_name("token_json", tests, open_world, close_world);
}
