#include "engine/scheduler.h"

#include "engine/kv.h"

#include <string.h>

/* A plan in the making. */
struct build {
    const struct scheduler_view *v;
    struct plan *plan;
    int64_t budget_us;  /* of the whole step; INT64_MAX: none */
    uint32_t n_prefill; /* prompts so far */
    uint32_t prefill_tokens;
    uint32_t blocks;       /* left for this step */
    uint32_t admit_blocks; /* left for those who come, when the started prompts have all theirs */
    uint32_t active;       /* admitted, with those of this plan */
    uint32_t saturated;    /* prompt tokens from which on no further prompt joins */
    uint32_t decode_seats; /* places for decodes */
    uint32_t n_prompts;    /* that there are */
    bool cut;              /* a chunk is smaller than its prompt wanted */
};

#define SUBMIT_US  10000
#define TINY_CHUNK 4 /* tokens */

enum added { ADDED, NO_ROOM, NOT_ADMITTED };

static uint32_t scheduler_smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

uint32_t scheduler_blocks(const struct request *r, uint32_t n_tokens)
{
    uint32_t needed = kv_blocks_for(request_past(r) + n_tokens);
    return needed > r->n_blocks ? needed - r->n_blocks : 0;
}

/* Blocks to run the prompt to its end and generate a token. */
static uint32_t blocks_to_goal(const struct request *r)
{
    return scheduler_blocks(r, r->n_goal - request_past(r));
}

/* --- decodes -------------------------------------------------------------------------------- */

static bool may_prefill(const struct request *r)
{
    return !r->in_step && !r->leader;
}

/* More than a step holds may be active, in turns, as long as a whole round of decodes keeps the
 * promised gap: each step of it has its own fixed cost. active: without r. */
static bool keeps_promise(const struct scheduler_view *v, uint32_t active, const struct request *r)
{
    uint32_t seats = v->limits->max_seqs, n = active + 1;
    if (n <= seats || v->limits->decode_gap_us == 0)
        return true;
    struct cost_step step = {.n_decode = n, .decode_before = r->n_goal}, empty = {0};
    for (const struct request *d = v->decode->first; d; d = d->next)
        step.decode_before += d->n_past;
    return cost_predict_us(v->cost, &step) +
               (int64_t)((n - 1) / seats) * cost_predict_us(v->cost, &empty) <=
           v->limits->decode_gap_us;
}

static bool any_prefill(const struct scheduler_view *v)
{
    for (const struct request *r = v->prefill->first; r; r = r->next)
        if (may_prefill(r))
            return true;
    uint32_t active = v->prefill->n + v->decode->n;
    return v->waiting->n > 0 && active < v->limits->max_active &&
           keeps_promise(v, active, v->waiting->first);
}

/* Decodes that a step holds. While prompts come, a place at least is theirs, and decodes that need
 * several turns share these evenly: 64 in a step of 64 go as 32 and 32, not as 63 and 1, so that
 * newcomers find room in both. */
static uint32_t decode_seats(const struct scheduler_view *v)
{
    uint32_t seats = v->limits->max_seqs, n = v->decode->n;
    if (seats == 1 || !any_prefill(v))
        return seats;
    uint32_t turns = (n + seats - 2) / (seats - 1);
    return turns > 1 ? (n + turns - 1) / turns : seats - 1;
}

static void scheduler_add(struct build *b, struct request *r, uint32_t n_tokens, bool admit)
{
    b->plan->items[b->plan->n_items++] = (struct plan_item){r, n_tokens, admit};
    b->plan->n_tokens += n_tokens;
}

/* When they do not all fit they take turns: who was served is at the end of the list. */
static void add_decodes(struct build *b)
{
    for (struct request *r = b->v->decode->first; r && b->plan->n_items < b->decode_seats;
         r = r->next) {
        uint32_t blocks = scheduler_blocks(r, 1);
        if (r->in_step || blocks > b->blocks)
            continue;
        b->blocks -= blocks;
        cost_add_decode(&b->plan->cost, r->n_past);
        scheduler_add(b, r, 1, false);
    }
    b->plan->n_decodes = b->plan->n_items;
}

/* --- the budget ----------------------------------------------------------------------------- */

