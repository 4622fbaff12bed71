/* A regular file, mapped read-only. Its errors do not name the file. The file must stay unchanged
 * while it is mapped: what is written into it shows up here, and what is cut off reads as zeros, of
 * which map_guard_check tells. */
#ifndef FIRSTLIGHT_WEIGHTS_FILE_MAP_H
#define FIRSTLIGHT_WEIGHTS_FILE_MAP_H

#include "base/err.h"

#include <stddef.h>

struct file_map {
    const unsigned char *bytes; /* NULL for an empty file */
    size_t len;
};

/* Anything but a regular file is STATUS_INVALID; one that does not exist STATUS_NOT_FOUND. */
enum status file_map_open(struct file_map *m, const char *path, struct err *err);
void file_map_close(struct file_map *m);

#endif
