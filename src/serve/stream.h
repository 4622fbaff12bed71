/* An answer as server-sent events: which frames, in which order.
 *
 *     : comment                                on acceptance, and when nothing came for a while
 *     data: {role and first content}           LESSONS of other servers: clients crash when the
 * role data: {content}*                         comes alone or late, when ids differ, when usage
 *     data: {finish_reason, measurements}      comes unasked
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

struct stream {
    struct answer answer;
    bool begun; /* the first chunk was written */
};

/* Appends one frame with the text that is new. */
void stream_text(struct stream *s, struct buf *out, const char *text, size_t len);
/* Appends everything from finish_reason to [DONE]; a stream without any text first gets its role.
 */
void stream_finish(struct stream *s, struct buf *out, const struct answer_end *end);
/* Appends the error that ends the stream. */
void stream_error(struct buf *out, const struct err *err);

#endif
