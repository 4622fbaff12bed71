/* Why a request waited in the queue, as JSON and in words. */
#ifndef FIRSTLIGHT_OBSERVE_WAIT_REASON_H
#define FIRSTLIGHT_OBSERVE_WAIT_REASON_H

#include "base/buf.h"
#include "base/timeline.h"
#include "engine/engine.h"

/* "waited 180 ms behind two prompts of 1,024 tokens in all"; nothing for a wait below 1 ms. The
 * time is that from queued to admitted, or to its end if it never was. */
void wait_reason_words(struct buf *out, const struct request_wait *w, const struct timeline *t);

/* ,"waited":{"for":...,"words":"..."} */
void wait_reason_json(struct buf *out, const struct request_wait *w, const struct timeline *t);

#endif
