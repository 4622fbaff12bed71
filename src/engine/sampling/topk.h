/* The largest of many, without sorting them: quickselect (Hoare 1961), by count or by mass.
 *
 * The order is total, larger weight first and the lower token among equals, so which candidates are
 * chosen never depends on how they lay in the array. Both put the chosen ones first (in no order)
 * and return how many they are; expected time is linear.
 */
#ifndef FIRSTLIGHT_ENGINE_SAMPLING_TOPK_H
#define FIRSTLIGHT_ENGINE_SAMPLING_TOPK_H

#include "engine/sampling/logits_row.h"

#include <stdint.h>

/* The `count` largest, all when there are no more. */
uint32_t topk_count(struct candidate *c, uint32_t n, uint32_t count);
/* The fewest largest whose weights add up to at least `mass` (at least one; all when they never
 * do). n >= 1 */
uint32_t topk_mass(struct candidate *c, uint32_t n, double mass);

/* topk_count for a few, which come out in order. */
void topk_sorted(struct candidate *c, uint32_t n, uint32_t count);

#endif
