/* The lexer: template source to tokens, with jinja2's whitespace rules (trim_blocks, lstrip_blocks,
 * the signs of `{%-` and `+%}`, one newline at the end dropped). Comments and {% raw %} end here.
 */
#ifndef FIRSTLIGHT_TEXT_TEMPLATE_JINJA_LEXER_H
#define FIRSTLIGHT_TEXT_TEMPLATE_JINJA_LEXER_H

#include "base/arena.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum jinja_token_kind {
    TOKEN_TEXT,      /* output as it stands */
    TOKEN_PRINT,     /* {{ */
    TOKEN_PRINT_END, /* }} */
    TOKEN_BLOCK,     /* {% */
    TOKEN_BLOCK_END, /* %} */
    TOKEN_NAME,      /* also keywords */
    TOKEN_STRING,    /* escapes already replaced */
    TOKEN_INT,
    TOKEN_FLOAT,
    TOKEN_OP,
    TOKEN_END, /* of the source */
};

/* Operators of one character are that character. The words are the parser's. */
enum jinja_op {
    OP_EQ = 128,
    OP_NE,
    OP_LE,
    OP_GE,
    OP_FLOORDIV,
    OP_POW,
    OP_IN,
    OP_NOT_IN,
};

struct jinja_token {
    uint8_t kind;
    uint8_t op;
    int line;
    const char *bytes; /* (len), in the arena */
    size_t len;
};

struct jinja_tokens {
    struct jinja_token *items; /* (count), the last is TOKEN_END */
    size_t count;
};

/* Why the arena gave nothing: the template takes too many bytes, or there is no memory. */
enum status jinja_lexer_no_memory(const struct arena *arena, int line, struct err *err);

/* Everything allocated is the arena's. */
enum status jinja_lexer_run(struct arena *arena, const char *source, size_t len,
                            struct jinja_tokens *out, struct err *err);

#endif
