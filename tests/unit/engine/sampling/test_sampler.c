/* The sampler against a naive double-precision reference that sorts the whole vocabulary. */
#include "base/cpu.h"
#include "base/mem.h"
#include "engine/sampling/sampler.h"
#include "engine/sampling/topk.h"
#include "support/cmocka_all.h"
#include "support/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_VOCAB 1500

/* Every filter and processor off. */
static const struct sampling plain = {.temperature = 1, .top_p = 1, .repetition_penalty = 1};

struct fixture {
    struct kernels kernels;
    struct sampler sampler;
    struct token_counts counts;
    uint32_t n_vocab;
    float logits[MOST_VOCAB];
};

static void fixture_init_at(struct fixture *f, uint32_t n_vocab, uint32_t levels)
{
    kernels_fill(&f->kernels, levels & cpu_detect());
    f->n_vocab = n_vocab;
    assert_int_equal(sampler_init(&f->sampler, &f->kernels, n_vocab, NULL), STATUS_OK);
    assert_true(token_counts_init(&f->counts, n_vocab, n_vocab));
}

static void fixture_init(struct fixture *f, uint32_t n_vocab)
{
    fixture_init_at(f, n_vocab, 0);
}

static void fixture_fini(struct fixture *f)
{
    sampler_fini(&f->sampler);
    token_counts_fini(&f->counts);
}

static int32_t sample(struct fixture *f, const struct sampling *p, uint64_t position)
{
    const struct sampler_input in = {
        .logits = f->logits, .sampling = p, .counts = &f->counts, .position = position};
    return sampler_sample(&f->sampler, &in);
}

static void random_logits(struct fixture *f, struct random *random, double spread)
{
    for (uint32_t i = 0; i < f->n_vocab; i++)
        f->logits[i] = (float)((random_unit(random) + random_unit(random) - 1) * spread);
}

/* --- the reference --------------------------------------------------------------------------- */

struct ranked {
    double weight;
    int32_t token;
};

static int by_weight(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return x->token - y->token;
}

static void reference_logits(const struct fixture *f, const struct sampling *p, double *out)
{
    for (uint32_t i = 0; i < f->n_vocab; i++)
        out[i] = f->logits[i];
    for (uint32_t i = 0; i < p->n_bias; i++)
        out[p->bias[i].token] += p->bias[i].bias;
    for (uint32_t i = 0; i < f->counts.n; i++) {
        double *x = &out[f->counts.seen[i].token];
        uint32_t generated = f->counts.seen[i].generated;
        *x = *x > 0 ? *x / p->repetition_penalty : *x * p->repetition_penalty;
        *x -= generated > 0 ? p->presence_penalty : 0;
        *x -= p->frequency_penalty * generated;
    }
}

/* Probabilities of all tokens after the chain; *margin is how close a filter came to deciding
 * otherwise, below which float and double may differ. */
static void reference(const struct fixture *f, const struct sampling *p, double *probability,
                      double *margin)
{
    static double logits[MOST_VOCAB];
    static struct ranked ranked[MOST_VOCAB];
    uint32_t n = f->n_vocab;
    double max = -INFINITY, total = 0, reached = 0;
    *margin = 1;
    reference_logits(f, p, logits);
    for (uint32_t i = 0; i < n; i++)
        max = fmax(max, logits[i]);
    for (uint32_t i = 0; i < n; i++)
        ranked[i] = (struct ranked){exp((logits[i] - max) / p->temperature), (int32_t)i};
    qsort(ranked, n, sizeof *ranked, by_weight);
    uint32_t kept = p->top_k > 0 && p->top_k < n ? p->top_k : n;
    if (kept < n)
        *margin = fmin(*margin,
                       (ranked[kept - 1].weight - ranked[kept].weight) / ranked[kept - 1].weight);
    for (uint32_t i = 0; i < kept; i++)
        total += ranked[i].weight;
    uint32_t nucleus = 0;
    while (nucleus < kept && (nucleus == 0 || reached < p->top_p * total)) {
        reached += ranked[nucleus++].weight;
        *margin = p->top_p < 1 ? fmin(*margin, fabs(reached / total - p->top_p)) : *margin;
    }
    uint32_t left = 0;
    while (left < nucleus && ranked[left].weight >= p->min_p)
        left++;
    for (uint32_t i = 0; i < nucleus; i++)
        *margin = p->min_p > 0 ? fmin(*margin, fabs(ranked[i].weight - p->min_p)) : *margin;
    total = 0;
    for (uint32_t i = 0; i < left; i++)
        total += ranked[i].weight;
    memset(probability, 0, n * sizeof *probability);
    for (uint32_t i = 0; i < left; i++)
        probability[ranked[i].token] = ranked[i].weight / total;
}

