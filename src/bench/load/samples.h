/* The requests of a result file, as the report draws them: read leniently, since a file may be old,
 * cut by hand, or hostile. What is missing or absurd is NAN.
 */
#ifndef FIRSTLIGHT_BENCH_LOAD_SAMPLES_H
#define FIRSTLIGHT_BENCH_LOAD_SAMPLES_H

#include "bench/result/series.h"

#include <jansson.h>

/* The parts of a client's TTFT, in the order of time but for the last. */
enum samples_part {
    SAMPLES_RECEIVE,
    SAMPLES_TOKENIZE,
    SAMPLES_SUBMIT,
    SAMPLES_QUEUE,
    SAMPLES_CACHE,
    SAMPLES_PREFILL,
    SAMPLES_DECODE, /* of an answer that came whole */
    SAMPLES_FIRST_WRITE,
    SAMPLES_OUTSIDE, /* what the server does not see: network and client */
    SAMPLES_PARTS,
};
extern const char *const samples_part_names[SAMPLES_PARTS];

/* Milliseconds after the run's start; NAN: never came to that. */
struct sample {
    size_t run;      /* counted among those read */
    bool ok, failed; /* neither: cancelled, unsent */
    double due, sent, first, end;
    double ttft; /* sent -> first of one that is ok */
    bool split; /* parts are known; they add up to ttft, or to the server's total if that is more */
    double parts[SAMPLES_PARTS];
};

/* The percentiles that the report marks. */
#define SAMPLES_MARKS 3
extern const double samples_marks[SAMPLES_MARKS]; /* 50, 90, 99 */

struct samples {
    struct sample *v; /* (n) in the file's order */
    size_t n, cap;
    struct sample **by_ttft; /* (n_split) */
    size_t n_runs, n_failed, n_split;
    struct series ttft, itl; /* of requests that are ok */
    /* Those percentiles of each run that has samples. */
    struct series ttft_marks[SAMPLES_MARKS], itl_marks[SAMPLES_MARKS];
    bool failed; /* memory was short */
};

/* Of the runs whose `mode` is that; NULL: of all. */
void samples_read(struct samples *out, const json_t *root, const char *mode);
void samples_fini(struct samples *s);

/* A number within what svg.h draws; NAN for anything else, NULL too. */
double samples_number(const json_t *v);

/* Mean parts of the requests nearest to percentile p of TTFT among those that are split: a window
 * of samples_window requests around its rank, moved inwards at the ends. */
size_t samples_window(const struct samples *s);
void samples_parts_at(const struct samples *s, double p, double parts[SAMPLES_PARTS]);

#endif
