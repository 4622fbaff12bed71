#include "engine/profile.h"

#include "base/name_table.h"
#include "engine/engine.h"

static const struct profile profiles[] = {
    {"interactive", "the smallest TTFT for few users; streams pause at most 50 ms", 50, 0.6, 10000},
    {"online", "p99 TTFT under half a second at the highest goodput; pauses of at most 100 ms", 100,
     0.8, 30000},
    {"batch", "throughput first; nothing promised to streams", -1, 0.95, -1},
};
#define PROFILES (sizeof profiles / sizeof profiles[0])

const struct profile *profile_at(size_t i)
{
    return i < PROFILES ? &profiles[i] : NULL;
}

const struct profile *profile_find(const char *name, struct err *err)
{
    char known[128];
    if (!name)
        name = PROFILE_DEFAULT;
    size_t i = name_table_find(engine_profile_at, name, known, sizeof known);
    if (i != NAME_TABLE_NONE)
        return &profiles[i];
    err_param(err, STATUS_INVALID, "profile", "unknown profile %.64s; there are %s", name, known);
    return NULL;
}
