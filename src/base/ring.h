/* A ring of 64-bit words with one producer thread and one consumer thread, without locks.
 *
 *      head (consumer) ─► taken ... waiting ... ◄─ tail (producer)        capacity a power of two
 *
 * tail is stored after the slot is written and loaded (acquire) before a slot is read, so the
 * consumer sees whatever the producer wrote before the push (the request, its stamps). head is
 * stored after the slot was read and loaded (acquire) by the producer, so a slot is not overwritten
 * while it is being read. Release would do for both stores; they are seq_cst for sleeping: a
 * consumer that finds the ring empty by ring_empty (seq_cst) may sleep, since either it sees the
 * push or the producer sees the ring as empty and wakes it. Each end remembers its thread on first
 * use and asserts it from then on in debug builds, until another thread is given that end.
 */
#ifndef FIRSTLIGHT_BASE_RING_H
#define FIRSTLIGHT_BASE_RING_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ring {
    uint64_t *slots;
    size_t mask;
    alignas(64) atomic_size_t head; /* written by the consumer */
    uint64_t consumer;
    alignas(64) atomic_size_t tail; /* written by the producer */
    uint64_t producer;
};

bool ring_init(struct ring *r, size_t capacity); /* rounded up to a power of two; false: memory */
void ring_fini(struct ring *r);

/* false when full. *was_empty (may be NULL) says whether the consumer may be asleep: a producer
 * wakes it only then. */
bool ring_push(struct ring *r, uint64_t word, bool *was_empty);
bool ring_pop(struct ring *r, uint64_t *word); /* false when empty */
bool ring_empty(struct ring *r);               /* consumer's view */

/* The end that the calling thread has passes to whichever thread uses it next. */
void ring_hand_over_producer(struct ring *r);
void ring_hand_over_consumer(struct ring *r);

#endif
