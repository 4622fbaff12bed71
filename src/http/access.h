/* Who may ask through a browser: the origins of pages, and the names that the server answers to.
 *
 * A browser sends requests for any page that its user visits, also to a server on the user's own
 * machine. It says in `Origin` which page asked. An origin is taken when it is the server's own
 * page (it names the host and port that the request was sent to), when it is on a loopback address
 * (another program of this machine), or when --cors-origin lists it.
 *
 * The own page is known by `Host`. A foreign page can make that its own name too, by pointing the
 * name at this machine once it was loaded (DNS rebinding). So a server that asks for no key and
 * listens on a loopback address takes only hosts that no such page can have: localhost, literal
 * addresses, the name of --host, and what --allowed-host lists.
 *
 * Everything here is a function of its arguments. Any thread.
 */
#ifndef FIRSTLIGHT_HTTP_ACCESS_H
#define FIRSTLIGHT_HTTP_ACCESS_H

#include "base/err.h"
#include "base/limits.h"

#include <stdbool.h>
#include <stdint.h>

/* "localhost", "127.0.0.1:8080", "[::1]:8080". The name is in lower case, without the dot that may
 * end it; of an IPv6 literal it is the shortest spelling, without brackets. */
struct access_host {
    char name[LIMIT_HOST_BYTES + 1];
    uint32_t port; /* 0: none was named */
    bool literal;  /* an IPv4 or IPv6 address */
    bool loopback; /* localhost, or a literal address of this machine's loopback network */
};

/* "https://chat.example.com:8443". */
struct access_origin {
    char scheme[32];
    struct access_host host; /* its port is the scheme's where none was named and it has one */
};

/* Zeroed: the defaults, for a server whose hosts are not checked. */
struct access {
    struct access_origin origins[LIMIT_CORS_ORIGINS];
    uint32_t n_origins;
    bool any_origin; /* "*" was listed */
    struct access_host hosts[LIMIT_ALLOWED_HOSTS];
    uint32_t n_hosts;
    struct access_host own; /* the value of --host */
    bool checks_host;
};

/* False: the text is no host with an optional port. */
bool access_parse_host(const char *text, size_t len, struct access_host *out);
bool access_parse_origin(const char *text, size_t len, struct access_origin *out);

/* Adds a comma list: of --cors-origin ("*" among them: every origin), of --allowed-host (names or
 * literal addresses, without ports). STATUS_INVALID names the flag and the entry at fault. */
enum status access_add_origins(struct access *a, const char *list, struct err *err);
enum status access_add_hosts(struct access *a, const char *list, struct err *err);

/* May a request with these header values (NULL: absent) be answered? STATUS_FORBIDDEN says which
 * flag would allow it; err->param is "Origin" or "Host". */
enum status access_check(const struct access *a, const char *origin, const char *host,
                         struct err *err);

#endif
