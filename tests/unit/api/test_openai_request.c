/* Requests: every field's range, every parameter that is not implemented. */
#include "api/openai_request.h"

#include "api/api_kind.h"
#include "support/cmocka_all.h"

#include "base/buf.h"
#include "base/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A request with these members added to what it needs. */
static enum status parse(struct openai_request *q, const struct api_kind *kind, const char *members,
                         struct err *e)
{
    char body[4096];
    *e = (struct err){0};
    int n = snprintf(body, sizeof body, "{%s%s%s}",
                     kind == &api_chat ? "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
                                       : "\"prompt\":\"hi\"",
                     *members ? "," : "", members);
    assert_true(n > 0 && (size_t)n < sizeof body);
    return openai_request_parse(q, kind, body, (size_t)n, e);
}

static void accepted(const struct api_kind *kind, const char *members)
{
    struct openai_request q;
    struct err e;
    if (parse(&q, kind, members, &e) != STATUS_OK)
        fail_msg("%s: %s", members, e.text);
    openai_request_fini(&q);
}

static void refused(const struct api_kind *kind, const char *members, const char *param)
{
    struct openai_request q;
    struct err e;
    enum status st = parse(&q, kind, members, &e);
    if (st != STATUS_INVALID || strcmp(e.param, param) != 0 || !strstr(e.text, param))
        fail_msg("%s: status %d, param \"%s\", text \"%s\"", members, st, e.param, e.text);
    openai_request_fini(&q);
}

/* The model's word counts where the request says nothing, or null. */
static void test_recommended(void **state)
{
    (void)state;
    struct sampling_values g = {0};
    struct openai_request q;
    struct err e;
    const struct sampling *s = &q.params.sampling;
    for (int f = 0; f < SAMPLING_PARAMS; f++) {
        g.given[f] = f != SAMPLING_min_p;
        g.value[f] = f == SAMPLING_top_k ? 40 : 0.5;
    }
    assert_int_equal(parse(&q, &api_chat, "\"top_p\": 1, \"temperature\": null", &e), STATUS_OK);
    openai_request_recommend(&q, &g);
    assert_true(s->temperature == 0.5f && s->top_k == 40 && s->repetition_penalty == 0.5f);
    assert_true(s->top_p == 1 && s->min_p == sampling_default.min_p);
    openai_request_fini(&q);
    assert_int_equal(parse(&q, &api_chat, "\"top_k\": -1, \"temperature\": 0", &e), STATUS_OK);
    openai_request_recommend(&q, &g);
    assert_true(s->temperature == 0 && s->top_k == 0 && s->top_p == 0.5f);
    openai_request_fini(&q);
}

static void test_defaults(void **state)
{
    (void)state;
    struct openai_request q;
    struct err e;
    assert_int_equal(parse(&q, &api_chat, "", &e), STATUS_OK);
    assert_int_equal(q.params.max_tokens, LIMIT_DEFAULT_MAX_TOKENS);
    const struct sampling *p = &q.params.sampling;
    assert_true(p->temperature == 0.8f && p->top_k == 40 && p->top_p == 0.95f);
    assert_true(p->min_p == 0.05f && p->repetition_penalty == 1);
    assert_true(p->presence_penalty == 0 && p->frequency_penalty == 0);
    assert_false(p->has_seed);
    assert_false(q.stream || q.include_usage || q.params.ignore_eos);
    assert_null(q.model);
    assert_int_equal(q.params.n_stop, 0);
    openai_request_fini(&q);
    /* a value of one changes none of the others */
    assert_int_equal(parse(&q, &api_chat, "\"temperature\": 1", &e), STATUS_OK);
    assert_true(p->temperature == 1 && p->top_k == 40 && p->top_p == 0.95f && p->min_p == 0.05f);
    openai_request_fini(&q);
}

