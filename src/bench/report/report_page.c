#include "bench/report/report_internal.h"

#include <string.h>

/* Different errors of failed requests that are told apart. */
#define ERRORS_SHOWN 8

static const struct {
    const char *id, *title, *about;
} sections[FIGURES_SECTIONS] = {
    [FIGURES_TTFT] = {"ttft", "TTFT",
                      "Time to first token: from sending a request to the first chunk with "
                      "content, as the client "
                      "sees it."},
    [FIGURES_ITL] = {"itl", "ITL",
                     "Inter-token latency: the gap between one chunk with content and the next of "
                     "the same request."},
    [FIGURES_TIMELINE] = {"timeline", "Timeline", ""},
    [FIGURES_COMPARISON] = {"comparison", "Comparison", ""},
    [FIGURES_CURVES] = {"curves", "Curves", ""},
};

/* ---- What a reader has to know before any figure ---- */

struct errors {
    const char *text[ERRORS_SHOWN];
    size_t count[ERRORS_SHOWN];
    size_t n, others, failed, requests;
};

static void add_error(struct errors *e, const char *text)
{
    size_t i = 0;
    while (i < e->n && strcmp(e->text[i], text) != 0)
        i++;
    if (i == ERRORS_SHOWN) {
        e->others++;
        return;
    }
    if (i == e->n) {
        e->text[i] = text;
        e->n++;
    }
    e->count[i]++;
}

static void collect_errors(struct errors *e, const json_t *run)
{
    const json_t *requests = json_object_get(run, "requests");
    for (size_t i = 0; i < json_array_size(requests); i++) {
        const json_t *request = json_array_get(requests, i);
        e->requests++;
        if (strcmp(report_parts_text(request, "state"), "failed") != 0)
            continue;
        e->failed++;
        add_error(e, report_parts_text(request, "error"));
    }
}

static void begin_warning(const struct report_page *p, size_t file)
{
    buf_puts(p->out, "<div class=\"warning\">");
    report_parts_letter(p, file);
}

static void warn_of_failures(const struct report_page *p, size_t file)
{
    struct errors e = {0};
    const json_t *runs = json_object_get(p->files[file].root, "runs");
    for (size_t i = 0; i < json_array_size(runs); i++)
        collect_errors(&e, json_array_get(runs, i));
    if (!e.failed)
        return;
    begin_warning(p, file);
    buf_printf(p->out, "%zu of %zu requests failed:<ul>\n", e.failed, e.requests);
    for (size_t i = 0; i < e.n; i++) {
        buf_printf(p->out, "<li>%zu \u00d7 ", e.count[i]);
        svg_escape(p->out, *e.text[i] ? e.text[i] : "without an error");
        buf_puts(p->out, "</li>\n");
    }
    if (e.others)
        buf_printf(p->out, "<li>%zu with other errors</li>\n", e.others);
    buf_puts(p->out, "</ul></div>\n");
}

static void warn_of_run(const struct report_page *p, size_t file, size_t index, const json_t *run)
{
    const json_t *generator = json_object_get(run, "generator");
    if (json_is_true(json_object_get(run, "interrupted"))) {
        begin_warning(p, file);
        buf_printf(p->out, "Run %zu was interrupted: its figures are partial.</div>\n", index + 1);
    }
    if (json_is_true(json_object_get(generator, "bottleneck"))) {
        begin_warning(p, file);
        buf_printf(p->out, "In run %zu the load generator was the bottleneck: ", index + 1);
        svg_escape(p->out, report_parts_text(generator, "why"));
        buf_puts(p->out, "</div>\n");
    }
}

static void write_doubts(const struct report_page *p, size_t file, const struct err *refusal)
{
    size_t i;
    json_t *text;
    if (refusal->code) {
        begin_warning(p, file);
        buf_puts(p->out, "The figures do not compare with those of A: ");
        svg_escape(p->out, refusal->text);
        buf_puts(p->out, "</div>\n");
    }
    json_array_foreach(p->comparisons[file].doubts, i, text)
    {
        begin_warning(p, file);
        buf_puts(p->out, "No verdict beside A: ");
        svg_escape(p->out, json_string_value(text));
        buf_puts(p->out, "</div>\n");
    }
}

static void write_warnings(const struct report_page *p)
{
    for (size_t i = 0; i < p->n_files; i++) {
        const json_t *runs = json_object_get(p->files[i].root, "runs");
        warn_of_failures(p, i);
        for (size_t k = 0; k < json_array_size(runs); k++)
            warn_of_run(p, i, k, json_array_get(runs, k));
    }
}

/* ---- Files and figures ---- */

static void write_fact(struct buf *out, const char *name, const char *value)
{
    if (!*value)
        return;
    buf_printf(out, "<div><dt>%s</dt><dd>", name);
    svg_escape(out, value);
    buf_puts(out, "</dd></div>\n");
}

