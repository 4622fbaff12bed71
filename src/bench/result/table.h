/* What the tables of several benchmarks share. */
#ifndef FIRSTLIGHT_BENCH_RESULT_TABLE_H
#define FIRSTLIGHT_BENCH_RESULT_TABLE_H

#include "base/buf.h"

#include <stdint.h>

/* A space, then x right-aligned; "n/a" when it is not finite. */
void table_number(struct buf *out, int width, int digits, double x);
/* "1 run", "3 runs". */
void table_count(struct buf *out, uint32_t n, const char *noun);
/* Three digits that say something: "123.4", "1.23", "0.012"; "n/a" for NAN. */
struct table_cell {
    char text[32];
};
struct table_cell table_cell(double x);

#endif
