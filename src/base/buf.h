/* A growable byte buffer with a ceiling.
 *
 *     data ─┬─────────── len ───────────┬──── free ────┐
 *           │ bytes                     │              │ cap <= limit
 *
 * One owner, no thread safety. The bytes are followed by a NUL that `len` does not count, so `data`
 * can be printed (data may be NULL only while len == 0; use buf_str).
 * A failed append (memory or limit) sets `failed`, which sticks, and changes nothing: a run of
 * appends may be checked once at the end.
 */
#ifndef FIRSTLIGHT_BASE_BUF_H
#define FIRSTLIGHT_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct buf {
    char *data;
    size_t len;
    size_t cap;
    size_t limit; /* 0: no limit */
    bool failed;
};

bool buf_append(struct buf *b, const void *bytes, size_t len);
bool buf_puts(struct buf *b, const char *s);
bool buf_putc(struct buf *b, char c);
bool buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Appends all that is left in f. False: `failed` (memory, limit), else a read error in errno. */
bool buf_read(struct buf *b, FILE *f);
bool buf_reserve(struct buf *b, size_t extra);
const char *buf_str(const struct buf *b); /* never NULL, NUL-terminated */
void buf_clear(struct buf *b);            /* len = 0, failed = false, memory kept */
void buf_fini(struct buf *b);
char *buf_take(struct buf *b); /* the bytes, now the caller's (mem_free); the buffer is empty */

#endif
