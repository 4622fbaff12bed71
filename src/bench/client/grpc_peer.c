#include "bench/client/grpc_peer.h"

#include "base/mem.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

/* Its parts, as libcurl cuts a URL; each NULL or to be freed by curl_free. */
struct parts {
    char *scheme, *user, *host, *port, *path, *query, *fragment;
};

static CURLUcode grpc_peer_split(const char *url, struct parts *out)
{
    CURLU *u = curl_url();
    CURLUcode code =
        u ? curl_url_set(u, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) : CURLUE_OUT_OF_MEMORY;
    curl_url_get(u, CURLUPART_SCHEME, &out->scheme, 0);
    curl_url_get(u, CURLUPART_USER, &out->user, 0);
    curl_url_get(u, CURLUPART_HOST, &out->host, 0);
    curl_url_get(u, CURLUPART_PORT, &out->port, 0);
    curl_url_get(u, CURLUPART_PATH, &out->path, 0);
    curl_url_get(u, CURLUPART_QUERY, &out->query, 0);
    curl_url_get(u, CURLUPART_FRAGMENT, &out->fragment, 0);
    curl_url_cleanup(u);
    return code;
}

static void free_parts(struct parts *p)
{
    char *all[] = {p->scheme, p->user, p->host, p->port, p->path, p->query, p->fragment};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        curl_free(all[i]);
}

/* As for HTTP: a password in a URL would end in tables and results. */
static enum status grpc_peer_check(const struct parts *p, CURLUcode code, const char *url,
                                   struct err *err)
{
    bool no_path = !p->path || strcmp(p->path, "/") == 0 || p->path[0] == '\0';
    if (p->user)
        return err_param(err, STATUS_INVALID, "--url",
                         "--url: a user or password in a URL is not taken: use --api-key-file");
    if (code || !p->scheme || strcasecmp(p->scheme, "grpc") != 0 || !p->host || !p->port ||
        !no_path || p->query || p->fragment)
        return err_param(err, STATUS_INVALID, "--url",
                         "--url: expected grpc://HOST:PORT, found \"%.200s\"%s%s", url,
                         code ? ": " : "", code ? curl_url_strerror(code) : "");
    return STATUS_OK;
}

static enum status name_it(struct grpc_peer *p, const struct parts *u, struct err *err)
{
    size_t n = sizeof "grpc://:" + strlen(u->host) + strlen(u->port);
    p->base = mem_alloc(n);
    if (!p->base)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a URL");
    snprintf(p->base, n, "grpc://%s:%s", u->host, u->port);
    p->authority = p->base + strlen("grpc://");
    return STATUS_OK;
}

/* Brackets belong to an address of IPv6 only in a URL. */
static enum status look_up(struct grpc_peer *p, const struct parts *u, struct err *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    char host[256];
    size_t n = strlen(u->host);
    bool bare = u->host[0] != '[';
    snprintf(host, sizeof host, "%.*s", (int)(bare ? n : n - 2), u->host + (bare ? 0 : 1));
    int code = getaddrinfo(host, u->port, &hints, &p->addresses);
    p->address = p->addresses;
    return code == 0
               ? STATUS_OK
               : err_set(err, STATUS_UNAVAILABLE, "--url: %s: %s", p->base, gai_strerror(code));
}

enum status grpc_peer_init(struct grpc_peer *p, const char *url, const char *api_key_file,
                           uint32_t timeout_seconds, struct err *err)
{
    struct parts parts = {0};
    *p = (struct grpc_peer){.timeout_seconds = timeout_seconds};
    CURLUcode code = grpc_peer_split(url, &parts);
    enum status st = grpc_peer_check(&parts, code, url, err);
    if (st == STATUS_OK)
        st = name_it(p, &parts, err);
    if (st == STATUS_OK)
        st = api_key_read(&p->key, api_key_file, err);
    if (st == STATUS_OK)
        st = look_up(p, &parts, err);
    if (st == STATUS_OK && p->key.text[0])
        snprintf(p->authorization, sizeof p->authorization, "Bearer %s", p->key.text);
    free_parts(&parts);
    return st;
}

void grpc_peer_fini(struct grpc_peer *p)
{
    if (p->addresses)
        freeaddrinfo(p->addresses);
    mem_free(p->base);
    explicit_bzero(p, sizeof *p);
}