/* Until the one of the step's decodes that has waited for longest is to have its token. After a
 * step that stood aside for it that is less than the whole gap. */
static int64_t due_us(const struct build *b)
{
    int64_t oldest = b->v->now_us;
    for (uint32_t i = 0; i < b->plan->n_decodes; i++)
        if (b->plan->items[i].request->served_us < oldest)
            oldest = b->plan->items[i].request->served_us;
    return oldest + b->v->limits->decode_gap_us - b->v->now_us;
}

/* Nobody waits for a token: only the next who comes may. */
static int64_t park_slice_us(const struct build *b)
{
    const struct scheduler_limits *l = b->v->limits;
    return l->park_slice_us > 0 && b->v->policy->parks ? l->park_slice_us : INT64_MAX;
}

/* What the step may take by the promise. Decodes that take longer alone have broken it already:
 * then prefill gets half of their time, so that newcomers are not starved in vain. */
static int64_t promised_us(struct build *b)
{
    const struct scheduler_view *v = b->v;
    uint32_t seats = b->decode_seats, n = v->decode->n;
    int64_t gap_us = v->limits->decode_gap_us;
    if (gap_us == 0)
        return INT64_MAX;
    if (n == 0)
        return park_slice_us(b);
    if (n > seats)
        gap_us /= (n + seats - 1) / seats;
    int64_t decodes_us = cost_predict_us(v->cost, &b->plan->cost);
    b->plan->gap_missed = decodes_us > gap_us;
    if (b->plan->gap_missed)
        return decodes_us + decodes_us / 2;
    return cost_within_us(v->cost, due_us(b) < gap_us ? due_us(b) : gap_us);
}

static void set_budget(struct build *b)
{
    const struct scheduler_view *v = b->v;
    b->plan->gap_missed = false;
    b->budget_us = promised_us(b);
    if (v->short_us > 0 && v->short_us < b->budget_us)
        b->budget_us = v->short_us;
    b->saturated = cost_saturation(v->cost, &b->plan->cost, v->limits->efficiency,
                                   v->limits->max_prefill_tokens);
}

static uint32_t token_room(const struct build *b)
{
    const struct scheduler_limits *l = b->v->limits;
    return scheduler_smaller(l->max_tokens - b->plan->n_tokens,
                             l->max_prefill_tokens - b->prefill_tokens);
}

/* --- candidates ----------------------------------------------------------------------------- */

/* Who computes what others wait for is as urgent as the most urgent of them. */
static double rank(const struct scheduler_view *v, const struct request *r)
{
    double own = v->policy->rank(v->cost, r, v->now_us);
    if (!r->urgent_follower)
        return own;
    double inherited = v->policy->rank(v->cost, r->urgent_follower, v->now_us);
    return inherited < own ? inherited : own;
}

static void scheduler_collect(struct build *b, const struct request_list *list)
{
    const struct scheduler_view *v = b->v;
    for (struct request *r = list->first; r; r = r->next)
        if (may_prefill(r))
            b->plan->candidates[b->plan->n_candidates++] = (struct plan_candidate){rank(v, r), r};
}

static bool scheduler_before(const struct plan_candidate *a, const struct plan_candidate *b)
{
    if (a->rank != b->rank)
        return a->rank < b->rank;
    if (a->request->arrived_us != b->request->arrived_us)
        return a->request->arrived_us < b->request->arrived_us;
    return (int32_t)(a->request->id - b->request->id) < 0; /* in the same microsecond */
}

static void sift_down(struct plan_candidate *heap, uint32_t n, uint32_t i)
{
    for (uint32_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && scheduler_before(&heap[child + 1], &heap[child]))
            child++;
        if (!scheduler_before(&heap[child], &heap[i]))
            return;
        struct plan_candidate c = heap[i];
        heap[i] = heap[child];
        heap[child] = c;
    }
}

/* A heap, since a step takes only the first few of perhaps a thousand. */
static void make_heap(struct plan *p)
{
    for (uint32_t i = p->n_candidates / 2; i-- > 0;)
        sift_down(p->candidates, p->n_candidates, i);
}

