/* `firstlight bench history`: the record table of result files. */
#ifndef FIRSTLIGHT_CLI_BENCH_HISTORY_H
#define FIRSTLIGHT_CLI_BENCH_HISTORY_H

int bench_history_main(int argc, char **argv);

#endif
