#include "engine/evaluator.h"

#include "base/mem.h"

struct evaluator {
    struct backend *backend;
    uint32_t *blocks; /* 0, 1, 2, ...: enough for n_ctx positions */
    uint32_t length;
};

static enum status create_cache(struct evaluator *e, uint32_t n_ctx, struct err *err)
{
    uint32_t n_blocks = (n_ctx + KV_BLOCK - 1) / KV_BLOCK;
    e->blocks = mem_array(n_blocks, sizeof *e->blocks);
    if (!e->blocks)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u block numbers", n_blocks);
    for (uint32_t i = 0; i < n_blocks; i++)
        e->blocks[i] = i;
    return e->backend->ops->kv_create(e->backend, n_blocks, err);
}

enum status evaluator_open(struct evaluator **out, const struct backend_ops *ops,
                           const struct model *model, const struct backend_options *options,
                           struct err *err)
{
    struct backend_options o = *options;
    o.max_seqs = 1;
    struct evaluator *e = mem_zalloc(sizeof *e);
    if (!e)
        return err_set(err, STATUS_NO_MEMORY, "no memory for an evaluator");
    enum status st = ops->open(&e->backend, model, &o, err);
    if (!st)
        st = create_cache(e, o.n_ctx, err);
    if (st) {
        evaluator_close(e);
        return st;
    }
    *out = e;
    return STATUS_OK;
}

void evaluator_close(struct evaluator *e)
{
    if (!e)
        return;
    if (e->backend)
        e->backend->ops->close(e->backend);
    mem_free(e->blocks);
    mem_free(e);
}

/* How many of the n tokens at `length` go into the next step, and which logits it gives. */
static uint32_t next_chunk(const struct evaluator *e, uint32_t n, uint32_t first_wanted,
                           enum batch_output *output)
{
    const struct backend_options *o = &e->backend->options;
    if (n > o->max_rows)
        n = o->max_rows;
    if (first_wanted >= e->length + n) {
        *output = OUTPUT_NONE;
    } else if (first_wanted == e->length + n - 1) {
        *output = OUTPUT_LAST;
    } else if (first_wanted > e->length) {
        *output = OUTPUT_NONE;
        n = first_wanted - e->length;
    } else {
        *output = OUTPUT_ALL;
        if (n > o->max_outputs)
            n = o->max_outputs;
    }
    return n;
}

static void run_chunk(struct evaluator *e, const int32_t *tokens, uint32_t n,
                      enum batch_output output, evaluator_take *take, void *arg)
{
    struct batch_seq seq = {
        .tokens = tokens,
        .n_tokens = n,
        .n_past = e->length,
        .blocks = e->blocks,
        .output = output,
    };
    struct step_result result;
    backend_step(e->backend, &(struct batch){&seq, 1}, &result);
    e->length += n;
    size_t n_vocab = e->backend->model->config.n_vocab;
    for (uint32_t i = 0; i < result.n_rows && take; i++)
        take(arg, e->length - result.n_rows + i, result.logits + i * n_vocab);
}

void evaluator_feed(struct evaluator *e, const int32_t *tokens, uint32_t n, uint32_t first_wanted,
                    evaluator_take *take, void *arg)
{
    REQUIRE(n <= e->backend->options.n_ctx - e->length);
    while (n > 0) {
        enum batch_output output;
        uint32_t chunk = next_chunk(e, n, first_wanted, &output);
        run_chunk(e, tokens, chunk, output, take, arg);
        tokens += chunk;
        n -= chunk;
    }
}

void evaluator_cut(struct evaluator *e, uint32_t length)
{
    REQUIRE(length <= e->length);
    e->length = length;
}

uint32_t evaluator_length(const struct evaluator *e)
{
    return e->length;
}

enum status evaluator_check(const struct model *model, const int32_t *tokens, size_t n,
                            struct err *err)
{
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= model->config.n_vocab)
            return err_set(err, STATUS_INVALID, "token %zu: expected an id from 0 to %u, found %d",
                           i, model->config.n_vocab - 1, tokens[i]);
    return STATUS_OK;
}
