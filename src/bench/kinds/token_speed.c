#include "bench/kinds/token_speed.h"

#include "base/mem.h"
#include "bench/load/load_table.h"
#include "bench/result/random.h"
#include "bench/result/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const struct token_speed_options token_speed_default = {
    .concurrency = 1,
    .max_new_tokens = 128,
    .ignore_eos = true,
    .chat = true,
};

/* --- what is asked -------------------------------------------------------------------------- */

static uint32_t requests_of_run(const struct prompt_set *p, const struct token_speed_options *o)
{
    return o->concurrency > p->n ? o->concurrency : p->n;
}

/* The prompt as it stands, or after a line of 16 digits. */
static char *prompt_text(const struct prompt *p, bool unique, struct random *r)
{
    struct buf b = {0};
    if (!unique)
        return mem_strdup(p->text);
    buf_printf(&b, "(%016" PRIx64 ")\n%s", random_next(r), p->text);
    if (b.failed) {
        buf_fini(&b);
        return NULL;
    }
    return buf_take(&b);
}

enum status token_speed_workload(struct workload *out, const struct prompt_set *p,
                                 const struct token_speed_options *o, uint32_t run, struct err *err)
{
    uint32_t n = requests_of_run(p, o);
    struct random r;
    random_init(&r, random_salted(o->seed, o->salt), run);
    *out = (struct workload){.items = mem_array(n, sizeof *out->items)};
    bool complete = out->items != NULL;
    for (uint32_t i = 0; complete && i < n; i++) {
        out->items[out->n++] = (struct work_item){
            .prompt = prompt_text(&p->v[i % p->n], o->unique_prompts, &r),
            .max_tokens = o->max_new_tokens,
            .ignore_eos = o->ignore_eos,
            .chat = o->chat,
            .stream = true,
        };
        complete = out->items[i].prompt != NULL;
    }
    return complete ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "no memory for %u requests", n);
}

json_t *token_speed_workload_json(const struct prompt_set *p, const struct token_speed_options *o)
{
    json_t *prompts = json_array();
    int bad = 0;
    for (uint32_t i = 0; i < p->n; i++)
        bad |= json_array_append_new(
            prompts, json_pack("{s:s, s:s}", "id", p->v[i].id, "text", p->v[i].text));
    return json_pack("{s:o, s:I, s:I, s:I, s:b, s:b, s:b, s:b, s:I}", "prompts",
                     result_whole(prompts, bad), "num_requests", (json_int_t)requests_of_run(p, o),
                     "max_concurrency", (json_int_t)o->concurrency, "max_new_tokens",
                     (json_int_t)o->max_new_tokens, "ignore_eos", o->ignore_eos, "unique_prompts",
                     o->unique_prompts, "chat", o->chat, "stream", true, "seed",
                     (json_int_t)o->seed);
}

/* --- the runs ------------------------------------------------------------------------------- */

struct source {
    const struct prompt_set *prompts;
    const struct token_speed_options *o;
};

static enum status make_workload(void *arg, uint32_t run, struct workload *out, struct err *err)
{
    const struct source *s = arg;
    return token_speed_workload(out, s->prompts, s->o, run, err);
}

enum status token_speed_measure(struct target *t, const struct prompt_set *p,
                                const struct token_speed_options *o,
                                const struct measure_options *m, struct measurement *out,
                                struct err *err)
{
    struct source source = {p, o};
    return measure_made(t, make_workload, &source, o->concurrency, m, out, err);
}

/* --- the figures ---------------------------------------------------------------------------- */

static double token_speed_rate(uint64_t tokens, int64_t us)
{
    return us > 0 ? 1e6 * (double)tokens / (double)us : NAN;
}

