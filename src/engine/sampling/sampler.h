/* The sampler: one row of logits in, one token out, through a chain of processors.
 *
 *     logit_bias -> repetition -> presence, frequency -> banned -> temperature           on logits
 *       -> top-k -> weights = exp(logit - max) -> top-p -> min-p -> draw                 on weights
 *
 * Greedy (temperature 0) ends after the processors with the largest. The vocabulary is never sorted
 * and only weighed whole where the sum of all weights is asked for (top-p without top-k, no
 * filter): one pass finds the maxima of groups (logits_row.h), which say where the candidates of a
 * filter are. What is drawn is a function of the row, the request's own parameters, its seed and
 * the position: neighbours in a batch never matter.
 *
 * One sampler serves all requests of the engine thread; its scratch is sized at start.
 */
#ifndef FIRSTLIGHT_ENGINE_SAMPLING_SAMPLER_H
#define FIRSTLIGHT_ENGINE_SAMPLING_SAMPLER_H

#include "base/err.h"
#include "engine/sampling/logits_row.h"
#include "engine/sampling/token_counts.h"
#include "kernels/kernels.h"
#include "params/sampling.h"

#include <stdbool.h>
#include <stdint.h>

struct sampler {
    const struct kernels *kernels;
    uint32_t n_vocab;
    struct logits_row row;        /* scanned: the logits after the processors */
    float *logits;                /* (n_vocab) these, where a processor changed some */
    float *weights;               /* (n_vocab) */
    double *block_sums;           /* of SAMPLER_BLOCK weights each */
    struct candidate *candidates; /* (n_vocab), the first n_candidates */
    uint32_t n_candidates;
    bool gathered; /* candidates hold what the filters left; false: everything is left */
};
#define SAMPLER_BLOCK 512

struct sampler_input {
    const float *logits;               /* (n_vocab), as the backend gave them */
    const struct sampling *sampling;   /* seed set */
    const struct token_counts *counts; /* may be NULL when no penalty is on */
    uint64_t position;                 /* tokens generated before this one */
    const int32_t *banned;             /* (n_banned) never drawn */
    uint32_t n_banned;
};

enum status sampler_init(struct sampler *s, const struct kernels *kernels, uint32_t n_vocab,
                         struct err *err);
void sampler_fini(struct sampler *s);

/* The next token; -1 when the logits hold a NaN or an infinity. */
int32_t sampler_sample(struct sampler *s, const struct sampler_input *in);

bool sampler_is_greedy(const struct sampling *p);
bool sampler_has_penalty(const struct sampling *p); /* needs counts */

/* The seed of a choice: choice 0 has the request's own. */
uint64_t sampler_choice_seed(uint64_t seed, uint32_t choice);
/* [0, 1) with 53 bits, a function of seed and position alone (SplitMix64, Steele et al. 2014). */
double sampler_uniform(uint64_t seed, uint64_t position);

/* The chain without the draw, for tests: false for logits that are not finite. Not for greedy. */
bool sampler_filter(struct sampler *s, const struct sampler_input *in);

#endif
