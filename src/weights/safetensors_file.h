/* One safetensors file: mapping, header, tensors. Private to src/weights; safetensors.h has the
 * format. */
#ifndef FIRSTLIGHT_WEIGHTS_SAFETENSORS_FILE_H
#define FIRSTLIGHT_WEIGHTS_SAFETENSORS_FILE_H

#include "weights/file_map.h"
#include "weights/safetensors.h"

#include <jansson.h>

struct safetensors_file {
    char *path;
    struct file_map map;                /* empty when the bytes are the caller's */
    json_t *header;                     /* owns the tensors' names */
    struct safetensors_tensor *tensors; /* (n_tensors) by name */
    size_t n_tensors;
    size_t size; /* bytes */
};

/* Both leave something for safetensors_file_close also after an error. */
enum status safetensors_file_open(struct safetensors_file *f, const char *path, struct err *err);
enum status safetensors_file_parse(struct safetensors_file *f, const void *bytes, size_t len,
                                   struct err *err);
void safetensors_file_close(struct safetensors_file *f);

/* NULL when absent. */
const struct safetensors_tensor *safetensors_file_find(const struct safetensors_file *f,
                                                       const char *name);

#endif
