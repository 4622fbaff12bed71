#include "cli/bench_compare.h"

#include "base/limits.h"
#include "bench/compare.h"
#include "bench/require.h"
#include "cli/bench_common.h"
#include "cli/flags.h"

#include <stdlib.h>
#include <string.h>

#define COMMAND "bench compare"
#define SCHEMA  "firstlight-compare/1"

struct requirements {
    struct require list[LIMIT_REQUIREMENTS];
    uint32_t n;
};

struct args {
    const char *before;
    const char *after;
    struct bench_common common; /* its output alone */
    struct requirements requirements;
};

/* One run of the command. */
struct job {
    const struct args *args;
    struct result before, after;
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

// clang-format off
static const struct flag own_flags[] = {
    {"--before", "FILE", "the result to compare with; may be left out beside --require",
     FLAG_TEXT, FLAG_FIELD(args, before)},
    {"--after", "FILE", "the result that is judged",
     FLAG_TEXT, FLAG_FIELD(args, after)},
    {"--require", "EXPR", "METRIC OP NUMBER, OP one of < <= > >= ==; may be repeated. One that\n"
                          "does not hold in --after makes the exit status 1",
     FLAG_CUSTOM, FLAG_FIELD(args, requirements), .parse = parse_require},
    {"--output", "FILE", "where to write the JSON; - is standard output",
     FLAG_TEXT, FLAG_FIELD(args, common.output)},
};
// clang-format on

static enum status compare_files(struct job *job, struct err *err)
{
    const struct args *a = job->args;
    enum status st = result_read(&job->before, a->before, err);
    if (!st)
        st = compare_make(&job->compare, (struct compare_side){&job->before, a->before},
                          (struct compare_side){&job->after, a->after}, err);
    if (st)
        return st;
    compare_text(&job->compare, &job->text);
    json_t *json = compare_json(&job->compare);
    int failed = json_object_update(job->json, json);
    json_decref(json);
    return failed ? err_set(err, STATUS_NO_MEMORY, "no memory for the comparison") : STATUS_OK;
}

static enum status require_one(struct job *job, const struct require *r, json_t *list,
                               struct err *err)
{
    const json_t *metrics = json_object_get(job->after.root, "metrics");
    double value;
    bool holds;
    enum status st = require_check(r, &job->after, job->args->after, &value, &holds, err);
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
    if (!a->after)
        return err_param(err, STATUS_INVALID, "--after", "--after FILE is needed");
    if (!a->before && a->requirements.n == 0)
        return err_param(err, STATUS_INVALID, "--before",
                         "--before FILE is needed when there is no --require");
    return bench_common_check(&a->common, err);
}

static enum status run(struct job *job, struct err *err)
{
    const struct args *a = job->args;
    enum status st = check_args(a, err);
    if (!st)
        st = result_read(&job->after, a->after, err);
    job->json = json_pack("{s:s}", "schema", SCHEMA);
    if (!st && a->before)
        st = compare_files(job, err);
    else if (!st)
        compare_warnings((struct compare_side){&job->after, a->after}, &job->text);
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

static void close_job(struct job *job)
{
    compare_fini(&job->compare);
    result_fini(&job->before);
    result_fini(&job->after);
    json_decref(job->json);
    buf_fini(&job->text);
}

int bench_compare_main(int argc, char **argv)
{
    struct args args = {.common = bench_common_default};
    struct flag_set set = {
        .command = COMMAND,
        .usage = "--before FILE --after FILE [--require EXPR]... [--output FILE]",
        .about =
            "Shows metric by metric what changed between two result files of one workload.\n\n"
            "Each figure is the median of the file's repeats, with [min, max]. A change is better\n"
            "or worse only when those two ranges do not touch; if they do it is noise. A file of\n"
            "one run (--repeat-runs 1) has no range: nothing is said of it.\n\n"
            "Files of another kind or workload are refused. What differs in where and with what\n"
            "they were measured is shown above the table.\n\n"
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
    enum status st = run(&job, &err);
    close_job(&job);
    return st ? flags_fail(COMMAND, &err) : EXIT_SUCCESS;
}
