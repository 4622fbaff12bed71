/* Two sides in turns: what the interval says of sides that differ by a known factor, when it ends,
 * and in which order things happen. The sides answer at once, with stamps of their own making. */
#include "base/clock.h"
#include "base/mem.h"
#include "bench/kinds/ab.h"
#include "bench/result/random.h"
#include "support/cmocka_all.h"
#include "support/sanitized.h"

#include <math.h>
#include <string.h>

#define REQUESTS 3
#define CHUNKS   4
#define TTFT_US  40000
#define GAP_US   3000
#define MOST     4000 /* entries of the log */

struct side {
    struct target base;
    double factor; /* of all its times */
};

/* What the two sides share: the machine, which drifts, and the log. */
static struct {
    struct side sides[AB_SIDES];
    struct random random;
    double start_luck[AB_SIDES]; /* of this start: a logarithm */
    double drift;                /* of the machine: a walk */
    uint32_t n_sent, fail_from, fail_to, cached_of_b;
    char log[MOST]; /* 'A' and 'B': a run of it; 'a' and 'b': a start */
    size_t n_log;
    atomic_bool stop;
    uint32_t stop_at;     /* requests */
    uint32_t starts_left; /* then a side does not come up; 0: always */
} world;

static void note(char c)
{
    if (world.n_log < MOST - 1)
        world.log[world.n_log++] = c;
}

static void answer(struct side *s, struct record *r)
{
    size_t which = (size_t)(s - world.sides);
    double noise = 0.05 * random_normal(&world.random) + world.drift + world.start_luck[which];
    double slow = s->factor * exp(noise) * (random_below(&world.random, 20) ? 1 : 3);
    for (int i = 0; i < CHUNKS; i++)
        record_chunk(r, r->sent_us + (int64_t)(slow * (TTFT_US + i * GAP_US)));
    r->prompt_tokens = 100;
    r->cached_tokens = which == AB_B ? world.cached_of_b : 0;
    r->completion_tokens = CHUNKS;
    record_end(r, RECORD_OK, r->chunk_us[CHUNKS - 1], NULL);
}

static void send(struct target *t, const struct work_item *item, struct record *r)
{
    struct side *s = (struct side *)t;
    uint32_t n = world.n_sent++;
    (void)item;
    if (n % REQUESTS == 0) {
        note((char)('A' + (s - world.sides)));
        world.drift += 0.02 * random_normal(&world.random);
    }
    r->state = RECORD_RUNNING;
    r->sent_us = clock_now_us();
    if (n >= world.fail_from && n < world.fail_to)
        record_end(r, RECORD_FAILED, r->sent_us + 1, "it said no");
    else
        answer(s, r);
    if (world.stop_at > 0 && world.n_sent == world.stop_at)
        atomic_store(&world.stop, true);
}

static void poll(struct target *t, int64_t until_us)
{
    (void)t;
    (void)until_us;
}

static void cancel(struct target *t, struct record *r)
{
    (void)t;
    (void)r;
}

static const struct target_ops ops = {.send = send, .poll = poll, .cancel = cancel};

static enum status start(void *arg, int side, struct target **t, pid_t *pid, struct err *err)
{
    (void)arg;
    if (world.starts_left > 0 && --world.starts_left == 0) {
        *t = NULL;
        return err_set(err, STATUS_UNAVAILABLE, "it is gone");
    }
    note((char)('a' + side));
    world.start_luck[side] = 0.03 * random_normal(&world.random);
    *t = &world.sides[side].base;
    *pid = 0;
    return STATUS_OK;
}

static const struct workload_options workload = {.prompt = "Hello",
                                                 .num_requests = REQUESTS,
                                                 .max_new_tokens = CHUNKS,
                                                 .max_concurrency = 1,
                                                 .burstiness = 1,
                                                 .stream = true};
static const struct measure_options measure = {.stop = &world.stop};
static struct ab ab;
static struct ab_options options;

/* B's times are A's times factor. */
static void begin(double factor, uint64_t seed)
{
    memset(&world, 0, sizeof world);
    random_init(&world.random, seed, 99);
    for (int i = 0; i < AB_SIDES; i++)
        world.sides[i] = (struct side){.base = {.ops = &ops}, .factor = i == AB_B ? factor : 1};
    world.fail_from = world.fail_to = UINT32_MAX;
    options = (struct ab_options){.names = {"old", "new"},
                                  .workload = &workload,
                                  .measure = &measure,
                                  .pairs = 3,
                                  .metric = AB_TTFT_P50,
                                  .width_percent = 2.5,
                                  .time_limit_s = 600,
                                  .seed = seed,
                                  .start = start,
                                  .anew = {true, true}};
}

