/* Normalizers: what a tokenizer does to a text before it cuts it. A list of steps, each of which
 * reads the text that the one before wrote.
 *
 * Beside the text goes an optional mask, one byte per byte, that says which of it may spell special
 * tokens (tokenizer.h, `trusted`). What a step writes is trusted where all that it was made of was.
 * Every step is linear. Immutable once its steps are added.
 */
#ifndef FIRSTLIGHT_TEXT_TOKENIZER_NORMALIZE_H
#define FIRSTLIGHT_TEXT_TOKENIZER_NORMALIZE_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NORMALIZE_STEPS 16

enum normalize_kind {
    NORMALIZE_NFC, /* Unicode normalization forms (UAX 15) */
    NORMALIZE_NFD,
    NORMALIZE_NFKC,
    NORMALIZE_NFKD,
    NORMALIZE_LOWERCASE, /* each character by itself */
    NORMALIZE_STRIP,     /* white space at the ends */
    NORMALIZE_PREPEND,   /* `to` before a text that is not empty */
    NORMALIZE_REPLACE,   /* every `from` becomes `to`, or every match of a regular expression */
    NORMALIZE_ONE_SPACE, /* runs of spaces become one, and none at the ends */
};

struct regex;

struct normalize_step {
    enum normalize_kind kind;
    bool left, right;    /* ends to strip */
    char *from, *to;     /* NUL-terminated, owned */
    struct regex *regex; /* in place of `from`; owned */
};

struct normalize {
    struct normalize_step steps[NORMALIZE_STEPS];
    int n_steps;
};

/* Text and mask, the mask empty when there is none. */
struct normalize_text {
    struct buf bytes;
    struct buf trusted;
};

/* Starts zeroed, ends with normalize_scratch_fini. */
struct normalize_scratch {
    struct normalize_text text[2];
    int32_t *code_points; /* (cap) */
    size_t cap;
};

/* Adds a step, of which it takes over the memory also when it fails. */
enum status normalize_add(struct normalize *n, struct normalize_step step, struct err *err);
void normalize_close(struct normalize *n);

/* Sets *out to the normalized text, which lies in the scratch until the next call, or is `text`
 * itself when there is nothing to do; *out_trusted likewise, NULL when `trusted` is. An invalid
 * part of the UTF-8 is read as U+FFFD, so that what comes out is well-formed. */
enum status normalize_run(const struct normalize *n, struct normalize_scratch *s, const char *text,
                          size_t len, const uint8_t *trusted, const char **out, size_t *out_len,
                          const uint8_t **out_trusted, struct err *err);
void normalize_scratch_fini(struct normalize_scratch *s);

#endif
