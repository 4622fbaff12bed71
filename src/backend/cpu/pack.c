/* The packed weights: one mapping in huge pages, the matrices in the order in which a step reads
 * them. Each worker packs the panels that it will multiply with, so that on machines with several
 * memory nodes it also is the first to touch them. */
#include "backend/cpu/cpu_backend.h"

#include "base/mem.h"
#include "kernels/panel.h"

#include <sys/mman.h>

#define MIB       (1024.0 * 1024.0)
#define HUGE_PAGE ((size_t)2 << 20)

#define LAYER_LINEARS 7

static size_t tensor_packed_bytes(const struct tensor *t)
{
    if (!t)
        return 0;
    size_t panels = (t->dims[1] + PANEL_ROWS - 1) / PANEL_ROWS;
    return panel_format_of(t->type) ? panels * panel_bytes(t->type, t->dims[0]) : 0;
}

static size_t pack_round_up(size_t bytes)
{
    return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

size_t pack_bytes(const struct model *m, enum activations activations)
{
    if (activations != ACTIVATIONS_INT8)
        return 0;
    size_t bytes = tensor_packed_bytes(m->output);
    for (uint32_t i = 0; i < m->config.n_layers; i++) {
        const struct model_layer *l = &m->layers[i];
        const struct tensor *const tensors[LAYER_LINEARS] = {
            l->wq, l->wk, l->wv, l->wo, l->w_gate, l->w_up, l->w_down,
        };
        for (int j = 0; j < LAYER_LINEARS; j++)
            bytes += tensor_packed_bytes(tensors[j]);
    }
    return pack_round_up(bytes);
}

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

/* Gives each matrix its place. */
static void pack_place(struct cpu *c)
{
    struct linear *l;
    size_t at = 0;
    for (size_t i = 0; (l = linear_at(c, i)) != NULL; i++) {
        l->packed = c->packed + at;
        at += linear_panels(l) * l->panel_bytes;
    }
    REQUIRE(at <= c->packed_bytes);
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
    size_t bytes = pack_bytes(c->base.model, c->base.options.activations);
    size_t available = mem_available();
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
    pack_place(c);
    pool_run(c->pool, pack_slice, c);
    return STATUS_OK;
}

void pack_free(struct cpu *c)
{
    if (c->packed)
        munmap(c->packed, c->packed_bytes);
}
