#include "engine/logprobs.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

/* exp of less is 0 in float: keeps infinities out of the kernel */
#define EXP_LEAST (-200)

bool logprobs_init(struct logprobs *l, const struct request_params *p, uint32_t max_tokens,
                   uint32_t n_vocab)
{
    uint32_t top = p->top_logprobs;
    *l = (struct logprobs){.width = 1 + (top < n_vocab ? top : n_vocab)};
    /* not cleared: rows that are never written cost address space, not memory */
    l->rows = mem_alloc((size_t)max_tokens * l->width * sizeof *l->rows);
    l->text_before = mem_alloc(max_tokens * sizeof *l->text_before);
    if (p->prompt_logprobs) /* cleared: the first token has no row of its own */
        l->prompt = mem_array((size_t)p->n_prompt * l->width, sizeof *l->prompt);
    return l->rows && l->text_before && (l->prompt || !p->prompt_logprobs);
}

void logprobs_fini(struct logprobs *l)
{
    mem_free(l->rows);
    mem_free(l->text_before);
    mem_free(l->prompt);
    *l = (struct logprobs){0};
}

/* log(sum of exp(logit)), the sum in blocks so that a large vocabulary loses no digits. */
static double log_sum_exp(struct sampler *s, const float *logits)
{
    float max = logits[s->kernels->argmax(logits, s->n_vocab)];
    double sum = 0;
    for (uint32_t at = 0; at < s->n_vocab; at += SAMPLER_BLOCK) {
        uint32_t n = s->n_vocab - at < SAMPLER_BLOCK ? s->n_vocab - at : SAMPLER_BLOCK;
        float x[SAMPLER_BLOCK];
        for (uint32_t i = 0; i < n; i++)
            x[i] = logits[at + i] - max < EXP_LEAST ? EXP_LEAST : logits[at + i] - max;
        sum += s->kernels->exp_sum(s->weights, x, n, 0);
    }
    return max + log(sum);
}

/* Keeps the n likeliest seen so far in order; token ids come ascending. */
static void insert(struct token_logprob *top, uint32_t n, int32_t token, float logit)
{
    uint32_t at = n - 1;
    while (at > 0 && top[at - 1].logprob < logit) {
        top[at] = top[at - 1];
        at--;
    }
    top[at] = (struct token_logprob){token, logit};
}

static void find_top(const float *logits, uint32_t n_vocab, struct token_logprob *top, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        insert(top, i + 1, (int32_t)i, logits[i]);
    float least = n > 0 ? top[n - 1].logprob : INFINITY;
    for (uint32_t i = n; i < n_vocab; i++) {
        if (logits[i] <= least)
            continue;
        insert(top, n, (int32_t)i, logits[i]);
        least = top[n - 1].logprob;
    }
}

void logprobs_row(struct sampler *s, const float *logits, int32_t token, struct token_logprob *row,
                  uint32_t width)
{
    double whole = log_sum_exp(s, logits);
    row[0] = (struct token_logprob){token, logits[token]};
    if (width > 1)
        find_top(logits, s->n_vocab, row + 1, width - 1);
    for (uint32_t i = 0; i < width; i++)
        row[i].logprob = (float)(row[i].logprob - whole);
}
