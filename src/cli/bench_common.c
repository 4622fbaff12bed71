#include "cli/bench_common.h"
#include "bench/client/target_open.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "bench/kinds/streaming_table.h"
#include "bench/result/environment.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROGRESS_EVERY_US 100000

const struct bench_common bench_common_default = {.warmup_runs = 1, .repeat_runs = 1};

// clang-format off
static const struct flag common_flags[] = {
    {"--output", "FILE", "where to write the JSON; - is standard output",
     FLAG_TEXT, FLAG_FIELD(bench_common, output)},
    {"--note", "TEXT", "kept in the JSON, shown by bench history",
     FLAG_TEXT, FLAG_FIELD(bench_common, note)},
    {"--seed", "N", "of prompts and arrivals (default 0)",
     FLAG_U64, FLAG_FIELD(bench_common, seed), .max = BENCH_COMMON_MAX_SEED},
    {"--warmup-runs", "N", "runs before, whose figures are thrown away",
     FLAG_U32, FLAG_FIELD(bench_common, warmup_runs), .max = LIMIT_BENCH_RUNS, .zero = "none"},
    {"--repeat-runs", "N", "runs that count; bench compare asks for at least five",
     FLAG_U32, FLAG_FIELD(bench_common, repeat_runs), .min = 1, .max = LIMIT_BENCH_RUNS,
     .zero = "none"},
};
// clang-format on

struct flag_group bench_common_flags(struct bench_common *c)
{
    return (struct flag_group)FLAG_GROUP(common_flags, c);
}

/* --- results -------------------------------------------------------------------------------- */

static bool is_standard(const char *path)
{
    return strcmp(path, "-") == 0;
}

static enum status cannot_write(const char *path, struct err *err)
{
    return err_param(err, STATUS_IO, "--output", "--output: cannot write %s: %s", path,
                     strerror(errno));
}

enum status bench_common_check(const struct bench_common *c, struct err *err)
{
    if (c->note && utf8_valid_prefix(c->note, strlen(c->note)) < strlen(c->note))
        return err_param(err, STATUS_INVALID, "--note", "--note is not UTF-8");
    if (!c->output || is_standard(c->output))
        return STATUS_OK;
    bool was_there = access(c->output, F_OK) == 0;
    FILE *f = fopen(c->output, "a"); /* appending keeps what is there */
    if (!f)
        return cannot_write(c->output, err);
    fclose(f);
    char *made = was_there ? NULL : realpath(c->output, NULL); /* not a link to it */
    if (made)
        unlink(made);
    free(made);
    return STATUS_OK;
}

enum status bench_common_print(const struct bench_common *c, struct buf *table, struct err *err)
{
    if (table->data)
        utf8_make_plain(table->data, true);
    fputs(buf_str(table), c->output && is_standard(c->output) ? stderr : stdout);
    return table->failed ? err_set(err, STATUS_NO_MEMORY, "no memory for the table") : STATUS_OK;
}

static enum status write_stream(FILE *f, const char *path, const struct result *r, struct err *err)
{
    enum status status = result_write(r, f, err);
    bool failed = f == stdout ? fflush(f) != 0 : fclose(f) != 0;
    return status == STATUS_OK && failed ? cannot_write(path, err) : status;
}

/* A rename puts a plain file in place as a whole; a device or a pipe is written to. */
static bool is_replaceable(const char *path)
{
    struct stat s;
    return lstat(path, &s) != 0 || S_ISREG(s.st_mode);
}

static enum status write_and_rename(FILE *f, const char *temporary, const char *path,
                                    const struct result *r, struct err *err)
{
    enum status status = write_stream(f, temporary, r, err);
    if (status == STATUS_OK && rename(temporary, path) != 0)
        status = cannot_write(path, err);
    if (status != STATUS_OK)
        unlink(temporary);
    return status;
}

/* A file that holds every sample may outgrow what our own readers take. */
static void warn_of_size(const char *path)
{
    struct stat s;
    if (stat(path, &s) == 0 && s.st_size > (off_t)LIMIT_RESULT_BYTES)
        fprintf(stderr, "firstlight bench: %s has %lld MiB, bench compare and report read %u\n",
                path, (long long)s.st_size >> 20, LIMIT_RESULT_BYTES >> 20);
}

