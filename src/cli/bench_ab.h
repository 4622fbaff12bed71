/* `firstlight bench ab`. */
#ifndef FIRSTLIGHT_CLI_BENCH_AB_H
#define FIRSTLIGHT_CLI_BENCH_AB_H

int bench_ab_main(int argc, char **argv);

#endif
