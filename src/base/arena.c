#include "base/arena.h"

#include "base/mem.h"

#include <string.h>

#define ARENA_ALIGN     16
#define ARENA_BLOCK_MIN ((size_t)8 << 10)
#define ARENA_BLOCK_MAX ((size_t)1 << 20)

struct arena_block {
    struct arena_block *next;
    size_t size;
    size_t used;
    _Alignas(ARENA_ALIGN) char bytes[];
};

void arena_init(struct arena *a, size_t limit)
{
    *a = (struct arena){.limit = limit};
}

/* Blocks double, so that a large arena has few and a small one wastes little. */
static struct arena_block *arena_add_block(struct arena *a, size_t size)
{
    size_t want = a->head != NULL ? a->head->size * 2 : ARENA_BLOCK_MIN;
    size_t total;
    struct arena_block *block;

    if (want > ARENA_BLOCK_MAX)
        want = ARENA_BLOCK_MAX;
    if (want < size)
        want = size;
    if (!mem_add(want, sizeof(*block), &total) || (block = mem_alloc(total)) == NULL)
        return NULL;
    block->size = want;
    block->used = 0;
    block->next = a->head;
    a->head = block;
    return block;
}

void *arena_alloc(struct arena *a, size_t size)
{
    struct arena_block *block = a->head;
    size_t rounded;
    void *p;

    if (!mem_add(size, ARENA_ALIGN - 1, &rounded))
        return NULL;
    rounded &= ~(size_t)(ARENA_ALIGN - 1);
    if (rounded > a->limit - a->used) {
        a->exhausted = true;
        return NULL;
    }
    if (block == NULL || block->size - block->used < rounded) {
        block = arena_add_block(a, rounded);
        if (block == NULL)
            return NULL;
    }
    p = block->bytes + block->used;
    block->used += rounded;
    a->used += rounded;
    return p;
}

void *arena_array(struct arena *a, size_t count, size_t size)
{
    size_t total;
    void *p;

    if (!mem_mul(count, size, &total))
        return NULL;
    p = arena_alloc(a, total);
    if (p != NULL)
        memset(p, 0, total);
    return p;
}

char *arena_copy(struct arena *a, const void *bytes, size_t len)
{
    size_t total;
    char *p;

    if (!mem_add(len, 1, &total) || (p = arena_alloc(a, total)) == NULL)
        return NULL;
    if (len > 0)
        memcpy(p, bytes, len);
    p[len] = '\0';
    return p;
}

void arena_fini(struct arena *a)
{
    while (a->head != NULL) {
        struct arena_block *next = a->head->next;

        mem_free(a->head);
        a->head = next;
    }
    a->used = 0;
    a->exhausted = false;
}