enum status bench_common_write(const struct bench_common *c, const struct result *r,
                               struct err *err)
{
    if (!c->output)
        return STATUS_OK;
    if (is_standard(c->output))
        return write_stream(stdout, "standard output", r, err);
    struct buf temporary = {0};
    FILE *f = NULL;
    if (is_replaceable(c->output) &&
        buf_printf(&temporary, "%s.%ld.tmp", c->output, (long)getpid()))
        f = fopen(buf_str(&temporary), "wx");
    enum status status;
    if (f) {
        status = write_and_rename(f, buf_str(&temporary), c->output, r, err);
    } else { /* a folder that takes no new files */
        f = fopen(c->output, "w");
        status = f ? write_stream(f, c->output, r, err) : cannot_write(c->output, err);
    }
    warn_of_size(c->output);
    buf_fini(&temporary);
    return status;
}

enum status bench_common_publish(const struct bench_common *c, struct buf *table,
                                 struct result *result, struct err *err)
{
    enum status status = bench_common_print(c, table, err);
    if (status == STATUS_OK)
        status = bench_common_write(c, result, err);
    buf_fini(table);
    result_fini(result);
    return status;
}

enum status bench_common_finish(const struct bench_common *c, struct buf *table,
                                struct result *result, const struct measurement *m, struct err *err)
{
    enum status status = bench_common_publish(c, table, result, err);
    return status == STATUS_OK && measure_failed(m, err) ? err->code : status;
}

/* --- who is measured ------------------------------------------------------------------------ */

const struct bench_target_options bench_common_target = {.timeout_seconds =
                                                             BENCH_COMMON_TIMEOUT_SECONDS};

// clang-format off
static const struct flag target_flags[] = {
    {"--url", "URL", "measure this server (http://..., https://... or grpc://HOST:PORT)\n"
                     "instead of an engine in this process;\n"
                     "--model is then a name (default: the first the server lists), and\n"
                     "flags of an engine are an error",
     FLAG_TEXT, FLAG_FIELD(bench_target_options, url), .beside = "the server has its own"},
    {"--api-key-file", "PATH", "with --url: its first key is sent",
     FLAG_TEXT, FLAG_FIELD(bench_target_options, api_key_file), .needs = "--url"},
    {"--timeout", "SECONDS", "of a server: for one request as a whole (default 600)",
     FLAG_U32, FLAG_FIELD(bench_target_options, timeout_seconds),
     .min = 1, .max = LIMIT_BENCH_SECONDS, .needs = "--url --compare-blocking"},
    {"--same-prompts", NULL, "ask the prompts of an earlier invocation with this seed again, to\n"
                             "measure caches; without it each invocation has prompts of its own",
     FLAG_BOOL, FLAG_FIELD(bench_target_options, same_prompts)},
    {"--tokenizer", "PATH", "with --url: a GGUF file whose tokenizer counts prompt tokens",
     FLAG_TEXT, FLAG_FIELD(bench_target_options, tokenizer), .needs = "--url"},
};
// clang-format on

struct flag_group bench_common_target_flags(struct bench_target_options *o)
{
    if (!o->options.engine_name) { /* options_default is no constant expression */
        const char *model = o->options.model;
        o->options = options_default;
        o->options.model = model;
    }
    return (struct flag_group)FLAG_GROUP(target_flags, o);
}

uint64_t bench_common_salt(const struct bench_target_options *o)
{
    uint64_t salt = 0;
    while (salt == 0 && !o->same_prompts)
        REQUIRE(getrandom(&salt, sizeof salt, 0) == (ssize_t)sizeof salt);
    return salt;
}

/* Only where it is so: files that older programs wrote compare with those of today. */
json_t *bench_common_workload(const struct bench_target_options *o, json_t *workload)
{
    if (!o->same_prompts || json_object_set_new(workload, "same_prompts", json_true()) == 0)
        return workload;
    json_decref(workload);
    return NULL;
}

