#include "bench/load/load_table.h"

#include "bench/result/table.h"

#include <math.h>

static void put_bottleneck(struct buf *out, int columns, const char *why, uint32_t run,
                           uint32_t n_runs)
{
    buf_printf(out, "%-*sTHE BOTTLENECK WAS THE GENERATOR", columns, "");
    if (n_runs > 1)
        buf_printf(out, " of run %u", run);
    buf_printf(out, ": %s\n", why);
}

bool load_table_generator(struct buf *out, int columns, const struct load_result *runs,
                          uint32_t n_runs)
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
