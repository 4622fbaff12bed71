/* All figures that the server shows: a table with a row for each, and the loops over it.
 *
 *     counters, histograms ─► struct server_view ─► rows ─┬► GET /metrics
 *                                                         ├► GET /health
 *                                                         ├► GET /v1/debug/stats
 *                                                         └► `stats` of GET /v1/debug/stream
 *
 * A new figure is a row of measurements.c, which says where it is shown. I/O thread.
 */
#ifndef FIRSTLIGHT_OBSERVE_MEASUREMENTS_H
#define FIRSTLIGHT_OBSERVE_MEASUREMENTS_H

#include "base/buf.h"
#include "observe/event_window.h"
#include "observe/server_view.h"

/* The answers in JSON that have figures. */
enum measurements_page {
    MEASUREMENTS_HEALTH,
    MEASUREMENTS_DEBUG, /* GET /v1/debug/stats: percentiles since the start */
    MEASUREMENTS_LIVE,  /* of the stream: percentiles of its window, if the view has one */
    MEASUREMENTS_PAGES,
};

/* Everything in Prometheus's text format. */
void measurements_prometheus(struct buf *out, const struct server_view *v);
/* Appends a page's fields, each behind a comma. */
void measurements_json(struct buf *out, enum measurements_page page, const struct server_view *v);
/* What the histograms of the live stream hold at the moment. */
void measurements_views(const struct server_view *v, struct histogram_view out[EVENT_WINDOW_VIEWS]);

#endif
