/* A timeline's parts of TTFT as JSON: in answers, in the log of requests. */
#ifndef FIRSTLIGHT_OBSERVE_TIMELINE_JSON_H
#define FIRSTLIGHT_OBSERVE_TIMELINE_JSON_H

#include "base/buf.h"
#include "base/timeline.h"

/* ,"ttft":{...}: the parts, in ms. */
void timeline_json_ttft(struct buf *out, const struct timeline *t);

#endif
