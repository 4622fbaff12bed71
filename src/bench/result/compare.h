/* Two measurements of the same workload, metric by metric: what changed, and whether it is more
 * than noise.
 *
 * A verdict comes from a permutation test over all metrics of a family at once (permutation.h): at
 * most COMPARE_ALPHA of the comparisons of equal programs get any in a family. The headline metrics
 * are one family, the others a second one.
 *
 * What the test deals out are independent measurements. Repeats of one start of a program are not:
 * starts of the same build differ (in the memory they get, in what their cost model learned) by
 * more than repeats within a start. So the repeats of a start count as one, their median; a file of
 * an engine in the benchmark's process has as many starts as repeats, a file of a server one.
 *
 * There is no verdict at all, and `doubts` says why, where a side has fewer than COMPARE_STARTS
 * starts, where the machine itself changed between the sides, or where one side had more of its
 * prompts in a prefix cache.
 */
#ifndef FIRSTLIGHT_BENCH_RESULT_COMPARE_H
#define FIRSTLIGHT_BENCH_RESULT_COMPARE_H

#include "base/buf.h"
#include "base/err.h"
#include "bench/result/result.h"

#include <stdint.h>

#define COMPARE_ALPHA 0.01 /* of comparisons of equals that may get a verdict in a family */
#define COMPARE_STARTS                                                                             \
    5 /* of each side: ten measurements make 252 arrangements, two of which                        \
         are the observed one and its mirror image */
/* The machine drifted where the same test of its own figures gives a p of at most this, and a
 * median moved by this many percent. Rather a comparison too many without a verdict than one that
 * gives the machine's change for the program's. */
#define COMPARE_DRIFT_ALPHA   0.05
#define COMPARE_DRIFT_PERCENT 2.0
/* Percent of the prompt tokens by which the share that was cached may differ. */
#define COMPARE_CACHED_PERCENT 1.0

enum compare_verdict {
    COMPARE_BETTER,
    COMPARE_WORSE,
    COMPARE_CHANGED, /* a metric of which neither more nor less is better */
    COMPARE_NOISE,
    COMPARE_NONE, /* the comparison is in doubt, or a repeat has no value */
};
const char *compare_verdict_name(enum compare_verdict v); /* "better", ..., "no verdict" */

/* One file or several of the same workload. Borrowed, as are the names. */
struct compare_side {
    const struct result *results; /* (n), n >= 1 */
    const char *const *names;     /* (n) of the files, for messages */
    size_t n;
};

struct compare_figure {
    double median, min, max;
    size_t n; /* repeats, of all files */
};

struct compare_row {
    const char *name;   /* borrowed from the results, as are unit and better */
    const char *unit;   /* "ms" */
    const char *better; /* "lower", "higher", "neither" */
    struct compare_figure before, after;
    double change;  /* after - before, of the medians */
    double percent; /* of before; NAN when that is 0 */
    bool headline;
    double p; /* corrected for all metrics of the family; NAN: not tested */
    enum compare_verdict verdict;
};

struct compare {
    struct compare_side before, after;
    struct compare_row *rows; /* (n_rows) metrics of all files, in the first one's order */
    size_t n_rows;
    json_t *doubts; /* list of sentences; empty: there are verdicts */
    json_t *notes;  /* the same, of what does not stand against a verdict */
    /* Of prompts in a prefix cache, by side; all 0 where the files do not say. */
    uint64_t cached_tokens[2], prompt_tokens[2];
};

/* STATUS_INVALID when kind, workload or the objectives of goodput of any two files differ: names
 * the first field that does, with both values. *out is to be freed by compare_fini either way. */
enum status compare_make(struct compare *out, struct compare_side before, struct compare_side after,
                         struct err *err);
void compare_fini(struct compare *c);

/* What makes a side's figures say less than they seem to: failed requests, which are in no
 * percentile, an interrupted run, a late load generator. Nothing where there is none. */
void compare_warnings(struct compare_side side, struct buf *out);
/* What differs in the environments, warnings, the table (of the headline metrics, or of all), why
 * there is no verdict, a count of verdicts. */
void compare_text(const struct compare *c, bool all, struct buf *out);
json_t *compare_json(const struct compare *c); /* new; NULL: no memory */

#endif