static struct ab_difference difference(enum ab_metric metric)
{
    struct ab_difference d;
    assert_true(ab_difference(&ab, &options, metric, &d));
    return d;
}

static bool says(const char *what)
{
    struct buf out = {0};
    assert_true(ab_table(&out, &ab, &options));
    bool found = strstr(buf_str(&out), what) != NULL;
    if (!found)
        print_message("%s", buf_str(&out));
    buf_fini(&out);
    return found;
}

/* 5 percent are found, through a machine that drifts, starts that differ and runs that are
 * disturbed; and sides that are equal are not told apart more often than 95 percent allows. */
static void finds_what_differs(void **state)
{
    (void)state;
    const uint32_t n = SANITIZED ? 6 : 60;
    uint32_t found = 0, held = 0, fooled = 0;
    for (uint64_t seed = 500; seed < 500 + n; seed++) {
        begin(seed % 2 ? 1.05 : 1, seed);
        assert_int_equal(ab_run(&ab, &options, NULL), STATUS_OK);
        assert_int_equal(ab.end, AB_NARROW);
        struct signed_rank p = difference(AB_TTFT_P50).percent;
        assert_true(p.high - p.low <= 2.5 && p.low <= p.estimate && p.estimate <= p.high);
        held += seed % 2 ? p.low <= 5 && p.high >= 5 : p.low <= 0 && p.high >= 0;
        found += seed % 2 && p.low > 0;
        fooled += seed % 2 == 0 && (p.low > 0 || p.high < 0);
        ab_fini(&ab);
    }
    assert_int_equal(found, n / 2);
    assert_in_range(held, n - n / 7 - 1, n);
    assert_in_range(fooled, 0, n / 12 + 1);
}

/* Each side comes first in about half of the pairs, and each block has a start of both. */
static void order_is_random(void **state)
{
    (void)state;
    uint32_t b_first = 0, noted = 0, b_started_first = 0;
    begin(1, 7);
    options.width_percent = SANITIZED ? 2 : 1.6;
    assert_int_equal(ab_run(&ab, &options, NULL), STATUS_OK);
    assert_int_equal(ab.n_starts, ab.n_blocks);
    assert_in_range(ab.n_blocks, 15, MOST / 8 - 1);
    for (uint32_t block = 0; block < ab.n_blocks; block++) {
        const char *log = world.log + 8 * block;
        b_started_first += log[0] == 'b';
        assert_true((log[0] == 'a' && log[1] == 'b') || (log[0] == 'b' && log[1] == 'a'));
        for (int pair = 0; pair < 3; pair++) {
            const char *runs = log + 2 + 2 * pair;
            assert_true((runs[0] == 'A' && runs[1] == 'B') || (runs[0] == 'B' && runs[1] == 'A'));
            b_first += runs[0] == 'B';
        }
        assert_int_equal(ab.blocks[block].n_pairs, 3);
        noted += ab.blocks[block].n_b_first;
    }
    assert_int_equal(b_first, noted);
    assert_in_range(b_first, ab.n_blocks, ab.n_blocks * 2);
    assert_in_range(b_started_first, ab.n_blocks / 4, ab.n_blocks * 3 / 4);
    ab_fini(&ab);
}

/* Servers that are there: one start, and each pair counts. */
static void servers_that_are_there(void **state)
{
    (void)state;
    begin(1.3, 3);
    options.anew[AB_A] = options.anew[AB_B] = false;
    assert_int_equal(ab_run(&ab, &options, NULL), STATUS_OK);
    assert_int_equal(ab.n_starts, 1);
    assert_true(difference(AB_TTFT_P50).percent.low > 15);
    assert_true(says("worse") && says("A was not started anew") && says("B was not"));
    ab_fini(&ab);
}

/* The other metrics' intervals are wider, and a higher rate is better. */
static void other_metrics(void **state)
{
    (void)state;
    begin(0.8, 5);
    options.metric = AB_TPOT_P50;
    assert_int_equal(ab_run(&ab, &options, NULL), STATUS_OK);
    struct ab_difference own = difference(AB_TPOT_P50), other = difference(AB_TTFT_P50);
    assert_true(own.confidence == 0.95 && fabs(other.confidence - (1 - 0.05 / 6)) < 1e-12);
    assert_true(own.percent.high < 0 && other.percent.high < 0);
    assert_int_equal(difference(AB_TOKENS_PER_S).n, ab.n_blocks);
    assert_int_equal(difference(AB_PROCESSOR).n, 0); /* no process is known */
    assert_true(says("tpot_p50, ms") && says("95.0 %  better"));
    ab_fini(&ab);
}

