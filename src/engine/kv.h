/* KV blocks: which are free, which belong to which request, which are only kept for later.
 *
 *     free:   [ 7 | 3 | 9 | ... ]  a stack of ids; the last one freed is handed out next
 *     idle:   5 <-> 6 <-> 2 | 0 <-> 3   kept though nobody uses them, the longest unused first; the
 *                          |            lasting ones stand behind all others
 *     tables: slot 0 [ 4 | 1 | 8 |   ]   positions 0..31 | 32..63 | 64..95 | not there yet
 *             slot 1 [ 4 | 2 |   |   ]   block 4 is shared: two references
 *
 * A block is in use (references), idle (none, but `kept`: the prefix cache may share it again), or
 * free. Only ids live here; the storage is the backend's. Reference counts are plain ints: the
 * engine thread is the only one that touches any of this after start.
 */
#ifndef FIRSTLIGHT_ENGINE_KV_H
#define FIRSTLIGHT_ENGINE_KV_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KV_NONE UINT32_MAX /* no block */

struct kv_block {
    int refs;
    bool kept;
    bool lasting;        /* kept, and given up only after all that are not lasting */
    uint32_t prev, next; /* in the idle list, while in it */
};

struct kv {
    uint32_t n_blocks;
    uint32_t n_free;
    uint32_t n_idle;
    uint32_t idle_first, idle_last;
    uint32_t idle_lasting; /* the first lasting one in the idle list */
    uint32_t *free;        /* (n_blocks), the first n_free are free */
    struct kv_block *blocks;
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

/* Makes the slot's table n_blocks long (never shorter) with free blocks; false, with nothing
 * changed, when too few are free. Idle blocks are not taken: kv_drop_idle makes them free. */
bool kv_grow(struct kv *kv, uint32_t slot, uint32_t n_blocks);
/* Appends a block that is in use or idle to the slot's table, as one more reference. */
void kv_share(struct kv *kv, uint32_t slot, uint32_t id);
/* Puts `id`, which holds the same, in the place of the slot's i-th block. */
void kv_swap(struct kv *kv, uint32_t slot, uint32_t i, uint32_t id);
/* Drops the slot's references, the last block's first, so that the idle list has a block before
 * those in front of it in the sequence. Harmless for an empty slot. */
void kv_release(struct kv *kv, uint32_t slot);
const uint32_t *kv_table(const struct kv *kv, uint32_t slot);

/* A reference of its own, for as long as a block is copied from. */
void kv_pin(struct kv *kv, uint32_t id);
void kv_unpin(struct kv *kv, uint32_t id);

/* A block in use that goes to the idle list, not to the free ones, after its last reference. */
void kv_keep(struct kv *kv, uint32_t id);
/* The same, of one that is given up after all others. */
void kv_keep_lasting(struct kv *kv, uint32_t id);
/* The opposite of both, for a block in use. */
void kv_unkeep(struct kv *kv, uint32_t id);
/* Makes an idle block free. */
void kv_drop_idle(struct kv *kv, uint32_t id);

/* The whole invariant: every block is free once, or idle once, or referenced exactly as often as
 * tables name it (so nothing may be pinned). For assertions and tests: linear in everything. */
bool kv_check(const struct kv *kv);

#endif
