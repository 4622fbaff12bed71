/* Where and with what a result was measured. */
#ifndef FIRSTLIGHT_BENCH_RESULT_ENVIRONMENT_H
#define FIRSTLIGHT_BENCH_RESULT_ENVIRONMENT_H

#include "base/err.h"
#include "engine/engine.h"

#include <jansson.h>

struct environment {
    const char *target;     /* "in-process", "own server" (a child process) or the URL */
    const char *engine;     /* NULL: unknown */
    const char *model;      /* name */
    const char *model_path; /* NULL: unknown; else its sha256 is taken */
    uint32_t threads;       /* 0: unknown */
    uint32_t cpu_levels;    /* as masked */
    enum activations activations;
    enum kv_type kv_type;
    bool has_engine_options; /* false (a server's): cpu_levels, activations and kv_type are null */
    bool has_levels;         /* cpu_levels alone is known */
};

/* New; cpu, levels, threads, kernel, compiler, version, commit, engine, model, model_sha256, ...
 * With a URL the machine's part still describes the client's machine and says so. */
enum status environment_json(json_t **out, const struct environment *e, struct err *err);

#endif
