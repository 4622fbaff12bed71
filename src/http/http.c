#include "http/http.h"

#include "base/buf.h"
#include "base/reserve.h"
#include "http/http_transport.h"
#include "http/request_id.h"

#include <event2/buffer.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Requests */

bool http_peer(const struct http_exchange *x, struct sockaddr_storage *out)
{
    return x->via->peer(x, out);
}

const char *http_header(const struct http_exchange *x, const char *name)
{
    return x->via->header(x, name);
}

struct http_head http_head_of(const struct http_exchange *x)
{
    const char *authority = http_header(x, ":authority"); /* HTTP/1.1 has no such names */
    return (struct http_head){.method = x->method,
                              .path = x->path,
                              .authorization = http_header(x, "Authorization"),
                              .origin = http_header(x, "Origin"),
                              .host = authority ? authority : http_header(x, "Host")};
}

struct evbuffer *http_take_body(struct http_exchange *x)
{
    return x->via->take_body(x);
}

enum status http_in_one_piece(struct evbuffer *body, const char **bytes, size_t *len,
                              struct err *err)
{
    *len = evbuffer_get_length(body);
    *bytes = (const char *)evbuffer_pullup(body, -1);
    if (*len > 0 && !*bytes)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a body of %zu bytes", *len);
    return STATUS_OK;
}

bool http_path_rest(const struct http_exchange *x, const char *prefix, char *out, size_t out_size)
{
    size_t n = strlen(prefix);
    if (strncmp(x->path, prefix, n) != 0)
        return false;
    char *rest = evhttp_uridecode(x->path + n, 0, NULL);
    bool fits = rest && strlen(rest) < out_size;
    if (fits)
        strcpy(out, rest);
    reserve_free(rest); /* libevent allocates by reserve_alloc: see server_run */
    return fits;
}

bool http_query(const struct http_exchange *x, const char *name, char *out, size_t out_size)
{
    struct evkeyvalq fields;
    if (!x->query || evhttp_parse_query_str(x->query, &fields) != 0)
        return false;
    const char *value = evhttp_find_header(&fields, name);
    if (value)
        snprintf(out, out_size, "%s", value);
    evhttp_clear_headers(&fields);
    return value != NULL;
}

void http_name_request(struct http_exchange *x, char name[LIMIT_REQUEST_ID_BYTES + 1])
{
    const char *given = http_header(x, "X-Request-Id");
    size_t len = given ? strlen(given) : 0;
    for (size_t i = 0; i < len; i++)
        if (given[i] <= ' ' || given[i] > '~')
            len = 0;
    if (len > 0 && len <= LIMIT_REQUEST_ID_BYTES)
        memcpy(name, given, len + 1);
    else
        request_id_random(name);
    x->request_id = name;
}

const char http_code_memory[] = "request_memory";

enum status http_no_room(const struct hold *held, struct err *err)
{
    return err_set(err, STATUS_UNAVAILABLE,
                   "the requests under way hold %zu bytes, and %zu are the most, of which one "
                   "client has at most half (--max-request-memory): try again",
                   held->of ? held->of->held : 0, held->of ? held->of->most : 0);
}

/* Answers */

void http_add_header(struct http_exchange *x, const char *name, const char *value)
{
    x->via->add_header(x, name, value);
}

void http_add_trailer(struct http_exchange *x, const char *name, const char *value)
{
    x->via->add_trailer(x, name, value);
}

void http_retry_after(struct http_exchange *x, int64_t us)
{
    char text[24];
    int64_t s = (us + 999999) / 1000000, ms = (us + 999) / 1000;
    x->retry_ms = ms > 1 ? ms : 1;
    snprintf(text, sizeof text, "%" PRId64, s > 1 ? s : 1);
    http_add_header(x, "Retry-After", text);
    snprintf(text, sizeof text, "%" PRId64, x->retry_ms);
    http_add_header(x, "Retry-After-Ms", text);
}

