/* What a protocol does for an exchange. Private to the protocols (http1.c, http2.c) and http.c,
 * which is all that they have in common. */
#ifndef FIRSTLIGHT_HTTP_HTTP_TRANSPORT_H
#define FIRSTLIGHT_HTTP_HTTP_TRANSPORT_H

#include "base/limits.h"
#include "http/http.h"

/* Each as http.h says of the function of its name. */
struct http_transport {
    bool (*peer)(const struct http_exchange *x, struct sockaddr_storage *out);
    const char *(*header)(const struct http_exchange *x, const char *name);
    struct evbuffer *(*take_body)(struct http_exchange *x);
    void (*add_header)(struct http_exchange *x, const char *name, const char *value);
    void (*add_trailer)(struct http_exchange *x, const char *name, const char *value);
    void (*reply)(struct http_exchange *x, int status, const char *body, size_t len);
    void (*stream_start)(struct http_exchange *x);
    void (*stream_write)(struct http_exchange *x, const char *bytes, size_t len);
    void (*stream_end)(struct http_exchange *x, bool cut);
    size_t (*stream_waiting)(const struct http_exchange *x);
    struct hold *(*unsent)(const struct http_exchange *x); /* of its connection */
};

/* What every answer says beside its body, however it is sent: calls `put` for each header. origin:
 * of the page that may read it; NULL: none may. */
typedef void http_put_header(void *to, const char *name, const char *value);
void http_common_headers(const char *request_id, const char *origin, http_put_header *put,
                         void *to);

/* What an error of this HTTP status says beside that: of a key, or whether and when to ask again.
 * name is NULL where there is nothing to say. */
struct http_error_header {
    const char *name, *value;
};
struct http_error_header http_error_header(int http_status);

/* The client's own name for the request if it is short and printable, else a new one. */
void http_name_request(struct http_exchange *x, char name[LIMIT_REQUEST_ID_BYTES + 1]);

#endif
