/* GET /metrics: everything the server measures, in Prometheus's text format. I/O thread. */
#ifndef FIRSTLIGHT_OBSERVE_METRICS_PAGE_H
#define FIRSTLIGHT_OBSERVE_METRICS_PAGE_H

#include "base/buf.h"
#include "api/server_state.h"

void metrics_page(struct server *s, struct buf *out);

#endif