static void the_time_limit(void **state)
{
    (void)state;
    begin(1.05, 1);
    options.time_limit_s = 0;
    assert_int_equal(ab_run(&ab, &options, NULL), STATUS_OK);
    assert_int_equal(ab.end, AB_TIME);
    assert_int_equal(ab.n_blocks, 1);
    assert_int_equal(ab.blocks[0].n_pairs, 1);
    assert_true(says("the time limit ended it") && says("no verdict: 1 blocks are too few"));
    ab_fini(&ab);
}

static void an_interruption(void **state)
{
    (void)state;
    begin(1.05, 1);
    world.stop_at = 10 * 3 * 2 * REQUESTS + 1;
    assert_int_equal(ab_run(&ab, &options, NULL), STATUS_OK);
    assert_int_equal(ab.end, AB_INTERRUPTED);
    assert_int_equal(ab.n_blocks, 10);
    ab_fini(&ab);
}

/* A server that does not come up again: what was measured stays, and nothing of it is lost. */
static void a_server_that_is_gone(void **state)
{
    (void)state;
    struct err err = {0};
    begin(1, 1);
    world.starts_left = 7;
    assert_int_equal(ab_run(&ab, &options, &err), STATUS_UNAVAILABLE);
    assert_non_null(strstr(err.text, "it is gone"));
    assert_int_equal(ab.n_blocks, 3);
    assert_int_equal(ab.end, AB_FAILED);
    assert_true(says("an error ended it") && says("no verdict: 3 blocks"));
    struct result r;
    result_init(&r, "ab", NULL, json_object(), json_object());
    ab_result(&ab, &options, &r);
    assert_false(r.failed);
    result_fini(&r);
    ab_fini(&ab);
}

/* A block with a failure is left out; five in a row end it with the reason. */
static void failures(void **state)
{
    (void)state;
    struct err err = {0};
    begin(1, 1);
    world.fail_from = 6 * REQUESTS + 1;
    world.fail_to = world.fail_from + 1;
    assert_int_equal(ab_run(&ab, &options, &err), STATUS_OK);
    assert_int_equal(ab.sides[AB_A].n_failed + ab.sides[AB_B].n_failed, 1);
    assert_int_equal(ab.n_starts, ab.n_blocks + 1);
    ab_fini(&ab);
    begin(1, 1);
    world.fail_from = 3 * 2 * REQUESTS;
    assert_int_equal(ab_run(&ab, &options, &err), STATUS_UNAVAILABLE);
    assert_non_null(strstr(err.text, "5 blocks in a row had requests that failed: "));
    assert_non_null(strstr(err.text, "it said no"));
    assert_int_equal(ab.n_blocks, 1);
    ab_fini(&ab);
}

/* One side had its prompts in a cache: whatever the difference is, it is not the program's. */
static void a_warm_cache(void **state)
{
    (void)state;
    begin(0.5, 1);
    world.cached_of_b = 50;
    assert_int_equal(ab_run(&ab, &options, NULL), STATUS_OK);
    assert_true(says("no verdict: one side had more of its prompts in a prefix cache"));
    assert_true(says("95.0 %  no verdict"));
    ab_fini(&ab);
}

static void the_result(void **state)
{
    (void)state;
    struct result r;
    const char *verdict;
    double low, high;
    json_int_t blocks;
    begin(1.2, 1);
    assert_int_equal(ab_run(&ab, &options, NULL), STATUS_OK);
    result_init(&r, "ab", NULL, json_object(), json_object());
    ab_result(&ab, &options, &r);
    assert_false(r.failed);
    assert_int_equal(json_array_size(json_object_get(r.root, "runs")), ab.n_blocks);
    assert_int_equal(json_unpack(r.root, "{s:{s:I, s:{s:{s:s, s:f, s:f}}}}", "ab", "blocks",
                                 &blocks, "differences", "ttft_p50", "verdict", &verdict, "low",
                                 &low, "high", &high),
                     0);
    assert_string_equal(verdict, "worse");
    assert_true(low > 10 && high < 30 && blocks == ab.n_blocks);
    result_fini(&r);
    ab_fini(&ab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_differs),     cmocka_unit_test(order_is_random),
        cmocka_unit_test(servers_that_are_there), cmocka_unit_test(other_metrics),
        cmocka_unit_test(the_time_limit),         cmocka_unit_test(an_interruption),
        cmocka_unit_test(a_server_that_is_gone),  cmocka_unit_test(failures),
        cmocka_unit_test(a_warm_cache),           cmocka_unit_test(the_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
