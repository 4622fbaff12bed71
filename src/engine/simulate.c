#include "engine/simulate.h"

#include "base/clock.h"
#include "base/mem.h"
#include "engine/internal.h"

#include <string.h>

#define LAYERS   24
#define START_US 1000000 /* no stamp is 0 */

/* About what SmolLM2-135M in Q4_1 takes on two threads of an EPYC (`bench model`, 2026-11). */
const struct simulate_machine simulate_machine_default = {
    .step_us = 4000,
    .token_us = 700,
    .pair_us = 0.5,
    .decode_us = 4000,
    .read_us = 4,
    .noise = 0.1,
};

struct sim {
    const struct simulate_options *o;
    struct engine *engine;
    struct simulate_request *requests;
    uint32_t n, n_come, n_gone;
    int64_t now_us;
    uint64_t random;
    struct simulate_result *out;
    uint64_t step_cap;
    /* Of the turn under way, real nanoseconds: */
    int64_t turn_ns, planned_ns, backend_ns;
    uint32_t waiting;
};

/* --- the backend ---------------------------------------------------------------------------- */

struct step {
    struct batch batch;
    uint32_t n_layers; /* done */
    int64_t us;
};

struct simulated {
    struct backend base;
    struct sim *sim;
    struct step step, parked;
    float *logits; /* (max_seqs, SIMULATE_VOCAB), all the same */
};

static struct simulated *simulated_of(struct backend *b)
{
    return (struct simulated *)b;
}

static bool simulate_available(char *why, size_t why_size)
{
    (void)why;
    (void)why_size;
    return true;
}

static void close_backend(struct backend *b)
{
    mem_free(simulated_of(b)->logits);
    mem_free(b);
}

static enum status simulate_kv_create(struct backend *b, uint32_t n_blocks, struct err *err)
{
    (void)b;
    (void)n_blocks;
    (void)err;
    return STATUS_OK;
}

static void simulate_kv_copy(struct backend *b, uint32_t to, uint32_t from, uint32_t n_positions)
{
    (void)b;
    (void)to;
    (void)from;
    (void)n_positions;
}

/* [-1, 1], by splitmix64 (Steele, Lea, Flood 2014). */
static double even_noise(struct sim *s)
{
    uint64_t z = s->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-52 - 1;
}

static double seq_us(const struct simulate_machine *m, const struct batch_seq *seq)
{
    double n = seq->n_tokens, before = seq->n_past;
    if (seq->n_tokens == 1 && seq->output == OUTPUT_LAST && seq->n_past > 0)
        return m->decode_us + before * m->read_us;
    return n * m->token_us + n * (before + (n - 1) / 2) * m->pair_us;
}

static void step_begin(struct backend *b, const struct batch *batch)
{
    struct simulated *d = simulated_of(b);
    const struct simulate_machine *m = &d->sim->o->machine;
    double us = m->step_us;
    if (d->sim->planned_ns == 0)
        d->sim->planned_ns = clock_real_ns() - d->sim->turn_ns;
    for (uint32_t i = 0; i < batch->n_seqs; i++)
        us += seq_us(m, &batch->seqs[i]);
    d->step = (struct step){.batch = *batch};
    d->step.us = (int64_t)(us * (1 + m->noise * even_noise(d->sim))) + 1;
}

static void be_owner(struct sim *s);

static bool step_advance(struct backend *b, uint32_t n_layers)
{
    struct simulated *d = simulated_of(b);
    uint32_t done = d->step.n_layers + n_layers < LAYERS ? d->step.n_layers + n_layers : LAYERS;
    d->sim->now_us += d->step.us * done / LAYERS - d->step.us * d->step.n_layers / LAYERS;
    d->step.n_layers = done;
    be_owner(d->sim);
    return done == LAYERS;
}

static void step_drop(struct backend *b, uint32_t request)
{
    (void)b;
    (void)request; /* the others take most of the time */
}

static void step_park(struct backend *b)
{
    simulated_of(b)->parked = simulated_of(b)->step;
}

static void step_resume(struct backend *b)
{
    simulated_of(b)->step = simulated_of(b)->parked;
    be_owner(simulated_of(b)->sim); /* tokens of the short step */
}

