/* A step: planned, run layer by layer, and its rows turned into tokens. Engine thread.
 *
 *     make room ─► plan ─► admit ─► begin ─► [layer, messages]* ─► finish each sequence
 *                                              │
 *                                              └─ when it should stand aside: park it, run short
 *                                                 steps, from their plan to their end, resume
 *
 * Nothing here allocates or frees.
 */
#include "engine/internal.h"

#include "base/clock.h"

/* A step of this many rows takes long enough to look around after every layer. */
#define LOOK_ROWS 16

/* --- planning ------------------------------------------------------------------------------- */

static struct scheduler_view view_of(const struct engine *e, int64_t short_us)
{
    return (struct scheduler_view){
        .limits = &e->limits,
        .policy = e->policy,
        .cost = &e->cost,
        .waiting = &e->lists.of[REQUEST_WAITING],
        .prefill = &e->lists.of[REQUEST_PREFILL],
        .decode = &e->lists.of[REQUEST_DECODE],
        .blocks = e->kv.n_free + e->kv.n_idle,
        .now_us = clock_now_us(),
        .short_us = short_us,
    };
}

/* Blocks that the decodes need for their next tokens. */
static uint32_t blocks_for_decodes(const struct engine *e)
{
    uint32_t n = 0;
    for (const struct request *r = e->lists.of[REQUEST_DECODE].first; r; r = r->next)
        n += scheduler_blocks(r, 1);
    return n;
}

/* Who runs is never held up for want of a block while somebody younger has some. */
static void engine_step_make_room(struct engine *e)
{
    while (blocks_for_decodes(e) > e->kv.n_free + e->kv.n_idle && preempt_youngest(e))
        ;
}

static void plan_step(struct engine *e)
{
    struct scheduler_view view = view_of(e, 0);
    engine_step_make_room(e);
    view.blocks = e->kv.n_free + e->kv.n_idle;
    scheduler_plan(&view, &e->step.plan);
    while (e->step.plan.n_items == 0 && preempt_youngest(e)) {
        view.blocks = e->kv.n_free + e->kv.n_idle;
        scheduler_plan(&view, &e->step.plan);
    }
    REQUIRE(e->step.plan.n_items > 0); /* whoever is alone fits */
    ENGINE_COUNT(e, gap_missed, e->step.plan.gap_missed);
}

/* --- admission ------------------------------------------------------------------------------ */

static void engine_step_grow(struct engine *e, struct request *r, uint32_t n_positions)
{
    uint32_t n = kv_blocks_for(n_positions);
    if (n <= r->n_blocks)
        return;
    REQUIRE(prefix_make_room(&e->prefix, n - r->n_blocks));
    REQUIRE(kv_grow(&e->kv, r->slot, n));
    r->n_blocks = n;
}

/* The first positions of a block that agrees only so far. The copied block's pin may be what is
 * missing in a full pool: then it is not copied. */
static void engine_step_copy_part(struct engine *e, struct request *r, struct prefix_hit *hit)
{
    if (hit->copy_from == KV_NONE)
        return;
    if (prefix_make_room(&e->prefix, 1)) {
        engine_step_grow(e, r, hit->n_tokens);
        e->backend->ops->kv_copy(e->backend, kv_table(&e->kv, r->slot)[r->n_blocks - 1],
                                 hit->copy_from, hit->n_copy);
    } else {
        hit->n_tokens -= hit->n_copy;
    }
    prefix_copied(&e->prefix, hit);
}

static void engine_step_attach(struct engine *e, struct request *r)
{
    struct prefix_hit hit;
    prefix_attach(&e->prefix, r->slot, &r->params.salt, r->params.prompt,
                  prefix_sharing_cacheable(r), &hit);
    r->n_blocks = e->kv.lens[r->slot];
    r->n_published = r->n_blocks;
    engine_step_copy_part(e, r, &hit);
    r->n_past = hit.n_tokens;
    r->was_evicted = hit.n_tokens == 0 && prefix_was_evicted(&e->prefix, &r->params.salt,
                                                             r->params.prompt, r->params.n_prompt);
    ENGINE_COUNT(e, prefix_queried, r->params.n_prompt);
    ENGINE_COUNT(e, prefix_hit, hit.n_tokens);
}

