/* GGUF files, versions 2 and 3 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
 *
 * The whole file is mapped read-only; metadata is parsed into an index, tensors are pointers into
 * the mapping. Nothing in the file is believed: every count, length, dimension and offset is
 * checked against the bytes that remain, with checked arithmetic, before anything is allocated for
 * it. Immutable after opening; any thread may read. The file must stay unchanged while it is open:
 * weights/map_guard.h says what becomes of one that is cut short.
 */
#ifndef FIRSTLIGHT_WEIGHTS_GGUF_H
#define FIRSTLIGHT_WEIGHTS_GGUF_H

#include "base/err.h"
#include "weights/tensor.h"

struct gguf;

enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPES
};

struct gguf_string {
    const char *bytes; /* not terminated */
    size_t len;
};

/* One metadata pair. Borrowed from the file. */
struct gguf_value {
    struct gguf_string key; /* empty for an element of an array */
    enum gguf_type type;
    enum gguf_type element; /* of an array; `type` otherwise */
    uint64_t count;         /* elements of an array, 1 otherwise */
    const void *data;       /* `count` elements as the file has them: little-endian, unaligned */
};

/* Maps and parses the file at `path`. One part of a split model ("NAME-00001-of-00003.gguf") opens
 * all of them as one; parts that are missing are named. Errors name the file and what was expected
 * and found. */
enum status gguf_open(struct gguf **out, const char *path, struct err *err);

/* The file at `path` alone, even if it is a part of a split model. */
enum status gguf_open_part(struct gguf **out, const char *path, struct err *err);

/* Parses `len` bytes in memory, which must outlive the result: what gguf_open does after mapping,
 * and what the fuzz target calls. */
enum status gguf_parse(struct gguf **out, const void *bytes, size_t len, struct err *err);
void gguf_close(struct gguf *g);

/* A model whose tensors do not lie behind its metadata: parts of a split file, a Hugging Face
 * folder, weights that were quantised when they were loaded. */
struct gguf_assembly {
    const char *path;     /* for messages; copied */
    const void *metadata; /* a GGUF file's bytes from its magic to its last pair, at least */
    size_t metadata_len;
    const struct tensor *tensors; /* names of up to LIMIT_GGUF_TENSOR_NAME bytes; copied */
    const size_t
        *offsets; /* of the tensors in their mapped files; 0: in none; NULL: all 0; copied */
    size_t n_tensors;
    size_t file_size; /* of all files together */
    /* gguf_close ends with release(take_owned), which frees metadata and data; may be NULL. After
     * an error it is not called. */
    void (*release)(void *take_owned);
    void *take_owned;
};
enum status gguf_assemble(struct gguf **out, const struct gguf_assembly *a, struct err *err);

/* Gives back the whole pages of memory that a tensor in a mapped file takes. It stays readable:
 * what is read again comes from the file. Does nothing for bytes that are in no file, as after
 * gguf_parse. */
void gguf_release(const struct gguf *g, const struct tensor *t);

const char *gguf_path(const struct gguf *g); /* "(memory)" after gguf_parse */
uint32_t gguf_version(const struct gguf *g);
size_t gguf_file_size(const struct gguf *g);               /* of all parts */
const void *gguf_bytes(const struct gguf *g, size_t *len); /* what was parsed */

/* Tensors and pairs are numbered in the file's order; look-ups by name are binary searches. */
size_t gguf_tensor_count(const struct gguf *g);
const struct tensor *gguf_tensor_at(const struct gguf *g, size_t i);
size_t gguf_tensor_offset(const struct gguf *g, const struct tensor *t); /* from the file's start */
const struct tensor *gguf_tensor(const struct gguf *g, const char *name); /* NULL when absent */

size_t gguf_value_count(const struct gguf *g);
const struct gguf_value *gguf_value_at(const struct gguf *g, size_t i);
const struct gguf_value *gguf_value(const struct gguf *g, const char *key); /* NULL when absent */

/* Typed look-ups. gguf_get_u32 takes any integer type that fits, gguf_get_f32 any number type whose
 * value is finite as a float. They return STATUS_NOT_FOUND when the key is absent and
 * STATUS_INVALID when it has another type or does not fit, with *err naming the key but not the
 * file; *out is untouched then. */
enum status gguf_get_u32(const struct gguf *g, const char *key, uint32_t *out, struct err *err);
enum status gguf_get_f32(const struct gguf *g, const char *key, float *out, struct err *err);
enum status gguf_get_bool(const struct gguf *g, const char *key, bool *out, struct err *err);
enum status gguf_get_string(const struct gguf *g, const char *key, struct gguf_string *out,
                            struct err *err);

/* Element i (< count) of an array, or the value itself (i = 0). Walking i = 0, 1, 2 ... costs O(1)
 * each through the cursor, which starts zeroed and belongs to one value. gguf_element does any
 * type, arrays in arrays too; gguf_array_string is for strings, and anything else aborts there. */
struct gguf_cursor {
    uint64_t next;
    size_t offset;
};
struct gguf_value gguf_element(const struct gguf_value *v, uint64_t i, struct gguf_cursor *c);
struct gguf_string gguf_array_string(const struct gguf_value *v, uint64_t i, struct gguf_cursor *c);

/* Element i of an array (or the value itself, i = 0), as double or int64. v->element must be a
 * number type (an integer type) or the program aborts: ask first. BOOL is 0 or 1 and counts as an
 * integer here; a U64 above INT64_MAX comes out of gguf_integer as INT64_MAX. */
double gguf_number(const struct gguf_value *v, uint64_t i);
int64_t gguf_integer(const struct gguf_value *v, uint64_t i);
uint64_t gguf_unsigned(const struct gguf_value *v, uint64_t i); /* U8 .. U64, BOOL */
bool gguf_type_is_number(enum gguf_type type);                  /* integers, BOOL, F32, F64 */
bool gguf_type_is_integer(enum gguf_type type);                 /* U8 .. I64, BOOL */

const char *gguf_type_name(enum gguf_type type);

/* Writes `s` in double quotes, fit for one line of an error or a log, into out and returns out:
 * bytes outside printable ASCII, quotes and backslashes become \xNN, the end is cut ("..."
 * follows). */
const char *gguf_string_text(struct gguf_string s, char *out, size_t out_size);

#endif
