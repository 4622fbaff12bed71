/* The whole engine under a seeded virtual clock: its thread's work done by hand on a backend that
 * costs time but computes nothing. Random arrivals, lengths, shared prefixes, priorities and
 * cancels, in pools so small that requests are put back, under every policy.
 *
 * After every step the KV pool and the prefix cache must be whole; every request ends once, with
 * the tokens it would have had alone; nobody starves; when all is quiet every block can be had.
 */
#include "unit/engine/group_world.h"

#ifdef FIRSTLIGHT_DEBUG /* the sanitizers are slow */
#define SEEDS 1000
#else
#define SEEDS 10000
#endif

#define REQUESTS 40
#define SLOTS    24
#define TEXTS    3 /* trunks of the tree that prompts are made of */

enum outcome { COMING, HERE, GONE, REFUSED };

struct visitor {
    struct request_params params;
    int64_t at_us;
    int64_t cancel_us; /* INT64_MAX: never */
    uint32_t max_tokens;
    struct request *request;
    enum outcome outcome;
    bool first_in_line; /* before this turn: it waited, and for nobody else */
};

/* What has happened, over all seeds: the test tests something. */
struct totals {
    uint64_t parked, preempted, prefix_hit, gap_missed, cancelled, refused, followed, errors;
    uint64_t cancelled_parked; /* while their step stood aside */
};

struct sim {
    struct random random;
    struct fake_clock clock;
    struct engine *engine;
    struct visitor visitors[REQUESTS];
    uint32_t n_come, n_gone;
    bool ample; /* blocks and places for everybody: requests wait for their turn alone */
    int64_t worst_us;
    struct totals *totals;
};

/* --- who comes ------------------------------------------------------------------------------ */

/* A trunk of the tree, a branch that four share, and leaves of its own. */
static struct request_params random_params(struct random *r, bool calm)
{
    uint32_t talk = calm ? 2 : 20;
    uint32_t text = random_below(r, TEXTS), branch = random_below(r, 4);
    uint32_t trunk = random_below(r, 4) == 0 ? 0 : 20 + 30 * text;
    uint32_t bough = trunk + (random_below(r, 2) ? 33 + 10 * branch : 0);
    uint32_t n = bough + random_below(r, random_below(r, 3) ? 20 : FAKE_CTX - 2 - bough);
    if (n == 0 || (calm && random_below(r, 4) > 0))
        n = 1 + random_below(r, 8);
    struct request_params p = fake_params(6 + (int32_t)text, n, 0);
    for (uint32_t i = 1; i < n; i++)
        p.prompt[i] = (int32_t)((i < trunk   ? i * 5
                                 : i < bough ? i * 3 + branch
                                             : random_below(r, 8)) %
                                FAKE_END);
    if (random_below(r, 60) == 0)
        p.prompt[0] = FAKE_NAN;
    p.salt.word[1] = random_below(r, 6) == 0;
    if (random_below(r, 6) == 0)
        p.salt = prefix_salt_public;
    p.priority = (int32_t)random_below(r, 3);
    p.max_tokens = 1 + random_below(r, random_below(r, 3) ? talk : talk * 12);
    return p;
}

/* In bursts or one by one, at half to four times what the machine can do. */
static void invite(struct sim *s)
{
    struct random *r = &s->random;
    double pace_us = 500 << random_below(r, 6);
    bool bursts = random_below(r, 2), cancels = random_below(r, 3) > 0;
    bool calm = random_below(r, 2); /* few decodes, many short prompts: steps stand aside */
    int64_t at_us = s->clock.now_us;
    for (uint32_t i = 0; i < REQUESTS; i++) {
        struct visitor *v = &s->visitors[i];
        if (!bursts || random_below(r, 8) == 0)
            at_us += (int64_t)(pace_us * (bursts ? 16 : 2) * random_unit(r));
        *v = (struct visitor){
            .params = random_params(r, calm), .at_us = at_us, .cancel_us = INT64_MAX};
        v->max_tokens = v->params.max_tokens;
        if (v->max_tokens > FAKE_CTX - v->params.n_prompt)
            v->max_tokens = FAKE_CTX - v->params.n_prompt;
        if (cancels && random_below(r, 3) == 0)
            v->cancel_us = at_us + (int64_t)(40000 * random_unit(r));
    }
}

