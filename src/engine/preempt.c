/* Putting a request back, when there are too few KV blocks for all that run. Engine thread. */
#include "engine/internal.h"

/* The youngest running request that is in no step; NULL when there is at most one running. */
static struct request *youngest(struct engine *e)
{
    static const enum request_state states[] = {REQUEST_PREFILL, REQUEST_DECODE};
    struct request *found = NULL;
    if (e->lists.of[REQUEST_PREFILL].n + e->lists.of[REQUEST_DECODE].n < 2)
        return NULL;
    for (int i = 0; i < 2; i++)
        for (struct request *r = e->lists.of[states[i]].first; r; r = r->next)
            if (!r->in_step && (!found || r->id > found->id))
                found = r;
    return found;
}

bool preempt_youngest(struct engine *e)
{
    struct request *r = youngest(e);
    if (!r)
        return false;
    prefix_sharing_publish(e, r,
                           true); /* what it has computed may still be there when it comes back */
    kv_release(&e->kv, r->slot);
    r->n_past = r->n_blocks = r->n_published = 0;
    r->n_goal = r->params.n_prompt + r->n_tokens;
    request_move(&e->lists, r, REQUEST_WAITING);
    prefix_sharing_look_up(e, r);
    admission_update(e, r);
    ENGINE_COUNT(e, preempted, 1);
    return true;
}
