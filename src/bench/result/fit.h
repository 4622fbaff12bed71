/* Least squares of y = a + b x + c x^2. */
#ifndef FIRSTLIGHT_BENCH_RESULT_FIT_H
#define FIRSTLIGHT_BENCH_RESULT_FIT_H

#include <stdbool.h>
#include <stddef.h>

struct fit {
    double a, b, c;
    size_t n;         /* samples */
    int terms;        /* 3; 2 where only two x differ: c is 0 */
    double rms, most; /* of |y - f(x)| / sigma: root of the mean square, and the largest */
};

/* sigma: each sample's error, (n), > 0; NULL: 1. With sigma = y the relative error is what is made
 * small, and `rms` and `most` are parts of y. False when fewer than two x differ or a number is not
 * finite. */
bool fit_quadratic(struct fit *out, const double *x, const double *y, const double *sigma,
                   size_t n);
double fit_at(const struct fit *f, double x);

#endif
