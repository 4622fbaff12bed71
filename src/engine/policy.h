/* Scheduling policies: who is prefilled next, and how a step's prefill budget is filled. One row
 * each; `--policy NAME`. */
#ifndef FIRSTLIGHT_ENGINE_POLICY_H
#define FIRSTLIGHT_ENGINE_POLICY_H

#include "base/err.h"
#include "engine/cost.h"
#include "engine/request.h"

#include <stdbool.h>

enum policy_fill {
    POLICY_IN_ORDER, /* the first in rank; those behind it only when it leaves room */
    POLICY_WHOLE,    /* in rank, passing over those that do not fit whole */
    POLICY_BEST,     /* the set among the first POLICY_WINDOW that fills the budget best */
};
#define POLICY_WINDOW 32

struct policy {
    const char *name;
    const char *about;
    /* Milliseconds; who has the smallest goes first. */
    double (*rank)(const struct cost *cost, const struct request *r, int64_t now_us);
    enum policy_fill fill;
    bool may_saturate; /* prompts join a step even when it saturates the machine */
    bool parks;        /* one of smaller rank may make a running prefill step stand aside */
};

#define POLICY_DEFAULT "srpf"

const struct policy *policy_at(size_t i); /* NULL past the end */
/* NULL and *err, naming those there are, when unknown. */
const struct policy *policy_find(const char *name, struct err *err);

#endif
