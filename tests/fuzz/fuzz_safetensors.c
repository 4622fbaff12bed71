/* Fuzz target of the safetensors reader: any bytes, parsed, and if they pass, read to each tensor's
 * last byte. tests/fuzz/safetensors_seeds.py writes the seeds. */
#include "weights/safetensors.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is read adds up here, so that the compiler cannot leave it out. */
static volatile uint64_t sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors *s = NULL;
    struct err err = {0};
    size_t total = 0;
    if (safetensors_parse(&s, data, size, &err) != STATUS_OK) {
        REQUIRE(!s && err.text[0] != '\0');
        return 0;
    }
    for (size_t i = 0; i < safetensors_count(s); i++) {
        const struct safetensors_tensor *t = safetensors_at(s, i);
        REQUIRE(safetensors_find(s, t->name) == t);
        REQUIRE((const uint8_t *)t->data == data + t->offset && t->n_dims <= SAFETENSORS_MAX_DIMS);
        for (size_t k = 0; k < t->size; k++)
            sink = sink + ((const uint8_t *)t->data)[k];
        total += t->size;
    }
    REQUIRE(total < size); /* nothing overlaps */
    safetensors_close(s);
    return 0;
}
