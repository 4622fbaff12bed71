/* Opening and closing: everything is sized and allocated here, on the owner's thread. */
#include "engine/internal.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "engine/memory_plan.h"
#include "engine/profile.h"

#include <string.h>

#define LAYER_US 6000 /* of a step that may stand aside between two layers for who comes */

static uint32_t engine_open_smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t or_default(uint32_t value, uint32_t otherwise)
{
    return value != ENGINE_UNSET ? value : otherwise;
}

static int64_t us_of(uint32_t ms, int64_t none)
{
    return ms == ENGINE_NONE ? none : ms * INT64_C(1000);
}

/* Sequences, rows, slots, promises: the limits of a step and of the engine. */
static enum status set_limits(struct engine *e, const struct engine_options *o, uint32_t n_layers,
                              struct err *err)
{
    struct scheduler_limits *l = &e->limits;
    struct engine_options filled = *o;
    e->policy = policy_find(o->policy ? o->policy : POLICY_DEFAULT, err);
    if (!e->policy || profile_fill(&filled, err) != STATUS_OK)
        return STATUS_INVALID;
    e->profile = filled.profile;
    l->decode_gap_us = us_of(filled.decode_gap_ms, 0);
    l->park_slice_us = n_layers * LAYER_US;
    l->efficiency = filled.efficiency;
    e->max_queue_us = us_of(filled.max_queue_ms, INT64_MAX);
    l->max_active = o->max_active;
    e->cache_on = !o->no_prefix_cache && e->mode != ENGINE_SYNC;
    e->n_slots = or_default(o->n_slots, LIMIT_SLOTS);
    e->max_queued_requests = or_default(o->max_queued_requests, e->n_slots);
    e->max_queued_tokens = or_default(o->max_queued_tokens, ENGINE_NONE);
    l->max_tokens = or_default(o->max_batch_tokens, LIMIT_BATCH_TOKENS);
    l->max_seqs = e->mode == ENGINE_SYNC ? 1 : or_default(o->max_batch_seqs, LIMIT_BATCH_SEQS);
    l->max_seqs = engine_open_smaller(l->max_seqs, engine_open_smaller(e->n_slots, l->max_tokens));
    l->max_prefill_seqs = or_default(o->max_step_prompts, l->max_seqs);
    l->max_prefill_tokens = or_default(o->max_step_prompt_tokens, l->max_tokens);
    if (l->max_active == ENGINE_UNSET) /* a promise bounds them by itself */
        l->max_active = l->decode_gap_us > 0 ? e->n_slots : l->max_seqs;
    if (e->mode == ENGINE_SYNC)
        l->max_active = 1;
    return STATUS_OK;
}

/* What is left for the KV pool once the backend has its weights. */
static size_t pool_memory(const struct engine_parts *parts, const struct engine_options *o)
{
    size_t available = mem_available(), taken = 0;
    if (parts->ops->repacked_bytes)
        taken = parts->ops->repacked_bytes(parts->model, o->activations);
    return available > taken ? available - taken : 0;
}

static enum status engine_open_open_backend(struct engine *e, const struct engine_parts *parts,
                                            const struct engine_options *o, struct err *err)
{
    struct memory_plan sizing;
    enum status status = memory_plan_choose(
        &sizing,
        &(struct memory_plan_wish){
            .n_ctx = o->n_ctx,
            .n_ctx_train = parts->model->config.n_ctx_train,
            .n_seqs = e->limits.max_seqs,
            .kv_memory = o->kv_memory,
            .block_bytes = model_kv_block_bytes(&parts->model->config, o->kv_type),
            .available = pool_memory(parts, o),
        },
        err);
    if (status != STATUS_OK)
        return status;
    e->n_ctx = sizing.n_ctx;
    struct backend_options options = {
        .n_threads = o->n_threads > 0 ? (int)o->n_threads : cpu_usable_count(),
        .cpu_levels = o->cpu_levels,
        .activations = o->activations,
        .kv_type = o->kv_type,
        .max_rows = e->limits.max_tokens,
        .max_outputs = e->limits.max_seqs,
        .max_seqs = e->limits.max_seqs,
        .n_ctx = e->n_ctx,
    };
    status = parts->ops->open(&e->backend, parts->model, &options, err);
    if (status == STATUS_OK)
        status = parts->ops->kv_create(e->backend, sizing.n_blocks, err);
    if (status == STATUS_OK)
        status = kv_init(&e->kv, sizing.n_blocks, e->n_slots, e->n_ctx, err);
    if (status == STATUS_OK)
        status = prefix_init(&e->prefix, &e->kv, err);
    return status;
}

static bool open_step(const struct engine *e, struct engine_step *step)
{
    step->plan.items = mem_array(e->limits.max_seqs, sizeof *step->plan.items);
    step->plan.candidates = mem_array(e->n_slots, sizeof *step->plan.candidates);
    step->batch = mem_array(e->limits.max_seqs, sizeof *step->batch);
    return step->plan.items && step->plan.candidates && step->batch;
}

static void engine_open_close_step(struct engine_step *step)
{
    mem_free(step->plan.items);
    mem_free(step->plan.candidates);
    mem_free(step->batch);
}

static enum status open_slots(struct engine *e, struct err *err)
{
    e->slots = mem_aligned(e->n_slots * sizeof *e->slots);
    e->live = mem_array(e->n_slots, sizeof *e->live);
    bool steps = open_step(e, &e->step) && open_step(e, &e->short_step);
    bool rings = ring_init(&e->messages, 4 * (size_t)e->n_slots + 1) &&
                 ring_init(&e->events, 2 * (size_t)e->n_slots);
    if (!e->slots || !e->live || !steps || !rings)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u request slots", e->n_slots);
    for (uint32_t i = 0; i < e->n_slots; i++) {
        e->slots[i].slot = i;
        request_put(&e->lists, &e->slots[i]);
    }
    return sampler_init(&e->sampler, &e->kernels, e->n_vocab, err);
}

