/* A scripted backend and a tiny tokenizer, to run the whole engine without arithmetic.
 *
 * Its KV cache stores the tokens themselves. The next token is a function of all tokens before it,
 * read back through the block tables, so a wrong block, position or order shows as a wrong token.
 * The first token of a prompt may ask for more: see FAKE_*. The test can hold the engine between
 * two layers and see how far it is.
 */
#ifndef FIRSTLIGHT_TESTS_UNIT_ENGINE_FAKE_BACKEND_H
#define FIRSTLIGHT_TESTS_UNIT_ENGINE_FAKE_BACKEND_H

#include "base/clock.h"
#include "base/mem.h"
#include "engine/internal.h"
#include "support/cmocka_all.h"
#include "support/gguf_writer.h"
#include "support/random.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define FAKE_VOCAB  32
#define FAKE_LAYERS 4
#define FAKE_CTX    256
#define FAKE_SEQS   16

/* The vocabulary: 'a' .. 'z', a space, the two bytes of e-acute, "ab", and two control tokens. */
#define FAKE_END   30 /* <|im_end|>; the hash never gives it */
#define FAKE_START 31
/* Prompts that begin with these: 'z': logits are NaN; 'e': the fourth token is FAKE_END. */
#define FAKE_NAN  25
#define FAKE_ENDS 4

struct fake_step {
    struct batch batch; /* seqs stay borrowed, the struct itself need not */
    uint32_t layer;
    int64_t layer_us; /* with a clock */
    bool dropped[FAKE_SEQS];
};

/* A virtual clock that layers move on, for engines run by hand, and what steps cost on it. */
struct fake_clock {
    int64_t now_us;
    double step_us, token_us, pair_us, decode_us, read_us; /* as in engine/cost.h */
    double noise;                                          /* +- this part of a step's time */
    struct random random;
    void (*after_layers)(void *arg); /* the owner's thread, as it were; may be NULL */
    void *arg;
};

struct fake {
    struct backend base;
    int32_t *kv; /* (n_blocks, KV_BLOCK) */
    struct fake_step step, parked;
    bool has_parked;
    float logits[FAKE_SEQS * FAKE_VOCAB];
    /* What the test sees and sets. */
    struct fake_clock *clock;                     /* NULL: steps take no time */
    atomic_bool hold;                             /* stop before the next layer */
    atomic_uint slow;                             /* times a step advance yields the processor */
    atomic_uint held_at;                          /* layers done when held, else 0 */
    atomic_uint drops;                            /* calls of step_drop */
    atomic_uint max_seqs;                         /* most sequences in one step */
    atomic_uint mixed;                            /* steps with prefill and decode */
    atomic_uint most_prompts, most_prompt_tokens; /* in one step */
};

static struct fake *fake_last; /* the one opened last: engines are opened one at a time */

static bool fake_available(char *why, size_t why_size)
{
    (void)why;
    (void)why_size;
    return true;
}

static enum status fake_open(struct backend **out, const struct model *model,
                             const struct backend_options *options, struct err *err);

static void fake_close(struct backend *b)
{
    struct fake *f = (struct fake *)b;
    mem_free(f->kv);
    mem_free(f);
}

static enum status fake_kv_create(struct backend *b, uint32_t n_blocks, struct err *err)
{
    struct fake *f = (struct fake *)b;
    (void)err;
    f->kv = mem_array((size_t)n_blocks * KV_BLOCK, sizeof *f->kv);
    return f->kv ? STATUS_OK : STATUS_NO_MEMORY;
}

static void fake_kv_copy(struct backend *b, uint32_t to, uint32_t from, uint32_t n_positions)
{
    struct fake *f = (struct fake *)b;
    memcpy(f->kv + (size_t)to * KV_BLOCK, f->kv + (size_t)from * KV_BLOCK,
           n_positions * sizeof *f->kv);
}

/* What a step writes is unreadable until it has finished. */
static void fake_spoil(struct fake *f, const struct batch_seq *seq)
{
    for (uint32_t at = seq->n_past; at < seq->n_past + seq->n_tokens; at++)
        f->kv[(size_t)seq->blocks[at / KV_BLOCK] * KV_BLOCK + at % KV_BLOCK] = -1;
}

static int64_t fake_layer_us(struct fake_clock *c, const struct batch *batch)
{
    double us = c->step_us;
    for (uint32_t i = 0; i < batch->n_seqs; i++) {
        double n = batch->seqs[i].n_tokens, past = batch->seqs[i].n_past;
        us += n == 1 && past > 0 ? c->decode_us + past * c->read_us
                                 : n * c->token_us + n * (past + n / 2) * c->pair_us;
    }
    us *= 1 + c->noise * (2 * random_unit(&c->random) - 1);
    return (int64_t)(us / FAKE_LAYERS) + 1;
}

