#include "serve/json_memory.h"

#include "base/err.h"
#include "base/mem.h"

#include <setjmp.h>

/* What one reading has taken and not given back, the latest last; gaps are NULL. */
struct reading {
    jmp_buf out;
    void **taken;
    size_t n, cap;
};

static _Thread_local struct reading *reading; /* NULL: none */

struct json_memory_source json_memory_source = {mem_alloc, mem_resize, mem_free};

static bool make_room(struct reading *r)
{
    size_t cap = r->cap ? 2 * r->cap : 256;
    if (r->n < r->cap)
        return true;
    void **taken = json_memory_source.resize(r->taken, cap * sizeof *taken);
    if (!taken)
        return false;
    r->taken = taken;
    r->cap = cap;
    return true;
}

static void *take(size_t size)
{
    struct reading *r = reading;
    void *p = !r || make_room(r) ? json_memory_source.take(size) : NULL;
    if (p && r)
        r->taken[r->n++] = p;
    else if (r)
        longjmp(r->out, 1);
    return p;
}

/* What goes while a text is read is mostly what came last. */
static void forget(struct reading *r, const void *p)
{
    size_t i = r->n;
    while (i > 0 && r->taken[i - 1] != p)
        i--;
    if (i > 0)
        r->taken[i - 1] = NULL;
    while (r->n > 0 && !r->taken[r->n - 1])
        r->n--;
}

static void give_back(void *p)
{
    if (p && reading)
        forget(reading, p);
    json_memory_source.give_back(p);
}

__attribute__((constructor)) static void begin(void)
{
    json_set_alloc_funcs(take, give_back);
}

static void end(struct reading *r, bool failed)
{
    reading = NULL;
    for (size_t i = 0; failed && i < r->n; i++)
        json_memory_source.give_back(r->taken[i]);
    json_memory_source.give_back(r->taken);
}

bool json_memory_try(void (*make)(void *arg), void *arg)
{
    struct reading here;
    here.taken = NULL;
    here.n = here.cap = 0;
    REQUIRE(!reading);
    if (setjmp(here.out) != 0) {
        end(&here, true);
        return false;
    }
    reading = &here;
    make(arg);
    end(&here, false);
    return true;
}

struct text {
    const char *bytes;
    size_t len, flags;
    json_error_t *fault;
    json_t *value;
};

static void load(void *arg)
{
    struct text *t = arg;
    t->value = json_loadb(t->bytes, t->len, t->flags, t->fault);
}

json_t *json_memory_read(const char *text, size_t len, size_t flags, json_error_t *fault,
                         bool *no_memory)
{
    struct text t = {.bytes = text, .len = len, .flags = flags, .fault = fault};
    *no_memory = !json_memory_try(load, &t);
    return *no_memory ? NULL : t.value;
}
