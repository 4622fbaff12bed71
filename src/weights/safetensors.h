/* Safetensors files (https://huggingface.co/docs/safetensors), one or a sharded set.
 *
 *     ┌ 8 ┬──── header (JSON) ────┬────────── data ──────────┐
 *     │ n │ {"w": {"dtype": ...}} │ tensors without any gaps │
 *       └─ n bytes ──────────────►
 *
 * Files are mapped read-only; tensors are pointers into the mappings, at any alignment. Nothing is
 * believed: dtype, shape and offsets of each tensor are checked against each other and against the
 * file, and the tensors must cover the data exactly, as the format wants it. Errors name file and
 * tensor. Immutable after opening; any thread may read.
 */
#ifndef FIRSTLIGHT_WEIGHTS_SAFETENSORS_H
#define FIRSTLIGHT_WEIGHTS_SAFETENSORS_H

#include "base/err.h"
#include "weights/tensor.h"

struct safetensors;

#define SAFETENSORS_MAX_DIMS 8

struct safetensors_tensor {
    const char *name;
    const char *dtype; /* as the format spells it: "BF16" */
    bool is_weight;    /* F32, F16 or BF16: `type` is set */
    enum tensor_type type;
    uint32_t n_dims;                     /* 0: one value */
    uint64_t dims[SAFETENSORS_MAX_DIMS]; /* slowest-running first; unused ones are 1 */
    const void *data;
    size_t size;      /* bytes */
    size_t offset;    /* in its file */
    const char *file; /* its path */
};

/* One file. */
enum status safetensors_open(struct safetensors **out, const char *path, struct err *err);

/* The weights in a folder: model.safetensors, or else the files that model.safetensors.index.json
 * lists. The index says which file each tensor is read from. */
enum status safetensors_open_folder(struct safetensors **out, const char *folder, struct err *err);

/* `len` bytes in memory, which must outlive the result. */
enum status safetensors_parse(struct safetensors **out, const void *bytes, size_t len,
                              struct err *err);
void safetensors_close(struct safetensors *s);

/* Tensors are in the order of their names. */
size_t safetensors_count(const struct safetensors *s);
const struct safetensors_tensor *safetensors_at(const struct safetensors *s, size_t i);
const struct safetensors_tensor *safetensors_find(const struct safetensors *s, const char *name);

/* A name that a file chose, in quotes and fit for an error's line; returns out. */
#define SAFETENSORS_SHOWN 128
const char *safetensors_show(const char *name, char out[static SAFETENSORS_SHOWN]);

size_t safetensors_file_size(const struct safetensors *s); /* of all files together */

#endif
