/* How many bytes the sockets of libcurl have received, by the kernel's count: it includes what
 * libcurl strips (heads, chunk sizes) and TLS. Costs nothing while they receive.
 *
 * One thread. Stays where it is while a handle may call it.
 */
#ifndef FIRSTLIGHT_BENCH_CLIENT_NET_BYTES_H
#define FIRSTLIGHT_BENCH_CLIENT_NET_BYTES_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

struct net_bytes {
    bool *open; /* (n) by file descriptor */
    int n;
    uint64_t closed_received; /* by sockets that are no more */
};

/* Its transfers' sockets are counted from here on. False: libcurl refuses. */
bool net_bytes_watch(struct net_bytes *w, CURL *easy);
uint64_t net_bytes_received(const struct net_bytes *w);
void net_bytes_fini(struct net_bytes *w);

#endif
