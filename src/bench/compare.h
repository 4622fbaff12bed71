/* Two result files, metric by metric.
 *
 * A difference is called better or worse only when the ranges [min, max] of the two files' repeats
 * do not touch; else it is noise. Where a file has a single repeat its range is not known, and
 * nothing is said.
 */
#ifndef FIRSTLIGHT_BENCH_COMPARE_H
#define FIRSTLIGHT_BENCH_COMPARE_H

#include "base/buf.h"
#include "base/err.h"
#include "bench/result.h"

enum compare_verdict {
    COMPARE_BETTER,
    COMPARE_WORSE,
    COMPARE_CHANGED, /* a metric of which neither more nor less is better */
    COMPARE_NOISE,
    COMPARE_ONE_RUN,
};
const char *compare_verdict_name(enum compare_verdict v); /* "better", ..., "one run: no spread" */

struct compare_figure {
    double median, min, max;
    size_t n; /* repeats */
};

struct compare_row {
    const char *name; /* borrowed from the results, as is unit */
    const char *unit;
    struct compare_figure before, after;
    double change;  /* after - before, of the medians */
    double percent; /* of before; NAN when that is 0 */
    enum compare_verdict verdict;
};

struct compare_side {
    const struct result *result;
    const char *name; /* the file's, for messages */
};

struct compare {
    struct compare_side before, after; /* borrowed */
    struct compare_row *rows;          /* (n_rows) metrics of both, in `before`'s order */
    size_t n_rows;
};

/* STATUS_INVALID when kind, workload or the objectives of goodput differ: names the first field
 * that does, with both values. *out is to be freed by compare_fini either way. */
enum status compare_make(struct compare *out, struct compare_side before, struct compare_side after,
                         struct err *err);
void compare_fini(struct compare *c);

/* What makes a file's figures say less than they seem to: failed requests, which are in no
 * percentile, an interrupted run, a late load generator. Nothing where there is none. */
void compare_warnings(struct compare_side side, struct buf *out);
/* What differs in the environments, warnings, the table, metrics of one
 * file only, a count of verdicts. */
void compare_text(const struct compare *c, struct buf *out);
json_t *compare_json(const struct compare *c); /* new; NULL: no memory */

#endif
