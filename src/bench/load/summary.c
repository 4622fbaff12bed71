#include "bench/load/summary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- goodput -------------------------------------------------------------------------------- */

#define GOODPUT_FORM "expected objectives in ms such as \"ttft:500,tpot:50,e2el:5000\""

static double *goodput_field(struct goodput *g, const char *name, size_t len)
{
    const struct {
        const char *name;
        double *field;
    } known[] = {{"ttft", &g->ttft_ms}, {"tpot", &g->tpot_ms}, {"e2el", &g->e2el_ms}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strlen(known[i].name) == len && memcmp(known[i].name, name, len) == 0)
            return known[i].field;
    return NULL;
}

/* One objective, [text, text + len). */
static enum status goodput_part(const char *text, size_t len, struct goodput *g, struct err *err)
{
    const char *colon = memchr(text, ':', len);
    if (!colon)
        return err_set(err, STATUS_INVALID, GOODPUT_FORM ", found \"%.*s\"", (int)len, text);
    double *field = goodput_field(g, text, (size_t)(colon - text));
    if (!field)
        return err_set(err, STATUS_INVALID,
                       "unknown objective \"%.*s\"; there are ttft, tpot, e2el",
                       (int)(colon - text), text);
    if (*field > 0)
        return err_set(err, STATUS_INVALID, "%.*s is given twice", (int)(colon - text), text);
    char *end;
    double ms = strtod(colon + 1, &end);
    if (end == colon + 1 || end != text + len || !isfinite(ms) || ms <= 0)
        return err_set(err, STATUS_INVALID, "%.*s: expected milliseconds above 0, found \"%.*s\"",
                       (int)(colon - text), text, (int)(text + len - colon - 1), colon + 1);
    *field = ms;
    return STATUS_OK;
}

enum status summary_parse_goodput(const char *text, struct goodput *out, struct err *err)
{
    struct goodput g = {0};
    for (const char *p = text;; p++) {
        size_t len = strcspn(p, ",");
        enum status st = goodput_part(p, len, &g, err);
        if (st)
            return st;
        p += len;
        if (*p == '\0')
            break;
    }
    *out = g;
    return STATUS_OK;
}

/* As `vllm bench serve` counts: every objective that is set, "at most". NAN meets none. */
static bool meets(double ms, double objective)
{
    return objective <= 0 || ms <= objective;
}

/* Nobody waits for more of an answer that came in one chunk: its TPOT counts as 0, as vLLM's does
 * of one token. */
static bool is_good(const struct record *r, const struct goodput *g)
{
    double tpot = r->n_chunks == 1 ? 0 : record_tpot_ms(r);
    return meets(record_ttft_ms(r), g->ttft_ms) && meets(tpot, g->tpot_ms) &&
           meets(record_latency_ms(r), g->e2el_ms);
}

/* --- one request ---------------------------------------------------------------------------- */

/* The parts that the server told. A queue time alone comes from servers that split no more. */
static void summary_add_parts(struct summary *s, const struct record *r)
{
    const struct timeline_ttft *t = &r->ttft;
    if (!r->has_ttft) {
        series_add(&s->queue, r->server_queue_ms);
        return;
    }
    series_add(&s->add_request, (double)(t->receive_us + t->tokenize_us + t->submit_us) / 1e3);
    series_add(&s->queue, (double)t->queue_us / 1e3);
    series_add(&s->prefill, (double)(t->cache_us + t->prefill_us) / 1e3);
    if (r->whole && t->decode_us > 0) /* an older server does not tell it */
        series_add(&s->decode, (double)t->decode_us / 1e3);
}

/* The server's view of the whole: what it says in one number, else the sum of its parts. */
static double server_ttft_ms(const struct record *r)
{
    if (!isnan(r->server_ttft_ms))
        return r->server_ttft_ms;
    return r->has_ttft ? (double)r->ttft.total_us / 1e3 : NAN;
}

