/* `firstlight logits --model M --npy OUT`: token ids on standard input, logits of every position
 * out, for whoever checks this port against another. */
#ifndef FIRSTLIGHT_CLI_LOGITS_H
#define FIRSTLIGHT_CLI_LOGITS_H

int logits_main(int argc, char **argv);

#endif
