/* What the machine itself did while something was measured on it: a difference between two results
 * may be the machine's.
 *
 *     arithmetic, reading   how fast one thread multiplies and adds, and reads memory that no cache
 *                           holds, tried for some milliseconds before a run (kernels/peak.h)
 *     stolen                the share of the processors' time that the host gave to others while
 *                           they were wanted here (`steal` in /proc/stat, proc(5))
 *
 * Single-threaded; of this machine, which with a URL may not be the server's.
 */
#ifndef FIRSTLIGHT_BENCH_RESULT_MACHINE_H
#define FIRSTLIGHT_BENCH_RESULT_MACHINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Of all processors since the machine started, in ticks of the kernel. */
struct machine_time {
    uint64_t stolen, all;
};
struct machine_time machine_time(void); /* all is 0 where /proc/stat cannot be read */
/* Percent of what passed between the two; NAN where nothing did or nothing is known. */
double machine_stolen(struct machine_time from, struct machine_time to);

/* Processor time that a process and all its threads have used, seconds; NAN when there is none. */
double machine_process_s(pid_t pid);
/* The process of this machine that listens on a TCP port, as far as /proc may be read; 0: none. */
pid_t machine_listener(uint16_t port);

struct machine_speed {
    double arithmetic; /* GFLOP/s of fused multiply-adds, one thread; NAN: no AVX2 */
    double reading;    /* GB/s, one thread */
};

/* Memory to read. Opened once, so that its pages are there when it is tried. */
struct machine {
    char *data; /* NULL: there was no memory; reading is then NAN */
    size_t bytes;
};
void machine_open(struct machine *m);
void machine_close(struct machine *m);
/* Takes MACHINE_TRY_MS for each of the two. */
#define MACHINE_TRY_MS 15
struct machine_speed machine_try(const struct machine *m);

/* What a run's result says of it; NAN: not known. */
struct machine_run {
    struct machine_speed speed; /* just before */
    double stolen_percent;      /* meanwhile */
};

#endif
