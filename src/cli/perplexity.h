/* `firstlight perplexity --model M --file TEXT`: how well a model predicts a text, by the protocol
 * of llama.cpp's tool, so that figures compare. */
#ifndef FIRSTLIGHT_CLI_PERPLEXITY_H
#define FIRSTLIGHT_CLI_PERPLEXITY_H

int perplexity_main(int argc, char **argv);

#endif
