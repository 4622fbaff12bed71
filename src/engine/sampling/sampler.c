#include "engine/sampling/sampler.h"

#include "base/mem.h"
#include "engine/sampling/topk.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* A temperature below this would overflow the division and means greedy anyway. */
#define GREEDY_BELOW 1e-5f
/* Processors keep logits within this, so that differences and quotients stay finite. */
#define LOGIT_MOST 1e30f
/* Without top-k the nucleus is looked for among the tokens whose weights are at least e to the
 * minus these, one after the other: rarely are there more candidates than twice what it takes. */
static const float nucleus_depths[] = {2, 4, 6, 8, 10, 12, 15};
#define NUCLEUS_DEPTHS (sizeof nucleus_depths / sizeof nucleus_depths[0])
/* Logits this close to min-p's edge are gathered, and their weights decide. */
#define MIN_P_SLACK 1e-3f

enum status sampler_init(struct sampler *s, const struct kernels *kernels, uint32_t n_vocab,
                         struct err *err)
{
    *s = (struct sampler){.kernels = kernels, .n_vocab = n_vocab};
    s->logits = mem_aligned(n_vocab * sizeof *s->logits);
    s->weights = mem_aligned(n_vocab * sizeof *s->weights);
    s->block_sums = mem_array(n_vocab / SAMPLER_BLOCK + 1, sizeof *s->block_sums);
    s->candidates = mem_array(n_vocab, sizeof *s->candidates);
    if (s->logits && s->weights && s->block_sums && s->candidates)
        return logits_row_init(&s->row, kernels, n_vocab, err);
    sampler_fini(s);
    return err_set(err, STATUS_NO_MEMORY, "no memory for the sampler (%u tokens)", n_vocab);
}

