/* Who is refused under a bound in time (--max-queue-ms), in virtual time: bursts of prompts that
 * are cached, of prompts that are not, and one behind the other, on a machine that is slowed by
 * other programs and jitters.
 *
 * Two promises. Nobody is refused while all the work before it takes far less than the bound:
 * how long it took is known in the end. And a request that is taken has its first token after about
 * the bound at most.
 */
#include "unit/engine/group_world.h"

#ifdef FIRSTLIGHT_DEBUG /* the sanitizers are slow */
#define SEEDS 30
#else
#define SEEDS 300
#endif

#define SLOTS      1024
#define BURST      100 /* requests, at most */
#define BURSTS     20
#define TEXTS      3 /* that are asked again and again */
#define SECOND     INT64_C(1000000)
#define LONGEST    200 /* tokens of a prompt */
#define NEW_TOKENS 8

enum kind { CACHED, UNCACHED };

struct visitor {
    struct request *request; /* NULL: gone, or refused */
    bool refused;
    enum kind kind;
    int64_t came_us, first_us;
};

struct sim {
    struct fake_clock clock;
    struct engine *engine;
    struct random random;
    int64_t bound_us;
    double slow; /* so many times the usual time */
    struct visitor visitors[BURST * BURSTS];
    uint32_t n, n_here;
    uint32_t n_texts;        /* without a second one, so far */
    struct prefix_salt salt; /* of who comes */
    uint32_t refused[2], taken[2];
};

/* --- the machine ---------------------------------------------------------------------------- */

static void set_speed(struct sim *s, double slow)
{
    s->slow = slow;
    s->clock.step_us = 1500 * slow;
    s->clock.token_us = 250 * slow;
    s->clock.decode_us = 500 * slow;
    s->clock.read_us = 0.5 * slow;
    s->clock.pair_us = 0.1 * slow;
    s->clock.noise = slow > 1 ? 0.6 : 0.1;
}

static void take_events(void *arg)
{
    struct sim *s = arg;
    struct request *r;
    mem_forbid(false);
    while ((r = engine_next_event(s->engine))) {
        struct request_news news;
        struct visitor *v = request_user(r);
        request_read(r, &news);
        if (v->first_us == 0)
            v->first_us = r->params.timeline.at_us[TIMELINE_FIRST_TOKEN];
        if (news.finish == FINISH_NONE)
            continue;
        fake_expect_tokens(r);
        engine_release(s->engine, r);
        v->request = NULL;
        s->n_here--;
    }
}

static void open_sim(struct sim *s, uint64_t seed, struct engine_options o)
{
    *s = (struct sim){.random = {seed * 2654435761u + 1}};
    s->bound_us = o.max_queue_ms * SECOND / 1000;
    s->clock = (struct fake_clock){
        .now_us = SECOND, .random = {seed + 1}, .after_layers = take_events, .arg = s};
    set_speed(s, 1);
    o.n_threads = 1;
    o.kv_type = KV_F32;
    o.n_ctx = FAKE_CTX;
    o.n_slots = SLOTS;
    o.max_batch_seqs = FAKE_SEQS;
    o.kv_memory = 1200 * model_kv_block_bytes(&world.model.config, KV_F32);
    s->engine = fake_open_by_hand(&world, &o, &s->clock);
    s->engine->prefix.seed = s->engine->prefix.expect.seed = seed; /* else they are random */
}

static void turn(struct sim *s)
{
    mem_forbid(true);
    engine_thread_turn(s->engine);
    take_events(s);
    mem_forbid(false);
}

static void finish(struct sim *s)
{
    while (s->n_here > 0)
        turn(s);
}

/* Idle or busy, the clock goes on. */
static void wait_us(struct sim *s, int64_t us)
{
    int64_t until_us = s->clock.now_us + us;
    while (s->clock.now_us < until_us)
        if (s->n_here > 0)
            turn(s);
        else
            s->clock.now_us = until_us;
}

/* Every chain that is expected is cached: what was under way has been taken off. */
static void check_chains(const struct prefix *p)
{
    uint64_t expected = 0, cached = 0;
    for (uint64_t i = 0; i <= p->expect.mask; i++)
        expected += p->expect.chains[i];
    for (uint32_t id = 0; id < p->kv->n_blocks; id++)
        cached += p->nodes[id].n_tokens == KV_BLOCK;
    assert_int_equal(expected, cached);
}

static void close_sim(struct sim *s)
{
    finish(s);
    check_chains(&s->engine->prefix);
    struct engine_stats stats;
    engine_stats(s->engine, &stats);
    assert_int_equal(stats.backlog_tokens, 0);
    assert_int_equal(stats.queued, 0);
    fake_close_by_hand(s->engine);
}

