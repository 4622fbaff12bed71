/* Log probabilities of sampled tokens and their likeliest alternatives.
 *
 * They are those of the model: log softmax of the logits as the backend gave them, before bias,
 * penalties, temperature and filters, as vLLM ("raw_logprobs") and llama.cpp report them. So a
 * greedy token is the first alternative unless a bias or a penalty had a say, and what they are
 * does not depend on how the token was chosen.
 *
 * A table is append-only memory sized at submission:
 *
 *     rows         (max_tokens, width)   the token, then the width - 1 likeliest, best first;
 *                                        among equals the lower id
 *     text_before  (max_tokens)          bytes of the answer's text before the token's own
 *     prompt       (n_prompt, width)     as rows, when asked for
 */
#ifndef FIRSTLIGHT_ENGINE_SAMPLING_LOGPROBS_H
#define FIRSTLIGHT_ENGINE_SAMPLING_LOGPROBS_H

#include "engine/sampling/sampler.h"
#include "engine/sampling/token_logprob.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct logprobs {
    struct token_logprob *rows;
    size_t *text_before;
    struct token_logprob *prompt; /* NULL: nobody asked */
    uint32_t width;               /* 0: nobody asked */
};

/* Room for max_tokens tokens with `top` alternatives, of a vocabulary of n_vocab, and for as many
 * of the prompt's n_prompt tokens (0: nobody asked); false: memory. */
bool logprobs_init(struct logprobs *l, uint32_t top, uint32_t n_prompt, uint32_t max_tokens,
                   uint32_t n_vocab);
void logprobs_fini(struct logprobs *l);

/* Writes one row, `width` as in the table; zeros when a logit is not finite. The sampler lends its
 * scratch. */
void logprobs_row(struct sampler *s, const float *logits, int32_t token, struct token_logprob *row,
                  uint32_t width);

#endif
