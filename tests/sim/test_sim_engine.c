/* A seeded simulation of scheduler and KV blocks: random arrivals, lengths and cancels, step by
 * step, without threads or arithmetic. After every step kv_check must hold; nobody starves, who
 * came first starts first, and when all is quiet every block is free. */
#include "base/mem.h"
#include "engine/kv.h"
#include "engine/scheduler.h"
#include "support/cmocka_all.h"
#include "support/random.h"

#include <string.h>

#define SLOTS 24
#define CTX   256
#define SEQS  8

struct sim {
    struct random random;
    struct request requests[SLOTS];
    struct request_lists lists;
    struct kv kv;
    struct plan_item items[SEQS];
    struct plan plan;
    uint32_t max_tokens;
    uint64_t step;
    uint32_t next_arrival;  /* given to each request at its arrival ... */
    uint32_t last_admitted; /* ... so that admissions must be in this order */
    uint32_t arrived, ended;
};

static void sim_init(struct sim *s, uint64_t seed)
{
    *s = (struct sim){.random = {seed * 2654435761u + 1}};
    uint32_t n_blocks = kv_blocks_for(CTX) + random_below(&s->random, 30);
    assert_int_equal(kv_init(&s->kv, n_blocks, SLOTS, CTX, NULL), STATUS_OK);
    s->max_tokens = SEQS + random_below(&s->random, 100);
    s->plan.items = s->items;
    for (uint32_t i = 0; i < SLOTS; i++) {
        s->requests[i].slot = i;
        request_put(&s->lists, &s->requests[i]);
    }
}

static void arrive(struct sim *s)
{
    struct request *r = s->lists.of[REQUEST_FREE].first;
    if (!r)
        return;
    r->id = ++s->next_arrival;
    r->params.n_prompt = 1 + random_below(&s->random, random_below(&s->random, 4) ? 40 : CTX - 1);
    r->max_tokens = 1 + random_below(&s->random, CTX - r->params.n_prompt);
    r->n_past = r->n_tokens = 0;
    request_move(&s->lists, r, REQUEST_QUEUED);
    request_move(&s->lists, r, REQUEST_WAITING);
    s->arrived++;
}

static void end(struct sim *s, struct request *r)
{
    kv_release(&s->kv, r->slot);
    request_move(&s->lists, r, REQUEST_ENDED);
    request_move(&s->lists, r, REQUEST_FREE);
    s->ended++;
}

static void cancel_random(struct sim *s)
{
    struct request *r = &s->requests[random_below(&s->random, SLOTS)];
    if (r->state != REQUEST_FREE)
        end(s, r);
}

static void run_item(struct sim *s, const struct plan_item *item)
{
    struct request *r = item->request;
    assert_true(item->n_tokens >= 1);
    if (item->admit) {
        assert_true(r->id > s->last_admitted); /* nobody overtakes */
        s->last_admitted = r->id;
        assert_true(kv_grow(&s->kv, r->slot, scheduler_blocks(r)));
        request_move(&s->lists, r, REQUEST_PREFILL);
    }
    r->n_past += item->n_tokens;
    assert_true(r->n_past <= s->kv.lens[r->slot] * 32); /* every position has its block */
    if (r->state == REQUEST_PREFILL && r->n_past == r->params.n_prompt)
        request_move(&s->lists, r, REQUEST_DECODE);
    if (r->state == REQUEST_DECODE && ++r->n_tokens == r->max_tokens)
        end(s, r);
}

static void step(struct sim *s)
{
    const struct scheduler_view view = {
        .waiting = &s->lists.of[REQUEST_WAITING],
        .prefill = &s->lists.of[REQUEST_PREFILL],
        .decode = &s->lists.of[REQUEST_DECODE],
        .free_blocks = s->kv.n_free,
        .max_seqs = SEQS,
        .max_tokens = s->max_tokens,
    };
    uint32_t decodes = view.decode->n;
    scheduler_plan(&view, &s->plan);
    assert_true(s->plan.n_items <= SEQS && s->plan.n_tokens <= s->max_tokens);
    assert_true(s->plan.n_items >= decodes); /* every decode has its turn */
    if (view.waiting->n + view.prefill->n + view.decode->n > 0)
        assert_true(s->plan.n_items > 0); /* there is always progress */
    for (uint32_t i = 0; i < s->plan.n_items; i++)
        run_item(s, &s->plan.items[i]);
    assert_true(kv_check(&s->kv));
    s->step++;
}

static void run_seed(uint64_t seed)
{
    struct sim s;
    sim_init(&s, seed);
    uint32_t pressure = 1 + random_below(&s.random, 8);
    while (s.step < 200) {
        for (uint32_t n = random_below(&s.random, 4); n > 0 && s.step % pressure == 0; n--)
            arrive(&s);
        if (random_below(&s.random, 10) == 0)
            cancel_random(&s);
        step(&s);
    }
    while (s.ended < s.arrived && s.step < 20000)
        step(&s);
    assert_int_equal(s.ended, s.arrived);
    assert_int_equal(s.kv.n_free, s.kv.n_blocks);
    assert_int_equal(s.lists.of[REQUEST_FREE].n, SLOTS);
    kv_fini(&s.kv);
}

static void thousands_of_seeds(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3000; seed++)
        run_seed(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thousands_of_seeds),
    };
    return cmocka_run_group_tests_name("sim_engine", tests, NULL, NULL);
}
