/* `firstlight bench compare`: what changed between two result files, and requirements on one. */
#include "cli/commands.h"

#include "base/limits.h"
#include "bench/result/compare.h"
#include "bench/result/require.h"
#include "cli/bench_common.h"
#include "cli/flags.h"

#include <stdlib.h>
#include <string.h>

#define COMMAND "bench compare"
#define SCHEMA  "firstlight-compare/2"

struct requirements {
    struct require list[LIMIT_REQUIREMENTS];
    uint32_t n;
};

/* Of one side. */
struct files {
    const char *names[LIMIT_COMPARE_FILES];
    uint32_t n;
};

struct args {
    struct files before, after;
    struct bench_common common; /* its output alone */
    struct requirements requirements;
    bool all;
};

/* One run of the command. */
struct job {
    const struct args *args;
    struct result before[LIMIT_COMPARE_FILES], after[LIMIT_COMPARE_FILES];
    struct compare compare;
    json_t *json; /* what --output gets */
    struct buf text;
    uint32_t n_failed; /* requirements that do not hold */
};

static enum status parse_require(void *field, const char *text, struct err *err)
{
    struct requirements *r = field;
    if (r->n == LIMIT_REQUIREMENTS)
        return err_param(err, STATUS_INVALID, "--require", "--require: at most %d of them",
                         LIMIT_REQUIREMENTS);
    enum status st = require_parse(text, &r->list[r->n], err);
    if (st)
        return err_context(err, "--require");
    r->n++;
    return STATUS_OK;
}

static enum status parse_file(void *field, const char *text, struct err *err)
{
    struct files *f = field;
    if (f->n == LIMIT_COMPARE_FILES)
        return err_set(err, STATUS_INVALID, "--before, --after: at most %d files a side",
                       LIMIT_COMPARE_FILES);
    f->names[f->n++] = text;
    return STATUS_OK;
}

static struct compare_side side_of(const struct files *f, const struct result *results)
{
    return (struct compare_side){.results = results, .names = f->names, .n = f->n};
}

// clang-format off
static const struct flag own_flags[] = {
    {"--before", "FILE", "the result to compare with; may be left out beside --require, and\n"
                         "repeated: a file for each start of a server",
     FLAG_CUSTOM, FLAG_FIELD(args, before), .parse = parse_file},
    {"--after", "FILE", "the result that is judged; may be repeated",
     FLAG_CUSTOM, FLAG_FIELD(args, after), .parse = parse_file},
    {"--all", NULL, "show all metrics, not only the six headline ones",
     FLAG_BOOL, FLAG_FIELD(args, all)},
    {"--require", "EXPR", "METRIC OP NUMBER, OP one of < <= > >= ==; may be repeated. One that\n"
                          "does not hold in --after makes the exit status 1",
     FLAG_CUSTOM, FLAG_FIELD(args, requirements), .parse = parse_require},
    {"--output", "FILE", "where to write the JSON; - is standard output",
     FLAG_TEXT, FLAG_FIELD(args, common.output)},
};
// clang-format on

static enum status read_files(const struct files *f, struct result *out, struct err *err)
{
    enum status st = STATUS_OK;
    for (uint32_t i = 0; i < f->n && !st; i++)
        st = result_read(&out[i], f->names[i], err);
    return st;
}

static enum status compare_files(struct job *job, struct err *err)
{
    const struct args *a = job->args;
    enum status st = read_files(&a->before, job->before, err);
    if (!st)
        st = compare_make(&job->compare, side_of(&a->before, job->before),
                          side_of(&a->after, job->after), err);
    if (st)
        return st;
    compare_text(&job->compare, a->all, &job->text);
    json_t *json = compare_json(&job->compare);
    int failed = json_object_update(job->json, json);
    json_decref(json);
    return failed ? err_set(err, STATUS_NO_MEMORY, "no memory for the comparison") : STATUS_OK;
}

static enum status require_one(struct job *job, const struct require *r, json_t *list,
                               struct err *err)
{
    const json_t *metrics = json_object_get(job->after[0].root, "metrics");
    double value;
    bool holds;
    enum status st =
        require_check(r, &job->after[0], job->args->after.names[0], &value, &holds, err);
    if (st)
        return st;
    const char *op = require_operator_text(r->op);
    const char *unit =
        json_string_value(json_object_get(json_object_get(metrics, r->metric), "unit"));
    buf_printf(&job->text, "%-5s  %s%s%.15g: %.6g%s%s\n", holds ? "holds" : "FAILS", r->metric, op,
               r->bound, value, *unit ? " " : "", unit);
    job->n_failed += !holds;
    if (json_array_append_new(list, json_pack("{s:s, s:s, s:f, s:f, s:b}", "metric", r->metric,
                                              "operator", op, "bound", r->bound, "value", value,
                                              "holds", holds)))
        return err_set(err, STATUS_NO_MEMORY, "no memory for the requirements");
    return STATUS_OK;
}