static struct request *pop(struct plan *p)
{
    if (p->n_candidates == 0)
        return NULL;
    struct request *r = p->candidates[0].request;
    p->candidates[0] = p->candidates[--p->n_candidates];
    sift_down(p->candidates, p->n_candidates, 0);
    return r;
}

/* --- prompts -------------------------------------------------------------------------------- */

/* Tokens of the next chunk at most: it ends at the prompt's end, also when tokens generated before
 * a preemption come after it. */
static uint32_t chunk_limit(const struct request *r)
{
    uint32_t from = request_past(r);
    uint32_t end = from < r->params.n_prompt ? r->params.n_prompt : r->n_goal;
    if (r->follow_at > from)
        end = scheduler_smaller(end, r->follow_at);
    return end - from;
}

static bool has_seat(const struct build *b)
{
    const struct scheduler_limits *l = b->v->limits;
    return b->plan->n_items < l->max_seqs && b->n_prefill < l->max_prefill_seqs;
}

/* Nobody is admitted whose prompt does not find its blocks, with one more for each decode to grow
 * into: putting requests back is for what grows later. */
static bool may_admit(const struct build *b, const struct request *r)
{
    uint32_t needed = blocks_to_goal(r) + b->v->decode->n;
    return b->active < b->v->limits->max_active && keeps_promise(b->v, b->active, r) &&
           needed <= b->admit_blocks && needed <= b->blocks;
}

/* One look, where cost_fit would search: policies that pass over do this a thousand times. */
static bool fits_budget(const struct build *b, const struct request *r, uint32_t n)
{
    struct cost_step more = b->plan->cost;
    cost_add_chunk(&more, n, request_past(r));
    return b->budget_us == INT64_MAX || cost_predict_us(b->v->cost, &more) <= b->budget_us;
}

/* What the step's first prompt has whatever the budget says: beside decodes little, otherwise
 * enough to use the machine well. */
static uint32_t least_chunk(const struct build *b)
{
    return b->plan->n_decodes > 0 || b->saturated < SCHEDULER_MIN_CHUNK ? SCHEDULER_MIN_CHUNK
                                                                        : b->saturated;
}

/* How many tokens of r this step takes; 0: none. A short step takes what is within its budget. */
static uint32_t chunk(const struct build *b, const struct request *r)
{
    uint32_t limit = scheduler_smaller(chunk_limit(r), token_room(b));
    if (b->n_prefill > 0 && !b->v->policy->may_saturate) {
        if (b->prefill_tokens >= b->saturated)
            return 0;
        limit = scheduler_smaller(limit, b->saturated - b->prefill_tokens);
    }
    if (b->v->short_us > 0)
        return limit == r->n_goal - request_past(r) && fits_budget(b, r, limit) ? limit : 0;
    if (limit == 0 || b->budget_us == INT64_MAX)
        return limit;
    uint32_t n = cost_fit(b->v->cost, &b->plan->cost, request_past(r), limit, b->budget_us);
    uint32_t least = scheduler_smaller(limit, least_chunk(b));
    if (n >= least)
        return n;
    return b->n_prefill == 0 ? least : 0;
}

static void take_blocks(struct build *b, const struct request *r, uint32_t n)
{
    if (r->state == REQUEST_WAITING) {
        b->admit_blocks -= blocks_to_goal(r);
        b->blocks -= blocks_to_goal(r);
        b->active++;
    } else {
        b->blocks -= scheduler_blocks(r, n);
    }
}

static enum added add_chunk(struct build *b, struct request *r)
{
    bool admit = r->state == REQUEST_WAITING;
    uint32_t n = has_seat(b) ? chunk(b, r) : 0;
    if (n == 0)
        return NO_ROOM;
    if (admit && !may_admit(b, r)) {
        bool no_place = b->active >= b->v->limits->max_active;
        b->plan->kept_out = no_place ? PLAN_NO_PLACE : PLAN_NO_BLOCKS;
        return NOT_ADMITTED;
    }
    if (!admit && scheduler_blocks(r, n) > b->blocks)
        return NO_ROOM;
    b->cut |= n < chunk_limit(r);
    take_blocks(b, r, n);
    b->n_prefill++;
    b->prefill_tokens += n;
    cost_add_chunk(&b->plan->cost, n, request_past(r));
    scheduler_add(b, r, n, admit);
    return ADDED;
}

