#include "bench/result/table.h"

#include <math.h>
#include <stdio.h>

void table_number(struct buf *out, int width, int digits, double x)
{
    if (isfinite(x))
        buf_printf(out, " %*.*f", width, digits, x);
    else
        buf_printf(out, " %*s", width, "n/a");
}

void table_count(struct buf *out, uint32_t n, const char *noun)
{
    buf_printf(out, "%u %s%s", n, noun, n == 1 ? "" : "s");
}

struct table_cell table_cell(double x)
{
    struct table_cell c = {"n/a"};
    double size = fabs(x);
    int decimals = size >= 10 ? 1 : size >= 0.1 || size == 0 ? 2 : 3;
    if (!isnan(x))
        snprintf(c.text, sizeof c.text, "%.*f", decimals, x);
    return c;
}
