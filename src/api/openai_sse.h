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
#ifndef FIRSTLIGHT_API_OPENAI_SSE_H
#define FIRSTLIGHT_API_OPENAI_SSE_H

#include "api/wire_format.h"

/* The OpenAI API: JSON in, frames or one JSON out. */
extern const struct wire_format openai_sse_format;

#endif
