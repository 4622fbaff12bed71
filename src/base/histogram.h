/* Histograms that one thread fills while any other looks: log-spaced buckets, nothing allocated.
 *
 *     value in millionths (us of a second, or parts per million of a ratio)
 *     | <= 100 | <= 120 | <= 150 | ... | <= 680 s | more |      12 to a decade (IEC 60063's E12)
 *
 * 0.1 ms is the first bound, since the waits this server is about are short. Every second bound is
 * one of E6, the coarser series: HISTOGRAM_STEP apart they are few enough to be scraped.
 */
#ifndef FIRSTLIGHT_BASE_HISTOGRAM_H
#define FIRSTLIGHT_BASE_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

#define HISTOGRAM_BOUNDS 83 /* 100 us .. 680 s */
#define HISTOGRAM_STEP   2

struct histogram {
    atomic_ullong buckets[HISTOGRAM_BOUNDS + 1]; /* the last: above all bounds */
    atomic_ullong sum;
};

/* The writer's thread; n times the same value. Negative ones count as 0. */
void histogram_add(struct histogram *h, int64_t value, uint64_t n);

/* The upper bound of bucket i < HISTOGRAM_BOUNDS, which belongs to it. */
int64_t histogram_bound(uint32_t i);

/* What it held at one moment. While somebody writes, sum and buckets may be a value apart; count
 * is always that of the buckets. */
struct histogram_view {
    uint64_t buckets[HISTOGRAM_BOUNDS + 1];
    uint64_t count;
    uint64_t sum;
};
void histogram_read(const struct histogram *h, struct histogram_view *out);
/* What came after `since`, an earlier view of the same histogram. */
void histogram_subtract(struct histogram_view *v, const struct histogram_view *since);

/* The value that the share q of all do not exceed, interpolated within its bucket; 0 when there is
 * none. Values above the last bound count as it. */
double histogram_quantile(const struct histogram_view *v, double q);

#endif
