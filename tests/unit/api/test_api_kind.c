/* The table of API kinds, held to what the APIs promise: ids, names of objects, choices, the chunk
 * that ends one, log probabilities, fields of requests. */
#include "api/api_kind.h"
#include "api/wire_format.h"
#include "support/cmocka_all.h"

#include "unit/engine/fake_backend.h"

#include <stdlib.h>
#include <string.h>

#define N_PROMISED (sizeof promised / sizeof *promised)
#define STOP       ",\"logprobs\":null,\"finish_reason\":\"stop\"}"
#define GOES_ON    ",\"logprobs\":null,\"finish_reason\":null}"

static const struct {
    const struct api_kind *kind;
    const char *name, *id, *object, *chunk_object;
    bool chat_template;
    const char *whole, *first_chunk, *chunk, *last_chunk; /* choices, with the text "hi" */
    const char *logprobs;                                 /* of one token "a" */
    const char *prompts, *bad_prompts;     /* a good member of a request, a bad one */
    const char *too_many, *too_many_param; /* more alternatives than may be asked for */
    const char *unsupported;               /* a member that only this API knows */
} promised[] = {
    {
        .kind = &api_chat,
        .name = "chat",
        .id = "chatcmpl",
        .object = "chat.completion",
        .chunk_object = "chat.completion.chunk",
        .chat_template = true,
        .whole = "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"hi\","
                 "\"refusal\":null}" STOP,
        .first_chunk = "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"hi\"}" GOES_ON,
        .chunk = "{\"index\":0,\"delta\":{\"content\":\"hi\"}" GOES_ON,
        .last_chunk = "{\"index\":0,\"delta\":{}" STOP,
        .logprobs = "{\"content\":[{\"token\":\"a\",\"logprob\":-0.5,\"bytes\":[97],"
                    "\"top_logprobs\":[{\"token\":\"b\",\"logprob\":-1,\"bytes\":[98]}]}],"
                    "\"refusal\":null}",
        .prompts = "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]",
        .bad_prompts = "\"messages\":5",
        .too_many = "\"logprobs\":true,\"top_logprobs\":21",
        .too_many_param = "top_logprobs",
        .unsupported = "\"tools\":[1]",
    },
    {
        .kind = &api_completions,
        .name = "completions",
        .id = "cmpl",
        .object = "text_completion",
        .chunk_object = "text_completion",
        .whole = "{\"index\":0,\"text\":\"hi\"" STOP,
        .first_chunk = "{\"index\":0,\"text\":\"hi\"" GOES_ON,
        .chunk = "{\"index\":0,\"text\":\"hi\"" GOES_ON,
        .last_chunk = "{\"index\":0,\"text\":\"\"" STOP,
        .logprobs = "{\"tokens\":[\"a\"],\"token_logprobs\":[-0.5],"
                    "\"top_logprobs\":[{\"b\":-1,\"a\":-0.5}],\"text_offset\":[0]}",
        .prompts = "\"prompt\":\"hi\"",
        .bad_prompts = "\"prompt\":{}",
        .too_many = "\"logprobs\":6",
        .too_many_param = "logprobs",
        .unsupported = "\"suffix\":\"x\"",
    },
};

/* Whoever adds a row says above what its API promises. */
static void every_row_is_promised(void **state)
{
    (void)state;
    size_t n = 0;
    for (; api_kind_table[n]; n++) {
        assert_true(n < N_PROMISED);
        assert_ptr_equal(api_kind_table[n], promised[n].kind);
    }
    assert_int_equal(n, N_PROMISED);
}

static void names(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_PROMISED; i++) {
        const struct api_kind *k = promised[i].kind;
        assert_string_equal(k->name, promised[i].name);
        assert_string_equal(k->id_prefix, promised[i].id);
        assert_int_equal(k->chat_template, promised[i].chat_template);
        assert_true(k->form->read && k->form->text && k->form->finish && k->form->choice);
        assert_null(k->form->logprobs_as); /* over HTTP each has its own */
    }
}