static void test_values(void **state)
{
    (void)state;
    struct openai_request q;
    struct err e;
    static const char members[] =
        "\"model\":\"m\",\"temperature\":0.5,\"top_p\":0.9,\"top_k\":40,\"min_p\":0.1,"
        "\"repetition_penalty\":1.5,\"presence_penalty\":-1,\"frequency_penalty\":2,\"seed\":-3,"
        "\"stop\":[\"a\",\"\xe4\xb8\xad\"],\"max_tokens\":5,\"max_completion_tokens\":6,"
        "\"stream\":true,\"stream_options\":{\"include_usage\":true},\"ignore_eos\":true,"
        "\"logit_bias\":{\"5\":-100,\"7\":1.5},\"user\":\"u\",\"metadata\":{\"a\":\"b\"},"
        "\"surprise\":[{}]";
    assert_int_equal(parse(&q, &api_completions, members, &e), STATUS_OK);
    const struct sampling *s = &q.params.sampling;
    assert_string_equal(q.model, "m");
    assert_float_equal(s->temperature, 0.5, 0);
    assert_float_equal(s->top_p, 0.9f, 0);
    assert_int_equal(s->top_k, 40);
    assert_float_equal(s->min_p, 0.1f, 0);
    assert_float_equal(s->repetition_penalty, 1.5, 0);
    assert_float_equal(s->presence_penalty, -1, 0);
    assert_float_equal(s->frequency_penalty, 2, 0);
    assert_true(s->has_seed && s->seed == (uint64_t)-3);
    assert_int_equal(q.params.n_stop, 2);
    assert_string_equal(q.params.stop[1], "\xe4\xb8\xad");
    assert_int_equal(q.params.max_tokens, 6);
    assert_true(q.stream && q.include_usage && q.params.ignore_eos);
    assert_int_equal(s->n_bias, 2);
    assert_int_equal(s->bias[0].token, 5);
    assert_float_equal(s->bias[0].bias, -100, 0);
    openai_request_fini(&q);
}

/* name, values that pass, values that do not */
static const struct {
    const char *name;
    const char *good[4];
    const char *bad[6];
} ranges[] = {
    {"temperature", {"0", "2", "0.7", "null"}, {"-0.1", "2.1", "\"1\"", "[]", "1e300", "true"}},
    {"top_p", {"0.001", "1", "null"}, {"0", "1.001", "-1", "\"a\""}},
    {"min_p", {"0", "1"}, {"-0.01", "1.5", "{}"}},
    {"top_k", {"-1", "0", "40", "1000000"}, {"-2", "1000001", "1.5", "\"40\"", "1e30"}},
    {"repetition_penalty", {"0.1", "2"}, {"0", "2.5", "-1"}},
    {"presence_penalty", {"-2", "2"}, {"-2.1", "3", "\"0\""}},
    {"frequency_penalty", {"-2", "2"}, {"-2.1", "3", "false"}},
    {"seed", {"0", "-1", "9223372036854775807"}, {"0.5", "\"1\"", "1e19"}},
    {"max_tokens", {"1", "2147483647", "null"}, {"0", "-1", "2147483648", "1.5", "\"5\"", "1e300"}},
    {"max_completion_tokens", {"1", "7.0"}, {"0", "-5", "[1]"}},
    {"stop",
     {"\"a\"", "[]", "[\"a\",\"b\",\"c\",\"d\"]", "null"},
     {"\"\"", "5", "[\"a\",\"b\",\"c\",\"d\",\"e\"]", "[1]", "[\"\"]", "{}"}},
    {"stream", {"true", "false", "null"}, {"1", "\"true\""}},
    {"ignore_eos", {"true", "false"}, {"0"}},
    {"logit_bias",
     {"{}", "{\"0\":100}", "null"},
     {"[]", "{\"a\":1}", "{\"-1\":1}", "{\"5x\":1}", "{\"99999999999\":1}"}},
    {"model", {"\"m\"", "null"}, {"5", "[]"}},
    {"n", {"1", "64", "null"}, {"0", "-1", "65", "1.5", "\"2\"", "1e18"}},
    {"min_tokens", {"0", "512", "null"}, {"-1", "513", "0.5", "\"1\"", "1e12"}},
};