void token_speed_figures(struct token_speed_figures *out, const struct load_result *runs,
                         uint32_t n_runs, uint32_t which, uint32_t n_prompts)
{
    int64_t whole_us = 0, decode_us = 0;
    uint64_t decoded = 0;
    *out = (struct token_speed_figures){0};
    for (uint32_t run = 0; run < n_runs; run++) {
        for (uint32_t i = 0; i < runs[run].n; i++) {
            const struct record *r = &runs[run].records[i];
            if (r->state != RECORD_OK || (which != TOKEN_SPEED_ALL && i % n_prompts != which))
                continue;
            out->n++;
            out->prompt_tokens += r->prompt_tokens;
            out->completion_tokens += r->completion_tokens;
            out->cached_tokens += r->cached_tokens;
            series_add(&out->ttft_ms, record_ttft_ms(r));
            whole_us += r->end_us - r->sent_us;
            if (r->n_chunks < 2 || r->completion_tokens == 0)
                continue; /* in one piece: nothing was seen of its pace */
            decode_us += r->end_us - r->first_us;
            decoded += r->completion_tokens - 1;
        }
    }
    out->tokens_per_s = token_speed_rate(out->completion_tokens, whole_us);
    out->decode_tokens_per_s = token_speed_rate(decoded, decode_us);
}

void token_speed_figures_fini(struct token_speed_figures *f)
{
    series_fini(&f->ttft_ms);
}

/* --- the result ----------------------------------------------------------------------------- */

/* One run's metrics of a prompt. */
static void token_speed_add_metrics(struct result *out, const char *id,
                                    struct token_speed_figures *f)
{
    char name[64];
    snprintf(name, sizeof name, "tokens_per_s_%s", id);
    result_metric(out, name, "tokens/s", RESULT_HIGHER, f->tokens_per_s);
    snprintf(name, sizeof name, "decode_tokens_per_s_%s", id);
    result_metric(out, name, "tokens/s", RESULT_HIGHER, f->decode_tokens_per_s);
    snprintf(name, sizeof name, "ttft_%s", id);
    result_metric_series(out, name, &f->ttft_ms);
}

static void token_speed_add_run(struct result *out, const struct load_result *run,
                                const struct prompt_set *p)
{
    struct token_speed_figures f;
    token_speed_figures(&f, run, 1, TOKEN_SPEED_ALL, p->n);
    result_metric(out, "decode_tokens_per_s", "tokens/s", RESULT_HIGHER, f.decode_tokens_per_s);
    token_speed_figures_fini(&f);
    for (uint32_t i = 0; i < p->n; i++) {
        token_speed_figures(&f, run, 1, i, p->n);
        token_speed_add_metrics(out, p->v[i].id, &f);
        token_speed_figures_fini(&f);
    }
}

static json_t *prompt_json(const struct prompt *p, struct token_speed_figures *f)
{
    return json_pack("{s:s, s:s?, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "id", p->id, "kind", p->kind,
                     "requests", (json_int_t)f->n, "prompt_tokens", (json_int_t)f->prompt_tokens,
                     "completion_tokens", (json_int_t)f->completion_tokens, "cached_tokens",
                     (json_int_t)f->cached_tokens, "tokens_per_s", result_number(f->tokens_per_s),
                     "decode_tokens_per_s", result_number(f->decode_tokens_per_s), "ttft_ms",
                     result_spread(&f->ttft_ms));
}

void token_speed_result(struct measurement *m, const struct prompt_set *p, struct result *out)
{
    json_t *prompts = json_array();
    measure_result(m, NULL, out);
    for (uint32_t i = 0; i < m->n_runs; i++)
        token_speed_add_run(out, &m->runs[i], p);
    for (uint32_t i = 0; i < p->n; i++) {
        struct token_speed_figures f;
        token_speed_figures(&f, m->runs, m->n_runs, i, p->n);
        if (json_array_append_new(prompts, prompt_json(&p->v[i], &f)))
            out->failed = true;
        token_speed_figures_fini(&f);
    }
    result_set(out, "prompts", prompts);
}

/* --- the table ------------------------------------------------------------------------------ */

