/* What the session of a connection takes: its tables, its streams, the frames that it has queued.
 *
 *     nghttp2 ─► http2_memory ─► base/mem.h
 *                   └ bytes: as malloc has rounded them up
 *
 * nghttp2 bounds some of it by numbers of its own, but not the sum. I/O thread only.
 */
#ifndef FIRSTLIGHT_HTTP_HTTP2_MEMORY_H
#define FIRSTLIGHT_HTTP_HTTP2_MEMORY_H

#include <nghttp2/nghttp2.h>
#include <stddef.h>

struct http2_memory {
    nghttp2_mem mem; /* points here: it may not move while a session uses it */
    size_t bytes;
};

void http2_memory_init(struct http2_memory *m);

#endif
