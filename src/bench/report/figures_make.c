/* All figures of a report: the list of what is drawn, and of which runs. */
#include "bench/report/figures_internal.h"

#include "base/err.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

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
