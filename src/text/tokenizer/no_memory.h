/* What the parts of a tokenizer say when memory is short. */
#ifndef FIRSTLIGHT_TEXT_TOKENIZER_NO_MEMORY_H
#define FIRSTLIGHT_TEXT_TOKENIZER_NO_MEMORY_H

#include "base/err.h"

static inline enum status no_memory_for_tokenizer(struct err *err)
{
    return err_set(err, STATUS_NO_MEMORY, "no memory for a tokenizer");
}

static inline enum status no_memory_to_tokenize(struct err *err)
{
    return err_set(err, STATUS_NO_MEMORY, "no memory to tokenize a text");
}

#endif
