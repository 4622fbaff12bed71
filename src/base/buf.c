#include "base/buf.h"

#include "base/mem.h"

#include <stdarg.h>
#include <string.h>

bool buf_reserve(struct buf *b, size_t extra)
{
    size_t need;
    if (b->failed || !mem_add(b->len, extra, &need) || !mem_add(need, 1, &need) ||
        (b->limit && need - 1 > b->limit)) {
        b->failed = true;
        return false;
    }
    if (need <= b->cap)
        return true;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need)
        cap += cap / 2 + 64;
    char *data = mem_resize(b->data, cap);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->cap = cap;
    return true;
}

bool buf_append(struct buf *b, const void *bytes, size_t len)
{
    if (!buf_reserve(b, len))
        return false;
    if (len)
        memcpy(b->data + b->len, bytes, len);
    b->len += len;
    b->data[b->len] = '\0';
    return true;
}

bool buf_puts(struct buf *b, const char *s)
{
    return buf_append(b, s, strlen(s));
}

bool buf_putc(struct buf *b, char c)
{
    return buf_append(b, &c, 1);
}

bool buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    bool ok = n >= 0 && buf_reserve(b, (size_t)n);
    if (ok) {
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
    return ok;
}

bool buf_read(struct buf *b, FILE *f)
{
    char piece[1 << 16];
    size_t n;
    while ((n = fread(piece, 1, sizeof piece, f)) > 0)
        if (!buf_append(b, piece, n))
            return false;
    return !ferror(f);
}

const char *buf_str(const struct buf *b)
{
    return b->data ? b->data : "";
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data)
        b->data[0] = '\0';
}

void buf_fini(struct buf *b)
{
    mem_free(b->data);
    *b = (struct buf){.limit = b->limit};
}

char *buf_take(struct buf *b)
{
    char *data = b->data ? b->data : mem_strndup("", 0);
    *b = (struct buf){.limit = b->limit};
    return data;
}