static void fake_step_begin(struct backend *b, const struct batch *batch)
{
    struct fake *f = (struct fake *)b;
    REQUIRE(batch->n_seqs >= 1 && batch->n_seqs <= b->options.max_seqs);
    f->step = (struct fake_step){.batch = *batch};
    if (f->clock)
        f->step.layer_us = fake_layer_us(f->clock, batch);
    uint32_t rows = 0, prefill = 0, decode = 0, prompt_tokens = 0;
    for (uint32_t i = 0; i < batch->n_seqs; i++) {
        REQUIRE(batch->seqs[i].n_tokens >= 1);
        REQUIRE(batch->seqs[i].n_past + batch->seqs[i].n_tokens <= b->options.n_ctx);
        rows += batch->seqs[i].n_tokens;
        fake_spoil(f, &batch->seqs[i]);
        bool is_decode = batch->seqs[i].n_past > 0 && batch->seqs[i].n_tokens == 1;
        *(is_decode ? &decode : &prefill) += 1;
        prompt_tokens += is_decode ? 0 : batch->seqs[i].n_tokens;
    }
    REQUIRE(rows <= b->options.max_rows);
    atomic_fetch_add(&f->mixed, prefill > 0 && decode > 0);
    if (prefill > atomic_load(&f->most_prompts))
        atomic_store(&f->most_prompts, prefill);
    if (prompt_tokens > atomic_load(&f->most_prompt_tokens))
        atomic_store(&f->most_prompt_tokens, prompt_tokens);
    if (batch->n_seqs > atomic_load(&f->max_seqs))
        atomic_store(&f->max_seqs, batch->n_seqs);
}

static bool fake_step_advance(struct backend *b, uint32_t n_layers)
{
    struct fake *f = (struct fake *)b;
    while (f->step.layer > 0 && atomic_load(&f->hold)) {
        atomic_store(&f->held_at, f->step.layer);
        sched_yield();
    }
    atomic_store(&f->held_at, 0);
    for (uint32_t i = atomic_load(&f->slow); i > 0; i--)
        sched_yield();
    f->step.layer += n_layers;
    if (f->clock) {
        f->clock->now_us += n_layers * f->step.layer_us;
        if (f->clock->after_layers)
            f->clock->after_layers(f->clock->arg);
    }
    return f->step.layer >= FAKE_LAYERS;
}

static bool fake_drop_from(struct fake_step *s, uint32_t request)
{
    for (uint32_t i = 0; i < s->batch.n_seqs; i++)
        if (s->batch.seqs[i].request == request) {
            REQUIRE(!s->dropped[i]); /* once */
            return s->dropped[i] = true;
        }
    return false;
}

static void fake_step_drop(struct backend *b, uint32_t request)
{
    struct fake *f = (struct fake *)b;
    bool found = fake_drop_from(&f->step, request);
    if (f->has_parked)
        found |= fake_drop_from(&f->parked, request);
    REQUIRE(found);
    atomic_fetch_add(&f->drops, 1);
}

static void fake_exchange(struct fake *f)
{
    struct fake_step aside = f->step;
    f->step = f->parked;
    f->parked = aside;
    f->has_parked = !f->has_parked;
}

static void fake_step_park(struct backend *b)
{
    struct fake *f = (struct fake *)b;
    REQUIRE(!f->has_parked && f->step.layer < FAKE_LAYERS);
    fake_exchange(f);
    f->step = (struct fake_step){0};
}

static void fake_step_resume(struct backend *b)
{
    struct fake *f = (struct fake *)b;
    REQUIRE(f->has_parked);
    fake_exchange(f);
}

/* The rule: what comes after these tokens. */
static int32_t fake_next(const int32_t *tokens, uint32_t n, uint32_t n_generated)
{
    uint32_t hash = 2166136261u;
    for (uint32_t i = 0; i < n; i++)
        hash = (hash ^ (uint32_t)tokens[i]) * 16777619u;
    if (tokens[0] == FAKE_ENDS && n_generated == 3)
        return FAKE_END;
    return (int32_t)((hash >> 8) % FAKE_END);
}

