/* The scheduler as a pure function: what it is shown, and what it answers.
 *
 * The machine of these tests takes 4 ms for a step, 0.5 ms for a prompt token and 0.25 ms for a
 * decode.
 */
#include "engine/kv.h"
#include "engine/scheduler.h"
#include "support/cmocka_all.h"

#include <string.h>

#define MAX 16

/* A few requests in chosen states, and the plan made of them. */
struct scene {
    struct request requests[MAX];
    uint32_t n;
    struct request_lists lists;
    struct scheduler_limits limits;
    const char *policy;
    struct cost cost;
    uint32_t blocks;
    int64_t short_us;
    struct plan_item items[MAX];
    struct plan_candidate candidates[MAX];
    struct plan plan;
};

#define NOW 1000000

static void scene_init(struct scene *s, const char *policy)
{
    *s = (struct scene){.blocks = 1000, .policy = policy};
    s->limits = (struct scheduler_limits){
        .max_seqs = MAX,
        .max_prefill_seqs = MAX,
        .max_tokens = 512,
        .max_prefill_tokens = 512,
        .max_active = MAX,
        .efficiency = 0.8,
    };
    cost_init(&s->cost);
    s->cost.w[0] = 4;
    s->cost.w[1] = 128; /* per 256 tokens */
    s->cost.w[3] = 4;   /* per 16 decodes */
    s->plan.items = s->items;
    s->plan.candidates = s->candidates;
}

/* Requests arrive 1 ms after each other. */
static struct request *add(struct scene *s, enum request_state state, uint32_t n_prompt,
                           uint32_t n_past)
{
    struct request *r = &s->requests[s->n++];
    request_put(&s->lists, r);
    r->params.n_prompt = n_prompt;
    r->n_past = n_past;
    r->n_goal = state == REQUEST_DECODE ? n_past + 1 : n_prompt;
    r->n_blocks = state == REQUEST_WAITING ? 0 : kv_blocks_for(n_past);
    r->arrived_us = r->served_us = NOW - 100000 + 1000 * (int64_t)s->n;
    if (state == REQUEST_DECODE)
        r->served_us = NOW;
    for (int to = REQUEST_QUEUED; to <= (int)state; to++)
        request_move(&s->lists, r, (enum request_state)to);
    return r;
}

static struct scheduler_view view_of(const struct scene *s)
{
    return (struct scheduler_view){
        .limits = &s->limits,
        .policy = policy_find(s->policy, NULL),
        .cost = &s->cost,
        .waiting = &s->lists.of[REQUEST_WAITING],
        .prefill = &s->lists.of[REQUEST_PREFILL],
        .decode = &s->lists.of[REQUEST_DECODE],
        .blocks = s->blocks,
        .now_us = NOW,
        .short_us = s->short_us,
    };
}

static void plan(struct scene *s)
{
    struct scheduler_view view = view_of(s);
    scheduler_plan(&view, &s->plan);
}

static void expect(const struct scene *s, uint32_t i, const struct request *r, uint32_t n,
                   bool admit)
{
    assert_true(i < s->plan.n_items);
    assert_ptr_equal(s->items[i].request, r);
    assert_int_equal(s->items[i].n_tokens, n);
    assert_int_equal(s->items[i].admit, admit);
}

static void nothing_gives_nothing(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "srpf");
    plan(&s);
    assert_int_equal(s.plan.n_items, 0);
    assert_int_equal(s.plan.n_tokens, 0);
}

/* --- budgets -------------------------------------------------------------------------------- */

static void decodes_come_first_then_arrival_order(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "fifo");
    s.limits.max_tokens = 100;
    struct request *started = add(&s, REQUEST_PREFILL, 200, 150);
    struct request *waiting = add(&s, REQUEST_WAITING, 30, 0);
    struct request *decode = add(&s, REQUEST_DECODE, 20, 25);
    struct request *late = add(&s, REQUEST_WAITING, 30, 0);
    plan(&s);
    assert_int_equal(s.plan.n_items, 4);
    assert_int_equal(s.plan.n_decodes, 1);
    expect(&s, 0, decode, 1, false);
    expect(&s, 1, started, 50, false);
    expect(&s, 2, waiting, 30, true);
    expect(&s, 3, late, 19, true); /* what is left of 100 rows */
    assert_int_equal(s.plan.n_tokens, 100);
}

