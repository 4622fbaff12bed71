/* `firstlight bench token-speed`: the standard prompts through an engine by name or a server. */
#ifndef FIRSTLIGHT_CLI_BENCH_TOKEN_SPEED_H
#define FIRSTLIGHT_CLI_BENCH_TOKEN_SPEED_H

/* argv[0] is "token-speed". */
int bench_token_speed_main(int argc, char **argv);

#endif
