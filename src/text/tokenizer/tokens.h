/* A list of token ids, which tokenizers append to. */
#ifndef FIRSTLIGHT_TEXT_TOKENIZER_TOKENS_H
#define FIRSTLIGHT_TEXT_TOKENIZER_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* It grows; starts zeroed, ends with tokens_fini. */
struct tokens {
    int32_t *ids;
    size_t count;
    size_t cap;
    size_t most; /* it takes no more than so many; 0: any number */
    bool over;   /* more were to come */
};
bool tokens_push(struct tokens *t, int32_t id); /* false: memory, or it is over */
void tokens_fini(struct tokens *t);

#endif
