/* Policies compared in virtual time: the same arrivals for each, on the engine of
 * engine/simulate.h.
 *
 *     bursts             gaps of a gamma distribution with shape 0.1; prompts of 16 to 256 tokens
 *     long-among-short   Poisson; one in fifty has 2,048 tokens, the others have 32
 *     shared-prefix      Poisson; one of eight beginnings of 1,024 tokens and 32 of its own
 *     trace              as recorded (replay.h), its shared blocks too
 *
 * Unless its speed is given the machine is made so fast that the arrivals are `load` times what it
 * can do one by one, what is shared counted once: figures of 10 and of 10,000 requests a second
 * then differ by the machine, and by promises in milliseconds that do not scale.
 */
#ifndef FIRSTLIGHT_BENCH_KINDS_SIMULATION_H
#define FIRSTLIGHT_BENCH_KINDS_SIMULATION_H

#include "base/buf.h"
#include "bench/load/replay.h"
#include "bench/result/result.h"
#include "engine/simulate.h"

enum simulation_arrivals {
    SIMULATION_BURSTS,
    SIMULATION_LONG_AMONG_SHORT,
    SIMULATION_SHARED_PREFIX,
    SIMULATION_TRACE,
};
extern const char *const simulation_arrivals_names[]; /* NULL-terminated */

struct simulation_options {
    enum simulation_arrivals arrivals;
    const struct replay *replay; /* of a trace */
    struct replay_options replay_options;
    uint32_t num_requests; /* but of a trace */
    double request_rate;   /* a second; but of a trace */
    uint32_t max_new_tokens;
    double load;            /* when speed is 0 */
    double speed;           /* so many times as fast as engine.machine */
    double ttft_ms, gap_ms; /* goodput: who has its first token and no longer gap within these */
    uint64_t seed;
    struct simulate_options engine; /* its policy is each in turn */
};
extern const struct simulation_options simulation_default;

/* What one policy made of one run's arrivals. */
struct simulation_run {
    const char *policy;
    uint32_t n, refused, good, most_waiting;
    struct series ttft, queue; /* ms, of requests that were not refused */
    struct series gap;         /* ms, the longest of each that has one */
    struct series scheduler;   /* ms of real time, of a step: messages, plan, admission */
    struct series overhead;    /* and all that the engine does but compute */
    double duration_s, speed;
    struct engine_stats stats;
};

/* `run` tells apart the arrivals of repeats. *out is to be freed by simulation_run_fini either way.
 */
enum status simulation_run(const struct simulation_options *o, const char *policy, uint32_t run,
                           struct simulation_run *out, struct err *err);
void simulation_run_fini(struct simulation_run *r);

json_t *simulation_workload_json(const struct simulation_options *o); /* new; NULL: no memory */
/* Metrics and one entry of `runs`. */
void simulation_result(struct simulation_run *r, uint32_t repeat, struct result *out);

void simulation_table_head(struct buf *out, const struct simulation_options *o);
void simulation_table_row(struct buf *out, struct simulation_run *r);

#endif
