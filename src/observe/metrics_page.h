/* GET /metrics: everything the server measures, in Prometheus's text format. I/O thread. */
#ifndef FIRSTLIGHT_OBSERVE_METRICS_PAGE_H
#define FIRSTLIGHT_OBSERVE_METRICS_PAGE_H

#include "base/buf.h"
#include "observe/server_view.h"

void metrics_page(const struct server_view *v, struct buf *out);

#endif
