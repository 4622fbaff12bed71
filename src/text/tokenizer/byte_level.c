#include "text/tokenizer/byte_level.h"

#include "base/utf8.h"

/* The byte that a character stands for; -1 when it is not in the alphabet. */
static int byte_of(uint32_t cp)
{
    if ((cp >= 33 && cp <= 126) || (cp >= 161 && cp <= 172) || (cp >= 174 && cp <= 255))
        return (int)cp;
    if (cp < 256 || cp > 256 + 67)
        return -1;
    int k = (int)cp - 256; /* the k-th byte that does not stand for itself */
    if (k <= 32)
        return k;
    return k == 67 ? 173 : 127 + k - 33;
}

bool byte_level_decode(const char *text, size_t len, char *out, size_t *n)
{
    size_t step;
    *n = 0;
    for (size_t at = 0; at < len; at += step) {
        if (utf8_step(text + at, len - at, &step) != UTF8_WHOLE)
            return false;
        int byte = byte_of(utf8_code_point(text + at, step));
        if (byte < 0)
            return false;
        out[(*n)++] = (char)byte;
    }
    return true;
}
