#include "text/tokenizer/tokens.h"

#include "base/mem.h"

bool tokens_push(struct tokens *t, int32_t id)
{
    t->over |= t->most > 0 && t->count == t->most;
    if (t->over)
        return false;
    if (t->count == t->cap) {
        size_t cap = t->cap < 32 ? 64 : 2 * t->cap, size;
        int32_t *ids = mem_mul(cap, sizeof *ids, &size) ? mem_resize(t->ids, size) : NULL;
        if (!ids)
            return false;
        t->ids = ids;
        t->cap = cap;
    }
    t->ids[t->count++] = id;
    return true;
}

void tokens_fini(struct tokens *t)
{
    mem_free(t->ids);
    *t = (struct tokens){0};
}
