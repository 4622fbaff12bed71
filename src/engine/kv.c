#include "engine/kv.h"

#include "base/mem.h"
#include "kernels/kernels.h"

#include <string.h>

enum status kv_init(struct kv *kv, uint32_t n_blocks, uint32_t n_slots, uint32_t n_ctx,
                    struct err *err)
{
    *kv = (struct kv){.n_blocks = n_blocks, .n_slots = n_slots, .table_size = kv_blocks_for(n_ctx)};
    kv->free = mem_array(n_blocks, sizeof *kv->free);
    kv->blocks = mem_array(n_blocks, sizeof *kv->blocks);
    kv->tables = mem_array((size_t)n_slots * kv->table_size, sizeof *kv->tables);
    kv->lens = mem_array(n_slots, sizeof *kv->lens);
    kv->marks = mem_array(n_blocks, sizeof *kv->marks);
    if (!kv->free || !kv->blocks || !kv->tables || !kv->lens || !kv->marks) {
        kv_fini(kv);
        return err_set(err, STATUS_NO_MEMORY, "no memory for the tables of %u KV blocks", n_blocks);
    }
    for (uint32_t i = 0; i < n_blocks; i++)
        kv->free[i] = n_blocks - 1 - i; /* so that block 0 goes first */
    kv->n_free = n_blocks;
    kv->idle_first = kv->idle_last = kv->idle_lasting = KV_NONE;
    return STATUS_OK;
}

void kv_fini(struct kv *kv)
{
    mem_free(kv->free);
    mem_free(kv->blocks);
    mem_free(kv->tables);
    mem_free(kv->lens);
    mem_free(kv->marks);
    *kv = (struct kv){0};
}

uint32_t kv_blocks_for(uint32_t n_positions)
{
    return (uint32_t)(((uint64_t)n_positions + KV_BLOCK - 1) / KV_BLOCK);
}

/* --- the idle list -------------------------------------------------------------------------- */

/* Where a block goes that nobody uses any more: behind the others of its kind. */
static void idle_append(struct kv *kv, uint32_t id)
{
    struct kv_block *b = &kv->blocks[id];
    b->next = b->lasting ? KV_NONE : kv->idle_lasting;
    uint32_t *before = b->next != KV_NONE ? &kv->blocks[b->next].prev : &kv->idle_last;
    b->prev = *before;
    *before = id;
    *(b->prev != KV_NONE ? &kv->blocks[b->prev].next : &kv->idle_first) = id;
    if (b->lasting && kv->idle_lasting == KV_NONE)
        kv->idle_lasting = id;
    kv->n_idle++;
}

static void idle_remove(struct kv *kv, uint32_t id)
{
    const struct kv_block *b = &kv->blocks[id];
    *(b->prev != KV_NONE ? &kv->blocks[b->prev].next : &kv->idle_first) = b->next;
    *(b->next != KV_NONE ? &kv->blocks[b->next].prev : &kv->idle_last) = b->prev;
    if (kv->idle_lasting == id)
        kv->idle_lasting = b->next;
    kv->n_idle--;
}

/* --- references ----------------------------------------------------------------------------- */

static void acquire(struct kv *kv, uint32_t id)
{
    struct kv_block *b = &kv->blocks[id];
    REQUIRE(b->refs > 0 || b->kept); /* a free block is nobody's to share */
    if (b->refs++ == 0)
        idle_remove(kv, id);
}

static void kv_drop(struct kv *kv, uint32_t id)
{
    struct kv_block *b = &kv->blocks[id];
    REQUIRE(b->refs > 0);
    if (--b->refs > 0)
        return;
    if (b->kept)
        idle_append(kv, id);
    else
        kv->free[kv->n_free++] = id;
}

static uint32_t *table_of(struct kv *kv, uint32_t slot)
{
    REQUIRE(slot < kv->n_slots);
    return kv->tables + (size_t)slot * kv->table_size;
}

bool kv_grow(struct kv *kv, uint32_t slot, uint32_t n_blocks)
{
    uint32_t *table = table_of(kv, slot), *len = &kv->lens[slot];
    REQUIRE(n_blocks <= kv->table_size);
    if (n_blocks > *len && n_blocks - *len > kv->n_free)
        return false;
    while (*len < n_blocks) {
        uint32_t id = kv->free[--kv->n_free];
        REQUIRE(kv->blocks[id].refs == 0 && !kv->blocks[id].kept);
        kv->blocks[id].refs = 1;
        table[(*len)++] = id;
    }
    return true;
}

