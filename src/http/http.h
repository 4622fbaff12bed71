/* HTTP for whoever answers requests: one exchange is one request and its answer.
 *
 * http1.c and http2.c know a protocol and no feature; handlers know features and no protocol. An
 * exchange ends exactly once, with `ended`: after the answer's last byte was written, or when the
 * client left; never inside http_stream_start and http_stream_write. I/O thread only.
 *
 *     handler(x) ─► http_reply | http_fail
 *                └► http_stream_start ─► http_stream_write* ─► http_stream_end      then x->ended
 */
#ifndef FIRSTLIGHT_HTTP_HTTP_H
#define FIRSTLIGHT_HTTP_HTTP_H

#include "base/err.h"
#include "base/key_secret.h"
#include "base/timeline.h"
#include "http/byte_budget.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct evbuffer;
struct http_transport;
struct sockaddr;
struct sockaddr_storage;

/* A request of which only the head has come. */
struct http_head {
    const char *method, *path;
    const char *authorization, *origin, *host; /* the fields of these names; NULL: none */
    size_t announced; /* bytes of the body to come; HTTP_UNANNOUNCED: it does not say */
};
#define HTTP_UNANNOUNCED SIZE_MAX

/* How the API behind a port tells errors in bodies. Whoever opens the port gives it. */
struct http_error_format {
    const char *content_type;
    void (*write)(struct buf *out, const struct err *err, const char *code); /* code: NULL: none */
    const char *no_memory; /* a whole body, where there is no memory to write one */
};

/* Why it is not taken. */
struct http_refusal {
    struct err err;
    const char *code;   /* of the error; NULL: none */
    const char *allow;  /* the methods that its path takes, where it takes others; NULL */
    const char *origin; /* of the page that may read this; NULL: none may */
};

/* Is the body to be taken? True: *held is opened for it. Else *why says why not, and it has been
 * counted. */
typedef bool http_admit(void *arg, const struct http_head *head, const struct sockaddr *peer,
                        struct hold *held, struct http_refusal *why);

struct http_exchange {
    /* the request; valid until the end */
    const char *method; /* "GET" */
    const char *path;   /* without the query */
    const char *query;  /* what follows the '?', not decoded; NULL: none */
    const char *request_id;
    const struct timeline *timeline; /* received */
    uint64_t key;                    /* the id of the API key it came with (keys.h) ... */
    struct key_secret key_secret;    /* ... and what makes the salts of that key's prompts */
    const char *origin;              /* of the page that may read the answer; NULL: none may */
    struct hold held;                /* bytes of the body, wherever it is until the end */
    bool keyless; /* no key was asked for or brought: its answer has room among such alone */
    const struct err *refused; /* all there is to answer: http_fail with it; HTTP/2 only */
    /* the answer */
    int status;       /* 0 until answered */
    int64_t retry_ms; /* what http_retry_after said; 0: nothing yet */
    /* the handler's */
    void *user;
    /* more of the body came, or its end; HTTP/2 only (of HTTP/1.1 the handler sees whole requests)
     */
    void (*arrived)(struct http_exchange *x, bool whole);
    bool unhurried; /* the body may take as long as it likes; HTTP/2 only */
    void (*drained)(struct http_exchange *x); /* all that was written has gone out; may be NULL */
    void (*ended)(struct http_exchange *x, bool gone); /* may be NULL; x is freed after it */
    /* told after `ended`, whoever handles it by then; HTTP/2 only; may be NULL */
    void (*over)(void *arg);
    void *over_arg;
    /* how http_fail tells an error; NULL: in a body, as `errors` has it */
    void (*fail)(struct http_exchange *x, const struct err *err, const char *code);
    const struct http_error_format *errors; /* the port's */
    const struct http_transport *via;       /* the protocol it came by */
};

/* A body that is not taken because the bytes of all requests are too many already. */
extern const char http_code_memory[];
enum status http_no_room(const struct hold *held, struct err *err);

typedef void http_handler(void *arg, struct http_exchange *x);

/* Does this path, without its query, ask how the server is? A proxy that asks so among the requests
 * of others is told, even where their answers are not taken. */
typedef bool http_is_probe(const char *path);

/* The address of the client; false when the client has left. */
bool http_peer(const struct http_exchange *x, struct sockaddr_storage *out);
const char *http_header(const struct http_exchange *x, const char *name); /* NULL: absent */
/* What came before the body; it announces none. The texts are the exchange's. */
struct http_head http_head_of(const struct http_exchange *x);
/* Decodes what follows `prefix` in the path; false when it does not begin so, or does not fit. */
bool http_path_rest(const struct http_exchange *x, const char *prefix, char *out, size_t out_size);
/* The decoded value of a parameter of the query; false when it is absent. What does not fit is cut.
 */
bool http_query(const struct http_exchange *x, const char *name, char *out, size_t out_size);
/* The body, now the caller's (evbuffer_free). NULL: memory. What it takes stays held by x: who
 * keeps it longer than the exchange moves that (byte_budget_move). */
struct evbuffer *http_take_body(struct http_exchange *x);

/* Its bytes in one piece; *bytes is NULL when there are none. STATUS_NO_MEMORY. */
enum status http_in_one_piece(struct evbuffer *body, const char **bytes, size_t *len,
                              struct err *err);

/* For the answer to come; names and values without line ends. */
void http_add_header(struct http_exchange *x, const char *name, const char *value);
/* A field that follows the body; HTTP/2 only. */
void http_add_trailer(struct http_exchange *x, const char *name, const char *value);
/* When a later try may work: Retry-After in seconds, and Retry-After-Ms, which the clients of
 * OpenAI look at first. */
void http_retry_after(struct http_exchange *x, int64_t us);
void http_reply(struct http_exchange *x, int status, const char *content_type, const char *body,
                size_t len);
/* The error as the port's format has it, with Retry-After where a later try may work: the one that
 * was added, or a guess. code may be NULL. */
void http_fail(struct http_exchange *x, const struct err *err, const char *code);

void http_stream_start(struct http_exchange *x, const char *content_type);
void http_stream_write(struct http_exchange *x, const char *bytes, size_t len);
/* With `cut` the connection is closed too: the stream ended with an error. */
void http_stream_end(struct http_exchange *x, bool cut);
/* May so many bytes wait for this client, beside all that waits for all? LIMIT_STREAM_BUFFER always
 * may where no more than that waits of this answer already: who reads is never cut for those who do
 * not. What does not fit is told as an error (http_no_room_to_send), which is short and always
 * written. */
bool http_has_room(const struct http_exchange *x, size_t len);
enum status http_no_room_to_send(struct http_exchange *x, struct err *err);
/* For parts of the answer that wait elsewhere: of the same budget and client as what waits for this
 * client. It holds nothing yet, and may outlive the exchange. */
void http_hold_answer(const struct http_exchange *x, struct hold *out);
size_t http_stream_waiting(const struct http_exchange *x); /* bytes not yet taken by the client */

#endif