static void the_promised_gap_decides_the_chunk(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "srpf");
    add(&s, REQUEST_DECODE, 20, 25);
    struct request *long_one = add(&s, REQUEST_WAITING, 1000, 0);
    s.limits.decode_gap_us = 50000; /* 4 + 0.25 for the decode leave 45.75 ms: 91 tokens */
    plan(&s);
    expect(&s, 1, long_one, 91, true);
    assert_false(s.plan.gap_missed);
    s.limits.decode_gap_us = 0; /* nothing promised */
    plan(&s);
    expect(&s, 1, long_one, 511, true);
}

static void a_decode_that_has_waited_shortens_the_step(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "srpf");
    struct request *decode = add(&s, REQUEST_DECODE, 20, 25);
    struct request *long_one = add(&s, REQUEST_WAITING, 1000, 0);
    s.limits.decode_gap_us = 50000;
    decode->served_us = NOW - 20000; /* it stood aside for this one 20 ms before its end */
    plan(&s);
    expect(&s, 1, long_one, 51, true);
    decode->served_us = NOW - 49000;
    plan(&s);
    expect(&s, 1, long_one, SCHEDULER_MIN_CHUNK, true);
}

static void decodes_alone_over_the_gap_leave_the_least_chunk(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "srpf");
    s.limits.decode_gap_us = 4500;
    for (int i = 0; i < 8; i++)
        add(&s, REQUEST_DECODE, 20, 25);
    struct request *r = add(&s, REQUEST_WAITING, 1000, 0);
    add(&s, REQUEST_WAITING, 10, 0)->served_us = NOW; /* no second prompt beside it */
    r->arrived_us = NOW - 10000000;
    plan(&s);
    assert_int_equal(s.plan.n_items, 9);
    expect(&s, 8, r, SCHEDULER_MIN_CHUNK, true);
    assert_true(s.plan.gap_missed);
}

static void decodes_that_do_not_fit_take_turns_and_share_the_gap(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "srpf");
    s.limits.max_seqs = 4;
    s.limits.decode_gap_us = 60000;
    for (int i = 0; i < 6; i++)
        add(&s, REQUEST_DECODE, 20, 25);
    struct request *r = add(&s, REQUEST_WAITING, 1000, 0);
    plan(&s);
    assert_int_equal(s.plan.n_decodes, 3); /* a seat is left for the prompt */
    expect(&s, 3, r, 50, true); /* 6 decodes in 2 turns: 30 ms each, 4.75 for the decodes */
    request_move(&s.lists, r, REQUEST_PREFILL);
    r->in_step = true;
    plan(&s);
    assert_int_equal(s.plan.n_decodes, 4);
}

static void turns_are_even_so_that_newcomers_find_places(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "srpf");
    s.limits.max_seqs = 8;
    s.limits.decode_gap_us = 100000;
    for (int i = 0; i < 8; i++)
        add(&s, REQUEST_DECODE, 20, 25);
    for (int i = 0; i < 6; i++)
        add(&s, REQUEST_WAITING, 5, 0);
    plan(&s);
    assert_int_equal(s.plan.n_decodes, 4); /* 4 and 4, not 7 and 1 */
    assert_int_equal(s.plan.n_items, 8);
    s.limits.max_active = 8; /* nobody may come: a place left free would be wasted */
    plan(&s);
    assert_int_equal(s.plan.n_decodes, 8);
}

static void nobody_leaves_places_for_whom_the_promise_keeps_out(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "srpf");
    s.limits.max_seqs = 8;
    s.limits.decode_gap_us = 8000;
    for (int i = 0; i < 8; i++)
        add(&s, REQUEST_DECODE, 20, 25);
    add(&s, REQUEST_WAITING, 5, 0);
    plan(&s);
    assert_int_equal(s.plan.n_decodes, 8);
    assert_int_equal(s.plan.n_items, 8);
}

