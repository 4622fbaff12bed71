/* The JSON report of `firstlight inspect`. jansson keeps the order of keys; every value it cannot
 * hold (bytes that are not UTF-8, numbers that are not finite or above INT64_MAX) becomes a string
 * or loses only the offending bytes, so that any file that parses gives valid JSON. */
#include "base/buf.h"
#include "base/utf8.h"
#include "cli/inspect_report.h"
#include "cli/report.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

/* Arrays longer than this are shown by their first elements. */
#define WHOLE_ARRAY    64
#define FIRST_ELEMENTS 8

/* The functions that make values return NULL when memory is short; jansson passes that on, so that
 * it is checked once, at the end. */
static json_t *string_json(struct gguf_string s)
{
    return report_text(s.bytes, s.len);
}

static json_t *float_json(double x)
{
    if (isnan(x))
        return json_string("NaN");
    if (isinf(x))
        return json_string(x > 0 ? "Infinity" : "-Infinity");
    return json_real(x);
}

static json_t *integer_json(const struct gguf_value *v)
{
    if (v->type == GGUF_U64 && gguf_unsigned(v, 0) > INT64_MAX)
        return json_sprintf("%" PRIu64, gguf_unsigned(v, 0));
    return json_integer(gguf_integer(v, 0));
}

static json_t *inspect_json_value_json(const struct gguf_value *v);

static json_t *elements_json(const struct gguf_value *v, uint64_t count)
{
    struct gguf_cursor c = {0, 0};
    json_t *list = json_array();
    for (uint64_t i = 0; i < count; i++) {
        struct gguf_value element = gguf_element(v, i, &c);
        if (json_array_append_new(list, inspect_json_value_json(&element)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *array_json(const struct gguf_value *v)
{
    if (v->count <= WHOLE_ARRAY)
        return elements_json(v, v->count);
    return json_pack("{s:s, s:I, s:o}", "type", gguf_type_name(v->element), "count",
                     (json_int_t)v->count, "first", elements_json(v, FIRST_ELEMENTS));
}

static json_t *inspect_json_value_json(const struct gguf_value *v)
{
    struct gguf_cursor start = {0, 0};
    switch (v->type) {
    case GGUF_ARRAY:
        return array_json(v);
    case GGUF_STRING:
        return string_json(gguf_array_string(v, 0, &start));
    case GGUF_BOOL:
        return json_boolean(gguf_integer(v, 0));
    case GGUF_F32:
    case GGUF_F64:
        return float_json(gguf_number(v, 0));
    default:
        return integer_json(v);
    }
}

static json_t *metadata_json(const struct gguf *g)
{
    json_t *object = json_object();
    struct buf key = {0};
    bool ok = object != NULL;
    for (size_t i = 0; i < gguf_value_count(g) && ok; i++) {
        const struct gguf_value *v = gguf_value_at(g, i);
        buf_clear(&key);
        utf8_append(&key, v->key.bytes, v->key.len);
        ok = !key.failed &&
             json_object_setn_new(object, key.data, key.len, inspect_json_value_json(v)) == 0;
    }
    buf_fini(&key);
    if (ok)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *tensor_json(const struct gguf *g, const struct tensor *t)
{
    json_t *shape = json_array();
    for (uint32_t d = 0; d < t->n_dims; d++)
        json_array_append_new(shape, json_integer((json_int_t)t->dims[d]));
    struct gguf_string name = {t->name, strlen(t->name)};
    return json_pack("{s:o, s:s, s:o, s:I, s:I}", "name", string_json(name), "type",
                     tensor_type_name(t->type), "shape", shape, "size", (json_int_t)t->size,
                     "offset", (json_int_t)gguf_tensor_offset(g, t));
}

static json_t *tensors_json(const struct gguf *g)
{
    json_t *list = json_array();
    for (size_t i = 0; i < gguf_tensor_count(g); i++) {
        if (json_array_append_new(list, tensor_json(g, gguf_tensor_at(g, i))) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *totals_json(const struct inspect_totals *totals)
{
    return json_pack("{s:I, s:I, s:I}", "tensors", (json_int_t)totals->tensors, "parameters",
                     (json_int_t)totals->parameters, "bytes", (json_int_t)totals->bytes);
}

enum status inspect_json_print(const struct gguf *g, const struct inspect_totals *totals, FILE *out,
                               struct err *err)
{
    struct gguf_string path = {gguf_path(g), strlen(gguf_path(g))};
    json_t *root = json_pack("{s:o, s:I, s:I, s:o, s:o, s:o}", "path", string_json(path), "version",
                             (json_int_t)gguf_version(g), "file_size",
                             (json_int_t)gguf_file_size(g), "metadata", metadata_json(g), "tensors",
                             tensors_json(g), "totals", totals_json(totals));
    if (!root)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the JSON of %s", gguf_path(g));
    json_dumpf(root, out, JSON_INDENT(2)); /* a write error stays in ferror(out) */
    fputc('\n', out);
    json_decref(root);
    return STATUS_OK;
}
