/* The special tokens of a vocabulary, found in text.
 *
 * Their pieces are kept sorted by bytes, which makes the list a trie: the pieces that continue a
 * prefix are a range, which each further byte of text narrows by binary search. At each place the
 * longest piece wins; text is walked once. (llama.cpp looks for the longest token in the whole text
 * first. The two differ only where one token's end is another's beginning.) Immutable after
 * opening.
 */
#ifndef FIRSTLIGHT_TEXT_SPECIALS_H
#define FIRSTLIGHT_TEXT_SPECIALS_H

#include "text/vocab.h"

struct specials {
    const struct vocab *vocab;
    int32_t *ids;        /* (count) sorted by piece */
    uint32_t first[257]; /* ids[first[b] .. first[b + 1]) begin with byte b */
};

/* Text that may hold special tokens. */
struct specials_text {
    const char *bytes;
    size_t len;
    const uint8_t *trusted; /* (len) or NULL: all of it */
    bool control;           /* match control and unknown tokens, not only user-defined ones */
};

/* Collects the control, user-defined and unknown tokens. `v` is borrowed until specials_close. */
enum status specials_open(struct specials *s, const struct vocab *v, struct err *err);
void specials_close(struct specials *s);

/* Finds the first special token at or after `from`: returns where it begins and sets *id; t->len
 * and -1 when there is none. Control and unknown tokens match only where every byte is trusted.
 * User-defined tokens are ordinary text to the model's own tokenizer: they match anywhere. */
size_t specials_next(const struct specials *s, const struct specials_text *t, size_t from,
                     int32_t *id);

#endif
