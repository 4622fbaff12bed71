/* grpc.health.v1: may requests come? Of the server as a whole ("") and of its one service. */
#include "grpc/grpc.h"

#include "base/mem.h"

#include <event2/buffer.h>
#include <proto/grpc/health/v1/health.pb-c.h>
#include <string.h>

typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus serving_status;

#define SERVING         GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING     GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define SERVICE_UNKNOWN GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN

/* A client that watches. */
struct grpc_watch {
    struct server_watch watch; /* first: the two pointers are one */
    struct server *server;
    struct http_exchange *x;
    serving_status told;
    bool known; /* the service that it asked for */
};

static serving_status status_of(const struct server *s, bool known)
{
    if (!known)
        return SERVICE_UNKNOWN;
    return s->state == SERVER_READY ? SERVING : NOT_SERVING;
}

/* The service's name; false: the call was answered with an error. */
static bool read_service(struct http_exchange *x, struct evbuffer *message, bool *known)
{
    ProtobufCMessage *m =
        grpc_take(x, message, &grpc__health__v1__health_check_request__descriptor);
    if (!m)
        return false;
    const char *name = ((const Grpc__Health__V1__HealthCheckRequest *)(const void *)m)->service;
    *known = !name || *name == '\0' || strcmp(name, "firstlight.v1.Inference") == 0;
    protobuf_c_message_free_unpacked(m, NULL);
    return true;
}

static void grpc_health_check(struct server *s, struct http_exchange *x, struct evbuffer *message)
{
    Grpc__Health__V1__HealthCheckResponse out = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    struct err e;
    bool known;
    if (!read_service(x, message, &known))
        return;
    if (!known) {
        err_set(&e, STATUS_NOT_FOUND, "no such service: this server has firstlight.v1.Inference");
        grpc_fail(x, &e);
        return;
    }
    out.status = status_of(s, true);
    grpc_reply(x, &out.base);
}

static void grpc_health_tell(struct grpc_watch *w)
{
    Grpc__Health__V1__HealthCheckResponse out = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    out.status = w->told = status_of(w->server, w->known);
    grpc_write(w->x, &out.base);
}

static void watch_ended(struct http_exchange *x, bool gone)
{
    struct grpc_watch *w = x->user;
    (void)gone;
    server_state_unwatch(w->server, &w->watch);
    mem_free(w);
}

static void grpc_health_changed(struct server_watch *watch)
{
    struct grpc_watch *w = (struct grpc_watch *)(void *)watch;
    if (w->told != status_of(w->server, w->known))
        grpc_health_tell(w);
}

static void grpc_health_watch(struct server *s, struct http_exchange *x, struct evbuffer *message)
{
    struct err e;
    bool known;
    if (!read_service(x, message, &known))
        return;
    struct grpc_watch *w = mem_zalloc(sizeof *w);
    if (!w) {
        err_set(&e, STATUS_NO_MEMORY, "no memory for the call");
        grpc_fail(x, &e);
        return;
    }
    *w = (struct grpc_watch){
        .watch.changed = grpc_health_changed, .server = s, .x = x, .known = known};
    server_state_watch(s, &w->watch);
    x->user = w;
    x->ended = watch_ended;
    grpc_stream(x);
    grpc_health_tell(w);
}

const struct grpc_route grpc_health_routes[] = {
    {GRPC_HEALTH_CHECK, false, false, grpc_health_check},
    {"/grpc.health.v1.Health/Watch", false, false, grpc_health_watch},
    {0},
};
