/* cmocka's assert_float_equal compares floats; this compares doubles. */
#ifndef FIRSTLIGHT_TESTS_SUPPORT_NEAR_H
#define FIRSTLIGHT_TESTS_SUPPORT_NEAR_H

#include "support/cmocka_all.h"

#include <math.h>

#define assert_near(x, expected, eps) near_check((x), (expected), (eps), #x, __FILE__, __LINE__)

static inline void near_check(double x, double expected, double eps, const char *what,
                              const char *file, int line)
{
    if (fabs(x - expected) <= eps) /* not of a NAN */
        return;
    print_error("%s: %.17g, expected %.17g within %g\n", what, x, expected, eps);
    _fail(file, line);
}

#endif
