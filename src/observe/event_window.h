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
enum live_view { LIVE_TTFT = METRICS_PARTS, LIVE_ITL, LIVE_STEP, LIVE_VIEWS };

#define LIVE_WINDOW_EVERY_S 5
#define LIVE_WINDOW_SAMPLES (LIMIT_LIVE_WINDOW_SECONDS / LIVE_WINDOW_EVERY_S + 1)

struct live_window {
    struct live_sample {
        int64_t at_us;
        struct histogram_view views[LIVE_VIEWS];
    } samples[LIVE_WINDOW_SAMPLES];
    uint32_t n; /* ever taken */
};

/* Before the first look: samples as they would have been, from the requests that are remembered. Of
 * TTFT and its parts; for all else the window begins with the first look. */
void live_window_seed(struct live_window *w, int64_t now_us,
                      const struct histogram_view views[LIVE_VIEWS], const struct recent *r);

/* Turns views of this moment into views of the window, whose length in us is the answer: it grows
 * from 0 with the first look, or from what the seed reaches back. */
int64_t live_window_slide(struct live_window *w, int64_t now_us,
                          struct histogram_view views[LIVE_VIEWS]);

#endif