static void prompts_join_a_step_until_it_saturates(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "srpf"); /* 0.8 of a step's time is tokens from 32 tokens on */
    struct request *a = add(&s, REQUEST_WAITING, 10, 0);
    struct request *b = add(&s, REQUEST_WAITING, 12, 0);
    struct request *c = add(&s, REQUEST_WAITING, 14, 0);
    plan(&s);
    assert_int_equal(s.plan.n_items, 3);
    expect(&s, 0, a, 10, true);
    expect(&s, 1, b, 12, true);
    expect(&s, 2, c, 10, true);
    a->n_goal = a->params.n_prompt = 40; /* alone more than that */
    a->arrived_us = NOW - 1000000;
    plan(&s);
    assert_int_equal(s.plan.n_items, 1);
    expect(&s, 0, a, 40, true);
    s.policy = "fifo"; /* stacks them, as servers do */
    plan(&s);
    assert_int_equal(s.plan.n_items, 3);
}

static void the_more_decodes_the_more_prompts_join(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "srpf");
    struct request *a = add(&s, REQUEST_WAITING, 40, 0);
    struct request *b = add(&s, REQUEST_WAITING, 40, 0);
    plan(&s);
    assert_int_equal(s.plan.n_items, 1); /* 32 tokens saturate a step of 4 ms ... */
    for (int i = 0; i < 8; i++)
        add(&s, REQUEST_DECODE, 20, 25);
    plan(&s);
    assert_int_equal(s.plan.n_items, 10); /* ... and 48 one of 6 ms */
    expect(&s, 8, a, 40, true);
    expect(&s, 9, b, 8, true);
}

static void prompts_and_their_tokens_are_bounded(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "fifo");
    s.limits.max_prefill_seqs = 2;
    struct request *started = add(&s, REQUEST_PREFILL, 20, 10);
    struct request *decode = add(&s, REQUEST_DECODE, 5, 5);
    struct request *first = add(&s, REQUEST_WAITING, 5, 0);
    add(&s, REQUEST_WAITING, 5, 0);
    plan(&s);
    assert_int_equal(s.plan.n_items, 3);
    expect(&s, 0, decode, 1, false); /* decodes do not count */
    expect(&s, 1, started, 10, false);
    expect(&s, 2, first, 5, true);
    s.limits.max_prefill_tokens = 12;
    plan(&s);
    expect(&s, 2, first, 2, true);
    s.limits.max_prefill_seqs = 1;
    plan(&s);
    assert_int_equal(s.plan.n_items, 2); /* nobody is admitted to wait inside */
}

/* --- admission ------------------------------------------------------------------------------ */

static void admission_needs_blocks_for_the_prompt(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "fifo");
    s.blocks = 2;
    struct request *first = add(&s, REQUEST_WAITING, 65, 0);
    struct request *small = add(&s, REQUEST_WAITING, 1, 0);
    plan(&s);
    assert_int_equal(s.plan.n_items, 0); /* and the small one behind it does not overtake */
    first->n_cached = 40;                /* blocks from the cache are blocks too */
    plan(&s);
    assert_int_equal(s.plan.n_items, 0);
    s.blocks = 3;
    plan(&s);
    assert_int_equal(s.plan.n_items, 1);
    expect(&s, 0, first, 25, true);
    s.blocks = 4;
    plan(&s);
    expect(&s, 1, small, 1, true);
}

static void who_has_started_goes_on_when_nobody_is_admitted(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "fifo");
    s.blocks = 4;
    add(&s, REQUEST_WAITING, 200, 0);
    struct request *started = add(&s, REQUEST_PREFILL, 128, 64);
    plan(&s);
    assert_int_equal(s.plan.n_items, 1);
    expect(&s, 0, started, 64, false);
    s.blocks = 3; /* two of them are the started one's to come */
    s.requests[0].n_goal = s.requests[0].params.n_prompt = 64;
    plan(&s);
    assert_int_equal(s.plan.n_items, 1);
    s.blocks = 4;
    plan(&s);
    assert_int_equal(s.plan.n_items, 2);
}

