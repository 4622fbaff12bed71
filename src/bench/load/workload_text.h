/* Text by the token: common English words, cut and filled until the count is right. */
#ifndef FIRSTLIGHT_BENCH_LOAD_WORKLOAD_TEXT_H
#define FIRSTLIGHT_BENCH_LOAD_WORKLOAD_TEXT_H

#include "base/buf.h"
#include "bench/result/random.h"
#include "text/tokenizer/tokenizer.h"

/* The first words spell `code`, its lowest byte first, so that two codes that differ in it differ
 * from their first word on; two codes below 2^40 differ within this many. */
#define WORKLOAD_TEXT_HEAD 5

/* Appends words to *out until all of it is n_tokens tokens of a plain completion, bos included
 * where the model adds one. What was in *out before is at most so many and stays as it is; a space
 * goes between. `seed` chooses the alphabet that `code` is spelled in. *exact: whether the count
 * was reached (it is not where a token is never that short). STATUS_NO_MEMORY, or what the
 * tokenizer says. */
enum status workload_text_append(struct buf *out, struct random *r, uint64_t seed, uint64_t code,
                                 uint32_t n_tokens, const struct tokenizer *tokenizer, bool *exact,
                                 struct err *err);

#endif
