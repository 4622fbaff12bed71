/* The ring: order, fullness, and one producer against one consumer with sleeping and waking. */
#include "base/ring.h"
#include "base/wake.h"
#include "support/cmocka_all.h"

#include <pthread.h>

static void keeps_order_and_says_full(void **state)
{
    (void)state;
    struct ring r;
    assert_true(ring_init(&r, 3)); /* rounded up to 4 */
    uint64_t word;
    bool was_empty;
    assert_false(ring_pop(&r, &word));
    for (int lap = 0; lap < 5; lap++) {
        for (uint64_t i = 0; i < 4; i++) {
            assert_true(ring_push(&r, i * 7, &was_empty));
            assert_int_equal(was_empty, i == 0);
        }
        assert_false(ring_push(&r, 99, NULL));
        for (uint64_t i = 0; i < 4; i++) {
            assert_true(ring_pop(&r, &word));
            assert_int_equal(word, i * 7);
        }
        assert_true(ring_empty(&r));
    }
    ring_fini(&r);
}

#define WORDS 200000

struct pair {
    struct ring ring;
    struct wake wake;
};

static void *produce(void *arg)
{
    struct pair *p = arg;
    for (uint64_t i = 1; i <= WORDS;) {
        bool was_empty;
        if (!ring_push(&p->ring, i, &was_empty))
            continue;
        if (was_empty)
            wake_signal(&p->wake);
        i++;
    }
    return NULL;
}

/* The consumer sleeps whenever it finds nothing: a lost wake-up would hang here. */
static void loses_no_word_and_no_wake_up(void **state)
{
    (void)state;
    struct pair p;
    struct err err;
    assert_true(ring_init(&p.ring, 64));
    assert_int_equal(wake_init(&p.wake, &err), STATUS_OK);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, produce, &p), 0);
    uint64_t expected = 1;
    while (expected <= WORDS) {
        uint64_t word;
        if (!ring_pop(&p.ring, &word)) {
            wake_wait(&p.wake);
            continue;
        }
        assert_int_equal(word, expected);
        expected++;
    }
    pthread_join(thread, NULL);
    wake_fini(&p.wake);
    ring_fini(&p.ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_order_and_says_full),
        cmocka_unit_test(loses_no_word_and_no_wake_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
