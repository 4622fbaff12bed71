/* The generator's values are golden: results of one seed compare across versions. */
#include "support/near.h"

#include "bench/result/random.h"

static void first_values_stay_the_same(void **state)
{
    static const struct {
        uint64_t seed, stream, value[3];
    } golden[] = {
        {0, 0, {0x28f9feaebd831d6c, 0x74d32bdd8fea216c, 0x20b18831bf481f56}},
        {0, 1, {0x0c7ba33b30576ab0, 0xcebd2a89d1b31603, 0xda8fc9c31d1b5149}},
        {42, 7, {0xcf248d74fda66069, 0xdebbb90d7b7eac84, 0x83be29f5c86f798e}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        struct random r;
        random_init(&r, golden[i].seed, golden[i].stream);
        for (int k = 0; k < 3; k++)
            assert_true(random_next(&r) == golden[i].value[k]);
    }
}

/* The sequence published for SplitMix64 of this state. */
static void it_is_splitmix64(void **state)
{
    struct random r = {.state = 1234567};
    (void)state;
    assert_true(random_next(&r) == 6457827717110365317u);
    assert_true(random_next(&r) == 3203168211198807973u);
    assert_true(random_next(&r) == 9817491932198370423u);
}

static void below_reaches_all_and_no_more(void **state)
{
    uint32_t seen[7] = {0};
    struct random r;
    (void)state;
    random_init(&r, 1, 1);
    for (int i = 0; i < 7000; i++) {
        uint32_t x = random_below(&r, 7);
        assert_true(x < 7);
        seen[x]++;
    }
    for (int i = 0; i < 7; i++)
        assert_in_range(seen[i], 850, 1150);
    for (int i = 0; i < 10; i++)
        assert_int_equal(random_below(&r, 1), 0);
}

static void unit_never_reaches_its_ends(void **state)
{
    struct random r;
    double low = 1, high = 0;
    (void)state;
    random_init(&r, 3, 0);
    for (int i = 0; i < 100000; i++) {
        double x = random_unit(&r);
        assert_true(x > 0 && x < 1);
        low = x < low ? x : low;
        high = x > high ? x : high;
    }
    assert_true(low < 1e-3 && high > 1 - 1e-3);
    r.state = 0 - 0x9e3779b97f4a7c15u; /* the next output is mix(0) = 0 */
    assert_true(random_unit(&r) == 0x1p-53);
}

struct moments {
    double mean, variance;
};

static struct moments moments_of(double (*draw)(struct random *, double), double shape)
{
    enum { N = 200000 };
    double sum = 0, squares = 0;
    struct random r;
    random_init(&r, 11, 5);
    for (int i = 0; i < N; i++) {
        double x = draw(&r, shape);
        sum += x;
        squares += x * x;
    }
    return (struct moments){sum / N, squares / N - sum / N * (sum / N)};
}

static double draw_normal(struct random *r, double shape)
{
    (void)shape;
    return random_normal(r);
}

static double draw_gamma(struct random *r, double shape)
{
    double x = random_gamma(r, shape, 2);
    assert_true(x >= 0);
    return x;
}

static void normal_has_its_moments(void **state)
{
    struct moments m = moments_of(draw_normal, 0);
    (void)state;
    assert_near(m.mean, 0, 0.02);
    assert_near(m.variance, 1, 0.02);
}

/* Mean shape * scale, variance shape * scale^2: the bounds are over five standard errors wide. */
static void gamma_has_its_moments(void **state)
{
    static const double shapes[] = {0.25, 0.5, 1, 2, 10};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct moments m = moments_of(draw_gamma, shapes[i]);
        assert_near(m.mean / (2 * shapes[i]), 1, 0.03);
        assert_near(m.variance / (4 * shapes[i]), 1, 0.08);
    }
}

/* Shape 1 is the exponential distribution: 1 - e^-1 of it lies below its mean. */
static void gamma_of_shape_one_is_exponential(void **state)
{
    struct random r;
    int below = 0;
    (void)state;
    random_init(&r, 8, 8);
    for (int i = 0; i < 100000; i++)
        below += random_gamma(&r, 1, 3) < 3;
    assert_near(below / 1e5, 1 - exp(-1), 0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_values_stay_the_same),
        cmocka_unit_test(it_is_splitmix64),
        cmocka_unit_test(below_reaches_all_and_no_more),
        cmocka_unit_test(unit_never_reaches_its_ends),
        cmocka_unit_test(normal_has_its_moments),
        cmocka_unit_test(gamma_has_its_moments),
        cmocka_unit_test(gamma_of_shape_one_is_exponential),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
