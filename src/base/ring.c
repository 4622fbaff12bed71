#include "base/ring.h"

#include "base/err.h"
#include "base/mem.h"

#include <pthread.h>

bool ring_init(struct ring *r, size_t capacity)
{
    size_t size = 2;
    while (size < capacity)
        size *= 2;
    *r = (struct ring){.slots = mem_array(size, sizeof *r->slots), .mask = size - 1};
    return r->slots != NULL;
}

void ring_fini(struct ring *r)
{
    mem_free(r->slots);
    r->slots = NULL;
}

static void check_thread(uint64_t *owner)
{
#ifdef FIRSTLIGHT_DEBUG
    uint64_t self = (uint64_t)pthread_self();
    if (*owner == 0)
        *owner = self;
    REQUIRE(*owner == self);
#else
    (void)owner;
#endif
}

bool ring_push(struct ring *r, uint64_t word, bool *was_empty)
{
    check_thread(&r->producer);
    size_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    if (tail - atomic_load_explicit(&r->head, memory_order_acquire) > r->mask)
        return false;
    r->slots[tail & r->mask] = word;
    /* seq_cst, and the consumer checks ring_empty after announcing that it sleeps (also seq_cst):
     * one of the two sees the other, so no wake-up is lost. */
    atomic_store_explicit(&r->tail, tail + 1, memory_order_seq_cst);
    if (was_empty)
        *was_empty = atomic_load_explicit(&r->head, memory_order_seq_cst) == tail;
    return true;
}

bool ring_pop(struct ring *r, uint64_t *word)
{
    check_thread(&r->consumer);
    size_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    if (head == atomic_load_explicit(&r->tail, memory_order_acquire))
        return false;
    *word = r->slots[head & r->mask];
    /* seq_cst pairs with the producer's look at head: either it sees this pop and wakes us, or our
     * next look at tail sees its push. */
    atomic_store_explicit(&r->head, head + 1, memory_order_seq_cst);
    return true;
}

bool ring_empty(struct ring *r)
{
    return atomic_load_explicit(&r->head, memory_order_relaxed) ==
           atomic_load_explicit(&r->tail, memory_order_seq_cst);
}

void ring_hand_over_producer(struct ring *r)
{
    r->producer = 0;
}

void ring_hand_over_consumer(struct ring *r)
{
    r->consumer = 0;
}
