/* The names that the engine's options take: profiles and policies. */
#include "engine/policy.h"
#include "engine/profile.h"

bool engine_policy_at(size_t i, const char **name, const char **about)
{
    const struct policy *p = policy_at(i);
    if (!p)
        return false;
    *name = p->name;
    *about = p->about;
    return true;
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
