/* The parser: tokens to the tree of jinja_ast.h, by recursive descent with jinja2's precedences.
 *
 * jinja_parser.c has what both halves need, jinja_primary.c operands, jinja_expr.c the expressions,
 * jinja_stmt.c the statements. A function returns NULL (or false) after it filled p->err; errors
 * name line, what was expected and what was found.
 */
#ifndef FIRSTLIGHT_TEXT_TEMPLATE_JINJA_PARSER_H
#define FIRSTLIGHT_TEXT_TEMPLATE_JINJA_PARSER_H

#include "base/err.h"
#include "text/template/jinja_ast.h"
#include "text/template/jinja_lexer.h"

struct jinja_parser {
    struct jinja_program *program;
    struct arena *arena; /* the program's */
    struct err *err;
    struct jinja_tokens tokens;
    size_t pos;
    int depth;    /* nesting of expressions and blocks */
    int loops;    /* {% for %} around, for break and continue */
    int branches; /* {% if %} around: unknown filters there fail only when they are reached */
    struct jinja_name **names; /* (name_slots), open addressing */
    size_t name_slots;
};

/* Compiles `len` bytes of source into *program, which the caller cleared and frees by its arena. */
enum status jinja_parser_run(struct jinja_program *program, const char *source, size_t len,
                             struct err *err);

/* Tokens */
const struct jinja_token *jinja_parser_peek(const struct jinja_parser *p);
bool jinja_parser_at_op(const struct jinja_parser *p, int op);
bool jinja_parser_at_word(const struct jinja_parser *p, const char *word);
bool jinja_parser_skip_op(struct jinja_parser *p, int op); /* true when it was there */
bool jinja_parser_skip_word(struct jinja_parser *p, const char *word);
bool jinja_parser_expect_op(struct jinja_parser *p, char op);
bool jinja_parser_expect_word(struct jinja_parser *p, const char *word);
bool jinja_parser_expect_kind(struct jinja_parser *p, enum jinja_token_kind kind,
                              const char *expected);

/* Fills the error with the current token as what was found; always false. */
bool jinja_parser_fail(struct jinja_parser *p, const char *expected);
bool jinja_parser_no_memory(struct jinja_parser *p);
bool jinja_parser_enter(struct jinja_parser *p); /* one level deeper; see LIMIT_TEMPLATE_DEPTH */

/* Nodes and names; NULL when memory is short. */
struct jinja_node *jinja_parser_node(struct jinja_parser *p, enum jinja_node_kind kind);
struct jinja_node *jinja_parser_node_with(struct jinja_parser *p, enum jinja_node_kind kind,
                                          struct jinja_node *a);
const struct jinja_name *jinja_parser_intern(struct jinja_parser *p, const char *bytes, size_t len);
const struct jinja_name *jinja_parser_name(struct jinja_parser *p); /* the NAME token, required */

/* A list under construction. */
struct jinja_parser_list {
    struct jinja_node *first;
    struct jinja_node *last;
};
void jinja_parser_add(struct jinja_parser_list *list, struct jinja_node *node);

/* Expressions (jinja_expr.c). `with_if` allows the inline if at the top level. */
struct jinja_node *jinja_expr_parse(struct jinja_parser *p, bool with_if);
struct jinja_node *jinja_expr_parse_tuple(struct jinja_parser *p, bool with_if);
/* What may be assigned to: a name, names with commas, or (with_attr) a namespace's attribute. */
struct jinja_node *jinja_expr_parse_target(struct jinja_parser *p, bool with_attr);

/* Operands (jinja_primary.c): one with its sign, calls and subscripts, filters and tests if wanted.
 */
struct jinja_node *jinja_primary_parse(struct jinja_parser *p, bool with_filter);
/* subject|a|b; with `bare` the first filter has no bar in front of it. */
struct jinja_node *jinja_primary_parse_filters(struct jinja_parser *p, struct jinja_node *subject,
                                               bool bare);

/* Statements (jinja_stmt.c): up to one of the words (NULL-terminated) that end the block. The word
 * is the current token afterwards. With `until` NULL: up to the end of the source. */
bool jinja_stmt_parse(struct jinja_parser *p, const char *const *until, struct jinja_node **body);

#endif
