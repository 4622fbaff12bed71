#include "engine/sampling/logits_row.h"

#include "base/mem.h"

#include <float.h>
#include <string.h>

enum status logits_row_init(struct logits_row *r, const struct kernels *kernels, uint32_t n,
                            struct err *err)
{
    *r = (struct logits_row){.kernels = kernels, .n = n, .n_groups = (uint32_t)GROUPS(n)};
    r->groups = mem_aligned(r->n_groups * sizeof *r->groups);
    r->scratch = mem_aligned(r->n_groups * sizeof *r->scratch);
    if (r->groups && r->scratch)
        return STATUS_OK;
    logits_row_fini(r);
    return err_set(err, STATUS_NO_MEMORY, "no memory for a row of %u logits", n);
}

void logits_row_fini(struct logits_row *r)
{
    mem_free(r->groups);
    mem_free(r->scratch);
    *r = (struct logits_row){0};
}

bool logits_row_scan(struct logits_row *r, const float *x)
{
    r->x = x;
    if (!r->kernels->group_max(r->groups, x, r->n))
        return false;
    /* the groups' maxima have groups too: what is left to look at one by one is short */
    r->kernels->group_max(r->scratch, r->groups, r->n_groups);
    r->max = -FLT_MAX;
    for (uint32_t i = 0; i < GROUPS(r->n_groups); i++)
        r->max = r->scratch[i] > r->max ? r->scratch[i] : r->max;
    return true;
}

int32_t logits_row_argmax(const struct logits_row *r)
{
    uint32_t group = 0;
    while (r->groups[group] != r->max)
        group++;
    uint32_t i = group / GROUP_LANES * GROUP_SPAN; /* another group of the span may have it first */
    while (r->x[i] != r->max)
        i++;
    return (int32_t)i;
}

/* Floats in the order of these numbers (no NaN). */
static int32_t order_of(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits ^ (bits >> 31 & INT32_MAX);
}

static float of_order(int32_t order)
{
    float x;
    int32_t bits = order ^ (order >> 31 & INT32_MAX);
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t count_from(const float *x, uint32_t n, float floor)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++)
        count += x[i] >= floor;
    return count;
}

/* As many groups reach it as values are asked for: bisection, at most 32 short passes that a
 * compiler makes vectors of, where selecting would branch on each value. */
float logits_row_floor(const struct logits_row *r, uint32_t count)
{
    uint32_t reach = r->n_groups, enough = count + count / 4;
    int64_t low = order_of(-FLT_MAX), high = (int64_t)order_of(r->max) + 1;
    if (count > r->n_groups)
        return -FLT_MAX;
    while (reach > enough && high - low > 1) { /* groups reach low, fewer than `count` reach high */
        int64_t middle = (low + high) >> 1;
        uint32_t n = count_from(r->groups, r->n_groups, of_order((int32_t)middle));
        if (n >= count) {
            low = middle;
            reach = n;
        } else {
            high = middle;
        }
    }
    return of_order((int32_t)low);
}

uint32_t logits_row_gather(const struct logits_row *r, float floor, struct candidate *out)
{
    uint32_t count = 0;
    for (uint32_t group = 0; group < r->n_groups; group++) {
        if (r->groups[group] < floor)
            continue;
        uint32_t span = group / GROUP_LANES * GROUP_SPAN;
        uint32_t end = r->n - span < GROUP_SPAN ? r->n : span + GROUP_SPAN;
        for (uint32_t i = span + group % GROUP_LANES; i < end; i += GROUP_LANES) {
            out[count] = (struct candidate){r->x[i], (int32_t)i};
            count += r->x[i] >= floor; /* no branch: a rejected one is overwritten */
        }
    }
    return count;
}