static void come(struct sim *s, struct visitor *v)
{
    struct err err = {0};
    enum status status;
    v->params.user = v;
    s->n_come++;
    status = engine_submit(s->engine, &v->params, &v->request, &err);
    v->outcome = status == STATUS_OK ? HERE : REFUSED;
    if (status == STATUS_OK)
        return;
    assert_int_equal(status, STATUS_OVERLOADED);
    request_params_fini(&v->params);
    s->totals->refused++;
    s->n_gone++;
}

/* --- who goes ------------------------------------------------------------------------------- */

static void go(struct sim *s, struct visitor *v)
{
    struct request *r = v->request;
    assert_int_equal(v->outcome, HERE); /* its end is told once */
    v->outcome = GONE;
    s->n_gone++;
    fake_expect_tokens(r);
    if (r->finish == FINISH_LENGTH)
        assert_int_equal(r->n_tokens, v->max_tokens);
    else if (r->finish == FINISH_CANCELLED)
        assert_true(v->cancel_us <= s->clock.now_us);
    else
        assert_true(r->finish == FINISH_ERROR && r->params.prompt[0] == FAKE_NAN);
    s->totals->errors += r->finish == FINISH_ERROR;
    assert_true(r->n_hit < r->params.n_prompt);
    engine_release(s->engine, r);
}

static bool in_parked_step(const struct request *r)
{
    for (uint32_t i = 0; fake_last->has_parked && i < fake_last->parked.batch.n_seqs; i++)
        if (fake_last->parked.batch.seqs[i].request == r->slot)
            return true;
    return false;
}

/* What the owner's thread does, between layers too. */
static void owner(void *arg)
{
    struct sim *s = arg;
    struct request *r;
    mem_forbid(false);
    while (s->n_come < REQUESTS && s->visitors[s->n_come].at_us <= s->clock.now_us)
        come(s, &s->visitors[s->n_come]);
    for (uint32_t i = 0; i < s->n_come; i++) {
        struct visitor *v = &s->visitors[i];
        if (v->outcome != HERE)
            continue;
        if (in_parked_step(v->request) && random_below(&s->random, 16) == 0)
            v->cancel_us = s->clock.now_us; /* a rare moment */
        if (v->cancel_us > s->clock.now_us)
            continue;
        s->totals->cancelled_parked += !v->request->cancel_sent && in_parked_step(v->request);
        engine_cancel(s->engine, v->request);
    }
    while ((r = engine_next_event(s->engine))) {
        struct request_news news;
        request_read(r, &news);
        if (news.finish != FINISH_NONE)
            go(s, request_user(r));
    }
    mem_forbid(true);
}

/* --- what must hold ------------------------------------------------------------------------- */

/* Under fifo nobody is admitted while one who came before waits, unless that one waits for another
 * to compute its prefix. */
static void check_order(const struct sim *s)
{
    int64_t passed_us = INT64_MAX;
    for (uint32_t i = 0; i < s->n_come; i++) {
        const struct visitor *v = &s->visitors[i];
        if (v->first_in_line && v->outcome == HERE && v->request->state == REQUEST_WAITING &&
            !v->request->leader && v->at_us < passed_us)
            passed_us = v->request->arrived_us;
    }
    for (uint32_t i = 0; i < s->n_come; i++) {
        const struct visitor *v = &s->visitors[i];
        if (v->first_in_line && v->outcome == HERE && v->request->state != REQUEST_WAITING)
            assert_true(v->request->arrived_us <= passed_us);
    }
}

