/* Fits against known polynomials and numpy's polyfit. */
#include "support/near.h"

#include "bench/result/fit.h"

static const double lengths[] = {32, 64, 128, 256, 512, 1024, 2048, 4096};
#define N (sizeof lengths / sizeof lengths[0])

static double relative(double x, double expected)
{
    return x / expected;
}

static void a_polynomial_is_found_again(void **state)
{
    static const double known[][3] = {{2.5, 0.125, 3e-6}, {-1, 7, 0.25}, {1e3, -4, 1e-9}};
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        double y[N];
        struct fit f;
        for (size_t i = 0; i < N; i++)
            y[i] = known[k][0] + known[k][1] * lengths[i] + known[k][2] * lengths[i] * lengths[i];
        assert_true(fit_quadratic(&f, lengths, y, NULL, N));
        assert_near(relative(f.a, known[k][0]), 1, 1e-9);
        assert_near(relative(f.b, known[k][1]), 1, 1e-9);
        assert_near(relative(f.c, known[k][2]), 1, 1e-4);
        assert_int_equal(f.terms, 3);
        assert_near(f.rms, 0, 1e-6);
        assert_near(
            relative(fit_at(&f, 777), known[k][0] + 777 * (known[k][1] + 777 * known[k][2])), 1,
            1e-9);
    }
}

/* numpy.polynomial.polynomial.polyfit(x, y, 2) and the same with w = 1 / y. */
static void noise_gives_numpys_answer(void **state)
{
    static const double y[N] = {7.1, 10.2, 18.9, 34.8, 69.5, 142.0, 301.0, 655.0};
    struct fit f;
    (void)state;
    assert_true(fit_quadratic(&f, lengths, y, NULL, N));
    assert_near(relative(f.a, 1.5564471499722052), 1, 1e-9);
    assert_near(relative(f.b, 0.13132989892722252), 1, 1e-9);
    assert_near(relative(f.c, 6.902164376952964e-06), 1, 1e-9);
    assert_near(f.rms, 0.9975818230034911, 1e-9);
    assert_near(f.most, 1.5301441921647552, 1e-9);
    assert_true(fit_quadratic(&f, lengths, y, y, N));
    assert_near(relative(f.a, 2.8430299551221063), 1, 1e-9);
    assert_near(relative(f.b, 0.1238464973407922), 1, 1e-9);
    assert_near(relative(f.c, 9.259582332973418e-06), 1, 1e-9);
    assert_near(f.rms, 0.028179953553388336, 1e-9);
    assert_near(f.most, 0.05952284648712424, 1e-9);
}

static void two_lengths_give_a_line(void **state)
{
    static const double x[] = {10, 20, 10}, y[] = {3, 6, 5};
    struct fit f;
    (void)state;
    assert_true(fit_quadratic(&f, x, y, NULL, 3));
    assert_int_equal(f.terms, 2);
    assert_near(f.a, 2, 1e-12);
    assert_near(f.b, 0.2, 1e-12);
    assert_near(f.c, 0, 0);
    assert_near(f.most, 1, 1e-12);
    assert_near(f.rms, sqrt(2.0 / 3), 1e-12);
}

static void what_cannot_be_fitted(void **state)
{
    static const double x[] = {1, 2, 3}, same[] = {5, 5, 5}, nan_y[] = {1, NAN, 3};
    static const double zero[] = {0, 1, 1};
    struct fit f;
    (void)state;
    assert_false(fit_quadratic(&f, x, x, NULL, 0));
    assert_false(fit_quadratic(&f, x, x, NULL, 1));
    assert_false(fit_quadratic(&f, same, x, NULL, 3));
    assert_false(fit_quadratic(&f, x, nan_y, NULL, 3));
    assert_false(fit_quadratic(&f, x, x, zero, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_polynomial_is_found_again),
        cmocka_unit_test(noise_gives_numpys_answer),
        cmocka_unit_test(two_lengths_give_a_line),
        cmocka_unit_test(what_cannot_be_fitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
