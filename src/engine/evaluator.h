/* One token sequence through a backend, without the engine: for checks and measurements.
 *
 * The sequence grows by evaluator_feed and can be cut back to any length; the evaluator has a KV
 * cache of its own for it. Logits of the positions that are asked for go to a callback. One thread.
 */
#ifndef FIRSTLIGHT_ENGINE_EVALUATOR_H
#define FIRSTLIGHT_ENGINE_EVALUATOR_H

#include "backend/backend.h"
#include "base/err.h"

#include <stdint.h>

struct evaluator;

/* logits: (n_vocab) of `position`, valid during the call. */
typedef void evaluator_take(void *arg, uint32_t position, const float *logits);

/* options: n_ctx is the longest sequence, max_rows the chunk in which tokens are fed, max_outputs
 * the chunk where all logits are asked for; max_seqs is set here. */
enum status evaluator_open(struct evaluator **out, const struct backend_ops *ops,
                           const struct model *model, const struct backend_options *options,
                           struct err *err);
void evaluator_close(struct evaluator *e);

/* Feeds n tokens after those so far; `take` (may be NULL) gets the logits of positions from
 * first_wanted on, in order. The sequence must not grow beyond n_ctx. */
void evaluator_feed(struct evaluator *e, const int32_t *tokens, uint32_t n, uint32_t first_wanted,
                    evaluator_take *take, void *arg);

/* Forgets positions from `length` on. */
void evaluator_cut(struct evaluator *e, uint32_t length);

uint32_t evaluator_length(const struct evaluator *e);

/* Ids that a caller read from elsewhere: STATUS_INVALID names the first that is no token. */
enum status evaluator_check(const struct model *model, const int32_t *tokens, size_t n,
                            struct err *err);

#endif
