#include "bench/kinds/simulation.h"

#include "base/mem.h"
#include "bench/result/random.h"
#include "bench/result/table.h"

#include <math.h>

#define BURSTINESS    0.1
#define SHORT_TOKENS  32
#define LONG_TOKENS   2048
#define LONG_ONE_IN   50
#define PREFIX_TOKENS 1024
#define PREFIXES      8

enum stream { STREAM_LENGTHS, STREAM_ARRIVALS, STREAM_WORDS };

const char *const simulation_arrivals_names[] = {"bursts", "long-among-short", "shared-prefix",
                                                 "trace", NULL};

const struct simulation_options simulation_default = {
    .replay_options = {.speed = 1},
    .num_requests = 2000,
    .request_rate = 100,
    .max_new_tokens = 32,
    .load = 0.7,
    .ttft_ms = 500,
    .gap_ms = 200,
    .engine = {.kv_blocks = 4096},
};

/* The arrivals of a run. */
struct arrivals {
    struct simulate_request *requests; /* (n) */
    uint32_t n, longest;
    int32_t *tokens;
    double work_us; /* of the machine at its own speed, what is shared counted once */
};

static void arrivals_fini(struct arrivals *a)
{
    mem_free(a->requests);
    mem_free(a->tokens);
}

/* --- lengths and moments -------------------------------------------------------------------- */

static uint32_t prompt_length(const struct simulation_options *o, struct random *r, uint32_t i)
{
    switch (o->arrivals) {
    case SIMULATION_BURSTS:
        return 16 + random_below(r, 241);
    case SIMULATION_LONG_AMONG_SHORT:
        return i % LONG_ONE_IN == LONG_ONE_IN / 2 ? LONG_TOKENS : SHORT_TOKENS;
    case SIMULATION_SHARED_PREFIX:
        return PREFIX_TOKENS + SHORT_TOKENS;
    case SIMULATION_TRACE:
        break;
    }
    return o->replay->requests[i].input_tokens;
}

static double next_gap_us(const struct simulation_options *o, struct random *r)
{
    double shape = o->arrivals == SIMULATION_BURSTS ? BURSTINESS : 1;
    return random_gamma(r, shape, 1e6 / (o->request_rate * shape));
}

/* False: no memory. */
static bool make_requests(struct arrivals *a, const struct simulation_options *o, uint64_t seed)
{
    struct random lengths, gaps;
    double at_us = 0;
    random_init(&lengths, seed, STREAM_LENGTHS);
    random_init(&gaps, seed, STREAM_ARRIVALS);
    a->n = o->arrivals == SIMULATION_TRACE ? o->replay->n : o->num_requests;
    a->requests = mem_array(a->n, sizeof *a->requests);
    for (uint32_t i = 0; a->requests && i < a->n; i++) {
        struct simulate_request *q = &a->requests[i];
        *q = (struct simulate_request){.n_tokens = prompt_length(o, &lengths, i),
                                       .max_tokens = o->max_new_tokens};
        if (o->arrivals == SIMULATION_TRACE) {
            const struct replay_request *from = &o->replay->requests[i];
            at_us = (from->at_ms - o->replay->requests[0].at_ms) * 1e3 / o->replay_options.speed;
            q->max_tokens = from->output_tokens;
        } else {
            at_us += next_gap_us(o, &gaps);
        }
        q->at_us = (int64_t)at_us;
        if (q->n_tokens + q->max_tokens > a->longest)
            a->longest = q->n_tokens + q->max_tokens;
    }
    return a->requests != NULL;
}

/* --- prompts -------------------------------------------------------------------------------- */

static void write_words(int32_t *at, uint32_t n, uint64_t seed, uint64_t stream)
{
    struct random r;
    random_init(&r, seed, stream);
    for (uint32_t i = 0; i < n; i++)
        at[i] = (int32_t)random_below(&r, SIMULATE_VOCAB);
}

static uint32_t write_blocks(const struct replay *replay, uint32_t i, int32_t *at, uint64_t seed)
{
    const struct replay_request *q = &replay->requests[i];
    uint32_t done = 0;
    for (uint32_t b = 0; b < q->n_hashes && done < q->input_tokens; b++) {
        uint32_t left = q->input_tokens - done;
        uint32_t n = left < replay->block_tokens ? left : replay->block_tokens;
        write_words(at + done, n, seed, replay->hash_ids[q->first_hash + b]);
        done += n;
    }
    return done;
}

/* Returns how many of them others may share. */
static uint32_t write_shared(const struct simulation_options *o, uint32_t i, int32_t *at,
                             uint64_t seed)
{
    if (o->arrivals == SIMULATION_TRACE)
        return write_blocks(o->replay, i, at, seed);
    if (o->arrivals != SIMULATION_SHARED_PREFIX)
        return 0;
    write_words(at, PREFIX_TOKENS, seed, i % PREFIXES);
    return PREFIX_TOKENS;
}

