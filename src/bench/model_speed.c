#include "bench/model_speed.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "bench/random.h"
#include "engine/evaluator.h"

struct job {
    const struct model_speed_options *o;
    struct evaluator *evaluator;
    int32_t *tokens; /* (n_tokens): depth + the longer of prompt and generation */
    uint32_t n_tokens;
};

/* Ids without meaning: the arithmetic does not depend on them. */
static void fill_tokens(struct job *job, uint32_t n_vocab)
{
    struct random random;
    random_init(&random, job->o->seed, 0);
    for (uint32_t i = 0; i < job->n_tokens; i++)
        job->tokens[i] = (int32_t)random_below(&random, n_vocab);
}

static void ignore_logits(void *arg, uint32_t position, const float *logits)
{
    (void)arg;
    (void)position;
    (void)logits;
}

/* Feeds n tokens after `depth` in steps of `step` and asks for each step's last logits. */
static double rate(struct job *job, uint32_t n, uint32_t step)
{
    uint32_t depth = job->o->depth;
    evaluator_cut(job->evaluator, depth);
    int64_t start = clock_now_ns();
    for (uint32_t done = 0; done < n; done += step) {
        uint32_t part = n - done < step ? n - done : step;
        evaluator_feed(job->evaluator, job->tokens + depth + done, part, depth + done + part - 1,
                       ignore_logits, NULL);
    }
    return 1e9 * n / (double)(clock_now_ns() - start);
}

static enum status prepare(struct job *job, const struct model *model, struct err *err)
{
    const struct model_speed_options *o = job->o;
    struct backend_options backend = o->backend;
    uint32_t longest = o->n_prompt > o->n_generate ? o->n_prompt : o->n_generate;
    if (longest > LIMIT_CONTEXT || o->depth > LIMIT_CONTEXT - longest)
        return err_param(err, STATUS_INVALID, "--depth",
                         "--depth and the tokens after it exceed %u positions", LIMIT_CONTEXT);
    job->n_tokens = o->depth + longest;
    job->tokens = mem_array(job->n_tokens, sizeof *job->tokens);
    if (!job->tokens)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u tokens", job->n_tokens);
    fill_tokens(job, model->config.n_vocab);
    backend.n_ctx = job->n_tokens;
    backend.max_rows = LIMIT_BATCH_TOKENS;
    backend.max_outputs = 1;
    return evaluator_open(&job->evaluator, &cpu_backend, model, &backend, err);
}

static void measure(struct job *job, struct model_speed *out)
{
    const struct model_speed_options *o = job->o;
    uint32_t n = o->warmup_runs + o->repeat_runs;
    evaluator_feed(job->evaluator, job->tokens, o->depth, UINT32_MAX, NULL, NULL);
    for (uint32_t run = 0; run < n; run++) {
        if (o->progress)
            o->progress(run, n);
        double prefill = rate(job, o->n_prompt, LIMIT_BATCH_TOKENS);
        double decode = rate(job, o->n_generate, 1);
        if (run < o->warmup_runs)
            continue;
        series_add(&out->prefill, prefill);
        series_add(&out->decode, decode);
    }
}

enum status model_speed_run(struct model_speed *out, const struct model *model,
                            const struct model_speed_options *o, struct err *err)
{
    struct job job = {.o = o};
    *out = (struct model_speed){0};
    enum status st = prepare(&job, model, err);
    if (!st)
        measure(&job, out);
    if (!st && (out->prefill.failed || out->decode.failed))
        st = err_set(err, STATUS_NO_MEMORY, "no memory for %u runs", o->repeat_runs);
    evaluator_close(job.evaluator);
    mem_free(job.tokens);
    return st;
}

void model_speed_fini(struct model_speed *m)
{
    series_fini(&m->prefill);
    series_fini(&m->decode);
}

json_t *model_speed_workload(const struct model_speed_options *o)
{
    return json_pack("{s:I, s:I, s:I, s:I}", "prompt_tokens", (json_int_t)o->n_prompt,
                     "decode_tokens", (json_int_t)o->n_generate, "depth", (json_int_t)o->depth,
                     "seed", (json_int_t)o->seed);
}

static void add(const struct series *s, const char *name, struct result *out)
{
    for (size_t i = 0; i < s->n; i++)
        result_metric(out, name, "tokens/s", RESULT_HIGHER, s->v[i]);
}

void model_speed_result(const struct model_speed *m, struct result *out)
{
    add(&m->prefill, "prefill_tokens_per_s", out);
    add(&m->decode, "decode_tokens_per_s", out);
}
