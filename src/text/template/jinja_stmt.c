#include "text/template/jinja_parser.h"

#include <stdio.h>
#include <string.h>

static bool parse_body(struct jinja_parser *p, const char *const *until, struct jinja_node **body)
{
    return jinja_parser_expect_kind(p, TOKEN_BLOCK_END, "'%}'") && jinja_stmt_parse(p, until, body);
}

/* A body whose one end is `word`, which is consumed. */
static bool parse_body_to(struct jinja_parser *p, const char *word, struct jinja_node **body)
{
    const char *until[] = {word, NULL};
    if (!parse_body(p, until, body))
        return false;
    p->pos++;
    return true;
}

/* One `if c: body` or `else: body`, with the current token behind the word. */
static struct jinja_node *parse_branch(struct jinja_parser *p, bool has_condition)
{
    static const char *const until[] = {"elif", "else", "endif", NULL};
    struct jinja_node *branch = jinja_parser_node(p, NODE_BRANCH);
    if (!branch)
        return NULL;
    if (has_condition && !(branch->a = jinja_expr_parse_tuple(p, false)))
        return NULL;
    return parse_body(p, has_condition ? until : until + 2, &branch->d) ? branch : NULL;
}

static bool parse_if(struct jinja_parser *p, struct jinja_node *node)
{
    struct jinja_parser_list branches = {0};
    bool has_condition = true;
    node->kind = NODE_IF;
    p->branches++;
    for (;;) {
        struct jinja_node *branch = parse_branch(p, has_condition);
        if (!branch)
            return false;
        jinja_parser_add(&branches, branch);
        if (jinja_parser_skip_word(p, "endif"))
            break;
        has_condition = jinja_parser_at_word(p, "elif");
        p->pos++;
    }
    p->branches--;
    node->a = branches.first;
    return true;
}

static bool parse_for(struct jinja_parser *p, struct jinja_node *node)
{
    static const char *const until[] = {"else", "endfor", NULL};
    node->kind = NODE_FOR;
    if (!(node->a = jinja_expr_parse_target(p, false)) || !jinja_parser_expect_word(p, "in") ||
        !(node->b = jinja_expr_parse_tuple(p, false)))
        return false;
    if (jinja_parser_skip_word(p, "if") && !(node->c = jinja_expr_parse(p, true)))
        return false;
    if (jinja_parser_at_word(p, "recursive")) {
        err_set(p->err, STATUS_UNSUPPORTED, "line %d: recursive loops are not supported",
                node->line);
        return false;
    }
    p->loops++;
    if (!parse_body(p, until, &node->d))
        return false;
    p->loops--;
    if (jinja_parser_skip_word(p, "else"))
        return parse_body_to(p, "endfor", &node->e);
    p->pos++;
    return true;
}

static bool parse_set(struct jinja_parser *p, struct jinja_node *node)
{
    struct jinja_node *hole;
    node->kind = NODE_SET;
    node->a = jinja_expr_parse_target(p, true);
    if (!node->a)
        return false;
    if (jinja_parser_skip_op(p, '=')) {
        node->b = jinja_expr_parse_tuple(p, true);
        return node->b != NULL;
    }
    node->kind = NODE_CAPTURE;
    hole = jinja_parser_node(p, NODE_HOLE);
    node->b = hole ? jinja_primary_parse_filters(p, hole, false) : NULL;
    return node->b && parse_body_to(p, "endset", &node->d);
}

/* (a, b=default), with the current token at '('. */
static bool parse_params(struct jinja_parser *p, struct jinja_node **first)
{
    struct jinja_parser_list list = {0};
    if (!jinja_parser_expect_op(p, '('))
        return false;
    while (!jinja_parser_at_op(p, ')')) {
        struct jinja_node *param;
        if (list.first && !jinja_parser_expect_op(p, ','))
            return false;
        if (jinja_parser_at_op(p, ')'))
            break;
        param = jinja_parser_node(p, NODE_PARAM);
        if (!param || !(param->name = jinja_parser_name(p)))
            return false;
        if (jinja_parser_skip_op(p, '=') && !(param->a = jinja_expr_parse(p, true)))
            return false;
        if (!param->a && list.last && list.last->a)
            return jinja_parser_fail(p, "a default behind a parameter that has one");
        jinja_parser_add(&list, param);
    }
    *first = list.first;
    return jinja_parser_expect_op(p, ')');
}

/* A macro's body is no part of the loops around it. */
static bool parse_macro_body(struct jinja_parser *p, const char *end, struct jinja_node **body)
{
    int loops = p->loops;
    bool ok;
    p->loops = 0;
    ok = parse_body_to(p, end, body);
    p->loops = loops;
    return ok;
}

static bool parse_macro(struct jinja_parser *p, struct jinja_node *node)
{
    node->kind = NODE_MACRO;
    return (node->name = jinja_parser_name(p)) && parse_params(p, &node->a) &&
           parse_macro_body(p, "endmacro", &node->d);
}

static bool parse_call_block(struct jinja_parser *p, struct jinja_node *node)
{
    struct jinja_node *macro = jinja_parser_node(p, NODE_MACRO);
    node->kind = NODE_CALLER;
    node->b = macro;
    if (!macro || (jinja_parser_at_op(p, '(') && !parse_params(p, &macro->a)))
        return false;
    macro->name = p->program->caller;
    node->a = jinja_expr_parse(p, true);
    if (!node->a)
        return false;
    if (node->a->kind != NODE_CALL)
        return jinja_parser_fail(p, "the call of a macro");
    return parse_macro_body(p, "endcall", &macro->d);
}