static void engine_step_admit(struct engine *e, struct engine_step *step)
{
    for (uint32_t i = 0; i < step->plan.n_items; i++) {
        struct request *r = step->plan.items[i].request;
        if (!step->plan.items[i].admit)
            continue;
        timeline_stamp(&r->params.timeline, TIMELINE_ADMITTED);
        engine_stats_wait_ends(e, r);
        atomic_store_explicit(&r->admitted, true, memory_order_relaxed);
        if (e->cache_on)
            engine_step_attach(e, r);
        if (r->n_tokens == 0) /* not when it comes back */
            r->n_hit = r->n_past;
        request_move(&e->lists, r, REQUEST_PREFILL);
        admission_update(e, r);
    }
    engine_stats_store_levels(e);
}

/* --- running -------------------------------------------------------------------------------- */

/* Which of its rows are wanted. *spare: how many more the step has room for than one of each. */
static enum batch_output output_of(const struct request *r, struct plan_item *item, uint32_t *spare)
{
    if (request_wants_prompt_logprobs(r)) {
        if (item->n_tokens > 1 + *spare)
            item->n_tokens = 1 + *spare;
        *spare -= item->n_tokens - 1;
        return OUTPUT_ALL;
    }
    return r->n_past + item->n_tokens == r->n_goal ? OUTPUT_LAST : OUTPUT_NONE;
}

static void fill_batch_row(struct engine *e, struct plan_item *item, struct batch_seq *seq,
                           uint32_t *spare)
{
    struct request *r = item->request;
    uint32_t n_prompt = r->params.n_prompt;
    bool in_prompt = r->n_past < n_prompt;
    uint32_t left = (in_prompt ? n_prompt : r->n_goal) - r->n_past;
    if (item->n_tokens > left)
        item->n_tokens = left; /* more of it was in the cache than when it was planned */
    enum batch_output output = output_of(r, item, spare);
    engine_step_grow(e, r, r->n_past + item->n_tokens);
    *seq = (struct batch_seq){
        .request = r->slot,
        .tokens = in_prompt ? &r->params.prompt[r->n_past] : &r->tokens[r->n_past - n_prompt],
        .n_tokens = item->n_tokens,
        .n_past = r->n_past,
        .blocks = kv_table(&e->kv, r->slot),
        .output = output,
    };
}

static void engine_step_begin(struct engine *e, struct engine_step *step)
{
    step->n_layers = 0;
    step->spent_us = 0;
    uint32_t spare = e->backend->options.max_outputs - step->plan.n_items;
    for (uint32_t i = 0; i < step->plan.n_items; i++) {
        struct request *r = step->plan.items[i].request;
        fill_batch_row(e, &step->plan.items[i], &step->batch[i], &spare);
        r->in_step = true;
        timeline_stamp(&r->params.timeline, TIMELINE_PREFILL_STARTED);
    }
    ENGINE_COUNT(e, steps, 1);
    engine_stats_count_step(e, &step->plan);
    const struct batch batch = {.seqs = step->batch, .n_seqs = step->plan.n_items};
    e->backend->ops->step_begin(e->backend, &batch);
}

/* The cost of what was run is that of the rows after the last look at the cache. */
static void learn(struct engine *e, struct engine_step *step)
{
    struct cost_step done = {0};
    for (uint32_t i = 0; i < step->plan.n_items; i++) {
        const struct batch_seq *seq = &step->batch[i];
        if (i < step->plan.n_decodes)
            cost_add_decode(&done, seq->n_past);
        else
            cost_add_chunk(&done, seq->n_tokens, seq->n_past);
    }
    engine_stats_measure_step(e, &done, step->spent_us);
    cost_observe(&e->cost, &done, step->spent_us);
}

