#include "serve/internal.h"

static void rest_arrived(struct http_exchange *x, bool whole)
{
    if (whole)
        routes_dispatch(x->user, x);
}

void grpc_dispatch(void *server, struct http_exchange *x)
{
    x->user = server;
    x->arrived = rest_arrived;
}