/* What follows the first n tokens. */
static void fake_row(struct fake *f, const struct batch_seq *seq, uint32_t n, float *row)
{
    int32_t tokens[FAKE_CTX] = {0};
    for (uint32_t i = 0; i < n; i++)
        tokens[i] = f->kv[(size_t)seq->blocks[i / KV_BLOCK] * KV_BLOCK + i % KV_BLOCK];
    /* For FAKE_ENDS the prompt is the first token alone. */
    int32_t next = fake_next(tokens, n, n - 1);
    for (uint32_t i = 0; i < FAKE_VOCAB; i++)
        row[i] = tokens[0] == FAKE_NAN ? NAN : ((int32_t)i == next ? 10.0f : 0.0f);
}

static void fake_step_finish(struct backend *b, struct step_result *out)
{
    struct fake *f = (struct fake *)b;
    *out = (struct step_result){.logits = f->logits};
    for (uint32_t i = 0; i < f->step.batch.n_seqs; i++) {
        const struct batch_seq *seq = &f->step.batch.seqs[i];
        for (uint32_t k = 0; k < seq->n_tokens && !f->step.dropped[i]; k++) {
            uint32_t at = seq->n_past + k;
            f->kv[(size_t)seq->blocks[at / KV_BLOCK] * KV_BLOCK + at % KV_BLOCK] = seq->tokens[k];
        }
        uint32_t first = seq->output == OUTPUT_ALL    ? 1
                         : seq->output == OUTPUT_LAST ? seq->n_tokens
                                                      : seq->n_tokens + 1;
        for (uint32_t n = first; n <= seq->n_tokens; n++) {
            REQUIRE(out->n_rows < b->options.max_outputs && out->n_rows < FAKE_SEQS);
            fake_row(f, seq, seq->n_past + n, f->logits + (size_t)out->n_rows++ * FAKE_VOCAB);
        }
    }
}

static void fake_memory(const struct backend *b, struct backend_memory *out)
{
    (void)b;
    *out = (struct backend_memory){0};
}

static const struct backend_ops fake_ops = {
    .name = "fake",
    .available = fake_available,
    .open = fake_open,
    .close = fake_close,
    .kv_create = fake_kv_create,
    .kv_copy = fake_kv_copy,
    .step_begin = fake_step_begin,
    .step_advance = fake_step_advance,
    .step_drop = fake_step_drop,
    .step_park = fake_step_park,
    .step_resume = fake_step_resume,
    .step_finish = fake_step_finish,
    .memory = fake_memory,
};

static enum status fake_open(struct backend **out, const struct model *model,
                             const struct backend_options *options, struct err *err)
{
    struct fake *f = mem_zalloc(sizeof *f);
    (void)err;
    if (!f)
        return STATUS_NO_MEMORY;
    REQUIRE(options->max_seqs <= FAKE_SEQS && options->n_ctx <= FAKE_CTX);
    f->base = (struct backend){.ops = &fake_ops, .model = model, .options = *options};
    fake_last = f;
    *out = &f->base;
    return STATUS_OK;
}

/* --- the model and its tokenizer -------------------------------------------------------------- */

struct fake_world {
    struct gguf_writer writer;
    struct gguf *gguf;
    struct tokenizer *tokenizer;
    struct model model;
};

