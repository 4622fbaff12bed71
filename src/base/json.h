/* JSON in and out.
 *
 * In: jansson parses (strictly: duplicates, NaN, depth and bad UTF-8 are errors with line and
 * column), then one getter per kind of field checks type and range and names what it expected and
 * found. Out: text straight into a buf; the server builds no trees to answer.
 */
#ifndef FIRSTLIGHT_BASE_JSON_H
#define FIRSTLIGHT_BASE_JSON_H

#include "base/buf.h"
#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Values of a text: parsed, each takes many times its bytes, so their number is bounded before. */
struct json_count {
    size_t containers; /* objects and arrays */
    size_t strings;    /* names of fields among them */
    size_t numbers;    /* and true, false, null */
};
enum status json_count_check(const struct json_count *n, struct err *err); /* STATUS_TOO_LARGE */

/* A new reference to an object. */
enum status json_parse(const char *text, size_t len, json_t **out, struct err *err);

/* Fields of an object: absent or null leaves *out as it is. */
enum status json_field_bool(const json_t *o, const char *name, bool *out, struct err *err);
/* A whole number in [min, max]; 5.0 counts as 5. */
enum status json_field_int(const json_t *o, const char *name, int64_t min, int64_t max,
                           int64_t *out, struct err *err);
/* A number in [min, max], or in (min, max] with `above`. */
enum status json_field_real(const json_t *o, const char *name, bool above, double min, double max,
                            float *out, struct err *err);
/* Borrowed from o. */
enum status json_field_text(const json_t *o, const char *name, const char **out, struct err *err);

/* A value as a whole number in [min, max]; `name` is for the error. */
enum status json_whole(const json_t *v, const char *name, int64_t min, int64_t max, int64_t *out,
                       struct err *err);
enum status json_number(const json_t *v, const char *name, bool above, double min, double max,
                        double *out, struct err *err);

/* "a string", "null", "5": what was found, short, for error texts. Returns out. */
const char *json_found(const json_t *v, char *out, size_t out_size);

/* Appends a string literal with its quotes: UTF-8 as it is, with control characters, U+0085, U+2028
 * and U+2029 escaped (they end lines for some readers); bytes that are no UTF-8 become U+FFFD. */
void json_put_text(struct buf *out, const char *text, size_t len);
/* The same for a C string; NULL gives null. */
void json_put(struct buf *out, const char *text);
/* Microseconds as milliseconds with three decimals, exact. */
void json_put_ms(struct buf *out, int64_t us);

#endif
