#include "cli/bench_blocking.h"
#include "bench/client/target_open.h"

#include "bench/client/child_server.h"
#include "bench/kinds/blocking.h"
#include "bench/result/environment.h"
#include "bench/result/table.h"

#include <string.h>

#define SPARE_CONNECTIONS 16 /* for the questions before the first request */

struct job {
    const struct bench_blocking *b;
    struct blocking modes;
    struct target *targets[BLOCKING_MODES]; /* who answers; NULL: nobody, so it is not measured */
    const struct tokenizer *tokenizer;      /* NULL: unknown */
    struct loader loader;                   /* our own servers': for the tokenizer */
    struct child_server children[BLOCKING_MODES];
    json_t *environment;
};

static bool bench_blocking_stopped(const struct job *job)
{
    return atomic_load(job->b->stop);
}

/* --- the runs ------------------------------------------------------------------------------- */

/* Modes of one server have prompts of their own, so that none finds another's in a cache; on our
 * own servers all modes ask the same in the same repeat. */
static uint32_t bench_blocking_first_run(const struct job *job, enum blocking_mode mode)
{
    const struct bench_common *c = job->b->common;
    return job->b->target->url ? (uint32_t)mode * (c->warmup_runs + c->repeat_runs) : 0;
}

/* `run` counts warm-ups first; their figures are thrown away. */
static enum status bench_blocking_measure(struct job *job, enum blocking_mode mode, uint32_t run,
                                          struct err *err)
{
    const struct bench_blocking *b = job->b;
    struct workload_options workload = *b->workload;
    struct measure_options options = bench_common_measure(b->common, job->tokenizer, b->stop);
    struct measurement *out = run < b->common->warmup_runs ? NULL : &job->modes.of[mode];
    if (!job->targets[mode])
        return STATUS_OK;
    options.first_run = bench_blocking_first_run(job, mode);
    options.arg = (void *)blocking_mode_name(mode);
    workload.stream = mode == BLOCKING_STREAM;
    enum status status = measure_one(job->targets[mode], &workload, &options, run, out, err);
    return status == STATUS_OK ? status : err_context(err, "%s", blocking_mode_name(mode));
}

static enum status bench_blocking_warm_up(struct job *job, struct err *err)
{
    enum status status = STATUS_OK;
    for (int mode = 0; mode < BLOCKING_MODES; mode++)
        for (uint32_t i = 0; i < job->b->common->warmup_runs && status == STATUS_OK; i++)
            status = bench_blocking_measure(job, (enum blocking_mode)mode, i, err);
    return status;
}

static enum status bench_blocking_repeat(struct job *job, struct random *r, uint32_t run,
                                         struct err *err)
{
    enum blocking_mode order[BLOCKING_MODES];
    enum status status = STATUS_OK;
    blocking_order(r, order);
    for (int i = 0; i < BLOCKING_MODES && status == STATUS_OK && !bench_blocking_stopped(job); i++)
        status = bench_blocking_measure(job, order[i], run, err);
    return status;
}

static enum status bench_blocking_run_all(struct job *job, struct err *err)
{
    const struct bench_common *c = job->b->common;
    struct random r;
    random_init(&r, c->seed, 0);
    enum status status = bench_blocking_warm_up(job, err);
    for (uint32_t i = 0; i < c->repeat_runs && status == STATUS_OK && !bench_blocking_stopped(job);
         i++)
        status = bench_blocking_repeat(job, &r, c->warmup_runs + i, err);
    bench_common_progress_clear();
    return status;
}

/* --- servers of our own --------------------------------------------------------------------- */

static enum status bench_blocking_load(void *arg, struct loader *out, struct err *err)
{
    return loader_open(out, arg, NULL, NULL, err);
}

static enum status bench_blocking_start(struct child_server *child, const struct bench_blocking *b,
                                        enum blocking_mode mode, struct err *err)
{
    struct options options = b->target->options;
    struct server_options server = {
        .host = "127.0.0.1",
        .max_connections = b->at_once + SPARE_CONNECTIONS,
        .load = bench_blocking_load,
        .arg = (void *)options.model,
    };
    if (mode == BLOCKING_SYNC)
        options.engine_name = "cpu-sync";
    enum status status = options_engine(&options, &server.engine, err);
    server.engine.n_slots = b->at_once;
    return status == STATUS_OK ? child_server_start(child, &server, err) : status;
}

/* All processes are forked before the first connection, which may start a thread. */
static enum status start_all(struct job *job, struct err *err)
{
    enum status status = STATUS_OK;
    for (int i = 0; i < BLOCKING_MODES && status == STATUS_OK; i++)
        if (bench_blocking_start(&job->children[i], job->b, (enum blocking_mode)i, err) !=
            STATUS_OK)
            status = err_context(err, "%s", blocking_mode_name((enum blocking_mode)i));
    return status;
}

