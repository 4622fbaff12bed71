/* The engines by name: one row each. */
#include "engine/engine.h"

#include <stdio.h>
#include <string.h>

/* The best comes first: "auto" takes the first that is available. */
static const struct engine_kind kinds[] = {
    {"cpu", ENGINE_CONTINUOUS, "cpu", "continuous batching on the processor"},
    {"cpu-sync", ENGINE_SYNC, "cpu", "one request at a time, its text at once: the baseline"},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

const struct engine_kind *engine_kind_at(size_t i)
{
    return i < KINDS ? &kinds[i] : NULL;
}

bool engine_kind_available(const struct engine_kind *k, char *why, size_t why_size)
{
    const struct backend_ops *ops = backend_find(k->backend);
    if (ops)
        return ops->available(why, why_size);
    snprintf(why, why_size, "this build has no backend %s", k->backend);
    return false;
}

static const struct engine_kind *find_auto(struct err *err)
{
    char why[256] = "";
    for (size_t i = 0; i < KINDS; i++)
        if (engine_kind_available(&kinds[i], why, sizeof why))
            return &kinds[i];
    err_param(err, STATUS_UNSUPPORTED, "engine", "no engine is available here: %s", why);
    return NULL;
}

static const struct engine_kind *engine_kinds_find_unknown(const char *name, struct err *err)
{
    char known[256] = "auto";
    for (size_t i = 0; i < KINDS; i++) {
        size_t len = strlen(known);
        snprintf(known + len, sizeof known - len, ", %s", kinds[i].name);
    }
    err_param(err, STATUS_INVALID, "engine", "unknown engine %.64s; there are %s", name, known);
    return NULL;
}

const struct engine_kind *engine_kind_find(const char *name, struct err *err)
{
    if (strcmp(name, "auto") == 0)
        return find_auto(err);
    for (size_t i = 0; i < KINDS; i++) {
        char why[256];
        if (strcmp(name, kinds[i].name) != 0)
            continue;
        if (engine_kind_available(&kinds[i], why, sizeof why))
            return &kinds[i];
        err_param(err, STATUS_UNSUPPORTED, "engine", "engine %s is not available here: %s", name,
                  why);
        return NULL;
    }
    return engine_kinds_find_unknown(name, err);
}
