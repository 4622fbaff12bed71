#include "backend/backend.h"

#include <string.h>

static const struct backend_ops *const backends[] = {&cpu_backend};
#define BACKEND_COUNT (sizeof backends / sizeof backends[0])

const struct backend_ops *backend_at(size_t i)
{
    return i < BACKEND_COUNT ? backends[i] : NULL;
}

const struct backend_ops *backend_find(const char *name)
{
    for (size_t i = 0; i < BACKEND_COUNT; i++)
        if (strcmp(backends[i]->name, name) == 0)
            return backends[i];
    return NULL;
}

void backend_step(struct backend *b, const struct batch *batch, struct step_result *out)
{
    b->ops->step_begin(b, batch);
    while (!b->ops->step_advance(b, b->model->config.n_layers))
        ;
    b->ops->step_finish(b, out);
}
