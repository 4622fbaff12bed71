/* GET /metrics: everything the server measures, in Prometheus's text format. I/O thread. */
#ifndef FIRSTLIGHT_SERVE_METRICS_PAGE_H
#define FIRSTLIGHT_SERVE_METRICS_PAGE_H

#include "base/buf.h"
#include "serve/internal.h"

void metrics_page(struct server *s, struct buf *out);

#endif
