#include "bench/kinds/model_speed.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "bench/result/random.h"

/* Sequence i has its own tokens, i * n_tokens on, and its own KV blocks, i * n_blocks on. */
struct job {
    const struct model_speed_options *o;
    struct backend *backend;
    uint32_t n_seqs;
    uint32_t n_tokens; /* of a sequence: depth + the longest of what is measured */
    uint32_t n_blocks; /* of a sequence */
    int32_t *tokens;   /* (n_seqs, n_tokens) */
    uint32_t *blocks;  /* (n_seqs, n_blocks) */
    struct batch_seq seqs[LIMIT_BATCH_SEQS];
};

/* Ids without meaning: the arithmetic does not depend on them. */
static void fill_tokens(struct job *job, uint32_t n_vocab)
{
    struct random random;
    random_init(&random, job->o->seed, 0);
    for (size_t i = 0; i < (size_t)job->n_seqs * job->n_tokens; i++)
        job->tokens[i] = (int32_t)random_below(&random, n_vocab);
}

/* One step: n tokens from `past` on, of n_seqs sequences each. */
static void model_speed_step(struct job *job, uint32_t first, uint32_t n_seqs, uint32_t past,
                             uint32_t n, enum batch_output output)
{
    struct step_result result;
    for (uint32_t i = 0; i < n_seqs; i++) {
        size_t seq = first + i;
        job->seqs[i] = (struct batch_seq){
            .tokens = job->tokens + seq * job->n_tokens + past,
            .n_tokens = n,
            .n_past = past,
            .blocks = job->blocks + seq * job->n_blocks,
            .output = output,
        };
    }
    backend_step(job->backend, &(struct batch){job->seqs, n_seqs}, &result);
}

/* n tokens of one sequence in steps as large as they may be. */
static void feed(struct job *job, uint32_t seq, uint32_t past, uint32_t n, enum batch_output output)
{
    for (uint32_t done = 0, part; done < n; done += part) {
        part = n - done < LIMIT_BATCH_TOKENS ? n - done : LIMIT_BATCH_TOKENS;
        model_speed_step(job, seq, 1, past + done, part, output);
    }
}

static double per_second(double tokens, int64_t start)
{
    return 1e9 * tokens / (double)(clock_now_ns() - start);
}

static double prefill_rate(struct job *job)
{
    uint32_t n = job->o->n_prompt * job->o->n_prompts;
    int64_t start = clock_now_ns();
    feed(job, 0, job->o->depth, n, OUTPUT_LAST);
    return per_second(n, start);
}

static double prompts_rate(struct job *job)
{
    const struct model_speed_options *o = job->o;
    int64_t start = clock_now_ns();
    model_speed_step(job, 0, o->n_prompts, o->depth, o->n_prompt, OUTPUT_LAST);
    return per_second((double)o->n_prompts * o->n_prompt, start);
}

static double decode_rate(struct job *job)
{
    const struct model_speed_options *o = job->o;
    int64_t start = clock_now_ns();
    for (uint32_t i = 0; i < o->n_generate; i++)
        model_speed_step(job, 0, o->batch, o->depth + i, 1, OUTPUT_LAST);
    return per_second((double)o->batch * o->n_generate, start);
}

/* Sizes; nothing is allocated for what is too long. */
static enum status size(struct job *job, struct err *err)
{
    const struct model_speed_options *o = job->o;
    REQUIRE(o->n_prompts >= 1 && o->batch >= 1);
    REQUIRE(o->n_prompts <= LIMIT_BATCH_SEQS && o->batch <= LIMIT_BATCH_SEQS);
    if (o->n_prompts > 1 && o->n_prompt > LIMIT_BATCH_TOKENS / o->n_prompts)
        return err_param(err, STATUS_INVALID, "--prompts",
                         "--prompts %u of -p %u tokens are more than the %u tokens of a step",
                         o->n_prompts, o->n_prompt, LIMIT_BATCH_TOKENS);
    uint32_t prompt = o->n_prompts * o->n_prompt;
    uint32_t longest = prompt > o->n_generate ? prompt : o->n_generate;
    if (longest > LIMIT_CONTEXT || o->depth > LIMIT_CONTEXT - longest)
        return err_param(err, STATUS_INVALID, "--depth",
                         "--depth and the tokens after it exceed %u positions", LIMIT_CONTEXT);
    job->n_seqs = o->batch > o->n_prompts ? o->batch : o->n_prompts;
    job->n_tokens = o->depth + longest;
    job->n_blocks = (job->n_tokens + KV_BLOCK - 1) / KV_BLOCK;
    return STATUS_OK;
}

