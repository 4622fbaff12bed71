/* Pre-tokenizers: text cut into the words that a tokenizer's model works on.
 *
 * A pre-tokenizer is a list of steps, applied in turn to every part that the ones before left. Most
 * are a regular expression, which cuts a part into its matches and what lies between them. A part
 * is all that a step sees: its end is the end of the text to a look-ahead. Immutable once its steps
 * are added; any thread may split, each with scratch of its own.
 */
#ifndef FIRSTLIGHT_TEXT_TOKENIZER_PRETOK_H
#define FIRSTLIGHT_TEXT_TOKENIZER_PRETOK_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define PRETOK_STEPS 16

struct pretok;
struct pretok_scratch;
struct regex;

enum pretok_kind {
    PRETOK_SPLIT,
    PRETOK_PREFIX,  /* a space before a part that does not begin with one */
    PRETOK_REPLACE, /* metaspace: every space becomes `replacement`, which also begins the part */
};

/* What becomes of a match of PRETOK_SPLIT. In pictures: "the--end", cut at "-". */
enum pretok_behavior {
    PRETOK_ISOLATED,      /* the|-|-|end */
    PRETOK_REMOVED,       /* the|end */
    PRETOK_WITH_PREVIOUS, /* the-|-|end */
    PRETOK_WITH_NEXT,     /* the|-|-end */
    PRETOK_CONTIGUOUS,    /* the|--|end */
};

enum pretok_prepend { PRETOK_ALWAYS, PRETOK_FIRST, PRETOK_NEVER };

struct pretok_step {
    enum pretok_kind kind;
    struct regex *regex; /* of PRETOK_SPLIT, owned by the pre-tokenizer */
    enum pretok_behavior behavior;
    bool invert;                 /* what lies between the matches is what is meant */
    char *replacement;           /* of PRETOK_REPLACE, NUL-terminated, owned by the pre-tokenizer */
    enum pretok_prepend prepend; /* of PRETOK_REPLACE: FIRST is the beginning of the whole text */
};

/* A pre-tokenizer without steps, where the text is one word. NULL: memory. */
struct pretok *pretok_new(void);
/* Adds a step, of which it takes over the memory also when it fails. */
enum status pretok_add(struct pretok *p, struct pretok_step step, struct err *err);
/* Compiles an expression into a step. `name` is for errors. */
enum status pretok_add_split(struct pretok *p, const char *regex, enum pretok_behavior behavior,
                             bool invert, const char *name, struct err *err);

/* The pre-tokenizer that tokenizer.ggml.pre names (pretok_names.c). STATUS_UNSUPPORTED for a name
 * that the table does not have. `name` is not terminated. */
struct pretok_traits {
    bool whole_words; /* a word that is a token as a whole is that token, whatever the merges say */
    bool add_bos;     /* bos is added where the file does not say */
    bool nfc;         /* the published tokenizer normalizes to NFC; the file cannot say so */
};
enum status pretok_open(struct pretok **out, struct pretok_traits *traits, const char *name,
                        size_t len, struct err *err);
void pretok_close(struct pretok *p);

struct pretok_scratch *pretok_scratch_open(void); /* NULL: memory */
void pretok_scratch_close(struct pretok_scratch *s);

/* Takes one word, which is never empty. Any status but STATUS_OK ends the split and is returned. */
typedef enum status (*pretok_word)(void *ctx, const char *word, size_t len, struct err *err);

/* Text, well-formed UTF-8, between added tokens. */
struct pretok_text {
    const char *bytes;
    size_t len;
    bool first; /* the whole text begins with it */
};

/* Calls `word` for each word of the text in order. */
enum status pretok_split(const struct pretok *p, struct pretok_scratch *s,
                         const struct pretok_text *text, pretok_word word, void *ctx,
                         struct err *err);

#endif
