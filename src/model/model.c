#include "model/model.h"

#include "base/mem.h"
#include "kernels/kv_layout.h"

void model_free(struct model *m)
{
    if (!m)
        return;
    mem_free(m->slices);
    mem_free(m->layers);
    mem_free(m);
}

size_t model_kv_block_bytes(const struct model_config *c, enum kv_type type)
{
    return (size_t)c->n_layers * 2 * c->n_kv_heads * kv_layout_bytes(type, c->head_dim);
}
