#include "text/tokenizer/specials.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static int specials_compare(const void *left, const void *right)
{
    const struct special *a = left, *b = right;
    int order = memcmp(a->text, b->text, a->len < b->len ? a->len : b->len);
    if (order == 0)
        order = (a->len > b->len) - (a->len < b->len);
    return order != 0 ? order : (a->id > b->id) - (a->id < b->id);
}

static unsigned char byte_at(const struct specials *s, uint32_t i, size_t depth)
{
    return (unsigned char)s->list[i].text[depth];
}

static enum status specials_copy_list(struct specials *s, const struct special *list,
                                      uint32_t count, struct err *err)
{
    size_t total = 0;
    for (uint32_t i = 0; i < count; i++)
        total += list[i].len;
    s->list = mem_array((size_t)count + 1, sizeof *s->list);
    s->bytes = mem_alloc(total + 1);
    if (!s->list || !s->bytes)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u added tokens", count);
    total = 0;
    for (uint32_t i = 0; i < count; i++) {
        s->list[i] = list[i];
        s->list[i].text = memcpy(s->bytes + total, list[i].text, list[i].len);
        total += list[i].len;
    }
    s->count = count;
    return STATUS_OK;
}

enum status specials_open(struct specials *s, const struct special *list, uint32_t count,
                          struct err *err)
{
    uint32_t at = 0;
    *s = (struct specials){0};
    enum status status = specials_copy_list(s, list, count, err);
    if (status != STATUS_OK) {
        specials_close(s);
        return status;
    }
    qsort(s->list, count, sizeof *s->list, specials_compare);
    for (int byte = 0; byte < 256; byte++) {
        s->first[byte] = at;
        while (at < count && byte_at(s, at, 0) == byte)
            at++;
    }
    s->first[256] = at;
    return STATUS_OK;
}

void specials_close(struct specials *s)
{
    mem_free(s->list);
    mem_free(s->bytes);
    *s = (struct specials){0};
}

/* --- matching ------------------------------------------------------------------------------- */

/* The first of texts [low, high), all longer than `depth` and alike before it, whose byte there is
 * at least `byte`. */
static uint32_t lower_bound(const struct specials *s, uint32_t low, uint32_t high, size_t depth,
                            int byte)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (byte_at(s, middle, depth) < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest token that begins at t->bytes[at]; NULL when there is none. */
static const struct special *match_at(const struct specials *s, const struct specials_text *t,
                                      size_t at)
{
    unsigned char byte = (unsigned char)t->bytes[at];
    uint32_t low = s->first[byte], high = s->first[byte + 1];
    const struct special *best = NULL;
    bool control = t->control;
    for (size_t depth = 1; low < high; depth++) {
        control = control && (!t->trusted || t->trusted[at + depth - 1]);
        /* a text that is a prefix of the others is the first of them */
        for (; low < high && s->list[low].len == depth; low++)
            if (control || !s->list[low].control)
                best = &s->list[low];
        if (at + depth == t->len)
            break;
        int next = (unsigned char)t->bytes[at + depth];
        low = lower_bound(s, low, high, depth, next);
        high = lower_bound(s, low, high, depth, next + 1);
    }
    return best;
}

static bool specials_is_space(const char *bytes, size_t n)
{
    uint32_t c = utf8_code_point(bytes, n);
    return (c >= 9 && c <= 13) || c == 0x85 ||
           (utf8proc_category((utf8proc_int32_t)c) >= UTF8PROC_CATEGORY_ZS &&
            utf8proc_category((utf8proc_int32_t)c) <= UTF8PROC_CATEGORY_ZP);
}

/* Letters, marks, decimal digits and connectors: what \w is. */
static bool specials_is_word(const char *bytes, size_t n)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)utf8_code_point(bytes, n));
    return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_ND) || c == UTF8PROC_CATEGORY_PC;
}

/* The bytes of the whole character that ends at `end`; 0 when there is none at or after `from`. */
static size_t character_before(const struct specials_text *t, size_t from, size_t end)
{
    size_t n;
    for (size_t len = 1; len <= 4 && len <= end - from; len++)
        if (utf8_step(t->bytes + end - len, len, &n) == UTF8_WHOLE && n == len)
            return len;
    return 0;
}

static bool stands_alone(const struct specials_text *t, size_t start, size_t end)
{
    size_t before = character_before(t, 0, start), n;
    if (before > 0 && specials_is_word(t->bytes + start - before, before))
        return false;
    return end == t->len || utf8_step(t->bytes + end, t->len - end, &n) != UTF8_WHOLE ||
           !specials_is_word(t->bytes + end, n);
}

/* Takes in the white space beside a match, where its token asks for it. */
static struct specials_match specials_widen(const struct specials_text *t,
                                            const struct special *found, size_t from, size_t start)
{
    struct specials_match m = {found, start, start + found->len};
    size_t n;
    while (found->left && (n = character_before(t, from, m.start)) > 0 &&
           specials_is_space(t->bytes + m.start - n, n))
        m.start -= n;
    while (found->right && m.end < t->len &&
           utf8_step(t->bytes + m.end, t->len - m.end, &n) == UTF8_WHOLE &&
           specials_is_space(t->bytes + m.end, n))
        m.end += n;
    return m;
}

struct specials_match specials_next(const struct specials *s, const struct specials_text *t,
                                    size_t from)
{
    for (size_t at = from, n; s->count > 0 && at < t->len; at += n) {
        unsigned char byte = (unsigned char)t->bytes[at];
        n = 1;
        if (s->first[byte] == s->first[byte + 1])
            continue;
        const struct special *found = match_at(s, t, at);
        if (!found)
            continue;
        if (!found->single_word || stands_alone(t, at, at + found->len))
            return specials_widen(t, found, from, at);
        n = found->len;
    }
    return (struct specials_match){NULL, t->len, t->len};
}
