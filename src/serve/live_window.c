#include "serve/live_window.h"

#include <string.h>

#define SECOND_US INT64_C(1000000)
#define EVERY_US  (LIVE_WINDOW_EVERY_S * SECOND_US)

static struct live_sample *sample_at(struct live_window *w, uint32_t i)
{
    return &w->samples[i % LIVE_WINDOW_SAMPLES];
}

static void take(struct live_window *w, int64_t now_us,
                 const struct histogram_view views[LIVE_VIEWS])
{
    struct live_sample *s = sample_at(w, w->n++);
    s->at_us = now_us;
    memcpy(s->views, views, sizeof s->views);
}

/* The oldest that is within the window. */
static const struct live_sample *oldest(struct live_window *w, int64_t now_us)
{
    uint32_t i = w->n < LIVE_WINDOW_SAMPLES ? 0 : w->n - LIVE_WINDOW_SAMPLES;
    while (i + 1 < w->n && now_us - sample_at(w, i)->at_us > LIMIT_LIVE_WINDOW_SECONDS * SECOND_US)
        i++;
    return sample_at(w, i);
}

int64_t live_window_slide(struct live_window *w, int64_t now_us,
                          struct histogram_view views[LIVE_VIEWS])
{
    if (w->n == 0 || now_us - sample_at(w, w->n - 1)->at_us >= EVERY_US)
        take(w, now_us, views);
    const struct live_sample *since = oldest(w, now_us);
    for (int i = 0; i < LIVE_VIEWS; i++)
        histogram_subtract(&views[i], &since->views[i]);
    return now_us - since->at_us;
}