static void report_page_write_file(const struct report_page *p, size_t file)
{
    const json_t *root = p->files[file].root;
    const json_t *environment = json_object_get(root, "environment");
    buf_puts(p->out, "<div class=\"file\"><h2>");
    report_parts_letter(p, file);
    svg_escape(p->out, report_parts_text(root, "kind"));
    buf_puts(p->out, "</h2>\n<dl>\n");
    write_fact(p->out, "model", report_parts_text(environment, "model"));
    write_fact(p->out, "target", report_parts_text(environment, "target"));
    write_fact(p->out, "engine", report_parts_text(environment, "engine"));
    write_fact(p->out, "processor", report_parts_text(environment, "cpu"));
    write_fact(p->out, "date", report_parts_text(root, "date"));
    write_fact(p->out, "note", report_parts_text(root, "note"));
    write_fact(p->out, "file", p->files[file].path);
    buf_puts(p->out, "</dl></div>\n");
}

static void write_figure(struct buf *out, const struct figure *figure)
{
    const char *note = buf_str(&figure->note);
    buf_printf(out, "<figure id=\"%s\"%s>\n<figcaption><h3>", figure->id,
               figure->begins_row ? " class=\"first\"" : "");
    svg_escape(out, figure->chart.title ? figure->chart.title : "");
    buf_puts(out, "</h3>");
    if (*note) {
        buf_puts(out, "<p>");
        svg_escape(out, note);
        buf_puts(out, "</p>");
    }
    buf_puts(out, "</figcaption>\n");
    svg_draw(out, &figure->chart, &svg_wide, note);
    svg_draw(out, &figure->chart, &svg_narrow, note);
    buf_puts(out, "</figure>\n");
}

static void write_section(struct buf *out, const struct figures *f, enum figures_section section)
{
    bool begun = false;
    for (size_t i = 0; i < f->n; i++) {
        if (f->list[i]->section != section)
            continue;
        if (!begun)
            buf_printf(out,
                       "<section id=\"section-%s\">\n<h2>%s</h2>\n<p>%s</p>\n"
                       "<div class=\"figures\">\n",
                       sections[section].id, sections[section].title, sections[section].about);
        begun = true;
        write_figure(out, f->list[i]);
    }
    if (begun)
        buf_puts(out, "</div></section>\n");
}

static void report_page_write_head(const struct report_page *p)
{
    buf_puts(p->out,
             "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
             "<meta name=\"color-scheme\" content=\"light dark\">\n<title>firstlight bench: ");
    svg_escape(p->out, report_parts_text(p->files[0].root, "kind"));
    buf_printf(p->out, "</title>\n<style>\n%s%s</style>\n</head>\n<body>\n<header>\n",
               report_style_css, svg_css);
    buf_puts(p->out, "<h1>firstlight bench</h1>\n<div class=\"files\">\n");
    for (size_t i = 0; i < p->n_files; i++)
        report_page_write_file(p, i);
    buf_puts(p->out, "</div>\n</header>\n<main>\n");
}

/* Of file A with file i; `refusal` says why they do not compare. */
static void compare_with(struct compare *out, const struct result *results, size_t i,
                         struct err *refusal)
{
    static const char *const letters[] = {"A", "B", "C", "D"};
    _Static_assert(LIMIT_REPORT_FILES <= 4, "a letter for each file");
    compare_make(out, (struct compare_side){&results[0], &letters[0], 1},
                 (struct compare_side){&results[i], &letters[i], 1}, refusal);
}

static void write_body(const struct report_page *p, const struct figures *f)
{
    write_warnings(p);
    report_tables_tiles(p);
    for (int i = 0; i < FIGURES_SECTIONS; i++)
        write_section(p->out, f, (enum figures_section)i);
    report_tables_metrics(p);
    report_tables_facts(p);
}

void report_page_write(struct buf *out, const struct figures_file *files, size_t n_files,
                       const struct figures *f)
{
    struct compare comparisons[LIMIT_REPORT_FILES] = {0};
    struct result results[LIMIT_REPORT_FILES] = {0};
    const struct report_page p = {out, files, n_files, comparisons};
    report_page_write_head(&p);
    for (size_t i = 0; i < n_files; i++)
        results[i].root = (json_t *)files[i].root;
    for (size_t i = 1; i < n_files; i++) {
        struct err refusal = {0};
        compare_with(&comparisons[i], results, i, &refusal);
        write_doubts(&p, i, &refusal);
        out->failed |= refusal.code == STATUS_NO_MEMORY;
    }
    write_body(&p, f);
    for (size_t i = 1; i < n_files; i++)
        compare_fini(&comparisons[i]);
    buf_puts(out, "</main>\n</body>\n</html>\n");
    out->failed |= f->failed;
}
