/* Operators by precedence, the inline if, tuples and targets. */
#include "text/template/jinja_parser.h"

/* The operators that join operands left to right, from the ones that bind least. */
static const int levels[][5] = {
    {'+', '-'},
    {'~'},
    {'*', '/', OP_FLOORDIV, '%'},
    {OP_POW},
};
#define N_LEVELS (sizeof(levels) / sizeof(*levels))

/* The operator at the current token if `level` has it, else 0. */
static int level_op(const struct jinja_parser *p, size_t level)
{
    for (const int *op = levels[level]; *op != 0; op++) {
        if (jinja_parser_at_op(p, *op))
            return *op;
    }
    return 0;
}

static bool jinja_expr_add_step(struct jinja_parser *p, struct jinja_parser_list *steps, int op,
                                struct jinja_node *operand)
{
    struct jinja_node *step = operand ? jinja_parser_node_with(p, NODE_STEP, operand) : NULL;
    if (!step)
        return false;
    step->op = (uint8_t)op;
    jinja_parser_add(steps, step);
    return true;
}

static struct jinja_node *parse_level(struct jinja_parser *p, size_t level)
{
    struct jinja_node *first, *chain;
    struct jinja_parser_list steps = {0};
    int op;
    if (level == N_LEVELS)
        return jinja_primary_parse(p, true);
    first = parse_level(p, level + 1);
    if (!first || level_op(p, level) == 0)
        return first;
    chain = jinja_parser_node_with(p, NODE_CHAIN, first);
    while (chain && (op = level_op(p, level)) != 0) {
        p->pos++;
        if (!jinja_expr_add_step(p, &steps, op, parse_level(p, level + 1)))
            return NULL;
        chain->b = steps.first;
    }
    return chain;
}

/* Consumes a comparing operator; 0 when there is none. */
static int skip_compare(struct jinja_parser *p)
{
    static const int ops[] = {OP_EQ, OP_NE, OP_LE, OP_GE, '<', '>'};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (jinja_parser_skip_op(p, ops[i]))
            return ops[i];
    }
    if (jinja_parser_skip_word(p, "in"))
        return OP_IN;
    if (jinja_parser_at_word(p, "not")) {
        p->pos++;
        if (jinja_parser_skip_word(p, "in"))
            return OP_NOT_IN;
        p->pos--;
    }
    return 0;
}

static struct jinja_node *parse_compare(struct jinja_parser *p)
{
    struct jinja_node *first = parse_level(p, 0), *node;
    struct jinja_parser_list steps = {0};
    int op;
    if (!first || (op = skip_compare(p)) == 0)
        return first;
    node = jinja_parser_node_with(p, NODE_COMPARE, first);
    for (; node && op != 0; op = skip_compare(p)) {
        if (!jinja_expr_add_step(p, &steps, op, parse_level(p, 0)))
            return NULL;
        node->b = steps.first;
    }
    return node;
}

static struct jinja_node *parse_not(struct jinja_parser *p)
{
    bool negate = false, any = false;
    struct jinja_node *node;
    for (; jinja_parser_skip_word(p, "not"); any = true)
        negate = !negate;
    node = parse_compare(p);
    if (any && node)
        node = jinja_parser_node_with(p, NODE_NOT, node);
    if (any && !negate && node)
        node = jinja_parser_node_with(p, NODE_NOT, node);
    return node;
}

/* Operands joined by `word`: one node for all of them. */
static struct jinja_node *parse_words(struct jinja_parser *p, const char *word,
                                      enum jinja_node_kind kind,
                                      struct jinja_node *(*operand)(struct jinja_parser *))
{
    struct jinja_node *node = operand(p), *all;
    struct jinja_parser_list list = {0};
    if (!node || !jinja_parser_at_word(p, word))
        return node;
    all = jinja_parser_node_with(p, kind, node);
    jinja_parser_add(&list, node);
    while (all && jinja_parser_skip_word(p, word)) {
        node = operand(p);
        if (!node)
            return NULL;
        jinja_parser_add(&list, node);
    }
    return all;
}

static struct jinja_node *parse_and(struct jinja_parser *p)
{
    return parse_words(p, "and", NODE_AND, parse_not);
}

static struct jinja_node *parse_or(struct jinja_parser *p)
{
    return parse_words(p, "or", NODE_OR, parse_and);
}

/* x if y else z, with the current token at `if`. */
static struct jinja_node *parse_inline_if(struct jinja_parser *p, struct jinja_node *first)
{
    int depth = p->depth;
    while (first && jinja_parser_skip_word(p, "if")) {
        struct jinja_node *node = jinja_parser_node_with(p, NODE_COND, first);
        if (!node || !jinja_parser_enter(p) || !(node->b = parse_or(p)))
            return NULL;
        if (jinja_parser_skip_word(p, "else") && !(node->c = jinja_expr_parse(p, true)))
            return NULL;
        first = node;
    }
    p->depth = depth;
    return first;
}

struct jinja_node *jinja_expr_parse(struct jinja_parser *p, bool with_if)
{
    struct jinja_node *node;
    if (!jinja_parser_enter(p))
        return NULL;
    node = parse_or(p);
    if (with_if)
        node = parse_inline_if(p, node);
    p->depth--;
    return node;
}

/* True where a list without brackets ends: a comma may stand in front of it. */
static bool at_tuple_end(const struct jinja_parser *p)
{
    const struct jinja_token *t = jinja_parser_peek(p);
    return t->kind == TOKEN_BLOCK_END || t->kind == TOKEN_PRINT_END || jinja_parser_at_op(p, ')') ||
           jinja_parser_at_op(p, '=') || jinja_parser_at_word(p, "in");
}

/* One item, or a tuple of several with commas between; `option` is the item's. */
static struct jinja_node *
jinja_expr_parse_list(struct jinja_parser *p,
                      struct jinja_node *(*parse)(struct jinja_parser *, bool), bool option)
{
    struct jinja_node *first = parse(p, option), *tuple;
    struct jinja_parser_list list = {0};
    if (!first || !jinja_parser_at_op(p, ','))
        return first;
    tuple = jinja_parser_node_with(p, NODE_TUPLE, first);
    jinja_parser_add(&list, first);
    while (tuple && jinja_parser_skip_op(p, ',') && !at_tuple_end(p)) {
        struct jinja_node *item = parse(p, option);
        if (!item)
            return NULL;
        jinja_parser_add(&list, item);
    }
    return tuple;
}

struct jinja_node *jinja_expr_parse_tuple(struct jinja_parser *p, bool with_if)
{
    return jinja_expr_parse_list(p, jinja_expr_parse, with_if);
}

static struct jinja_node *parse_one_target(struct jinja_parser *p, bool with_attr)
{
    struct jinja_node *node, *attr;
    if (jinja_parser_skip_op(p, '(')) {
        if (!jinja_parser_enter(p))
            return NULL;
        node = jinja_expr_parse_target(p, false);
        p->depth--;
        return node && jinja_parser_expect_op(p, ')') ? node : NULL;
    }
    node = jinja_parser_node(p, NODE_NAME);
    if (!node || !(node->name = jinja_parser_name(p)))
        return NULL;
    if (!with_attr || !jinja_parser_skip_op(p, '.'))
        return node;
    attr = jinja_parser_node_with(p, NODE_ATTR, node);
    return attr && (attr->name = jinja_parser_name(p)) ? attr : NULL;
}

struct jinja_node *jinja_expr_parse_target(struct jinja_parser *p, bool with_attr)
{
    return jinja_expr_parse_list(p, parse_one_target, with_attr);
}
