#include "text/specials.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static bool is_special(enum vocab_type type)
{
    return type == VOCAB_CONTROL || type == VOCAB_USER_DEFINED || type == VOCAB_UNKNOWN;
}

static int compare_pieces(const void *a, const void *b, void *vocab)
{
    size_t a_len, b_len;
    const char *a_piece = vocab_piece(vocab, *(const int32_t *)a, &a_len);
    const char *b_piece = vocab_piece(vocab, *(const int32_t *)b, &b_len);
    int order = memcmp(a_piece, b_piece, a_len < b_len ? a_len : b_len);

    return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

static unsigned char byte_at(const struct specials *s, uint32_t i, size_t depth)
{
    size_t len;

    return (unsigned char)vocab_piece(s->vocab, s->ids[i], &len)[depth];
}

enum status specials_open(struct specials *s, const struct vocab *v, struct err *err)
{
    uint32_t count = 0, at = 0;
    size_t len;

    *s = (struct specials){.vocab = v};
    for (uint32_t i = 0; i < v->count; i++)
        count += is_special(v->types[i]);
    s->ids = mem_array(count + 1, sizeof *s->ids);
    if (s->ids == NULL)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u special tokens", count);
    count = 0;
    for (uint32_t i = 0; i < v->count; i++) {
        (void)vocab_piece(v, (int32_t)i, &len);
        if (is_special(v->types[i]) && len > 0)
            s->ids[count++] = (int32_t)i;
    }
    qsort_r(s->ids, count, sizeof *s->ids, compare_pieces, (void *)v);
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
    mem_free(s->ids);
    *s = (struct specials){0};
}

/* The first of pieces [low, high), all longer than `depth` and alike before it, whose byte there is
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

/* The longest special token that begins at t->bytes[at]; -1 when there is none. */
static int32_t match_at(const struct specials *s, const struct specials_text *t, size_t at)
{
    unsigned char byte = (unsigned char)t->bytes[at];
    uint32_t low = s->first[byte], high = s->first[byte + 1];
    bool control = t->control;
    int32_t best = -1;

    for (size_t depth = 1; low < high; depth++) {
        size_t len;
        (void)vocab_piece(s->vocab, s->ids[low], &len);
        control = control && (t->trusted == NULL || t->trusted[at + depth - 1]);
        if (len == depth) { /* a piece that is a prefix of the others is the first of them */
            if (control || s->vocab->types[s->ids[low]] == VOCAB_USER_DEFINED)
                best = s->ids[low];
            low++;
        }
        if (at + depth == t->len)
            break;
        int next = (unsigned char)t->bytes[at + depth];
        low = lower_bound(s, low, high, depth, next);
        high = lower_bound(s, low, high, depth, next + 1);
    }
    return best;
}

size_t specials_next(const struct specials *s, const struct specials_text *t, size_t from,
                     int32_t *id)
{
    *id = -1;
    for (size_t at = from; at < t->len; at++) {
        unsigned char byte = (unsigned char)t->bytes[at];
        if (s->first[byte] == s->first[byte + 1])
            continue;
        *id = match_at(s, t, at);
        if (*id >= 0)
            return at;
    }
    return t->len;
}
