/* `firstlight bench streaming --compare-blocking`: the same requests without streaming, one at a
 * time, and streamed. */
#ifndef FIRSTLIGHT_CLI_BENCH_BLOCKING_H
#define FIRSTLIGHT_CLI_BENCH_BLOCKING_H

#include "cli/bench_common.h"

struct bench_blocking {
    const struct bench_common *common;
    struct bench_target_options *target;
    const struct workload_options *workload;
    const struct goodput *goodput; /* may be NULL */
    uint32_t at_once;              /* requests in flight at once */
    const atomic_bool *stop;
};

/* Without --url it forks servers of its own: no thread may exist yet. */
enum status bench_blocking_run(const struct bench_blocking *b, struct err *err);

#endif