static void add_completed(struct summary *s, const struct record *r, const struct goodput *goodput)
{
    s->completed++;
    s->without_content += r->first_us == 0;
    s->uncounted += r->uncounted;
    s->prompt_tokens += r->prompt_tokens;
    s->completion_tokens += r->completion_tokens;
    s->cached_tokens += r->cached_tokens;
    s->messages += r->n_messages;
    s->payload_bytes += r->payload_bytes;
    s->good += goodput && is_good(r, goodput);
    summary_add_parts(s, r);
    series_add(&s->ttft, record_ttft_ms(r));
    series_add(&s->tpot, record_tpot_ms(r));
    series_add(&s->latency, record_latency_ms(r));
    if (!r->whole)
        series_add(&s->client_minus_server, record_ttft_ms(r) - server_ttft_ms(r));
    for (uint32_t i = 1; i < r->n_chunks; i++)
        series_add(&s->itl, (double)(r->chunk_us[i] - r->chunk_us[i - 1]) / 1e3);
}

/* --- the whole ------------------------------------------------------------------------------ */

static void summary_add_run(struct summary *s, const struct load_result *run,
                            const struct goodput *goodput)
{
    s->n += run->n;
    s->duration_s += (double)(run->end_us - run->start_us) / 1e6;
    s->submit_wall_ms += (double)run->submit_wall_us / 1e3;
    series_add_all(&s->background_gap, &run->background_gap_ms);
    s->beside |= run->n_background > 0;
    s->on_wire |= run->on_wire;
    s->received_bytes += run->received_bytes;
    for (uint32_t i = 0; i < run->n; i++) {
        const struct record *r = &run->records[i];
        if (r->state == RECORD_OK)
            add_completed(s, r, goodput);
        else if (r->state == RECORD_FAILED)
            s->failed++;
        else
            s->cancelled++; /* an interrupted run's unsent ones too */
    }
}

/* Every series of a summary. */
#define SUMMARY_SERIES(s)                                                                          \
    {                                                                                              \
        &(s)->add_request, &(s)->queue, &(s)->prefill, &(s)->decode, &(s)->ttft, &(s)->tpot,       \
            &(s)->itl, &(s)->latency, &(s)->client_minus_server, &(s)->background_gap              \
    }

/* NAN when nothing lasted or nothing came: how fast a target is that answered nothing, or counts
 * nothing, is not known. */
static double summary_rate(const struct summary *s, double count)
{
    return s->duration_s > 0 && count > 0 ? count / s->duration_s : NAN;
}

static double by_token(const struct summary *s, uint64_t count)
{
    bool known = s->on_wire && s->completion_tokens > 0;
    return known ? (double)count / (double)s->completion_tokens : NAN;
}

static void add_traffic(struct summary *s)
{
    bool alone = s->completed == s->n && !s->beside;
    s->messages_per_token = by_token(s, s->messages);
    s->payload_per_token = by_token(s, s->payload_bytes);
    s->received_per_token = alone && s->received_bytes > 0 ? by_token(s, s->received_bytes) : NAN;
}

bool summary_make(struct summary *out, const struct load_result *runs, uint32_t n_runs,
                  const struct goodput *goodput)
{
    struct summary *s = out;
    *s = (struct summary){.has_goodput = goodput != NULL};
    for (uint32_t i = 0; i < n_runs; i++)
        summary_add_run(s, &runs[i], goodput);
    s->request_throughput = summary_rate(s, s->completed);
    s->output_throughput = summary_rate(s, (double)s->completion_tokens);
    s->total_throughput = summary_rate(s, (double)(s->prompt_tokens + s->completion_tokens));
    s->request_goodput = goodput && s->duration_s > 0 ? s->good / s->duration_s : NAN;
    add_traffic(s);
    struct series *all[] = SUMMARY_SERIES(s);
    bool ok = true;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        ok = ok && !all[i]->failed;
    return ok;
}

void summary_fini(struct summary *s)
{
    struct series *all[] = SUMMARY_SERIES(s);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        series_fini(all[i]);
    *s = (struct summary){0};
}
