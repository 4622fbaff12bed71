#include "api/debug_page.h"

#include <errno.h>
#include <stdlib.h>

enum status debug_page_requests(const struct server *s, const struct http_exchange *x,
                                struct buf *out, struct err *err)
{
    char text[24];
    uint32_t limit = LIMIT_RECENT_REQUESTS;
    if (http_query(x, "limit", text, sizeof text)) {
        char *end;
        errno = 0;
        unsigned long n = strtoul(text, &end, 10);
        if (text[0] < '0' || text[0] > '9' || *end || errno || n == 0)
            return err_param(err, STATUS_INVALID, "limit",
                             "limit: expected a whole number from 1, found \"%s\"", text);
        if (n < limit)
            limit = (uint32_t)n;
    }
    request_log_json(&s->recent, limit, out);
    return STATUS_OK;
}