static void test_ranges(void **state)
{
    (void)state;
    char members[200];
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        for (size_t k = 0; k < 4 && ranges[i].good[k]; k++) {
            snprintf(members, sizeof members, "\"%s\":%s", ranges[i].name, ranges[i].good[k]);
            accepted(&api_chat, members);
            accepted(&api_completions, members);
        }
        for (size_t k = 0; k < 6 && ranges[i].bad[k]; k++) {
            snprintf(members, sizeof members, "\"%s\":%s", ranges[i].name, ranges[i].bad[k]);
            refused(&api_chat, members, ranges[i].name);
            refused(&api_completions, members, ranges[i].name);
        }
    }
    refused(&api_chat, "\"logit_bias\":{\"5\":101}", "logit_bias[5]");
    refused(&api_chat, "\"logit_bias\":{\"5\":\"1\"}", "logit_bias[5]");
    refused(&api_chat, "\"stream_options\":{\"include_usage\":true}", "stream_options");
    refused(&api_chat, "\"stream\":true,\"stream_options\":5", "stream_options");
    refused(&api_chat, "\"stream\":true,\"stream_options\":{\"include_usage\":1}",
            "stream_options.include_usage");
    refused(&api_chat, "\"stop\":[1]", "stop");
}

/* A request gives each sampling parameter under its row's name. */
static void test_sampling_rows(void **state)
{
    (void)state;
    for (int p = 0; p < SAMPLING_PARAMS; p++) {
        const struct sampling_row *row = &sampling_rows[p];
        struct openai_request q;
        struct err e;
        char members[80];
        snprintf(members, sizeof members, "\"%s\":%.0f", row->name, row->highest);
        assert_int_equal(parse(&q, &api_chat, members, &e), STATUS_OK);
        for (int k = 0; k < SAMPLING_PARAMS; k++)
            assert_true(sampling_get(&q.params.sampling, k) ==
                        (k == p ? row->highest : sampling_get(&sampling_default, k)));
        openai_request_fini(&q);
        snprintf(members, sizeof members, "\"%s\":%.0f", row->name, row->highest + 1);
        refused(&api_chat, members, row->name);
        snprintf(members, sizeof members, "\"%s\":%.0f", row->name, row->lowest - !row->above);
        refused(&api_completions, members, row->name);
    }
}

/* As far as the limit, and one further. */
static void test_limits(void **state)
{
    (void)state;
    char members[LIMIT_CACHE_SALT_BYTES + 32];
    const struct {
        const char *name;
        int sign, most;
    } numbers[] = {
        {"priority", 1, LIMIT_PRIORITY},
        {"priority", -1, LIMIT_PRIORITY},
        {"timeout", 1, LIMIT_TIMEOUT_SECONDS},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const char *name = numbers[i].name;
        int n = numbers[i].sign * numbers[i].most;
        snprintf(members, sizeof members, "\"%s\":%d", name, n);
        accepted(&api_chat, members);
        snprintf(members, sizeof members, "\"%s\":%d", name, n + numbers[i].sign);
        refused(&api_chat, members, name);
    }
    for (int over = 0; over < 2; over++) {
        snprintf(members, sizeof members, "\"cache_salt\":\"%0*d\"", LIMIT_CACHE_SALT_BYTES + over,
                 0);
        if (over)
            refused(&api_chat, members, "cache_salt");
        else
            accepted(&api_chat, members);
    }
    refused(&api_chat, "\"cache_salt\":\"\"", "cache_salt");
}

