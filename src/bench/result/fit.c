#include "bench/result/fit.h"

#include <math.h>

#define TERMS 3

/* Normal equations: with x scaled to [-1, 1] and 64 bits of mantissa their condition does not
 * matter for the few digits that measurements have. Row r: sum of x^(r + k) w, then of x^r y w. */
struct equations {
    long double m[TERMS][TERMS + 1];
    int terms;
};

static int count_distinct(const double *x, size_t n)
{
    int found = 0;
    double seen[TERMS];
    for (size_t i = 0; i < n && found < TERMS; i++) {
        bool known = false;
        for (int k = 0; k < found; k++)
            known |= seen[k] == x[i];
        if (!known)
            seen[found++] = x[i];
    }
    return found;
}

static void add_sample(struct equations *e, long double x, long double y, long double weight)
{
    long double power[2 * TERMS - 1] = {1};
    for (int i = 1; i < 2 * TERMS - 1; i++)
        power[i] = power[i - 1] * x;
    for (int r = 0; r < e->terms; r++) {
        for (int k = 0; k < e->terms; k++)
            e->m[r][k] += power[r + k] * weight;
        e->m[r][TERMS] += power[r] * y * weight;
    }
}

/* Gauss and Jordan without pivots: the matrix is symmetric and positive definite. False if not. */
static bool solve(struct equations *e, long double out[TERMS])
{
    for (int p = 0; p < e->terms; p++) {
        if (!(e->m[p][p] > 0))
            return false;
        for (int r = 0; r < e->terms; r++) {
            long double factor = r == p ? 0 : e->m[r][p] / e->m[p][p];
            for (int k = 0; k <= TERMS; k++)
                e->m[r][k] -= factor * e->m[p][k];
        }
    }
    for (int p = 0; p < e->terms; p++)
        out[p] = e->m[p][TERMS] / e->m[p][p];
    return true;
}

static void set_residuals(struct fit *f, const double *x, const double *y, const double *sigma)
{
    double sum = 0;
    for (size_t i = 0; i < f->n; i++) {
        double r = fabs(y[i] - fit_at(f, x[i])) / (sigma ? sigma[i] : 1);
        sum += r * r;
        f->most = r > f->most ? r : f->most;
    }
    f->rms = sqrt(sum / (double)f->n);
}

bool fit_quadratic(struct fit *out, const double *x, const double *y, const double *sigma, size_t n)
{
    struct equations e = {.terms = count_distinct(x, n)};
    long double scale = 0, root[TERMS] = {0};
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i]) || !isfinite(y[i]) || (sigma && !(sigma[i] > 0 && isfinite(sigma[i]))))
            return false;
        scale = fabs(x[i]) > scale ? fabs(x[i]) : scale;
    }
    if (e.terms < 2)
        return false;
    for (size_t i = 0; i < n; i++) {
        long double s = sigma ? sigma[i] : 1;
        add_sample(&e, x[i] / scale, y[i], 1 / (s * s));
    }
    if (!solve(&e, root))
        return false;
    *out = (struct fit){.a = (double)root[0],
                        .b = (double)(root[1] / scale),
                        .c = (double)(root[2] / (scale * scale)),
                        .n = n,
                        .terms = e.terms};
    set_residuals(out, x, y, sigma);
    return true;
}

double fit_at(const struct fit *f, double x)
{
    return f->a + (f->b + f->c * x) * x;
}
