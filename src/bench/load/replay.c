#include "bench/load/replay.h"

#include "base/limits.h"
#include "base/mem.h"
#include "bench/load/workload_text.h"
#include "bench/result/random.h"

/* Each of 256 words is missing among so many with a probability of 1e-7. */
#define WORDS_LOOKED_AT 4096

struct maker {
    const struct replay *replay;
    const struct tokenizer *tokenizer;
    uint64_t block_seed, own_seed; /* of this run */
    uint32_t n_added;              /* tokens that the tokenizer puts before a text */
    bool words_are_tokens;         /* each of them one */
    struct tokens ids;             /* scratch */
    uint32_t inexact;
    struct err *err;
};

static enum status replay_no_memory(struct maker *m)
{
    return err_set(m->err, STATUS_NO_MEMORY, "no memory for the prompts of the trace");
}

static enum status replay_count(struct maker *m, const struct buf *text)
{
    m->ids.count = 0;
    if (text->failed)
        return replay_no_memory(m);
    return tokenizer_encode(m->tokenizer, buf_str(text), text->len, NULL,
                            TOKENIZE_SPECIAL | TOKENIZE_ADD, &m->ids, m->err);
}

static enum status replay_add_words(struct maker *m, struct buf *text, struct random *r, uint32_t n)
{
    bool exact;
    if (n == 0)
        return STATUS_OK;
    if (text->len > 0)
        buf_putc(text, ' ');
    char *words = workload_text(r, n, NULL, &exact);
    if (words)
        buf_puts(text, words);
    bool failed = !words || text->failed;
    mem_free(words);
    return failed ? replay_no_memory(m) : STATUS_OK;
}

/* Makes `done` tokens of text `total`. Where words are tokens, nothing need be counted; elsewhere
 * all of the text is, for each block: what is added then depends on what was there, which chained
 * ids allow. */
static enum status add_tokens(struct maker *m, struct buf *text, uint64_t seed, uint64_t stream,
                              uint32_t done, uint32_t total)
{
    struct random r;
    bool exact;
    random_init(&r, seed, stream);
    if (!m->words_are_tokens)
        return workload_text_append(text, &r, seed, random_next(&r), total, m->tokenizer, &exact,
                                    m->err);
    uint32_t before = done > m->n_added ? done - m->n_added : 0; /* words */
    uint32_t after = total > m->n_added ? total - m->n_added : 0;
    return replay_add_words(m, text, &r, after - before);
}

static enum status make_text(struct maker *m, struct buf *text, const struct replay_request *q,
                             uint32_t index)
{
    uint32_t done = 0;
    for (uint32_t i = 0; i < q->n_hashes; i++) {
        uint32_t left = q->input_tokens - done, block = m->replay->block_tokens;
        uint32_t total = done + (left < block ? left : block);
        uint64_t id = m->replay->hash_ids[q->first_hash + i];
        if (add_tokens(m, text, m->block_seed, id, done, total))
            return m->err->code;
        done = total;
    }
    if (done < q->input_tokens && add_tokens(m, text, m->own_seed, index, done, q->input_tokens))
        return m->err->code;
    if (m->words_are_tokens)
        return STATUS_OK;
    enum status st = replay_count(m, text);
    m->inexact += !st && m->ids.count != q->input_tokens;
    return st;
}

static enum status replay_make_item(struct maker *m, struct work_item *item, uint32_t index,
                                    double speed)
{
    const struct replay_request *q = &m->replay->requests[index];
    struct buf text = {0};
    *item = (struct work_item){
        .due_us = (int64_t)((q->at_ms - m->replay->requests[0].at_ms) * 1e3 / speed),
        .max_tokens = q->output_tokens,
        .ignore_eos = true,
        .stream = true,
    };
    enum status st = make_text(m, &text, q, index);
    if (!st)
        item->prompt = buf_take(&text);
    buf_fini(&text);
    return st || item->prompt ? st : replay_no_memory(m);
}

/* What the tokenizer makes of nothing, and of so many words that all kinds are among them. */
static enum status look_at_tokenizer(struct maker *m)
{
    struct buf text = {0};
    struct random r;
    m->words_are_tokens = true;
    if (!m->tokenizer)
        return STATUS_OK;
    enum status st = replay_count(m, &text);
    m->n_added = (uint32_t)m->ids.count;
    random_init(&r, 0, 0);
    if (!st)
        st = replay_add_words(m, &text, &r, WORDS_LOOKED_AT);
    if (!st)
        st = replay_count(m, &text);
    m->words_are_tokens = m->ids.count == m->n_added + WORDS_LOOKED_AT;
    buf_fini(&text);
    return st;
}

static enum status make_all(struct maker *m, struct workload *out, double speed)
{
    const struct replay *r = m->replay;
    enum status st = look_at_tokenizer(m);
    if (st)
        return st;
    out->items = mem_array(r->n, sizeof *out->items);
    if (!out->items)
        return replay_no_memory(m);
    for (; !st && out->n < r->n; out->n++)
        st = replay_make_item(m, &out->items[out->n], out->n, speed);
    return st;
}

enum status replay_make(struct workload *out, const struct replay *r,
                        const struct replay_options *o, const struct tokenizer *tokenizer,
                        uint32_t run, uint32_t *inexact, struct err *err)
{
    struct maker m = {.replay = r, .tokenizer = tokenizer, .err = err};
    struct random seeds;
    random_init(&seeds, random_salted(o->seed, o->salt), run);
    m.block_seed = random_next(&seeds);
    m.own_seed = random_next(&seeds);
    *out = (struct workload){0};
    enum status st = make_all(&m, out, o->speed);
    if (st)
        workload_fini(out);
    tokens_fini(&m.ids);
    *inexact = m.inexact;
    return st;
}

json_t *replay_json(const struct replay *r, const struct replay_options *o,
                    uint32_t max_concurrency)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:I}", "trace_sha256",
                     r->sha256, "num_requests", (json_int_t)r->n, "input_tokens",
                     (json_int_t)r->input_tokens, "output_tokens", (json_int_t)r->output_tokens,
                     "block_tokens", (json_int_t)r->block_tokens, "max_length",
                     (json_int_t)o->max_length, "max_concurrency", (json_int_t)max_concurrency,
                     "speed", o->speed, "seed", (json_int_t)o->seed, "empty", (json_int_t)r->empty);
}
