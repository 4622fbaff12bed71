/* What a step costs, learnt from the steps that ran.
 *
 *     ms = w0 + w1 * prompt tokens + w2 * (prompt tokens x positions before them)
 *             + w3 * decodes       + w4 * (decodes x positions before them)
 *
 * The weights drift (other load on the machine, clock speed), so they are followed by a Kalman
 * filter: each weight is a random walk, each step one observation whose noise is a fraction of its
 * size; no weight is negative. A step
 * far off the prediction counts as if it were only a little off: one that was interrupted says
 * nothing of the next. Engine thread.
 */
#ifndef FIRSTLIGHT_ENGINE_COST_H
#define FIRSTLIGHT_ENGINE_COST_H

#include <stdint.h>

#define COST_WEIGHTS 5

/* What a step does, as far as its cost depends on it. */
struct cost_step {
    uint32_t n_prefill;      /* prompt tokens */
    uint64_t prefill_before; /* sum over them of the positions before each */
    uint32_t n_decode;
    uint64_t decode_before; /* sum over decodes of the positions before each */
};

struct cost {
    double w[COST_WEIGHTS]; /* per scaled feature, milliseconds; cost.c has the scales */
    double p[COST_WEIGHTS][COST_WEIGHTS]; /* covariance */
    uint64_t n;                           /* observations */
    double error;                         /* moving average of |predicted - actual| / actual */
    double late; /* 19 of 20 steps of prompts beside decodes take at most so many times the
                    prediction; 1 or more */
};

void cost_init(struct cost *c);
void cost_observe(struct cost *c, const struct cost_step *s, int64_t us);
/* Never negative, and never less for more work. */
int64_t cost_predict_us(const struct cost *c, const struct cost_step *s);

/* What a step of prompts beside decodes may be predicted to take so that it ends within us, 19
 * times of 20: a promise is kept by the late ones, not by the average. */
int64_t cost_within_us(const struct cost *c, int64_t us);

/* A chunk of n tokens of a prompt with n_past positions before it, or one decode after n_past. */
void cost_add_chunk(struct cost_step *s, uint32_t n, uint32_t n_past);
void cost_add_decode(struct cost_step *s, uint32_t n_past);

/* A prompt alone, from position n_past to its end at n_goal. */
int64_t cost_prompt_us(const struct cost *c, uint32_t n_past, uint32_t n_goal);

/* The most tokens (at most `max`) of a prompt at n_past that a step which already does *s can take
 * and still be predicted to end within budget_us. 0 when none fit. */
uint32_t cost_fit(const struct cost *c, const struct cost_step *s, uint32_t n_past, uint32_t max,
                  int64_t budget_us);

/* Prompt tokens from which on they take at least the share `efficiency` of the time of a step that
 * does *with besides; at most `max`, which is also the answer while nothing is known. */
uint32_t cost_saturation(const struct cost *c, const struct cost_step *with, double efficiency,
                         uint32_t max);

#endif
