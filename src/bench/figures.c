#include "bench/figures_internal.h"

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
    static const unsigned colours[LIMIT_REPORT_FILES] = {0, 4, 2, 3};
    return colours[file % LIMIT_REPORT_FILES];
}

const char *figures_title(char out[128], const char *title, size_t file, size_t n_files)
{
    if (n_files > 1)
        snprintf(out, 128, "%c: %s", figures_letter(file), title);
    else
        snprintf(out, 128, "%s", title);
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
static void make_id(const struct figures *f, char out[80], const char *id, size_t file)
{
    char safe[49];
    size_t n = 0;
    for (; id[n] && n < sizeof safe - 1; n++) {
        char c = id[n];
        bool lower = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        safe[n] = lower ? c : c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : '-';
    }
    safe[n] = '\0';
    char letter[3] = {0};
    if (file != SIZE_MAX) {
        letter[0] = (char)('a' + file);
        letter[1] = '-';
    }
    snprintf(out, 80, "%s%s", letter, n ? safe : "chart");
    for (size_t i = 2; id_is_taken(f, out); i++)
        snprintf(out, 80, "%s%s-%zu", letter, n ? safe : "chart", i);
}

struct figure *figures_add(struct figures *f, enum figures_section section, const char *id,
                           size_t file)
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
    figure->file = file;
    make_id(f, figure->id, id, file);
    f->list[f->n++] = figure;
    return figure;
}

void figures_same_scales(struct figures *f, size_t from)
{
    struct svg_chart *charts[LIMIT_REPORT_FILES];
    size_t n = 0;
    for (size_t i = from; i < f->n && n < LIMIT_REPORT_FILES; i++)
        charts[n++] = &f->list[i]->chart;
    svg_same_scales(charts, n);
}

bool figures_make(struct figures *out, const struct figures_file *files, size_t n)
{
    struct samples samples[LIMIT_REPORT_FILES] = {0};
    *out = (struct figures){0};
    REQUIRE(n >= 1 && n <= LIMIT_REPORT_FILES);
    for (size_t i = 0; i < n; i++) {
        samples_read(&samples[i], files[i].root);
        out->failed |= samples[i].failed;
    }
    figures_add_requests(out, samples, n);
    figures_add_comparison(out, files, n);
    figures_add_curves(out, files, n);
    for (size_t i = 0; i < n; i++)
        samples_fini(&samples[i]);
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
