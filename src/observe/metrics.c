#include "observe/metrics.h"

#include <math.h>
#include <string.h>

void metrics_init(struct metrics *m)
{
    static const struct metrics_refusal usual[] = {
        {400, "invalid_request_error", 0},
        {400, "context_length_exceeded", 0},
        {401, "invalid_api_key", 0},
        {404, "model_not_found", 0},
        {429, "rate_limit_exceeded", 0},
        {503, "loading", 0},
        {503, "draining", 0},
    };
    *m = (struct metrics){.n_refusals = sizeof usual / sizeof *usual};
    memcpy(m->refusals, usual, sizeof usual);
}

static void metrics_add(struct metrics *m, enum metrics_id id, int64_t us)
{
    histogram_add(&m->histograms[id], us, 1);
}

/* --- requests ------------------------------------------------------------------------------- */

void metrics_parts(const struct timeline *t, bool streamed, int64_t us[METRICS_TTFT + 1])
{
    struct timeline seen = {0};
    memcpy(seen.at_us, t->at_us,
           TIMELINE_FINISHED * sizeof *t->at_us); /* that is the engine's yet */
    if (!streamed) {
        seen.at_us[TIMELINE_DECODED] = 0;
        seen.at_us[TIMELINE_FIRST_CONTENT] = t->at_us[TIMELINE_FIRST_TOKEN];
    }
    struct timeline_ttft parts = timeline_ttft(&seen);
    us[METRICS_RECEIVE] = parts.receive_us;
    us[METRICS_TOKENIZE] = parts.tokenize_us;
    us[METRICS_SUBMIT] = parts.submit_us;
    us[METRICS_QUEUE] = parts.queue_us;
    us[METRICS_CACHE] = parts.cache_us;
    us[METRICS_PREFILL] = parts.prefill_us;
    us[METRICS_FIRST_WRITE] = parts.first_write_us;
    us[METRICS_TTFT] = parts.total_us;
}

void metrics_first(struct metrics *m, const struct timeline *t, bool streamed,
                   uint32_t prompt_tokens)
{
    int64_t us[METRICS_TTFT + 1];
    metrics_parts(t, streamed, us);
    for (int i = 0; i <= METRICS_TTFT; i++)
        metrics_add(m, (enum metrics_id)i, us[i]);
    metrics_add(m, METRICS_ADMITTED, us[METRICS_CACHE] + us[METRICS_PREFILL]);
    m->prompt_tokens += prompt_tokens;
}

void metrics_tokens(struct metrics *m, struct metrics_track *track, const struct timeline *t,
                    uint32_t n_tokens, int64_t now_us)
{
    if (n_tokens == 0)
        return;
    if (track->n_tokens == 0)
        *track = (struct metrics_track){1, t->at_us[TIMELINE_FIRST_TOKEN]};
    uint32_t n = n_tokens - track->n_tokens;
    if (n == 0)
        return;
    histogram_add(&m->histograms[METRICS_ITL], (now_us - track->at_us) / n, n);
    track->n_tokens = n_tokens;
    track->at_us = now_us;
}

void metrics_end(struct metrics *m, const struct timeline *t, enum finish_reason finish,
                 uint32_t n_tokens)
{
    int64_t first = t->at_us[TIMELINE_FIRST_TOKEN], end = t->at_us[TIMELINE_FINISHED];
    m->finished[finish]++;
    if (finish != FINISH_STOP && finish != FINISH_LENGTH)
        return;
    metrics_add(m, METRICS_E2E, end - t->at_us[TIMELINE_RECEIVED]);
    metrics_add(m, METRICS_DECODE, end - first);
    if (n_tokens > 1)
        metrics_add(m, METRICS_TPOT, (end - first) / (n_tokens - 1));
}

void metrics_refuse(struct metrics *m, int http_status, const char *reason)
{
    for (uint32_t i = 0; i < m->n_refusals; i++) {
        struct metrics_refusal *r = &m->refusals[i];
        if (r->http_status == http_status && strcmp(r->reason, reason) == 0) {
            r->n++;
            return;
        }
    }
    if (m->n_refusals == METRICS_REFUSALS) /* the last one stands for all that come after it */
        m->refusals[METRICS_REFUSALS - 1].n++;
    else if (m->n_refusals == METRICS_REFUSALS - 1)
        m->refusals[m->n_refusals++] = (struct metrics_refusal){0, "other", 1};
    else
        m->refusals[m->n_refusals++] = (struct metrics_refusal){http_status, reason, 1};
}

/* --- moving averages ------------------------------------------------------------------------ */

void metrics_rate_update(struct metrics_rate *r, double total, int64_t now_us)
{
    double us = (double)(now_us - r->at_us);
    if (r->at_us != 0 && us <= 0)
        return;
    if (r->at_us != 0) {
        double now = (total - r->total) * 1e6 / us;
        r->per_second += (now - r->per_second) * -expm1(-us / (double)METRICS_TAU_US);
    }
    r->total = total;
    r->at_us = now_us;
}

static double metrics_ended(const struct metrics *m)
{
    uint64_t n = 0;
    for (int i = FINISH_STOP; i <= FINISH_ERROR; i++)
        n += m->finished[i];
    return (double)n;
}

void metrics_tick(struct metrics *m, const struct engine *e, int64_t now_us)
{
    struct engine_stats stats;
    struct pool_usage usage;
    engine_stats(e, &stats);
    engine_usage(e, &usage);
    metrics_rate_update(&m->prompt_rate, (double)stats.prompt_tokens, now_us);
    metrics_rate_update(&m->generated_rate, (double)stats.generated_tokens, now_us);
    metrics_rate_update(&m->request_rate, metrics_ended(m), now_us);
    metrics_rate_update(&m->engine_busy, (double)stats.busy_us / 1e6, now_us);
    metrics_rate_update(&m->workers_busy, (double)usage.busy, now_us);
    metrics_rate_update(&m->workers_capacity, (double)usage.capacity, now_us);
}

/* --- reading -------------------------------------------------------------------------------- */

void metrics_read(const struct metrics *m, enum metrics_id id, struct histogram_view *out)
{
    histogram_read(&m->histograms[id], out);
}

const char *metrics_name(enum metrics_id id)
{
    static const char *const names[METRICS_HISTOGRAMS] = {
        [METRICS_RECEIVE] = "receive",   [METRICS_TOKENIZE] = "tokenize",
        [METRICS_SUBMIT] = "submit",     [METRICS_QUEUE] = "queue",
        [METRICS_CACHE] = "cache",       [METRICS_PREFILL] = "prefill",
        [METRICS_TTFT] = "ttft",         [METRICS_FIRST_WRITE] = "first_write",
        [METRICS_ADMITTED] = "admitted", [METRICS_ITL] = "itl",
        [METRICS_TPOT] = "tpot",         [METRICS_DECODE] = "decode",
        [METRICS_E2E] = "e2e",
    };
    return names[id];
}

const char *metrics_finish_name(enum finish_reason finish)
{
    return finish == FINISH_CANCELLED ? "abort" : finish_reason_name(finish);
}
