/* Percentiles of the last minute, without asking more of who fills the histograms: a view of each
 * is kept every few seconds, and the oldest one is subtracted from what they hold at the moment.
 *
 *     |-------- at most LIMIT_LIVE_WINDOW_SECONDS --------|
 *     sample . sample . sample . ... . sample . sample . now
 *
 * Memory of the live stream, so only while somebody listens. I/O thread.
 */
#ifndef FIRSTLIGHT_OBSERVE_EVENT_WINDOW_H
#define FIRSTLIGHT_OBSERVE_EVENT_WINDOW_H

#include "base/limits.h"
#include "observe/metrics.h"
#include "observe/request_log.h"

/* The parts of TTFT as metrics.h has them, then: */
enum event_window_view {
    EVENT_WINDOW_TTFT = METRICS_PARTS,
    EVENT_WINDOW_ITL,
    EVENT_WINDOW_STEP,
    EVENT_WINDOW_VIEWS
};

#define EVENT_WINDOW_EVERY_S 5
#define EVENT_WINDOW_SAMPLES (LIMIT_LIVE_WINDOW_SECONDS / EVENT_WINDOW_EVERY_S + 1)

struct event_window {
    struct event_window_sample {
        int64_t at_us;
        struct histogram_view views[EVENT_WINDOW_VIEWS];
    } samples[EVENT_WINDOW_SAMPLES];
    uint32_t n; /* ever taken */
};

/* Before the first look: samples as they would have been, from the requests that are remembered. Of
 * TTFT and its parts; for all else the window begins with the first look. */
void event_window_seed(struct event_window *w, int64_t now_us,
                       const struct histogram_view views[EVENT_WINDOW_VIEWS],
                       const struct request_log *r);

/* Turns views of this moment into views of the window, whose length in us is the answer: it grows
 * from 0 with the first look, or from what the seed reaches back. */
int64_t event_window_slide(struct event_window *w, int64_t now_us,
                           struct histogram_view views[EVENT_WINDOW_VIEWS]);

#endif
