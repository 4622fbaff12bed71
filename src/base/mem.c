#include "base/mem.h"

#include "base/cgroup.h"
#include "base/err.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MEM_ALIGNMENT 64

static _Thread_local bool forbidden;

void mem_forbid(bool forbid)
{
    forbidden = forbid;
}

static void check_allowed(void)
{
#ifdef FIRSTLIGHT_DEBUG
    REQUIRE(!forbidden);
#endif
}

void *mem_alloc(size_t size)
{
    check_allowed();
    return malloc(size ? size : 1);
}

void *mem_zalloc(size_t size)
{
    check_allowed();
    return calloc(1, size ? size : 1);
}

void *mem_array(size_t count, size_t size)
{
    size_t bytes;
    return mem_mul(count, size, &bytes) ? mem_zalloc(bytes) : NULL;
}

void *mem_resize(void *p, size_t size)
{
    check_allowed();
    return realloc(p, size ? size : 1);
}

void *mem_aligned(size_t size)
{
    check_allowed();
    size_t padded;
    if (!mem_add(size, MEM_ALIGNMENT - 1, &padded))
        return NULL;
    padded &= ~(size_t)(MEM_ALIGNMENT - 1);
    void *p = aligned_alloc(MEM_ALIGNMENT, padded ? padded : MEM_ALIGNMENT);
    if (p)
        memset(p, 0, padded);
    return p;
}

char *mem_strndup(const char *s, size_t len)
{
    char *copy = mem_alloc(len + 1);
    if (!copy)
        return NULL;
    memcpy(copy, s, len);
    copy[len] = '\0';
    return copy;
}

char *mem_strdup(const char *s)
{
    return s ? mem_strndup(s, strlen(s)) : NULL;
}

void mem_free(void *p)
{
    if (p)
        check_allowed();
    free(p);
}

static size_t mem_read_number(const char *path, const char *key)
{
    FILE *f = fopen(path, "r");
    if (!f)
        return SIZE_MAX;
    char line[256];
    size_t value = SIZE_MAX;
    size_t key_len = strlen(key);
    while (fgets(line, sizeof line, f)) {
        unsigned long long n;
        if (strncmp(line, key, key_len) == 0 && sscanf(line + key_len, " %llu", &n) == 1) {
            value = (size_t)n;
            break;
        }
    }
    fclose(f);
    return value;
}

size_t mem_available(void)
{
    size_t kib = mem_read_number("/proc/meminfo", "MemAvailable:");
    size_t available = kib == SIZE_MAX ? SIZE_MAX : kib * 1024;
    size_t room = cgroup_memory_room();
    if (room < available)
        available = room;
    return available;
}

bool mem_parse_size(const char *text, size_t *out)
{
    if (*text < '0' || *text > '9')
        return false;
    char *end;
    unsigned long long n = strtoull(text, &end, 10);
    size_t unit = 1;
    if (*end == 'K' || *end == 'k')
        unit = (size_t)1 << 10;
    else if (*end == 'M' || *end == 'm')
        unit = (size_t)1 << 20;
    else if (*end == 'G' || *end == 'g')
        unit = (size_t)1 << 30;
    else if (*end != '\0')
        return false;
    if (*end != '\0' && end[1] != '\0')
        return false;
    return n != UINT64_MAX && mem_mul((size_t)n, unit, out);
}