static const struct {
    int kinds; /* 1 chat, 2 completions */
    const char *name;
    const char *good[3];
    const char *bad[3];
} unsupported[] = {
    {3, "best_of", {"1", "null"}, {"2", "0", "\"1\""}},
    {1, "logprobs", {"false", "true", "null"}, {"1", "\"true\"", "[]"}},
    {1, "top_logprobs", {"0", "null"}, {"3", "21", "1.5"}},
    {2, "logprobs", {"0", "5", "false"}, {"6", "-1", "true"}},
    {2, "echo", {"true", "false"}, {"1", "\"\""}},
    {2, "suffix", {"\"\"", "null"}, {"\"x\""}},
    {1, "tools", {"[]", "null"}, {"[{\"type\":\"function\"}]"}},
    {1, "tool_choice", {"\"none\"", "\"auto\""}, {"\"required\"", "{}"}},
    {1, "functions", {"[]"}, {"[{}]"}},
    {1, "function_call", {"\"auto\""}, {"{\"name\":\"f\"}"}},
    {1, "response_format", {"{\"type\":\"text\"}"}, {"{\"type\":\"json_object\"}", "5"}},
    {1, "modalities", {"[\"text\"]"}, {"[\"text\",\"audio\"]"}},
    {1, "audio", {"null"}, {"{}"}},
    {1, "prediction", {"null"}, {"{\"type\":\"content\"}"}},
    {1, "web_search_options", {"null"}, {"{}"}},
    {1, "reasoning_effort", {"\"none\""}, {"\"high\""}},
    {1, "verbosity", {"\"medium\""}, {"\"low\""}},
    {3, "service_tier", {"\"auto\"", "\"default\""}, {"\"flex\""}},
    {1, "store", {"false"}, {"true"}},
};

static void try_unsupported(size_t i, const struct api_kind *kind)
{
    char members[200];
    for (size_t k = 0; k < 3 && unsupported[i].good[k]; k++) {
        snprintf(members, sizeof members, "\"%s\":%s", unsupported[i].name, unsupported[i].good[k]);
        if (unsupported[i].kinds & (kind == &api_chat ? 1 : 2))
            accepted(kind, members);
    }
    for (size_t k = 0; k < 3 && unsupported[i].bad[k]; k++) {
        snprintf(members, sizeof members, "\"%s\":%s", unsupported[i].name, unsupported[i].bad[k]);
        if (unsupported[i].kinds & (kind == &api_chat ? 1 : 2))
            refused(kind, members, unsupported[i].name);
        else if (strcmp(unsupported[i].name, "logprobs") != 0) /* both have it, each its own */
            accepted(kind, members);                           /* unknown there, so ignored */
    }
}

static void test_unsupported(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++) {
        try_unsupported(i, &api_chat);
        try_unsupported(i, &api_completions);
    }
}

static enum status parse_body(struct openai_request *q, const struct api_kind *kind,
                              const char *body, struct err *e)
{
    *e = (struct err){0};
    return openai_request_parse(q, kind, body, strlen(body), e);
}

static void test_messages(void **state)
{
    (void)state;
    struct openai_request q;
    struct err e;
    static const char good[] = "{\"messages\":[{\"role\":\"developer\",\"content\":\"d\"},"
                               "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
                               "{\"type\":\"text\",\"text\":\"b\"}],\"name\":\"n\"},"
                               "{\"role\":\"assistant\",\"content\":\"c\",\"tool_calls\":[]}]}";
    assert_int_equal(parse_body(&q, &api_chat, good, &e), STATUS_OK);
    char *text = json_dumps(q.messages, JSON_COMPACT);
    assert_string_equal(text, "[{\"role\":\"system\",\"content\":\"d\"},"
                              "{\"role\":\"user\",\"content\":\"ab\"},"
                              "{\"role\":\"assistant\",\"content\":\"c\"}]");
    free(text);
    openai_request_fini(&q);
}

