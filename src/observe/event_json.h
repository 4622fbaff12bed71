/* The JSON of the live stream's events. */
#ifndef FIRSTLIGHT_OBSERVE_EVENT_JSON_H
#define FIRSTLIGHT_OBSERVE_EVENT_JSON_H

#include "base/buf.h"
#include "observe/event_window.h"
#include "observe/server_view.h"

void event_json_put_server(struct buf *out, const struct server_view *v);
void event_json_put_stats(struct buf *out, const struct server_view *v,
                          struct event_window *window);
/* n wait in all; at most LIMIT_LIVE_REQUESTS of them are in w. */
void event_json_put_waiting(struct buf *out, const struct server_view_waiting *w, uint32_t n);

#endif
