/* An answer as server-sent events: which frames, in which order.
 *
 *     : comment                                on acceptance, and when nothing came for a while
 *     data: {role and first content}           LESSONS of other servers: clients crash when the
 * role data: {content}*                         comes alone or late, when ids differ, when usage
 *     data: {finish_reason, measurements}      comes unasked; of several choices, mixed as they
 *                                              come, the last one to end has the measurements
 *     data: {usage, measurements}              with stream_options.include_usage
 *     data: [DONE]
 */
#ifndef FIRSTLIGHT_SERVE_STREAM_H
#define FIRSTLIGHT_SERVE_STREAM_H

#include "base/buf.h"
#include "serve/answer.h"

#define STREAM_CONTENT_TYPE "text/event-stream; charset=utf-8"
#define STREAM_ACCEPTED     ": accepted\n\n"
#define STREAM_COMMENT      ": still here\n\n"

/* Appends one frame with what is new of a choice. */
void stream_text(struct buf *out, const struct answer *a, const struct answer_choice *c);
/* Appends the choice's finish_reason; one without any text first gets its role. With `end` it was
 * the last choice: everything up to [DONE] follows. */
void stream_finish(struct buf *out, const struct answer *a, const struct answer_choice *c,
                   const struct answer_end *end);
/* Appends the error that ends the stream. */
void stream_error(struct buf *out, const struct err *err);

#endif