static void sampler_probabilities(const struct sampler *s, double *probability)
{
    double total = 0;
    memset(probability, 0, s->n_vocab * sizeof *probability);
    if (s->gathered)
        for (uint32_t i = 0; i < s->n_candidates; i++)
            probability[s->candidates[i].token] = s->candidates[i].weight;
    else
        for (uint32_t i = 0; i < s->n_vocab; i++)
            probability[i] = s->weights[i];
    for (uint32_t i = 0; i < s->n_vocab; i++)
        total += probability[i];
    for (uint32_t i = 0; i < s->n_vocab; i++)
        probability[i] /= total;
}

/* True when the configuration was far enough from a filter's edge to be compared. */
static bool compare(struct fixture *f, const struct sampling *p)
{
    static double expected[MOST_VOCAB], found[MOST_VOCAB];
    double margin;
    const struct sampler_input in = {.logits = f->logits, .sampling = p, .counts = &f->counts};
    reference(f, p, expected, &margin);
    if (margin < 1e-4)
        return false;
    assert_true(sampler_filter(&f->sampler, &in));
    sampler_probabilities(&f->sampler, found);
    for (uint32_t i = 0; i < f->n_vocab; i++)
        assert_true(fabs(expected[i] - found[i]) < 2e-5);
    return true;
}

/* --- each processor --------------------------------------------------------------------------- */

static void each_processor_equals_the_reference(void **state)
{
    (void)state;
    struct logit_bias bias[] = {{3, 4.5f}, {0, -100}, {69, 2}};
    struct sampling all[9];
    for (int i = 0; i < 9; i++)
        all[i] = plain;
    all[1].temperature = 0.3f;
    all[2].top_k = 7;
    all[3].top_p = 0.6f;
    all[4].min_p = 0.2f;
    all[5].repetition_penalty = 1.3f;
    all[6].presence_penalty = 1.5f;
    all[7].frequency_penalty = -0.7f;
    all[8].bias = bias;
    all[8].n_bias = 3;
    struct random random = {3};
    struct fixture f;
    fixture_init(&f, 70);
    for (int i = 0; i < 30; i++)
        token_counts_add(&f.counts, (int32_t)random_below(&random, 70), i % 3 > 0);
    int compared = 0;
    for (int round = 0; round < 50; round++) {
        random_logits(&f, &random, 6);
        for (int i = 0; i < 9; i++)
            compared += compare(&f, &all[i]);
    }
    assert_true(compared > 400);
    fixture_fini(&f);
}

static struct sampling random_sampling(struct random *random)
{
    struct sampling p = plain;
    p.temperature = 0.05f + 1.95f * (float)random_unit(random);
    if (random_below(random, 2))
        p.top_k = random_below(random, 200);
    if (random_below(random, 2))
        p.top_p = 0.01f + 0.98f * (float)random_unit(random);
    if (random_below(random, 2))
        p.min_p = (float)random_unit(random) / 4;
    if (random_below(random, 2))
        p.repetition_penalty = 0.5f + (float)random_unit(random);
    if (random_below(random, 2))
        p.presence_penalty = 4 * (float)random_unit(random) - 2;
    if (random_below(random, 2))
        p.frequency_penalty = 4 * (float)random_unit(random) - 2;
    return p;
}

static void random_chains_equal_the_reference(void **state)
{
    (void)state;
    struct random random = {11};
    int compared = 0;
    for (int round = 0; round < 300; round++) {
        static const uint32_t levels[] = {0, CPU_AVX2, CPU_ALL};
        struct fixture f;
        fixture_init_at(&f, 1 + random_below(&random, MOST_VOCAB), levels[round % 3]);
        for (uint32_t i = 0; i < f.n_vocab / 4; i++)
            token_counts_add(&f.counts, (int32_t)random_below(&random, f.n_vocab), i % 2);
        random_logits(&f, &random, 1 + 20 * random_unit(&random));
        struct sampling p = random_sampling(&random);
        compared += p.top_k != 1 && compare(&f, &p);
        fixture_fini(&f);
    }
    assert_true(compared > 150);
}