/* --- who comes ------------------------------------------------------------------------------ */

/* Text `which` is the same each time; all others differ from their second token on. */
static struct request_params prompt(struct sim *s, enum kind kind, uint32_t which)
{
    uint32_t n =
        kind == CACHED ? LONGEST - 30 * which : LONGEST / 2 + random_below(&s->random, LONGEST / 2);
    uint32_t number = kind == CACHED ? which : TEXTS + s->n_texts++;
    struct request_params p = fake_params(6, n, NEW_TOKENS);
    p.salt = s->salt;
    for (uint32_t i = 1; i < n; i++)
        p.prompt[i] =
            (int32_t)((i * 7 + (i < 5 ? number >> (4 * (i - 1)) & 15 : number)) % FAKE_END);
    return p;
}

static void come(struct sim *s, enum kind kind, uint32_t which)
{
    struct err err = {0};
    struct visitor *v = &s->visitors[s->n++];
    struct request_params p = prompt(s, kind, which);
    *v = (struct visitor){.kind = kind, .came_us = s->clock.now_us};
    p.user = v;
    if (engine_submit(s->engine, &p, &v->request, &err) == STATUS_OK) {
        s->n_here++;
        s->taken[kind]++;
        return;
    }
    assert_string_equal(engine_limit(s->engine), "queue_time");
    request_params_fini(&p);
    v->refused = true;
    s->refused[kind]++;
}

static void burst(struct sim *s, enum kind kind, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        come(s, kind, i % TEXTS);
}

/* As engine_warm does. */
static void warm(struct sim *s)
{
    static const uint32_t sizes[] = {8, 64, LONGEST};
    for (uint32_t i = 0; i < 3; i++) {
        struct visitor *v = &s->visitors[0];
        struct request_params p = fake_params(7 + (int32_t)i, sizes[i], 4);
        *v = (struct visitor){0};
        p.user = v;
        v->request = fake_submit(s->engine, &p);
        s->n_here++;
        finish(s);
    }
}

/* --- what must hold ------------------------------------------------------------------------- */

/* After its arrival, until the last of those before it had its first token. */
static int64_t work_before_us(const struct sim *s, const struct visitor *v)
{
    int64_t until_us = v->came_us;
    for (const struct visitor *o = s->visitors; o < v; o++)
        if (!o->refused && o->first_us > until_us)
            until_us = o->first_us;
    return until_us - v->came_us;
}

struct worst {
    double taken;   /* the longest wait of who was taken, in bounds */
    double refused; /* the least work before who was refused, in bounds */
};

static void judge(const struct sim *s, struct worst *w)
{
    int64_t least_us = INT64_MAX, most_us = 0;
    for (const struct visitor *v = s->visitors; v < s->visitors + s->n; v++)
        if (v->refused) {
            int64_t us = work_before_us(s, v);
            least_us = us < least_us ? us : least_us;
        } else if (v->first_us - v->came_us > most_us) {
            most_us = v->first_us - v->came_us;
        }
    double bound = (double)s->bound_us;
    w->taken = fmax(w->taken, (double)most_us / bound);
    if (least_us < INT64_MAX)
        w->refused = fmin(w->refused, (double)least_us / bound);
}

static void report(const struct sim *s, const struct worst *w)
{
    print_message(
        "cached: taken %u, refused %u; not cached: taken %u, refused %u; the longest wait "
        "is %.2f of the bound, the least work before one refused %.2f\n",
        s->taken[CACHED], s->refused[CACHED], s->taken[UNCACHED], s->refused[UNCACHED], w->taken,
        w->refused);
}

/* --- scenarios ------------------------------------------------------------------------------ */

/* Beside other programs: steps take five times the usual time, more or less. */
static struct sim *open_slow(uint32_t bound_ms)
{
    struct sim *s = mem_zalloc(sizeof *s);
    assert_non_null(s);
    open_sim(s, 1, (struct engine_options){.max_queue_ms = bound_ms});
    set_speed(s, 5);
    warm(s);
    return s;
}

static struct worst close_slow(struct sim *s)
{
    struct worst w = {.refused = INFINITY};
    finish(s);
    judge(s, &w);
    report(s, &w);
    close_sim(s);
    mem_free(s);
    return w;
}

/* A hundred at once, the same three texts again and again. */
static void cached_bursts_are_taken(void **state)
{
    (void)state;
    struct sim *s = open_slow(10000);
    for (uint32_t i = 0; i < BURSTS; i++) {
        burst(s, CACHED, BURST);
        finish(s);
    }
    assert_int_equal(s->refused[CACHED], 0);
    struct worst w = close_slow(s);
    assert_true(w.taken < 1.0 / 3);
}

