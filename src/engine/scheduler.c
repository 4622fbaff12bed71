#include "engine/scheduler.h"

#include "engine/kv.h"

uint32_t scheduler_blocks(const struct request *r)
{
    return kv_blocks_for(r->params.n_prompt + r->max_tokens - 1); /* the last token is not run */
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t or_no_bound(uint32_t bound)
{
    return bound > 0 ? bound : UINT32_MAX;
}

/* What is left of a step for chunks of prompts. */
struct room {
    uint32_t prompts, rows;
};

static bool is_full(const struct room *room)
{
    return room->prompts == 0 || room->rows == 0;
}

static void add(struct plan *plan, struct request *r, uint32_t n_tokens, bool admit)
{
    plan->items[plan->n_items++] = (struct plan_item){r, n_tokens, admit};
    plan->n_tokens += n_tokens;
}

static void add_decodes(const struct scheduler_view *v, struct plan *plan)
{
    for (struct request *r = v->decode->first; r; r = r->next)
        add(plan, r, 1, false);
}

/* The next chunk of r, as large as the rows that are left. */
static void add_chunk(struct room *room, struct plan *plan, struct request *r, bool admit)
{
    uint32_t n = smaller(r->params.n_prompt - r->n_past, room->rows);
    room->prompts--;
    room->rows -= n;
    add(plan, r, n, admit);
}

static void add_started(const struct scheduler_view *v, struct room *room, struct plan *plan)
{
    for (struct request *r = v->prefill->first; r && !is_full(room); r = r->next)
        add_chunk(room, plan, r, false);
}

static void admit(const struct scheduler_view *v, struct room *room, struct plan *plan)
{
    uint32_t running = v->decode->n + v->prefill->n;
    uint32_t free_blocks = v->free_blocks;
    for (struct request *r = v->waiting->first; r; r = r->next) {
        uint32_t blocks = scheduler_blocks(r);
        if (running == v->max_seqs || is_full(room) || blocks > free_blocks)
            return;
        free_blocks -= blocks;
        running++;
        add_chunk(room, plan, r, true);
    }
}

void scheduler_plan(const struct scheduler_view *v, struct plan *plan)
{
    REQUIRE(v->max_tokens >= v->max_seqs);
    plan->n_items = plan->n_tokens = 0;
    add_decodes(v, plan);
    struct room room = {
        .prompts = or_no_bound(v->max_prompts),
        .rows = smaller(v->max_tokens - plan->n_tokens, or_no_bound(v->max_prompt_tokens)),
    };
    add_started(v, &room, plan);
    admit(v, &room, plan);
}