/* --- the draw --------------------------------------------------------------------------------- */

/* Chi-square of n draws against the reference; the seeds are fixed, so is the answer. */
static void expect_distribution(struct fixture *f, struct sampling p)
{
    enum { DRAWS = 20000 };
    static double probability[MOST_VOCAB];
    static uint32_t counts[MOST_VOCAB];
    double margin, chi = 0;
    int degrees = -1;
    reference(f, &p, probability, &margin);
    memset(counts, 0, sizeof counts);
    for (uint64_t i = 0; i < DRAWS; i++) {
        p.seed = i / 100; /* seeds and positions both vary */
        counts[sample(f, &p, i % 100)]++;
    }
    for (uint32_t i = 0; i < f->n_vocab; i++) {
        double expected = DRAWS * probability[i];
        if (probability[i] == 0)
            assert_int_equal(counts[i], 0);
        if (expected < 5)
            continue;
        chi += (counts[i] - expected) * (counts[i] - expected) / expected;
        degrees++;
    }
    assert_true(chi < degrees + 4 * sqrt(2.0 * degrees) + 4);
}

static void draws_follow_the_distribution(void **state)
{
    (void)state;
    struct random random = {5};
    struct fixture f;
    fixture_init(&f, 1100); /* three blocks of the dense draw */
    random_logits(&f, &random, 3);
    struct sampling p = plain;
    expect_distribution(&f, p);
    p.temperature = 0.5f;
    expect_distribution(&f, p);
    p.top_k = 40;
    expect_distribution(&f, p);
    p.top_p = 0.7f;
    expect_distribution(&f, p);
    p.min_p = 0.4f;
    expect_distribution(&f, p);
    fixture_fini(&f);
}

/* Top-p alone draws without gathering: from wide nuclei, narrow ones, and so narrow that all quick
 * draws may fail. */
static void draws_of_top_p_follow_the_distribution(void **state)
{
    static const float top_p[] = {0.95f, 0.6f, 0.31f, 0.1f};
    (void)state;
    struct random random = {6};
    struct fixture f;
    fixture_init(&f, 1100);
    random_logits(&f, &random, 3);
    for (uint32_t i = 0; i < 1100; i += 3)
        f.logits[i] = 2; /* the edge of each nucleus lies among equals */
    struct sampling p = plain;
    for (int i = 0; i < 4; i++) {
        p.top_p = top_p[i];
        expect_distribution(&f, p);
    }
    p.top_p = 0.8f;
    p.min_p = 0.3f;
    expect_distribution(&f, p);
    fixture_fini(&f);
}

/* Whatever is drawn is among what the filters leave, at every level. */
static void draws_stay_within_the_filters(void **state)
{
    static const uint32_t levels[] = {0, CPU_AVX2, CPU_ALL};
    (void)state;
    struct random random = {8};
    for (int round = 0; round < 600; round++) {
        struct fixture f;
        fixture_init_at(&f, 1 + random_below(&random, MOST_VOCAB), levels[round % 3]);
        random_logits(&f, &random, 1 + 20 * random_unit(&random));
        struct sampling p = random_sampling(&random);
        p.top_k = round % 2 ? 0 : p.top_k;
        p.seed = random_next(&random);
        const struct sampler_input in = {.logits = f.logits, .sampling = &p, .counts = &f.counts};
        int32_t token = sampler_sample(&f.sampler, &in);
        if (p.top_k != 1) {
            assert_true(sampler_filter(&f.sampler, &in));
            bool left = !f.sampler.gathered;
            for (uint32_t i = 0; f.sampler.gathered && i < f.sampler.n_candidates; i++)
                left = left || f.sampler.candidates[i].token == token;
            assert_true(left);
        }
        fixture_fini(&f);
    }
}

static void a_seed_is_reproducible(void **state)
{
    (void)state;
    struct random random = {9};
    struct fixture f, other;
    fixture_init(&f, 500);
    fixture_init(&other, 500);
    random_logits(&f, &random, 2);
    random_logits(&other, &random, 2);
    struct sampling p = plain;
    int differ = 0;
    for (uint64_t position = 0; position < 200; position++) {
        p.seed = 42;
        int32_t first = sample(&f, &p, position);
        sample(&other, &p, 1000 - position); /* a neighbour in between */
        assert_int_equal(sample(&f, &p, position), first);
        p.seed = 43;
        differ += sample(&f, &p, position) != first;
    }
    assert_true(differ > 150);
    fixture_fini(&f);
    fixture_fini(&other);
}