static enum status bench_common_open_engine(struct bench_target *out,
                                            struct bench_target_options *o, uint32_t n_slots,
                                            struct err *err)
{
    enum status status = options_check(&o->options, err);
    if (status == STATUS_OK && n_slots > LIMIT_BENCH_IN_ENGINE)
        status = err_param(err, STATUS_INVALID, "--max-concurrency",
                           "%u requests at once; an engine in this process takes %d: give "
                           "--max-concurrency",
                           n_slots, LIMIT_BENCH_IN_ENGINE);
    if (status == STATUS_OK)
        status = options_engine(&o->options, &out->engine, err);
    if (status == STATUS_OK)
        status = options_load(&o->options, &out->loader, err);
    if (status != STATUS_OK)
        return status;
    out->tokenizer = out->loader.tokenizer;
    out->engine.n_slots = n_slots;
    return target_open_engine(&out->target, &out->loader, &out->engine, err);
}

static enum status open_url(struct bench_target *out, const struct bench_target_options *o,
                            uint32_t n_slots, struct err *err)
{
    const struct http_options options = {
        .url = o->url,
        .api_key_file = o->api_key_file,
        .model = o->options.model,
        .timeout_seconds = o->timeout_seconds,
        .max_connections = n_slots,
    };
    enum status status = STATUS_OK;
    if (o->tokenizer && loader_open(&out->loader, o->tokenizer, NULL, NULL, err) != STATUS_OK)
        status = err_context(err, "--tokenizer");
    if (status == STATUS_OK)
        status = target_open_url(&out->target, &options, err);
    if (status == STATUS_OK)
        out->tokenizer = out->loader.tokenizer;
    return status;
}

static enum status bench_common_describe(struct bench_target *t,
                                         const struct bench_target_options *o, struct err *err)
{
    const struct options *options = &o->options;
    snprintf(t->model, sizeof t->model, "%s", t->target->model);
    snprintf(t->engine_name, sizeof t->engine_name, "%s", t->target->engine);
    struct environment e = {
        .target = o->url ? o->url : "in-process",
        .engine = o->url ? NULL : t->engine_name,
        .model = t->model,
        .model_path = o->url ? NULL : options->model,
        .threads = o->url ? 0 : options->engine.n_threads,
        .cpu_levels = o->url ? 0 : options->engine.cpu_levels,
        .has_engine_options = !o->url,
    };
    if (!o->url) {
        e.activations = options->engine.activations;
        e.kv_type = options->engine.kv_type;
    }
    return environment_json(&t->environment, &e, err);
}

/* Threads that start while this holds leave SIGINT to the thread that measures. */
static void hold_interrupt(int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    pthread_sigmask(how, &set, NULL);
}

enum status bench_common_open(struct bench_target *out, struct bench_target_options *o,
                              uint32_t n_slots, struct err *err)
{
    *out = (struct bench_target){0};
    hold_interrupt(SIG_BLOCK);
    enum status status =
        o->url ? open_url(out, o, n_slots, err) : bench_common_open_engine(out, o, n_slots, err);
    hold_interrupt(SIG_UNBLOCK);
    if (status == STATUS_OK)
        status = bench_common_describe(out, o, err);
    return status;
}

void bench_common_close(struct bench_target *t)
{
    if (t->target)
        t->target->ops->close(t->target);
    json_decref(t->environment);
    loader_close(&t->loader);
    *t = (struct bench_target){0};
}

enum status bench_common_restart(void *arg, struct target **t, struct err *err)
{
    struct bench_target *b = arg;
    b->target->ops->close(b->target);
    b->target = NULL;
    hold_interrupt(SIG_BLOCK);
    enum status status = target_open_engine(&b->target, &b->loader, &b->engine, err);
    hold_interrupt(SIG_UNBLOCK);
    *t = b->target;
    return status;
}

void bench_common_start_each(struct measure_options *m, struct bench_target *t)
{
    if (!t->target->in_process || m->repeat_runs < 2)
        return;
    m->restart = bench_common_restart;
    m->restart_arg = t;
}

/* --- benchmarks of requests ----------------------------------------------------------------- */

