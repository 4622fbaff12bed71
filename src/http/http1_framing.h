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
 * Whoever decides at the end of the head whether the body is taken gives it a http1_framing_head,
 * in which it keeps what that needs.
 */
#ifndef FIRSTLIGHT_HTTP_HTTP1_FRAMING_H
#define FIRSTLIGHT_HTTP_HTTP1_FRAMING_H

#include "base/limits.h"

#include <stdbool.h>
#include <stddef.h>

/* The longest token of which all is looked at: "http://", a host and its port. */
#define HTTP1_FRAMING_TEXT_BYTES (LIMIT_HOST_BYTES + 16)

struct http1_framing;
typedef void http1_framing_step(struct http1_framing *g, unsigned char c);

/* The texts that are kept of a head. Another header field is one more here and in kept_fields of
 * http1_framing.c. */
enum http1_framing_kept {
    HTTP1_FRAMING_TARGET,
    HTTP1_FRAMING_AUTHORIZATION,
    HTTP1_FRAMING_ORIGIN,
    HTTP1_FRAMING_HOST_NAME,
    HTTP1_FRAMING_N_KEPT
};
#define HTTP1_FRAMING_KEPT_BYTES 512 /* of each; what is longer is cut */

struct http1_framing_text {
    bool given;
    size_t len; /* of all of it, also beyond what is kept */
    char text[HTTP1_FRAMING_KEPT_BYTES];
};

struct http1_framing_head {
    char method[8];
    struct http1_framing_text
        kept[HTTP1_FRAMING_N_KEPT]; /* of a field that comes twice, the first */
};

struct http1_framing {
    http1_framing_step *step;
    struct http1_framing_head *head;    /* the caller's; NULL: nothing is kept */
    struct http1_framing_text *keeping; /* of these, what is being read; NULL: nothing */
    size_t head_bytes;
    size_t body_bytes;                   /* decoded, so far announced */
    size_t remaining;                    /* of the body, or of the chunk */
    size_t body_got;                     /* decoded, so far arrived */
    char text[HTTP1_FRAMING_TEXT_BYTES]; /* the token being read, cut */
    size_t text_len;                     /* its length, also beyond what `text` keeps */
    enum {
        HTTP1_FRAMING_FIELD_OTHER,
        HTTP1_FRAMING_LENGTH,
        HTTP1_FRAMING_CODING,
        HTTP1_FRAMING_HOST,
        HTTP1_FRAMING_EXPECT
    } field;
    bool has_length, chunked, has_host, http_1_0, bodyless;
    bool body;       /* the head has ended, and a body follows */
    bool data;       /* inside bytes that need no look */
    bool done;       /* the request has ended with the byte fed last */
    int http_status; /* not 0: refused, with this status and ... */
    const char *why; /* ... this text */
};

/* Ready for the first byte of a request. */
void http1_framing_reset(struct http1_framing *g);
/* Keeps what is kept of the request to come in *head, which begins zeroed; NULL: no longer. */
void http1_framing_keep(struct http1_framing *g, struct http1_framing_head *head);
/* NULL: it did not come. What was cut is not what came: *cut says so. */
const char *http1_framing_kept(const struct http1_framing_head *head, enum http1_framing_kept which,
                               bool *cut);

/* Takes bytes of a body or chunk, which are counted and not looked at: returns how many of n come
 * before the next that http1_framing_feed must see. */
size_t http1_framing_skip(struct http1_framing *g, size_t n);
/* Takes up to n bytes; returns how many belong to this request. Less than n: it is done, or it is
 * refused (http_status), and the rest was not looked at. */
size_t http1_framing_feed(struct http1_framing *g, const char *bytes, size_t n);

#endif