static void uniform_is_uniform(void **state)
{
    (void)state;
    double sum = 0;
    int low = 0;
    for (uint64_t i = 0; i < 100000; i++) {
        double u = sampler_uniform(i % 317, i);
        assert_true(u >= 0 && u < 1);
        sum += u;
        low += u < 0.125;
    }
    assert_true(fabs(sum / 100000 - 0.5) < 0.005);
    assert_true(abs(low - 12500) < 500);
}

/* --- edges ------------------------------------------------------------------------------------ */

static void greedy_takes_the_largest(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 5);
    memcpy(f.logits, (float[]){1, 3, 3, -2, 0}, 5 * sizeof(float));
    struct sampling p = plain;
    p.temperature = 0;
    assert_int_equal(sample(&f, &p, 0), 1); /* the lowest index among equals */
    struct logit_bias bias = {2, 0.5f};
    p.bias = &bias;
    p.n_bias = 1;
    assert_int_equal(sample(&f, &p, 0), 2);
    assert_true(f.logits[2] == 3); /* the backend's row is not touched */
    p.n_bias = 0;
    p.temperature = 2;
    p.top_k = 1;
    assert_int_equal(sample(&f, &p, 0), 1);
    token_counts_add(&f.counts, 1, true);
    p.frequency_penalty = 0.5f;
    assert_int_equal(sample(&f, &p, 0), 2);
    fixture_fini(&f);
}

static void narrow_filters_leave_one_token(void **state)
{
    (void)state;
    struct random random = {21};
    struct fixture f;
    fixture_init(&f, 300);
    for (int round = 0; round < 100; round++) {
        random_logits(&f, &random, 5);
        struct sampling p = plain;
        assert_true(logits_row_scan(&f.sampler.row, f.logits));
        int32_t best = logits_row_argmax(&f.sampler.row);
        p.seed = (uint64_t)round;
        p.top_p = 1e-6f;
        assert_int_equal(sample(&f, &p, 0), best);
        p.top_p = 1;
        p.min_p = 1;
        assert_int_equal(sample(&f, &p, 0), best);
        p.min_p = 0;
        p.temperature = 1e-4f;
        assert_int_equal(sample(&f, &p, 0), best);
    }
    fixture_fini(&f);
}

static void equal_logits_keep_the_lowest_tokens(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 1000);
    memset(f.logits, 0, sizeof f.logits);
    struct sampling p = plain;
    p.top_k = 10;
    for (uint64_t i = 0; i < 200; i++)
        assert_in_range(sample(&f, &p, i), 0, 9);
    p.top_k = 5000; /* more than there are: off */
    p.top_p = 0.05f;
    for (uint64_t i = 0; i < 200; i++)
        assert_in_range(sample(&f, &p, i), 0, 50);
    fixture_fini(&f);
}

static void refuses_logits_that_are_not_finite(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    struct fixture f;
    fixture_init(&f, 600);
    for (int i = 0; i < 3; i++)
        for (uint32_t at = 0; at < 600; at += 599) {
            memset(f.logits, 0, sizeof f.logits);
            f.logits[at] = bad[i];
            struct sampling p = plain;
            assert_int_equal(sample(&f, &p, 0), -1);
            p.temperature = 0;
            assert_int_equal(sample(&f, &p, 0), -1);
        }
    fixture_fini(&f);
}

static float extreme(struct random *random)
{
    static const float values[] = {0, -0.0f, 1e38f, -1e38f, 3.4e38f, -3.4e38f, 1e-40f, 50, -50};
    return values[random_below(random, sizeof values / sizeof values[0])];
}

