#include "http/http2_memory.h"

#include "base/mem.h"

#include <malloc.h>

static void *http2_memory_count(struct http2_memory *m, void *p)
{
    m->bytes += malloc_usable_size(p);
    return p;
}

static void *http2_memory_take(size_t size, void *arg)
{
    return http2_memory_count(arg, mem_alloc(size));
}

static void *take_zeroed(size_t n, size_t size, void *arg)
{
    return http2_memory_count(arg, mem_array(n, size));
}

static void http2_memory_give_back(void *p, void *arg)
{
    struct http2_memory *m = arg;
    m->bytes -= malloc_usable_size(p);
    mem_free(p);
}

static void *resize(void *p, size_t size, void *arg)
{
    struct http2_memory *m = arg;
    size_t before = malloc_usable_size(p);
    void *moved = mem_resize(p, size);
    if (!moved) /* p is as it was */
        return NULL;
    m->bytes -= before;
    return http2_memory_count(m, moved);
}

void http2_memory_init(struct http2_memory *m)
{
    *m = (struct http2_memory){.mem = {.mem_user_data = m,
                                       .malloc = http2_memory_take,
                                       .free = http2_memory_give_back,
                                       .calloc = take_zeroed,
                                       .realloc = resize}};
}
