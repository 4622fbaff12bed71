/* The charts of a report, from one result file or from several side by side.
 *
 *     comparison            bars of metrics that are there for several prompts or modes
 *     TTFT                  histogram (one a file), cumulative (all in one), its parts (one a file)
 *     ITL                   histogram (one a file), cumulative (all in one)
 *     timeline              one a file
 *     curves                the files' own charts (chart.h), laid over each other where two fit
 *
 * A file whose runs have different `mode`s counts as one for each mode. Charts of the same thing
 * have the same axes in all files. Single-threaded; the files' JSON is borrowed only while
 * figures_make runs.
 */
#ifndef FIRSTLIGHT_BENCH_REPORT_FIGURES_H
#define FIRSTLIGHT_BENCH_REPORT_FIGURES_H

#include "base/limits.h"
#include "bench/report/svg.h"

#include <jansson.h>

struct figures_file {
    const char *path;
    const json_t *root; /* as result_read checked it; whatever is wrong in it is left out */
};

enum figures_section {
    FIGURES_COMPARISON,
    FIGURES_TTFT,
    FIGURES_ITL,
    FIGURES_TIMELINE,
    FIGURES_CURVES,
    FIGURES_SECTIONS,
};

struct figure {
    enum figures_section section;
    char id[80];     /* [a-z0-9-]+, each once: a file's name and an anchor */
    bool begins_row; /* the first of a row of charts that are alike */
    struct svg_chart chart;
    struct buf note; /* sentences under the title; may be empty */
};

struct figures {
    struct figure **list; /* (n) by section */
    size_t n, cap;
    bool failed; /* memory was short */
};

/* 1 <= n <= LIMIT_REPORT_FILES. False: no memory. */
bool figures_make(struct figures *out, const struct figures_file *files, size_t n);
void figures_fini(struct figures *f);

/* Some metric of some file has several values: what is shown are medians. */
bool figures_repeat(const struct figures_file *files, size_t n);

/* A file's letter, which titles and tables call it by, and its colour. */
char figures_letter(size_t file);
unsigned figures_colour(size_t file);

#endif