static enum status require_all(struct job *job, struct err *err)
{
    const struct requirements *r = &job->args->requirements;
    json_t *list = json_array();
    enum status st = STATUS_OK;
    if (r->n && job->text.len)
        buf_putc(&job->text, '\n');
    for (uint32_t i = 0; i < r->n && !st; i++)
        st = require_one(job, &r->list[i], list, err);
    if (json_object_set_new(job->json, "requirements", list) && !st)
        st = err_set(err, STATUS_NO_MEMORY, "no memory for the requirements");
    return st;
}

static enum status check_args(const struct args *a, struct err *err)
{
    if (a->after.n == 0)
        return err_param(err, STATUS_INVALID, "--after", "--after FILE is needed");
    if (a->requirements.n > 0 && a->after.n > 1)
        return err_param(err, STATUS_INVALID, "--require",
                         "--require judges one file: give --after once");
    if (a->before.n == 0 && a->requirements.n == 0)
        return err_param(err, STATUS_INVALID, "--before",
                         "--before FILE is needed when there is no --require");
    return bench_common_check(&a->common, err);
}

static enum status bench_compare_run(struct job *job, struct err *err)
{
    const struct args *a = job->args;
    enum status st = check_args(a, err);
    if (!st)
        st = read_files(&a->after, job->after, err);
    job->json = json_pack("{s:s}", "schema", SCHEMA);
    if (!st && a->before.n > 0)
        st = compare_files(job, err);
    else if (!st)
        compare_warnings(side_of(&a->after, job->after), &job->text);
    if (!st)
        st = require_all(job, err);
    if (!st)
        st = bench_common_print(&a->common, &job->text, err);
    if (st)
        return st;
    st = bench_common_write(&a->common, &(struct result){.root = job->json}, err);
    if (!st && job->n_failed)
        st = err_set(err, STATUS_INVALID, "%u of %u requirements do not hold", job->n_failed,
                     a->requirements.n);
    return st;
}

static void bench_compare_close_job(struct job *job)
{
    compare_fini(&job->compare);
    for (int i = 0; i < LIMIT_COMPARE_FILES; i++) {
        result_fini(&job->before[i]);
        result_fini(&job->after[i]);
    }
    json_decref(job->json);
    buf_fini(&job->text);
}

int bench_compare_main(int argc, char **argv)
{
    struct args args = {.common = bench_common_default};
    struct flag_set set = {
        .command = COMMAND,
        .usage = "--before FILE --after FILE [--all] [--require EXPR]... [--output FILE]",
        .about =
            "Shows what changed between measurements of one workload, and whether it is more than\n"
            "noise: of at least five repeats a side (--repeat-runs 5), by a permutation test over\n"
            "the headline metrics together (TTFT p50, p95 and p99, ITL p99, tokens/s, failures),\n"
            "which gives at most one of a hundred comparisons of equal programs any verdict.\n"
            "Figures are medians, with [min, max]; p is corrected for the number of metrics.\n\n"
            "Repeats of one start of a server count as one: give a file for each start, or use\n"
            "bench ab. There is no verdict either where the machine drifted between the files, or\n"
            "where one had more of its prompts in a prefix cache. Files of another kind or\n"
            "workload are refused.\n\n"
            "--require decides the exit status, also without --before. The reference milestones:\n"
            "  M1  --require 'tokens_per_s>=35' --require 'ttft_p50<600'\n"
            "  M2  --require 'tokens_per_s>=40' --require 'ttft_p50<500'\n"
            "  M3  --require 'tokens_per_s>=50' --require 'ttft_p50<=200'",
        .groups = {FLAG_GROUP(own_flags, &args)},
    };
    struct job job = {.args = &args};
    struct err err = {0};
    int exit_code;
    if (!flags_read(&set, argc, argv, &exit_code))
        return exit_code;
    enum status st = bench_compare_run(&job, &err);
    bench_compare_close_job(&job);
    return st ? flags_fail(COMMAND, &err) : EXIT_SUCCESS;
}