static void fake_world_open(struct fake_world *w)
{
    int32_t types[FAKE_VOCAB];
    size_t len;
    gguf_writer_init(&w->writer, 3);
    gguf_writer_string(&w->writer, "tokenizer.ggml.model", "gpt2");
    gguf_writer_string(&w->writer, "tokenizer.ggml.pre", "gpt-2");
    gguf_writer_array(&w->writer, "tokenizer.ggml.tokens", GGUF_STRING, FAKE_VOCAB, NULL, 0);
    for (int i = 0; i < 26; i++)
        gguf_writer_put_string(&w->writer.pairs, (char[]){(char)('a' + i), '\0'});
    static const char *const others[] = {"\u0120", "\u00c3",     "\u00a9",
                                         "ab",     "<|im_end|>", "<|im_start|>"};
    for (int i = 0; i < 6; i++)
        gguf_writer_put_string(&w->writer.pairs, others[i]);
    gguf_writer_array(&w->writer, "tokenizer.ggml.merges", GGUF_STRING, 1, NULL, 0);
    gguf_writer_put_string(&w->writer.pairs, "a b");
    for (int i = 0; i < FAKE_VOCAB; i++)
        types[i] = i >= FAKE_END ? 3 : 1;
    gguf_writer_array(&w->writer, "tokenizer.ggml.token_type", GGUF_I32, FAKE_VOCAB, types,
                      sizeof types);
    const void *bytes = gguf_writer_finish(&w->writer, &len);
    struct err err = {0};
    assert_int_equal(gguf_parse(&w->gguf, bytes, len, &err), STATUS_OK);
    if (tokenizer_open(&w->tokenizer, w->gguf, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    w->model = (struct model){.config = {.n_layers = FAKE_LAYERS,
                                         .n_vocab = FAKE_VOCAB,
                                         .n_heads = 1,
                                         .n_kv_heads = 1,
                                         .head_dim = 2,
                                         .n_ctx_train = FAKE_CTX}};
}

static void fake_world_close(struct fake_world *w)
{
    tokenizer_close(w->tokenizer);
    gguf_close(w->gguf);
    gguf_writer_fini(&w->writer);
}

static struct engine *fake_open_engine(struct fake_world *w, enum engine_mode mode,
                                       const struct engine_options *options)
{
    const struct engine_parts parts = {
        .ops = &fake_ops, .model = &w->model, .tokenizer = w->tokenizer, .mode = mode};
    struct engine *e;
    struct err err = {0};
    if (engine_open_parts(&e, &parts, options, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return e;
}

/* An engine on the fake backend with so many KV blocks, slots, sequences and rows. */
static inline struct engine *fake_engine(struct fake_world *w, enum engine_mode mode,
                                         uint32_t n_blocks, uint32_t n_slots, uint32_t max_seqs,
                                         uint32_t max_tokens)
{
    const struct engine_options options = {
        .n_threads = 1,
        .kv_type = KV_F32,
        .kv_memory = n_blocks * model_kv_block_bytes(&w->model.config, KV_F32),
        .n_slots = n_slots,
        .max_batch_seqs = max_seqs,
        .max_batch_tokens = max_tokens,
    };
    return fake_open_engine(w, mode, &options);
}

/* The same without a thread: the test calls engine_thread_turn, in the time of *clock. The engine
 * is to be closed with fake_close_by_hand. */
static inline struct engine *fake_open_by_hand(struct fake_world *w,
                                               const struct engine_options *options,
                                               struct fake_clock *clock)
{
    const struct engine_parts parts = {.ops = &fake_ops,
                                       .model = &w->model,
                                       .tokenizer = w->tokenizer,
                                       .mode = ENGINE_CONTINUOUS,
                                       .by_hand = true};
    struct engine *e;
    struct err err = {0};
    clock_simulate(&clock->now_us);
    if (engine_open_parts(&e, &parts, options, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    fake_last->clock = clock;
    return e;
}

static inline void fake_close_by_hand(struct engine *e)
{
    engine_close(e);
    clock_simulate(NULL);
}

/* --- requests --------------------------------------------------------------------------------- */

/* Greedy; the prompt is `first` and then n - 1 tokens made from it. */
static inline struct request_params fake_params(int32_t first, uint32_t n, uint32_t max_tokens)
{
    struct request_params p = {
        .prompt = mem_array(n, sizeof *p.prompt),
        .n_prompt = n,
        .max_tokens = max_tokens,
        .sampling = sampling_default,
    };
    p.sampling.temperature = 0;
    for (uint32_t i = 0; i < n; i++)
        p.prompt[i] = i == 0 ? first : (int32_t)((i * 7 + (uint32_t)first) % FAKE_END);
    return p;
}

static inline struct request *fake_submit(struct engine *e, struct request_params *p)
{
    struct request *r;
    struct err err = {0};
    if (engine_submit(e, p, &r, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return r;
}

/* What the request has must be what the rule gives; all of it when it ended by length. */
static inline void fake_expect_tokens(const struct request *r)
{
    int32_t tokens[FAKE_CTX] = {0};
    struct request_news all;
    request_all(r, &all);
    uint32_t n = r->params.n_prompt;
    memcpy(tokens, r->params.prompt, n * sizeof *tokens);
    for (uint32_t i = 0; i < all.n_tokens; i++) {
        tokens[n + i] = fake_next(tokens, n + i, n + i - 1);
        assert_int_equal(all.tokens[i], tokens[n + i]);
    }
}

/* Waits until all of `n` requests have finished; each finished event must come once. */
static inline void fake_finish(struct engine *e, struct request **requests, uint32_t n)
{
    uint32_t finished = 0;
    while (finished < n) {
        struct request *r;
        engine_wait(e);
        while ((r = engine_next_event(e))) {
            struct request_news news;
            bool mine = false;
            for (uint32_t i = 0; i < n; i++)
                mine |= requests[i] == r;
            assert_true(mine);
            request_read(r, &news);
            finished += news.finish != FINISH_NONE;
        }
    }
    assert_null(engine_next_event(e));
}

#endif
