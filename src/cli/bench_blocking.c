#include "cli/bench_blocking.h"

#include "bench/blocking.h"
#include "bench/child.h"
#include "bench/environment.h"
#include "bench/table.h"

#include <string.h>

#define SPARE_CONNECTIONS 16 /* for the questions before the first request */

struct job {
    const struct bench_blocking *b;
    struct blocking modes;
    struct loader loader; /* our own servers': for the tokenizer */
    json_t *environment;
};

static bool stopped(const struct job *job)
{
    return atomic_load(job->b->stop);
}

/* --- one mode on one server ----------------------------------------------------------------- */

/* Modes of one server have prompts of their own, so that none finds another's in a cache; our own
 * servers are new for each mode and get the same. */
static uint32_t first_run(const struct job *job, enum blocking_mode mode)
{
    const struct bench_common *c = job->b->common;
    return job->b->target->url ? (uint32_t)mode * (c->warmup_runs + c->repeat_runs) : 0;
}

static enum status measure(struct job *job, enum blocking_mode mode, struct target *target,
                           const struct tokenizer *tokenizer, struct err *err)
{
    const struct bench_blocking *b = job->b;
    struct workload_options workload = *b->workload;
    struct measure_options options = bench_common_measure(b->common, tokenizer, b->stop);
    options.first_run = first_run(job, mode);
    options.goodput = b->goodput;
    options.arg = (void *)blocking_mode_name(mode);
    workload.stream = mode == BLOCKING_STREAM;
    enum status status = measure_run(target, &workload, &options, &job->modes.of[mode], err);
    bench_common_progress_clear();
    job->modes.has[mode] = status == STATUS_OK;
    if (status == STATUS_OK)
        return status;
    measure_fini(&job->modes.of[mode]);
    return err_context(err, "%s", blocking_mode_name(mode));
}

/* --- servers of our own --------------------------------------------------------------------- */

static enum status load(void *arg, struct loader *out, struct err *err)
{
    return loader_open(out, arg, NULL, NULL, err);
}

static enum status start(struct child *child, const struct bench_blocking *b,
                         enum blocking_mode mode, struct err *err)
{
    struct options options = b->target->options;
    struct server_options server = {
        .host = "127.0.0.1",
        .max_connections = b->at_once + SPARE_CONNECTIONS,
        .load = load,
        .arg = (void *)options.model,
    };
    if (mode == BLOCKING_SYNC)
        options.engine = "cpu-sync";
    enum status status = options_engine(&options, &server.engine, err);
    server.engine.n_slots = b->at_once;
    return status == STATUS_OK ? child_start(child, &server, err) : status;
}

static enum status measure_own(struct job *job, enum blocking_mode mode, struct err *err)
{
    const struct bench_blocking *b = job->b;
    struct child child = {0};
    struct target *target = NULL;
    enum status status = start(&child, b, mode, err);
    if (status == STATUS_OK)
        status = target_open_http(&target,
                                  &(struct http_options){
                                      .url = child.url,
                                      .timeout_seconds = b->target->timeout_seconds,
                                      .max_connections = b->at_once,
                                  },
                                  err);
    if (status == STATUS_OK)
        status = measure(job, mode, target, job->loader.tokenizer, err);
    if (target)
        target->ops->close(target);
    child_stop(&child);
    return status;
}

static enum status describe_own(struct job *job, struct err *err)
{
    const struct options *o = &job->b->target->options;
    const struct engine_kind *kind = engine_kind_find(o->engine, err);
    if (!kind)
        return err->code;
    const struct environment e = {
        .target = "own server",
        .engine = kind->name,
        .model = job->loader.name,
        .model_path = o->model,
        .threads = o->n_threads,
        .cpu_levels = o->cpu_levels,
        .activations = (enum activations)o->activations,
        .kv_type = (enum kv_type)o->kv_type,
        .has_engine_options = true,
    };
    return environment_json(&job->environment, &e, err);
}

static enum status run_own(struct job *job, struct err *err)
{
    const struct bench_blocking *b = job->b;
    enum status status = options_check(&b->target->options, err);
    if (status == STATUS_OK)
        status = loader_open(&job->loader, b->target->options.model, NULL, NULL, err);
    if (status == STATUS_OK)
        status = describe_own(job, err);
    for (int mode = 0; mode < BLOCKING_MODES && status == STATUS_OK && !stopped(job); mode++)
        status = measure_own(job, (enum blocking_mode)mode, err);
    return status;
}

/* --- a server that is there ----------------------------------------------------------------- */

static enum status run_url(struct job *job, struct err *err)
{
    static const enum blocking_mode modes[] = {BLOCKING_WHOLE, BLOCKING_STREAM};
    struct bench_target target;
    enum status status = bench_common_open(&target, job->b->target, job->b->at_once, err);
    for (int i = 0; i < 2 && status == STATUS_OK && !stopped(job); i++)
        status = measure(job, modes[i], target.target, target.tokenizer, err);
    job->environment = target.environment;
    target.environment = NULL;
    bench_common_close(&target);
    return status;
}

/* --- both ----------------------------------------------------------------------------------- */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "n/a";
}

static void head(struct buf *out, const struct job *job)
{
    const struct bench_blocking *b = job->b;
    buf_printf(out, "model      %s\n", text_of(job->environment, "model"));
    if (b->target->url)
        buf_printf(out, "server     %s\n", b->target->url);
    else
        buf_printf(out, "servers    one for each column: %s, cpu-sync, %s; %s, %u threads\n",
                   text_of(job->environment, "engine"), text_of(job->environment, "engine"),
                   text_of(job->environment, "cpu"), b->target->options.n_threads);
    buf_printf(out, "requests   %u, %u tokens at most, ", b->workload->num_requests,
               b->workload->max_new_tokens);
    table_count(out, b->common->repeat_runs, "repeat");
    buf_puts(out, "\n\n");
}

static enum status report(struct job *job, struct err *err)
{
    const struct bench_common *common = job->b->common;
    struct buf table = {0};
    struct result result;
    head(&table, job);
    table.failed |= !blocking_table(&table, &job->modes);
    enum status status = bench_common_print(common, &table, err);
    buf_fini(&table);
    if (status != STATUS_OK)
        return status;
    result_init(&result, "blocking", common->note,
                bench_common_workload(job->b->target, workload_json(job->b->workload)),
                job->environment);
    job->environment = NULL;
    blocking_result(&job->modes, job->b->goodput, &result);
    status = bench_common_write(common, &result, err);
    result_fini(&result);
    return status;
}

static bool has_any(const struct job *job)
{
    for (int i = 0; i < BLOCKING_MODES; i++)
        if (job->modes.has[i])
            return true;
    return false;
}

/* What was measured before an error is shown and kept. */
enum status bench_blocking_run(const struct bench_blocking *b, struct err *err)
{
    struct job job = {.b = b};
    struct err report_err = {0};
    enum status status = b->target->url ? run_url(&job, err) : run_own(&job, err);
    if (has_any(&job) && report(&job, &report_err) != STATUS_OK && status == STATUS_OK) {
        *err = report_err;
        status = err->code;
    }
    if (status == STATUS_OK && blocking_failed(&job.modes, err))
        status = err->code;
    blocking_fini(&job.modes);
    json_decref(job.environment);
    loader_close(&job.loader);
    return status;
}
