/* Everything that a model file or folder gives: weights, tokenizer, chat template. Opened and
 * closed as one. */
#ifndef FIRSTLIGHT_MODEL_LOAD_LOADER_H
#define FIRSTLIGHT_MODEL_LOAD_LOADER_H

#include "base/err.h"
#include "model/generation.h"
#include "model/load/model_file.h"
#include "text/template/template.h"

#include <stdbool.h>

struct loader {
    struct model_file file;
    struct model *model;
    struct tokenizer *tokenizer;
    struct template *chat_template;    /* NULL when the file has none, or one we cannot compile */
    struct err template_err;           /* why not, in the latter case; else all zero */
    struct sampling_values generation; /* what is recommended for sampling */
    char name[128];                    /* the file's name without ".gguf", or the folder's */
};

/* Called with what is being done and how much of it (0 .. 1). May be NULL. */
typedef void loader_progress(void *arg, const char *what, double fraction);

struct loader_options {
    const char *path;
    bool model_only; /* no tokenizer, no chat template, nothing recommended: NULL both */
    bool lazy;       /* the weights' pages are left on the disk until they are used */
    bool dummy;      /* path is a config.json: random weights of that shape, of type dtype */
    bool recast;     /* quantise the weights to dtype, on n_threads threads */
    enum tensor_type dtype;
    int n_threads;
    const char *chat_template; /* a file instead of the model's own; NULL: none */
    bool ignore_generation;    /* nothing is recommended */
    loader_progress *progress;
    void *arg;
};

enum status loader_open_with(struct loader *out, const struct loader_options *o, struct err *err);

enum status loader_open(struct loader *out, const char *path, loader_progress *progress, void *arg,
                        struct err *err);

/* Whether the model's files are still whole: STATUS_UNAVAILABLE, which names the file, once pages
 * of it were asked for that are gone. Results computed before an answer of STATUS_OK are good,
 * later ones are garbage. Any thread; cheap enough for every step; allocates nothing. */
enum status loader_check(const struct loader *l, struct err *err);

/* Gives back the memory of the matrices that a backend has repacked: all but the embedding. They
 * stay mapped; what is read again comes from the file. */
void loader_release(const struct loader *l);

void loader_close(struct loader *l); /* also after a failed open */

#endif
