#include "base/reserve.h"

#include "base/mem.h"

#include <malloc.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

union block {
    union block *next; /* while it is free */
    alignas(64) unsigned char bytes[RESERVE_BLOCK_BYTES];
};

static union block blocks[RESERVE_BLOCKS];
static union block *first_free;
static uint32_t n_touched; /* blocks that were in use at least once: the others follow them */
static atomic_uint n_used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void reserve_open(void)
{
    pthread_mutex_lock(&lock);
    for (uint32_t i = n_touched; i < RESERVE_BLOCKS; i++)
        memset(&blocks[i], 1, sizeof blocks[i]); /* not 0: those pages exist already, shared */
    pthread_mutex_unlock(&lock);
}

static bool is_block(const void *p)
{
    uintptr_t at = (uintptr_t)p, start = (uintptr_t)blocks;
    return at >= start && at < start + sizeof blocks;
}

static void *take_block(size_t size)
{
    union block *b = NULL;
    if (size > RESERVE_BLOCK_BYTES)
        return NULL;
    pthread_mutex_lock(&lock);
    if (first_free) {
        b = first_free;
        first_free = b->next;
    } else if (n_touched < RESERVE_BLOCKS) {
        b = &blocks[n_touched++];
    }
    pthread_mutex_unlock(&lock);
    if (b)
        atomic_fetch_add(&n_used, 1);
    return b;
}

static void give_block(void *p)
{
    union block *b = p;
    pthread_mutex_lock(&lock);
    b->next = first_free;
    first_free = b;
    pthread_mutex_unlock(&lock);
    atomic_fetch_sub(&n_used, 1);
}

void *reserve_alloc(size_t size)
{
    void *p = mem_alloc(size);
    return p ? p : take_block(size);
}

void *reserve_zalloc(size_t size)
{
    void *p = reserve_alloc(size);
    return p ? memset(p, 0, size) : NULL;
}

/* What the system gave before; NULL leaves it as it is. */
static void *resize_own(void *p, size_t size)
{
    void *q = mem_resize(p, size);
    if (q)
        return q;
    size_t was = malloc_usable_size(p);
    if (!(q = take_block(size)))
        return NULL;
    memcpy(q, p, was < size ? was : size);
    mem_free(p);
    return q;
}

void *reserve_resize(void *p, size_t size)
{
    if (!p)
        return reserve_alloc(size);
    if (!is_block(p))
        return resize_own(p, size);
    if (size <= RESERVE_BLOCK_BYTES)
        return p;
    void *q = mem_alloc(size);
    if (!q)
        return NULL;
    memcpy(q, p, RESERVE_BLOCK_BYTES);
    give_block(p);
    return q;
}

void reserve_free(void *p)
{
    if (p && is_block(p))
        give_block(p);
    else
        mem_free(p);
}

bool reserve_is_low(void)
{
    return atomic_load_explicit(&n_used, memory_order_relaxed) > RESERVE_BLOCKS / 2;
}
