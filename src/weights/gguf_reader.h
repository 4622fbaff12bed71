/* The bytes of a GGUF file, read front to back. Private to src/weights.
 *
 *     bytes ──── read ────┬─ pos ──── not yet read ────┐ len
 *
 * Nothing is read, and no count believed, beyond `len`. Every function says in its error what was
 * being read (`what`), where, how many bytes that takes and how many are left. A reader that has
 * failed must not be used further. Numbers are little-endian at any alignment.
 */
#ifndef FIRSTLIGHT_WEIGHTS_GGUF_READER_H
#define FIRSTLIGHT_WEIGHTS_GGUF_READER_H

#include "base/err.h"
#include "weights/gguf.h"

#include <stddef.h>
#include <stdint.h>

struct gguf_reader {
    const unsigned char *bytes; /* borrowed */
    size_t len;
    size_t pos;
    struct err *err; /* may be NULL */
};

size_t gguf_reader_left(const struct gguf_reader *r);

enum status gguf_reader_u32(struct gguf_reader *r, const char *what, uint32_t *out);
enum status gguf_reader_u64(struct gguf_reader *r, const char *what, uint64_t *out);

/* A 64-bit length, at most `limit`, and that many bytes. */
enum status gguf_reader_string(struct gguf_reader *r, const char *what, uint64_t limit,
                               struct gguf_string *out);

/* A value type and a value of it, checked through to its last element, so that walking it later
 * needs no checks. Sets everything in *out but the key. */
enum status gguf_reader_value(struct gguf_reader *r, struct gguf_value *out);

/* Checks a count of things that take `each` bytes at the least against the bytes left (bad file)
 * and `limit` (too large for this program), before anything is allocated for them. */
enum status gguf_reader_check_count(const struct gguf_reader *r, const char *what, uint64_t count,
                                    size_t each, uint64_t limit);

/* Bytes of a value of a type of fixed size; 0 for STRING and ARRAY. */
size_t gguf_reader_type_size(enum gguf_type type);

/* Little-endian loads at any alignment. */
uint32_t gguf_reader_load_u32(const void *p);
uint64_t gguf_reader_load_u64(const void *p);

#endif
