#include "engine/sampler.h"

#include "base/mem.h"
#include "engine/select.h"

#include <math.h>
#include <string.h>

/* A temperature below this would overflow the division and means greedy anyway. */
#define GREEDY_BELOW 1e-5f
/* Processors keep logits within this, so that differences and quotients stay finite. */
#define LOGIT_MOST 1e30f
/* exp(-12): rarer tokens are gathered only when the others do not suffice. */
#define WEIGHT_FLOOR 6e-6f

enum status sampler_init(struct sampler *s, const struct kernels *kernels, uint32_t n_vocab,
                         struct err *err)
{
    *s = (struct sampler){.kernels = kernels, .n_vocab = n_vocab};
    s->logits = mem_aligned(n_vocab * sizeof *s->logits);
    s->weights = mem_aligned(n_vocab * sizeof *s->weights);
    s->block_sums = mem_array(n_vocab / SAMPLER_BLOCK + 1, sizeof *s->block_sums);
    s->candidates = mem_array(n_vocab, sizeof *s->candidates);
    if (s->logits && s->weights && s->block_sums && s->candidates)
        return STATUS_OK;
    sampler_fini(s);
    return err_set(err, STATUS_NO_MEMORY, "no memory for the sampler (%u tokens)", n_vocab);
}

void sampler_fini(struct sampler *s)
{
    mem_free(s->logits);
    mem_free(s->weights);
    mem_free(s->block_sums);
    mem_free(s->candidates);
    *s = (struct sampler){0};
}

static uint64_t mixed(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* The golden ratio's odd multiple walks through all 64-bit numbers. */
#define GOLDEN 0x9e3779b97f4a7c15u

uint64_t sampler_choice_seed(uint64_t seed, uint32_t choice)
{
    /* a constant of its own: position p of one choice must not be position 0 of another */
    return choice == 0 ? seed : mixed(mixed(seed ^ 0x6a09e667f3bcc908u) + choice * GOLDEN);
}

double sampler_uniform(uint64_t seed, uint64_t position)
{
    uint64_t z = mixed(mixed(seed + GOLDEN) + position * GOLDEN + GOLDEN);
    return (double)(z >> 11) * 0x1p-53;
}

static bool all_finite(const float *x, size_t n)
{
    uint32_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bad |= (bits & 0x7f800000) == 0x7f800000;
    }
    return bad == 0;
}

static float bounded(float x)
{
    return x > LOGIT_MOST ? LOGIT_MOST : (x < -LOGIT_MOST ? -LOGIT_MOST : x);
}

/* --- processors of logits ------------------------------------------------------------------- */

static void apply_bias(float *logits, const struct sampler_input *in)
{
    for (uint32_t i = 0; i < in->sampling->n_bias; i++) {
        float *x = &logits[in->sampling->bias[i].token];
        *x = bounded(*x + in->sampling->bias[i].bias);
    }
}

/* Prompt and generated tokens alike, as transformers does (Keskar et al., arXiv:1909.05858). */
static void apply_repetition(float *logits, const struct sampler_input *in)
{
    float penalty = in->sampling->repetition_penalty;
    for (uint32_t i = 0; i < in->counts->n; i++) {
        float *x = &logits[in->counts->seen[i].token];
        *x = bounded(*x > 0 ? *x / penalty : *x * penalty);
    }
}

/* Generated tokens only, as the OpenAI API defines them. */
static void apply_presence_frequency(float *logits, const struct sampler_input *in)
{
    for (uint32_t i = 0; i < in->counts->n; i++) {
        const struct counts_entry *entry = &in->counts->seen[i];
        float *x = &logits[entry->token];
        if (entry->generated > 0)
            *x = bounded(*x - in->sampling->presence_penalty -
                         in->sampling->frequency_penalty * (float)entry->generated);
    }
}

static void apply_banned(float *logits, const struct sampler_input *in)
{
    for (uint32_t i = 0; i < in->n_banned; i++)
        logits[in->banned[i]] = -LOGIT_MOST;
}

static bool has_repetition(const struct sampling *p)
{
    return p->repetition_penalty != 1;
}

static bool has_presence_frequency(const struct sampling *p)
{
    return p->presence_penalty != 0 || p->frequency_penalty != 0;
}

static bool wants_bias(const struct sampler_input *in)
{
    return in->sampling->n_bias > 0;
}

static bool wants_repetition(const struct sampler_input *in)
{
    return has_repetition(in->sampling);
}

static bool wants_presence_frequency(const struct sampler_input *in)
{
    return has_presence_frequency(in->sampling);
}

static bool wants_banned(const struct sampler_input *in)
{
    return in->n_banned > 0;
}

/* What is forbidden comes last: no bias lifts it. */
static const struct {
    bool (*wanted)(const struct sampler_input *in);
    void (*apply)(float *logits, const struct sampler_input *in);
} logit_chain[] = {
    {wants_bias, apply_bias},
    {wants_repetition, apply_repetition},
    {wants_presence_frequency, apply_presence_frequency},
    {wants_banned, apply_banned},
};
#define LOGIT_CHAIN (sizeof logit_chain / sizeof logit_chain[0])

/* The processed row: the backend's own when nothing is on, else our copy. */
static const float *process_logits(struct sampler *s, const struct sampler_input *in)
{
    const float *row = in->logits;
    for (size_t i = 0; i < LOGIT_CHAIN; i++) {
        if (!logit_chain[i].wanted(in))
            continue;
        if (row != s->logits)
            memcpy(s->logits, row, s->n_vocab * sizeof *row);
        row = s->logits;
        logit_chain[i].apply(s->logits, in);
    }
    return row;
}

