#include "bench/load/samples.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of the requests, on each side of a percentile's rank. */
#define WINDOW_SHARE 0.01

const char *const samples_part_names[SAMPLES_PARTS] = {
    "receive",     "tokenize",          "submit", "queue", "cache", "prefill", "decode",
    "first write", "network and client"};

static const char *const part_keys[SAMPLES_OUTSIDE] = {"receive_ms", "tokenize_ms",   "submit_ms",
                                                       "queue_ms",   "cache_ms",      "prefill_ms",
                                                       "decode_ms",  "first_write_ms"};

const double samples_marks[SAMPLES_MARKS] = {50, 90, 99};

double samples_number(const json_t *v)
{
    double x = json_is_number(v) ? json_number_value(v) : NAN;
    return fabs(x) <= SERIES_HUGE ? x : NAN;
}

static double samples_field(const json_t *object, const char *key)
{
    return samples_number(json_object_get(object, key));
}

/* All eight parts, none negative; what the client saw beyond them happened outside. An older file
 * has no decode. */
static bool read_parts(struct sample *s, const json_t *ttft)
{
    double sum = 0;
    for (int i = 0; i < SAMPLES_OUTSIDE; i++) {
        double ms = samples_field(ttft, part_keys[i]);
        if (i == SAMPLES_DECODE && isnan(ms))
            ms = 0;
        if (isnan(ms))
            return false;
        s->parts[i] = fmax(ms, 0);
        sum += s->parts[i];
    }
    s->parts[SAMPLES_OUTSIDE] = fmax(s->ttft - sum, 0);
    return !isnan(s->ttft);
}

static void read_gaps(struct samples *out, const json_t *chunks)
{
    double last = NAN;
    size_t i;
    json_t *chunk;
    json_array_foreach((json_t *)chunks, i, chunk)
    {
        double at = samples_number(chunk);
        if (at >= last)
            series_add(&out->itl, at - last);
        last = at;
    }
}

static bool samples_grow(struct samples *s)
{
    if (s->n < s->cap)
        return true;
    size_t cap = s->cap ? s->cap * 2 : 256, bytes;
    struct sample *v = mem_mul(cap, sizeof *v, &bytes) ? mem_resize(s->v, bytes) : NULL;
    if (!v) {
        s->failed = true;
        return false;
    }
    s->v = v;
    s->cap = cap;
    return true;
}

static void read_request(struct samples *out, size_t run, const json_t *request)
{
    const char *state = json_string_value(json_object_get(request, "state"));
    if (!state || !samples_grow(out))
        return;
    struct sample *s = &out->v[out->n++];
    *s = (struct sample){
        .run = run,
        .ok = strcmp(state, "ok") == 0,
        .failed = strcmp(state, "failed") == 0,
        .due = samples_field(request, "due_ms"),
        .sent = samples_field(request, "sent_ms"),
        .first = samples_field(request, "first_ms"),
        .end = samples_field(request, "end_ms"),
        .ttft = NAN,
    };
    out->n_failed += s->failed;
    if (!s->ok)
        return;
    if (s->first >= s->sent)
        s->ttft = s->first - s->sent;
    s->split = read_parts(s, json_object_get(request, "ttft"));
    out->n_split += s->split;
    series_add(&out->ttft, s->ttft);
    read_gaps(out, json_object_get(request, "chunks_ms"));
}

static int samples_compare(const void *a, const void *b)
{
    const struct sample *x = *(const struct sample *const *)a;
    const struct sample *y = *(const struct sample *const *)b;
    if (x->ttft != y->ttft)
        return x->ttft > y->ttft ? 1 : -1;
    return (x > y) - (x < y);
}

static void sort_split(struct samples *s)
{
    if (s->n_split == 0 || s->failed)
        return;
    s->by_ttft = mem_array(s->n_split, sizeof(struct sample *));
    s->failed |= !s->by_ttft;
    for (size_t i = 0, n = 0; s->by_ttft && i < s->n; i++)
        if (s->v[i].split)
            s->by_ttft[n++] = &s->v[i];
    if (s->by_ttft)
        qsort(s->by_ttft, s->n_split, sizeof(struct sample *), samples_compare);
}

static bool is_of_mode(const json_t *run, const char *mode)
{
    const char *own = json_string_value(json_object_get(run, "mode"));
    return !mode || (own && strcmp(own, mode) == 0);
}

/* Of the samples from `begin` on, which are one run's. */
static void samples_add_marks(struct series marks[SAMPLES_MARKS], const struct series *all,
                              size_t begin)
{
    struct series run = {.v = all->n > begin ? all->v + begin : NULL, .n = all->n - begin};
    for (size_t i = 0; i < SAMPLES_MARKS; i++)
        series_add(&marks[i], series_percentile(&run, samples_marks[i]));
}

static void read_run(struct samples *out, const json_t *run)
{
    const json_t *requests = json_object_get(run, "requests");
    size_t first_ttft = out->ttft.n, first_itl = out->itl.n;
    for (size_t i = 0; i < json_array_size(requests); i++)
        read_request(out, out->n_runs, json_array_get(requests, i));
    samples_add_marks(out->ttft_marks, &out->ttft, first_ttft);
    samples_add_marks(out->itl_marks, &out->itl, first_itl);
    out->n_runs++;
}

void samples_read(struct samples *out, const json_t *root, const char *mode)
{
    const json_t *runs = json_object_get(root, "runs");
    *out = (struct samples){0};
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const json_t *run = json_array_get(runs, i);
        if (is_of_mode(run, mode))
            read_run(out, run);
    }
    out->failed |= out->ttft.failed || out->itl.failed;
    for (size_t i = 0; i < SAMPLES_MARKS; i++)
        out->failed |= out->ttft_marks[i].failed || out->itl_marks[i].failed;
    sort_split(out);
}

void samples_fini(struct samples *s)
{
    mem_free(s->v);
    mem_free(s->by_ttft);
    series_fini(&s->ttft);
    series_fini(&s->itl);
    for (size_t i = 0; i < SAMPLES_MARKS; i++) {
        series_fini(&s->ttft_marks[i]);
        series_fini(&s->itl_marks[i]);
    }
    *s = (struct samples){0};
}

size_t samples_window(const struct samples *s)
{
    return 1 + 2 * (size_t)(WINDOW_SHARE * (double)s->n_split);
}

void samples_parts_at(const struct samples *s, double p, double parts[SAMPLES_PARTS])
{
    size_t n = s->by_ttft ? s->n_split : 0, window = samples_window(s), half = window / 2;
    memset(parts, 0, sizeof *parts * SAMPLES_PARTS);
    if (n == 0)
        return;
    size_t rank = (size_t)lround(p / 100 * (double)(n - 1));
    size_t first = rank < half ? 0 : rank - half;
    if (first + window > n)
        first = n - window;
    for (size_t i = first; i < first + window; i++)
        for (int k = 0; k < SAMPLES_PARTS; k++)
            parts[k] += s->by_ttft[i]->parts[k] / (double)window;
}
