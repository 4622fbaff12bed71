/* What a prompt is expected to find in the prefix cache: whole blocks that are cached or under way,
 * and the end of a prompt that was asked before. */
#include "engine/expected_cache.h"
#include "engine/kv.h"
#include "support/cmocka_all.h"

#define N 100 /* three blocks and four tokens */

static const struct prefix_salt nobody = {{0}};

static void fill(int32_t *tokens, uint32_t n, int32_t text)
{
    for (uint32_t i = 0; i < n; i++)
        tokens[i] = (int32_t)i * 7 + text;
}

static void open_expect(struct expected_cache *x, int32_t *tokens)
{
    struct err err = {0};
    assert_int_equal(expected_cache_init(x, 10, 42, &err), STATUS_OK);
    fill(tokens, N, 1);
}

/* As the prefix cache does when a block is published, and dropped. */
static void count_blocks(struct expected_cache *x, const int32_t *tokens, uint32_t n_blocks,
                         void (*count)(struct expected_cache *x, uint64_t chain,
                                       const struct prefix_salt *salt))
{
    uint64_t chain = expected_cache_start(x);
    for (uint32_t i = 0; i < n_blocks; i++) {
        chain = expected_cache_next(chain, tokens + i * KV_BLOCK);
        count(x, chain, &nobody);
    }
}

static void what_nobody_asked_is_all_left(void **state)
{
    (void)state;
    struct expected_cache x;
    int32_t tokens[N];
    open_expect(&x, tokens);
    for (uint32_t n = 1; n <= N; n++)
        assert_int_equal(expected_cache_left(&x, &nobody, tokens, n), n);
    expected_cache_fini(&x);
}

static void cached_blocks_are_not_left(void **state)
{
    (void)state;
    struct expected_cache x;
    int32_t tokens[N];
    open_expect(&x, tokens);
    count_blocks(&x, tokens, 2, expected_cache_add);
    assert_int_equal(expected_cache_left(&x, &nobody, tokens, N), N - 2 * KV_BLOCK);
    assert_int_equal(expected_cache_left(&x, &nobody, tokens, 2 * KV_BLOCK),
                     1); /* its last, always */
    assert_int_equal(expected_cache_left(&x, &nobody, tokens, 20), 20);
    const struct prefix_salt other = {{0, 1}};
    assert_int_equal(expected_cache_left(&x, &other, tokens, N), N);
    tokens[0]++; /* it is the chain that counts, not the block */
    assert_int_equal(expected_cache_left(&x, &nobody, tokens, N), N);
    tokens[0]--;
    count_blocks(&x, tokens, 2, expected_cache_remove);
    assert_int_equal(expected_cache_left(&x, &nobody, tokens, N), N);
    expected_cache_fini(&x);
}

/* They are found under every salt, and behind them the salt's own are; but not public ones behind
 * those. */
static void public_blocks_are_not_left(void **state)
{
    (void)state;
    struct expected_cache x;
    int32_t tokens[N];
    const struct prefix_salt a = {{1}}, b = {{2}};
    open_expect(&x, tokens);
    uint64_t one = expected_cache_next(expected_cache_start(&x), tokens);
    uint64_t two = expected_cache_next(one, tokens + KV_BLOCK);
    uint64_t three = expected_cache_next(two, tokens + 2 * KV_BLOCK);
    expected_cache_add(&x, one, &prefix_salt_public);
    expected_cache_add(&x, two, &a);
    assert_int_equal(expected_cache_left(&x, &nobody, tokens, N), N - KV_BLOCK);
    assert_int_equal(expected_cache_left(&x, &a, tokens, N), N - 2 * KV_BLOCK);
    assert_int_equal(expected_cache_left(&x, &b, tokens, N), N - KV_BLOCK);
    expected_cache_add(&x, three, &prefix_salt_public);
    assert_int_equal(expected_cache_left(&x, &a, tokens, N), N - 2 * KV_BLOCK);
    expected_cache_remove(&x, one, &prefix_salt_public);
    assert_int_equal(expected_cache_left(&x, &a, tokens, N), N);
    expected_cache_fini(&x);
}

/* The end of a public prompt is everybody's too. */
static void the_end_of_a_public_prompt_is_not_left(void **state)
{
    (void)state;
    struct expected_cache x;
    int32_t tokens[N];
    const struct prefix_salt a = {{1}};
    open_expect(&x, tokens);
    assert_int_equal(expected_cache_begin(&x, &prefix_salt_public, tokens, N), N);
    assert_int_equal(expected_cache_left(&x, &a, tokens, N), 1);
    assert_int_equal(expected_cache_left(&x, &a, tokens, N - 1), 3);
    assert_int_equal(expected_cache_begin(&x, &a, tokens, N), 1);
    expected_cache_end(&x, &prefix_salt_public, tokens, N);
    assert_int_equal(expected_cache_left(&x, &a, tokens, N), 1);
    assert_int_equal(expected_cache_left(&x, &nobody, tokens, N), N);
    expected_cache_end(&x, &a, tokens, N);
    expected_cache_fini(&x);
}

/* While one is under way its blocks count, once for each; its end is remembered for longer. */
static void who_is_under_way_computes_for_all(void **state)
{
    (void)state;
    struct expected_cache x;
    int32_t tokens[N];
    open_expect(&x, tokens);
    expected_cache_begin(&x, &nobody, tokens, N);
    expected_cache_begin(&x, &nobody, tokens, N);
    assert_int_equal(expected_cache_left(&x, &nobody, tokens, N), 1);
    assert_int_equal(expected_cache_left(&x, &nobody, tokens, N - 1), 3);
    expected_cache_end(&x, &nobody, tokens, N);
    assert_int_equal(expected_cache_left(&x, &nobody, tokens, N), 1);
    expected_cache_end(&x, &nobody, tokens, N);
    assert_int_equal(expected_cache_left(&x, &nobody, tokens, N), N);
    count_blocks(&x, tokens, 3, expected_cache_add);
    assert_int_equal(expected_cache_left(&x, &nobody, tokens, N), 1);
    expected_cache_fini(&x);
}

/* Counters are shared by chance, which costs little: a thousand blocks of others, as many as the
 * pool has, and prompts that share nothing with them. */
static void others_are_rarely_mistaken(void **state)
{
    (void)state;
    struct expected_cache x;
    struct err err = {0};
    int32_t tokens[N];
    uint64_t left = 0;
    const uint32_t n_blocks = 60000, n_prompts = 2000;
    assert_int_equal(expected_cache_init(&x, n_blocks, 42, &err), STATUS_OK);
    for (uint32_t i = 0; i < n_blocks / 3; i++) {
        fill(tokens, N, 1000 + (int32_t)i);
        count_blocks(&x, tokens, 3, expected_cache_add);
    }
    for (uint32_t i = 0; i < n_prompts; i++) {
        fill(tokens, N, -1 - (int32_t)i);
        left += expected_cache_left(&x, &nobody, tokens, N);
    }
    print_message("%.1f of %d tokens are left on average\n", (double)left / n_prompts, N);
    assert_true(left > (uint64_t)n_prompts * N * 9 / 10);
    expected_cache_fini(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_asked_is_all_left),
        cmocka_unit_test(cached_blocks_are_not_left),
        cmocka_unit_test(public_blocks_are_not_left),
        cmocka_unit_test(the_end_of_a_public_prompt_is_not_left),
        cmocka_unit_test(who_is_under_way_computes_for_all),
        cmocka_unit_test(others_are_rarely_mistaken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
