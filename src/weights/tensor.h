/* Tensors as they lie in a model file: named, typed, shaped bytes. Borrowed from the open file.
 *
 * dims[0] is the fastest-running dimension (GGUF's order), so a weight matrix of a linear layer is
 * dims = {in, out}: `out` rows of `in` values, each row contiguous in blocks of its type.
 */
#ifndef FIRSTLIGHT_WEIGHTS_TENSOR_H
#define FIRSTLIGHT_WEIGHTS_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* type, its number in GGUF files, name, values per block, bytes per block */
#define TENSOR_TYPE_MAP(X)                                                                         \
    X(F32, 0, "F32", 1, 4)                                                                         \
    X(F16, 1, "F16", 1, 2)                                                                         \
    X(BF16, 30, "BF16", 1, 2)                                                                      \
    X(Q4_0, 2, "Q4_0", 32, 18)                                                                     \
    X(Q4_1, 3, "Q4_1", 32, 20)                                                                     \
    X(Q5_0, 6, "Q5_0", 32, 22)                                                                     \
    X(Q5_1, 7, "Q5_1", 32, 24)                                                                     \
    X(Q8_0, 8, "Q8_0", 32, 34)                                                                     \
    X(Q2_K, 10, "Q2_K", 256, 84)                                                                   \
    X(Q3_K, 11, "Q3_K", 256, 110)                                                                  \
    X(Q4_K, 12, "Q4_K", 256, 144)                                                                  \
    X(Q5_K, 13, "Q5_K", 256, 176)                                                                  \
    X(Q6_K, 14, "Q6_K", 256, 210)                                                                  \
    X(IQ4_NL, 20, "IQ4_NL", 32, 18)                                                                \
    X(IQ4_XS, 23, "IQ4_XS", 256, 136)

enum tensor_type {
#define X(type, gguf, name, values, bytes) TENSOR_##type,
    TENSOR_TYPE_MAP(X)
#undef X
        TENSOR_TYPES
};

#define TENSOR_MAX_DIMS 4

struct tensor {
    const char *name;
    enum tensor_type type;
    uint32_t n_dims;
    uint64_t dims[TENSOR_MAX_DIMS]; /* unused ones are 1 */
    const void *data;
    size_t size; /* bytes */
};

const char *tensor_type_name(enum tensor_type type);
size_t tensor_type_block_values(enum tensor_type type);
size_t tensor_type_block_bytes(enum tensor_type type);

/* The type with that number in GGUF files; false when this program cannot read it. */
bool tensor_type_from_gguf(uint32_t number, enum tensor_type *out);

uint32_t tensor_type_to_gguf(enum tensor_type type);

/* The name GGUF gives to any type number, readable here or not ("IQ3_S"); NULL when unknown. */
const char *tensor_gguf_type_name(uint32_t number);

/* Bytes of a row of n values; n must be a multiple of the type's block. */
size_t tensor_row_bytes(enum tensor_type type, size_t n);

/* "[576, 49152]" into out; returns out. */
const char *tensor_shape_text(const struct tensor *t, char *out, size_t out_size);

#endif
