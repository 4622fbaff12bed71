#include "bench/report/table.h"

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

static void put_bottleneck(struct buf *out, int columns, const char *why, uint32_t run,
                           uint32_t n_runs)
{
    buf_printf(out, "%-*sTHE BOTTLENECK WAS THE GENERATOR", columns, "");
    if (n_runs > 1)
        buf_printf(out, " of run %u", run);
    buf_printf(out, ": %s\n", why);
}

bool table_generator(struct buf *out, int columns, const struct load_result *runs, uint32_t n_runs)
{
    struct series lag = {0}, turn = {0};
    double share = 0;
    for (uint32_t i = 0; i < n_runs; i++) {
        series_add_all(&lag, &runs[i].generator.lag_ms);
        series_add_all(&turn, &runs[i].generator.turn_ms);
        share = fmax(share, runs[i].generator.cpu_share);
    }
    buf_printf(out, "%-*ssent %s ms late, stamps %s ms late (p99), %.0f %% of a processor\n",
               columns, "generator", table_cell(series_percentile(&lag, 99)).text,
               table_cell(series_percentile(&turn, 99)).text, 100 * share);
    for (uint32_t i = 0; i < n_runs; i++)
        if (runs[i].generator.bottleneck)
            put_bottleneck(out, columns, runs[i].generator.why, i + 1, n_runs);
    bool complete = !lag.failed && !turn.failed;
    series_fini(&lag);
    series_fini(&turn);
    return complete;
}
