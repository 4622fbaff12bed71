/* A folder's tokenizer as the keys that a GGUF file has for it. Private to model/write.
 *
 * For `convert` only: a folder that is served reads its tokenizer.json itself. GGUF names a
 * pre-tokenizer instead of holding its expressions, so only those that have a name can be written.
 */
#ifndef FIRSTLIGHT_MODEL_WRITE_HF_TOKENIZER_H
#define FIRSTLIGHT_MODEL_WRITE_HF_TOKENIZER_H

#include "base/err.h"
#include "weights/gguf_build.h"

/* Appends tokenizer.ggml.*, with an entry for each of `n_vocab` rows of the embedding. Byte-level
 * BPE and SentencePiece's (hf_sentencepiece.h); anything else is STATUS_UNSUPPORTED. Errors name
 * the file.
 */
enum status hf_tokenizer_write(const char *folder, uint32_t n_vocab, struct gguf_build *b,
                               struct err *err);

#endif