static void test_bad_messages(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        const char *param;
    } bad[] = {
        {"{}", "messages"},
        {"{\"messages\":null}", "messages"},
        {"{\"messages\":[]}", "messages"},
        {"{\"messages\":\"hi\"}", "messages"},
        {"{\"messages\":[5]}", "messages[0].role"},
        {"{\"messages\":[{\"content\":\"a\"}]}", "messages[0].role"},
        {"{\"messages\":[{\"role\":\"king\",\"content\":\"a\"}]}", "messages[0].role"},
        {"{\"messages\":[{\"role\":\"tool\",\"content\":\"a\"}]}", "messages[0].role"},
        {"{\"messages\":[{\"role\":\"user\"}]}", "messages[0].content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":null}]}", "messages[0].content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":5}]}", "messages[0].content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}",
         "messages[0].content[0]"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[\"a\"]}]}", "messages[0].content[0]"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]}",
         "messages[0].content[0]"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\",\"tool_calls\":[{}]}]}",
         "messages[0].tool_calls"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct openai_request q;
        struct err e;
        enum status st = parse_body(&q, &api_chat, bad[i].body, &e);
        if (st != STATUS_INVALID || strcmp(e.param, bad[i].param) != 0)
            fail_msg("%s: status %d, param \"%s\", \"%s\"", bad[i].body, st, e.param, e.text);
        openai_request_fini(&q);
    }
}

/* LIMIT_MESSAGES */
static void test_many_messages(void **state)
{
    (void)state;
    for (size_t over = 0; over < 2; over++) {
        struct openai_request q;
        struct err e = {0};
        struct buf b = {0};
        buf_puts(&b, "{\"messages\":[");
        for (size_t i = 0; i < LIMIT_MESSAGES + over; i++)
            buf_printf(&b, "%s{\"role\":\"user\",\"content\":\"\"}", i ? "," : "");
        buf_puts(&b, "]}");
        assert_int_equal(openai_request_parse(&q, &api_chat, buf_str(&b), b.len, &e),
                         over ? STATUS_INVALID : STATUS_OK);
        openai_request_fini(&q);
        buf_fini(&b);
    }
}

/* LIMIT_LOGIT_BIAS, LIMIT_STOP_BYTES */
static void test_large_fields(void **state)
{
    (void)state;
    for (size_t over = 0; over < 2; over++) {
        struct openai_request q;
        struct err e = {0};
        struct buf b = {0};
        buf_puts(&b, "{\"prompt\":\"a\",\"logit_bias\":{");
        for (size_t i = 0; i < LIMIT_LOGIT_BIAS + over; i++)
            buf_printf(&b, "%s\"%zu\":1", i ? "," : "", i);
        buf_puts(&b, "}}");
        assert_int_equal(openai_request_parse(&q, &api_completions, buf_str(&b), b.len, &e),
                         over ? STATUS_INVALID : STATUS_OK);
        openai_request_fini(&q);
        buf_clear(&b);
        buf_puts(&b, "{\"prompt\":\"a\",\"stop\":\"");
        for (size_t i = 0; i < LIMIT_STOP_BYTES + over; i++)
            buf_putc(&b, 'x');
        buf_puts(&b, "\"}");
        assert_int_equal(openai_request_parse(&q, &api_completions, buf_str(&b), b.len, &e),
                         over ? STATUS_INVALID : STATUS_OK);
        openai_request_fini(&q);
        buf_fini(&b);
    }
}

