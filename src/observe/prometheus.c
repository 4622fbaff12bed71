#include "observe/prometheus.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <string.h>

#define MILLION 1000000

void prometheus_family(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Before any other of the label's bytes are looked at, they are made UTF-8. */
static void prometheus_put_escaped(struct buf *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\n')
            buf_puts(out, "\\n");
        else if (text[i] == '"' || text[i] == '\\')
            buf_printf(out, "\\%c", text[i]);
        else
            buf_putc(out, text[i]);
    }
}

void prometheus_label(struct buf *labels, const char *name, const char *value)
{
    struct buf clean = {0};
    utf8_append(&clean, value, strlen(value));
    buf_printf(labels, "%s%s=\"", labels->len > 0 ? "," : "", name);
    prometheus_put_escaped(labels, buf_str(&clean), clean.len);
    buf_putc(labels, '"');
    labels->failed |= clean.failed;
    buf_fini(&clean);
}

static void prometheus_put_name(struct buf *out, const char *name, const char *labels)
{
    buf_puts(out, name);
    if (labels[0])
        buf_printf(out, "{%s}", labels);
    buf_putc(out, ' ');
}

void prometheus_count(struct buf *out, const char *name, const char *labels, uint64_t value)
{
    prometheus_put_name(out, name, labels);
    buf_printf(out, "%" PRIu64 "\n", value);
}

void prometheus_value(struct buf *out, const char *name, const char *labels, double value)
{
    prometheus_put_name(out, name, labels);
    buf_printf(out, "%.10g\n", value);
}

/* bound: its text, or "+Inf" */
static void put_bucket(struct buf *out, const char *name, const char *labels, const char *bound,
                       uint64_t below)
{
    buf_printf(out, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", name, labels, labels[0] ? "," : "",
               bound, below);
}

/* Millionths, exactly. */
static void put_sum(struct buf *out, const char *name, const char *labels, uint64_t sum)
{
    buf_puts(out, name);
    prometheus_put_name(out, "_sum", labels);
    buf_printf(out, "%" PRIu64 ".%06u\n", sum / MILLION, (unsigned)(sum % MILLION));
}

void prometheus_histogram(struct buf *out, const char *name, const char *labels,
                          const struct histogram_view *v)
{
    uint64_t below = 0;
    for (uint32_t i = 0; i < HISTOGRAM_BOUNDS; i++) {
        char bound[24];
        below += v->buckets[i];
        if (i % HISTOGRAM_STEP != 0)
            continue;
        snprintf(bound, sizeof bound, "%g", (double)histogram_bound(i) / MILLION);
        put_bucket(out, name, labels, bound, below);
    }
    put_bucket(out, name, labels, "+Inf", v->count);
    put_sum(out, name, labels, v->sum);
    buf_puts(out, name);
    prometheus_put_name(out, "_count", labels);
    buf_printf(out, "%" PRIu64 "\n", v->count);
}
