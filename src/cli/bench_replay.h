/* firstlight bench replay: a trace played against an engine or a server. */
#ifndef FIRSTLIGHT_CLI_BENCH_REPLAY_H
#define FIRSTLIGHT_CLI_BENCH_REPLAY_H

int bench_replay_main(int argc, char **argv);

#endif
