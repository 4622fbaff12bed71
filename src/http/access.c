#include "http/access.h"

#include <arpa/inet.h>
#include <string.h>

#define PORT_DIGITS 5
#define PORT_MOST   65535

/* Hosts */

static bool access_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

static bool is_name_char(char c)
{
    return access_is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') || c == '.' || c == '-' ||
           c == '_';
}

/* ":8080", ":" or nothing. */
static bool parse_port(const char *text, size_t len, uint32_t *out)
{
    *out = 0;
    if (len == 0)
        return true;
    if (text[0] != ':' || len > 1 + PORT_DIGITS)
        return false;
    for (size_t i = 1; i < len; i++) {
        if (!access_is_digit(text[i]))
            return false;
        *out = *out * 10 + (uint32_t)(text[i] - '0');
    }
    return *out <= PORT_MOST && (*out > 0 || len == 1);
}

static bool is_loopback_v6(const struct in6_addr *a)
{
    return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
}

/* What stands between the brackets. */
static bool parse_v6(const char *text, size_t len, struct access_host *out)
{
    struct in6_addr address;
    char copy[INET6_ADDRSTRLEN];
    if (len >= sizeof copy)
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    if (inet_pton(AF_INET6, copy, &address) != 1 ||
        !inet_ntop(AF_INET6, &address, out->name, sizeof out->name))
        return false;
    out->literal = true;
    out->loopback = is_loopback_v6(&address);
    return true;
}

static bool access_parse_name(const char *text, size_t len, struct access_host *out)
{
    struct in_addr address;
    if (len > 0 && text[len - 1] == '.')
        len--;
    if (len == 0 || len > LIMIT_HOST_BYTES)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!is_name_char(text[i]))
            return false;
        out->name[i] = lower(text[i]);
    }
    out->name[len] = '\0';
    out->literal = inet_pton(AF_INET, out->name, &address) == 1;
    out->loopback = out->literal ? ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET
                                 : strcmp(out->name, "localhost") == 0;
    return true;
}

bool access_parse_host(const char *text, size_t len, struct access_host *out)
{
    const char *end;
    size_t n;
    bool bracket = len > 0 && text[0] == '[';
    *out = (struct access_host){0};
    if (bracket) {
        end = memchr(text, ']', len);
        n = end ? (size_t)(end - text) + 1 : 0;
        return end && parse_v6(text + 1, n - 2, out) && parse_port(text + n, len - n, &out->port);
    }
    end = memchr(text, ':', len);
    n = end ? (size_t)(end - text) : len;
    return access_parse_name(text, n, out) && parse_port(text + n, len - n, &out->port);
}

/* Origins */

/* The port that a URL of the scheme has when it names none; 0: not known. */
static uint32_t default_port(const char *scheme)
{
    return strcmp(scheme, "http") == 0 ? 80 : strcmp(scheme, "https") == 0 ? 443 : 0;
}

/* RFC 3986, 3.1; the first character of a scheme is a letter, but nothing here depends on it. */
static bool parse_scheme(const char *text, size_t len, char *out, size_t out_size)
{
    if (len == 0 || len >= out_size)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!is_name_char(text[i]) && text[i] != '+')
            return false;
        out[i] = lower(text[i]);
    }
    out[len] = '\0';
    return true;
}

bool access_parse_origin(const char *text, size_t len, struct access_origin *out)
{
    const char *colon = memchr(text, ':', len);
    size_t n = colon ? (size_t)(colon - text) : 0;
    *out = (struct access_origin){0};
    if (!colon || len - n < 3 || memcmp(colon, "://", 3) != 0 ||
        !parse_scheme(text, n, out->scheme, sizeof out->scheme) ||
        !access_parse_host(colon + 3, len - n - 3, &out->host))
        return false;
    if (out->host.port == 0)
        out->host.port = default_port(out->scheme);
    return true;
}

/* Lists */

typedef enum status add_entry(struct access *a, const char *text, size_t len, struct err *err);

static enum status add_all(struct access *a, const char *list, add_entry *add, struct err *err)
{
    for (;;) {
        size_t before = strspn(list, " ");
        size_t len = strcspn(list + before, ",");
        const char *text = list + before;
        const char *next = text + len;
        while (len > 0 && text[len - 1] == ' ')
            len--;
        enum status st = add(a, text, len, err);
        if (st || *next == '\0')
            return st;
        list = next + 1;
    }
}