/* Nobody overtakes one who waits for KV blocks or an active place, but who has started goes on. */
static void leave_waiting_out(struct plan *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_candidates; i++)
        if (p->candidates[i].request->state != REQUEST_WAITING)
            p->candidates[n++] = p->candidates[i];
    p->n_candidates = n;
    make_heap(p);
}

/* POLICY_IN_ORDER: the first that finds no room ends it. In a short step it is passed over: those
 * behind it are why the long step stands aside. */
static void fill_in_order(struct build *b)
{
    struct request *r;
    while ((r = pop(b->plan))) {
        enum added added = add_chunk(b, r);
        if (added == NOT_ADMITTED)
            leave_waiting_out(b->plan);
        if (added == NO_ROOM && b->v->short_us == 0)
            return;
    }
}

static bool fits_whole(const struct build *b, const struct request *r)
{
    uint32_t n = r->n_goal - request_past(r);
    return n <= token_room(b) && n == chunk_limit(r) && fits_budget(b, r, n);
}

static void collect_all(struct build *b)
{
    b->plan->n_candidates = 0;
    scheduler_collect(b, b->v->prefill);
    scheduler_collect(b, b->v->waiting);
    make_heap(b->plan);
}

/* For policies that pass prompts over: the oldest, when it has waited for long enough. */
static void fill_overdue(struct build *b)
{
    const struct plan_candidate *first = b->plan->candidates;
    if (b->plan->n_candidates > 0 &&
        b->v->now_us - first->request->arrived_us > SCHEDULER_PATIENCE_US &&
        add_chunk(b, pop(b->plan)) == NOT_ADMITTED)
        leave_waiting_out(b->plan);
}

/* When nothing was found that fits: in order after all. */
static void fill_otherwise(struct build *b)
{
    if (b->n_prefill > 0)
        return;
    collect_all(b);
    fill_in_order(b);
}

/* POLICY_WHOLE: all that fit whole; when none does, in order. */
static void fill_whole(struct build *b)
{
    struct request *r;
    fill_overdue(b);
    while (has_seat(b) && (r = pop(b->plan)))
        if (fits_whole(b, r) && add_chunk(b, r) == NOT_ADMITTED)
            leave_waiting_out(b->plan);
    fill_otherwise(b);
}

/* The set of sizes with the largest sum within `room` (subset sums, Bellman 1957): from[s] is the
 * item that reached sum s first. Returns a bit mask of the items. */
#define BEST_ROOM 1024
static uint32_t best_set(const uint32_t *sizes, uint32_t n, uint32_t room)
{
    uint8_t from[BEST_ROOM + 1];
    uint32_t best = 0, set = 0;
    memset(from, UINT8_MAX, sizeof from);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t sum = room; sizes[i] <= room && sum >= sizes[i]; sum--) {
            uint32_t rest = sum - sizes[i];
            if (from[sum] == UINT8_MAX && (rest == 0 || from[rest] < i))
                from[sum] = (uint8_t)i;
        }
    for (uint32_t sum = room; sum > 0 && best == 0; sum--)
        if (from[sum] != UINT8_MAX)
            best = sum;
    for (; best > 0; best -= sizes[from[best]])
        set |= 1u << from[best];
    return set;
}

/* The requests of the window that are in the set, or those that are not; who is not admitted keeps
 * those behind it out too. */
static bool add_from_window(struct build *b, struct request *const *window, uint32_t n,
                            uint32_t set, bool admits)
{
    for (uint32_t i = 0; i < n; i++)
        if (set & 1u << i && (admits || window[i]->state != REQUEST_WAITING))
            admits &= add_chunk(b, window[i]) != NOT_ADMITTED;
    return admits;
}

/* POLICY_BEST: the best filling set of the window, then chunks of what is left, in order. */
static void fill_best(struct build *b)
{
    struct request *window[POLICY_WINDOW];
    uint32_t sizes[POLICY_WINDOW], n = 0;
    fill_overdue(b);
    uint32_t room = scheduler_smaller(token_room(b), BEST_ROOM);
    if (b->budget_us != INT64_MAX)
        room = cost_fit(b->v->cost, &b->plan->cost, 0, room, b->budget_us);
    for (struct request *r; n < POLICY_WINDOW && (r = pop(b->plan)); n++) {
        window[n] = r;
        sizes[n] = r->n_goal - request_past(r);
    }
    uint32_t set = best_set(sizes, n, room);
    bool admits = add_from_window(b, window, n, set, true);
    add_from_window(b, window, n, ~set, admits);
    fill_otherwise(b);
}