/* A bound that ageing implies. Under srpf the order of two overdue prompts is that of (arrival +
 * work left + 5 times all work), which only changes by being served. So once a prompt has waited
 * for six times as long as its work takes, whoever comes goes behind it, and those before it only
 * become fewer. In order of
 * arrival the same holds at once. Decodes have a place in every step, in turns. A step, with the
 * short ones that it stands aside for at each layer, takes at most so many times the longest there
 * is. Only where nobody waits for blocks or for an active place. */
static void check_waits(const struct sim *s)
{
    int64_t step_us = s->worst_us * (1 + FAKE_LAYERS);
    for (uint32_t i = 0; i < s->n_come; i++) {
        const struct visitor *v = &s->visitors[i];
        if (v->outcome != HERE || v->request->leader || v->request->state == REQUEST_QUEUED)
            continue;
        int64_t unserved_us = s->clock.now_us - v->request->served_us;
        assert_true(unserved_us <= 6 * s->worst_us * FAKE_CTX / 16 + SLOTS * step_us);
    }
}

/* The backlog is the sum of what each has still to compute. */
static void check_press(const struct sim *s)
{
    struct engine_stats stats;
    uint64_t backlog = 0;
    for (uint32_t i = 0; i < s->n_come; i++)
        if (s->visitors[i].outcome == HERE)
            backlog += s->visitors[i].request->charge;
    engine_stats(s->engine, &stats);
    assert_int_equal(stats.backlog_tokens, backlog);
}

static void check(struct sim *s)
{
    struct engine *e = s->engine;
    check_press(s);
    assert_true(kv_check(&e->kv));
    assert_true(prefix_check(&e->prefix));
    if (strcmp(e->policy->name, "fifo") == 0)
        check_order(s);
    if (s->ample)
        check_waits(s);
    for (uint32_t i = 0; i < s->n_come; i++) {
        struct visitor *v = &s->visitors[i];
        const struct request *r = v->request;
        bool here = v->outcome == HERE;
        v->first_in_line = here && r->state == REQUEST_WAITING && !r->leader;
        s->totals->followed += here && r->state == REQUEST_WAITING && r->leader;
        if (here && r->state == REQUEST_WAITING && r->leader)
            assert_true(r->params.salt.word[1] == r->leader->params.salt.word[1] &&
                        !r->leader->leader && r->leader->n_past < r->leader_tokens &&
                        r->leader->follow_at > 0 && r->leader->follow_at <= r->leader_tokens);
        if (here && r->state == REQUEST_DECODE)
            assert_true(r->n_past + 1 == r->n_goal && !r->in_step);
    }
}

/* --- running -------------------------------------------------------------------------------- */

static struct engine_options random_options(struct sim *s)
{
    struct random *r = &s->random;
    static const uint32_t gaps_ms[] = {ENGINE_NONE, 2, 10, 50};
    uint32_t policies = 0;
    while (policy_at(policies))
        policies++;
    s->ample = random_below(r, 3) == 0;
    uint32_t n_blocks =
        s->ample ? SLOTS * FAKE_CTX / KV_BLOCK : FAKE_CTX / KV_BLOCK + random_below(r, 16);
    struct engine_options o = {
        .n_threads = 1,
        .kv_type = KV_F32,
        .n_ctx = FAKE_CTX,
        .kv_memory = n_blocks * model_kv_block_bytes(&world.model.config, KV_F32),
        .n_slots = SLOTS,
        .max_batch_seqs = 1 + random_below(r, 12),
        .policy = policy_at(random_below(r, policies))->name,
        .decode_gap_ms = gaps_ms[random_below(r, 4)],
        .no_prefix_cache = random_below(r, 4) == 0,
    };
    o.max_batch_tokens = o.max_batch_seqs + random_below(r, 200);
    o.max_step_prompts = random_below(r, 4);
    o.max_queued_requests = random_below(r, 2) ? 0 : 1 + random_below(r, SLOTS);
    o.max_queued_tokens = random_below(r, 2) ? 0 : 1 + random_below(r, SLOTS * FAKE_CTX / 4);
    o.max_active = random_below(r, 2) ? 0 : 1 + random_below(r, SLOTS);
    if (s->ample) {
        o.max_active = SLOTS;
        o.max_batch_seqs = 4 + random_below(r, 12);
        o.max_batch_tokens = 64 + random_below(r, 200);
    }
    return o;
}

