#include "engine/sampling/topk.h"

#include <stdbool.h>

#define SMALL 24

static bool topk_before(struct candidate a, struct candidate b)
{
    return a.weight > b.weight || (a.weight == b.weight && a.token < b.token);
}

static void topk_swap(struct candidate *a, struct candidate *b)
{
    struct candidate t = *a;
    *a = *b;
    *b = t;
}

static void sort_small(struct candidate *c, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t k = i; k > 0 && topk_before(c[k], c[k - 1]); k--)
            topk_swap(&c[k], &c[k - 1]);
}

/* Splits c[0, n) around the median of three of its members: returns where that one ends up, with
 * those before it on its left. */
static uint32_t partition(struct candidate *c, uint32_t n)
{
    struct candidate *a = &c[0], *b = &c[n / 2], *last = &c[n - 1];
    if (topk_before(*b, *a))
        topk_swap(a, b);
    if (topk_before(*last, *a))
        topk_swap(a, last);
    if (topk_before(*b, *last))
        topk_swap(b, last); /* the median is last now */
    uint32_t at = 0;
    for (uint32_t i = 0; i + 1 < n; i++) {
        bool left = topk_before(c[i], *last);
        topk_swap(&c[i], &c[at]);
        at += left;
    }
    topk_swap(&c[at], last);
    return at;
}

/* What a candidate contributes towards the target. */
static double share(struct candidate c, bool by_mass)
{
    return by_mass ? c.weight : 1;
}

/* How many of the largest reach `target`, which is what c[0, low) lacks: narrows [low, high), in
 * which the last chosen one lies, until it is small enough to sort. */
static uint32_t select_until(struct candidate *c, uint32_t n, double target, bool by_mass)
{
    uint32_t low = 0, high = n;
    while (high - low > SMALL) {
        uint32_t pivot = low + partition(c + low, high - low);
        double left = 0;
        for (uint32_t i = low; i < pivot; i++)
            left += share(c[i], by_mass);
        if (left >= target) {
            high = pivot;
            continue;
        }
        target -= left + share(c[pivot], by_mass);
        low = pivot + 1;
        if (target <= 0)
            return low;
    }
    sort_small(c + low, high - low);
    while (low < high && target > 0)
        target -= share(c[low++], by_mass);
    return low;
}

uint32_t topk_count(struct candidate *c, uint32_t n, uint32_t count)
{
    return count >= n ? n : select_until(c, n, count, false);
}

uint32_t topk_mass(struct candidate *c, uint32_t n, double mass)
{
    uint32_t chosen = select_until(c, n, mass, true);
    return chosen > 0 ? chosen : 1;
}

void topk_sorted(struct candidate *c, uint32_t n, uint32_t count)
{
    sort_small(c, topk_count(c, n, count));
}
