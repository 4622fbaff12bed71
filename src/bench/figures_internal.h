/* What the files of figures share. */
#ifndef FIRSTLIGHT_BENCH_FIGURES_INTERNAL_H
#define FIRSTLIGHT_BENCH_FIGURES_INTERNAL_H

#include "bench/figures.h"
#include "bench/samples.h"

/* A figure whose chart is to be begun with svg_init. `id` takes what a file's name may not hold
 * for "-"; file SIZE_MAX: of all files. NULL: no memory. */
struct figure *figures_add(struct figures *f, enum figures_section section, const char *id,
                           size_t file);
/* "TITLE", or "B: TITLE" where there are several files. Into `out`, which is returned. */
const char *figures_title(char out[128], const char *title, size_t file, size_t n_files);
/* Axes alike in the figures of indices [from, n). */
void figures_same_scales(struct figures *f, size_t from);

void figures_add_requests(struct figures *f, const struct samples *s, size_t n_files);
void figures_add_comparison(struct figures *f, const struct figures_file *files, size_t n);
void figures_add_curves(struct figures *f, const struct figures_file *files, size_t n);

#endif
