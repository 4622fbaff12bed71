/* `firstlight bench WHAT`: measurements, one file each. */
#ifndef FIRSTLIGHT_CLI_BENCH_H
#define FIRSTLIGHT_CLI_BENCH_H

int bench_main(int argc, char **argv);

#endif
