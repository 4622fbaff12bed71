#include "base/json_memory.h"

#include "base/err.h"
#include "base/mem.h"

#include <setjmp.h>
#include <stdint.h>
#include <string.h>

/* What one reading has taken and not given back: a hash table of the addresses, NULL where there is
 * none. An address lies in its place, or behind it with no gap between. A refused text gives its
 * values back in the order in which they came, and they can be a million: each has to be found at
 * once. Nothing can stand in the memory itself, which may go by free() and by other threads.
 */
struct taken {
    void **at;
    size_t n, cap; /* cap is a power of two, and at least a quarter is free; 0 before the first */
};

struct reading {
    jmp_buf out;
    struct taken taken;
};

static _Thread_local struct reading *reading; /* NULL: none */

struct json_memory_source json_memory_source = {mem_alloc, mem_free};

/* The top bits after a multiplication by 2^64 over the golden ratio (Fibonacci hashing): addresses
 * come in even steps, which that spreads evenly. */
static size_t json_memory_place(const struct taken *t, const void *p)
{
    return (uint64_t)(uintptr_t)p * 0x9e3779b97f4a7c15u >> (64 - __builtin_ctzll(t->cap));
}

/* Where p is, or the gap where it would be. */
static size_t json_memory_find(const struct taken *t, const void *p)
{
    size_t i = json_memory_place(t, p);
    while (t->at[i] && t->at[i] != p)
        i = (i + 1) & (t->cap - 1);
    return i;
}

static bool json_memory_make_room(struct taken *t)
{
    if (t->n < t->cap / 4 * 3)
        return true;
    struct taken more = {.n = t->n, .cap = t->cap ? 2 * t->cap : 64};
    more.at = json_memory_source.take(more.cap * sizeof *more.at);
    if (!more.at)
        return false;
    memset(more.at, 0, more.cap * sizeof *more.at);
    for (size_t i = 0; i < t->cap; i++)
        if (t->at[i])
            more.at[json_memory_find(&more, t->at[i])] = t->at[i];
    json_memory_source.give_back(t->at);
    *t = more;
    return true;
}

static void *json_memory_take(size_t size)
{
    struct reading *r = reading;
    void *p = !r || json_memory_make_room(&r->taken) ? json_memory_source.take(size) : NULL;
    if (r && !p)
        longjmp(r->out, 1);
    if (r) {
        r->taken.at[json_memory_find(&r->taken, p)] = p;
        r->taken.n++;
    }
    return p;
}

/* Those behind the gap move up, where it parts them from their places. */
static void json_memory_forget(struct taken *t, const void *p)
{
    size_t mask = t->cap - 1, gap = t->cap ? json_memory_find(t, p) : 0;
    if (!t->cap || !t->at[gap])
        return;
    for (size_t i = (gap + 1) & mask; t->at[i]; i = (i + 1) & mask) {
        if (((i - json_memory_place(t, t->at[i])) & mask) < ((i - gap) & mask))
            continue;
        t->at[gap] = t->at[i];
        gap = i;
    }
    t->at[gap] = NULL;
    t->n--;
}

static void json_memory_give_back(void *p)
{
    if (p && reading)
        json_memory_forget(&reading->taken, p);
    json_memory_source.give_back(p);
}

__attribute__((constructor)) static void begin(void)
{
    json_set_alloc_funcs(json_memory_take, json_memory_give_back);
}

static void json_memory_end(struct taken *t, bool failed)
{
    reading = NULL;
    for (size_t i = 0; failed && i < t->cap; i++)
        json_memory_source.give_back(t->at[i]);
    json_memory_source.give_back(t->at);
}

bool json_memory_try(void (*make)(void *arg), void *arg)
{
    struct reading here;
    here.taken = (struct taken){0};
    REQUIRE(!reading);
    if (setjmp(here.out) != 0) {
        json_memory_end(&here.taken, true);
        return false;
    }
    reading = &here;
    make(arg);
    json_memory_end(&here.taken, false);
    return true;
}

struct text {
    const char *bytes;
    size_t len, flags;
    json_error_t *fault;
    json_t *value;
};

static void json_memory_load(void *arg)
{
    struct text *t = arg;
    t->value = json_loadb(t->bytes, t->len, t->flags, t->fault);
}

json_t *json_memory_read(const char *text, size_t len, size_t flags, json_error_t *fault,
                         bool *no_memory)
{
    struct text t = {.bytes = text, .len = len, .flags = flags, .fault = fault};
    *no_memory = !json_memory_try(json_memory_load, &t);
    return *no_memory ? NULL : t.value;
}