static bool parse_filter_block(struct jinja_parser *p, struct jinja_node *node)
{
    struct jinja_node *hole = jinja_parser_node(p, NODE_HOLE);
    node->kind = NODE_FILTERED;
    node->b = hole ? jinja_primary_parse_filters(p, hole, true) : NULL;
    return node->b && parse_body_to(p, "endfilter", &node->d);
}

static bool parse_with(struct jinja_parser *p, struct jinja_node *node)
{
    struct jinja_parser_list list = {0};
    node->kind = NODE_WITH;
    while (jinja_parser_peek(p)->kind != TOKEN_BLOCK_END) {
        struct jinja_node *set = jinja_parser_node(p, NODE_SET);
        if (!set || (list.first && !jinja_parser_expect_op(p, ',')))
            return false;
        if (!(set->a = jinja_expr_parse_target(p, false)) || !jinja_parser_expect_op(p, '=') ||
            !(set->b = jinja_expr_parse(p, true)))
            return false;
        jinja_parser_add(&list, set);
    }
    node->a = list.first;
    return parse_body_to(p, "endwith", &node->d);
}

/* transformers' mark around what the assistant wrote; the text is rendered as it is. */
static bool parse_generation(struct jinja_parser *p, struct jinja_node *node)
{
    node->kind = NODE_SCOPE;
    return parse_body_to(p, "endgeneration", &node->d);
}

static bool parse_break(struct jinja_parser *p, struct jinja_node *node)
{
    node->kind = NODE_BREAK;
    return p->loops > 0 || jinja_parser_fail(p, "'break' inside a loop only");
}

static bool parse_continue(struct jinja_parser *p, struct jinja_node *node)
{
    node->kind = NODE_CONTINUE;
    return p->loops > 0 || jinja_parser_fail(p, "'continue' inside a loop only");
}

static bool parse_unsupported(struct jinja_parser *p, struct jinja_node *node)
{
    const struct jinja_token *word = jinja_parser_peek(p) - 1;
    err_set(p->err, STATUS_UNSUPPORTED, "line %d: the statement '%.*s' is not supported",
            node->line, (int)word->len, word->bytes);
    return false;
}

/* A statement's parser gets its node with the line set; the current token is behind the word. */
static const struct {
    const char *word;
    bool (*parse)(struct jinja_parser *p, struct jinja_node *node);
} statements[] = {
    {"if", parse_if},
    {"for", parse_for},
    {"set", parse_set},
    {"macro", parse_macro},
    {"call", parse_call_block},
    {"filter", parse_filter_block},
    {"with", parse_with},
    {"generation", parse_generation},
    {"break", parse_break},
    {"continue", parse_continue},
    {"include", parse_unsupported},
    {"import", parse_unsupported},
    {"from", parse_unsupported},
    {"extends", parse_unsupported},
    {"block", parse_unsupported},
    {"autoescape", parse_unsupported},
    {"do", parse_unsupported},
};

static struct jinja_node *parse_statement(struct jinja_parser *p)
{
    struct jinja_node *node = jinja_parser_node(p, NODE_IF);
    for (size_t i = 0; node && i < sizeof statements / sizeof *statements; i++) {
        if (!jinja_parser_skip_word(p, statements[i].word))
            continue;
        if (!jinja_parser_enter(p) || !statements[i].parse(p, node) ||
            !jinja_parser_expect_kind(p, TOKEN_BLOCK_END, "'%}'"))
            return NULL;
        p->depth--;
        return node;
    }
    if (node)
        jinja_parser_fail(p, "a statement");
    return NULL;
}

static struct jinja_node *parse_text(struct jinja_parser *p)
{
    const struct jinja_token *t = jinja_parser_peek(p);
    struct jinja_node *node = jinja_parser_node(p, NODE_TEXT);
    struct jinja_string *s = arena_array(p->arena, 1, sizeof *s);
    if (!node || !s) {
        jinja_parser_no_memory(p);
        return NULL;
    }
    *s = (struct jinja_string){.bytes = t->bytes, .len = t->len, .trusted = true};
    node->value = (struct jinja_value){.type = JINJA_STRING, .s = s};
    p->pos++;
    return node;
}

static struct jinja_node *parse_print(struct jinja_parser *p)
{
    struct jinja_node *node = jinja_parser_node(p, NODE_PRINT);
    p->pos++;
    if (!node || !(node->a = jinja_expr_parse_tuple(p, true)))
        return NULL;
    return jinja_parser_expect_kind(p, TOKEN_PRINT_END, "'}}'") ? node : NULL;
}

static bool at_end_word(const struct jinja_parser *p, const char *const *until)
{
    for (; until && *until; until++) {
        if (jinja_parser_at_word(p, *until))
            return true;
    }
    return false;
}

/* "'elif', 'else' or 'endif'" for the error about a block without end. */
static bool fail_end(struct jinja_parser *p, const char *const *until)
{
    char expected[96];
    size_t used = 0;
    for (size_t i = 0; until[i]; i++) {
        const char *join = i == 0 ? "" : !until[i + 1] ? " or " : ", ";
        used += (size_t)snprintf(expected + used, sizeof expected - used, "%s'%s'", join, until[i]);
    }
    return jinja_parser_fail(p, expected);
}

bool jinja_stmt_parse(struct jinja_parser *p, const char *const *until, struct jinja_node **body)
{
    struct jinja_parser_list list = {0};
    for (;;) {
        const struct jinja_token *t = jinja_parser_peek(p);
        struct jinja_node *node;
        *body = list.first;
        if (t->kind == TOKEN_END)
            return !until || fail_end(p, until);
        if (t->kind == TOKEN_BLOCK) {
            p->pos++;
            if (at_end_word(p, until))
                return true;
            node = parse_statement(p);
        } else {
            node = t->kind == TOKEN_TEXT ? parse_text(p) : parse_print(p);
        }
        if (!node)
            return false;
        jinja_parser_add(&list, node);
    }
}
