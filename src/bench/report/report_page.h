/* The report as one HTML page: figures, the tables beside them, and what was measured where.
 *
 * No script, nothing is fetched; light and dark, from 360 pixels of width up. Each chart is drawn
 * twice, for wide and for narrow windows, of which the style sheet shows one. The same files give
 * the same bytes. Whatever comes from a file is escaped.
 */
#ifndef FIRSTLIGHT_BENCH_REPORT_REPORT_PAGE_H
#define FIRSTLIGHT_BENCH_REPORT_REPORT_PAGE_H

#include "bench/report/figures.h"

/* `f` was made of the same files. A failure sets out->failed. */
void report_page_write(struct buf *out, const struct figures_file *files, size_t n_files,
                       const struct figures *f);

#endif