static void a_decode_without_a_block_waits(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "srpf");
    s.blocks = 1;
    add(&s, REQUEST_DECODE, 20, 32);
    add(&s, REQUEST_DECODE, 20, 64);
    struct request *has_room = add(&s, REQUEST_DECODE, 20, 40);
    plan(&s);
    assert_int_equal(s.plan.n_items, 2);
    expect(&s, 1, has_room, 1, false);
}

static void a_round_of_turns_keeps_the_promised_gap(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "srpf");
    s.limits.max_seqs = 3;
    for (int i = 0; i < 3; i++)
        add(&s, REQUEST_DECODE, 5, 5);
    add(&s, REQUEST_WAITING, 5, 0);
    s.limits.decode_gap_us = 9100; /* 4 decodes in 2 steps: 8 + 1 ms */
    plan(&s);
    assert_int_equal(s.plan.n_items, 3);
    assert_int_equal(s.plan.n_decodes, 2);
    s.limits.decode_gap_us = 8900;
    plan(&s);
    assert_int_equal(s.plan.n_items, s.plan.n_decodes);
}

static void admission_needs_an_active_place(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "srpf");
    s.limits.max_active = 2;
    add(&s, REQUEST_DECODE, 5, 5);
    struct request *first = add(&s, REQUEST_WAITING, 5, 0);
    add(&s, REQUEST_WAITING, 5, 0);
    plan(&s);
    assert_int_equal(s.plan.n_items, 2);
    expect(&s, 1, first, 5, true);
}

/* --- order ---------------------------------------------------------------------------------- */

static void the_shortest_uncached_prompt_goes_first(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "srpf");
    struct request *long_one = add(&s, REQUEST_WAITING, 1000, 0);
    struct request *cached = add(&s, REQUEST_WAITING, 1000, 0);
    struct request *started = add(&s, REQUEST_PREFILL, 1000, 900);
    cached->n_cached = 960;
    plan(&s);
    expect(&s, 0, cached, 40, true);
    cached->n_cached = 0;
    plan(&s);
    expect(&s, 0, started, 100, false);
    long_one->arrived_us = NOW - 3100000; /* has waited for longer than 6 times its 504 ms */
    plan(&s);
    expect(&s, 0, long_one, 512, true);
}

static void followers_wait_and_lend_their_rank(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "srpf");
    struct request *leader = add(&s, REQUEST_WAITING, 1000, 0);
    struct request *other = add(&s, REQUEST_WAITING, 300, 0);
    struct request *follower = add(&s, REQUEST_WAITING, 200, 0);
    plan(&s);
    expect(&s, 0, follower, 200, true);
    follower->leader = leader;
    leader->urgent_follower = follower;
    leader->follow_at = 192;
    plan(&s);
    expect(&s, 0, leader, 192, true); /* to where the follower waits */
    assert_ptr_not_equal(s.items[1].request, follower);
    (void)other;
}

static void priority_comes_before_arrival(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "priority");
    struct request *first = add(&s, REQUEST_WAITING, 10, 0);
    struct request *urgent = add(&s, REQUEST_WAITING, 20, 0);
    urgent->priority = -1;
    plan(&s);
    expect(&s, 0, urgent, 20, true);
    expect(&s, 1, first, 10, true);
}

static void pack_passes_over_what_does_not_fit(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "pack");
    s.limits.max_prefill_tokens = 100;
    struct request *long_one = add(&s, REQUEST_WAITING, 300, 0);
    struct request *a = add(&s, REQUEST_WAITING, 60, 0);
    add(&s, REQUEST_WAITING, 60, 0);
    struct request *b = add(&s, REQUEST_WAITING, 40, 0);
    plan(&s);
    assert_int_equal(s.plan.n_items, 2);
    expect(&s, 0, a, 60, true);
    expect(&s, 1, b, 40, true);
    for (int i = 1; i < 4; i++)
        s.requests[i].n_goal = s.requests[i].params.n_prompt = 200;
    plan(&s);
    assert_int_equal(s.plan.n_items, 1);
    expect(&s, 0, long_one, 100, true);
}