/* Blocks that started prompts do not need to come to their ends. */
static uint32_t admit_blocks(const struct scheduler_view *v)
{
    uint32_t left = v->blocks;
    for (const struct request *r = v->prefill->first; r; r = r->next)
        left -= scheduler_smaller(left, blocks_to_goal(r));
    return left;
}

/* Cached prompts have a token or so each: then it is their number that a step is short of room for,
 * whichever limit it met. */
static enum plan_limit limit_of(const struct build *b)
{
    if (b->n_prefill == b->n_prompts && !b->cut)
        return PLAN_UNLIMITED;
    bool places = !has_seat(b) || b->plan->kept_out != PLAN_NOBODY;
    bool tiny = b->prefill_tokens < TINY_CHUNK * b->n_prefill;
    return tiny || (places && !b->cut) ? PLAN_BY_PLACES : PLAN_BY_TOKENS;
}

/* --- the plan ------------------------------------------------------------------------------- */

void scheduler_plan(const struct scheduler_view *v, struct plan *plan)
{
    struct build b = {.v = v, .plan = plan, .blocks = v->blocks};
    REQUIRE(v->limits->max_tokens >= v->limits->max_seqs);
    plan->n_items = plan->n_decodes = plan->n_tokens = plan->n_candidates = 0;
    plan->cost = (struct cost_step){0};
    plan->kept_out = PLAN_NOBODY;
    plan->planned_us = v->now_us;
    b.active = v->prefill->n + v->decode->n;
    b.admit_blocks = admit_blocks(v);
    b.decode_seats = decode_seats(v);
    add_decodes(&b);
    set_budget(&b);
    collect_all(&b);
    b.n_prompts = plan->n_candidates;
    switch (v->policy->fill) {
    case POLICY_IN_ORDER:
        fill_in_order(&b);
        break;
    case POLICY_WHOLE:
        fill_whole(&b);
        break;
    case POLICY_BEST:
        fill_best(&b);
        break;
    }
    plan->limit = limit_of(&b);
}

/* --- parking -------------------------------------------------------------------------------- */

static bool decode_due(const struct scheduler_view *v, int64_t layer_us)
{
    struct cost_step decodes = {0};
    int64_t oldest = INT64_MAX;
    if (v->limits->decode_gap_us == 0 || v->decode->n == 0)
        return false;
    for (const struct request *r = v->decode->first; r; r = r->next) {
        cost_add_decode(&decodes, r->n_past);
        if (r->served_us < oldest)
            oldest = r->served_us;
    }
    return v->now_us + layer_us + cost_predict_us(v->cost, &decodes) >
           oldest + v->limits->decode_gap_us;
}

/* Only those that came after the plan are looked at: the others were ranked then. A request is
 * stamped up to SUBMIT_US before the engine thread hears of it. */
static bool shorter_came(const struct scheduler_view *v, const struct plan *running,
                         int64_t short_us)
{
    double best = rank(v, running->items[0].request);
    int64_t since_us = running->planned_us - SUBMIT_US;
    for (const struct request *r = v->waiting->last; r && r->arrived_us > since_us; r = r->prev)
        if (may_prefill(r) && cost_prompt_us(v->cost, request_past(r), r->n_goal) <= short_us &&
            blocks_to_goal(r) <= v->blocks && rank(v, r) < best)
            return true;
    return false;
}

bool scheduler_parks(const struct scheduler_view *v, const struct plan *running, int64_t left_us,
                     int64_t layer_us, int64_t *short_us)
{
    *short_us = left_us;
    if (!v->policy->parks || running->n_decodes > 0 || *short_us <= 0)
        return false;
    if (v->prefill->n + v->decode->n >= v->limits->max_active)
        return decode_due(v, layer_us);
    return decode_due(v, layer_us) || shorter_came(v, running, *short_us);
}