void sampler_fini(struct sampler *s)
{
    mem_free(s->logits);
    mem_free(s->weights);
    mem_free(s->block_sums);
    mem_free(s->candidates);
    logits_row_fini(&s->row);
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
        const struct token_counts_entry *entry = &in->counts->seen[i];
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

/* Scans the processed row: the backend's own when nothing is on, else our copy. False: the logits
 * are not finite. */
static bool process_logits(struct sampler *s, const struct sampler_input *in)
{
    bool copied = false;
    if (!logits_row_scan(&s->row, in->logits))
        return false;
    for (size_t i = 0; i < LOGIT_CHAIN; i++) {
        if (!logit_chain[i].wanted(in))
            continue;
        if (!copied)
            memcpy(s->logits, in->logits, s->n_vocab * sizeof *s->logits);
        copied = true;
        logit_chain[i].apply(s->logits, in);
    }
    return !copied || logits_row_scan(&s->row, s->logits);
}

/* --- from logits to weights ----------------------------------------------------------------- */

/* Of the whole vocabulary. */
static void weigh_all(struct sampler *s, float scale)
{
    for (uint32_t at = 0, b = 0; at < s->n_vocab; at += SAMPLER_BLOCK, b++) {
        uint32_t n = s->n_vocab - at < SAMPLER_BLOCK ? s->n_vocab - at : SAMPLER_BLOCK;
        s->block_sums[b] =
            s->kernels->exp_sum(s->weights + at, s->row.x + at, n, s->row.max, scale);
    }
}

/* Of the candidates, whose weights still are logits. */
static void weigh_candidates(struct sampler *s, float scale)
{
    uint32_t n = s->n_candidates;
    for (uint32_t i = 0; i < n; i++)
        s->weights[i] = s->candidates[i].weight;
    s->kernels->exp_sum(s->weights, s->weights, n, s->row.max, scale);
    for (uint32_t i = 0; i < n; i++)
        s->candidates[i].weight = s->weights[i];
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

static void sampler_gather(struct sampler *s, float floor)
{
    s->n_candidates = logits_row_gather(&s->row, floor, s->candidates);
    s->gathered = true;
}

/* --- filters -------------------------------------------------------------------------------- */

static void top_k(struct sampler *s, const struct sampling *p, float scale)
{
    sampler_gather(s, logits_row_floor(&s->row, p->top_k));
    s->n_candidates = topk_count(s->candidates, s->n_candidates, p->top_k);
    weigh_candidates(s, scale);
}

/* Tokens of the whole vocabulary, all weighed, that hold at least `target` of its mass. */
static void gather_mass(struct sampler *s, double target, float scale)
{
    for (size_t i = 0; i <= NUCLEUS_DEPTHS; i++) {
        sampler_gather(s, i < NUCLEUS_DEPTHS ? s->row.max - nucleus_depths[i] / scale : -FLT_MAX);
        for (uint32_t k = 0; k < s->n_candidates; k++)
            s->candidates[k].weight = s->weights[s->candidates[k].token];
        if (mass(s) >= target)
            return;
    }
}

/* The fewest tokens, most likely first, whose mass reaches top_p of what top-k left (Holtzman et
 * al., arXiv:1904.09751). */
static void top_p(struct sampler *s, const struct sampling *p, float scale)
{
    double target;
    if (!s->gathered)
        weigh_all(s, scale);
    target = p->top_p * mass(s);
    if (!s->gathered)
        gather_mass(s, target, scale);
    s->n_candidates = topk_mass(s->candidates, s->n_candidates, target);
}

/* Tokens at least min_p times as likely as the likeliest, whose weight is 1 (Nguyen et al.,
 * arXiv:2407.01082). */
static void min_p(struct sampler *s, const struct sampling *p, float scale)
{
    uint32_t n = 0;
    if (!s->gathered) {
        sampler_gather(s, s->row.max + (logf(p->min_p) - MIN_P_SLACK) / scale);
        weigh_candidates(s, scale);
    }
    for (uint32_t i = 0; i < s->n_candidates; i++)
        if (s->candidates[i].weight >= p->min_p)
            s->candidates[n++] = s->candidates[i];
    s->n_candidates = n;
}

static void filter(struct sampler *s, const struct sampling *p)
{
    float scale = 1 / p->temperature;
    s->gathered = false;
    if (p->top_k > 0 && p->top_k < s->n_vocab)
        top_k(s, p, scale);
    if (p->top_p < 1)
        top_p(s, p, scale);
    if (p->min_p > 0)
        min_p(s, p, scale);
    if (!s->gathered)
        weigh_all(s, scale);
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

/* --- top-p without its candidates ----------------------------------------------------------- */

/* A nucleus may be a large part of the vocabulary, too many to gather and select among. But whether
 * one token is in it takes a single pass: the mass of the likelier ones. So draw from all, and draw
 * again when the token is not in the nucleus. What is taken has the nucleus' own distribution, and
 * a draw succeeds with a probability of at least top_p. */
#define QUICK_TOP_P 0.3f
#define QUICK_DRAWS 6

static bool is_quick(const struct sampling *p, uint32_t n_vocab)
{
    return (p->top_k == 0 || p->top_k >= n_vocab) && p->top_p < 1 && p->top_p >= QUICK_TOP_P;
}

/* The mass before a token, in the order of topk.h: what is likelier, or the same and lower. */
static double mass_before(const struct sampler *s, int32_t token)
{
    const float *w = s->weights + token;
    double lower = s->kernels->sum_above(s->weights, (size_t)token, nextafterf(*w, 0));
    return lower + s->kernels->sum_above(w + 1, s->n_vocab - (size_t)token - 1, *w);
}

/* The number of a draw: the first is that of the position, and a draw that failed leaves none. */
static double uniform_of(const struct sampler_input *in, uint64_t attempt)
{
    return sampler_uniform(in->sampling->seed ^ mixed(attempt), in->position);
}

/* -1: none of the draws was in the nucleus. */
static int32_t draw_quickly(struct sampler *s, const struct sampler_input *in)
{
    const struct sampling *p = in->sampling;
    weigh_all(s, 1 / p->temperature);
    double target = p->top_p * mass(s);
    for (uint64_t i = 0; i < QUICK_DRAWS; i++) {
        int32_t token = draw_any(s, uniform_of(in, i));
        if (s->weights[token] >= p->min_p && mass_before(s, token) < target)
            return token;
    }
    return -1;
}

int32_t sampler_sample(struct sampler *s, const struct sampler_input *in)
{
    const struct sampling *p = in->sampling;
    if (!process_logits(s, in))
        return -1;
    if (sampler_is_greedy(p))
        return logits_row_argmax(&s->row);
    bool quick = is_quick(p, s->n_vocab);
    s->gathered = false;
    int32_t token = quick ? draw_quickly(s, in) : -1;
    if (token >= 0)
        return token;
    filter(s, p);
    double u = uniform_of(in, quick ? QUICK_DRAWS : 0);
    return s->gathered ? draw_candidate(s, u) : draw_any(s, u);
}

bool sampler_filter(struct sampler *s, const struct sampler_input *in)
{
    if (!process_logits(s, in))
        return false;
    filter(s, in->sampling);
    return true;
}

bool sampler_is_greedy(const struct sampling *p)
{
    return p->temperature < GREEDY_BELOW || p->top_k == 1;
}

bool sampler_has_penalty(const struct sampling *p)
{
    return has_repetition(p) || has_presence_frequency(p);
}
