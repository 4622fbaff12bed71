#include "weights/tensor.h"

#include "base/err.h"

#include <inttypes.h>
#include <stdio.h>

struct type_row {
    const char *name;
    uint32_t gguf;
    size_t block_values;
    size_t block_bytes;
};

static const struct type_row rows[TENSOR_TYPES] = {
#define X(type, gguf, name, values, bytes) [TENSOR_##type] = {name, gguf, values, bytes},
    TENSOR_TYPE_MAP(X)
#undef X
};

/* Every number that ggml has given out, so that an error can name a type that is not read here.
 * 4, 5 and 31 to 38 were withdrawn but are found in old files. */
static const char *const gguf_names[] = {
    "F32",   "F16",        "Q4_0",       "Q4_1",       "Q4_2",     "Q4_3",     "Q5_0",
    "Q5_1",  "Q8_0",       "Q8_1",       "Q2_K",       "Q3_K",     "Q4_K",     "Q5_K",
    "Q6_K",  "Q8_K",       "IQ2_XXS",    "IQ2_XS",     "IQ3_XXS",  "IQ1_S",    "IQ4_NL",
    "IQ3_S", "IQ2_S",      "IQ4_XS",     "I8",         "I16",      "I32",      "I64",
    "F64",   "IQ1_M",      "BF16",       "Q4_0_4_4",   "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",
    "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4",    "NVFP4",
};

static const struct type_row *row_of(enum tensor_type type)
{
    REQUIRE((unsigned)type < TENSOR_TYPES);
    return &rows[type];
}

const char *tensor_type_name(enum tensor_type type)
{
    return row_of(type)->name;
}

size_t tensor_type_block_values(enum tensor_type type)
{
    return row_of(type)->block_values;
}

size_t tensor_type_block_bytes(enum tensor_type type)
{
    return row_of(type)->block_bytes;
}

bool tensor_type_from_gguf(uint32_t number, enum tensor_type *out)
{
    for (int type = 0; type < TENSOR_TYPES; type++) {
        if (rows[type].gguf == number) {
            *out = (enum tensor_type)type;
            return true;
        }
    }
    return false;
}

uint32_t tensor_type_to_gguf(enum tensor_type type)
{
    return row_of(type)->gguf;
}

const char *tensor_gguf_type_name(uint32_t number)
{
    return number < sizeof gguf_names / sizeof gguf_names[0] ? gguf_names[number] : NULL;
}

size_t tensor_row_bytes(enum tensor_type type, size_t n)
{
    const struct type_row *row = row_of(type);
    REQUIRE(n % row->block_values == 0);
    return n / row->block_values * row->block_bytes;
}

const char *tensor_shape_text(const struct tensor *t, char *out, size_t out_size)
{
    size_t len = 0;
    for (uint32_t d = 0; d < t->n_dims && len < out_size; d++)
        len +=
            (size_t)snprintf(out + len, out_size - len, "%s%" PRIu64, d ? ", " : "[", t->dims[d]);
    if (len < out_size)
        snprintf(out + len, out_size - len, t->n_dims ? "]" : "[]");
    return out;
}
