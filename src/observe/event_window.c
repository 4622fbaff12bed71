#include "observe/event_window.h"

#include <string.h>

#define SECOND_US INT64_C(1000000)
#define EVERY_US  (EVENT_WINDOW_EVERY_S * SECOND_US)

static struct event_window_sample *sample_at(struct event_window *w, uint32_t i)
{
    return &w->samples[i % EVENT_WINDOW_SAMPLES];
}

static void event_window_take(struct event_window *w, int64_t now_us,
                              const struct histogram_view views[EVENT_WINDOW_VIEWS])
{
    struct event_window_sample *s = sample_at(w, w->n++);
    s->at_us = now_us;
    memcpy(s->views, views, sizeof s->views);
}

/* --- the past ------------------------------------------------------------------------------- */

/* When its TTFT was counted; 0: never. */
static int64_t first_us(const struct request_log_entry *q)
{
    return q->timeline.at_us[q->streamed ? TIMELINE_FIRST_CONTENT : TIMELINE_FIRST_TOKEN];
}

/* Adds those whose TTFT was counted after `from`, until `to`. */
static void add_between(struct histogram h[EVENT_WINDOW_TTFT + 1], const struct request_log *r,
                        int64_t from, int64_t to)
{
    uint64_t n = r->n < LIMIT_RECENT_REQUESTS ? r->n : LIMIT_RECENT_REQUESTS;
    for (uint64_t i = 0; i < n; i++) {
        const struct request_log_entry *q = &r->requests[i];
        int64_t us[METRICS_TTFT + 1];
        if (first_us(q) <= from || first_us(q) > to)
            continue;
        metrics_parts(&q->timeline, q->streamed, us);
        for (int k = 0; k <= EVENT_WINDOW_TTFT; k++)
            histogram_add(&h[k], us[k], 1);
    }
}

/* Every request that ended since then is remembered. */
static int64_t reach_us(const struct request_log *r)
{
    if (r->n < LIMIT_RECENT_REQUESTS)
        return 0;
    return r->requests[r->n % LIMIT_RECENT_REQUESTS].added_us; /* the oldest */
}

/* A sample is what is now, less what came after it. If what is remembered of a request differs from
 * what was counted, the later subtraction undoes this one all the same, modulo 2^64. */
void event_window_seed(struct event_window *w, int64_t now_us,
                       const struct histogram_view views[EVENT_WINDOW_VIEWS],
                       const struct request_log *r)
{
    struct histogram after[EVENT_WINDOW_TTFT + 1] = {0};
    uint32_t n = EVENT_WINDOW_SAMPLES - 1;
    while (n > 0 && now_us - n * EVERY_US < reach_us(r))
        n--;
    for (uint32_t i = n; i-- > 0;) {
        struct event_window_sample *s = sample_at(w, i);
        s->at_us = now_us - (n - i) * EVERY_US;
        add_between(after, r, s->at_us, s->at_us + EVERY_US);
        memcpy(s->views, views, sizeof s->views);
        for (int k = 0; k <= EVENT_WINDOW_TTFT; k++) {
            struct histogram_view v;
            histogram_read(&after[k], &v);
            histogram_subtract(&s->views[k], &v);
        }
    }
    w->n = n;
}

/* --- the window ----------------------------------------------------------------------------- */

/* The oldest that is within the window. */
static const struct event_window_sample *oldest(struct event_window *w, int64_t now_us)
{
    uint32_t i = w->n < EVENT_WINDOW_SAMPLES ? 0 : w->n - EVENT_WINDOW_SAMPLES;
    while (i + 1 < w->n && now_us - sample_at(w, i)->at_us > LIMIT_LIVE_WINDOW_SECONDS * SECOND_US)
        i++;
    return sample_at(w, i);
}

int64_t event_window_slide(struct event_window *w, int64_t now_us,
                           struct histogram_view views[EVENT_WINDOW_VIEWS])
{
    if (w->n == 0 || now_us - sample_at(w, w->n - 1)->at_us >= EVERY_US)
        event_window_take(w, now_us, views);
    const struct event_window_sample *since = oldest(w, now_us);
    for (int i = 0; i < EVENT_WINDOW_VIEWS; i++)
        histogram_subtract(&views[i], &since->views[i]);
    return now_us - since->at_us;
}
