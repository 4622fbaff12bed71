/* A row of logits, read once for the maxima of its groups (kernels.h); whatever asks for large
 * values then reads only the groups that have some.
 *
 * One belongs to whoever initialised it; nothing here allocates after that.
 */
#ifndef FIRSTLIGHT_ENGINE_SAMPLING_LOGITS_ROW_H
#define FIRSTLIGHT_ENGINE_SAMPLING_LOGITS_ROW_H

#include "base/err.h"
#include "kernels/kernels.h"

#include <stdbool.h>
#include <stdint.h>

struct candidate {
    float weight; /* a logit, or what was made of it */
    int32_t token;
};

struct logits_row {
    const struct kernels *kernels;
    uint32_t n;     /* values */
    const float *x; /* (n) the row that was scanned last, borrowed */
    float max;      /* of it */
    float *groups;  /* (n_groups) maxima */
    float *scratch; /* (n_groups) maxima of these */
    uint32_t n_groups;
};

enum status logits_row_init(struct logits_row *r, const struct kernels *kernels, uint32_t n,
                            struct err *err);
void logits_row_fini(struct logits_row *r);

/* Before everything below. False when a value is not finite. */
bool logits_row_scan(struct logits_row *r, const float *x);

/* The largest value's index, the lowest among equals. */
int32_t logits_row_argmax(const struct logits_row *r);

/* A value that at least `count` of the row's reach, and few more than `count` unless these are many
 * of all. count >= 1 */
float logits_row_floor(const struct logits_row *r, uint32_t count);

/* Every value that reaches `floor`, group by group; returns how many. out: (n) */
uint32_t logits_row_gather(const struct logits_row *r, float floor, struct candidate *out);

#endif
