/* The queue of a word's merges gives what a sorted list gives, whatever comes in which order. */
#include "text/tokenizer/bpe_queue.h"

#include "support/cmocka_all.h"
#include "support/random.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 20000 };

struct world {
    struct bpe_queue queue;
    uint64_t sorted[ROOM]; /* from the largest to the smallest */
    size_t n;
    size_t most; /* that waited at once */
};

static void push(struct world *w, uint64_t key)
{
    size_t low = 0, high = w->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->sorted[middle] > key)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(w->sorted + low + 1, w->sorted + low, (w->n - low) * sizeof *w->sorted);
    w->sorted[low] = key;
    w->most = ++w->n > w->most ? w->n : w->most;
    bpe_queue_push(&w->queue, key);
    assert_true(w->queue.n_nodes <= w->most);
}

static void pop(struct world *w)
{
    uint64_t expected = w->n > 0 ? w->sorted[--w->n] : BPE_QUEUE_NONE;
    assert_true(bpe_queue_pop(&w->queue) == expected);
}

/* Keys as words have them: a few ranks, places that go up. Without ranks: anything. */
static uint64_t make_key(struct random *seed, unsigned ranks, uint32_t place)
{
    uint64_t r = random_next(seed);
    if (ranks == 0)
        return r >> 1;
    return (r % ranks) << 32 | place;
}

static void against_a_sorted_list(void **state)
{
    static const unsigned ranks[] = {1, 2, 3, 7, 40, 0};
    struct world *w = calloc(1, sizeof *w);
    struct random seed = {5};
    (void)state;

    w->queue.heap = malloc(ROOM * sizeof *w->queue.heap);
    w->queue.nodes = malloc(ROOM * sizeof *w->queue.nodes);
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
        bpe_queue_clear(&w->queue);
        w->n = w->most = 0;
        for (uint32_t place = 0; place < 3000; place++)
            push(w, make_key(&seed, ranks[i], place));
        for (uint32_t turn = 0; turn < 6000; turn++) {
            if (random_next(&seed) % 5 < 2)
                push(w, make_key(&seed, ranks[i], turn));
            else
                pop(w);
        }
        while (w->n > 0)
            pop(w);
        pop(w); /* nothing is left */
    }
    free(w->queue.heap);
    free(w->queue.nodes);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_a_sorted_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
