#include "bench/report/figures_internal.h"

#include "base/err.h"
#include "base/mem.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

char figures_letter(size_t file)
{
    return (char)('A' + file);
}

unsigned figures_colour(size_t file)
{
    static const unsigned colours[SVG_COLOURS] = {0, 4, 2, 3, 1, 5, 7, 6};
    return colours[file % SVG_COLOURS];
}

bool figures_repeat(const struct figures_file *files, size_t n)
{
    const char *name;
    json_t *metric;
    for (size_t i = 0; i < n; i++) {
        json_object_foreach(json_object_get(files[i].root, "metrics"), name, metric)
        {
            (void)name;
            if (json_array_size(json_object_get(metric, "repeats")) > 1)
                return true;
        }
    }
    return false;
}

const char *figures_title(char out[128], const char *title, const struct figures_source *source)
{
    snprintf(out, 128, "%s%s%.70s", source->label, *source->label ? ": " : "", title);
    return out;
}

static bool id_is_taken(const struct figures *f, const char *id)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->list[i]->id, id) == 0)
            return true;
    return false;
}

/* What comes from a file names no other folder and no device. */
static void make_id(const struct figures *f, char out[80], const char *label, const char *id)
{
    char safe[72];
    size_t n = (size_t)snprintf(safe, sizeof safe, "%.20s%s%.48s", label, *label ? "-" : "",
                                *id ? id : "chart");
    for (size_t i = 0; i < n; i++) {
        char c = safe[i];
        bool lower = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        safe[i] = lower ? c : c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : '-';
    }
    snprintf(out, 80, "%s", safe);
    for (size_t i = 2; id_is_taken(f, out); i++)
        snprintf(out, 80, "%.70s-%zu", safe, i);
}

struct figure *figures_add(struct figures *f, enum figures_section section, const char *id,
                           const struct figures_source *source)
{
    struct figure *figure = f->failed ? NULL : mem_zalloc(sizeof *figure);
    if (figure && f->n == f->cap) {
        size_t cap = f->cap ? f->cap * 2 : 16;
        struct figure **list = mem_resize(f->list, cap * sizeof *list);
        if (list) {
            f->list = list;
            f->cap = cap;
        } else {
            mem_free(figure);
            figure = NULL;
        }
    }
    if (!figure) {
        f->failed = true;
        return NULL;
    }
    figure->section = section;
    make_id(f, figure->id, source ? source->label : "", id);
    f->list[f->n++] = figure;
    return figure;
}

void figures_same_scales(struct figures *f, size_t from)
{
    struct svg_chart *charts[FIGURES_SOURCES] = {0};
    size_t n = 0;
    for (size_t i = from; i < f->n && n < FIGURES_SOURCES; i++)
        charts[n++] = &f->list[i]->chart;
    svg_same_scales(charts, n);
    if (n > 1)
        f->list[from]->begins_row = true;
}

/* Distinct modes of the file's runs, at most LIMIT_REPORT_MODES. */
static size_t find_modes(const json_t *root, const char *modes[LIMIT_REPORT_MODES])
{
    const json_t *runs = json_object_get(root, "runs");
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const char *mode = json_string_value(json_object_get(json_array_get(runs, i), "mode"));
        size_t k = 0;
        while (mode && k < n && strcmp(modes[k], mode) != 0)
            k++;
        if (mode && k == n && n < LIMIT_REPORT_MODES)
            modes[n++] = mode;
    }
    return n;
}

/* Files have their letters' colours, modes of a single file the same ones in turn. */
static void open_source(struct figures_source *s, const json_t *root, const char *mode, size_t file,
                        size_t n_files, size_t index)
{
    *s = (struct figures_source){.metrics = json_object_get(root, "metrics"),
                                 .colour = figures_colour(mode ? index : file)};
    if (mode)
        snprintf(s->prefix, sizeof s->prefix, "%.60s_", mode);
    if (n_files > 1)
        snprintf(s->label, sizeof s->label, "%c%s%.40s", figures_letter(file), mode ? " " : "",
                 mode ? mode : "");
    else
        snprintf(s->label, sizeof s->label, "%.40s", mode ? mode : "");
    samples_read(&s->samples, root, mode);
}

static size_t open_sources(struct figures_source *sources, const struct figures_file *files,
                           size_t n)
{
    size_t n_sources = 0;
    for (size_t i = 0; i < n; i++) {
        const char *modes[LIMIT_REPORT_MODES];
        size_t n_modes = find_modes(files[i].root, modes);
        for (size_t k = 0; k < n_modes || k == 0; k++) {
            open_source(&sources[n_sources], files[i].root, n_modes > 1 ? modes[k] : NULL, i, n,
                        n_sources);
            n_sources++;
            if (n_modes < 2)
                break;
        }
    }
    return n_sources;
}

bool figures_make(struct figures *out, const struct figures_file *files, size_t n)
{
    *out = (struct figures){0};
    REQUIRE(n >= 1 && n <= LIMIT_REPORT_FILES);
    struct figures_source *sources = mem_array(FIGURES_SOURCES, sizeof *sources);
    size_t n_sources = sources ? open_sources(sources, files, n) : 0;
    out->failed = !sources;
    for (size_t i = 0; i < n_sources; i++)
        out->failed |= sources[i].samples.failed;
    figures_add_comparison(out, files, n);
    figures_add_requests(out, sources, n_sources);
    figures_add_curves(out, files, n);
    for (size_t i = 0; i < n_sources; i++)
        samples_fini(&sources[i].samples);
    mem_free(sources);
    for (size_t i = 0; i < out->n; i++)
        out->failed |= out->list[i]->chart.failed || out->list[i]->note.failed;
    return !out->failed;
}

void figures_fini(struct figures *f)
{
    for (size_t i = 0; i < f->n; i++) {
        svg_fini(&f->list[i]->chart);
        buf_fini(&f->list[i]->note);
        mem_free(f->list[i]);
    }
    mem_free(f->list);
    *f = (struct figures){0};
}
