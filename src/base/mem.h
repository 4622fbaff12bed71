/* Memory: the one way to allocate.
 *
 * After start the engine thread and the workers neither allocate nor free: they call
 * mem_forbid(true), and in debug builds (-DFIRSTLIGHT_DEBUG) any mem_* call on such a thread
 * aborts. The folder that allocates frees. All functions return NULL when memory is short or a size
 * overflows; the caller turns that into STATUS_NO_MEMORY.
 */
#ifndef FIRSTLIGHT_BASE_MEM_H
#define FIRSTLIGHT_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>

void *mem_alloc(size_t size);                 /* not cleared */
void *mem_zalloc(size_t size);                /* cleared */
void *mem_array(size_t count, size_t size);   /* cleared; count * size checked */
void *mem_resize(void *p, size_t size);       /* realloc; on failure p stays valid */
void *mem_aligned(size_t size);               /* 64-byte aligned, cleared; freed by mem_free */
char *mem_strdup(const char *s);              /* s may be NULL: returns NULL */
char *mem_strndup(const char *s, size_t len); /* copies exactly len bytes and terminates */
void mem_free(void *p);

/* Says whether the calling thread may allocate (threads start allowed). */
void mem_forbid(bool forbid);

/* Physical memory still available, in bytes (MemAvailable), bounded by the process's cgroups. */
size_t mem_available(void);

/* Parses "512M", "2G", "1048576", "64K". Returns false on anything else or on overflow. */
bool mem_parse_size(const char *text, size_t *out);

/* a + b and a * b in size_t; false on overflow, then *out is untouched. */
static inline bool mem_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline bool mem_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

#endif