static enum status connect_all(struct job *job, struct err *err)
{
    const struct bench_blocking *b = job->b;
    enum status status = STATUS_OK;
    for (int i = 0; i < BLOCKING_MODES && status == STATUS_OK; i++)
        status = target_open_http(&job->targets[i],
                                  &(struct http_options){
                                      .url = job->children[i].url,
                                      .timeout_seconds = b->target->timeout_seconds,
                                      .max_connections = b->at_once,
                                  },
                                  err);
    return status;
}

static void stop_all(struct job *job)
{
    for (int i = 0; i < BLOCKING_MODES; i++)
        if (job->targets[i])
            job->targets[i]->ops->close(job->targets[i]);
    for (int i = 0; i < BLOCKING_MODES; i++)
        child_server_stop(&job->children[i]);
}

static enum status describe_own(struct job *job, struct err *err)
{
    const struct options *o = &job->b->target->options;
    const struct engine_kind *kind = engine_kind_find(o->engine_name, err);
    if (!kind)
        return err->code;
    const struct environment e = {
        .target = "own server",
        .engine = kind->name,
        .model = job->loader.name,
        .model_path = o->model,
        .threads = o->engine.n_threads,
        .cpu_levels = o->engine.cpu_levels,
        .activations = o->engine.activations,
        .kv_type = o->engine.kv_type,
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
    if (status == STATUS_OK)
        status = start_all(job, err);
    if (status == STATUS_OK)
        status = connect_all(job, err);
    job->tokenizer = job->loader.tokenizer;
    if (status == STATUS_OK)
        status = bench_blocking_run_all(job, err);
    stop_all(job);
    return status;
}

/* --- a server that is there ----------------------------------------------------------------- */

static enum status run_url(struct job *job, struct err *err)
{
    struct bench_target target;
    enum status status = bench_common_open(&target, job->b->target, job->b->at_once, err);
    job->targets[BLOCKING_WHOLE] = job->targets[BLOCKING_STREAM] = target.target;
    job->tokenizer = target.tokenizer;
    if (status == STATUS_OK)
        status = bench_blocking_run_all(job, err);
    job->environment = target.environment;
    target.environment = NULL;
    bench_common_close(&target);
    return status;
}

/* --- both ----------------------------------------------------------------------------------- */

static const char *bench_blocking_text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "n/a";
}

static void head_own(struct buf *out, const struct job *job)
{
    const char *engine = bench_blocking_text_of(job->environment, "engine");
    buf_printf(out, "servers    one for each column, all up at once: %s, cpu-sync, %s; %s, ",
               engine, engine, bench_blocking_text_of(job->environment, "cpu"));
    table_count(out, job->b->target->options.engine.n_threads, "thread");
    buf_puts(out, "\nsync       the engine cpu-sync, which serves one request at a time\n");
}

static void bench_blocking_head(struct buf *out, const struct job *job)
{
    const struct bench_blocking *b = job->b;
    buf_printf(out, "model      %s\n", bench_blocking_text_of(job->environment, "model"));
    if (b->target->url)
        buf_printf(out, "server     %s\n", b->target->url);
    else
        head_own(out, job);
    buf_printf(out, "requests   %u, %u tokens at most, ", b->workload->num_requests,
               b->workload->max_new_tokens);
    table_count(out, b->common->repeat_runs, "repeat");
    buf_puts(out, b->common->repeat_runs > 1 ? "; in each the columns take turns\n\n" : "\n\n");
}

static enum status bench_blocking_report(struct job *job, struct err *err)
{
    const struct bench_common *common = job->b->common;
    struct buf table = {0};
    struct result result;
    bench_blocking_head(&table, job);
    table.failed |= !blocking_table(&table, &job->modes);
    result_init(&result, "blocking", common->note,
                bench_common_workload(job->b->target, workload_json(job->b->workload)),
                job->environment);
    job->environment = NULL;
    blocking_result(&job->modes, job->b->goodput, &result);
    return bench_common_publish(common, &table, &result, err);
}

static enum status pool(struct job *job, struct err *err)
{
    bool ok = true;
    for (int i = 0; i < BLOCKING_MODES; i++)
        ok &= measure_pool(&job->modes.of[i], job->b->goodput);
    return ok ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "no memory for the figures");
}

static bool bench_blocking_has_any(const struct job *job)
{
    for (int i = 0; i < BLOCKING_MODES; i++)
        if (job->modes.of[i].n_runs > 0)
            return true;
    return false;
}

static enum status bench_blocking_show(struct job *job, struct err *err)
{
    if (!bench_blocking_has_any(job))
        return STATUS_OK;
    enum status status = pool(job, err);
    return status == STATUS_OK ? bench_blocking_report(job, err) : status;
}

/* What was measured before an error is shown and kept. */
enum status bench_blocking_run(const struct bench_blocking *b, struct err *err)
{
    struct job job = {.b = b};
    struct err report_err = {0};
    enum status status = b->target->url ? run_url(&job, err) : run_own(&job, err);
    if (bench_blocking_show(&job, &report_err) != STATUS_OK && status == STATUS_OK) {
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
