/* What the parts of compare.h share. */
#ifndef FIRSTLIGHT_BENCH_RESULT_COMPARE_INTERNAL_H
#define FIRSTLIGHT_BENCH_RESULT_COMPARE_INTERNAL_H

#include "bench/result/compare.h"

/* The first place where two values differ. */
struct compare_difference {
    char path[200];
    const json_t *before, *after; /* NULL: absent */
};
bool compare_differ(const json_t *a, const json_t *b, struct compare_difference *d);

#define COMPARE_VALUE 100 /* bytes of a value in a message */
/* JSON on one line, cut to fit; returns out. */
const char *compare_value(const json_t *v, char out[COMPARE_VALUE]);

const json_t *compare_metric(struct compare_side side, size_t file, const char *name);

/* Decides rows[].headline, p and verdict, doubts and notes. */
enum status compare_judge(struct compare *c, struct err *err);

#endif
