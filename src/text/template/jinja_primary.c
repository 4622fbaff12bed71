/* Operands: literals, names, brackets, and what may follow them (.x [x] (x) |x is x). */
#include "text/template/jinja_parser.h"
#include "text/template/jinja_utf8.h"

#include "base/limits.h"
#include "text/template/jinja_builtin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct jinja_node *constant(struct jinja_parser *p, struct jinja_value value)
{
    struct jinja_node *node = jinja_parser_node(p, NODE_CONST);
    if (node)
        node->value = value;
    return node;
}

static struct jinja_node *string_constant(struct jinja_parser *p, const char *bytes, size_t len)
{
    struct jinja_string *s = arena_array(p->arena, 1, sizeof *s);
    if (!s) {
        jinja_parser_no_memory(p);
        return NULL;
    }
    *s = (struct jinja_string){.bytes = bytes, .len = len, .trusted = true};
    return constant(p, (struct jinja_value){.type = JINJA_STRING, .s = s});
}

/* Literals side by side are one string. */
static struct jinja_node *parse_string(struct jinja_parser *p)
{
    const struct jinja_token *t = jinja_parser_peek(p);
    size_t n = 0, len = 0, used = 0;
    char *bytes;
    for (; t[n].kind == TOKEN_STRING; n++)
        len += t[n].len;
    p->pos += n;
    if (n == 1)
        return string_constant(p, t->bytes, t->len);
    bytes = arena_alloc(p->arena, len + 1);
    if (!bytes) {
        jinja_parser_no_memory(p);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        memcpy(bytes + used, t[i].bytes, t[i].len);
        used += t[i].len;
    }
    return string_constant(p, bytes, len);
}

static struct jinja_node *parse_number(struct jinja_parser *p)
{
    const struct jinja_token *t = jinja_parser_peek(p);
    char digits[64];
    size_t n = 0;
    struct jinja_value v;
    for (size_t i = 0; i < t->len && n < sizeof digits - 1; i++) {
        if (t->bytes[i] != '_')
            digits[n++] = t->bytes[i];
    }
    digits[n] = '\0';
    errno = 0;
    v = t->kind == TOKEN_INT ? jinja_int(strtoll(digits, NULL, 10))
                             : jinja_float(strtod(digits, NULL));
    if (n == sizeof digits - 1 || (t->kind == TOKEN_INT && errno != 0)) {
        jinja_parser_fail(p, "a number of 64 bits");
        return NULL;
    }
    p->pos++;
    return constant(p, v);
}

/* Expressions with commas up to the closing bracket, which is consumed. */
static bool parse_items(struct jinja_parser *p, char close, struct jinja_node **first)
{
    struct jinja_parser_list list = {0};
    while (!jinja_parser_at_op(p, close)) {
        struct jinja_node *item;
        if (list.first && !jinja_parser_expect_op(p, ','))
            return false;
        if (jinja_parser_at_op(p, close))
            break;
        item = jinja_expr_parse(p, true);
        if (!item)
            return false;
        jinja_parser_add(&list, item);
    }
    *first = list.first;
    return jinja_parser_expect_op(p, close);
}

static struct jinja_node *jinja_primary_parse_list(struct jinja_parser *p)
{
    struct jinja_node *node = jinja_parser_node(p, NODE_LIST);
    p->pos++;
    return node && parse_items(p, ']', &node->a) ? node : NULL;
}

static struct jinja_node *parse_dict(struct jinja_parser *p)
{
    struct jinja_node *node = jinja_parser_node(p, NODE_DICT), *part;
    struct jinja_parser_list list = {0};
    p->pos++;
    while (node && !jinja_parser_at_op(p, '}')) {
        if (list.first && !jinja_parser_expect_op(p, ','))
            return NULL;
        if (jinja_parser_at_op(p, '}'))
            break;
        if (!(part = jinja_expr_parse(p, true)) || !jinja_parser_expect_op(p, ':'))
            return NULL;
        jinja_parser_add(&list, part);
        if (!(part = jinja_expr_parse(p, true)))
            return NULL;
        jinja_parser_add(&list, part);
    }
    if (!node || !jinja_parser_expect_op(p, '}'))
        return NULL;
    node->a = list.first;
    return node;
}

/* (x) is x; (), (x,) and (x, y) are tuples. */
static struct jinja_node *parse_parentheses(struct jinja_parser *p)
{
    struct jinja_node *node;
    p->pos++;
    if (jinja_parser_at_op(p, ')'))
        node = jinja_parser_node(p, NODE_TUPLE);
    else
        node = jinja_expr_parse_tuple(p, true);
    return node && jinja_parser_expect_op(p, ')') ? node : NULL;
}