static void lookahead_finds_the_best_fill(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "lookahead");
    s.limits.max_prefill_tokens = 100;
    add(&s, REQUEST_WAITING, 70, 0);
    struct request *a = add(&s, REQUEST_WAITING, 55, 0);
    struct request *b = add(&s, REQUEST_WAITING, 45, 0);
    plan(&s);
    assert_int_equal(s.plan.n_items, 2);
    expect(&s, 0, a, 55, true);
    expect(&s, 1, b, 45, true);
    b->n_goal = b->params.n_prompt = 25; /* 70 + 25 is better than 55 + 25 */
    plan(&s);
    assert_int_equal(s.plan.n_items, 3);
    expect(&s, 0, &s.requests[0], 70, true);
    expect(&s, 1, b, 25, true);
    expect(&s, 2, a, 5, true); /* the rest is not left empty */
}

static void a_step_ends_where_the_prompt_does(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "srpf");
    struct request *r = add(&s, REQUEST_PREFILL, 50, 30);
    r->n_goal = 90; /* 40 tokens were generated before it was put back */
    plan(&s);
    expect(&s, 0, r, 20, false);
    r->n_past = 50;
    r->n_blocks = 2;
    plan(&s);
    expect(&s, 0, r, 40, false);
}

/* A step of 40 ms, had somebody been promised anything. */
static void a_calm_step_is_short_enough_to_stand_aside_often(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "srpf");
    s.limits.park_slice_us = 40000;
    struct request *r = add(&s, REQUEST_PREFILL, 512, 0);
    plan(&s);
    expect(&s, 0, r, 512, false);
    s.limits.decode_gap_us = 50000;
    plan(&s);
    expect(&s, 0, r, 72, false); /* 4 + 72 / 2 */
    s.limits.park_slice_us = 10000;
    plan(&s);
    expect(&s, 0, r, 32, false); /* from here on the machine is used well */
    s.policy = "fifo";           /* never stands aside */
    plan(&s);
    expect(&s, 0, r, 512, false);
}

/* --- standing aside ------------------------------------------------------------------------- */

static bool parks(struct scene *s, int64_t left_us, int64_t *short_us)
{
    struct scheduler_view view = view_of(s);
    return scheduler_parks(&view, &s->plan, left_us, 1000, short_us);
}

static void a_step_stands_aside_for_a_shorter_prompt(void **state)
{
    (void)state;
    struct scene s;
    int64_t short_us;
    scene_init(&s, "srpf");
    struct request *long_one = add(&s, REQUEST_PREFILL, 512, 0);
    plan(&s);
    long_one->in_step = true;
    assert_false(parks(&s, 200000, &short_us));
    struct request *r = add(&s, REQUEST_WAITING, 100, 0); /* 54 ms */
    r->arrived_us = r->served_us = NOW + 1;
    assert_true(parks(&s, 200000, &short_us));
    assert_false(parks(&s, 50000, &short_us)); /* longer than what is left */
    assert_true(parks(&s, 200000, &short_us));
    s.short_us = short_us;
    plan(&s);
    assert_int_equal(s.plan.n_items, 1);
    expect(&s, 0, r, 100, true);
    r->n_goal = r->params.n_prompt = 450; /* the short step takes nothing in part */
    plan(&s);
    assert_int_equal(s.plan.n_items, 0);
}

static void fifo_never_stands_aside(void **state)
{
    (void)state;
    struct scene s;
    int64_t short_us;
    scene_init(&s, "fifo");
    add(&s, REQUEST_PREFILL, 512, 0)->in_step = true;
    plan(&s);
    struct request *r = add(&s, REQUEST_WAITING, 10, 0);
    r->arrived_us = NOW + 1;
    assert_false(parks(&s, 200000, &short_us));
}

