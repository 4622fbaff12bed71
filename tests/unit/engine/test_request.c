/* Request states: the edges there are, and that a state is a list. */
#include "engine/request.h"
#include "support/cmocka_all.h"

static void has_only_the_drawn_edges(void **state)
{
    (void)state;
    static const enum request_state drawn[][2] = {
        {REQUEST_FREE, REQUEST_QUEUED},     {REQUEST_QUEUED, REQUEST_WAITING},
        {REQUEST_WAITING, REQUEST_PREFILL}, {REQUEST_WAITING, REQUEST_ENDED},
        {REQUEST_PREFILL, REQUEST_DECODE},  {REQUEST_PREFILL, REQUEST_ENDED},
        {REQUEST_DECODE, REQUEST_ENDED},    {REQUEST_ENDED, REQUEST_FREE},
        {REQUEST_PREFILL, REQUEST_WAITING}, {REQUEST_DECODE, REQUEST_WAITING},
        {REQUEST_DECODE, REQUEST_DECODE},
    };
    size_t found = 0;
    for (int from = 0; from < REQUEST_STATES; from++)
        for (int to = 0; to < REQUEST_STATES; to++)
            found += request_edge((enum request_state)from, (enum request_state)to);
    assert_int_equal(found, sizeof drawn / sizeof drawn[0]);
    for (size_t i = 0; i < sizeof drawn / sizeof drawn[0]; i++)
        assert_true(request_edge(drawn[i][0], drawn[i][1]));
}

static void moves_between_lists_in_order(void **state)
{
    (void)state;
    struct request requests[4] = {0};
    struct request_lists lists = {0};
    for (int i = 0; i < 4; i++)
        request_put(&lists, &requests[i]);
    for (int i = 0; i < 4; i++) {
        request_move(&lists, &requests[i], REQUEST_QUEUED);
        request_move(&lists, &requests[i], REQUEST_WAITING);
    }
    assert_int_equal(lists.of[REQUEST_FREE].n, 0);
    assert_int_equal(lists.of[REQUEST_WAITING].n, 4);
    request_move(&lists, &requests[1], REQUEST_ENDED); /* from the middle */
    struct request_list *waiting = &lists.of[REQUEST_WAITING];
    assert_ptr_equal(waiting->first, &requests[0]);
    assert_ptr_equal(waiting->first->next, &requests[2]);
    assert_ptr_equal(waiting->last, &requests[3]);
    request_move(&lists, &requests[3], REQUEST_PREFILL); /* the last */
    request_move(&lists, &requests[0], REQUEST_PREFILL); /* the first */
    assert_ptr_equal(waiting->first, &requests[2]);
    assert_ptr_equal(waiting->last, &requests[2]);
    assert_ptr_equal(lists.of[REQUEST_PREFILL].first, &requests[3]);
    request_move(&lists, &requests[2], REQUEST_ENDED);
    assert_null(waiting->first);
    assert_null(waiting->last);
    request_move(&lists, &requests[1], REQUEST_FREE);
    assert_ptr_equal(lists.of[REQUEST_FREE].first, &requests[1]);
}

static void counts_seen_tokens(void **state)
{
    (void)state;
    struct token_counts counts;
    assert_true(token_counts_init(&counts, 10, 100));
    assert_int_equal(counts.cap, 10);
    token_counts_add(&counts, 9, false);
    token_counts_add(&counts, 0, true);
    token_counts_add(&counts, 9, true);
    token_counts_add(&counts, 9, true);
    token_counts_add(&counts, 3, false);
    assert_int_equal(counts.n, 3);
    assert_int_equal(counts.seen[0].token, 9);
    assert_int_equal(counts.seen[0].generated, 2);
    assert_int_equal(counts.seen[1].generated, 1);
    assert_int_equal(counts.seen[2].generated, 0);
    token_counts_fini(&counts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_only_the_drawn_edges),
        cmocka_unit_test(moves_between_lists_in_order),
        cmocka_unit_test(counts_seen_tokens),
    };
    return cmocka_run_group_tests_name("request", tests, NULL, NULL);
}
