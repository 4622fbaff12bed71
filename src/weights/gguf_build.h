/* Builds GGUF metadata in memory: what `convert` writes, and what a Hugging Face folder's
 * configuration becomes so that everything above sees one format.
 *
 *     struct gguf_build b = {0};
 *     gguf_build_string(&b, "general.architecture", "llama");
 *     gguf_build_array(&b, "tokens", GGUF_STRING, 2);
 *     gguf_build_element_string(&b, "a", 1);
 *     gguf_build_element_string(&b, "b", 1);
 *     struct buf head = {0};
 *     gguf_build_header(&b, n_tensors, &head);   // then n_tensors times gguf_build_info
 *     gguf_build_fini(&b);
 *
 * A failed append sticks (b.pairs.failed), so one check at the end suffices.
 */
#ifndef FIRSTLIGHT_WEIGHTS_GGUF_BUILD_H
#define FIRSTLIGHT_WEIGHTS_GGUF_BUILD_H

#include "base/buf.h"
#include "weights/gguf.h"

#define GGUF_BUILD_ALIGNMENT 32 /* of the tensors' data; the format's default */

struct gguf_build {
    struct buf pairs;
    uint64_t n_pairs;
};

void gguf_build_fini(struct gguf_build *b);

void gguf_build_u32(struct gguf_build *b, const char *key, uint32_t value);
void gguf_build_f32(struct gguf_build *b, const char *key, float value);
void gguf_build_bool(struct gguf_build *b, const char *key, bool value);
void gguf_build_string(struct gguf_build *b, const char *key, const char *value);
void gguf_build_bytes(struct gguf_build *b, const char *key, const void *bytes, size_t len);

/* An array of `count` elements, which are to follow: strings, or 32-bit numbers. */
void gguf_build_array(struct gguf_build *b, const char *key, enum gguf_type element,
                      uint64_t count);
void gguf_build_element_string(struct gguf_build *b, const char *bytes, size_t len);
void gguf_build_element_u32(struct gguf_build *b, uint32_t value);
void gguf_build_element_f32(struct gguf_build *b, float value);

/* A pair of an open file, as it stands. */
void gguf_build_copy(struct gguf_build *b, const struct gguf_value *v);

/* Appends magic, version 3, counts and the pairs to out. */
void gguf_build_header(const struct gguf_build *b, uint64_t n_tensors, struct buf *out);

/* Appends what the file says of one tensor; `offset` counts from the start of the data. */
void gguf_build_info(struct buf *out, const struct tensor *t, uint64_t offset);

#endif
