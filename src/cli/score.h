/* Scores of predicted tokens: perplexity with its standard error, Kullback-Leibler divergence. */
#ifndef FIRSTLIGHT_CLI_SCORE_H
#define FIRSTLIGHT_CLI_SCORE_H

#include "base/err.h"
#include "engine/sampling/logits_row.h"

/* Starts with score_init; all sums in double. */
struct score {
    const struct kernels *kernels;
    size_t n_vocab;
    struct logits_row row;
    float *exp_a; /* (n_vocab) scratch */
    float *exp_b; /* (n_vocab) scratch */
    size_t n;     /* tokens scored */
    double nll;
    double nll_squared;
    double *kl; /* (max_kl) divergences, in order until score_kl sorts them */
    size_t n_kl;
    size_t max_kl;
};

/* max_kl: how many divergences will come at most; 0 if none. */
enum status score_init(struct score *s, const struct kernels *k, size_t n_vocab, size_t max_kl,
                       struct err *err);
void score_fini(struct score *s);

/* The token that came where `logits` (n_vocab) was the prediction. */
void score_token(struct score *s, const float *logits, int32_t token);

/* KL(base || other) of two predictions of one position, in nats. */
void score_divergence(struct score *s, const float *base, const float *other);

struct score_result {
    double perplexity;
    double standard_error;
};
struct score_result score_perplexity(const struct score *s);

struct score_kl_result {
    double mean;
    double p99;
    double max;
};
struct score_kl_result score_kl(struct score *s); /* n_kl >= 1 */

#endif
