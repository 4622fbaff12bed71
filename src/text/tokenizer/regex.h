/* Regular expressions over well-formed UTF-8: PCRE2 with JIT, which also understands what the files
 * of tokenizers write for Oniguruma.
 *
 * What \s, \w, \d and \h mean is spelled out by Unicode property, since the engines differ: PCRE2's
 * own \s has U+180E, its \w lacks marks. As in Oniguruma ^ and $ match at lines. Immutable after
 * opening; any thread may match, each with scratch of its own.
 */
#ifndef FIRSTLIGHT_TEXT_TOKENIZER_REGEX_H
#define FIRSTLIGHT_TEXT_TOKENIZER_REGEX_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct regex;
struct regex_scratch;

/* Unicode's White_Space property (PropList.txt), for use inside a class. */
#define REGEX_SPACES                                                                               \
    "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}"       \
    "\\x{3000}"

/* `literal`: the pattern is a text, not an expression. `name` is for errors: whose expression it
 * is. STATUS_INVALID for one that is wrong, STATUS_UNSUPPORTED for what is not understood here. */
enum status regex_open(struct regex **out, const char *pattern, size_t len, bool literal,
                       const char *name, struct err *err);
void regex_close(struct regex *r);

struct regex_scratch *regex_scratch_open(void); /* NULL: memory */
void regex_scratch_close(struct regex_scratch *s);

/* Finds the first match in text[0, len) at or after `from` that is not empty; *start = *end = len
 * when there is none. */
enum status regex_find(const struct regex *r, struct regex_scratch *s, const char *text, size_t len,
                       size_t from, size_t *start, size_t *end, struct err *err);

#endif
