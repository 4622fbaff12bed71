/* The seam between the engine and whatever computes: a backend runs steps over a ragged batch.
 *
 * The backend owns KV storage and activations; the engine owns block ids, so that KV can live on a
 * device. A step is begun with a batch, advanced by layers (the engine may look around between
 * layers) and finished; only then are its results readable and its KV blocks written for good.
 *
 *     step_begin(batch) -> step_advance(n layers) ... -> step_finish -> logits of the output rows
 *                              ├─ step_drop(request): its rows are no longer computed
 *                              └─ step_park ... whole other steps ... step_resume
 *
 * A parked step keeps its rows and its layer, so that a long prompt's step can stand aside for a
 * short one's between two layers; at most one is parked.
 *
 * All calls come from the engine thread, which is worker 0 of the backend's pool. After kv_create
 * nothing is allocated. A KV block is KV_BLOCK positions of one sequence in every layer.
 */
#ifndef FIRSTLIGHT_BACKEND_BACKEND_H
#define FIRSTLIGHT_BACKEND_BACKEND_H

#include "base/err.h"
#include "base/pool.h"
#include "model/model.h"

#include <stdbool.h>
#include <stdint.h>

enum activations { ACTIVATIONS_INT8, ACTIVATIONS_F32 };

struct backend_options {
    int n_threads;                /* >= 1, the engine thread included */
    uint32_t cpu_levels;          /* kernel levels to use (cpu.h), already masked */
    enum activations activations; /* F32: the exact path */
    enum kv_type kv_type;
    uint32_t max_rows;    /* rows (tokens) of one step */
    uint32_t max_outputs; /* output rows of one step */
    uint32_t max_seqs;    /* sequences of one step */
    uint32_t n_ctx;       /* positions of one sequence */
};

enum batch_output { OUTPUT_NONE, OUTPUT_LAST, OUTPUT_ALL };

/* Some consecutive tokens of one sequence: a chunk of a prompt, or one decode. */
struct batch_seq {
    uint32_t request;       /* the engine's number for it, for step_drop */
    const int32_t *tokens;  /* n_tokens ids, borrowed until step_finish */
    uint32_t n_tokens;      /* >= 1 */
    uint32_t n_past;        /* positions before them, already in the cache */
    const uint32_t *blocks; /* block ids covering positions 0 .. n_past + n_tokens - 1 */
    enum batch_output output;
};

struct batch {
    const struct batch_seq *seqs; /* borrowed until step_finish */
    uint32_t n_seqs;
};

/* Rows in the order of the batch's output rows. A dropped sequence's rows are undefined. */
struct step_result {
    const float *logits; /* (n_rows, n_vocab), valid until the next step_begin */
    uint32_t n_rows;
};

struct backend_memory {
    size_t weights;  /* mapped, or copied to the device */
    size_t repacked; /* made at open */
    size_t kv;       /* after kv_create */
    size_t activations;
};

struct backend;

/* One row per backend; a table in backend.c lists them. */
struct backend_ops {
    const char *name;
    /* Can it run here? If not, says why. */
    bool (*available)(char *why, size_t why_size);
    /* What `open` will repack weights into, for whoever sizes the KV pool; NULL: nothing. */
    size_t (*repacked_bytes)(const struct model *model, enum activations activations);
    /* The model must outlive the backend. */
    enum status (*open)(struct backend **out, const struct model *model,
                        const struct backend_options *options, struct err *err);
    void (*close)(struct backend *b);
    enum status (*kv_create)(struct backend *b, uint32_t n_blocks, struct err *err);
    /* Copies the first n_positions of block `from` to block `to`, all layers. */
    void (*kv_copy)(struct backend *b, uint32_t to, uint32_t from, uint32_t n_positions);
    void (*step_begin)(struct backend *b, const struct batch *batch);
    /* Runs up to n_layers more layers; true when all layers are done. */
    bool (*step_advance)(struct backend *b, uint32_t n_layers);
    /* The request's rows need not be computed any further, in the step under way and in the parked
     * one. Between advances only. */
    void (*step_drop)(struct backend *b, uint32_t request);
    /* Puts the step under way aside, before its last layer is done; its batch stays borrowed. */
    void (*step_park)(struct backend *b);
    /* After the other step's step_finish: the parked step is under way again. */
    void (*step_resume)(struct backend *b);
    void (*step_finish)(struct backend *b, struct step_result *out);
    void (*memory)(const struct backend *b, struct backend_memory *out);
    /* Any thread; NULL: it does not know. */
    void (*usage)(const struct backend *b, struct pool_usage *out);
};

/* Every backend begins with this. */
struct backend {
    const struct backend_ops *ops;
    const struct model *model;
    struct backend_options options;
};

/* The row of that name; NULL when there is none. Row i, NULL past the end. */
const struct backend_ops *backend_find(const char *name);
const struct backend_ops *backend_at(size_t i);

/* Whole steps for callers that need no layer-wise control. */
void backend_step(struct backend *b, const struct batch *batch, struct step_result *out);

extern const struct backend_ops cpu_backend; /* backend/cpu/ */

#endif