static struct jinja_node *jinja_primary_parse_name(struct jinja_parser *p)
{
    static const struct {
        const char *word;
        struct jinja_value value;
    } words[] = {
        {"true", {.type = JINJA_BOOL, .b = true}},
        {"True", {.type = JINJA_BOOL, .b = true}},
        {"false", {.type = JINJA_BOOL, .b = false}},
        {"False", {.type = JINJA_BOOL, .b = false}},
        {"none", {.type = JINJA_NONE}},
        {"None", {.type = JINJA_NONE}},
    };
    struct jinja_node *node;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (jinja_parser_skip_word(p, words[i].word))
            return constant(p, words[i].value);
    }
    node = jinja_parser_node(p, NODE_NAME);
    return node && (node->name = jinja_parser_name(p)) ? node : NULL;
}

static struct jinja_node *parse_primary(struct jinja_parser *p)
{
    const struct jinja_token *t = jinja_parser_peek(p);
    if (t->kind == TOKEN_NAME)
        return jinja_primary_parse_name(p);
    if (t->kind == TOKEN_STRING)
        return parse_string(p);
    if (t->kind == TOKEN_INT || t->kind == TOKEN_FLOAT)
        return parse_number(p);
    if (jinja_parser_at_op(p, '('))
        return parse_parentheses(p);
    if (jinja_parser_at_op(p, '['))
        return jinja_primary_parse_list(p);
    if (jinja_parser_at_op(p, '{'))
        return parse_dict(p);
    jinja_parser_fail(p, "an expression");
    return NULL;
}

static struct jinja_node *parse_attribute(struct jinja_parser *p, struct jinja_node *subject)
{
    struct jinja_node *node = jinja_parser_node_with(p, NODE_ATTR, subject);
    p->pos++;
    if (!node)
        return NULL;
    if (jinja_parser_peek(p)->kind == TOKEN_INT) {
        node->kind = NODE_ITEM;
        node->b = parse_number(p);
        return node->b ? node : NULL;
    }
    node->name = jinja_parser_name(p);
    return node->name ? node : NULL;
}

/* One part of a slice: empty before ':' and ']'. */
static bool parse_bound(struct jinja_parser *p, struct jinja_node **part)
{
    *part = NULL;
    if (jinja_parser_at_op(p, ':') || jinja_parser_at_op(p, ']'))
        return true;
    *part = jinja_expr_parse(p, true);
    return *part != NULL;
}

static struct jinja_node *parse_subscript(struct jinja_parser *p, struct jinja_node *subject)
{
    struct jinja_node *node = jinja_parser_node_with(p, NODE_ITEM, subject);
    p->pos++;
    if (!node || !parse_bound(p, &node->b))
        return NULL;
    if (jinja_parser_skip_op(p, ':')) {
        node->kind = NODE_SLICE;
        if (!parse_bound(p, &node->c))
            return NULL;
        if (jinja_parser_skip_op(p, ':') && !parse_bound(p, &node->d))
            return NULL;
    } else if (!node->b) {
        jinja_parser_fail(p, "an expression");
        return NULL;
    }
    return jinja_parser_expect_op(p, ']') ? node : NULL;
}

/* name=expression, or an expression. */
static struct jinja_node *parse_argument(struct jinja_parser *p)
{
    const struct jinja_token *t = jinja_parser_peek(p);
    struct jinja_node *node;
    if (jinja_parser_at_op(p, '*') || jinja_parser_at_op(p, OP_POW)) {
        err_set(p->err, STATUS_UNSUPPORTED, "line %d: '*' in front of an argument is not supported",
                t->line);
        return NULL;
    }
    if (t->kind != TOKEN_NAME || t[1].kind != TOKEN_OP || t[1].op != '=')
        return jinja_expr_parse(p, true);
    node = jinja_parser_node(p, NODE_KEYWORD);
    if (!node || !(node->name = jinja_parser_name(p)))
        return NULL;
    p->pos++;
    node->a = jinja_expr_parse(p, true);
    return node->a ? node : NULL;
}

/* (a, b, name=c), with the current token at '('. */
static bool parse_arguments(struct jinja_parser *p, struct jinja_node **first)
{
    struct jinja_parser_list list = {0};
    p->pos++;
    while (!jinja_parser_at_op(p, ')')) {
        struct jinja_node *arg;
        bool after_keyword = list.last && list.last->kind == NODE_KEYWORD;
        if (list.first && !jinja_parser_expect_op(p, ','))
            return false;
        if (jinja_parser_at_op(p, ')'))
            break;
        arg = parse_argument(p);
        if (!arg)
            return false;
        if (after_keyword && arg->kind != NODE_KEYWORD)
            return jinja_parser_fail(p, "no argument by position behind one by name");
        jinja_parser_add(&list, arg);
    }
    *first = list.first;
    return jinja_parser_expect_op(p, ')');
}

static struct jinja_node *parse_call(struct jinja_parser *p, struct jinja_node *subject)
{
    struct jinja_node *node = jinja_parser_node_with(p, NODE_CALL, subject);
    return node && parse_arguments(p, &node->b) ? node : NULL;
}