void kv_share(struct kv *kv, uint32_t slot, uint32_t id)
{
    REQUIRE(kv->lens[slot] < kv->table_size);
    acquire(kv, id);
    table_of(kv, slot)[kv->lens[slot]++] = id;
}

void kv_swap(struct kv *kv, uint32_t slot, uint32_t i, uint32_t id)
{
    uint32_t *entry = &table_of(kv, slot)[i];
    REQUIRE(i < kv->lens[slot]);
    acquire(kv, id); /* first: it may be the same block */
    kv_drop(kv, *entry);
    *entry = id;
}

void kv_release(struct kv *kv, uint32_t slot)
{
    const uint32_t *table = table_of(kv, slot);
    while (kv->lens[slot] > 0)
        kv_drop(kv, table[--kv->lens[slot]]);
}

const uint32_t *kv_table(const struct kv *kv, uint32_t slot)
{
    return kv->tables + (size_t)slot * kv->table_size;
}

void kv_pin(struct kv *kv, uint32_t id)
{
    acquire(kv, id);
}

void kv_unpin(struct kv *kv, uint32_t id)
{
    kv_drop(kv, id);
}

void kv_keep(struct kv *kv, uint32_t id)
{
    REQUIRE(kv->blocks[id].refs > 0);
    kv->blocks[id].kept = true;
}

void kv_keep_lasting(struct kv *kv, uint32_t id)
{
    kv_keep(kv, id);
    kv->blocks[id].lasting = true;
}

void kv_unkeep(struct kv *kv, uint32_t id)
{
    REQUIRE(kv->blocks[id].refs > 0);
    kv->blocks[id].kept = kv->blocks[id].lasting = false;
}

void kv_drop_idle(struct kv *kv, uint32_t id)
{
    REQUIRE(kv->blocks[id].refs == 0 && kv->blocks[id].kept);
    idle_remove(kv, id);
    kv->blocks[id].kept = kv->blocks[id].lasting = false;
    kv->free[kv->n_free++] = id;
}

/* --- the invariant -------------------------------------------------------------------------- */

#define MARK_FREE (-1)
#define MARK_IDLE (-2)

static void count_uses(const struct kv *kv, int *uses)
{
    memset(uses, 0, kv->n_blocks * sizeof *uses);
    for (uint32_t slot = 0; slot < kv->n_slots; slot++) {
        const uint32_t *table = kv_table(kv, slot);
        for (uint32_t i = 0; i < kv->lens[slot]; i++)
            uses[table[i]]++;
    }
}

/* Marks each block of both lists; false when one is in use, comes twice, or stands in the wrong
 * part of the idle list. */
static bool mark_lists(const struct kv *kv)
{
    uint32_t n_idle = 0;
    bool lasting = false;
    for (uint32_t i = 0; i < kv->n_free; i++) {
        const struct kv_block *b = &kv->blocks[kv->free[i]];
        if (kv->marks[kv->free[i]] != 0 || b->kept || b->lasting)
            return false;
        kv->marks[kv->free[i]] = MARK_FREE;
    }
    for (uint32_t id = kv->idle_first; id != KV_NONE; id = kv->blocks[id].next) {
        lasting |= id == kv->idle_lasting;
        if (kv->marks[id] != 0 || !kv->blocks[id].kept || kv->blocks[id].lasting != lasting)
            return false;
        kv->marks[id] = MARK_IDLE;
        n_idle++;
    }
    return n_idle == kv->n_idle && lasting == (kv->idle_lasting != KV_NONE);
}

bool kv_check(const struct kv *kv)
{
    uint32_t n_used = 0;
    if (kv->n_free > kv->n_blocks || kv->n_idle > kv->n_blocks)
        return false;
    count_uses(kv, kv->marks);
    for (uint32_t id = 0; id < kv->n_blocks; id++) {
        if (kv->blocks[id].refs != kv->marks[id])
            return false;
        n_used += kv->blocks[id].refs > 0;
    }
    return mark_lists(kv) && kv->n_free + kv->n_idle + n_used == kv->n_blocks;
}
