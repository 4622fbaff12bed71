#include "text/template/jinja_eval.h"

#include "text/template/jinja_access.h"
#include "text/template/jinja_ops.h"
#include "text/template/jinja_scope.h"
#include "text/template/jinja_text.h"
#include "text/template/jinja_utf8.h"

static bool eval_const(struct jinja_run *r, const struct jinja_node *node, struct jinja_value *out)
{
    (void)r;
    *out = node->value;
    return true;
}

static bool eval_name(struct jinja_run *r, const struct jinja_node *node, struct jinja_value *out)
{
    return jinja_scope_lookup(r, node->name, out);
}

static bool eval_hole(struct jinja_run *r, const struct jinja_node *node, struct jinja_value *out)
{
    (void)node;
    *out = r->hole;
    return true;
}

static bool eval_items(struct jinja_run *r, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_list *list = jinja_list_new(r, 0);
    struct jinja_value item;
    if (!list)
        return false;
    for (const struct jinja_node *n = node->a; n; n = n->next) {
        if (!jinja_eval(r, n, &item) || !jinja_list_add(r, list, item))
            return false;
    }
    *out = (struct jinja_value){.type = node->kind == NODE_LIST ? JINJA_LIST : JINJA_TUPLE,
                                .list = list};
    return true;
}

static bool eval_dict(struct jinja_run *r, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_dict *dict = jinja_dict_new(r, 0);
    struct jinja_value key, value;
    if (!dict)
        return false;
    for (const struct jinja_node *n = node->a; n; n = n->next->next) {
        if (!jinja_eval(r, n, &key) || !jinja_eval(r, n->next, &value) ||
            !jinja_dict_set(r, dict, key, value))
            return false;
    }
    *out = jinja_dict_value(dict);
    return true;
}

static bool eval_attr(struct jinja_run *r, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value subject;
    if (!jinja_eval(r, node->a, &subject))
        return false;
    r->line = node->line;
    return jinja_access_attribute(r, subject, &node->name->s, node->name->hash,
                                  node->name->is_method, out);
}

static bool eval_item(struct jinja_run *r, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value subject, key;
    if (!jinja_eval(r, node->a, &subject) || !jinja_eval(r, node->b, &key))
        return false;
    r->line = node->line;
    return jinja_access_item(r, subject, key, out);
}

static bool eval_slice(struct jinja_run *r, const struct jinja_node *node, struct jinja_value *out)
{
    const struct jinja_node *parts[3] = {node->b, node->c, node->d};
    struct jinja_value subject, bounds[3] = {{.type = JINJA_UNSET}};
    if (!jinja_eval(r, node->a, &subject))
        return false;
    for (int i = 0; i < 3; i++) {
        if (parts[i] && !jinja_eval(r, parts[i], &bounds[i]))
            return false;
    }
    r->line = node->line;
    return jinja_access_slice(r, subject, bounds, out);
}

/* The arguments' values, in the rendering's memory. */
static bool eval_args(struct jinja_run *r, const struct jinja_node *first, struct jinja_args *args)
{
    struct jinja_value *pos;
    struct jinja_keyword *keywords;
    size_t n_pos = 0, n_keywords = 0;
    *args = (struct jinja_args){0};
    for (const struct jinja_node *n = first; n; n = n->next)
        ++*(n->kind == NODE_KEYWORD ? &n_keywords : &n_pos);
    if (n_pos + n_keywords == 0)
        return true;
    pos = jinja_array(r, n_pos, sizeof *pos);
    keywords = jinja_array(r, n_keywords, sizeof *keywords);
    if (!pos || !keywords)
        return false;
    args->pos = pos;
    args->keywords = keywords;
    for (const struct jinja_node *n = first; n; n = n->next) {
        if (n->kind == NODE_KEYWORD) {
            struct jinja_keyword *k = &keywords[args->n_keywords++];
            *k = (struct jinja_keyword){.name = &n->name->s, .hash = n->name->hash};
            if (!jinja_eval(r, n->a, &k->value))
                return false;
        } else if (!jinja_eval(r, n, &pos[args->n_pos++])) {
            return false;
        }
    }
    return true;
}

bool jinja_eval_call(struct jinja_run *r, const struct jinja_node *node, struct jinja_value caller,
                     struct jinja_value *out)
{
    static const struct jinja_value nothing = {.type = JINJA_UNSET};
    struct jinja_value callee;
    struct jinja_args args;
    if (!jinja_eval(r, node->a, &callee) || !eval_args(r, node->b, &args))
        return false;
    r->line = node->line;
    switch (callee.type) {
    case JINJA_MACRO:
        return jinja_exec_macro(r, callee.macro, &args, caller, out);
    case JINJA_FUNCTION:
        return jinja_builtin_call(r, callee.builtin, nothing, &args, out);
    case JINJA_METHOD:
        return jinja_builtin_call(r, callee.method->builtin, callee.method->self, &args, out);
    case JINJA_UNDEFINED:
        return jinja_fail_undefined(r, callee);
    default:
        return jinja_fail(r, STATUS_INVALID, "expected something to call, found a '%s'",
                          jinja_type_name(callee));
    }
}

