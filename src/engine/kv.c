#include "engine/kv.h"

#include "base/mem.h"
#include "kernels/kernels.h"

#include <string.h>

enum status kv_init(struct kv *kv, uint32_t n_blocks, uint32_t n_slots, uint32_t n_ctx,
                    struct err *err)
{
    *kv = (struct kv){.n_blocks = n_blocks, .n_slots = n_slots, .table_size = kv_blocks_for(n_ctx)};
    kv->free = mem_array(n_blocks, sizeof *kv->free);
    kv->refs = mem_array(n_blocks, sizeof *kv->refs);
    kv->tables = mem_array((size_t)n_slots * kv->table_size, sizeof *kv->tables);
    kv->lens = mem_array(n_slots, sizeof *kv->lens);
    kv->marks = mem_array(n_blocks, sizeof *kv->marks);
    if (!kv->free || !kv->refs || !kv->tables || !kv->lens || !kv->marks) {
        kv_fini(kv);
        return err_set(err, STATUS_NO_MEMORY, "no memory for the tables of %u KV blocks", n_blocks);
    }
    for (uint32_t i = 0; i < n_blocks; i++)
        kv->free[i] = n_blocks - 1 - i; /* so that block 0 goes first */
    kv->n_free = n_blocks;
    return STATUS_OK;
}

void kv_fini(struct kv *kv)
{
    mem_free(kv->free);
    mem_free(kv->refs);
    mem_free(kv->tables);
    mem_free(kv->lens);
    mem_free(kv->marks);
    *kv = (struct kv){0};
}

uint32_t kv_blocks_for(uint32_t n_positions)
{
    return (uint32_t)(((uint64_t)n_positions + KV_BLOCK - 1) / KV_BLOCK);
}

bool kv_reserve(struct kv *kv, uint32_t slot, uint32_t n_blocks)
{
    REQUIRE(slot < kv->n_slots && kv->lens[slot] == 0 && n_blocks <= kv->table_size);
    if (n_blocks > kv->n_free)
        return false;
    uint32_t *table = kv->tables + (size_t)slot * kv->table_size;
    for (uint32_t i = 0; i < n_blocks; i++) {
        uint32_t id = kv->free[--kv->n_free];
        REQUIRE(kv->refs[id] == 0);
        kv->refs[id] = 1;
        table[i] = id;
    }
    kv->lens[slot] = n_blocks;
    return true;
}

void kv_release(struct kv *kv, uint32_t slot)
{
    REQUIRE(slot < kv->n_slots);
    const uint32_t *table = kv_table(kv, slot);
    for (uint32_t i = kv->lens[slot]; i-- > 0;) {
        REQUIRE(kv->refs[table[i]] > 0);
        if (--kv->refs[table[i]] == 0)
            kv->free[kv->n_free++] = table[i];
    }
    kv->lens[slot] = 0;
}

const uint32_t *kv_table(const struct kv *kv, uint32_t slot)
{
    return kv->tables + (size_t)slot * kv->table_size;
}

static void count_uses(const struct kv *kv, int *uses)
{
    memset(uses, 0, kv->n_blocks * sizeof *uses);
    for (uint32_t slot = 0; slot < kv->n_slots; slot++) {
        const uint32_t *table = kv_table(kv, slot);
        for (uint32_t i = 0; i < kv->lens[slot]; i++)
            uses[table[i]]++;
    }
}

bool kv_check(const struct kv *kv)
{
    if (kv->n_free > kv->n_blocks)
        return false;
    count_uses(kv, kv->marks);
    uint32_t n_used = 0;
    for (uint32_t id = 0; id < kv->n_blocks; id++) {
        if (kv->refs[id] != kv->marks[id])
            return false;
        n_used += kv->refs[id] > 0;
    }
    for (uint32_t i = 0; i < kv->n_free; i++) {
        if (kv->marks[kv->free[i]] != 0) /* in use, or in the stack twice */
            return false;
        kv->marks[kv->free[i]] = -1;
    }
    return kv->n_free + n_used == kv->n_blocks;
}
