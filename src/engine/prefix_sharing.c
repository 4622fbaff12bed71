/* Requests that wait: what the prefix cache has for them, and who computes what for whom. Engine
 * thread.
 *
 * A request whose prompt begins like that of another one which is still to be computed follows it:
 * it is not scheduled before its leader has come that far, then it finds the blocks in the cache.
 * The leader inherits the rank of its most urgent follower. When a leader ends early its followers
 * look again: the first of them leads the others. Leaders follow nobody, so there are no cycles.
 */
#include "engine/internal.h"

#include "base/clock.h"

#include <string.h>

static uint64_t hash_first_block(const struct request *r)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a: only narrows down whom to compare with */
    if (r->params.n_prompt < KV_BLOCK)
        return 0;
    for (uint32_t i = 0; i < KV_BLOCK; i++)
        h = (h ^ (uint32_t)r->params.prompt[i]) * 1099511628211u;
    return h;
}

/* Tokens that may come from the cache: all but the last one, whose logits are wanted, and only of
 * the prompt. */
uint32_t prefix_sharing_cacheable(const struct request *r)
{
    if (request_wants_prompt_logprobs(r))
        return 0;
    return r->n_goal > r->params.n_prompt ? r->params.n_prompt : r->params.n_prompt - 1;
}

void prefix_sharing_look_up(struct engine *e, struct request *r)
{
    r->n_cached = e->cache_on ? prefix_lookup(&e->prefix, &r->params.salt, r->params.prompt,
                                              prefix_sharing_cacheable(r))
                              : 0;
}

void prefix_sharing_publish(struct engine *e, struct request *r, bool partial)
{
    const struct prefix_text text = {r->params.prompt, r->params.n_prompt, r->tokens};
    if (e->cache_on && r->n_past > 0)
        prefix_publish(&e->prefix, r->slot, &r->n_published, &r->params.salt, &text, r->n_past,
                       partial);
}

/* --- followers ------------------------------------------------------------------------------ */

static uint32_t prefix_sharing_common(const struct request *a, const struct request *b)
{
    uint32_t i = 0,
             n = a->params.n_prompt < b->params.n_prompt ? a->params.n_prompt : b->params.n_prompt;
    while (i < n && a->params.prompt[i] == b->params.prompt[i])
        i++;
    return i;
}

/* What r would find in the cache once the leader has come to position *at: blocks are published
 * whole, and the last one when the leader's prompt ends. */
static uint32_t gain_of(const struct request *leader, const struct request *r, uint32_t *at)
{
    uint32_t same = prefix_sharing_common(leader, r), most = prefix_sharing_cacheable(r);
    uint32_t whole = kv_blocks_for(same) * KV_BLOCK;
    *at = whole < leader->n_goal ? whole : leader->n_goal;
    return same < most ? same : most;
}

static bool leads(const struct request *leader, const struct request *r)
{
    return leader != r && !leader->leader && leader->first_hash == r->first_hash &&
           leader->n_past < leader->n_goal &&
           (leader->state == REQUEST_PREFILL || leader->id < r->id) &&
           memcmp(&leader->params.salt, &r->params.salt, sizeof r->params.salt) == 0;
}

/* Worth waiting for: most of what r has to compute. */
static uint32_t least_gain(const struct request *r)
{
    uint32_t half = (r->n_goal - r->n_cached + 1) / 2;
    return r->n_cached + (half > KV_BLOCK ? half : KV_BLOCK);
}

/* A first look at two tokens: a thousand that share a cached beginning are soon told apart. */
static bool may_gain(const struct request *leader, const struct request *r, uint32_t least)
{
    const int32_t *a = leader->params.prompt, *b = r->params.prompt;
    return least < r->params.n_prompt && least <= leader->params.n_prompt &&
           a[r->n_cached] == b[r->n_cached] && a[least - 1] == b[least - 1];
}

static void find_leader(struct engine *e, struct request *r)
{
    const struct request_list *lists[] = {&e->lists.of[REQUEST_PREFILL],
                                          &e->lists.of[REQUEST_WAITING]};
    uint32_t least = least_gain(r), at;
    for (int i = 0; i < 2; i++)
        for (struct request *l = lists[i]->first; l; l = l->next) {
            if (!leads(l, r) || !may_gain(l, r, least))
                continue;
            uint32_t gain = gain_of(l, r, &at);
            if (gain >= least && at > l->n_past) {
                least = gain + 1; /* the next one must be better */
                r->leader = l;
                r->leader_tokens = at;
                r->leader_gain = gain;
            }
        }
}

/* The most urgent follower lends the leader its rank; the first to be served decides how far the
 * leader must come. */
static void count_follower(struct engine *e, struct request *leader, struct request *r)
{
    double (*rank)(const struct cost *, const struct request *, int64_t) = e->policy->rank;
    int64_t now_us = clock_now_us();
    if (!leader->urgent_follower ||
        rank(&e->cost, r, now_us) < rank(&e->cost, leader->urgent_follower, now_us))
        leader->urgent_follower = r;
    if (leader->follow_at == 0 || r->leader_tokens < leader->follow_at)
        leader->follow_at = r->leader_tokens;
}

static void count_followers(struct engine *e, struct request *leader)
{
    leader->urgent_follower = NULL;
    leader->follow_at = 0;
    for (struct request *r = e->lists.of[REQUEST_WAITING].first; r; r = r->next)
        if (r->leader == leader)
            count_follower(e, leader, r);
}

static void look_for_leader(struct engine *e, struct request *r)
{
    prefix_sharing_look_up(e, r);
    r->leader = NULL;
    if (e->cache_on && r->first_hash != 0)
        find_leader(e, r);
    if (r->leader)
        count_follower(e, r->leader, r);
    r->wait.followed |= r->leader != NULL;
    admission_update(e, r);
}

/* Those who waited for the leader's first n positions look again; UINT32_MAX: all of them. */
static void release_followers(struct engine *e, struct request *leader, uint32_t n)
{
    if (leader->follow_at == 0 || leader->follow_at > n)
        return;
    for (struct request *r = e->lists.of[REQUEST_WAITING].first; r; r = r->next)
        if (r->leader == leader && r->leader_tokens <= n)
            look_for_leader(e, r);
    count_followers(e, leader);
}

void prefix_sharing_arrive(struct engine *e, struct request *r)
{
    r->arrived_us = r->served_us = r->params.timeline.at_us[TIMELINE_QUEUED];
    r->priority = r->params.priority;
    r->n_goal = r->params.n_prompt;
    r->first_hash = hash_first_block(r);
    request_move(&e->lists, r, REQUEST_WAITING);
    engine_stats_wait_begins(e, r);
    look_for_leader(e, r);
}

void prefix_sharing_progressed(struct engine *e, struct request *r)
{
    release_followers(e, r, r->n_past);
}

/* Before its blocks are released and its state changes: nobody waits for it any more, it waits for
 * nobody. */
void prefix_sharing_leave(struct engine *e, struct request *r)
{
    struct request *leader = r->leader;
    r->leader = NULL;
    if (leader)
        count_followers(e, leader);
    if (r->follow_at == 0)
        return;
    r->first_hash = 0; /* leads nobody from here on */
    release_followers(e, r, UINT32_MAX);
}