static void step_finish(struct backend *b, struct step_result *out)
{
    struct simulated *d = simulated_of(b);
    *out = (struct step_result){.logits = d->logits};
    for (uint32_t i = 0; i < d->step.batch.n_seqs; i++)
        out->n_rows += d->step.batch.seqs[i].output == OUTPUT_LAST;
}

static void simulate_memory(const struct backend *b, struct backend_memory *out)
{
    (void)b;
    *out = (struct backend_memory){0};
}

static enum status simulate_open_backend(struct backend **out, const struct model *model,
                                         const struct backend_options *options, struct err *err);

static const struct backend_ops simulated_ops = {
    .name = "simulated",
    .available = simulate_available,
    .open = simulate_open_backend,
    .close = close_backend,
    .kv_create = simulate_kv_create,
    .kv_copy = simulate_kv_copy,
    .step_begin = step_begin,
    .step_advance = step_advance,
    .step_drop = step_drop,
    .step_park = step_park,
    .step_resume = step_resume,
    .step_finish = step_finish,
    .memory = simulate_memory,
};

static enum status simulate_open_backend(struct backend **out, const struct model *model,
                                         const struct backend_options *options, struct err *err)
{
    struct simulated *d = mem_zalloc(sizeof *d);
    if (!d)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a simulated machine");
    d->base = (struct backend){.ops = &simulated_ops, .model = model, .options = *options};
    d->logits = mem_array((size_t)options->max_outputs * SIMULATE_VOCAB, sizeof *d->logits);
    *out = &d->base;
    return d->logits ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "no memory for logits");
}

/* --- the owner ------------------------------------------------------------------------------ */

/* The slots that are taken are as many as may wait or run: who comes then is refused. */
static void come(struct sim *s, struct simulate_request *q)
{
    struct request *r;
    struct err err = {0};
    struct request_params p = {
        .prompt = mem_array(q->n_tokens, sizeof *p.prompt),
        .n_prompt = q->n_tokens,
        .max_tokens = q->max_tokens,
        .priority = q->priority,
        .sampling = sampling_default,
        .timeline.at_us[TIMELINE_QUEUED] = START_US + q->at_us,
        .user = q,
    };
    p.sampling.temperature = 0;
    s->n_come++;
    q->refused = true;
    if (p.prompt) {
        memcpy(p.prompt, q->tokens, q->n_tokens * sizeof *q->tokens);
        q->refused = engine_submit(s->engine, &p, &r, &err) != STATUS_OK;
    }
    s->n_gone += q->refused;
    request_params_fini(&p);
}

static void simulate_take_news(struct sim *s, struct request *r)
{
    struct simulate_request *q = request_user(r);
    struct request_news news;
    request_read(r, &news);
    if (news.n_tokens > 0) {
        if (q->first_us == 0)
            q->first_us = s->now_us - START_US;
        else if (s->now_us - START_US - q->last_us > q->worst_gap_us)
            q->worst_gap_us = s->now_us - START_US - q->last_us;
        q->last_us = s->now_us - START_US;
    }
    if (news.finish == FINISH_NONE)
        return;
    q->end_us = s->now_us - START_US;
    q->admitted_us = request_timeline(r)->at_us[TIMELINE_ADMITTED] - START_US;
    q->n_cached = request_cached_tokens(r);
    s->n_gone++;
    engine_release(s->engine, r);
}

static void be_owner(struct sim *s)
{
    int64_t start = clock_real_ns();
    struct request *r;
    while ((r = engine_next_event(s->engine)))
        simulate_take_news(s, r);
    while (s->n_come < s->n && START_US + s->requests[s->n_come].at_us <= s->now_us)
        come(s, &s->requests[s->n_come]);
    s->backend_ns += clock_real_ns() - start;
}

/* --- the run -------------------------------------------------------------------------------- */

