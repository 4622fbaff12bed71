/* How a byte-level vocabulary spells bytes (GPT-2's table). */
#ifndef FIRSTLIGHT_TESTS_SUPPORT_BYTE_VOCAB_H
#define FIRSTLIGHT_TESTS_SUPPORT_BYTE_VOCAB_H

#include <stdio.h>

/* The character that stands for a byte in the vocabulary. */
static inline void spell_byte(int byte, char out[3])
{
    int cp = byte;

    if (byte <= 32)
        cp = 256 + byte;
    else if (byte >= 127 && byte <= 160)
        cp = 256 + 33 + byte - 127;
    else if (byte == 173)
        cp = 256 + 67;
    if (cp < 0x80)
        snprintf(out, 3, "%c", cp);
    else
        snprintf(out, 3, "%c%c", 0xc0 | cp >> 6, 0x80 | (cp & 0x3f));
}

#endif