static void a_step_stands_aside_for_decodes_that_are_due(void **state)
{
    (void)state;
    struct scene s;
    int64_t short_us;
    scene_init(&s, "srpf");
    s.limits.decode_gap_us = 50000;
    struct request *long_one = add(&s, REQUEST_PREFILL, 512, 0);
    plan(&s);
    long_one->in_step = true;
    struct request *decode = add(&s, REQUEST_DECODE, 20, 25);
    decode->served_us = NOW - 44000; /* 6 ms left: 1 for a layer, 4.25 for the step */
    assert_false(parks(&s, 200000, &short_us));
    decode->served_us = NOW - 45000;
    assert_true(parks(&s, 200000, &short_us));
    s.short_us = short_us;
    plan(&s);
    assert_int_equal(s.plan.n_items, 1);
    expect(&s, 0, decode, 1, false);
}

/* What kept prompts from being computed sooner. */
static void the_plan_says_what_it_was_short_of(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "fifo");
    plan(&s);
    assert_int_equal(s.plan.limit, PLAN_UNLIMITED);
    add(&s, REQUEST_WAITING, 300, 0);
    plan(&s);
    assert_int_equal(s.plan.limit, PLAN_UNLIMITED);
    add(&s, REQUEST_WAITING, 300, 0); /* of which a step takes the beginning */
    plan(&s);
    assert_int_equal(s.plan.limit, PLAN_BY_TOKENS);
    s.limits.max_active = 1;
    plan(&s);
    assert_int_equal(s.plan.limit, PLAN_BY_PLACES);
    s.limits.max_active = MAX;
    s.blocks = 12;
    plan(&s);
    assert_int_equal(s.plan.limit, PLAN_BY_PLACES);
    s.blocks = 1000;
    s.limits.max_prefill_seqs = 1;
    plan(&s);
    assert_int_equal(s.plan.limit, PLAN_BY_PLACES);
    s.limits.max_prefill_tokens = 100; /* the first does not come to its end */
    plan(&s);
    assert_int_equal(s.plan.limit, PLAN_BY_TOKENS);
}

/* Cached prompts have a token each to compute: ten more would not cost ten times as much. */
static void a_step_of_cached_prompts_is_short_of_places(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "fifo");
    s.limits.max_prefill_tokens = 5;
    for (uint32_t i = 0; i < 10; i++)
        add(&s, REQUEST_WAITING, 65, 0)->n_cached = 64;
    plan(&s);
    assert_int_equal(s.plan.n_items, 5);
    assert_int_equal(s.plan.limit, PLAN_BY_PLACES);
}

static void changes_nothing_that_it_is_shown(void **state)
{
    (void)state;
    struct scene s;
    struct request before[MAX];
    for (size_t i = 0; policy_at(i); i++) {
        scene_init(&s, policy_at(i)->name);
        add(&s, REQUEST_WAITING, 30, 0);
        add(&s, REQUEST_PREFILL, 30, 10);
        add(&s, REQUEST_DECODE, 30, 30);
        memcpy(before, s.requests, sizeof before);
        struct request_lists lists = s.lists;
        plan(&s);
        plan(&s);
        assert_int_equal(s.plan.n_items, 3);
        assert_memory_equal(before, s.requests, sizeof before);
        assert_memory_equal(&lists, &s.lists, sizeof lists);
    }
}

static void who_is_passed_over_goes_first_in_the_end(void **state)
{
    (void)state;
    static const char *const policies[] = {"pack", "lookahead"};
    for (int i = 0; i < 2; i++) {
        struct scene s;
        scene_init(&s, policies[i]);
        s.limits.max_prefill_tokens = 100;
        struct request *long_one = add(&s, REQUEST_WAITING, 300, 0);
        for (int n = 0; n < 5; n++)
            add(&s, REQUEST_WAITING, 50, 0);
        plan(&s);
        assert_int_equal(s.plan.n_items, 2);
        assert_ptr_not_equal(s.items[0].request, long_one);
        long_one->arrived_us = NOW - SCHEDULER_PATIENCE_US - 1;
        plan(&s);
        expect(&s, 0, long_one, 100, true);
        s.blocks = 9; /* it finds none: those behind it do not take them */
        plan(&s);
        assert_int_equal(s.plan.n_items, 0);
    }
}

