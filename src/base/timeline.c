#include "base/timeline.h"

#include "base/clock.h"

void timeline_stamp(struct timeline *t, enum timeline_stage stage)
{
    if (t->at_us[stage] == 0)
        t->at_us[stage] = clock_now_us();
}

struct timeline_ttft timeline_ttft(const struct timeline *t)
{
    int64_t at[TIMELINE_FIRST_CONTENT + 1];
    int64_t later = t->at_us[TIMELINE_FIRST_CONTENT];
    for (int i = TIMELINE_FIRST_CONTENT; i >= 0; i--) {
        if (t->at_us[i] != 0)
            later = t->at_us[i];
        at[i] = later;
    }
    if (t->at_us[TIMELINE_DECODED] == 0)
        at[TIMELINE_DECODED] = at[TIMELINE_FIRST_TOKEN];
    return (struct timeline_ttft){
        .receive_us = at[TIMELINE_PARSED] - at[TIMELINE_RECEIVED],
        .tokenize_us = at[TIMELINE_TOKENIZED] - at[TIMELINE_PARSED],
        .submit_us = at[TIMELINE_QUEUED] - at[TIMELINE_TOKENIZED],
        .queue_us = at[TIMELINE_ADMITTED] - at[TIMELINE_QUEUED],
        .cache_us = at[TIMELINE_PREFILL_STARTED] - at[TIMELINE_ADMITTED],
        .prefill_us = at[TIMELINE_FIRST_TOKEN] - at[TIMELINE_PREFILL_STARTED],
        .decode_us = at[TIMELINE_DECODED] - at[TIMELINE_FIRST_TOKEN],
        .first_write_us = at[TIMELINE_FIRST_CONTENT] - at[TIMELINE_DECODED],
        .total_us = at[TIMELINE_FIRST_CONTENT] - at[TIMELINE_RECEIVED],
    };
}
