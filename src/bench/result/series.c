#include "bench/result/series.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

static bool series_make_room(struct series *s, size_t extra)
{
    size_t need, bytes;
    if (!mem_add(s->n, extra, &need))
        return false;
    if (need <= s->cap)
        return true;
    size_t cap = s->cap < 32 ? 64 : s->cap * 2;
    if (cap < need)
        cap = need;
    double *v = mem_mul(cap, sizeof *v, &bytes) ? mem_resize(s->v, bytes) : NULL;
    if (!v)
        return false;
    s->v = v;
    s->cap = cap;
    return true;
}

void series_add(struct series *s, double x)
{
    if (isnan(x))
        return;
    if (s->failed || !series_make_room(s, 1))
        s->failed = true;
    else
        s->v[s->n++] = x;
}

void series_add_all(struct series *s, const struct series *more)
{
    if (s->failed || more->failed || !series_make_room(s, more->n)) {
        s->failed = true;
        return;
    }
    for (size_t i = 0; i < more->n; i++)
        s->v[s->n++] = more->v[i];
}

static int series_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void series_sort(struct series *s)
{
    for (size_t i = 1; i < s->n; i++)
        if (s->v[i] < s->v[i - 1]) {
            qsort(s->v, s->n, sizeof s->v[0], series_compare);
            return;
        }
}

double series_percentile(struct series *s, double p)
{
    if (s->n == 0 || s->failed)
        return NAN;
    series_sort(s);
    double rank = p / 100 * (double)(s->n - 1);
    size_t low = rank <= 0 ? 0 : (size_t)rank;
    if (low >= s->n - 1)
        return s->v[s->n - 1];
    double part = rank <= 0 ? 0 : rank - (double)low;
    double a = s->v[low], b = s->v[low + 1];
    if (a == b || part == 0)
        return a; /* also where one is infinite */
    return part < 0.5 ? a + (b - a) * part : b - (b - a) * (1 - part); /* as numpy rounds */
}

double series_median(const struct series *s)
{
    struct series sorted = {0};
    series_add_all(&sorted, s);
    double median = series_percentile(&sorted, 50);
    series_fini(&sorted);
    return median;
}

double series_mean(const struct series *s)
{
    double sum = 0;
    for (size_t i = 0; i < s->n; i++)
        sum += s->v[i];
    return s->n && !s->failed ? sum / (double)s->n : NAN;
}

double series_sd(const struct series *s)
{
    double mean = series_mean(s), sum = 0;
    for (size_t i = 0; i < s->n; i++)
        sum += (s->v[i] - mean) * (s->v[i] - mean);
    return s->n ? sqrt(sum / (double)s->n) : NAN;
}

void series_fini(struct series *s)
{
    mem_free(s->v);
    *s = (struct series){0};
}

struct spread series_spread(struct series *s)
{
    return (struct spread){
        .n = s->n,
        .mean = series_mean(s),
        .sd = series_sd(s),
        .min = series_percentile(s, 0),
        .p50 = series_percentile(s, 50),
        .p90 = series_percentile(s, 90),
        .p95 = series_percentile(s, 95),
        .p99 = series_percentile(s, 99),
        .max = series_percentile(s, 100),
    };
}
