#define ZLIB_CONST /* what is inflated is const */
#include "web/assets.h"

#include "base/limits.h"
#include "base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

/* tools/embed-page makes the list and the gzipped files; the Makefile makes this file depend on
 * both. Paths are relative to where make runs. */
#define ASSET(i, name, type, hash, size, gzip_size, path)                                          \
    __asm__(".section .rodata\n"                                                                   \
            "assets_" #i ": .incbin \"" path "\"\n"                                                \
            ".previous\n");                                                                        \
    extern const char assets_##i[] __attribute__((visibility("hidden")));
#include <page/assets.inc>
#undef ASSET

static const struct asset all[] = {
#define ASSET(i, name, type, hash, size, gzip_size, path)                                          \
    {name, type, "W/\"" hash "\"", size, assets_##i, gzip_size},
#include <page/assets.inc>
#undef ASSET
};
#define COUNT (sizeof all / sizeof *all)

enum {
    PAGE_BYTES = 0
#define ASSET(i, name, type, hash, size, gzip_size, path) +(gzip_size)
#include <page/assets.inc>
#undef ASSET
};
_Static_assert(PAGE_BYTES <= LIMIT_PAGE_BYTES, "the page is too large: see LIMIT_PAGE_BYTES");

const struct asset *assets_at(size_t i)
{
    return i < COUNT ? &all[i] : NULL;
}

const struct asset *assets_find(const char *name)
{
    for (size_t i = 0; i < COUNT; i++)
        if (strcmp(all[i].name, name) == 0)
            return &all[i];
    return NULL;
}

/* --- what the request says ------------------------------------------------------------------ */

static bool assets_is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* The next element of a comma-separated list, without the blanks around it; NULL at its end. */
static const char *next_element(const char **at, size_t *len)
{
    const char *s = *at;
    while (assets_is_space(*s) || *s == ',')
        s++;
    if (*s == '\0')
        return NULL;
    size_t n = strcspn(s, ",");
    *at = s + n;
    while (n > 0 && assets_is_space(s[n - 1]))
        n--;
    *len = n;
    return s;
}

/* Its weight (RFC 9110, 12.4.2) is 0: not that one. */
static bool assets_is_refused(const char *element, size_t len)
{
    const char *parameters = memchr(element, ';', len);
    if (!parameters)
        return false;
    const char *end = element + len, *q = parameters + 1;
    while (q < end && assets_is_space(*q))
        q++;
    if (end - q < 3 || (*q != 'q' && *q != 'Q') || q[1] != '=' || q[2] != '0')
        return false;
    for (q += 3; q < end; q++)
        if (*q != '.' && *q != '0')
            return false;
    return true;
}

bool assets_takes_gzip(const char *accept_encoding)
{
    const char *at = accept_encoding ? accept_encoding : "", *element;
    bool any = false;
    size_t len;
    while ((element = next_element(&at, &len))) {
        size_t name = 0;
        while (name < len && element[name] != ';' && !assets_is_space(element[name]))
            name++;
        if ((name == 4 && strncasecmp(element, "gzip", 4) == 0) ||
            (name == 6 && strncasecmp(element, "x-gzip", 6) == 0))
            return !assets_is_refused(element, len);
        if (name == 1 && *element == '*')
            any = !assets_is_refused(element, len);
    }
    return any;
}

/* The comparison is the weak one (RFC 9110, 13.1.2): what comes before the quotes does not count.
 */
bool assets_has(const char *if_none_match, const char *etag)
{
    const char *at = if_none_match ? if_none_match : "", *element;
    const char *opaque = strchr(etag, '"');
    size_t len;
    while ((element = next_element(&at, &len))) {
        if (len == 1 && *element == '*')
            return true;
        if (len > 2 && strncmp(element, "W/", 2) == 0) {
            element += 2;
            len -= 2;
        }
        if (len == strlen(opaque) && memcmp(element, opaque, len) == 0)
            return true;
    }
    return false;
}

/* --- the answer ----------------------------------------------------------------------------- */

/* Nothing from elsewhere, no script or style in the markup, no eval, not in another's frame. */
static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static void add_headers(struct http_exchange *x, const struct asset *a)
{
    http_add_header(x, "ETag", a->etag);
    http_add_header(x, "Cache-Control", "no-cache");
    http_add_header(x, "Vary", "Accept-Encoding");
    http_add_header(x, "Content-Security-Policy", policy);
    http_add_header(x, "X-Content-Type-Options", "nosniff");
    http_add_header(x, "Referrer-Policy", "no-referrer");
}

/* For the few clients that do not take gzip. */
static bool inflate_all(const struct asset *a, char *out)
{
    z_stream z = {.next_in = (const Bytef *)a->gzip,
                  .avail_in = (uInt)a->gzip_size,
                  .next_out = (Bytef *)out,
                  .avail_out = (uInt)a->size};
    if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK) /* 16: with gzip's header */
        return false;
    bool whole = inflate(&z, Z_FINISH) == Z_STREAM_END && z.total_out == a->size;
    inflateEnd(&z);
    return whole;
}

static void reply_plain(struct http_exchange *x, const struct asset *a)
{
    struct err e;
    char *bytes = mem_alloc(a->size + 1);
    if (bytes && inflate_all(a, bytes)) {
        add_headers(x, a);
        http_reply(x, 200, a->content_type, bytes, a->size);
    } else {
        err_set(&e, STATUS_NO_MEMORY, "no memory for %s", a->name);
        http_fail(x, &e, NULL);
    }
    mem_free(bytes);
}

void assets_reply(struct http_exchange *x, const struct asset *a)
{
    struct err e;
    if (!http_has_room(x, a->size)) { /* before the headers are its own */
        http_no_room_to_send(x, &e);
        http_fail(x, &e, "unsent_memory");
    } else if (assets_has(http_header(x, "If-None-Match"), a->etag)) {
        add_headers(x, a);
        http_reply(x, 304, NULL, NULL, 0);
    } else if (assets_takes_gzip(http_header(x, "Accept-Encoding"))) {
        add_headers(x, a);
        http_add_header(x, "Content-Encoding", "gzip");
        http_reply(x, 200, a->content_type, a->gzip, a->gzip_size);
    } else {
        reply_plain(x, a);
    }
}
