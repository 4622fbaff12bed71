/* `firstlight bench streaming`: what a stream of requests sees, and where their time goes. */
#ifndef FIRSTLIGHT_CLI_BENCH_STREAMING_H
#define FIRSTLIGHT_CLI_BENCH_STREAMING_H

/* argv[0] is "streaming". */
int bench_streaming_main(int argc, char **argv);

#endif
