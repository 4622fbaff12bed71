/* What the `bench` subcommands share: common flags, where results go, and opening a target. */
#ifndef FIRSTLIGHT_CLI_BENCH_COMMON_H
#define FIRSTLIGHT_CLI_BENCH_COMMON_H

#include "base/buf.h"
#include "bench/load/measure.h"
#include "bench/load/target.h"
#include "bench/result/result.h"
#include "cli/flags.h"
#include "cli/options.h"

#define BENCH_COMMON_MAX_SEED        9007199254740991.0 /* 2^53 - 1: JSON readers keep it exactly */
#define BENCH_COMMON_TIMEOUT_SECONDS 600                /* of a request to a server */

struct bench_common {
    const char *output; /* NULL: none; "-": standard output, and the table goes to stderr */
    const char *note;
    uint64_t seed;
    uint32_t warmup_runs, repeat_runs;
};
extern const struct bench_common bench_common_default;        /* seed 0, 1 warm-up, 1 repeat */
struct flag_group bench_common_flags(struct bench_common *c); /* --output --note --seed ... */

/* Before anything is measured: a wrong path costs no minutes. What is there is kept until the
 * result is written. */
enum status bench_common_check(const struct bench_common *c, struct err *err);
/* Makes it plain (utf8.h) and prints it to stdout, or to stderr beside "-". A table that memory was
 * short for is printed as far as it goes, and STATUS_NO_MEMORY. */
enum status bench_common_print(const struct bench_common *c, struct buf *table, struct err *err);
enum status bench_common_write(const struct bench_common *c, const struct result *r,
                               struct err *err);

/* Prints the table and writes the result. Frees both. */
enum status bench_common_publish(const struct bench_common *c, struct buf *table,
                                 struct result *result, struct err *err);
/* The same, and fails when requests have failed. */
enum status bench_common_finish(const struct bench_common *c, struct buf *table,
                                struct result *result, const struct measurement *m,
                                struct err *err);

/* Who is measured. */
struct bench_target_options {
    struct options options; /* --model is a path in-process, a name with --url */
    const char *url;        /* NULL: an engine in this process */
    const char *api_key_file;
    uint32_t timeout_seconds;
    const char *tokenizer; /* --tokenizer PATH: exact prompt lengths with --url */
    bool same_prompts;     /* of invocations with the same seed */
};
extern const struct bench_target_options bench_common_target;
struct flag_group
bench_common_target_flags(struct bench_target_options *o); /* --url --api-key-file ... */

/* Of the prompts of this invocation, drawn anew by each call; 0 with --same-prompts. */
uint64_t bench_common_salt(const struct bench_target_options *o);
/* A result's `workload`, which is taken, with what it says of that; NULL stays NULL. */
json_t *bench_common_workload(const struct bench_target_options *o, json_t *workload);

struct bench_target {
    struct target *target;             /* NULL after a restart that failed */
    const struct tokenizer *tokenizer; /* NULL: unknown */
    json_t *environment;               /* steal it for the result (then it is NULL) */
    struct loader loader;              /* empty with a URL and no --tokenizer */
    struct engine_options engine;      /* of the engine in this process */
    char model[128], engine_name[128]; /* the target's, which a failed restart leaves without */
};
/* `n_slots` requests at once. */
enum status bench_common_open(struct bench_target *out, struct bench_target_options *o,
                              uint32_t n_slots, struct err *err);
void bench_common_close(struct bench_target *t);
/* measure_options' restart of a struct bench_target: its engine of this process is closed and
 * opened anew, with the same options and the same loader. */
enum status bench_common_restart(void *arg, struct target **t, struct err *err);
/* Sets it where it applies: an engine in this process, and more than one repeat. */
void bench_common_start_each(struct measure_options *m, struct bench_target *t);

/* The part of measure_options that is the same in all of them; progress goes to stderr when that is
 * a terminal, and its arg is what runs, as text, or NULL. */
struct measure_options bench_common_measure(const struct bench_common *c,
                                            const struct tokenizer *tokenizer,
                                            const atomic_bool *stop);
/* FLAG_CUSTOM's, of a struct goodput; and NULL where none was given. */
enum status bench_common_parse_goodput(void *field, const char *text, struct err *err);
const struct goodput *bench_common_goodput(const struct goodput *g);
/* A benchmark of requests that has been measured. */
struct bench_requests {
    const struct bench_common *common;
    const struct bench_target_options *options;
    struct bench_target *target; /* its environment becomes the result's */
    struct measurement *measurement;
    const struct goodput *goodput; /* NULL: none asked for */
};
/* Publishes the table of bench streaming behind what is in *table, which is freed, and a result of
 * that kind with `workload`, which is taken. */
enum status bench_common_requests(const struct bench_requests *r, const char *kind,
                                  json_t *workload, struct buf *table, struct err *err);

void bench_common_progress_clear(void); /* of a run that bench_common_measure describes */
/* SIGINT sets it; a second SIGINT ends the program. Call once, before threads. */
const atomic_bool *bench_common_catch_interrupt(void);
/* Says what is wrong, if anything; the exit code is then 1, and after an interruption that of a
 * shell for SIGINT. */
int bench_common_exit(const char *command, enum status status, const struct err *err);

#endif