static bool eval_call(struct jinja_run *r, const struct jinja_node *node, struct jinja_value *out)
{
    return jinja_eval_call(r, node, (struct jinja_value){.type = JINJA_UNSET}, out);
}

/* Filters and tests: the row was found when the template was compiled. */
static bool eval_builtin(struct jinja_run *r, const struct jinja_node *node,
                         struct jinja_value *out)
{
    struct jinja_value subject;
    struct jinja_args args;
    if (!node->builtin) {
        r->line = node->line;
        return jinja_fail(r, STATUS_UNSUPPORTED, "the %s '%.*s' is not supported",
                          node->kind == NODE_FILTER ? "filter" : "test",
                          jinja_utf8_cut(node->name->s.bytes, node->name->s.len, 64),
                          node->name->s.bytes);
    }
    if (!jinja_eval(r, node->a, &subject) || !eval_args(r, node->b, &args))
        return false;
    r->line = node->line;
    return jinja_builtin_call(r, node->builtin, subject, &args, out);
}

static bool eval_test(struct jinja_run *r, const struct jinja_node *node, struct jinja_value *out)
{
    if (!eval_builtin(r, node, out))
        return false;
    *out = jinja_bool(jinja_truth(*out) != (node->op != 0));
    return true;
}

static bool eval_not(struct jinja_run *r, const struct jinja_node *node, struct jinja_value *out)
{
    if (!jinja_eval(r, node->a, out))
        return false;
    *out = jinja_bool(!jinja_truth(*out));
    return true;
}

static bool eval_sign(struct jinja_run *r, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value v;
    if (!jinja_eval(r, node->a, &v))
        return false;
    r->line = node->line;
    if (node->kind == NODE_NEGATE)
        return jinja_ops_negate(r, v, out);
    return jinja_ops_binary(r, '+', jinja_int(0), v, out);
}

static bool eval_chain(struct jinja_run *r, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value right;
    if (!jinja_eval(r, node->a, out))
        return false;
    for (const struct jinja_node *step = node->b; step; step = step->next) {
        if (!jinja_eval(r, step->a, &right))
            return false;
        r->line = step->line;
        if (!jinja_ops_binary(r, step->op, *out, right, out))
            return false;
    }
    return true;
}

static bool eval_compare(struct jinja_run *r, const struct jinja_node *node,
                         struct jinja_value *out)
{
    struct jinja_value left, right;
    bool holds = true;
    if (!jinja_eval(r, node->a, &left))
        return false;
    for (const struct jinja_node *step = node->b; step && holds; step = step->next) {
        if (!jinja_eval(r, step->a, &right))
            return false;
        r->line = step->line;
        if (!jinja_ops_compare(r, step->op, left, right, &holds))
            return false;
        left = right;
    }
    *out = jinja_bool(holds);
    return true;
}

/* The value is the operand that decided, as in Python. */
static bool eval_logic(struct jinja_run *r, const struct jinja_node *node, struct jinja_value *out)
{
    for (const struct jinja_node *n = node->a; n; n = n->next) {
        if (!jinja_eval(r, n, out))
            return false;
        if (jinja_truth(*out) == (node->kind == NODE_OR))
            return true;
    }
    return true;
}

static bool eval_cond(struct jinja_run *r, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value condition;
    if (!jinja_eval(r, node->b, &condition))
        return false;
    if (jinja_truth(condition))
        return jinja_eval(r, node->a, out);
    if (node->c)
        return jinja_eval(r, node->c, out);
    *out = jinja_undefined(NULL, JINJA_UNSET);
    return true;
}

typedef bool eval_fn(struct jinja_run *r, const struct jinja_node *node, struct jinja_value *out);

static eval_fn *const evaluators[] = {
    [NODE_CONST] = eval_const,    [NODE_NAME] = eval_name,       [NODE_LIST] = eval_items,
    [NODE_TUPLE] = eval_items,    [NODE_DICT] = eval_dict,       [NODE_ATTR] = eval_attr,
    [NODE_ITEM] = eval_item,      [NODE_SLICE] = eval_slice,     [NODE_CALL] = eval_call,
    [NODE_FILTER] = eval_builtin, [NODE_TEST] = eval_test,       [NODE_HOLE] = eval_hole,
    [NODE_NOT] = eval_not,        [NODE_NEGATE] = eval_sign,     [NODE_PLUS] = eval_sign,
    [NODE_CHAIN] = eval_chain,    [NODE_COMPARE] = eval_compare, [NODE_AND] = eval_logic,
    [NODE_OR] = eval_logic,       [NODE_COND] = eval_cond,
};

bool jinja_eval(struct jinja_run *r, const struct jinja_node *node, struct jinja_value *out)
{
    bool ok;
    r->line = node->line;
    if (!jinja_enter(r))
        return false;
    ok = evaluators[node->kind](r, node, out);
    jinja_leave(r);
    return ok;
}