static void token_speed_row(struct buf *out, const char *name, struct token_speed_figures *f,
                            double tokens_per_s)
{
    struct spread ttft = series_spread(&f->ttft_ms);
    double n = f->n ? f->n : NAN;
    buf_printf(out, "%-*s", 14, name);
    table_number(out, 8, 0, (double)f->prompt_tokens / n);
    table_number(out, 8, 0, (double)f->completion_tokens / n);
    table_number(out, 10, 1, tokens_per_s);
    table_number(out, 10, 1, f->decode_tokens_per_s);
    table_number(out, 10, 1, ttft.p50);
    table_number(out, 10, 1, ttft.p95);
    table_number(out, 10, 1, ttft.p99);
    buf_putc(out, '\n');
}

static void token_speed_head(struct buf *out, const struct measurement *m,
                             const struct prompt_set *p, const struct token_speed_options *o,
                             const struct target *t)
{
    buf_printf(out, "model    %s\nengine   %s\nprompts  %u, ", t->model, t->engine, p->n);
    if (o->concurrency > 1)
        buf_printf(out, "asked by %u requests, %u at once, ", requests_of_run(p, o),
                   o->concurrency);
    else
        buf_puts(out, "one after the other, ");
    table_count(out, m->n_runs, "run");
    buf_printf(out, "\ntokens   %s%u of each answer%s%s\n\n", o->ignore_eos ? "" : "at most ",
               o->max_new_tokens, o->chat ? "" : "; prompts without a chat template",
               o->unique_prompts ? "; every prompt distinct" : "");
    buf_printf(out, "%-14s %8s %8s %10s %10s %10s %10s %10s\n", "", "prompt", "new", "tokens/s",
               "decode/s", "TTFT p50", "p95", "p99 (ms)");
}

static void foot(struct buf *out, struct measurement *m, const struct token_speed_options *o)
{
    const struct summary *s = &m->pooled;
    buf_putc(out, '\n');
    if (o->concurrency > 1)
        buf_puts(out, "tokens/s of \"all\" is the aggregate: all new tokens over how long the runs "
                      "took;\nthe other rates are those of one stream.\n");
    if (s->cached_tokens > 0)
        buf_printf(out, "%" PRIu64 " of %" PRIu64 " prompt tokens came from a prefix cache: %s\n",
                   s->cached_tokens, s->prompt_tokens,
                   o->unique_prompts ? "that of what all begin with."
                                     : "TTFT is that of a repeated prompt.\n--unique-prompts "
                                       "asks for distinct ones.");
    if (s->uncounted > 0)
        buf_printf(out,
                   "the server did not count the tokens of %u answers: their chunks are\n"
                   "counted, and a chunk may hold several tokens\n",
                   s->uncounted);
    uint64_t asked = (uint64_t)s->completed * o->max_new_tokens;
    if (o->ignore_eos && s->completion_tokens < asked)
        buf_printf(out,
                   "%" PRIu64 " new tokens came of %" PRIu64
                   " that were asked for: a context ended, "
                   "or the server\nstops at the end of text all the same\n",
                   s->completion_tokens, asked);
    if (s->completed < s->n)
        buf_printf(out, "%u of %u requests were not answered%s\n", s->n - s->completed, s->n,
                   s->completed > 0 ? "; the figures are of the others" : "");
    out->failed |= !load_table_generator(out, 10, m->runs, m->n_runs);
}

void token_speed_table(struct buf *out, struct measurement *m, const struct prompt_set *p,
                       const struct token_speed_options *o, const struct target *t)
{
    struct token_speed_figures f;
    token_speed_head(out, m, p, o, t);
    for (uint32_t i = 0; i < p->n; i++) {
        token_speed_figures(&f, m->runs, m->n_runs, i, p->n);
        token_speed_row(out, p->v[i].id, &f, f.tokens_per_s);
        token_speed_figures_fini(&f);
    }
    token_speed_figures(&f, m->runs, m->n_runs, TOKEN_SPEED_ALL, p->n);
    token_speed_row(out, "all", &f, f.n > 0 ? m->pooled.output_throughput : NAN);
    token_speed_figures_fini(&f);
    foot(out, m, o);
}