static void test_prompts(void **state)
{
    (void)state;
    struct openai_request q;
    struct err e;
    assert_int_equal(parse_body(&q, &api_completions, "{\"prompt\":[\"hi\"]}", &e), STATUS_OK);
    assert_int_equal(q.prompts.n, 1);
    assert_string_equal(q.prompts.all[0].text, "hi");
    openai_request_fini(&q);
    assert_int_equal(parse_body(&q, &api_completions, "{\"prompt\":[1,2,3]}", &e), STATUS_OK);
    assert_null(q.prompts.all[0].text);
    assert_int_equal(q.prompts.all[0].ids.count, 3);
    assert_int_equal(q.prompts.all[0].ids.ids[2], 3);
    openai_request_fini(&q);
    assert_int_equal(parse_body(&q, &api_completions, "{\"prompt\":[\"a\",\"bc\"]}", &e),
                     STATUS_OK);
    assert_int_equal(q.prompts.n, 2);
    assert_int_equal(q.prompts.all[1].len, 2);
    openai_request_fini(&q);
    assert_int_equal(parse_body(&q, &api_completions, "{\"prompt\":[[1],[2,3]]}", &e), STATUS_OK);
    assert_int_equal(q.prompts.n, 2);
    assert_int_equal(q.prompts.all[1].ids.ids[1], 3);
    openai_request_fini(&q);
    static const char *const bad[] = {
        "{}",
        "{\"prompt\":null}",
        "{\"prompt\":5}",
        "{\"prompt\":[]}",
        "{\"prompt\":[\"a\",1]}",
        "{\"prompt\":[\"a\",[1]]}",
        "{\"prompt\":[[1,2],\"a\"]}",
        "{\"prompt\":[[1,2],[]]}",
        "{\"prompt\":[[]]}",
        "{\"prompt\":[[[1]]]}",
        "{\"prompt\":[[1,-1]]}",
        "{\"prompt\":[null]}",
        "{\"prompt\":{}}",
        "{\"prompt\":[1,\"a\"]}",
        "{\"prompt\":[-1]}",
        "{\"prompt\":[1.5]}",
        "{\"prompt\":[99999999999]}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(parse_body(&q, &api_completions, bad[i], &e), STATUS_INVALID);
        if (strncmp(e.param, "prompt", 6) != 0)
            fail_msg("%s: param \"%s\", \"%s\"", bad[i], e.param, e.text);
        openai_request_fini(&q);
    }
}

/* LIMIT_CHOICES, LIMIT_TOP_LOGPROBS, LIMIT_COMPLETION_LOGPROBS */
static void test_choices(void **state)
{
    (void)state;
    for (int over = 0; over < 2; over++) {
        struct openai_request q;
        struct err e = {0};
        struct buf b = {0};
        buf_puts(&b, "{\"prompt\":[");
        for (int i = 0; i < LIMIT_CHOICES + over; i++)
            buf_puts(&b, i ? ",\"a\"" : "\"a\"");
        buf_puts(&b, "]}");
        assert_int_equal(openai_request_parse(&q, &api_completions, buf_str(&b), b.len, &e),
                         over ? STATUS_INVALID : STATUS_OK);
        openai_request_fini(&q);
        buf_fini(&b);
        const char *body = over ? "{\"prompt\":[[1],[2],[3]],\"n\":22}"
                                : "{\"prompt\":[[1],[2],[3]],\"n\":21,\"best_of\":21}";
        assert_int_equal(parse_body(&q, &api_completions, body, &e),
                         over ? STATUS_INVALID : STATUS_OK);
        assert_string_equal(e.param, over ? "n" : "");
        assert_int_equal(q.n, over ? 22 : 21);
        openai_request_fini(&q);
    }
    accepted(&api_chat, "\"logprobs\":true,\"top_logprobs\":20");
    refused(&api_chat, "\"logprobs\":true,\"top_logprobs\":21", "top_logprobs");
    refused(&api_chat, "\"logprobs\":false,\"top_logprobs\":1", "top_logprobs");
    accepted(&api_completions, "\"logprobs\":0,\"echo\":true");
    refused(&api_chat, "\"n\":2,\"best_of\":3", "best_of");
    accepted(&api_chat, "\"max_tokens\":5,\"min_tokens\":5");
    refused(&api_chat, "\"max_tokens\":5,\"min_tokens\":6", "min_tokens");
}

/* LIMIT_ANSWER_LOGPROBS: what a request may bring, the prompts having so many tokens. */
static enum status check_logprobs(const struct api_kind *kind, const char *members, size_t prompt,
                                  uint32_t n_ctx, struct err *e)
{
    struct openai_request q;
    if (parse(&q, kind, members, e) != STATUS_OK)
        fail_msg("%s: %s", members, e->text);
    for (uint32_t i = 0; i < q.prompts.n; i++)
        q.prompts.all[i].ids.count = prompt;
    enum status st = openai_request_check_logprobs(&q, n_ctx, e);
    openai_request_fini(&q);
    return st;
}

