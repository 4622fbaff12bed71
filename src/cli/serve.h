/* firstlight serve: the OpenAI API over HTTP. */
#ifndef FIRSTLIGHT_CLI_SERVE_H
#define FIRSTLIGHT_CLI_SERVE_H

int serve_main(int argc, char **argv);

#endif
