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

struct counts_entry {
    int32_t token;
    uint32_t generated; /* 0: only in the prompt */
};

struct counts {
    uint32_t *place; /* (n_vocab) */
    struct counts_entry *seen;
    uint32_t n;
    uint32_t cap;
};

/* Room for all tokens of a request of n_tokens, prompt included; false: memory. */
bool counts_init(struct counts *c, uint32_t n_vocab, uint32_t n_tokens);
void counts_fini(struct counts *c);
/* token is in the vocabulary. Allocates nothing. */
void counts_add(struct counts *c, int32_t token, bool generated);

#endif
