#include "base/histogram.h"

/* One decade of E12. */
static const int64_t series[] = {10, 12, 15, 18, 22, 27, 33, 39, 47, 56, 68, 82};
#define PER_DECADE   (sizeof series / sizeof *series)
#define FIRST_FACTOR 10 /* the first bound is 100 */

int64_t histogram_bound(uint32_t i)
{
    int64_t bound = series[i % PER_DECADE] * FIRST_FACTOR;
    for (uint32_t decade = i / PER_DECADE; decade > 0; decade--)
        bound *= 10;
    return bound;
}

/* The first bound that is not below the value. */
static uint32_t bucket_of(int64_t value)
{
    uint32_t low = 0, high = HISTOGRAM_BOUNDS;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (histogram_bound(middle) < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* One writer: a load and a store, no locked instruction. */
static void histogram_count(atomic_ullong *c, uint64_t n)
{
    uint64_t before = atomic_load_explicit(c, memory_order_relaxed);
    atomic_store_explicit(c, before + n, memory_order_relaxed);
}

void histogram_add(struct histogram *h, int64_t value, uint64_t n)
{
    if (value < 0)
        value = 0;
    histogram_count(&h->buckets[bucket_of(value)], n);
    histogram_count(&h->sum, (uint64_t)value * n);
}

void histogram_read(const struct histogram *h, struct histogram_view *out)
{
    out->count = 0;
    for (uint32_t i = 0; i <= HISTOGRAM_BOUNDS; i++) {
        out->buckets[i] = atomic_load_explicit(&h->buckets[i], memory_order_relaxed);
        out->count += out->buckets[i];
    }
    out->sum = atomic_load_explicit(&h->sum, memory_order_relaxed);
}

void histogram_subtract(struct histogram_view *v, const struct histogram_view *since)
{
    for (uint32_t i = 0; i <= HISTOGRAM_BOUNDS; i++)
        v->buckets[i] -= since->buckets[i];
    v->count -= since->count;
    v->sum -= since->sum;
}

double histogram_quantile(const struct histogram_view *v, double q)
{
    double rank = q * (double)v->count, below = 0;
    if (v->count == 0)
        return 0;
    for (uint32_t i = 0; i < HISTOGRAM_BOUNDS; i++) {
        double n = (double)v->buckets[i];
        if (n > 0 && below + n >= rank) {
            double from = i > 0 ? (double)histogram_bound(i - 1) : 0;
            return from + ((double)histogram_bound(i) - from) * (rank - below) / n;
        }
        below += n;
    }
    return (double)histogram_bound(HISTOGRAM_BOUNDS - 1);
}
