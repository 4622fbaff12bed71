/* The text exposition format of Prometheus, version 0.0.4, into a buf.
 *
 * A family is named once, with its help and type, and its samples follow at once. Labels are text
 * as it stands between the braces, `a="b",c="d"`, made with prometheus_label; "" for none.
 */
#ifndef FIRSTLIGHT_OBSERVE_PROMETHEUS_H
#define FIRSTLIGHT_OBSERVE_PROMETHEUS_H

#include "base/buf.h"
#include "base/histogram.h"

#include <stdint.h>

#define PROMETHEUS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* type: "counter", "gauge", "histogram" */
void prometheus_family(struct buf *out, const char *name, const char *type, const char *help);
/* Appends name="value" to a list of labels, the value escaped; bytes that are no UTF-8 become
 * U+FFFD. */
void prometheus_label(struct buf *labels, const char *name, const char *value);

void prometheus_count(struct buf *out, const char *name, const char *labels, uint64_t value);
void prometheus_value(struct buf *out, const char *name, const char *labels, double value);
/* Buckets, sum and count of values in millionths; every HISTOGRAM_STEP-th bound. */
void prometheus_histogram(struct buf *out, const char *name, const char *labels,
                          const struct histogram_view *v);

#endif
