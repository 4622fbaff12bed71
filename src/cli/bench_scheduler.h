/* `firstlight bench scheduler`: the engine without HTTP, online and offline. */
#ifndef FIRSTLIGHT_CLI_BENCH_SCHEDULER_H
#define FIRSTLIGHT_CLI_BENCH_SCHEDULER_H

/* argv[0] is "scheduler". */
int bench_scheduler_main(int argc, char **argv);

#endif
