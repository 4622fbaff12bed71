#include "engine/profile.h"

#include "base/names.h"

static const struct profile profiles[] = {
    {"interactive", "the smallest TTFT for few users; streams pause at most 50 ms", 50, 0.6},
    {"online", "p99 TTFT under half a second at the highest goodput; pauses of at most 100 ms", 100,
     0.8},
    {"batch", "throughput first; nothing promised to streams", -1, 0.95},
};
#define PROFILES (sizeof profiles / sizeof profiles[0])

const struct profile *profile_at(size_t i)
{
    return i < PROFILES ? &profiles[i] : NULL;
}

static const struct profile *find(const char *name, struct err *err)
{
    char known[128];
    size_t i = names_find(engine_profile_at, name, known, sizeof known);
    if (i != NAMES_NONE)
        return &profiles[i];
    err_param(err, STATUS_INVALID, "profile", "unknown profile %.64s; there are %s", name, known);
    return NULL;
}

bool profile_apply(const struct engine_options *o, struct scheduler_limits *limits, struct err *err)
{
    const struct profile *p = find(o->profile ? o->profile : PROFILE_DEFAULT, err);
    if (!p)
        return false;
    int32_t gap_ms = o->decode_gap_ms != 0 ? o->decode_gap_ms : p->decode_gap_ms;
    limits->decode_gap_us = gap_ms > 0 ? (int64_t)gap_ms * 1000 : 0;
    limits->max_active = o->max_active;
    limits->efficiency = p->efficiency;
    return true;
}
