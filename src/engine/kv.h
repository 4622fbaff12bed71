/* KV blocks: which blocks are free, and which belong to which request.
 *
 *     free:   [ 7 | 3 | 9 | ... ]  a stack of ids; the last one freed is handed out next
 *     tables: slot 0 [ 4 | 1 | 8 |   ]   positions 0..31 | 32..63 | 64..95 | not reserved
 *             slot 1 [ 2 |   |   |   ]
 *
 * Only ids live here; the storage is the backend's. A running request holds every block that it can
 * ever need, so it never fails for want of one. Reference counts are plain ints: the engine thread
 * is the only one that touches any of this after start. (Counts above 1 are for the prefix cache.)
 */
#ifndef FIRSTLIGHT_ENGINE_KV_H
#define FIRSTLIGHT_ENGINE_KV_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kv {
    uint32_t n_blocks;
    uint32_t n_free;
    uint32_t *free; /* (n_blocks), the first n_free are free */
    int *refs;      /* (n_blocks) */
    uint32_t n_slots;
    uint32_t table_size; /* blocks of the longest sequence */
    uint32_t *tables;    /* (n_slots, table_size) */
    uint32_t *lens;      /* (n_slots) blocks held */
    int *marks;          /* (n_blocks) kv_check's scratch */
};

enum status kv_init(struct kv *kv, uint32_t n_blocks, uint32_t n_slots, uint32_t n_ctx,
                    struct err *err);
void kv_fini(struct kv *kv);

/* Blocks that n_positions need. */
uint32_t kv_blocks_for(uint32_t n_positions);

/* Gives a slot that holds none its blocks; false, with nothing changed, when too few are free. */
bool kv_reserve(struct kv *kv, uint32_t slot, uint32_t n_blocks);
/* Drops the slot's references; a block without any is free again. Harmless for an empty slot. */
void kv_release(struct kv *kv, uint32_t slot);
const uint32_t *kv_table(const struct kv *kv, uint32_t slot);

/* The whole invariant: every block is either free once or referenced exactly as often as tables
 * name it. For assertions and tests: linear in everything. */
bool kv_check(const struct kv *kv);

#endif
