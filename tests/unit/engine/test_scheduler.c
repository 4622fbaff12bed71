/* The scheduler as a pure function: what it is shown, and what it answers. */
#include "engine/scheduler.h"
#include "support/cmocka_all.h"

#include <string.h>

#define MAX 16

/* A few requests in chosen states, and the plan made of them. */
struct scene {
    struct request requests[MAX];
    uint32_t n;
    struct request_lists lists;
    struct plan_item items[MAX];
    struct plan plan;
    uint32_t free_blocks, max_seqs, max_tokens, max_prompts, max_prompt_tokens;
};

static void scene_init(struct scene *s)
{
    *s = (struct scene){.free_blocks = 1000, .max_seqs = MAX, .max_tokens = 100};
    s->plan.items = s->items;
}

static struct request *add(struct scene *s, enum request_state state, uint32_t n_prompt,
                           uint32_t n_past, uint32_t max_tokens)
{
    struct request *r = &s->requests[s->n++];
    request_put(&s->lists, r);
    r->params.n_prompt = n_prompt;
    r->n_past = n_past;
    r->max_tokens = max_tokens;
    for (int to = REQUEST_QUEUED; to <= (int)state; to++)
        request_move(&s->lists, r, (enum request_state)to);
    return r;
}

static void plan(struct scene *s)
{
    const struct scheduler_view view = {
        .waiting = &s->lists.of[REQUEST_WAITING],
        .prefill = &s->lists.of[REQUEST_PREFILL],
        .decode = &s->lists.of[REQUEST_DECODE],
        .free_blocks = s->free_blocks,
        .max_seqs = s->max_seqs,
        .max_tokens = s->max_tokens,
        .max_prompts = s->max_prompts,
        .max_prompt_tokens = s->max_prompt_tokens,
    };
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
    scene_init(&s);
    plan(&s);
    assert_int_equal(s.plan.n_items, 0);
    assert_int_equal(s.plan.n_tokens, 0);
}

static void decodes_come_first_then_arrival_order(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s);
    struct request *waiting = add(&s, REQUEST_WAITING, 30, 0, 10);
    struct request *decode = add(&s, REQUEST_DECODE, 20, 25, 10);
    struct request *started = add(&s, REQUEST_PREFILL, 200, 150, 10);
    struct request *late = add(&s, REQUEST_WAITING, 30, 0, 10);
    plan(&s);
    assert_int_equal(s.plan.n_items, 4);
    expect(&s, 0, decode, 1, false);
    expect(&s, 1, started, 50, false);
    expect(&s, 2, waiting, 30, true);
    expect(&s, 3, late, 19, true); /* what is left of 100 rows */
    assert_int_equal(s.plan.n_tokens, 100);
}

static void a_long_prompt_is_cut_and_the_rest_waits(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s);
    struct request *one = add(&s, REQUEST_PREFILL, 500, 100, 10);
    add(&s, REQUEST_PREFILL, 50, 0, 10);
    add(&s, REQUEST_WAITING, 5, 0, 10);
    plan(&s);
    assert_int_equal(s.plan.n_items, 1);
    expect(&s, 0, one, 100, false);
}

static void admission_needs_blocks_for_prompt_and_answer(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s);
    s.free_blocks = 2;
    struct request *fits = add(&s, REQUEST_WAITING, 33, 0, 32); /* the 65th position is not run */
    add(&s, REQUEST_WAITING, 1, 0, 1);
    assert_int_equal(scheduler_blocks(fits), 2);
    plan(&s);
    assert_int_equal(s.plan.n_items, 1);
    expect(&s, 0, fits, 33, true);
    fits->max_tokens = 33;
    plan(&s);
    assert_int_equal(s.plan.n_items, 0); /* and the small one behind it does not overtake */
}

static void admission_needs_a_place(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s);
    s.max_seqs = 2;
    add(&s, REQUEST_DECODE, 5, 5, 10);
    struct request *first = add(&s, REQUEST_WAITING, 5, 0, 10);
    add(&s, REQUEST_WAITING, 5, 0, 10);
    plan(&s);
    assert_int_equal(s.plan.n_items, 2);
    expect(&s, 1, first, 5, true);
    s.max_seqs = 1;
    plan(&s);
    assert_int_equal(s.plan.n_items, 1);
}

static void chunks_are_bounded_in_number(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s);
    s.max_prompts = 2;
    struct request *decode = add(&s, REQUEST_DECODE, 5, 5, 10);
    struct request *started = add(&s, REQUEST_PREFILL, 20, 10, 10);
    struct request *first = add(&s, REQUEST_WAITING, 5, 0, 10);
    add(&s, REQUEST_WAITING, 5, 0, 10);
    plan(&s);
    assert_int_equal(s.plan.n_items, 3);
    expect(&s, 0, decode, 1, false); /* decodes do not count */
    expect(&s, 1, started, 10, false);
    expect(&s, 2, first, 5, true);
    s.max_prompts = 1;
    plan(&s);
    assert_int_equal(s.plan.n_items, 2); /* nobody is admitted to wait inside */
}

static void rows_of_chunks_are_bounded(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s);
    s.max_prompt_tokens = 16;
    struct request *decode = add(&s, REQUEST_DECODE, 5, 5, 10);
    struct request *first = add(&s, REQUEST_WAITING, 10, 0, 10);
    struct request *second = add(&s, REQUEST_WAITING, 10, 0, 10);
    add(&s, REQUEST_WAITING, 10, 0, 10);
    plan(&s);
    assert_int_equal(s.plan.n_items, 3);
    expect(&s, 0, decode, 1, false);
    expect(&s, 1, first, 10, true);
    expect(&s, 2, second, 6, true);
    s.max_tokens = MAX; /* the step's own bound is the smaller one now: 16 rows, one decodes */
    plan(&s);
    expect(&s, 2, second, 5, true);
}

static void changes_nothing_that_it_is_shown(void **state)
{
    (void)state;
    struct scene s;
    struct request before[MAX];
    scene_init(&s);
    add(&s, REQUEST_WAITING, 30, 0, 10);
    add(&s, REQUEST_PREFILL, 30, 10, 10);
    add(&s, REQUEST_DECODE, 30, 30, 10);
    memcpy(before, s.requests, sizeof before);
    struct request_lists lists = s.lists;
    plan(&s);
    plan(&s);
    assert_memory_equal(before, s.requests, sizeof before);
    assert_memory_equal(&lists, &s.lists, sizeof lists);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_gives_nothing),
        cmocka_unit_test(decodes_come_first_then_arrival_order),
        cmocka_unit_test(a_long_prompt_is_cut_and_the_rest_waits),
        cmocka_unit_test(admission_needs_blocks_for_prompt_and_answer),
        cmocka_unit_test(admission_needs_a_place),
        cmocka_unit_test(chunks_are_bounded_in_number),
        cmocka_unit_test(rows_of_chunks_are_bounded),
        cmocka_unit_test(changes_nothing_that_it_is_shown),
    };
    return cmocka_run_group_tests_name("scheduler", tests, NULL, NULL);
}
