/* The two reports of `firstlight inspect`. Private to src/cli/inspect*.c. */
#ifndef FIRSTLIGHT_CLI_INSPECT_REPORT_H
#define FIRSTLIGHT_CLI_INSPECT_REPORT_H

#include "base/err.h"
#include "weights/gguf.h"

#include <stdio.h>

struct inspect_totals {
    size_t tensors;
    uint64_t parameters;
    uint64_t bytes;
    size_t type_tensors[TENSOR_TYPES];
    uint64_t type_bytes[TENSOR_TYPES];
};

/* Values that the tensor holds. */
uint64_t inspect_parameters(const struct tensor *t);

/* Both leave write errors to be found with ferror(out). */
void inspect_text_print(const struct gguf *g, const struct inspect_totals *totals, FILE *out);
enum status inspect_json_print(const struct gguf *g, const struct inspect_totals *totals, FILE *out,
                               struct err *err);

#endif