static enum status add_origin(struct access *a, const char *text, size_t len, struct err *err)
{
    if (len == 1 && text[0] == '*') {
        a->any_origin = true;
        return STATUS_OK;
    }
    if (a->n_origins == LIMIT_CORS_ORIGINS)
        return err_param(err, STATUS_INVALID, "--cors-origin", "--cors-origin: at most %d origins",
                         LIMIT_CORS_ORIGINS);
    if (!access_parse_origin(text, len, &a->origins[a->n_origins]))
        return err_param(err, STATUS_INVALID, "--cors-origin",
                         "--cors-origin: must be * or scheme://host[:port] without a path, such as "
                         "https://chat.example.com, found \"%.*s\"",
                         (int)len, text);
    a->n_origins++;
    return STATUS_OK;
}

enum status access_add_origins(struct access *a, const char *list, struct err *err)
{
    return add_all(a, list, add_origin, err);
}

static enum status add_host(struct access *a, const char *text, size_t len, struct err *err)
{
    if (a->n_hosts == LIMIT_ALLOWED_HOSTS)
        return err_param(err, STATUS_INVALID, "--allowed-host", "--allowed-host: at most %d hosts",
                         LIMIT_ALLOWED_HOSTS);
    struct access_host *h = &a->hosts[a->n_hosts];
    if (!access_parse_host(text, len, h) || h->port != 0)
        return err_param(err, STATUS_INVALID, "--allowed-host",
                         "--allowed-host: must be a name such as chat.example.com, without a "
                         "scheme and a port, found \"%.*s\"",
                         (int)len, text);
    a->n_hosts++;
    return STATUS_OK;
}

enum status access_add_hosts(struct access *a, const char *list, struct err *err)
{
    return add_all(a, list, add_host, err);
}

/* The decision */

static bool host_allowed(const struct access *a, const char *text)
{
    struct access_host h;
    if (!access_parse_host(text, strlen(text), &h))
        return false;
    if (h.literal || h.loopback)
        return true; /* no name: nobody's DNS led the browser here */
    for (uint32_t i = 0; i < a->n_hosts; i++)
        if (strcmp(a->hosts[i].name, h.name) == 0)
            return true;
    return strcmp(a->own.name, h.name) == 0;
}

/* Was the page that asks loaded from where it asks? A host without a port has the scheme's. */
static bool own_page(const struct access_origin *o, const char *host)
{
    struct access_host h;
    if (!host || !access_parse_host(host, strlen(host), &h) || strcmp(o->host.name, h.name) != 0)
        return false;
    return o->host.port == (h.port ? h.port : default_port(o->scheme));
}

static bool origin_allowed(const struct access *a, const char *text, const char *host)
{
    struct access_origin o;
    if (a->any_origin)
        return true;
    if (!access_parse_origin(text, strlen(text), &o))
        return false;
    if (default_port(o.scheme) != 0 && (o.host.loopback || own_page(&o, host)))
        return true;
    for (uint32_t i = 0; i < a->n_origins; i++)
        if (strcmp(a->origins[i].scheme, o.scheme) == 0 &&
            strcmp(a->origins[i].host.name, o.host.name) == 0 &&
            a->origins[i].host.port == o.host.port)
            return true;
    return false;
}

enum status access_check(const struct access *a, const char *origin, const char *host,
                         struct err *err)
{
    /* A request without a host comes from no browser: those always send one. */
    if (a->checks_host && host && *host && !host_allowed(a, host))
        return err_param(err, STATUS_FORBIDDEN, "Host",
                         "Host: \"%.100s\" is no name of this server, which asks for no key and so "
                         "answers only to localhost and literal addresses: start it with "
                         "--allowed-host NAME to allow another name",
                         host);
    if (origin && !origin_allowed(a, origin, host))
        return err_param(err, STATUS_FORBIDDEN, "Origin",
                         "Origin: pages of \"%.100s\" may not use this server: start it with "
                         "--cors-origin ORIGIN to allow them",
                         origin);
    return STATUS_OK;
}
