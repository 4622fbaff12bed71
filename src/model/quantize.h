/* Floats to the types that weights are stored in. Blocks equal those of ggml's reference quantisers
 * and of the gguf package bit for bit, where those define them: for finite values. */
#ifndef FIRSTLIGHT_MODEL_QUANTIZE_H
#define FIRSTLIGHT_MODEL_QUANTIZE_H

#include "weights/tensor.h"

/* Can rows be written in this type: F32, F16, BF16, Q8_0, Q4_0? */
bool quantize_has(enum tensor_type type);

/* n values (a multiple of the type's block) to out. False: one of them is not finite, or too large
 * for the type; out then means nothing. */
bool quantize_row(enum tensor_type type, void *out, const float *x, size_t n);

#endif
