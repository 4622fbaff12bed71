/* Log probabilities against a double-precision reference that sorts the whole vocabulary. */
#include "base/limits.h"
#include "engine/sampling/logprobs.h"
#include "support/cmocka_all.h"
#include "support/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_VOCAB 3000
#define TOLERANCE  2e-6

struct ranked {
    float logit;
    int32_t token;
};

static int by_logit(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return x->token - y->token;
}

static double log_of_sum(const float *logits, uint32_t n)
{
    double max = logits[0], sum = 0;
    for (uint32_t i = 0; i < n; i++)
        max = logits[i] > max ? logits[i] : max;
    for (uint32_t i = 0; i < n; i++)
        sum += exp(logits[i] - max);
    return max + log(sum);
}

static void near(double found, double expected)
{
    if (fabs(found - expected) > TOLERANCE * (1 + fabs(expected)))
        fail_msg("%.9g, expected %.9g", found, expected);
}

static void compare(const float *logits, uint32_t n_vocab, uint32_t top, int32_t token)
{
    static struct ranked sorted[MOST_VOCAB];
    struct kernels kernels;
    struct sampler s;
    struct logprobs l;
    kernels_fill(&kernels, 0);
    assert_int_equal(sampler_init(&s, &kernels, n_vocab, NULL), STATUS_OK);
    assert_true(logprobs_init(&l, top, 0, 2, n_vocab));
    assert_int_equal(l.width, 1 + (top < n_vocab ? top : n_vocab));
    struct token_logprob *row = l.rows + l.width; /* the second */
    logprobs_row(&s, logits, token, row, l.width);
    double whole = log_of_sum(logits, n_vocab);
    assert_int_equal(row[0].token, token);
    near(row[0].logprob, logits[token] - whole);
    for (uint32_t i = 0; i < n_vocab; i++)
        sorted[i] = (struct ranked){logits[i], (int32_t)i};
    qsort(sorted, n_vocab, sizeof *sorted, by_logit);
    for (uint32_t i = 1; i < l.width; i++) {
        assert_int_equal(row[i].token, sorted[i - 1].token);
        near(row[i].logprob, sorted[i - 1].logit - whole);
    }
    logprobs_fini(&l);
    sampler_fini(&s);
}

static void equals_the_reference(void **state)
{
    (void)state;
    static float logits[MOST_VOCAB];
    static const uint32_t tops[] = {0, 1, 5, LIMIT_TOP_LOGPROBS};
    struct random random = {7};
    for (int round = 0; round < 400; round++) {
        uint32_t n = 1 + random_below(&random, round % 4 ? 60 : MOST_VOCAB);
        double spread = round % 3 ? 10 : 0.01;
        for (uint32_t i = 0; i < n; i++) {
            logits[i] = (float)((random_unit(&random) * 2 - 1) * spread);
            if (round % 5 == 0) /* many equal ones */
                logits[i] = roundf(logits[i]);
        }
        compare(logits, n, tops[round % 4], (int32_t)random_below(&random, n));
    }
}

/* One token is certain, the others are impossible: no infinity, no NaN. */
static void stands_extremes(void **state)
{
    (void)state;
    float logits[600];
    for (uint32_t i = 0; i < 600; i++)
        logits[i] = -1e30f;
    logits[599] = 1e30f;
    struct kernels kernels;
    struct sampler s;
    struct token_logprob row[3];
    kernels_fill(&kernels, 0);
    assert_int_equal(sampler_init(&s, &kernels, 600, NULL), STATUS_OK);
    logprobs_row(&s, logits, 599, row, 3);
    assert_float_equal(row[0].logprob, 0, 0);
    assert_int_equal(row[1].token, 599);
    assert_int_equal(row[2].token, 0);
    assert_true(isfinite(row[2].logprob) && row[2].logprob < -1e30f);
    sampler_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_reference),
        cmocka_unit_test(stands_extremes),
    };
    return cmocka_run_group_tests_name("logprobs", tests, NULL, NULL);
}
