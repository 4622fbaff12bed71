/* A target that remembers what it is asked and answers all of it once nothing more is sent, for
 * tests of how kinds measure. Its answers take no time. */
#ifndef FIRSTLIGHT_TESTS_UNIT_BENCH_KINDS_BATCH_TARGET_H
#define FIRSTLIGHT_TESTS_UNIT_BENCH_KINDS_BATCH_TARGET_H

#include "base/clock.h"
#include "base/mem.h"
#include "bench/load/target.h"
#include "support/cmocka_all.h"

#include <stdatomic.h>

#define BATCH_MOST  64
#define BATCH_QUIET 3 /* polls since the last send, before anything is answered */

struct batch_target {
    struct target target;
    bool stream;     /* what every request asks for */
    uint32_t tokens; /* of an answer; 0: as many as were asked for */
    struct record *running[BATCH_MOST];
    uint32_t n_running, most, quiet;
    char *prompts[BATCH_MOST];
    uint32_t max_tokens[BATCH_MOST];
    uint32_t n_sent;
    atomic_bool stop;
    uint32_t stop_after; /* requests; 0: never */
};

static inline void batch_send(struct target *t, const struct work_item *item, struct record *r)
{
    struct batch_target *b = (struct batch_target *)t;
    assert_true(b->n_sent < BATCH_MOST);
    assert_int_equal(item->stream, b->stream);
    r->state = RECORD_RUNNING;
    r->sent_us = r->accepted_us = clock_now_us();
    r->prompt_tokens = 8;
    r->completion_tokens = b->tokens ? b->tokens : item->max_tokens;
    b->running[b->n_running++] = r;
    b->prompts[b->n_sent] = mem_strdup(item->prompt);
    b->max_tokens[b->n_sent++] = item->max_tokens;
    b->most = b->n_running > b->most ? b->n_running : b->most;
    b->quiet = 0;
    if (b->n_sent == b->stop_after)
        atomic_store(&b->stop, true);
}

static inline void batch_poll(struct target *t, int64_t until_us)
{
    struct batch_target *b = (struct batch_target *)t;
    (void)until_us;
    if (++b->quiet < BATCH_QUIET)
        return;
    for (uint32_t i = 0; i < b->n_running; i++) {
        record_chunk(b->running[i], clock_now_us());
        if (!record_has_ended(b->running[i]))
            record_end(b->running[i], RECORD_OK, clock_now_us(), NULL);
    }
    b->n_running = 0;
}

static inline void batch_cancel(struct target *t, struct record *r)
{
    (void)t;
    record_end(r, RECORD_CANCELLED, clock_now_us(), NULL);
}

static const struct target_ops batch_ops = {
    .send = batch_send, .poll = batch_poll, .cancel = batch_cancel};

static inline void batch_fini(struct batch_target *b)
{
    for (uint32_t i = 0; i < b->n_sent; i++)
        mem_free(b->prompts[i]);
}

#endif
