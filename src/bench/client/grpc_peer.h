/* The server at the other end, over gRPC: where it is, and the key for it. */
#ifndef FIRSTLIGHT_BENCH_CLIENT_GRPC_PEER_H
#define FIRSTLIGHT_BENCH_CLIENT_GRPC_PEER_H

#include "base/err.h"
#include "bench/client/api_key.h"

#include <netdb.h>
#include <stdint.h>

struct grpc_peer {
    char *base;      /* "grpc://host:port", no slash at its end */
    char *authority; /* "host:port" */
    struct api_key key;
    char authorization[sizeof(struct api_key) + 8]; /* "Bearer KEY"; "": no key */
    struct addrinfo *addresses;                     /* of the host, in the order to be tried */
    const struct addrinfo *address;                 /* the one that is used */
    uint32_t timeout_seconds;                       /* for one request as a whole */
};

/* *p is to be released by grpc_peer_fini either way. Looks the host up. Errors name --url and
 * --api-key-file; none of them holds the key. */
enum status grpc_peer_init(struct grpc_peer *p, const char *url, const char *api_key_file,
                           uint32_t timeout_seconds, struct err *err);
void grpc_peer_fini(struct grpc_peer *p);

#endif
