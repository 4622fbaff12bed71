#include "engine/profile.h"

#include "base/name_table.h"

// clang-format off
static const struct profile profiles[] = {
    {"interactive", "few users, the smallest TTFT",
     .decode_gap_ms = 50, .max_queue_ms = 10000, .efficiency = 0.6},
    {"online", "many users, TTFT p99 with the highest goodput",
     .decode_gap_ms = 100, .max_queue_ms = 30000, .efficiency = 0.8},
    {"batch", "throughput",
     .decode_gap_ms = ENGINE_NONE, .max_queue_ms = ENGINE_NONE, .efficiency = 0.95},
};
// clang-format on
#define PROFILES (sizeof profiles / sizeof profiles[0])

const struct profile *profile_at(size_t i)
{
    return i < PROFILES ? &profiles[i] : NULL;
}

bool engine_profile_at(size_t i, const char **name, const char **about)
{
    const struct profile *p = profile_at(i);
    if (!p)
        return false;
    *name = p->name;
    *about = p->about;
    return true;
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

enum status profile_fill(struct engine_options *o, struct err *err)
{
    const struct profile *p = profile_find(o->profile, err);
    if (!p)
        return STATUS_INVALID;
    o->profile = p->name;
    if (o->decode_gap_ms == ENGINE_UNSET)
        o->decode_gap_ms = p->decode_gap_ms;
    if (o->max_queue_ms == ENGINE_UNSET)
        o->max_queue_ms = p->max_queue_ms;
    if (o->efficiency <= 0)
        o->efficiency = p->efficiency;
    return STATUS_OK;
}
