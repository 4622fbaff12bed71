/* An engine run by hand in virtual time, for scenarios: a machine that takes 1 ms for a step, 0.5
 * ms for a prompt token and 0.25 ms for a decode, in four layers, and whose cost model knows that.
 */
#ifndef FIRSTLIGHT_TESTS_UNIT_ENGINE_BY_HAND_H
#define FIRSTLIGHT_TESTS_UNIT_ENGINE_BY_HAND_H

#include "unit/engine/fake_backend.h"

#define BY_HAND_MAX 64

struct by_hand {
    struct fake_world world;
    struct fake_clock clock;
    struct engine *engine;
    struct request *all[BY_HAND_MAX];
    uint32_t n;
    /* Called after each layer, of any step. */
    void (*meanwhile)(struct by_hand *h);
    uint32_t n_layers; /* so far */
};

static inline void by_hand_after_layers(void *arg)
{
    struct by_hand *h = arg;
    h->n_layers++;
    if (h->meanwhile)
        h->meanwhile(h);
}

/* With so many KV blocks; the rest may be changed in *o before. */
static inline void by_hand_open(struct by_hand *h, uint32_t n_blocks, struct engine_options *o)
{
    *h = (struct by_hand){0};
    fake_world_open(&h->world);
    h->clock = (struct fake_clock){.now_us = 1000000,
                                   .step_us = 1000,
                                   .token_us = 500,
                                   .decode_us = 250,
                                   .after_layers = by_hand_after_layers,
                                   .arg = h};
    o->n_threads = 1;
    o->kv_type = KV_F32;
    o->kv_memory = n_blocks * model_kv_block_bytes(&h->world.model.config, KV_F32);
    o->n_slots = BY_HAND_MAX;
    o->max_batch_seqs = o->max_batch_seqs > 0 ? o->max_batch_seqs : FAKE_SEQS;
    h->engine = fake_open_by_hand(&h->world, o, &h->clock);
    h->engine->limits.park_slice_us = 0; /* long steps are what the scenarios are about */
    h->engine->cost.w[0] = 1;
    h->engine->cost.w[1] = 128; /* of 256 prompt tokens */
    h->engine->cost.w[3] = 4;   /* of 16 decodes */
    for (int i = 0; i < COST_WEIGHTS; i++)
        h->engine->cost.p[i][i] = 1e-6;
}

static inline struct request *by_hand_submit(struct by_hand *h, struct request_params p)
{
    return h->all[h->n++] = fake_submit(h->engine, &p);
}

static inline void by_hand_events(struct by_hand *h)
{
    struct request *r;
    while ((r = engine_next_event(h->engine))) {
        struct request_news news;
        request_read(r, &news);
    }
}

static inline void by_hand_turn(struct by_hand *h)
{
    engine_thread_turn(h->engine);
    by_hand_events(h);
    assert_true(kv_check(&h->engine->kv));
    assert_true(prefix_check(&h->engine->prefix));
}

static inline void by_hand_finish(struct by_hand *h)
{
    while (engine_thread_turn(h->engine)) {
        by_hand_events(h);
        assert_true(kv_check(&h->engine->kv));
        assert_true(prefix_check(&h->engine->prefix));
    }
    by_hand_events(h);
}

/* Every request has ended, with the tokens that it would have had alone; every block is free. */
static inline void by_hand_close(struct by_hand *h)
{
    struct engine_stats stats;
    by_hand_finish(h);
    for (uint32_t i = 0; i < h->n; i++) {
        assert_true(h->all[i]->finished);
        fake_expect_tokens(h->all[i]);
        if (h->all[i]->finish != FINISH_CANCELLED)
            assert_int_equal(h->all[i]->n_tokens, h->all[i]->max_tokens);
        engine_release(h->engine, h->all[i]);
    }
    engine_stats(h->engine, &stats);
    assert_int_equal(stats.kv_blocks_free, stats.kv_blocks_total);
    fake_close_by_hand(h->engine);
    fake_world_close(&h->world);
}

static inline struct engine_stats by_hand_stats(const struct by_hand *h)
{
    struct engine_stats stats;
    engine_stats(h->engine, &stats);
    return stats;
}

/* Of all prompts: what was computed, not found. */
static inline uint64_t by_hand_computed(const struct by_hand *h)
{
    return by_hand_stats(h).prompt_tokens;
}

/* `same` tokens of a text, then tokens of its own. */
static inline struct request_params by_hand_prompt(uint32_t same, uint32_t n, int32_t own,
                                                   uint32_t max_tokens)
{
    struct request_params p = fake_params(6, n, max_tokens);
    for (uint32_t i = same; i < n; i++)
        p.prompt[i] = (p.prompt[i] + 1 + own) % FAKE_END;
    return p;
}

static inline int64_t by_hand_stage(const struct request *r, enum timeline_stage stage)
{
    return r->params.timeline.at_us[stage];
}

#endif
