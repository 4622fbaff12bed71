/* The incremental detokenizer's last step: bytes of tokens in, whole UTF-8 characters out.
 *
 * Bytes that do not yet make a whole character are held back until the next token completes them.
 * Bytes that can never become one are replaced by U+FFFD, one per maximal invalid part (Unicode 15,
 * section 3.9). What is still incomplete at the end of a generation is never emitted, so streamed
 * and unstreamed text are equal.
 */
#ifndef FIRSTLIGHT_TEXT_TOKENIZER_DETOK_H
#define FIRSTLIGHT_TEXT_TOKENIZER_DETOK_H

#include <stddef.h>

struct detok {
    unsigned char held[4];
    size_t n_held; /* 0 .. 3 */
};

/* Room that `out` needs for `len` bytes in. */
#define DETOK_ROOM(len) (3 * (len) + 12)

/* Takes len bytes, writes the characters that are now complete to out, returns how many bytes. */
size_t detok_push(struct detok *d, const char *bytes, size_t len, char *out);

#endif
