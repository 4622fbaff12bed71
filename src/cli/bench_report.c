/* `firstlight bench report`: results as an HTML page and as SVG files. */
#include "cli/commands.h"

#include "base/buf.h"
#include "bench/report/report_page.h"
#include "bench/result/result.h"
#include "cli/flags.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define COMMAND "bench report"

struct args {
    const char *html;
    const char *svg;
    const char *files[LIMIT_REPORT_FILES + 1]; /* one more, to say that it is too much */
    size_t n_files;
};

// clang-format off
static const struct flag own_flags[] = {
    {"--html", "FILE", "where to write the page; - is standard output",
     FLAG_TEXT, FLAG_FIELD(args, html)},
    {"--svg", "DIR", "a folder for each chart as an SVG file; made if need be",
     FLAG_TEXT, FLAG_FIELD(args, svg)},
};
// clang-format on

static enum status bench_report_check(const struct args *a, struct err *err)
{
    if (a->n_files == 0)
        return err_set(err, STATUS_INVALID, "no file; give what a bench's --output wrote");
    if (a->n_files > LIMIT_REPORT_FILES)
        return err_set(err, STATUS_INVALID, "at most %d files fit side by side",
                       LIMIT_REPORT_FILES);
    if (!a->html && !a->svg)
        return err_param(err, STATUS_INVALID, "--html", "--html FILE or --svg DIR is needed");
    return STATUS_OK;
}

static enum status bench_report_write_file(const struct buf *text, const char *path,
                                           const char *flag, struct err *err)
{
    bool is_standard = strcmp(path, "-") == 0;
    if (text->failed)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %s", path);
    FILE *f = is_standard ? stdout : fopen(path, "w");
    bool failed = !f || fwrite(buf_str(text), 1, text->len, f) != text->len;
    if (f)
        failed |= is_standard ? fflush(f) != 0 : fclose(f) != 0;
    return failed ? err_param(err, STATUS_IO, flag, "%s: cannot write %s: %s", flag, path,
                              strerror(errno))
                  : STATUS_OK;
}

static enum status write_page(const struct args *a, const struct figures_file *files,
                              const struct figures *f, struct err *err)
{
    struct buf page = {0};
    report_page_write(&page, files, a->n_files, f);
    enum status st = bench_report_write_file(&page, a->html, "--html", err);
    buf_fini(&page);
    return st;
}

static enum status write_svg(const char *folder, const struct figure *figure, struct err *err)
{
    struct buf drawing = {0}, path = {0};
    svg_draw(&drawing, &figure->chart, &svg_file, buf_str(&figure->note));
    buf_printf(&path, "%s/%s.svg", folder, figure->id);
    drawing.failed |= path.failed;
    enum status st = bench_report_write_file(&drawing, buf_str(&path), "--svg", err);
    buf_fini(&drawing);
    buf_fini(&path);
    return st;
}

static enum status write_svgs(const char *folder, const struct figures *f, struct err *err)
{
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return err_param(err, STATUS_IO, "--svg", "--svg: cannot make %s: %s", folder,
                         strerror(errno));
    for (size_t i = 0; i < f->n; i++) {
        enum status st = write_svg(folder, f->list[i], err);
        if (st)
            return st;
    }
    return STATUS_OK;
}

static enum status bench_report_write_all(const struct args *a, const struct figures_file *files,
                                          struct err *err)
{
    struct figures figures;
    enum status st = STATUS_OK;
    if (!figures_make(&figures, files, a->n_files))
        st = err_set(err, STATUS_NO_MEMORY, "no memory for the charts");
    if (!st && a->html)
        st = write_page(a, files, &figures, err);
    if (!st && a->svg)
        st = write_svgs(a->svg, &figures, err);
    figures_fini(&figures);
    return st;
}

static enum status bench_report_run(const struct args *a, struct err *err)
{
    struct result results[LIMIT_REPORT_FILES] = {0};
    struct figures_file files[LIMIT_REPORT_FILES];
    enum status st = bench_report_check(a, err);
    for (size_t i = 0; !st && i < a->n_files; i++) {
        st = result_read(&results[i], a->files[i], err);
        files[i] = (struct figures_file){a->files[i], results[i].root};
    }
    if (!st)
        st = bench_report_write_all(a, files, err);
    for (size_t i = 0; i < LIMIT_REPORT_FILES; i++)
        if (results[i].root)
            result_fini(&results[i]);
    return st;
}

int bench_report_main(int argc, char **argv)
{
    struct args args = {0};
    struct flag_set set = {
        .command = COMMAND,
        .usage = "FILE.json... --html OUT.html [--svg DIR]",
        .about = "Draws results as one HTML page that needs no network, and as SVG files: the\n"
                 "distributions of TTFT and ITL, the parts of TTFT, each request of the run,\n"
                 "curves. Several files appear side by side.",
        .groups = {FLAG_GROUP(own_flags, &args)},
        .positional = args.files,
        .max_positional = LIMIT_REPORT_FILES + 1,
        .n_positional = &args.n_files,
    };
    int exit_code;
    struct err err = {0};
    if (!flags_read(&set, argc, argv, &exit_code))
        return exit_code;
    return bench_report_run(&args, &err) ? flags_fail(COMMAND, &err) : EXIT_SUCCESS;
}