void http_common_headers(const char *request_id, const char *origin, http_put_header *put, void *to)
{
    put(to, "X-Request-Id", request_id);
    put(to, "Vary", "Origin");
    if (!origin)
        return;
    put(to, "Access-Control-Allow-Origin", origin);
    put(to, "Access-Control-Expose-Headers",
        "X-Request-Id, Retry-After, Retry-After-Ms, X-Should-Retry, Server-Timing, "
        "X-RateLimit-Limit-Requests, X-RateLimit-Remaining-Requests, "
        "X-RateLimit-Reset-Requests, X-RateLimit-Limit-Tokens, "
        "X-RateLimit-Remaining-Tokens, X-RateLimit-Reset-Tokens");
}

static void put_in_answer(void *exchange, const char *name, const char *value)
{
    http_add_header(exchange, name, value);
}

static void add_common_headers(struct http_exchange *x)
{
    http_common_headers(x->request_id, x->origin, put_in_answer, x);
}

void http_reply(struct http_exchange *x, int status, const char *content_type, const char *body,
                size_t len)
{
    struct err e;
    if (len > LIMIT_STREAM_BUFFER && !http_has_room(x, len)) { /* errors are shorter */
        http_no_room_to_send(x, &e);
        http_fail(x, &e, "unsent_memory");
        return;
    }
    x->status = status;
    add_common_headers(x);
    if (content_type)
        http_add_header(x, "Content-Type", content_type);
    x->via->reply(x, status, body, len);
}

struct http_error_header http_error_header(int http_status)
{
    switch (http_status) {
    case 401:
        return (struct http_error_header){"WWW-Authenticate", "Bearer"};
    case 408: /* the clients of OpenAI ask again otherwise, twice */
        return (struct http_error_header){"X-Should-Retry", "false"};
    case 429:
        return (struct http_error_header){"Retry-After", "1"};
    case 503:
        return (struct http_error_header){"Retry-After", "5"};
    default:
        return (struct http_error_header){0};
    }
}

void http_fail(struct http_exchange *x, const struct err *err, const char *code)
{
    struct buf body = {0};
    if (x->fail) {
        x->fail(x, err, code);
        return;
    }
    x->errors->write(&body, err, code);
    struct http_error_header also = http_error_header(status_http(err->code));
    if (also.name && !(x->retry_ms != 0 && strcmp(also.name, "Retry-After") == 0))
        http_add_header(x, also.name, also.value);
    const char *text = body.failed ? x->errors->no_memory : buf_str(&body);
    http_reply(x, status_http(err->code), x->errors->content_type, text,
               body.failed ? strlen(text) : body.len);
    buf_fini(&body);
}

/* Streams */

void http_stream_start(struct http_exchange *x, const char *content_type)
{
    x->status = 200;
    add_common_headers(x);
    http_add_header(x, "Content-Type", content_type);
    http_add_header(x, "Cache-Control", "no-cache");
    http_add_header(x, "X-Accel-Buffering", "no");
    x->via->stream_start(x);
}

void http_stream_write(struct http_exchange *x, const char *bytes, size_t len)
{
    x->via->stream_write(x, bytes, len);
}

void http_stream_end(struct http_exchange *x, bool cut)
{
    x->via->stream_end(x, cut);
}

bool http_has_room(const struct http_exchange *x, size_t len)
{
    const struct hold *unsent = x->via->unsent ? x->via->unsent(x) : NULL;
    bool small = len <= LIMIT_STREAM_BUFFER && x->via->stream_waiting(x) <= LIMIT_STREAM_BUFFER;
    return small || !unsent || byte_budget_fits(unsent, unsent->bytes + len);
}

enum status http_no_room_to_send(struct http_exchange *x, struct err *err)
{
    const struct hold *unsent = x->via->unsent ? x->via->unsent(x) : NULL;
    if (unsent)
        byte_budget_refuse(unsent);
    return err_set(err, STATUS_UNAVAILABLE,
                   "the answers that clients have not taken are too large together "
                   "(--max-unsent-memory), of one client or of all: read them, and try again");
}

void http_hold_answer(const struct http_exchange *x, struct hold *out)
{
    const struct hold *unsent = x->via->unsent ? x->via->unsent(x) : NULL;
    *out = unsent ? (struct hold){.of = unsent->of, .share = unsent->share} : (struct hold){0};
}

size_t http_stream_waiting(const struct http_exchange *x)
{
    return x->via->stream_waiting(x);
}
