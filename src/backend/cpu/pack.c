/* The packed weights: one mapping in huge pages, the matrices in the order in which a step reads
 * them. Each worker packs the panels that it will multiply with, so that on machines with several
 * memory nodes it also is the first to touch them. */
#include "backend/cpu/cpu.h"

#include "base/mem.h"

#include <sys/mman.h>

#define MIB       (1024.0 * 1024.0)
#define HUGE_PAGE ((size_t)2 << 20)

#define LAYER_LINEARS 7

/* Matrix i in the order of use; NULL past the last. */
static struct linear *linear_at(struct cpu *c, size_t i)
{
    size_t layer = i / LAYER_LINEARS, n_layers = c->base.model->config.n_layers;
    if (layer >= n_layers)
        return i == n_layers * LAYER_LINEARS ? &c->head : NULL;
    struct cpu_layer *l = &c->layers[layer];
    struct linear *const linears[LAYER_LINEARS] = {
        &l->qkv[0], &l->qkv[1], &l->qkv[2], &l->wo, &l->gate, &l->up, &l->down,
    };
    return linears[i % LAYER_LINEARS];
}

/* Gives each matrix its place from `base` on; false when their bytes overflow. */
static bool place(struct cpu *c, char *base, size_t *total)
{
    struct linear *l;
    *total = 0;
    for (size_t i = 0; (l = linear_at(c, i)) != NULL; i++) {
        size_t bytes;
        if (base)
            l->packed = base + *total;
        if (!mem_mul(linear_panels(l), l->panel_bytes, &bytes) || !mem_add(*total, bytes, total))
            return false;
    }
    return true;
}

/* A mapping of `bytes` that begins at a huge page: what is mapped around it is given back. */
static char *map_huge(size_t bytes)
{
    char *p =
        mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    size_t before = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
    if (before > 0)
        munmap(p, before);
    munmap(p + before + bytes, HUGE_PAGE - before);
    madvise(p + before, bytes, MADV_HUGEPAGE);
    return p + before;
}

static void pack_slice(void *arg, int worker)
{
    struct cpu *c = arg;
    struct linear *l;
    for (size_t i = 0; (l = linear_at(c, i)) != NULL; i++) {
        size_t begin, end;
        pool_slice(linear_panels(l), 1, worker, pool_threads(c->pool), &begin, &end);
        linear_pack(l, begin, end);
    }
}

enum status pack_weights(struct cpu *c, struct err *err)
{
    size_t bytes, available = mem_available();
    if (!place(c, NULL, &bytes) || !mem_add(bytes, HUGE_PAGE - 1, &bytes))
        return err_set(err, STATUS_TOO_LARGE, "packed weights overflow the address space");
    bytes = bytes / HUGE_PAGE * HUGE_PAGE;
    if (bytes == 0)
        return STATUS_OK;
    if (bytes > available)
        return err_set(
            err, STATUS_NO_MEMORY,
            "packed weights need %.1f MiB, %.1f MiB are available; a smaller model helps",
            (double)bytes / MIB, (double)available / MIB);
    c->packed = map_huge(bytes);
    if (!c->packed)
        return err_set(err, STATUS_NO_MEMORY, "no memory for packed weights of %.1f MiB",
                       (double)bytes / MIB);
    c->packed_bytes = bytes;
    place(c, c->packed, &bytes);
    pool_run(c->pool, pack_slice, c);
    return STATUS_OK;
}

void pack_free(struct cpu *c)
{
    if (c->packed)
        munmap(c->packed, c->packed_bytes);
}