static void open_sim(struct sim *s, uint64_t seed, struct totals *totals)
{
    *s = (struct sim){.random = {seed * 2654435761u + 1}, .totals = totals};
    s->clock = (struct fake_clock){.now_us = 1000000,
                                   .step_us = 100,
                                   .token_us = 100,
                                   .pair_us = 0.1,
                                   .decode_us = 60,
                                   .read_us = 0.3,
                                   .noise = 0.3,
                                   .random = {seed + 1},
                                   .after_layers = owner,
                                   .arg = s};
    struct engine_options options = random_options(s);
    s->engine = fake_open_by_hand(&world, &options, &s->clock);
    s->engine->prefix.seed = s->engine->prefix.expect.seed = seed; /* else they are random */
    s->worst_us = (int64_t)(1.3 * (100 + 100 * 264 + 0.1 * 264 * 264 + 16 * (60 + 0.3 * FAKE_CTX)));
    invite(s);
}

static void close_sim(struct sim *s)
{
    struct engine_stats stats;
    engine_stats(s->engine, &stats);
    assert_int_equal(s->engine->lists.of[REQUEST_FREE].n, SLOTS);
    assert_int_equal(stats.kv_blocks_free, stats.kv_blocks_total);
    assert_int_equal(s->engine->kv.n_free + s->engine->kv.n_idle, s->engine->kv.n_blocks);
    assert_int_equal(stats.running + stats.waiting, 0);
    assert_int_equal(stats.backlog_tokens, 0);
    assert_int_equal(stats.queued, 0);
    assert_true(stats.finished >= stats.cancelled);
    s->totals->parked += stats.parked;
    s->totals->preempted += stats.preempted;
    s->totals->prefix_hit += stats.prefix_hit;
    s->totals->gap_missed += stats.gap_missed;
    s->totals->cancelled += stats.cancelled;
    fake_close_by_hand(s->engine);
}

static void run_seed(uint64_t seed, struct totals *totals)
{
    struct sim s;
    open_sim(&s, seed, totals);
    for (uint32_t turns = 0; s.n_gone < REQUESTS; turns++) {
        assert_true(turns < 100000);
        mem_forbid(true);
        bool worked = engine_thread_turn(s.engine);
        owner(&s);
        mem_forbid(false);
        check(&s);
        if (!worked && s.n_come < REQUESTS && s.engine->lists.of[REQUEST_FREE].n == SLOTS)
            s.clock.now_us = s.visitors[s.n_come].at_us; /* asleep until somebody comes */
    }
    close_sim(&s);
}

static void thousands_of_seeds(void **state)
{
    (void)state;
    struct totals t = {0};
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        run_seed(seed, &t);
    print_message("parked %llu, put back %llu, hit %llu tokens, missed %llu gaps, cancelled %llu "
                  "(%llu in parked steps), refused %llu, followed for %llu turns, failed %llu\n",
                  (unsigned long long)t.parked, (unsigned long long)t.preempted,
                  (unsigned long long)t.prefix_hit, (unsigned long long)t.gap_missed,
                  (unsigned long long)t.cancelled, (unsigned long long)t.cancelled_parked,
                  (unsigned long long)t.refused, (unsigned long long)t.followed,
                  (unsigned long long)t.errors);
    assert_true(t.parked > SEEDS / 10 && t.preempted > SEEDS / 4 && t.prefix_hit > SEEDS * 100);
    assert_true(t.gap_missed > SEEDS / 4 && t.cancelled > SEEDS &&
                t.cancelled_parked > SEEDS / 200);
    assert_true(t.refused > SEEDS / 4 && t.followed > SEEDS && t.errors > SEEDS / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thousands_of_seeds),
    };
    return cmocka_run_group_tests_name("sim_engine", tests, open_world, close_world);
}
