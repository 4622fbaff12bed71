#include "text/tokenizer/detok.h"

#include "base/utf8.h"

#include <string.h>

static size_t put_replacement(char *out)
{
    memcpy(out, UTF8_REPLACEMENT, UTF8_REPLACEMENT_LEN);
    return UTF8_REPLACEMENT_LEN;
}

/* Takes bytes until what is held is decided one way or the other; returns how many were taken. The
 * held bytes always begin a character, so the byte that makes them invalid is not part of them: it
 * is left for the caller. */
static size_t settle_held(struct detok *d, const char *bytes, size_t len, char *out, size_t *wrote)
{
    size_t taken = 0;
    while (d->n_held > 0 && taken < len) {
        size_t n;
        d->held[d->n_held] = (unsigned char)bytes[taken];
        enum utf8_kind kind = utf8_step((const char *)d->held, d->n_held + 1, &n);
        if (kind == UTF8_INVALID) {
            *wrote += put_replacement(out + *wrote);
            d->n_held = 0;
            break;
        }
        taken++;
        d->n_held++;
        if (kind == UTF8_WHOLE) {
            memcpy(out + *wrote, d->held, d->n_held);
            *wrote += d->n_held;
            d->n_held = 0;
        }
    }
    return taken;
}

size_t detok_push(struct detok *d, const char *bytes, size_t len, char *out)
{
    size_t wrote = 0;
    size_t at = settle_held(d, bytes, len, out, &wrote);
    while (at < len) {
        size_t n = utf8_valid_prefix(bytes + at, len - at);
        memcpy(out + wrote, bytes + at, n);
        wrote += n;
        at += n;
        if (at == len)
            break;
        if (utf8_step(bytes + at, len - at, &n) == UTF8_PARTIAL) {
            memcpy(d->held, bytes + at, n);
            d->n_held = n;
        } else {
            wrote += put_replacement(out + wrote);
        }
        at += n;
    }
    return wrote;
}
