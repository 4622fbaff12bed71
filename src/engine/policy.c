#include "engine/policy.h"

#include "base/name_table.h"

/* A prompt that is older than so many times what it takes alone is overdue, and each millisecond
 * more counts as one less of work: in the end it goes before all that come. Age counts from
 * arrival. If it counted from the last chunk, prompts of one length would take turns, and all be
 * done when the last one is. */
#define SLOWDOWN 5

#define PRIORITY_MS 1e9 /* of one step of priority: more than anybody waits */

static double age_ms(const struct request *r, int64_t now_us)
{
    return (double)(now_us - r->arrived_us) / 1000;
}

static double rank_arrival(const struct cost *cost, const struct request *r, int64_t now_us)
{
    (void)cost;
    return -age_ms(r, now_us);
}

/* Shortest remaining processing time first (Schrage 1968), counted in uncached work, with ageing.
 */
static double rank_srpf(const struct cost *cost, const struct request *r, int64_t now_us)
{
    double left_ms = (double)cost_prompt_us(cost, request_past(r), r->n_goal) / 1000;
    double all_ms = left_ms; /* of who waits, nothing is done yet */
    if (r->state != REQUEST_WAITING)
        all_ms = (double)cost_prompt_us(cost, r->n_hit, r->n_goal) / 1000;
    double overdue_ms = age_ms(r, now_us) - SLOWDOWN * all_ms;
    return left_ms - (overdue_ms > 0 ? overdue_ms : 0);
}

static double rank_priority(const struct cost *cost, const struct request *r, int64_t now_us)
{
    return rank_arrival(cost, r, now_us) + PRIORITY_MS * r->priority;
}

// clang-format off
static const struct policy policies[] = {
    {"srpf", "shortest remaining uncached prefill first, with ageing",
     rank_srpf, POLICY_IN_ORDER, .may_saturate = false, .parks = true},
    {"fifo", "in the order of arrival",
     rank_arrival, POLICY_IN_ORDER, .may_saturate = true, .parks = false},
    {"pack", "in the order of arrival, filling a step with whatever fits whole",
     rank_arrival, POLICY_WHOLE, .may_saturate = true, .parks = false},
    {"lookahead", "the set of the oldest waiting ones that fills a step best",
     rank_arrival, POLICY_BEST, .may_saturate = true, .parks = false},
    {"priority", "by the requests' priority, then by arrival",
     rank_priority, POLICY_IN_ORDER, .may_saturate = false, .parks = true},
};
// clang-format on
#define POLICIES (sizeof policies / sizeof policies[0])

const struct policy *policy_at(size_t i)
{
    return i < POLICIES ? &policies[i] : NULL;
}

bool engine_policy_at(size_t i, const char **name, const char **about)
{
    const struct policy *p = policy_at(i);
    if (!p)
        return false;
    *name = p->name;
    *about = p->about;
    return true;
}

const struct policy *policy_find(const char *name, struct err *err)
{
    char known[256];
    size_t i = name_table_find(engine_policy_at, name, known, sizeof known);
    if (i != NAME_TABLE_NONE)
        return &policies[i];
    err_param(err, STATUS_INVALID, "policy", "unknown policy %.64s; there are %s", name, known);
    return NULL;
}
