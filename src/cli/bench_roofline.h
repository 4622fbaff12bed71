/* `firstlight bench roofline`: what this machine can do at most, in reading and in arithmetic. */
#ifndef FIRSTLIGHT_CLI_BENCH_ROOFLINE_H
#define FIRSTLIGHT_CLI_BENCH_ROOFLINE_H

int bench_roofline_main(int argc, char **argv);

#endif