static void finish_sequences(struct engine *e, struct engine_step *step);

static void run_short_step(struct engine *e)
{
    struct engine_step *step = &e->short_step;
    int64_t start = clock_now_us();
    engine_step_admit(e, step);
    engine_step_begin(e, step);
    while (!e->backend->ops->step_advance(e->backend, 1))
        engine_mailbox_drain(e);
    finish_sequences(e, step);
    step->spent_us = clock_now_us() - start;
    learn(e, step);
}

/* Another short step, when there is a prompt for it: decodes alone can wait until they are due. */
static bool plan_short_step(struct engine *e, int64_t short_us, bool first)
{
    struct plan *plan = &e->short_step.plan;
    struct scheduler_view view = view_of(e, short_us);
    scheduler_plan(&view, plan);
    return plan->n_items > (first ? 0 : plan->n_decodes);
}

/* The step under way stands aside for all the short prompts that are there, not for one of them in
 * each layer, but for no longer than short_us. */
static void run_short_steps(struct engine *e, int64_t short_us)
{
    int64_t until_us = clock_now_us() + short_us;
    if (!plan_short_step(e, short_us, true))
        return;
    ENGINE_COUNT(e, parked, 1);
    e->backend->ops->step_park(e->backend);
    do {
        run_short_step(e);
        engine_mailbox_drain(e);
        short_us = until_us - clock_now_us();
    } while (short_us > 0 && !e->stopping && plan_short_step(e, short_us, false));
    e->backend->ops->step_resume(e->backend);
}

/* Between two layers: messages, and whether to stand aside. */
static void poll_between_layers(struct engine *e, struct engine_step *step)
{
    uint32_t n_layers = e->backend->model->config.n_layers;
    engine_mailbox_drain(e);
    struct scheduler_view view = view_of(e, 0);
    int64_t layer_us = step->spent_us / step->n_layers, short_us;
    int64_t left_us = layer_us * (n_layers - step->n_layers);
    if (scheduler_parks(&view, &step->plan, left_us, layer_us, &short_us))
        run_short_steps(e, short_us);
}

static void forward(struct engine *e, struct engine_step *step)
{
    uint32_t n_layers = e->backend->model->config.n_layers;
    uint32_t stride = step->plan.n_tokens >= LOOK_ROWS ? 1 : n_layers;
    for (;;) {
        int64_t start = clock_now_us();
        bool done = e->backend->ops->step_advance(e->backend, stride);
        step->spent_us += clock_now_us() - start;
        step->n_layers += stride;
        if (done)
            return;
        poll_between_layers(e, step);
    }
}

/* --- results -------------------------------------------------------------------------------- */

static void take_token(struct engine *e, struct request *r, int32_t token)
{
    if (token < 0) {
        engine_mailbox_end_request(e, r, FINISH_ERROR); /* the logits were not finite */
        return;
    }
    timeline_stamp(&r->params.timeline, TIMELINE_FIRST_TOKEN);
    ENGINE_COUNT(e, generated_tokens, 1);
    enum finish_reason reason = request_append(r, token, e->tokenizer);
    r->n_goal = r->params.n_prompt + r->n_tokens;
    if (reason != FINISH_NONE)
        engine_mailbox_end_request(e, r, reason);
    else
        engine_mailbox_publish(e, r);
}

static void sample(struct engine *e, struct request *r, const float *row)
{
    const struct sampler_input input = {
        .logits = row,
        .sampling = &r->params.sampling,
        .counts = &r->counts,
        .position = r->n_tokens,
        .banned = e->ends,
        .n_banned = r->n_tokens < r->params.min_tokens ? e->n_ends : 0,
    };
    struct logprobs *l = &r->logprobs;
    request_move(&e->lists, r, REQUEST_DECODE); /* behind those that had their turn before */
    int32_t token = sampler_sample(&e->sampler, &input);
    if (l->width > 0 && token >= 0)
        logprobs_row(&e->sampler, row, token, l->rows + (size_t)r->n_tokens * l->width, l->width);
    take_token(e, r, token);
}

