/* `firstlight bench compare`: what changed between two result files, and requirements on one. */
#ifndef FIRSTLIGHT_CLI_BENCH_COMPARE_H
#define FIRSTLIGHT_CLI_BENCH_COMPARE_H

int bench_compare_main(int argc, char **argv);

#endif
