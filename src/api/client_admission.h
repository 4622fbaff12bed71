/* What one client may ask of the engine: its requests under way and its rates. Each that is
 * admitted ends once. I/O thread only. */
#ifndef FIRSTLIGHT_API_CLIENT_ADMISSION_H
#define FIRSTLIGHT_API_CLIENT_ADMISSION_H

#include "http/client_limit.h"
#include "http/http.h"
#include "http/text_worker.h"

struct server;

struct admitted {
    struct client client;
    uint32_t n; /* that count as under way: one, then one for each of its answers */
};

/* Who asks: with keys, where the path needs one, that key; else the address (NULL: unknown). */
struct client client_admission_client(const struct server *s, bool needs_key, uint64_t key,
                                      const struct sockaddr *peer);

/* Of a request that needs a key. */
struct client client_admission_client_of(const struct server *s, const struct http_exchange *x);

/* A body comes, of so many bytes in all (0: unknown); from here on it is held of this
 * budget. STATUS_UNAVAILABLE: there is no room for it, which was counted. */
enum status client_admission_body(struct byte_budget *of, struct hold *held,
                                  const struct client *who, size_t announced, struct err *err);

/* A request comes. STATUS_OVERLOADED: *limit is the one that is reached, for /metrics, and the
 * exchange says when to come back. */
enum status client_admission_begin(struct server *s, struct http_exchange *x, struct admitted *out,
                                   const char **limit, struct err *err);
/* Its text goes to the text workers, as by text_worker_submit: the job may be done, and the
 * exchange ended, before this returns. STATUS_OVERLOADED: too many wait there; refuses as
 * client_admission_begin does.
 */
enum status client_admission_text(struct server *s, struct http_exchange *x, struct text_job *job,
                                  const char **limit, struct err *err);
/* It turns out to have so many answers. Refuses as client_admission_begin does. */
enum status client_admission_answers(struct server *s, struct http_exchange *x, struct admitted *a,
                                     uint32_t n_answers, const char **limit, struct err *err);
/* So many tokens were read of it; they count, whatever becomes of it. The answer, if there still is
 * somebody to answer (x may be NULL), will say what is left. */
void client_admission_tokens(struct server *s, struct http_exchange *x, const struct admitted *a,
                             uint64_t tokens);
/* It ended, with so many tokens generated. */
void client_admission_end(struct server *s, struct admitted *a, uint64_t tokens);

#endif