static enum status engine_open_start_thread(struct engine *e, struct err *err)
{
    engine_stats_store_levels(e);
    int failed = pthread_create(&e->thread, NULL, engine_thread, e);
    if (failed)
        return err_set(err, STATUS_NO_MEMORY, "engine thread: %s", strerror(failed));
    e->started = true;
    return STATUS_OK;
}

static enum status list_ends(struct engine *e, struct err *err)
{
    uint32_t n = 0;
    for (uint32_t id = 0; e->tokenizer && id < e->n_vocab; id++)
        n += tokenizer_is_end(e->tokenizer, (int32_t)id);
    e->ends = mem_array(n + 1, sizeof *e->ends);
    if (!e->ends)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u end tokens", n);
    for (uint32_t id = 0; e->tokenizer && id < e->n_vocab; id++)
        if (tokenizer_is_end(e->tokenizer, (int32_t)id))
            e->ends[e->n_ends++] = (int32_t)id;
    return STATUS_OK;
}

enum status engine_open_parts(struct engine **out, const struct engine_parts *parts,
                              const struct engine_options *options, struct err *err)
{
    struct engine *e = mem_aligned(sizeof *e);
    if (!e)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the engine");
    e->to_engine.fd = e->to_owner.fd = -1;
    e->tokenizer = parts->tokenizer;
    e->mode = parts->mode;
    e->check = parts->check;
    e->check_arg = parts->check_arg;
    e->n_vocab = parts->model->config.n_vocab;
    kernels_fill(&e->kernels, options->cpu_levels);
    cost_init(&e->cost);
    e->deadline_us = INT64_MAX;
    enum status status = set_limits(e, options, parts->model->config.n_layers, err);
    if (status == STATUS_OK)
        status = wake_init(&e->to_engine, err);
    if (status == STATUS_OK)
        status = wake_init(&e->to_owner, err);
    if (status == STATUS_OK)
        status = engine_open_open_backend(e, parts, options, err);
    if (status == STATUS_OK && e->check) /* weights may have been copied */
        status = e->check(e->check_arg, err);
    if (status == STATUS_OK)
        status = open_slots(e, err);
    if (status == STATUS_OK)
        status = list_ends(e, err);
    if (status == STATUS_OK && !parts->by_hand)
        status = engine_open_start_thread(e, err);
    if (status != STATUS_OK) {
        engine_close(e);
        return status;
    }
    *out = e;
    return STATUS_OK;
}

static enum status check_weights(const void *loader, struct err *err)
{
    return loader_check(loader, err);
}

enum status engine_open(struct engine **out, const struct loader *loader,
                        const struct engine_options *options, struct err *err)
{
    const struct engine_kind *kind = options->kind ? options->kind : engine_kind_find("auto", err);
    if (!kind)
        return STATUS_UNSUPPORTED;
    const struct engine_parts parts = {
        .ops = backend_find(kind->backend),
        .model = loader->model,
        .tokenizer = loader->tokenizer,
        .mode = kind->mode,
        .check = check_weights,
        .check_arg = loader,
    };
    if (!parts.ops)
        return err_set(err, STATUS_UNSUPPORTED, "this build has no backend %s", kind->backend);
    enum status status = engine_open_parts(out, &parts, options, err);
    if (status != STATUS_OK)
        return status;
    struct backend_memory memory;
    parts.ops->memory((*out)->backend, &memory);
    if (memory.repacked > 0)
        loader_release(loader);
    return STATUS_OK;
}

static void stop_thread(struct engine *e)
{
    if (!e->started)
        return;
    REQUIRE(ring_push(&e->messages, message_word(MESSAGE_STOP, 0, 0), NULL));
    wake_signal(&e->to_engine);
    pthread_join(e->thread, NULL);
}

void engine_close(struct engine *e)
{
    if (!e)
        return;
    stop_thread(e);
    for (uint32_t i = 0; e->slots && i < e->n_slots; i++)
        if (e->slots[i].state != REQUEST_FREE)
            request_clear(&e->slots[i]);
    if (e->backend)
        e->backend->ops->close(e->backend);
    sampler_fini(&e->sampler);
    prefix_fini(&e->prefix);
    kv_fini(&e->kv);
    ring_fini(&e->messages);
    ring_fini(&e->events);
    wake_fini(&e->to_engine);
    wake_fini(&e->to_owner);
    mem_free(e->slots);
    mem_free(e->live);
    mem_free(e->ends);
    engine_open_close_step(&e->step);
    engine_open_close_step(&e->short_step);
    mem_free(e);
}

void engine_info(const struct engine *e, struct engine_info *out)
{
    *out = (struct engine_info){
        .n_ctx = e->n_ctx,
        .n_kv_blocks = e->kv.n_blocks,
        .n_slots = e->n_slots,
        .n_threads = e->backend->options.n_threads,
        .prefix_cache = e->cache_on,
        .policy = e->policy->name,
        .profile = e->profile,
        .decode_gap_us = e->limits.decode_gap_us,
        .max_queued_requests = e->max_queued_requests,
        .slots_memory = e->n_slots * sizeof *e->slots +
                        (size_t)e->n_slots * e->kv.table_size * sizeof *e->kv.tables,
        .expect_memory = expected_cache_bytes(&e->prefix.expect),
    };
    e->backend->ops->memory(e->backend, &out->memory);
}