/* Anything that sampling_check lets through gives a token of the vocabulary. */
static void random_configurations_never_fail(void **state)
{
    (void)state;
    struct random random = {77};
    struct fixture f;
    fixture_init(&f, 400);
    for (int i = 0; i < 10000; i++) {
        if (i % 10 == 0)
            random_logits(&f, &random, 100 * random_unit(&random));
        if (i % 3 == 0)
            f.logits[random_below(&random, 400)] = extreme(&random);
        token_counts_add(&f.counts, (int32_t)random_below(&random, 400), i % 2);
        struct sampling p = random_sampling(&random);
        struct logit_bias bias = {(int32_t)random_below(&random, 400), 100};
        p.bias = &bias;
        p.n_bias = random_below(&random, 2);
        if (random_below(&random, 8) == 0)
            p.temperature = 1e-5f;
        if (random_below(&random, 8) == 0)
            p.repetition_penalty = 1e-38f;
        p.seed = random_next(&random);
        assert_int_equal(sampling_check(&p, 400, NULL), STATUS_OK);
        assert_in_range(sample(&f, &p, (uint64_t)i), 0, 399);
    }
    fixture_fini(&f);
}

static void selects_as_sorting_would(void **state)
{
    (void)state;
    enum { N = 300 };
    struct random random = {31};
    for (int round = 0; round < 2000; round++) {
        struct candidate c[N];
        struct ranked sorted[N];
        uint32_t n = 1 + random_below(&random, N), distinct = 1 + random_below(&random, N);
        for (uint32_t i = 0; i < n; i++) {
            c[i] = (struct candidate){(float)random_below(&random, distinct), (int32_t)i};
            sorted[i] = (struct ranked){c[i].weight, c[i].token};
        }
        qsort(sorted, n, sizeof *sorted, by_weight);
        uint32_t count = 1 + random_below(&random, n);
        uint32_t chosen = topk_count(c, n, count);
        assert_int_equal(chosen, count);
        double sum = 0, mass = 0;
        for (uint32_t i = 0; i < count; i++) {
            sum += c[i].token;
            sum -= sorted[i].token;
            mass += sorted[i].weight;
        }
        assert_true(sum == 0);
        if (mass > 0 && sorted[count - 1].weight > 0)
            assert_int_equal(topk_mass(c, n, mass), count);
        assert_int_equal(topk_mass(c, n, 1e9), n);
    }
}

static void never_draws_what_is_banned(void **state)
{
    (void)state;
    struct fixture f;
    struct random random = {21};
    static const int32_t banned[] = {0, 3};
    struct logit_bias bias = {3, 100};
    fixture_init(&f, 4);
    for (uint64_t i = 0; i < 3000; i++) {
        struct sampling p = plain;
        random_logits(&f, &random, 3);
        p.temperature = (float)(i % 3);
        p.top_p = i % 2 ? 1 : 0.99f;
        p.min_p = i % 5 ? 0 : 0.1f;
        p.bias = &bias;
        p.n_bias = 1;
        const struct sampler_input in = {.logits = f.logits,
                                         .sampling = &p,
                                         .counts = &f.counts,
                                         .position = i,
                                         .banned = banned,
                                         .n_banned = 2};
        int32_t token = sampler_sample(&f.sampler, &in);
        assert_true(token == 1 || token == 2);
    }
    fixture_fini(&f);
}

static void choices_have_seeds_of_their_own(void **state)
{
    (void)state;
    double seen[64 * 16];
    assert_int_equal(sampler_choice_seed(77, 0), 77);
    for (uint32_t choice = 0; choice < 64; choice++)
        for (uint32_t position = 0; position < 16; position++)
            seen[choice * 16 + position] =
                sampler_uniform(sampler_choice_seed(1, choice), position);
    for (int i = 0; i < 64 * 16; i++)
        for (int k = 0; k < i; k++)
            assert_true(seen[i] != seen[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_draws_what_is_banned),
        cmocka_unit_test(choices_have_seeds_of_their_own),
        cmocka_unit_test(each_processor_equals_the_reference),
        cmocka_unit_test(random_chains_equal_the_reference),
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(draws_of_top_p_follow_the_distribution),
        cmocka_unit_test(draws_stay_within_the_filters),
        cmocka_unit_test(a_seed_is_reproducible),
        cmocka_unit_test(uniform_is_uniform),
        cmocka_unit_test(greedy_takes_the_largest),
        cmocka_unit_test(narrow_filters_leave_one_token),
        cmocka_unit_test(equal_logits_keep_the_lowest_tokens),
        cmocka_unit_test(refuses_logits_that_are_not_finite),
        cmocka_unit_test(random_configurations_never_fail),
        cmocka_unit_test(selects_as_sorting_would),
    };
    return cmocka_run_group_tests_name("sampler", tests, NULL, NULL);
}
