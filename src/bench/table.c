#include "bench/table.h"

#include <math.h>

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

void table_generator(struct buf *out, struct load_result *runs, uint32_t n_runs)
{
    struct series lag = {0};
    for (uint32_t i = 0; i < n_runs; i++)
        series_add_all(&lag, &runs[i].generator.lag_ms);
    double p99 = series_percentile(&lag, 99);
    if (isfinite(p99))
        buf_printf(out, "the load generator sent %.2f ms late at p99\n", p99);
    series_fini(&lag);
    for (uint32_t i = 0; i < n_runs; i++)
        if (runs[i].generator.bottleneck)
            buf_printf(out, "it was the bottleneck of run %u: %s\n", i + 1, runs[i].generator.why);
}
