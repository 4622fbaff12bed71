/* `firstlight bench curves`: how TTFT and throughput change with length, batch and rate. */
#ifndef FIRSTLIGHT_CLI_BENCH_CURVES_H
#define FIRSTLIGHT_CLI_BENCH_CURVES_H

int bench_curves_main(int argc, char **argv);

#endif
