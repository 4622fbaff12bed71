#include "support/near.h"
#include "support/tokenizer_model.h"

#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "bench/load/workload.h"
#include "bench/result/random.h"

static struct workload made(const struct workload_options *o, const struct tokenizer *t,
                            uint32_t run)
{
    struct workload w;
    struct err err = {0};
    if (workload_make(&w, o, t, run, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return w;
}

static size_t count_tokens(const struct tokenizer *t, const char *text)
{
    struct tokens ids = {0};
    struct err err;
    assert_int_equal(
        tokenizer_encode(t, text, strlen(text), NULL, TOKENIZE_SPECIAL | TOKENIZE_ADD, &ids, &err),
        STATUS_OK);
    size_t n = ids.count;
    tokens_fini(&ids);
    return n;
}

static size_t count_words(const char *text)
{
    size_t n = *text != '\0';
    for (; *text; text++)
        n += *text == ' ';
    return n;
}

static size_t first_word(const char *text)
{
    return strcspn(text, " ");
}

static bool same_first_word(const char *a, const char *b)
{
    return first_word(a) == first_word(b) && memcmp(a, b, first_word(a)) == 0;
}

/* Results of one seed compare across versions: these stay. */
static void a_seeds_workload_stays_the_same(void **state)
{
    struct workload_options o = workload_default;
    (void)state;
    o.prompt_tokens = 8;
    o.num_requests = 3;
    o.request_rate = 10;
    o.seed = 42;
    struct workload w = made(&o, NULL, 1);
    assert_string_equal(w.items[0].prompt, "while left several any men going its city");
    assert_string_equal(w.items[2].prompt, "put left several any men his into up");
    assert_int_equal(w.items[0].due_us, 0);
    assert_in_range(w.items[1].due_us, 158956, 158958); /* libm may differ in a last bit */
    assert_int_equal(w.items[2].due_us, 200000);
    workload_fini(&w);
}

static void the_default_is_one_prompt(void **state)
{
    struct workload w = made(&workload_default, NULL, 0);
    (void)state;
    assert_int_equal(w.n, 256);
    for (uint32_t i = 0; i < w.n; i++) {
        assert_string_equal(w.items[i].prompt, "Hello");
        assert_int_equal(w.items[i].due_us, 0);
        assert_int_equal(w.items[i].max_tokens, 64);
        assert_true(w.items[i].stream && !w.items[i].chat && !w.items[i].ignore_eos);
    }
    workload_fini(&w);
}

static void unique_prompts_differ_in_all_runs(void **state)
{
    struct workload_options o = workload_default;
    (void)state;
    o.unique_prompts = true;
    o.num_requests = 2;
    o.seed = UINT64_MAX;
    struct workload a = made(&o, NULL, 0), b = made(&o, NULL, 1);
    assert_string_equal(a.items[1].prompt, "Hello (18446744073709551615.0.1)");
    assert_string_equal(b.items[1].prompt, "Hello (18446744073709551615.1.1)");
    workload_fini(&a);
    workload_fini(&b);
}

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void assert_distinct(char **texts, size_t n)
{
    qsort(texts, n, sizeof *texts, compare_text);
    for (size_t i = 1; i < n; i++)
        assert_string_not_equal(texts[i - 1], texts[i]);
}

/* 256 requests in a row begin with different words; no two of any run begin with the same five. */
static void prompts_differ_from_the_start(void **state)
{
    enum { REQUESTS = 700, RUNS = 3 };
    static char *texts[REQUESTS * RUNS];
    struct workload_options o = workload_default;
    struct workload w[RUNS];
    (void)state;
    o.prompt_tokens = 5;
    o.num_requests = REQUESTS;
    for (uint32_t run = 0; run < RUNS; run++) {
        w[run] = made(&o, NULL, run);
        for (uint32_t i = 0; i < REQUESTS; i++)
            texts[run * REQUESTS + i] = w[run].items[i].prompt;
        for (uint32_t i = 0; i < 256; i++)
            for (uint32_t k = 0; k < i; k++) {
                const char *a = w[run].items[i].prompt, *b = w[run].items[k].prompt;
                assert_false(same_first_word(a, b));
            }
    }
    assert_distinct(texts, REQUESTS * RUNS);
    for (uint32_t run = 0; run < RUNS; run++)
        workload_fini(&w[run]);
}

static void seeds_differ(void **state)
{
    struct workload_options o = workload_default;
    (void)state;
    o.prompt_tokens = 4;
    struct workload a = made(&o, NULL, 0);
    o.seed = 1;
    struct workload b = made(&o, NULL, 0);
    uint32_t same = 0;
    for (uint32_t i = 0; i < a.n; i++)
        same += strcmp(a.items[i].prompt, b.items[i].prompt) == 0;
    assert_true(same < 3);
    workload_fini(&a);
    workload_fini(&b);
}

/* Each invocation has a salt of its own: other words of the same lengths at the same moments. */
static void a_salt_changes_words_and_nothing_else(void **state)
{
    struct workload_options o = workload_default;
    struct model *m = opened(new_model());
    (void)state;
    o.num_requests = 100;
    o.prompt_tokens = 40;
    o.shared_prefix_tokens = 20;
    o.request_rate = 50;
    o.seed = 7;
    o.salt = 1;
    struct workload a = made(&o, m->tokenizer, 0), again = made(&o, m->tokenizer, 0);
    o.salt = 2;
    struct workload b = made(&o, m->tokenizer, 0);
    for (uint32_t i = 0; i < a.n; i++) {
        assert_string_equal(a.items[i].prompt, again.items[i].prompt);
        assert_int_equal(a.items[i].due_us, b.items[i].due_us);
        assert_false(same_first_word(a.items[i].prompt, b.items[i].prompt)); /* of the prefix */
        assert_int_equal(count_tokens(m->tokenizer, b.items[i].prompt), 60);
    }
    workload_fini(&a);
    workload_fini(&again);
    workload_fini(&b);
    free_model(m);
}

/* The alphabet of the distinct first words is the salt's too. */
static void prompts_of_two_salts_differ_from_the_first_word_on(void **state)
{
    struct workload_options o = workload_default;
    struct workload w[3];
    uint32_t same = 0;
    (void)state;
    o.prompt_tokens = 8;
    for (o.salt = 0; o.salt < 3; o.salt++)
        w[o.salt] = made(&o, NULL, 0);
    for (uint32_t i = 0; i < w[0].n; i++)
        same += same_first_word(w[0].items[i].prompt, w[1].items[i].prompt) +
                same_first_word(w[1].items[i].prompt, w[2].items[i].prompt);
    assert_in_range(same, 0, 8); /* a word is one of 256 */
    for (uint32_t i = 0; i < 3; i++)
        workload_fini(&w[i]);
}

static void a_salt_stands_before_what_invocations_share(void **state)
{
    struct workload_options o = workload_default;
    (void)state;
    o.unique_prompts = true;
    o.num_requests = 1;
    o.salt = UINT64_MAX;
    struct workload w = made(&o, NULL, 3);
    assert_string_equal(w.items[0].prompt, "Hello (18446744073709551615.0.3.0)");
    workload_fini(&w);
    o.salt = 5; /* as many digits, so hardly ever another number of tokens */
    w = made(&o, NULL, 3);
    assert_string_equal(w.items[0].prompt, "Hello (00000000000000000005.0.3.0)");
    workload_fini(&w);
    char *background = workload_background_prompt(&o, 1);
    assert_string_equal(background, "Hello (00000000000000000005.0.background.1)");
    mem_free(background);
    o.unique_prompts = false; /* as it was given */
    w = made(&o, NULL, 3);
    assert_string_equal(w.items[0].prompt, "Hello");
    workload_fini(&w);
}

static void a_token_is_a_word_without_a_tokenizer(void **state)
{
    struct workload_options o = workload_default;
    (void)state;
    o.prompt_tokens = 100;
    o.shared_prefix_tokens = 30;
    o.num_requests = 20;
    struct workload w = made(&o, NULL, 0);
    const char *first = w.items[0].prompt, *end = first;
    for (int i = 0; i < 30; i++)
        end = strchr(end, ' ') + 1;
    for (uint32_t i = 0; i < w.n; i++) {
        assert_int_equal(count_words(w.items[i].prompt), 130);
        assert_memory_equal(w.items[i].prompt, first, (size_t)(end - first));
    }
    const char *second = w.items[1].prompt + (end - first);
    assert_false(same_first_word(second, end));
    struct workload other = made(&o, NULL, 1); /* another run shares another prefix */
    assert_memory_not_equal(other.items[0].prompt, first, 20);
    workload_fini(&w);
    workload_fini(&other);
}

/* A byte-level vocabulary with hardly a merge: words have to be cut and filled. */
static void lengths_are_exact(void **state)
{
    struct workload_options o = workload_default;
    struct model *m = opened(new_model());
    (void)state;
    o.num_requests = 5;
    for (uint32_t n = 1; n <= 130; n += n < 40 ? 1 : 30) {
        o.prompt_tokens = n;
        o.shared_prefix_tokens = 0;
        struct workload w = made(&o, m->tokenizer, 0);
        for (uint32_t i = 0; i < w.n; i++)
            assert_int_equal(count_tokens(m->tokenizer, w.items[i].prompt), n);
        workload_fini(&w);
        o.shared_prefix_tokens = 17;
        w = made(&o, m->tokenizer, 0);
        for (uint32_t i = 0; i < w.n; i++)
            assert_int_equal(count_tokens(m->tokenizer, w.items[i].prompt), n + 17);
        workload_fini(&w);
    }
    free_model(m);
}

/* The vocabulary of tests/golden/tiny: 274 tokens, learned from English. */
static void lengths_are_exact_with_a_learned_vocabulary(void **state)
{
    struct workload_options o = workload_default;
    struct gguf *g;
    struct tokenizer *t;
    struct err err = {0};
    (void)state;
    assert_int_equal(gguf_open(&g, "tests/golden/tiny/base.gguf", &err), STATUS_OK);
    assert_int_equal(tokenizer_open(&t, g, &err), STATUS_OK);
    o.num_requests = 10;
    o.shared_prefix_tokens = 3;
    for (o.prompt_tokens = 1; o.prompt_tokens < 1000; o.prompt_tokens *= 3) {
        struct workload w = made(&o, t, 0);
        for (uint32_t i = 0; i < w.n; i++)
            assert_int_equal(count_tokens(t, w.items[i].prompt), o.prompt_tokens + 3);
        workload_fini(&w);
    }
    tokenizer_close(t);
    gguf_close(g);
}

static void bos_is_counted(void **state)
{
    struct workload_options o = workload_default;
    struct model *m = new_model();
    struct workload w;
    (void)state;
    m->bos = IM;
    m->add_bos = 1;
    opened(m);
    o.num_requests = 3;
    o.prompt_tokens = 9;
    w = made(&o, m->tokenizer, 0);
    assert_int_equal(count_tokens(m->tokenizer, w.items[2].prompt), 9);
    workload_fini(&w);
    o.shared_prefix_tokens = 5;
    w = made(&o, m->tokenizer, 0);
    assert_int_equal(count_tokens(m->tokenizer, w.items[2].prompt), 14);
    workload_fini(&w);
    o.shared_prefix_tokens = 0;
    o.prompt_tokens = 1; /* bos alone: an empty text */
    w = made(&o, m->tokenizer, 0);
    assert_string_equal(w.items[0].prompt, "");
    workload_fini(&w);
    free_model(m);
}

/* A vocabulary without most letters: there is no such text, and that ends. */
static void a_tokenizer_that_cannot(void **state)
{
    struct workload_options o = workload_default;
    struct model *m = new_model();
    struct workload w;
    struct err err = {0};
    (void)state;
    for (int i = 0; i < 256; i++) /* bytes without a token yield nothing */
        snprintf(m->spelled[i], sizeof m->spelled[i], "<byte %d>", i);
    opened(m);
    o.prompt_tokens = 5;
    assert_int_equal(workload_make(&w, &o, m->tokenizer, 0, &err), STATUS_INVALID);
    assert_string_equal(err.param, "--prompt-tokens");
    assert_non_null(strstr(err.text, "exactly 5 tokens"));
    assert_null(w.items);
    free_model(m);
}

static void text_of_tokens(void **state)
{
    struct model *m = opened(new_model());
    struct random r, s;
    bool exact;
    (void)state;
    for (uint32_t n = 0; n < 60; n += 7) {
        random_init(&r, 5, n);
        random_init(&s, 5, n + 1000);
        char *a = workload_text(&r, n, m->tokenizer, &exact);
        assert_true(exact);
        assert_int_equal(count_tokens(m->tokenizer, a), n);
        char *b = workload_text(&s, n, NULL, &exact);
        assert_true(exact);
        assert_int_equal(count_words(b), n);
        assert_true(n == 0 || strncmp(a, b, 5) != 0);
        mem_free(a);
        mem_free(b);
    }
    free_model(m);
}

static void background_prompts_are_their_own(void **state)
{
    struct workload_options o = workload_default;
    char *texts[6];
    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        texts[i] = workload_background_prompt(&o, i);
    assert_string_equal(texts[1], "Hello (0.background.1)");
    o.prompt_tokens = 6;
    for (uint32_t i = 0; i < 3; i++) {
        texts[3 + i] = workload_background_prompt(&o, i);
        assert_int_equal(count_words(texts[3 + i]), 6);
    }
    struct workload w = made(&o, NULL, 0);
    assert_string_not_equal(w.items[0].prompt, texts[3]);
    workload_fini(&w);
    assert_distinct(texts, 6);
    for (int i = 0; i < 6; i++)
        mem_free(texts[i]);
}

static void intervals_are_even(void **state)
{
    struct workload_options o = workload_default;
    (void)state;
    o.num_requests = 4;
    o.submit_interval_ms = 2.5;
    struct workload w = made(&o, NULL, 0);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(w.items[i].due_us, 2500 * i);
    workload_fini(&w);
}

/* Coefficient of variation of the gaps: 1 / sqrt(burstiness). */
static double gaps_variation(const struct workload *w)
{
    double mean = (double)w->items[w->n - 1].due_us / (w->n - 1), sum = 0;
    for (uint32_t i = 1; i < w->n; i++) {
        double gap = (double)(w->items[i].due_us - w->items[i - 1].due_us);
        assert_true(gap >= 0);
        sum += (gap - mean) * (gap - mean);
    }
    return sqrt(sum / (w->n - 1)) / mean;
}

static void arrivals_have_rate_and_burstiness(void **state)
{
    static const double burstiness[] = {0.25, 1, 4};
    struct workload_options o = workload_default;
    (void)state;
    o.num_requests = 4001;
    o.request_rate = 50;
    o.submit_interval_ms = 7; /* does not count beside a rate */
    for (int i = 0; i < 3; i++) {
        o.burstiness = burstiness[i];
        struct workload w = made(&o, NULL, 0);
        assert_int_equal(w.items[0].due_us, 0);
        assert_in_range(w.items[4000].due_us, 79999990, 80000010);
        assert_near(gaps_variation(&w) * sqrt(burstiness[i]), 1, 0.15);
        workload_fini(&w);
    }
    struct workload a = made(&o, NULL, 0), b = made(&o, NULL, 1), again = made(&o, NULL, 0);
    assert_int_not_equal(a.items[1].due_us, b.items[1].due_us);
    assert_int_equal(a.items[1].due_us, again.items[1].due_us);
    workload_fini(&a);
    workload_fini(&b);
    workload_fini(&again);
    o.num_requests = 1;
    struct workload one = made(&o, NULL, 0);
    assert_int_equal(one.items[0].due_us, 0);
    workload_fini(&one);
}

static void refuse(struct workload_options o, const char *flag, const char *part)
{
    struct workload w;
    struct err err = {0};
    assert_int_equal(workload_make(&w, &o, NULL, 0, &err), STATUS_INVALID);
    assert_string_equal(err.param, flag);
    if (!strstr(err.text, part) || !strstr(err.text, flag))
        fail_msg("'%s' does not say '%s'", err.text, part);
    assert_int_equal(w.n, 0);
    workload_fini(&w);
}

#define REFUSE(flag, part, ...)                                                                    \
    do {                                                                                           \
        struct workload_options o = workload_default;                                              \
        __VA_ARGS__;                                                                               \
        refuse(o, flag, part);                                                                     \
    } while (0)

static void ranges_are_checked(void **state)
{
    (void)state;
    REFUSE("--num-requests", "got 0", o.num_requests = 0);
    REFUSE("--num-requests", "got 1.04858e+06", o.num_requests = LIMIT_BENCH_REQUESTS + 1);
    REFUSE("--max-new-tokens", "got 0", o.max_new_tokens = 0);
    REFUSE("--prompt-tokens", "got", o.prompt_tokens = LIMIT_CONTEXT + 1);
    REFUSE("--shared-prefix-tokens", "got 2", o.prompt_tokens = LIMIT_CONTEXT - 1,
           o.shared_prefix_tokens = 2);
    REFUSE("--submit-interval-ms", "got -1", o.submit_interval_ms = -1);
    REFUSE("--submit-interval-ms", "seconds", o.submit_interval_ms = 1e9, o.num_requests = 1000);
    REFUSE("--request-rate", "got -0.5", o.request_rate = -0.5);
    REFUSE("--request-rate", "inf", o.request_rate = INFINITY);
    REFUSE("--request-rate", "seconds", o.request_rate = 1e-9);
    REFUSE("--burstiness", "got 0", o.burstiness = 0);
    REFUSE("--burstiness", "nan", o.burstiness = NAN);
    REFUSE("--prompt", "got none", o.prompt = "");
    REFUSE("--prompt", "byte 2", o.prompt = "ab\xff");
}

static void json_holds_all_of_it(void **state)
{
    struct workload_options o = workload_default;
    (void)state;
    o.seed = 9;
    json_t *root = workload_json(&o);
    assert_int_equal(json_object_size(root), 15);
    assert_string_equal(json_string_value(json_object_get(root, "prompt")), "Hello");
    assert_int_equal(json_integer_value(json_object_get(root, "num_requests")), 256);
    assert_int_equal(json_integer_value(json_object_get(root, "seed")), 9);
    assert_true(json_is_false(json_object_get(root, "unique_prompts")));
    assert_true(json_is_true(json_object_get(root, "stream")));
    json_decref(root);
    o.prompt_tokens = 5; /* the prompt does not matter then */
    o.seed = UINT64_MAX;
    root = workload_json(&o);
    assert_true(json_is_null(json_object_get(root, "prompt")));
    assert_true(json_is_true(json_object_get(root, "unique_prompts")));
    assert_string_equal(json_string_value(json_object_get(root, "seed")), "18446744073709551615");
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seeds_workload_stays_the_same),
        cmocka_unit_test(the_default_is_one_prompt),
        cmocka_unit_test(unique_prompts_differ_in_all_runs),
        cmocka_unit_test(prompts_differ_from_the_start),
        cmocka_unit_test(seeds_differ),
        cmocka_unit_test(a_salt_changes_words_and_nothing_else),
        cmocka_unit_test(prompts_of_two_salts_differ_from_the_first_word_on),
        cmocka_unit_test(a_salt_stands_before_what_invocations_share),
        cmocka_unit_test(a_token_is_a_word_without_a_tokenizer),
        cmocka_unit_test(lengths_are_exact),
        cmocka_unit_test(lengths_are_exact_with_a_learned_vocabulary),
        cmocka_unit_test(bos_is_counted),
        cmocka_unit_test(a_tokenizer_that_cannot),
        cmocka_unit_test(text_of_tokens),
        cmocka_unit_test(background_prompts_are_their_own),
        cmocka_unit_test(intervals_are_even),
        cmocka_unit_test(arrivals_have_rate_and_burstiness),
        cmocka_unit_test(ranges_are_checked),
        cmocka_unit_test(json_holds_all_of_it),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