/* Filters and tests have dotted names in jinja2; none of the known ones has. An unknown one is an
 * error here, but under {% if %} only when it is reached, as in jinja2. */
static bool parse_builtin(struct jinja_parser *p, struct jinja_node *node, const char *what)
{
    int line = jinja_parser_peek(p)->line;
    node->name = jinja_parser_name(p);
    if (!node->name)
        return false;
    node->builtin = node->kind == NODE_FILTER ? jinja_builtin_filter(&node->name->s)
                                              : jinja_builtin_test(&node->name->s);
    if (node->builtin || p->branches > 0)
        return true;
    err_set(p->err, STATUS_UNSUPPORTED, "line %d: the %s '%.*s' is not supported", line, what,
            jinja_utf8_cut(node->name->s.bytes, node->name->s.len, 64), node->name->s.bytes);
    return false;
}

static struct jinja_node *parse_filter(struct jinja_parser *p, struct jinja_node *subject)
{
    struct jinja_node *node = jinja_parser_node_with(p, NODE_FILTER, subject);
    if (!node || !parse_builtin(p, node, "filter"))
        return NULL;
    if (jinja_parser_at_op(p, '(') && !parse_arguments(p, &node->b))
        return NULL;
    return node;
}

/* The one argument that a test may take without parentheses: `x is divisibleby 3`. */
static bool parse_test_operand(struct jinja_parser *p, struct jinja_node *node)
{
    const struct jinja_token *t = jinja_parser_peek(p);
    bool starts = t->kind == TOKEN_STRING || t->kind == TOKEN_INT || t->kind == TOKEN_FLOAT ||
                  jinja_parser_at_op(p, '[') || jinja_parser_at_op(p, '{');
    if (t->kind == TOKEN_NAME)
        starts = !jinja_parser_at_word(p, "else") && !jinja_parser_at_word(p, "or") &&
                 !jinja_parser_at_word(p, "and") && !jinja_parser_at_word(p, "if") &&
                 !jinja_parser_at_word(p, "is") && !jinja_parser_at_word(p, "in") &&
                 !jinja_parser_at_word(p, "not");
    if (!starts)
        return true;
    node->b = jinja_primary_parse(p, false);
    return node->b != NULL;
}

static struct jinja_node *parse_test(struct jinja_parser *p, struct jinja_node *subject)
{
    struct jinja_node *node = jinja_parser_node_with(p, NODE_TEST, subject);
    p->pos++;
    if (!node)
        return NULL;
    node->op = jinja_parser_skip_word(p, "not");
    if (!parse_builtin(p, node, "test"))
        return NULL;
    if (jinja_parser_at_op(p, '('))
        return parse_arguments(p, &node->b) ? node : NULL;
    return parse_test_operand(p, node) ? node : NULL;
}

/* What may follow an operand. Each link nests the tree by one, so their number is bounded too. */
static struct jinja_node *parse_postfix(struct jinja_parser *p, struct jinja_node *node,
                                        bool with_filter)
{
    int depth = p->depth;
    bool filtered = false; /* behind a filter or test only those and calls may follow */
    while (node) {
        if (jinja_parser_at_op(p, '(')) {
            node = parse_call(p, node);
        } else if (!filtered && jinja_parser_at_op(p, '.')) {
            node = parse_attribute(p, node);
        } else if (!filtered && jinja_parser_at_op(p, '[')) {
            node = parse_subscript(p, node);
        } else if (with_filter && jinja_parser_skip_op(p, '|')) {
            node = parse_filter(p, node);
            filtered = true;
        } else if (with_filter && jinja_parser_at_word(p, "is")) {
            node = parse_test(p, node);
            filtered = true;
        } else {
            break;
        }
        if (!jinja_parser_enter(p))
            return NULL;
    }
    p->depth = depth;
    return node;
}

struct jinja_node *jinja_primary_parse_filters(struct jinja_parser *p, struct jinja_node *subject,
                                               bool bare)
{
    struct jinja_node *node = bare ? parse_filter(p, subject) : subject;
    int depth = p->depth;
    while (node && jinja_parser_skip_op(p, '|')) {
        if (!jinja_parser_enter(p))
            return NULL;
        node = parse_filter(p, node);
    }
    p->depth = depth;
    return node;
}

struct jinja_node *jinja_primary_parse(struct jinja_parser *p, bool with_filter)
{
    enum jinja_node_kind kind = jinja_parser_at_op(p, '-') ? NODE_NEGATE : NODE_PLUS;
    struct jinja_node *node;
    if (!jinja_parser_at_op(p, '-') && !jinja_parser_at_op(p, '+'))
        return parse_postfix(p, parse_primary(p), with_filter);
    p->pos++;
    if (!jinja_parser_enter(p))
        return NULL;
    node = jinja_primary_parse(p, false);
    p->depth--;
    if (!node || !(node = jinja_parser_node_with(p, kind, node)))
        return NULL;
    return parse_postfix(p, node, with_filter);
}