static void expect(struct buf *b, const char *object, const char *choice)
{
    char expected[512];
    snprintf(expected, sizeof expected,
             "{\"id\":\"i\",\"object\":\"%s\",\"created\":42,\"model\":\"m\",\"choices\":[%s]}",
             object, choice);
    assert_string_equal(buf_str(b), expected);
    buf_clear(b);
}

static void choices(void **state)
{
    (void)state;
    struct buf b = {0};
    for (size_t i = 0; i < N_PROMISED; i++) {
        const struct openai_response a = {
            .kind = promised[i].kind, .id = "i", .model = "m", .created = 42};
        struct openai_response_choice c = {.first = true, .text = "hi", .len = 2};
        openai_response_delta(&b, &a, &c);
        expect(&b, promised[i].chunk_object, promised[i].first_chunk);
        c.first = false;
        openai_response_delta(&b, &a, &c);
        expect(&b, promised[i].chunk_object, promised[i].chunk);
        c.finish = "stop";
        openai_response_finish(&b, &a, &c, NULL);
        expect(&b, promised[i].chunk_object, promised[i].last_chunk);
        openai_response_head(&b, &a);
        openai_response_choice(&b, &a, &c);
        buf_puts(&b, "]}");
        expect(&b, promised[i].object, promised[i].whole);
    }
    buf_fini(&b);
}

static void log_probabilities(void **state)
{
    (void)state;
    enum { A = 0, B = 1 };
    struct fake_world world;
    struct buf b = {0};
    const int32_t tokens[] = {A};
    const size_t before[] = {0};
    const struct token_logprob rows[] = {{A, -0.5f}, {B, -1}};
    const struct request_news all = {.text = "a",
                                     .text_len = 1,
                                     .tokens = tokens,
                                     .n_tokens = 1,
                                     .logprobs = rows,
                                     .logprobs_width = 2,
                                     .text_before = before};
    fake_world_open(&world);
    for (size_t i = 0; i < N_PROMISED; i++) {
        struct openai_logprobs_cursor cursor = {0};
        buf_clear(&b);
        assert_true(
            openai_logprobs_put(&b, promised[i].kind, world.tokenizer, &all, NULL, &cursor));
        assert_string_equal(buf_str(&b), promised[i].logprobs);
    }
    buf_fini(&b);
    fake_world_close(&world);
}

/* Which field a request of these members is refused for; "": none. */
static void expect_refused(const struct api_kind *kind, const char *prompts, const char *member,
                           const char *param)
{
    char body[256];
    struct openai_request q;
    struct err e = {0};
    int n = snprintf(body, sizeof body, "{%s%s%s}", prompts, *member ? "," : "", member);
    openai_request_parse(&q, kind, body, (size_t)n, &e);
    assert_string_equal(e.param, param);
    openai_request_fini(&q);
}

static void requests(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_PROMISED; i++) {
        const struct api_kind *k = promised[i].kind;
        const char *good = promised[i].prompts;
        expect_refused(k, good, "", "");
        expect_refused(k, promised[i].bad_prompts, "", k->prompts);
        expect_refused(k, good, promised[i].too_many, promised[i].too_many_param);
        assert_string_equal(k->alternatives, promised[i].too_many_param);
        for (size_t other = 0; other < N_PROMISED; other++) {
            char name[32] = "";
            if (other == i)
                assert_int_equal(sscanf(promised[i].unsupported, "\"%31[a-z_]", name), 1);
            expect_refused(k, good, promised[other].unsupported, name);
        }
    }
}

static const struct api_kind *kind_of(const char *request)
{
    json_t *json = json_loads(request, 0, NULL);
    const struct api_kind *kind = api_kind_of(json);
    assert_non_null(json);
    json_decref(json);
    return kind;
}

static void by_the_prompts(void **state)
{
    (void)state;
    char body[256];
    for (size_t i = 0; i < N_PROMISED; i++) {
        snprintf(body, sizeof body, "{\"n\":1,%s}", promised[i].prompts);
        assert_ptr_equal(kind_of(body), promised[i].kind);
    }
    assert_ptr_equal(kind_of("{}"), &api_completions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_promised),
        cmocka_unit_test(names),
        cmocka_unit_test(choices),
        cmocka_unit_test(log_probabilities),
        cmocka_unit_test(requests),
        cmocka_unit_test(by_the_prompts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
