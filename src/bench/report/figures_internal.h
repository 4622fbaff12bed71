/* What the files of figures share. */
#ifndef FIRSTLIGHT_BENCH_REPORT_FIGURES_INTERNAL_H
#define FIRSTLIGHT_BENCH_REPORT_FIGURES_INTERNAL_H

#include "bench/load/samples.h"
#include "bench/report/figures.h"

#define FIGURES_SOURCES (LIMIT_REPORT_FILES * LIMIT_REPORT_MODES)

/* What is drawn apart from the rest: a file's runs, or those of one mode where it has several. */
struct figures_source {
    struct samples samples;
    const json_t *metrics; /* of the file */
    char prefix[64];       /* of the names of its own metrics: "streaming_"; "" without a mode */
    char label[48];        /* "B", "streaming", "B streaming"; "" where there is one source */
    unsigned colour;
};

/* A figure whose chart is to be begun with svg_init. `id` takes what a file's name may not hold
 * for "-"; source NULL: of all. NULL: no memory. */
struct figure *figures_add(struct figures *f, enum figures_section section, const char *id,
                           const struct figures_source *source);
/* "TITLE", or "B: TITLE" where there are several sources. Into `out`, which is returned. */
const char *figures_title(char out[128], const char *title, const struct figures_source *source);
/* Axes alike in the figures of indices [from, n). */
void figures_same_scales(struct figures *f, size_t from);

void figures_add_requests(struct figures *f, const struct figures_source *s, size_t n);
void figures_add_comparison(struct figures *f, const struct figures_file *files, size_t n);
void figures_add_curves(struct figures *f, const struct figures_file *files, size_t n);

#endif