static enum status model_speed_open_backend(struct job *job, const struct model *model,
                                            struct err *err)
{
    struct backend_options o = job->o->backend;
    o.n_ctx = job->n_tokens;
    o.max_rows = LIMIT_BATCH_TOKENS;
    o.max_outputs = o.max_seqs = job->n_seqs;
    enum status st = cpu_backend.open(&job->backend, model, &o, err);
    return st ? st : cpu_backend.kv_create(job->backend, job->n_seqs * job->n_blocks, err);
}

static enum status model_speed_prepare(struct job *job, const struct model *model, struct err *err)
{
    enum status st = size(job, err);
    if (st)
        return st;
    job->tokens = mem_array((size_t)job->n_seqs * job->n_tokens, sizeof *job->tokens);
    job->blocks = mem_array((size_t)job->n_seqs * job->n_blocks, sizeof *job->blocks);
    if (!job->tokens || !job->blocks)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u sequences of %u tokens",
                       job->n_seqs, job->n_tokens);
    fill_tokens(job, model->config.n_vocab);
    for (uint32_t i = 0; i < job->n_seqs * job->n_blocks; i++)
        job->blocks[i] = i;
    return model_speed_open_backend(job, model, err);
}

static void model_speed_measure(struct job *job, struct model_speed *out)
{
    const struct model_speed_options *o = job->o;
    uint32_t n = o->warmup_runs + o->repeat_runs;
    for (uint32_t i = 0; i < job->n_seqs; i++)
        feed(job, i, 0, o->depth, OUTPUT_NONE);
    for (uint32_t run = 0; run < n; run++) {
        if (o->progress)
            o->progress(run, n);
        double prefill = prefill_rate(job);
        double prompts = o->n_prompts > 1 ? prompts_rate(job) : 0;
        double decode = decode_rate(job);
        if (run < o->warmup_runs)
            continue;
        series_add(&out->prefill, prefill);
        series_add(&out->decode, decode);
        if (o->n_prompts == 1)
            continue;
        series_add(&out->prompts, prompts);
        series_add(&out->prompts_percent, 100 * prompts / prefill);
    }
}

enum status model_speed_run(struct model_speed *out, const struct model *model,
                            const struct model_speed_options *o, struct err *err)
{
    struct job job = {.o = o};
    *out = (struct model_speed){0};
    enum status st = model_speed_prepare(&job, model, err);
    if (!st)
        model_speed_measure(&job, out);
    if (!st && (out->prefill.failed || out->prompts.failed || out->prompts_percent.failed ||
                out->decode.failed))
        st = err_set(err, STATUS_NO_MEMORY, "no memory for %u runs", o->repeat_runs);
    if (job.backend)
        cpu_backend.close(job.backend);
    mem_free(job.blocks);
    mem_free(job.tokens);
    return st;
}

void model_speed_fini(struct model_speed *m)
{
    series_fini(&m->prefill);
    series_fini(&m->prompts);
    series_fini(&m->prompts_percent);
    series_fini(&m->decode);
}

json_t *model_speed_workload(const struct model_speed_options *o)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "prompt_tokens", (json_int_t)o->n_prompt,
                     "prompts", (json_int_t)o->n_prompts, "decode_tokens",
                     (json_int_t)o->n_generate, "batch", (json_int_t)o->batch, "depth",
                     (json_int_t)o->depth, "seed", (json_int_t)o->seed);
}

static void model_speed_add(const struct series *s, const char *name, const char *unit,
                            struct result *out)
{
    for (size_t i = 0; i < s->n; i++)
        result_metric(out, name, unit, RESULT_HIGHER, s->v[i]);
}

void model_speed_result(const struct model_speed *m, struct result *out)
{
    model_speed_add(&m->prefill, "prefill_tokens_per_s", "tokens/s", out);
    model_speed_add(&m->prompts, "prompts_tokens_per_s", "tokens/s", out);
    model_speed_add(&m->prompts_percent, "prompts_of_prefill", "%", out);
    model_speed_add(&m->decode, "decode_tokens_per_s", "tokens/s", out);
}
