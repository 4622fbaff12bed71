/* The framing of HTTP/1.1 requests, checked strictly before libevent's parser sees a byte.
 *
 * evhttp takes a Content-Length of "+7", a chunk size of "0x7", NUL in a header, differing
 * duplicate lengths and unknown transfer codings. The guard reads the same bytes first and stops at
 * the first that RFC 9112 does not allow, so that what evhttp parses has one meaning only.
 *
 *     method SP target SP version CRLF  (name ":" value CRLF)*  CRLF  body | chunks
 *     └──────────────── LIMIT_HEADER_BYTES ─────────────────────────┘ └ LIMIT_BODY_BYTES
 *
 * One per connection, no memory of its own. The state is the function that takes the next byte.
 */
#ifndef FIRSTLIGHT_SERVE_GUARD_H
#define FIRSTLIGHT_SERVE_GUARD_H

#include "base/limits.h"

#include <stdbool.h>
#include <stddef.h>

/* The longest token of which all is looked at: "http://", a host and its port. */
#define GUARD_TEXT_BYTES (LIMIT_HOST_BYTES + 16)

struct guard;
typedef void guard_step(struct guard *g, unsigned char c);

struct guard {
    guard_step *step;
    size_t head_bytes;
    size_t body_bytes;           /* decoded, so far announced */
    size_t remaining;            /* of the body, or of the chunk */
    char text[GUARD_TEXT_BYTES]; /* the token being read, cut */
    size_t text_len;             /* its length, also beyond what `text` keeps */
    enum { GUARD_FIELD_OTHER, GUARD_LENGTH, GUARD_CODING, GUARD_HOST, GUARD_EXPECT } field;
    bool has_length, chunked, has_host, http_1_0, bodyless;
    bool data;       /* inside bytes that need no look */
    bool done;       /* the request has ended with the byte fed last */
    int http_status; /* not 0: refused, with this status and ... */
    const char *why; /* ... this text */
};

/* Ready for the first byte of a request. */
void guard_reset(struct guard *g);

/* Takes up to n bytes; returns how many belong to this request. Less than n: it is done, or it is
 * refused (http_status), and the rest was not looked at. */
size_t guard_feed(struct guard *g, const char *bytes, size_t n);

#endif
