/* Which tokens a request has seen, and how often it generated each: what penalties look at.
 *
 *     place: one number per token of the vocabulary, 0 = never seen, else its index in seen + 1
 *            (zeroed pages that stay untouched cost nothing)
 *     seen:  the distinct tokens, in order of first sight, so that a penalty walks those alone
 */
#ifndef FIRSTLIGHT_ENGINE_SAMPLING_TOKEN_COUNTS_H
#define FIRSTLIGHT_ENGINE_SAMPLING_TOKEN_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

struct token_counts_entry {
    int32_t token;
    uint32_t generated; /* 0: only in the prompt */
};

struct token_counts {
    uint32_t *place; /* (n_vocab) */
    struct token_counts_entry *seen;
    uint32_t n;
    uint32_t cap;
};

/* Room for all tokens of a request of n_tokens, prompt included; false: memory. */
bool token_counts_init(struct token_counts *c, uint32_t n_vocab, uint32_t n_tokens);
void token_counts_fini(struct token_counts *c);
/* token is in the vocabulary. Allocates nothing. */
void token_counts_add(struct token_counts *c, int32_t token, bool generated);

#endif
