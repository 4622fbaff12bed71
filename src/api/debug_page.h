/* What lets an operator see where requests' time goes, behind the key. I/O thread. */
#ifndef FIRSTLIGHT_API_DEBUG_PAGE_H
#define FIRSTLIGHT_API_DEBUG_PAGE_H

#include "api/server_state.h"
#include "base/buf.h"
#include "base/err.h"

/* GET /v1/debug/requests?limit=N. */
enum status debug_page_requests(const struct server *s, const struct http_exchange *x,
                                struct buf *out, struct err *err);

#endif
