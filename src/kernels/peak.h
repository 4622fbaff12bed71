/* Loops that show what a processor can do at most: one kind of arithmetic on registers alone, or
 * reading alone. The forward pass is measured against them (bench/kinds/roofline.h).
 *
 * Pure functions of any thread. A row's `run` must only be called where the machine has its levels.
 */
#ifndef FIRSTLIGHT_KERNELS_PEAK_H
#define FIRSTLIGHT_KERNELS_PEAK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum peak_kind {
    PEAK_INT8, /* unsigned by signed bytes, summed in int32 */
    PEAK_F32,  /* fused multiply-add */
    PEAK_BF16, /* pairs of bfloat16, summed in binary32 */
};

struct peak {
    const char *name; /* of the instructions: "avx512_vnni" */
    enum peak_kind kind;
    uint32_t levels; /* of cpu.h; all are needed */
    uint64_t macs;   /* multiply-adds of a round */
    /* All operands are ones, so the sum that it returns is the number of multiply-adds that it did:
     * exact up to 2^19 rounds. */
    uint64_t (*run)(size_t rounds);
};

/* Row i, of each kind the poorest first; NULL past the end. */
const struct peak *peak_at(size_t i);
bool peak_is_there(const struct peak *p, uint32_t levels);
/* The last of a kind that these levels have; NULL: none. */
const struct peak *peak_best(enum peak_kind kind, uint32_t levels);

/* Reads all of it, front to back, and returns the exclusive or of its 64-bit words. `data` is
 * 64-byte aligned, n_bytes a multiple of PEAK_READ_BYTES. */
#define PEAK_READ_BYTES 512u
typedef uint64_t peak_read_fn(const void *data, size_t n_bytes);
peak_read_fn *peak_reader(uint32_t levels);

#endif