/* Of a trace all of it counts as work, since what of it is shared depends on the cache. */
static void add_work(struct arrivals *a, const struct simulation_options *o, uint32_t i)
{
    const struct simulate_request *q = &a->requests[i];
    bool shared = o->arrivals == SIMULATION_SHARED_PREFIX && i >= PREFIXES;
    a->work_us += (double)simulate_machine_us(&o->engine.machine, shared ? PREFIX_TOKENS : 0,
                                              q->n_tokens, q->max_tokens);
}

static bool make_prompts(struct arrivals *a, const struct simulation_options *o, uint64_t seed)
{
    size_t total = 0, at = 0;
    for (uint32_t i = 0; i < a->n; i++)
        total += a->requests[i].n_tokens;
    a->tokens = mem_array(total, sizeof *a->tokens);
    for (uint32_t i = 0; a->tokens && i < a->n; i++) {
        struct simulate_request *q = &a->requests[i];
        int32_t *tokens = a->tokens + at;
        uint32_t done = write_shared(o, i, tokens, ~seed);
        write_words(tokens + done, q->n_tokens - done, seed, STREAM_WORDS + i);
        q->tokens = tokens;
        at += q->n_tokens;
        add_work(a, o, i);
    }
    return a->tokens != NULL;
}

/* --- a run ---------------------------------------------------------------------------------- */

static double speed_for(const struct simulation_options *o, const struct arrivals *a)
{
    int64_t span_us = a->requests[a->n - 1].at_us;
    if (o->speed > 0)
        return o->speed;
    return span_us > 0 ? a->work_us / (double)span_us / o->load : 1;
}

static struct simulate_options engine_for(const struct simulation_options *o,
                                          const struct arrivals *a, const char *policy,
                                          double speed)
{
    struct simulate_options e = o->engine;
    e.engine.policy = policy;
    e.engine.n_ctx = a->longest;
    e.seed = o->seed;
    e.machine.step_us /= speed;
    e.machine.token_us /= speed;
    e.machine.pair_us /= speed;
    e.machine.decode_us /= speed;
    e.machine.read_us /= speed;
    return e;
}

static void take_requests(struct simulation_run *out, const struct simulation_options *o,
                          const struct arrivals *a)
{
    out->n = a->n;
    for (uint32_t i = 0; i < a->n; i++) {
        const struct simulate_request *q = &a->requests[i];
        double ttft_ms = (double)(q->first_us - q->at_us) / 1e3;
        double gap_ms = (double)q->worst_gap_us / 1e3;
        out->refused += q->refused;
        if (q->refused)
            continue;
        series_add(&out->ttft, ttft_ms);
        series_add(&out->queue, (double)(q->admitted_us - q->at_us) / 1e3);
        if (q->max_tokens > 1)
            series_add(&out->gap, gap_ms);
        out->good += ttft_ms <= o->ttft_ms && gap_ms <= o->gap_ms;
    }
}

static void take_steps(struct simulation_run *out, const struct simulate_result *r)
{
    for (uint64_t i = 0; i < r->n_steps; i++) {
        series_add(&out->scheduler, r->plan_us[i] / 1e3);
        series_add(&out->overhead, r->overhead_us[i] / 1e3);
        if (r->waiting[i] > out->most_waiting)
            out->most_waiting = r->waiting[i];
    }
    out->stats = r->stats;
    out->duration_s = (double)r->end_us / 1e6;
}

static enum status run_arrivals(const struct simulation_options *o, struct arrivals *a,
                                const char *policy, struct simulation_run *out, struct err *err)
{
    struct simulate_result result;
    out->speed = speed_for(o, a);
    const struct simulate_options engine = engine_for(o, a, policy, out->speed);
    enum status status = simulate_run(&engine, a->requests, a->n, &result, err);
    if (status == STATUS_OK) {
        take_requests(out, o, a);
        take_steps(out, &result);
        if (out->ttft.failed || out->gap.failed || out->scheduler.failed || out->overhead.failed)
            status = err_set(err, STATUS_NO_MEMORY, "no memory for the samples of a simulation");
    }
    simulate_fini(&result);
    return status;
}

enum status simulation_run(const struct simulation_options *o, const char *policy, uint32_t run,
                           struct simulation_run *out, struct err *err)
{
    struct arrivals a = {0};
    uint64_t seed = o->seed * 1000003 + run;
    *out = (struct simulation_run){.policy = policy};
    enum status status =
        make_requests(&a, o, seed) && make_prompts(&a, o, seed)
            ? run_arrivals(o, &a, policy, out, err)
            : err_set(err, STATUS_NO_MEMORY, "no memory for %u simulated requests", a.n);
    arrivals_fini(&a);
    return status;
}

void simulation_run_fini(struct simulation_run *r)
{
    series_fini(&r->ttft);
    series_fini(&r->queue);
    series_fini(&r->gap);
    series_fini(&r->scheduler);
    series_fini(&r->overhead);
}
