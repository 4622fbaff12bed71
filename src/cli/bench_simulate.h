/* `firstlight bench simulate`: scheduling policies over the same arrivals, in virtual time. */
#ifndef FIRSTLIGHT_CLI_BENCH_SIMULATE_H
#define FIRSTLIGHT_CLI_BENCH_SIMULATE_H

/* argv[0] is "simulate". */
int bench_simulate_main(int argc, char **argv);

#endif
