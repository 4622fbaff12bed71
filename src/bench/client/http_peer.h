/* The server at the other end: its URLs, the key for it, and the options of every transfer. */
#ifndef FIRSTLIGHT_BENCH_CLIENT_HTTP_PEER_H
#define FIRSTLIGHT_BENCH_CLIENT_HTTP_PEER_H

#include "base/err.h"
#include "bench/client/api_key.h"

#include <curl/curl.h>
#include <stdint.h>

struct http_peer {
    char *base; /* "http://host:port", no slash, no /v1 at its end */
    char *models_url, *chat_url, *completions_url;
    struct api_key key;
    struct curl_slist *headers; /* of a POST */
    uint32_t timeout_seconds;
};

/* *p is to be released by http_peer_fini either way. Errors name --url and --api-key-file; none of
 * them holds the key. */
enum status http_peer_init(struct http_peer *p, const char *url, const char *api_key_file,
                           uint32_t timeout_seconds, struct err *err);
void http_peer_fini(struct http_peer *p);

/* A handle with everything set but URL, body and callbacks; `error` holds CURL_ERROR_SIZE bytes and
 * outlives it. NULL: no memory. */
CURL *http_peer_easy(const struct http_peer *p, char *error);

/* Asks for the models and copies one's name: `asked`, which has to be among them unless the server
 * names none, or the first when `asked` is NULL. */
enum status http_peer_model(const struct http_peer *p, const char *asked, char *out,
                            size_t out_size, struct err *err);

#endif
