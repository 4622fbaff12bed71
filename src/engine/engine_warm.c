/* The warm-up: throw-away requests through the real path, so that pages, caches and branch
 * predictors have seen a prefill and some decodes before the first user comes. */
#include "engine/internal.h"

#include "base/clock.h"
#include "base/mem.h"

#include <sched.h>

#define WARM_BUDGET_US 400000
#define WARM_DECODES   4

/* Prompt sizes, smallest first: each tells whether there is time for the next. */
static const uint32_t sizes[] = {8, 64, 256};
#define SIZES (sizeof sizes / sizeof sizes[0])

static enum status engine_warm_run_one(struct engine *e, struct request_params *take,
                                       struct err *err)
{
    struct request *r;
    enum status status = engine_submit(e, take, &r, err);
    if (status != STATUS_OK)
        return status;
    while (!r->finished) {
        engine_wait(e);
        while (engine_next_event(e))
            ;
    }
    bool failed = r->finish == FINISH_ERROR;
    engine_release(e, r);
    status = engine_failure(e, err);
    if (status == STATUS_OK && failed)
        status = err_set(err, STATUS_INTERNAL, "the model computes logits that are not finite");
    return status;
}

static enum status run_size(struct engine *e, uint32_t n_prompt, struct err *err)
{
    struct request_params params = {
        .prompt = mem_array(n_prompt, sizeof *params.prompt),
        .n_prompt = n_prompt,
        .max_tokens = WARM_DECODES,
        .sampling = sampling_default,
        .ignore_eos = true,
    };
    if (!params.prompt)
        return err_set(err, STATUS_NO_MEMORY, "no memory to warm up");
    for (uint32_t i = 0; i < n_prompt; i++)
        params.prompt[i] = /* spread over the embeddings; each size has a prompt of its own */
            (int32_t)((i * 7919 + n_prompt) % e->n_vocab);
    enum status status = engine_warm_run_one(e, &params, err);
    request_params_fini(&params);
    return status;
}

/* As many sizes as there is time for. */
static enum status run_sizes(struct engine *e, struct err *err)
{
    int64_t start = clock_now_us();
    enum status status = STATUS_OK;
    for (size_t i = 0; i < SIZES && status == STATUS_OK; i++) {
        int64_t before = clock_now_us();
        if (sizes[i] + WARM_DECODES > e->n_ctx)
            break;
        status = run_size(e, sizes[i], err);
        int64_t now = clock_now_us(); /* at worst it is linear in the size */
        int64_t guess = i + 1 < SIZES ? (now - before) * sizes[i + 1] / sizes[i] : 0;
        if (now + guess > start + WARM_BUDGET_US)
            break;
    }
    return status;
}

enum status engine_warm(struct engine *e, struct request_params *prompts, uint32_t n,
                        struct err *err)
{
    enum status status = run_sizes(e, err);
    for (uint32_t i = 0; i < n && status == STATUS_OK; i++)
        status = engine_warm_run_one(e, &prompts[i], err);
    engine_stats(e, &e->warm_up);
    struct engine_step_stats steps;
    do { /* the last step is measured just after its request has ended */
        sched_yield();
        engine_step_stats(e, &steps);
    } while (steps.time.count < e->warm_up.steps);
    e->warm_steps = steps;
    /* Whoever opened and warmed the engine may hand it to its owner now. */
    ring_hand_over_producer(&e->messages);
    ring_hand_over_consumer(&e->events);
    return status;
}