/* At most ten lines a second: what is measured pays for writing them. */
static void bench_common_show_progress(void *arg, uint32_t run, uint32_t n_runs, uint32_t ended,
                                       uint32_t failed, uint32_t n)
{
    static int64_t last_us;
    int64_t now = clock_now_us();
    const char *what = arg;
    bool edge = ended == 0 || ended == n;
    if (!isatty(STDERR_FILENO) || (now - last_us < PROGRESS_EVERY_US && !edge))
        return;
    last_us = now;
    fprintf(stderr, "\r\033[K%s%srun %u of %u: %u of %u requests", what ? what : "",
            what ? ": " : "", run + 1, n_runs, ended, n);
    if (failed > 0)
        fprintf(stderr, ", %u failed", failed);
    fflush(stderr);
}

struct measure_options bench_common_measure(const struct bench_common *c,
                                            const struct tokenizer *tokenizer,
                                            const atomic_bool *stop)
{
    return (struct measure_options){
        .warmup_runs = c->warmup_runs,
        .repeat_runs = c->repeat_runs,
        .tokenizer = tokenizer,
        .stop = stop,
        .progress = bench_common_show_progress,
    };
}

enum status bench_common_parse_goodput(void *field, const char *text, struct err *err)
{
    if (summary_parse_goodput(text, field, err) != STATUS_OK)
        return err_context(err, "--goodput");
    return STATUS_OK;
}

const struct goodput *bench_common_goodput(const struct goodput *g)
{
    return g->ttft_ms > 0 || g->tpot_ms > 0 || g->e2el_ms > 0 ? g : NULL;
}

static void put_table(struct buf *table, const struct bench_requests *r)
{
    const struct options *options = &r->options->options;
    const bool in_process = !r->options->url;
    const struct engine_kind *kind =
        in_process ? engine_kind_find(options->engine_name, NULL) : NULL;
    const struct streaming_setup setup = {
        .model = r->target->model,
        .engine = r->target->engine_name,
        .in_process = in_process,
        .sync = kind && kind->mode == ENGINE_SYNC,
        .max_batch =
            options->engine.max_batch_seqs > 0 ? options->engine.max_batch_seqs : LIMIT_BATCH_SEQS,
        .prefill_batch = options->engine.max_step_prompts,
        .prefill_tokens = options->engine.max_step_prompt_tokens,
        .repeat_runs = r->common->repeat_runs,
    };
    table->failed |= !streaming_table(table, r->measurement, &setup, r->goodput);
}

/* 0: no bound */
static json_t *count_json(uint32_t n)
{
    return n > 0 ? json_integer(n) : json_null();
}

/* A batch belongs to the program measured, not to what was asked: files that differ in it compare.
 */
static void set_settings(struct result *out, const struct bench_requests *r)
{
    const struct options *options = &r->options->options;
    if (!r->options->url)
        result_set(out, "batch",
                   json_pack("{s:o, s:o, s:o}", "max_batch_size",
                             count_json(options->engine.max_batch_seqs), "prefill_max_batch_size",
                             count_json(options->engine.max_step_prompts), "prefill_max_tokens",
                             count_json(options->engine.max_step_prompt_tokens)));
    if (r->goodput)
        result_set(out, "goodput",
                   json_pack("{s:f, s:f, s:f}", "ttft_ms", r->goodput->ttft_ms, "tpot_ms",
                             r->goodput->tpot_ms, "e2el_ms", r->goodput->e2el_ms));
}

enum status bench_common_requests(const struct bench_requests *r, const char *kind,
                                  json_t *workload, struct buf *table, struct err *err)
{
    struct result result;
    put_table(table, r);
    result_init(&result, kind, r->common->note, bench_common_workload(r->options, workload),
                r->target->environment);
    r->target->environment = NULL;
    set_settings(&result, r);
    measure_result(r->measurement, r->goodput, &result);
    return bench_common_publish(r->common, table, &result, err);
}

/* --- progress and interruption -------------------------------------------------------------- */

void bench_common_progress_clear(void)
{
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}

static atomic_bool interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    atomic_store(&interrupted, true);
}

const atomic_bool *bench_common_catch_interrupt(void)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    return &interrupted;
}

int bench_common_exit(const char *command, enum status status, const struct err *err)
{
    int code = status == STATUS_OK ? EXIT_SUCCESS : flags_fail(command, err);
    return atomic_load(&interrupted) ? FLAGS_INTERRUPTED : code;
}
