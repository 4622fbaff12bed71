/* Pre-tokenizers: text cut into the words that byte-pair encoding works on.
 *
 * A pre-tokenizer is a list of regular expressions (PCRE2), applied in turn: each cuts every part
 * that the ones before left into its matches and what lies between them. A part is all that an
 * expression sees: its end is the end of the text to a look-ahead. The table in pretok.c maps the
 * names of tokenizer.ggml.pre to the lists. Immutable after opening; any thread may split, each
 * with scratch of its own.
 */
#ifndef FIRSTLIGHT_TEXT_PRETOK_H
#define FIRSTLIGHT_TEXT_PRETOK_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct pretok;
struct pretok_scratch;

/* STATUS_UNSUPPORTED for a name that the table does not have. `name` is not terminated. */
enum status pretok_open(struct pretok **out, const char *name, size_t len, struct err *err);
void pretok_close(struct pretok *p);

/* Whether a word that is a token as a whole is that token, whatever the merges say. */
bool pretok_whole_words(const struct pretok *p);

/* Whether bos is added where the file does not say. */
bool pretok_add_bos(const struct pretok *p);

struct pretok_scratch *pretok_scratch_open(void); /* NULL: memory */
void pretok_scratch_close(struct pretok_scratch *s);

/* Takes one word, which is never empty. Any status but STATUS_OK ends the split and is returned. */
typedef enum status (*pretok_word)(void *ctx, const char *word, size_t len, struct err *err);

/* Calls `word` for each word of the text, which must be well-formed UTF-8, in order; together the
 * words are the text. */
enum status pretok_split(const struct pretok *p, struct pretok_scratch *s, const char *text,
                         size_t len, pretok_word word, void *ctx, struct err *err);

#endif
