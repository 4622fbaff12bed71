/* An answer as server-sent events: which frames, in which order.
 *
 *     : comment                              on acceptance, and when nothing came for a while
 *     data: {role and first content}         of each choice
 *     data: {content}*                       of several choices, mixed as they come
 *     data: {finish_reason, measurements}    the last choice to end has the measurements
 *     data: {usage, measurements}            with stream_options.include_usage
 *     data: [DONE]
 *
 * Some clients crash when the role comes alone or late, when chunks have different ids, or when
 * usage comes unasked.
 */
#ifndef FIRSTLIGHT_API_OPENAI_SSE_H
#define FIRSTLIGHT_API_OPENAI_SSE_H

#include "api/wire_format.h"

/* The OpenAI API: JSON in, frames or one JSON out. */
extern const struct wire_format openai_sse_format;

#endif