/* That all was cached so far says nothing of prompts that are not. */
static void others_after_them_are_bounded(void **state)
{
    (void)state;
    struct sim *s = open_slow(10000);
    for (uint32_t i = 0; i < BURSTS / 2; i++) {
        burst(s, CACHED, BURST);
        finish(s);
    }
    burst(s, UNCACHED, BURST);
    assert_true(s->refused[UNCACHED] > BURST / 4 && s->taken[UNCACHED] > BURST / 4);
    struct worst w = close_slow(s);
    assert_true(w.taken < 1.5 && w.refused > 0.5);
}

static void cached_ones_after_others_are_taken(void **state)
{
    (void)state;
    struct sim *s = open_slow(10000);
    burst(s, CACHED, TEXTS);
    finish(s);
    burst(s, UNCACHED, BURST);
    finish(s);
    assert_true(s->refused[UNCACHED] > BURST / 4);
    burst(s, CACHED, BURST);
    assert_int_equal(s->refused[CACHED], 0);
    struct worst w = close_slow(s);
    assert_true(w.taken < 1.5 && w.refused > 0.5);
}

/* Nothing is cached, but of the same text: it is computed once. */
static void one_text_for_all_is_charged_once(void **state)
{
    (void)state;
    struct sim *s = open_slow(10000);
    for (uint32_t i = 0; i < BURST; i++)
        come(s, CACHED, 0);
    assert_int_equal(s->refused[CACHED], 0);
    assert_true(s->engine->admission.backlog == LONGEST + BURST - 1);
    turn(s);
    assert_true(s->engine->admission.backlog < LONGEST + BURST);
    struct worst w = close_slow(s);
    assert_true(w.taken < 0.5);
}

/* Each in a salt of its own, so that nothing but the public part is cached for it. */
static void warm_prompts_are_not_charged(void **state)
{
    (void)state;
    struct sim *s = open_slow(10000);
    s->salt = prefix_salt_public;
    burst(s, CACHED, TEXTS);
    finish(s);
    for (uint32_t i = 0; i < BURST; i++) {
        s->salt = (struct prefix_salt){{i, 0}};
        come(s, CACHED, i % TEXTS);
    }
    assert_int_equal(s->refused[CACHED], 0);
    assert_true(s->engine->admission.backlog == BURST);
    struct worst w = close_slow(s);
    assert_true(w.taken < 0.5);
}

static void random_bursts(struct sim *s)
{
    uint32_t n = 3 + random_below(&s->random, 6);
    double slow = 1 + random_below(&s->random, 5);
    set_speed(s, slow);
    warm(s);
    for (uint32_t i = 0; i < n; i++) {
        burst(s, random_below(&s->random, 2) ? CACHED : UNCACHED,
              20 + random_below(&s->random, BURST - 20));
        if (random_below(&s->random, 2))
            finish(s);
        else
            wait_us(s, (int64_t)(random_unit(&s->random) * 3 * SECOND));
    }
    finish(s);
}

static void hundreds_of_crowds(void **state)
{
    (void)state;
    struct sim *s = mem_zalloc(sizeof *s);
    struct worst all = {.refused = INFINITY};
    uint32_t refused = 0, cached = 0;
    static const uint32_t bounds_ms[] = {3000, 10000, 30000};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct worst w = {.refused = INFINITY};
        open_sim(s, seed, (struct engine_options){.max_queue_ms = bounds_ms[seed % 3]});
        random_bursts(s);
        judge(s, &w);
        close_sim(s);
        all.taken = fmax(all.taken, w.taken);
        all.refused = fmin(all.refused, w.refused);
        refused += s->refused[UNCACHED];
        cached += s->taken[CACHED];
    }
    print_message(
        "of all, the longest wait is %.2f of the bound, the least work before one refused "
        "%.2f\n",
        all.taken, all.refused);
    assert_true(refused > SEEDS && cached > SEEDS);
    assert_true(all.taken < 2);
    assert_true(all.refused > 1.0 / 3);
    mem_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cached_bursts_are_taken),
        cmocka_unit_test(others_after_them_are_bounded),
        cmocka_unit_test(cached_ones_after_others_are_taken),
        cmocka_unit_test(one_text_for_all_is_charged_once),
        cmocka_unit_test(warm_prompts_are_not_charged),
        cmocka_unit_test(hundreds_of_crowds),
    };
    return cmocka_run_group_tests_name("sim_admission", tests, open_world, close_world);
}