static uint32_t count_rows(const struct batch_seq *seq)
{
    if (seq->output == OUTPUT_ALL)
        return seq->n_tokens;
    return seq->output == OUTPUT_LAST ? 1 : 0;
}

/* Each row is about the token behind it. */
static void take_prompt_logprobs(struct engine *e, struct request *r, const struct batch_seq *seq,
                                 const float *rows)
{
    struct logprobs *l = &r->logprobs;
    for (uint32_t k = 0; k < seq->n_tokens; k++) {
        uint32_t at = seq->n_past + k + 1;
        if (at < r->params.n_prompt)
            logprobs_row(&e->sampler, rows + (size_t)k * e->n_vocab, r->params.prompt[at],
                         l->prompt + (size_t)at * l->width, l->width);
    }
}

/* The request has had its turn: its KV positions count, and its last row, if wanted, becomes a
 * token. */
static void finish_sequence(struct engine *e, struct request *r, const struct batch_seq *seq,
                            const float *rows)
{
    const float *row = NULL;
    r->in_step = false;
    if (r->ending != FINISH_NONE) { /* its rows were not computed to the end */
        engine_mailbox_end_request(e, r, r->ending);
        return;
    }
    if (seq->output == OUTPUT_ALL)
        take_prompt_logprobs(e, r, seq, rows);
    r->n_past += seq->n_tokens;
    if (r->n_past == r->n_goal)
        row = rows + (size_t)(count_rows(seq) - 1) * e->n_vocab;
    r->served_us = clock_now_us();
    if (r->state == REQUEST_PREFILL)
        engine_stats_count_chunk(e, r, seq->n_tokens);
    prefix_sharing_publish(e, r, row && r->state == REQUEST_PREFILL);
    admission_update(e, r);
    prefix_sharing_progressed(e, r);
    if (row)
        sample(e, r, row);
}

/* False, and then for good, when the step that has just run computed garbage. */
static bool is_sound(struct engine *e)
{
    if (!atomic_load_explicit(&e->failed, memory_order_relaxed) && e->check &&
        e->check(e->check_arg, &e->failure) != STATUS_OK)
        atomic_store_explicit(&e->failed, true, memory_order_release);
    return !atomic_load_explicit(&e->failed, memory_order_relaxed);
}

/* Nothing of the step counts: whoever was in it has what earlier steps made. */
static void finish_none(struct engine *e, struct engine_step *step)
{
    for (uint32_t i = 0; i < step->plan.n_items; i++) {
        struct request *r = step->plan.items[i].request;
        r->in_step = false;
        if (r->ending != FINISH_NONE)
            engine_mailbox_end_request(e, r, r->ending);
    }
    engine_mailbox_fail_all(e);
}

/* From the last row to the first: new requests come last in a plan, and a first token is sampled
 * and sent before any other. */
static void finish_sequences(struct engine *e, struct engine_step *step)
{
    struct step_result result;
    e->backend->ops->step_finish(e->backend, &result);
    uint32_t row = result.n_rows;
    if (!is_sound(e)) {
        finish_none(e, step);
        return;
    }
    for (uint32_t i = step->plan.n_items; i-- > 0;) {
        row -= count_rows(&step->batch[i]);
        finish_sequence(e, step->plan.items[i].request, &step->batch[i],
                        result.logits + (size_t)row * e->n_vocab);
    }
    REQUIRE(row == 0);
    engine_stats_store_levels(e);
}

void engine_step_run(struct engine *e)
{
    struct engine_step *step = &e->step;
    plan_step(e);
    engine_step_admit(e, step);
    engine_step_begin(e, step);
    forward(e, step);
    int64_t start = clock_now_us();
    finish_sequences(e, step);
    step->spent_us += clock_now_us() - start;
    learn(e, step);
#ifdef FIRSTLIGHT_DEBUG
    REQUIRE(kv_check(&e->kv));
    REQUIRE(prefix_check(&e->prefix));
#endif
}
