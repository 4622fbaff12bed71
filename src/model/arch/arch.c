#include "model/arch/arch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARCH_ROW(name) &arch_##name,
static const struct arch *const archs[] = {ARCH_LIST(ARCH_ROW)};
#undef ARCH_ROW

/* --- which one ------------------------------------------------------------------------------ */

const struct arch *arch_at(size_t i)
{
    return i < sizeof archs / sizeof archs[0] ? archs[i] : NULL;
}

const struct arch *arch_find(const char *name, size_t len)
{
    const struct arch *a;
    for (size_t i = 0; (a = arch_at(i)); i++)
        if (strlen(a->name) == len && memcmp(a->name, name, len) == 0)
            return a;
    return NULL;
}

const struct arch *arch_find_type(const char *model_type, const struct hf_type **type)
{
    const struct arch *a;
    for (size_t i = 0; (a = arch_at(i)); i++)
        for (*type = a->hf.types; (*type)->name; ++*type)
            if (strcmp((*type)->name, model_type) == 0)
                return a;
    return NULL;
}

enum status arch_of(const struct arch **out, const struct gguf *g, struct err *err)
{
    char known[256];
    size_t n = 0;
    struct gguf_string name;
    enum status st = gguf_get_string(g, "general.architecture", &name, err);
    if (st)
        return st;
    *out = arch_find(name.bytes, name.len);
    if (*out)
        return STATUS_OK;
    const struct arch *a;
    for (size_t i = 0; (a = arch_at(i)) && n < sizeof known; i++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", a->name);
    return err_param(err, STATUS_UNSUPPORTED, "general.architecture",
                     "general.architecture: expected one of %s, found \"%.*s\"", known,
                     (int)(name.len < 64 ? name.len : 64), name.bytes);
}

/* --- tensors -------------------------------------------------------------------------------- */

uint64_t arch_extent(const struct model_config *c, enum arch_dim dim)
{
    switch (dim) {
    case ARCH_NONE:
        return 1;
    case ARCH_MODEL:
        return c->d_model;
    case ARCH_HEADS:
        return (uint64_t)c->n_heads * c->head_dim;
    case ARCH_KV:
        return (uint64_t)c->n_kv_heads * c->head_dim;
    case ARCH_FF:
        return c->d_ff;
    case ARCH_VOCAB:
        return c->n_vocab;
    case ARCH_HEAD:
        return c->head_dim;
    case ARCH_CONTEXT:
        return c->n_ctx_train;
    case ARCH_PAIRS:
        return c->n_rot / 2;
    case ARCH_QKV:
        return ((uint64_t)c->n_heads + 2 * c->n_kv_heads) * c->head_dim;
    case ARCH_GATE_UP:
        return 2 * (uint64_t)c->d_ff;
    }
    return 0;
}

static const char *full_name(char out[static ARCH_NAME_BYTES], const char *prefix,
                             const char *layers, uint32_t layer, const char *name)
{
    if (layer == ARCH_NO_LAYER)
        snprintf(out, ARCH_NAME_BYTES, "%s%s", prefix, name);
    else
        snprintf(out, ARCH_NAME_BYTES, "%s%s.%u.%s", prefix, layers, layer, name);
    return out;
}

const char *arch_gguf_name(char out[static ARCH_NAME_BYTES], const struct arch_tensor *row,
                           uint32_t layer)
{
    return full_name(out, "", "blk", layer, row->name);
}

const char *arch_hf_name(char out[static ARCH_NAME_BYTES], const struct arch *arch,
                         const char *prefix, const struct arch_tensor *row, uint32_t layer)
{
    return full_name(out, prefix, arch->hf.layers, layer, row->hf);
}

const struct arch_tensor *arch_find_tensor(const struct arch *arch, const char *name,
                                           uint32_t *layer)
{
    char full[ARCH_NAME_BYTES];
    bool in_layer = strncmp(name, "blk.", 4) == 0;
    const struct arch_tensor *rows = in_layer ? arch->layer_tensors : arch->tensors;
    size_t n = in_layer ? arch->n_layer_tensors : arch->n_tensors;
    *layer = in_layer ? (uint32_t)strtoul(name + 4, NULL, 10) : ARCH_NO_LAYER;
    for (size_t i = 0; i < n; i++)
        if (strcmp(arch_gguf_name(full, &rows[i], *layer), name) == 0)
            return &rows[i];
    return NULL;
}
