/* The page's files, part of the binary: GET / and GET /page/NAME. */
#ifndef FIRSTLIGHT_WEB_ASSETS_H
#define FIRSTLIGHT_WEB_ASSETS_H

#include "http/http.h"

#include <stdbool.h>
#include <stddef.h>

struct asset {
    const char *name; /* "app.js" */
    const char *content_type;
    const char *etag; /* weak: of the content, however it is coded */
    size_t size;
    const char *gzip; /* gzip_size bytes that become `size` */
    size_t gzip_size;
};

const struct asset *assets_at(size_t i); /* sorted by name; NULL past the end */
const struct asset *assets_find(const char *name);

/* Answers with the asset: gzipped if the client takes that, 304 if it has it. Nothing that it holds
 * is a secret, so it needs no key; what it shows comes from routes that do. */
void assets_reply(struct http_exchange *x, const struct asset *a);

/* What the headers of a request say; each may be NULL: absent. */
bool assets_takes_gzip(const char *accept_encoding);
bool assets_has(const char *if_none_match, const char *etag);

#endif
