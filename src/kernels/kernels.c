#include "kernels/kernels.h"

#include "kernels/variants.h"

void kernels_fill(struct kernels *k, uint32_t levels)
{
    *k = (struct kernels){.levels = levels};
    dequantize_ref_fill(k);
    matmul_ref_fill(k);
    vector_ref_fill(k);
    attn_ref_fill(k);
}