static void lookahead_does_not_admit_past_who_finds_no_blocks(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "lookahead");
    s.limits.max_prefill_tokens = 100;
    s.blocks = 2;
    add(&s, REQUEST_WAITING, 90, 0);
    add(&s, REQUEST_WAITING, 10, 0);
    plan(&s);
    assert_int_equal(s.plan.n_items, 0);
}

/* The oldest finds no blocks, the other one is to stop at its prompt's end: none fits whole. */
static void pack_goes_on_with_who_has_started(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, "pack");
    s.limits.max_prefill_tokens = 200;
    s.blocks = 4;
    add(&s, REQUEST_WAITING, 250, 0);
    struct request *started = add(&s, REQUEST_PREFILL, 70, 50);
    started->n_goal = 120;
    plan(&s);
    assert_int_equal(s.plan.n_items, 1);
    expect(&s, 0, started, 20, false);
}

static void an_unknown_policy_is_named_with_those_there_are(void **state)
{
    (void)state;
    struct err err = {0};
    assert_null(policy_find("luck", &err));
    assert_non_null(strstr(err.text, "luck"));
    assert_non_null(strstr(err.text, "srpf, fifo, pack, lookahead, priority"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_gives_nothing),
        cmocka_unit_test(decodes_come_first_then_arrival_order),
        cmocka_unit_test(the_promised_gap_decides_the_chunk),
        cmocka_unit_test(a_decode_that_has_waited_shortens_the_step),
        cmocka_unit_test(decodes_alone_over_the_gap_leave_the_least_chunk),
        cmocka_unit_test(decodes_that_do_not_fit_take_turns_and_share_the_gap),
        cmocka_unit_test(turns_are_even_so_that_newcomers_find_places),
        cmocka_unit_test(nobody_leaves_places_for_whom_the_promise_keeps_out),
        cmocka_unit_test(prompts_join_a_step_until_it_saturates),
        cmocka_unit_test(the_more_decodes_the_more_prompts_join),
        cmocka_unit_test(prompts_and_their_tokens_are_bounded),
        cmocka_unit_test(admission_needs_blocks_for_the_prompt),
        cmocka_unit_test(who_has_started_goes_on_when_nobody_is_admitted),
        cmocka_unit_test(a_decode_without_a_block_waits),
        cmocka_unit_test(a_round_of_turns_keeps_the_promised_gap),
        cmocka_unit_test(admission_needs_an_active_place),
        cmocka_unit_test(the_shortest_uncached_prompt_goes_first),
        cmocka_unit_test(followers_wait_and_lend_their_rank),
        cmocka_unit_test(priority_comes_before_arrival),
        cmocka_unit_test(pack_passes_over_what_does_not_fit),
        cmocka_unit_test(lookahead_finds_the_best_fill),
        cmocka_unit_test(who_is_passed_over_goes_first_in_the_end),
        cmocka_unit_test(lookahead_does_not_admit_past_who_finds_no_blocks),
        cmocka_unit_test(pack_goes_on_with_who_has_started),
        cmocka_unit_test(a_step_ends_where_the_prompt_does),
        cmocka_unit_test(a_calm_step_is_short_enough_to_stand_aside_often),
        cmocka_unit_test(a_step_stands_aside_for_a_shorter_prompt),
        cmocka_unit_test(fifo_never_stands_aside),
        cmocka_unit_test(a_step_stands_aside_for_decodes_that_are_due),
        cmocka_unit_test(the_plan_says_what_it_was_short_of),
        cmocka_unit_test(a_step_of_cached_prompts_is_short_of_places),
        cmocka_unit_test(changes_nothing_that_it_is_shown),
        cmocka_unit_test(an_unknown_policy_is_named_with_those_there_are),
    };
    return cmocka_run_group_tests_name("scheduler", tests, NULL, NULL);
}
