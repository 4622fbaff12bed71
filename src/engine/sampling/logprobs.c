#include "engine/sampling/logprobs.h"

#include "base/mem.h"
#include "engine/sampling/topk.h"

#include <math.h>
#include <string.h>

bool logprobs_init(struct logprobs *l, uint32_t top, uint32_t n_prompt, uint32_t max_tokens,
                   uint32_t n_vocab)
{
    *l = (struct logprobs){.width = 1 + (top < n_vocab ? top : n_vocab)};
    /* not cleared: rows that are never written cost address space, not memory */
    l->rows = mem_alloc((size_t)max_tokens * l->width * sizeof *l->rows);
    l->text_before = mem_alloc(max_tokens * sizeof *l->text_before);
    if (n_prompt > 0) /* cleared: the first token has no row of its own */
        l->prompt = mem_array((size_t)n_prompt * l->width, sizeof *l->prompt);
    return l->rows && l->text_before && (l->prompt || n_prompt == 0);
}

void logprobs_fini(struct logprobs *l)
{
    mem_free(l->rows);
    mem_free(l->text_before);
    mem_free(l->prompt);
    *l = (struct logprobs){0};
}

/* log(sum of exp(logit)), the sum in blocks so that a large vocabulary loses no digits. */
static double logprobs_log_sum_exp(struct sampler *s)
{
    double sum = 0;
    for (uint32_t at = 0; at < s->n_vocab; at += SAMPLER_BLOCK) {
        uint32_t n = s->n_vocab - at < SAMPLER_BLOCK ? s->n_vocab - at : SAMPLER_BLOCK;
        sum += s->kernels->exp_sum(s->weights, s->row.x + at, n, s->row.max, 1);
    }
    return s->row.max + log(sum);
}

/* The n likeliest of the row, best first. */
static void find_top(struct sampler *s, struct token_logprob *top, uint32_t n)
{
    uint32_t found = logits_row_gather(&s->row, logits_row_floor(&s->row, n), s->candidates);
    topk_sorted(s->candidates, found, n);
    for (uint32_t i = 0; i < n; i++)
        top[i] = (struct token_logprob){s->candidates[i].token, s->candidates[i].weight};
}

void logprobs_row(struct sampler *s, const float *logits, int32_t token, struct token_logprob *row,
                  uint32_t width)
{
    memset(row, 0, width * sizeof *row);
    if (!logits_row_scan(&s->row, logits))
        return;
    double whole = logprobs_log_sum_exp(s);
    row[0] = (struct token_logprob){token, logits[token]};
    if (width > 1)
        find_top(s, row + 1, width - 1);
    for (uint32_t i = 0; i < width; i++)
        row[i].logprob = (float)(row[i].logprob - whole);
}
