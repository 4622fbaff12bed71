/* The added tokens of a vocabulary, special ones and others, found in text.
 *
 * Their texts are kept sorted by bytes, which makes the list a trie: those that continue a prefix
 * are a range, which each further byte of text narrows by binary search. At each place the longest
 * wins; text is walked once. (llama.cpp looks for the longest token in the whole text first. The
 * two differ only where one token's end is another's beginning.) Immutable after opening.
 */
#ifndef FIRSTLIGHT_TEXT_TOKENIZER_SPECIALS_H
#define FIRSTLIGHT_TEXT_TOKENIZER_SPECIALS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A token that is found in text as a whole. */
struct special {
    int32_t id;
    const char *text; /* len > 0 bytes; copied */
    size_t len;
    bool control;     /* matches only where control tokens may; others match anywhere */
    bool left, right; /* takes in the white space before it, after it */
    bool single_word; /* not beside a letter, digit, mark or connector */
};

struct specials {
    struct special *list; /* (count) sorted by text */
    char *bytes;          /* their texts */
    uint32_t count;
    uint32_t first[257]; /* list[first[b] .. first[b + 1]) begin with byte b */
};

/* Text that may hold added tokens. */
struct specials_text {
    const char *bytes;
    size_t len;
    const uint8_t *trusted; /* (len) or NULL: all of it */
    bool control;           /* match control tokens too */
};

/* A token found in text[start, end). */
struct specials_match {
    const struct special *special; /* NULL: none, and start = end = the text's end */
    size_t start, end;
};

enum status specials_open(struct specials *s, const struct special *list, uint32_t count,
                          struct err *err);
void specials_close(struct specials *s);

/* Finds the first token at or after `from`. Control tokens match only where every byte of their
 * text is trusted. */
struct specials_match specials_next(const struct specials *s, const struct specials_text *t,
                                    size_t from);

#endif