static enum status simulate_open_engine(struct sim *s, const struct model *model, struct err *err)
{
    const struct engine_parts parts = {
        .ops = &simulated_ops, .model = model, .mode = ENGINE_CONTINUOUS, .by_hand = true};
    struct engine_options options = s->o->engine;
    options.n_threads = 1;
    options.kv_type = KV_F16;
    options.kv_memory = s->o->kv_blocks * model_kv_block_bytes(&model->config, KV_F16);
    enum status status = engine_open_parts(&s->engine, &parts, &options, err);
    if (status == STATUS_OK)
        ((struct simulated *)s->engine->backend)->sim = s;
    return status;
}

static void *grown(void *array, uint64_t n, uint64_t cap, size_t size)
{
    void *more = mem_array(cap, size);
    if (more && n > 0)
        memcpy(more, array, n * size);
    mem_free(array);
    return more;
}

/* False: no memory. */
static bool note_step(struct sim *s)
{
    struct simulate_result *out = s->out;
    if (out->n_steps == s->step_cap) {
        uint64_t cap = s->step_cap > 0 ? 2 * s->step_cap : 4096;
        out->plan_us = grown(out->plan_us, out->n_steps, cap, sizeof *out->plan_us);
        out->overhead_us = grown(out->overhead_us, out->n_steps, cap, sizeof *out->overhead_us);
        out->waiting = grown(out->waiting, out->n_steps, cap, sizeof *out->waiting);
        if (!out->plan_us || !out->overhead_us || !out->waiting)
            return false;
        s->step_cap = cap;
    }
    int64_t turn_ns = clock_real_ns() - s->turn_ns;
    out->plan_us[out->n_steps] = (double)s->planned_ns / 1e3;
    out->overhead_us[out->n_steps] = (double)(turn_ns - s->backend_ns) / 1e3;
    out->waiting[out->n_steps++] = s->waiting;
    return true;
}

static enum status simulate_run_all(struct sim *s, struct err *err)
{
    while (s->n_gone < s->n) {
        s->planned_ns = s->backend_ns = 0;
        be_owner(s);
        s->waiting = s->engine->lists.of[REQUEST_WAITING].n;
        s->backend_ns = 0;
        s->turn_ns = clock_real_ns();
        if (engine_thread_turn(s->engine)) {
            if (!note_step(s))
                return err_set(err, STATUS_NO_MEMORY, "no memory for a simulation's steps");
        } else if (s->n_come < s->n && s->n_come == s->n_gone) {
            s->now_us = START_US + s->requests[s->n_come].at_us; /* asleep until then */
        }
    }
    return STATUS_OK;
}

static void close_engine(struct sim *s)
{
    engine_stats(s->engine, &s->out->stats);
    engine_close(s->engine);
}

enum status simulate_run(const struct simulate_options *o, struct simulate_request *requests,
                         uint32_t n, struct simulate_result *out, struct err *err)
{
    const struct model model = {.config = {.n_layers = LAYERS,
                                           .n_vocab = SIMULATE_VOCAB,
                                           .n_heads = 1,
                                           .n_kv_heads = 1,
                                           .head_dim = 1,
                                           .n_ctx_train = LIMIT_CONTEXT}};
    struct sim s = {.o = o, .requests = requests, .n = n, .now_us = START_US, .out = out};
    *out = (struct simulate_result){0};
    s.random = o->seed;
    clock_simulate(&s.now_us);
    enum status status = simulate_open_engine(&s, &model, err);
    if (status == STATUS_OK) {
        status = simulate_run_all(&s, err);
        close_engine(&s);
    }
    clock_simulate(NULL);
    out->end_us = s.now_us - START_US;
    return status;
}

void simulate_fini(struct simulate_result *r)
{
    mem_free(r->plan_us);
    mem_free(r->overhead_us);
    mem_free(r->waiting);
    *r = (struct simulate_result){0};
}

int64_t simulate_machine_us(const struct simulate_machine *m, uint32_t n_cached, uint32_t n_prompt,
                            uint32_t n_new)
{
    double n = n_prompt - n_cached, k = n_new > 0 ? n_new - 1 : 0;
    return (int64_t)(n * m->token_us + n * (n_cached + (n - 1) / 2) * m->pair_us +
                     k * (m->decode_us + (n_prompt + (k - 1) / 2) * m->read_us));
}
