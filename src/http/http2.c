#include "http/http2.h"

#include "base/log.h"
#include "base/mem.h"
#include "http/http2_conn.h"
#include "http/listener.h"
#include "http/tls.h"
#include "http/tls_accept.h"
#include "http/tls_limit.h"

#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct http2 {
    struct http2_set conns;
    struct evconnlistener *listener;
    SSL_CTX *tls;                 /* NULL: none */
    struct tls_limit *handshakes; /* that wait, with TLS */
    struct tls_accepts accepts;   /* and those under way */
    uint32_t max_connections;
    uint64_t refused;
    void (*left)(void *arg); /* the owner's */
    void *left_arg;
    char url[LISTENER_URL_BYTES];
};

/* SETTINGS, with which a server begins, then GOAWAY: no stream, ENHANCE_YOUR_CALM. */
static const char go_away[] = "\0\0\0\4\0\0\0\0\0"
                              "\0\0\10\7\0\0\0\0\0\0\0\0\0\0\0\0\13";

/* Who cannot read it because TLS has not begun sees the connection end. */
static void http2_refuse(struct http2 *h, int fd)
{
    ssize_t sent = 0;
    if (!h->tls)
        sent = send(fd, go_away, sizeof go_away - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    h->refused++;
    log_info("connection.refused", "reason=\"its address has as many as one may\" told=%d",
             sent > 0);
    close(fd);
}

static void leave(struct http2 *h, const struct client *who)
{
    if (h->conns.addresses)
        client_limit_leave(h->conns.addresses, who);
}

static void http2_on_left(void *arg);

/* A connection that speaks HTTP/2 from now on; its bufferevent, or NULL: no memory. */
static void http2_begin(struct http2 *h, struct bufferevent *bev, const struct client *who)
{
    if (bev && http2_conn_new(&h->conns, bev, who))
        return;
    if (bev)
        bufferevent_free(bev);
    log_warn("connection.refused", "reason=\"no memory\"");
    leave(h, who);
    http2_on_left(h);
}

static bool speaks_h2(const SSL *ssl)
{
    const unsigned char *name;
    unsigned len;
    SSL_get0_alpn_selected(ssl, &name, &len);
    return len == 2 && memcmp(name, "h2", 2) == 0;
}

static void on_handshake(void *arg, SSL *ssl, int fd, const struct client *who)
{
    struct http2 *h = arg;
    if (ssl && speaks_h2(ssl)) {
        struct bufferevent *bev = bufferevent_openssl_socket_new(
            h->conns.base, fd, ssl, BUFFEREVENT_SSL_OPEN, BEV_OPT_CLOSE_ON_FREE);
        if (bev) {
            bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
            http2_begin(h, bev, who);
            return;
        }
        close(fd); /* ssl is gone: libevent frees it also when it fails */
    } else if (ssl) {
        SSL_free(ssl);
        close(fd);
    }
    leave(h, who);
    http2_on_left(h);
}

static void start_handshake(void *arg, int fd, const struct client *who)
{
    struct http2 *h = arg;
    if (tls_accept_start(&h->accepts, h->tls, fd, who))
        return;
    log_warn("connection.refused", "reason=\"no memory\"");
    close(fd);
    leave(h, who);
    http2_on_left(h); /* it had waited, and others may come */
}

static void http2_start(struct http2 *h, int fd, const struct client *who)
{
    struct bufferevent *bev = bufferevent_socket_new(h->conns.base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (!bev)
        close(fd);
    http2_begin(h, bev, who);
}

/* There is no place to wait for the handshake. */
static void http2_drop(void *arg, int fd, const struct client *who)
{
    struct http2 *h = arg;
    h->refused++;
    leave(h, who);
    close(fd);
}

/* Connections, also those that have not yet made their handshake. */
static uint32_t http2_count(const struct http2 *h)
{
    uint32_t waiting = h->handshakes ? tls_limit_count(h->handshakes) : 0;
    return h->conns.count + h->accepts.count + waiting;
}

static void on_accept(struct evconnlistener *listener, int fd, struct sockaddr *peer, int len,
                      void *arg)
{
    struct http2 *h = arg;
    struct client who = client_limit_of_address(len > 0 ? peer : NULL);
    struct client_limit *addresses = h->conns.addresses;
    if (addresses && client_limit_enter(addresses, &who, NULL)) {
        http2_refuse(h, fd);
        return;
    }
    if (h->handshakes)
        tls_limit_add(h->handshakes, fd, &who);
    else
        http2_start(h, fd, &who);
    /* who comes now waits in the kernel until somebody has left */
    if (http2_count(h) >= h->max_connections)
        evconnlistener_disable(listener);
}

static void http2_on_left(void *arg)
{
    struct http2 *h = arg;
    if (h->listener && !h->conns.draining && http2_count(h) < h->max_connections)
        evconnlistener_enable(h->listener);
    if (h->left)
        h->left(h->left_arg);
}

enum status http2_open(struct http2 **out, struct event_base *base, const struct http2_options *o,
                       http_handler *handler, void *arg, struct err *err)
{
    struct http2 *h = mem_zalloc(sizeof *h);
    if (!h)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the HTTP/2 server");
    h->max_connections = o->max_connections;
    h->left = o->left;
    h->left_arg = o->left_arg;
    h->conns = (struct http2_set){.base = base,
                                  .handler = handler,
                                  .arg = arg,
                                  .is_probe = o->is_probe,
                                  .addresses = o->addresses,
                                  .unsent = o->unsent,
                                  .keyless = o->keyless,
                                  .streams = o->streams,
                                  .errors = o->errors,
                                  .left = http2_on_left,
                                  .left_arg = h};
    h->accepts =
        (struct tls_accepts){.base = base, .workers = o->workers, .done = on_handshake, .arg = h};
    const struct listener_options where = {.host = o->host,
                                           .port = o->port,
                                           .flag = "--grpc-port",
                                           .scheme = o->tls_cert ? "https" : "http"};
    enum status st = o->tls_cert ? tls_open(&h->tls, o->tls_cert, o->tls_key, err) : STATUS_OK;
    const struct tls_limit_options handshakes = {.base = base,
                                                 .cost_us = h->tls ? tls_handshake_us(h->tls) : 0,
                                                 .start = start_handshake,
                                                 .drop = http2_drop,
                                                 .arg = h};
    if (h->tls)
        st = tls_limit_open(&h->handshakes, &handshakes, err);
    if (st == STATUS_OK)
        st = http2_conn_set_init(&h->conns, err);
    if (st == STATUS_OK)
        st = listener_open(&h->listener, h->url, base, &where, err);
    if (st) {
        http2_close(h);
        return st;
    }
    evconnlistener_set_cb(h->listener, on_accept, h);
    *out = h;
    return STATUS_OK;
}

void http2_close(struct http2 *h)
{
    if (!h)
        return;
    struct evconnlistener *listener = h->listener;
    h->listener = NULL; /* nobody is let in for those who leave now */
    if (listener)
        evconnlistener_free(listener);
    tls_limit_close(h->handshakes);
    tls_accept_end(&h->accepts);
    http2_conn_set_fini(&h->conns);
    tls_close(h->tls);
    mem_free(h);
}

const char *http2_url(const struct http2 *h)
{
    return h->url;
}

uint32_t http2_connections(const struct http2 *h)
{
    return http2_count(h);
}

uint64_t http2_refused(const struct http2 *h, int http_status)
{
    return http_status == 400 ? h->conns.other_protocols : http_status == 429 ? h->refused : 0;
}

enum status http2_reload_tls(struct http2 *h, const char *cert, const char *key, struct err *err)
{
    SSL_CTX *fresh;
    enum status st = tls_open(&fresh, cert, key, err);
    if (st)
        return st;
    tls_close(h->tls); /* its connections hold it, each by a reference of its own */
    h->tls = fresh;
    tls_limit_set_cost(h->handshakes, tls_handshake_us(fresh));
    return STATUS_OK;
}

void http2_drain(struct http2 *h)
{
    h->conns.draining = true;
    /* Whoever comes now is told to try another server, by being refused. The listener stays: a rest
     * after a failed accept may still end. */
    evconnlistener_disable(h->listener);
    shutdown(evconnlistener_get_fd(h->listener), SHUT_RDWR);
    for (struct http2_conn *c = h->conns.first; c; c = c->next)
        http2_conn_drain(c);
}
