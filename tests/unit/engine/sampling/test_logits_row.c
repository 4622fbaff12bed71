/* What is found of a row through its groups, against looking at each value. */
#include "engine/sampling/logits_row.h"

#include "base/cpu.h"
#include "support/cmocka_all.h"
#include "support/random.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define MOST 50000

static struct logits_row row;
static float x[MOST];
static struct candidate found[MOST];

static void with_row(uint32_t n, uint32_t levels)
{
    static struct kernels kernels;
    kernels_fill(&kernels, levels & cpu_detect());
    assert_int_equal(logits_row_init(&row, &kernels, n, NULL), STATUS_OK);
}

static uint32_t reach(uint32_t n, float floor)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++)
        count += x[i] >= floor;
    return count;
}

static void expect_gathered(uint32_t n, float floor)
{
    static bool seen[MOST];
    uint32_t count = logits_row_gather(&row, floor, found);
    assert_int_equal(count, reach(n, floor));
    memset(seen, 0, sizeof seen);
    for (uint32_t i = 0; i < count; i++) {
        assert_in_range(found[i].token, 0, n - 1);
        assert_true(!seen[found[i].token] && found[i].weight == x[found[i].token]);
        assert_true(found[i].weight >= floor);
        seen[found[i].token] = true;
    }
}

static void expect_all(uint32_t n, struct random *random)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    assert_true(logits_row_scan(&row, x));
    assert_true(row.max == x[best]);
    assert_int_equal(logits_row_argmax(&row), best);
    for (int i = 0; i < 8; i++) {
        uint32_t count = 1 + random_below(random, i < 4 && n > 60 ? 60 : n);
        float floor = logits_row_floor(&row, count);
        assert_true(reach(n, floor) >= count);
        expect_gathered(n, floor);
    }
    expect_gathered(n, x[random_below(random, n)]);
    expect_gathered(n, FLT_MAX);
    expect_gathered(n, -FLT_MAX);
}

static void finds_what_looking_finds(void **state)
{
    static const uint32_t levels[] = {0, CPU_AVX2, CPU_ALL};
    static const float odd[] = {FLT_MAX, -FLT_MAX, 0, -0.0f, 1e30f, -1e30f, 1e-42f};
    (void)state;
    struct random random = {4};
    for (uint32_t round = 0; round < 300; round++) {
        uint32_t n = 1 + random_below(&random, round % 8 ? 1600 : MOST);
        with_row(n, levels[round % 3]);
        for (uint32_t i = 0; i < n; i++) {
            x[i] = (float)(random_unit(&random) * 30 - 15);
            if (round % 4 == 1) /* many equal ones */
                x[i] = roundf(x[i] / 4);
            if (round % 4 == 2 && random_below(&random, 9) == 0)
                x[i] = odd[random_below(&random, 7)];
            if (round % 16 == 3)
                x[i] = odd[round / 16 % 7];
        }
        expect_all(n, &random);
        logits_row_fini(&row);
    }
}

/* The point of it: a vocabulary's few large values are found among few. */
static void few_more_than_asked_for(void **state)
{
    (void)state;
    struct random random = {12};
    with_row(49152, CPU_ALL);
    for (int round = 0; round < 10; round++) {
        for (uint32_t i = 0; i < 49152; i++)
            x[i] = (float)(random_unit(&random) * random_unit(&random) * 40 - 10);
        x[7] = round % 2 ? 1e30f : x[7]; /* a bias that dwarfs the rest */
        assert_true(logits_row_scan(&row, x));
        assert_in_range(reach(49152, logits_row_floor(&row, 40)), 40, 80);
        assert_in_range(reach(49152, logits_row_floor(&row, 500)), 500, 1200);
    }
    logits_row_fini(&row);
}

static void not_finite_is_said(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    (void)state;
    with_row(600, CPU_ALL);
    for (int i = 0; i < 6; i++) {
        memset(x, 0, sizeof x);
        x[i % 2 ? 599 : 0] = bad[i / 2];
        assert_false(logits_row_scan(&row, x));
    }
    logits_row_fini(&row);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_looking_finds),
        cmocka_unit_test(few_more_than_asked_for),
        cmocka_unit_test(not_finite_is_said),
    };
    return cmocka_run_group_tests_name("row", tests, NULL, NULL);
}
