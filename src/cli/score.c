#include "cli/score.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

enum status score_init(struct score *s, const struct kernels *k, size_t n_vocab, size_t max_kl,
                       struct err *err)
{
    *s = (struct score){.kernels = k, .n_vocab = n_vocab, .max_kl = max_kl};
    s->exp_a = mem_array(n_vocab, sizeof *s->exp_a);
    s->exp_b = mem_array(n_vocab, sizeof *s->exp_b);
    s->kl = mem_array(max_kl, sizeof *s->kl);
    if (s->exp_a && s->exp_b && s->kl)
        return logits_row_init(&s->row, k, (uint32_t)n_vocab, err);
    score_fini(s);
    return err_set(err, STATUS_NO_MEMORY, "no memory for the scores of %zu tokens", max_kl);
}

void score_fini(struct score *s)
{
    mem_free(s->exp_a);
    mem_free(s->exp_b);
    mem_free(s->kl);
    logits_row_fini(&s->row);
    *s = (struct score){0};
}

/* exp(x - max) into `out`; returns log of the sum of exp(x), NAN when an x is not finite. */
static double score_log_sum_exp(struct score *s, float *out, const float *x)
{
    if (!logits_row_scan(&s->row, x))
        return NAN;
    return (double)s->row.max + log((double)s->kernels->exp_sum(out, x, s->n_vocab, s->row.max, 1));
}

void score_token(struct score *s, const float *logits, int32_t token)
{
    double nll = score_log_sum_exp(s, s->exp_a, logits) - (double)logits[token];
    s->nll += nll;
    s->nll_squared += nll * nll;
    s->n++;
}

void score_divergence(struct score *s, const float *base, const float *other)
{
    double log_base = score_log_sum_exp(s, s->exp_a, base);
    double log_other = score_log_sum_exp(s, s->exp_b, other);
    double sum = 0, total = 0;
    for (size_t i = 0; i < s->n_vocab; i++) {
        double difference = ((double)base[i] - log_base) - ((double)other[i] - log_other);
        sum += (double)s->exp_a[i] * difference;
        total += (double)s->exp_a[i];
    }
    REQUIRE(s->n_kl < s->max_kl);
    s->kl[s->n_kl++] = sum / total;
}

struct score_result score_perplexity(const struct score *s)
{
    double n = (double)s->n;
    double mean = s->nll / n;
    double variance = s->nll_squared / n - mean * mean;
    double perplexity = exp(mean);
    double error = s->n > 1 && variance > 0 ? sqrt(variance / (n - 1)) : 0;
    return (struct score_result){perplexity, perplexity * error};
}

static int score_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct score_kl_result score_kl(struct score *s)
{
    double sum = 0;
    qsort(s->kl, s->n_kl, sizeof *s->kl, score_compare);
    for (size_t i = 0; i < s->n_kl; i++)
        sum += s->kl[i];
    return (struct score_kl_result){
        .mean = sum / (double)s->n_kl,
        .p99 = s->kl[(s->n_kl - 1) * 99 / 100],
        .max = s->kl[s->n_kl - 1],
    };
}
