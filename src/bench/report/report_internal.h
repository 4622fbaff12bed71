/* What the files of the page share. */
#ifndef FIRSTLIGHT_BENCH_REPORT_REPORT_INTERNAL_H
#define FIRSTLIGHT_BENCH_REPORT_REPORT_INTERNAL_H

#include "bench/report/report_page.h"
#include "bench/result/compare.h"

struct report_page {
    struct buf *out;
    const struct figures_file *files;
    size_t n_files;
    /* Of file A with file i; without rows where the two do not compare, and for i = 0. */
    const struct compare *comparisons; /* (n_files) */
};

extern const char report_style_css[];

void report_tables_tiles(const struct report_page *p);   /* the figures that matter most */
void report_tables_metrics(const struct report_page *p); /* all of them */
void report_tables_facts(const struct report_page *p);   /* workload and environment */

/* "" where there is no such text. */
const char *report_parts_text(const json_t *object, const char *key);
/* "B" in the file's colour; nothing where there is one file. */
void report_parts_letter(const struct report_page *p, size_t file);

#endif