static void test_log_probabilities_at_once(void **state)
{
    (void)state;
    static const struct {
        const struct api_kind *kind;
        const char *members;
        size_t prompt;
        uint32_t n_ctx;
        bool passes;
    } cases[] = {
        {&api_chat, "\"n\":64,\"max_tokens\":100000", 10, 100000, true},
        {&api_chat, "\"logprobs\":true,\"top_logprobs\":20,\"max_tokens\":4096", 10, 8192, true},
        {&api_chat, "\"logprobs\":true,\"top_logprobs\":20,\"max_tokens\":6241", 10, 8192, true},
        {&api_chat, "\"logprobs\":true,\"top_logprobs\":20,\"max_tokens\":6242", 10, 8192, false},
        {&api_chat, "\"logprobs\":true,\"top_logprobs\":20,\"max_tokens\":6242,\"stream\":true", 10,
         8192, true},
        {&api_chat, "\"logprobs\":true,\"top_logprobs\":20,\"max_tokens\":999999", 10, 6251, true},
        {&api_chat, "\"logprobs\":true,\"top_logprobs\":20,\"max_tokens\":999999", 9, 6251, false},
        {&api_chat, "\"logprobs\":true,\"top_logprobs\":20,\"n\":13", 10, 8192, false},
        {&api_completions, "\"logprobs\":5,\"echo\":true,\"max_tokens\":1", 16384, 32768, true},
        {&api_completions, "\"logprobs\":5,\"echo\":true,\"max_tokens\":1", 21844, 32768, true},
        {&api_completions, "\"logprobs\":5,\"echo\":true,\"max_tokens\":1", 21845, 32768, false},
        {&api_completions, "\"logprobs\":5,\"echo\":true,\"stream\":true", 21845, 32768, true},
        {&api_completions, "\"logprobs\":5,\"echo\":true,\"stream\":true", 21846, 32768, false},
        {&api_completions, "\"logprobs\":0,\"n\":64,\"max_tokens\":2048", 10, 8192, true},
        {&api_completions, "\"logprobs\":0,\"n\":64,\"max_tokens\":2049", 10, 8192, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err e = {0};
        enum status st =
            check_logprobs(cases[i].kind, cases[i].members, cases[i].prompt, cases[i].n_ctx, &e);
        if (st != (cases[i].passes ? STATUS_OK : STATUS_INVALID))
            fail_msg("%s: %s", cases[i].members, e.text);
        if (st == STATUS_OK)
            continue;
        assert_string_equal(e.param, cases[i].kind == &api_chat ? "top_logprobs" : "logprobs");
        assert_non_null(strstr(e.text, "at most 131072 at once"));
    }
}

/* The body goes once its tokens are there; what echo shows stays. */
static void test_the_text_is_forgotten(void **state)
{
    (void)state;
    for (int echo = 0; echo < 2; echo++) {
        struct openai_request q;
        struct err e;
        size_t len;
        const char *body = echo ? "{\"prompt\":[\"one\",\"two\"],\"echo\":true,\"model\":\"m\"}"
                                : "{\"prompt\":[\"one\",\"two\"]}";
        assert_int_equal(parse_body(&q, &api_completions, body, &e), STATUS_OK);
        assert_int_equal(openai_request_forget_text(&q, &e), STATUS_OK);
        assert_true(!q.json && !q.messages && !q.model);
        assert_string_equal(prompts_text(&q.prompts, 1, &len), echo ? "two" : "");
        assert_int_equal(len, echo ? 3 : 0);
        openai_request_fini(&q);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_recommended),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_sampling_rows),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_unsupported),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_bad_messages),
        cmocka_unit_test(test_many_messages),
        cmocka_unit_test(test_large_fields),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_log_probabilities_at_once),
        cmocka_unit_test(test_the_text_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
