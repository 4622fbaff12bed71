/* A JSON file, read whole and checked strictly (no duplicate keys, UTF-8, a size limit). */
#ifndef FIRSTLIGHT_WEIGHTS_JSON_FILE_H
#define FIRSTLIGHT_WEIGHTS_JSON_FILE_H

#include "base/err.h"

#include <jansson.h>

/* An object, to be decref'ed by the caller. Errors name the file: STATUS_NOT_FOUND when there is
 * none, STATUS_TOO_LARGE above `limit` bytes, else STATUS_INVALID with the line. */
enum status json_file_load(json_t **out, const char *path, size_t limit, struct err *err);

/* The same from bytes in memory; the error names no file. */
enum status json_file_parse(json_t **out, const void *bytes, size_t len, struct err *err);

#endif