/* --- from logits to weights ----------------------------------------------------------------- */

static void make_weights(struct sampler *s, const float *logits, float temperature)
{
    float max = logits[s->kernels->argmax(logits, s->n_vocab)];
    float scale = 1 / temperature;
    for (uint32_t i = 0; i < s->n_vocab; i++) {
        float x = (logits[i] - max) * scale;
        s->logits[i] = x < -200 ? -200 : x; /* exp gives 0 there; keeps -inf out of the kernel */
    }
    for (uint32_t at = 0, b = 0; at < s->n_vocab; at += SAMPLER_BLOCK, b++) {
        uint32_t n = s->n_vocab - at < SAMPLER_BLOCK ? s->n_vocab - at : SAMPLER_BLOCK;
        s->block_sums[b] = s->kernels->exp_sum(s->weights + at, s->logits + at, n, 0);
    }
    s->gathered = false;
    s->n_candidates = 0;
}

static double mass(const struct sampler *s)
{
    double sum = 0;
    if (s->gathered)
        for (uint32_t i = 0; i < s->n_candidates; i++)
            sum += s->candidates[i].weight;
    else
        for (uint32_t b = 0; b * SAMPLER_BLOCK < s->n_vocab; b++)
            sum += s->block_sums[b];
    return sum;
}

static void gather(struct sampler *s, float floor)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_vocab; i++) {
        s->candidates[n] = (struct candidate){s->weights[i], (int32_t)i};
        n += s->weights[i] >= floor; /* no branch: a rejected one is overwritten */
    }
    s->n_candidates = n;
    s->gathered = true;
}

/* --- filters of weights --------------------------------------------------------------------- */

static void top_k(struct sampler *s, const struct sampling *p)
{
    gather(s, WEIGHT_FLOOR);
    if (s->n_candidates < p->top_k)
        gather(s, 0);
    s->n_candidates = select_count(s->candidates, s->n_candidates, p->top_k);
}

/* The fewest tokens, most likely first, whose mass reaches top_p of what top-k left (Holtzman et
 * al., arXiv:1904.09751). */
static void top_p(struct sampler *s, const struct sampling *p)
{
    double target = p->top_p * mass(s);
    if (!s->gathered) {
        gather(s, WEIGHT_FLOOR);
        if (mass(s) < target)
            gather(s, 0);
    }
    s->n_candidates = select_mass(s->candidates, s->n_candidates, target);
}

/* Tokens at least min_p times as likely as the likeliest, whose weight is 1 (Nguyen et al.,
 * arXiv:2407.01082). */
static void min_p(struct sampler *s, const struct sampling *p)
{
    if (!s->gathered) {
        gather(s, p->min_p);
        return;
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_candidates; i++)
        if (s->candidates[i].weight >= p->min_p)
            s->candidates[n++] = s->candidates[i];
    s->n_candidates = n;
}

bool sampler_filter(struct sampler *s, const struct sampler_input *in)
{
    const struct sampling *p = in->sampling;
    if (!all_finite(in->logits, s->n_vocab))
        return false;
    make_weights(s, process_logits(s, in), p->temperature);
    if (p->top_k > 0 && p->top_k < s->n_vocab)
        top_k(s, p);
    if (p->top_p < 1)
        top_p(s, p);
    if (p->min_p > 0)
        min_p(s, p);
    return true;
}

/* --- the draw ------------------------------------------------------------------------------- */

static int32_t draw_candidate(const struct sampler *s, double u)
{
    double left = u * mass(s);
    int32_t last = s->candidates[0].token;
    for (uint32_t i = 0; i < s->n_candidates; i++) {
        if (s->candidates[i].weight <= 0)
            continue;
        last = s->candidates[i].token; /* rounding may use up the mass before the last one */
        left -= s->candidates[i].weight;
        if (left < 0)
            break;
    }
    return last;
}

static int32_t draw_any(const struct sampler *s, double u)
{
    double left = u * mass(s);
    uint32_t n_blocks = (s->n_vocab + SAMPLER_BLOCK - 1) / SAMPLER_BLOCK;
    uint32_t b = 0;
    while (b + 1 < n_blocks && left >= s->block_sums[b])
        left -= s->block_sums[b++];
    while (b > 0 && s->block_sums[b] <= 0)
        b--; /* rounding went past the last block that has any mass */
    uint32_t end = (b + 1) * SAMPLER_BLOCK < s->n_vocab ? (b + 1) * SAMPLER_BLOCK : s->n_vocab;
    int32_t last = 0;
    for (uint32_t i = b * SAMPLER_BLOCK; i < end; i++) {
        if (s->weights[i] <= 0)
            continue;
        last = (int32_t)i;
        left -= s->weights[i];
        if (left < 0)
            break;
    }
    return last;
}

int32_t sampler_sample(struct sampler *s, const struct sampler_input *in)
{
    if (sampling_is_greedy(in->sampling)) {
        if (!all_finite(in->logits, s->n_vocab))
            return -1;
        return (int32_t)s->kernels->argmax(process_logits(s, in), s->n_vocab);
    }
    if (!sampler_filter(s, in))
        return -1;
    double u = sampler_uniform(in->sampling->seed, in->position);
    return s->gathered ? draw_candidate(s, u) : draw_any(s, u);
}

bool sampling_is_greedy(const struct sampling *p)
{
    return p->temperature < GREEDY_BELOW || p->top_k == 1;
}

bool sampling_has_penalty(const struct sampling *p)
{
    return has_repetition(p) || has_presence_frequency(p);
}
