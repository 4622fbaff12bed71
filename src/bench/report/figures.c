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
