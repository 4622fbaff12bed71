#include "text/template/jinja_eval.h"
#include "text/template/jinja_utf8.h"

#include "text/template/jinja_scope.h"
#include "text/template/jinja_text.h"

/* What happens behind a statement. */
enum flow { FLOW_FAIL, FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE };

static enum flow exec_list(struct jinja_run *r, const struct jinja_node *node);

static enum flow flow_of(bool ok)
{
    return ok ? FLOW_NEXT : FLOW_FAIL;
}

static enum flow exec_text(struct jinja_run *r, const struct jinja_node *node)
{
    return flow_of(jinja_out_string(r, &r->out, node->value.s));
}

static enum flow exec_print(struct jinja_run *r, const struct jinja_node *node)
{
    struct jinja_value v;
    return flow_of(jinja_eval(r, node->a, &v) && jinja_write_str(r, &r->out, v));
}

static enum flow exec_if(struct jinja_run *r, const struct jinja_node *node)
{
    for (const struct jinja_node *branch = node->a; branch; branch = branch->next) {
        struct jinja_value condition = jinja_bool(true);
        if (branch->a && !jinja_eval(r, branch->a, &condition))
            return FLOW_FAIL;
        if (jinja_truth(condition))
            return exec_list(r, branch->d);
    }
    return FLOW_NEXT;
}

static bool assign(struct jinja_run *r, const struct jinja_node *target, struct jinja_value v);

static bool assign_tuple(struct jinja_run *r, const struct jinja_node *target, struct jinja_value v)
{
    const struct jinja_list *list;
    size_t wanted = 0;
    if (!jinja_iterate(r, v, &list))
        return false;
    for (const struct jinja_node *n = target->a; n; n = n->next, wanted++) {
        if (wanted < list->count && !assign(r, n, list->items[wanted]))
            return false;
    }
    return wanted == list->count ||
           jinja_fail(r, STATUS_INVALID, "expected %zu values to assign, found %zu", wanted,
                      list->count);
}

static bool assign_attribute(struct jinja_run *r, const struct jinja_node *target,
                             struct jinja_value v)
{
    struct jinja_value object;
    const struct jinja_string *name = &target->name->s;
    if (!jinja_eval(r, target->a, &object))
        return false;
    if (object.type != JINJA_NAMESPACE)
        return jinja_fail(r, STATUS_INVALID, "expected a namespace to assign to, found a '%s'",
                          jinja_type_name(object));
    if (name->bytes[0] == '_')
        return jinja_fail(r, STATUS_INVALID,
                          "expected a namespace's name without '_', found '%.*s'",
                          jinja_utf8_cut(name->bytes, name->len, 64), name->bytes);
    return jinja_dict_set(r, object.dict, (struct jinja_value){.type = JINJA_STRING, .s = name}, v);
}

static bool assign(struct jinja_run *r, const struct jinja_node *target, struct jinja_value v)
{
    if (target->kind == NODE_NAME)
        return jinja_scope_bind(r, target->name, v);
    if (target->kind == NODE_ATTR)
        return assign_attribute(r, target, v);
    return assign_tuple(r, target, v);
}

static enum flow exec_set(struct jinja_run *r, const struct jinja_node *node)
{
    struct jinja_value v;
    return flow_of(jinja_eval(r, node->b, &v) && assign(r, node->a, v));
}

/* One round of a loop, in a scope of its own. */
static enum flow exec_round(struct jinja_run *r, const struct jinja_node *node,
                            struct jinja_loop *loop)
{
    size_t mark = jinja_scope_open(r);
    struct jinja_value v = {.type = JINJA_LOOP, .loop = loop};
    enum flow flow = FLOW_FAIL;
    if (jinja_scope_bind(r, r->program->loop, v) &&
        assign(r, node->a, loop->list->items[loop->index]))
        flow = exec_list(r, node->d);
    jinja_scope_close(r, mark);
    return flow;
}

/* Whether `for x in y if c` takes this item. */
static bool loop_takes(struct jinja_run *r, const struct jinja_node *node, struct jinja_value item,
                       bool *takes)
{
    size_t mark = jinja_scope_open(r);
    struct jinja_value v = jinja_none();
    bool ok = jinja_step(r) && assign(r, node->a, item) && jinja_eval(r, node->c, &v);
    jinja_scope_close(r, mark);
    *takes = jinja_truth(v);
    return ok;
}

static bool loop_list(struct jinja_run *r, const struct jinja_node *node,
                      const struct jinja_list **out)
{
    const struct jinja_list *all;
    struct jinja_list *list;
    struct jinja_value v;
    if (!jinja_eval(r, node->b, &v) || !jinja_iterate(r, v, &all))
        return false;
    *out = all;
    if (!node->c)
        return true;
    *out = list = jinja_list_new(r, 0);
    for (size_t i = 0; list && i < all->count; i++) {
        bool takes;
        if (!loop_takes(r, node, all->items[i], &takes) ||
            (takes && !jinja_list_add(r, list, all->items[i])))
            return false;
    }
    return list != NULL;
}

static enum flow exec_scope(struct jinja_run *r, const struct jinja_node *body)
{
    size_t mark = jinja_scope_open(r);
    enum flow flow = exec_list(r, body);
    jinja_scope_close(r, mark);
    return flow;
}

static enum flow exec_for(struct jinja_run *r, const struct jinja_node *node)
{
    const struct jinja_list *list;
    struct jinja_loop *loop = jinja_array(r, 1, sizeof *loop);
    enum flow flow = FLOW_NEXT;
    if (!loop || !loop_list(r, node, &list))
        return FLOW_FAIL;
    if (list->count == 0)
        return exec_scope(r, node->e);
    *loop = (struct jinja_loop){.list = list, .depth = r->loops++};
    for (size_t i = 0; i < list->count && flow != FLOW_BREAK; i++) {
        loop->index = i;
        flow = jinja_step(r) ? exec_round(r, node, loop) : FLOW_FAIL;
        if (flow == FLOW_FAIL)
            return FLOW_FAIL;
    }
    r->loops--;
    return FLOW_NEXT;
}

/* Runs a body with its output captured. Break and continue leave it like its end. */
static enum flow capture(struct jinja_run *r, const struct jinja_node *body,
                         struct jinja_value *out)
{
    struct jinja_out outer = r->out;
    struct jinja_capture c;
    enum flow flow;
    jinja_capture_begin(&c);
    r->out = c.out;
    flow = exec_scope(r, body);
    r->out = outer;
    if (flow == FLOW_FAIL)
        jinja_capture_drop(&c);
    else if (!jinja_capture_end(r, &c, out))
        flow = FLOW_FAIL;
    return flow;
}

/* Captures the body and passes it through the filters. */
static enum flow capture_filtered(struct jinja_run *r, const struct jinja_node *node,
                                  struct jinja_value *out)
{
    struct jinja_value outer = r->hole;
    enum flow flow = capture(r, node->d, &r->hole);
    if (flow != FLOW_FAIL && !jinja_eval(r, node->b, out))
        flow = FLOW_FAIL;
    r->hole = outer;
    return flow;
}

static enum flow exec_capture(struct jinja_run *r, const struct jinja_node *node)
{
    struct jinja_value v;
    enum flow flow = capture_filtered(r, node, &v);
    return flow == FLOW_NEXT ? flow_of(assign(r, node->a, v)) : flow;
}

static enum flow exec_filtered(struct jinja_run *r, const struct jinja_node *node)
{
    struct jinja_value v;
    enum flow flow = capture_filtered(r, node, &v);
    return flow == FLOW_NEXT ? flow_of(jinja_write_str(r, &r->out, v)) : flow;
}

static struct jinja_macro *new_macro(struct jinja_run *r, const struct jinja_node *node)
{
    struct jinja_macro *macro = jinja_alloc(r, sizeof *macro);
    if (macro)
        *macro = (struct jinja_macro){.node = node, .scope = r->scope};
    return macro;
}

static enum flow exec_macro(struct jinja_run *r, const struct jinja_node *node)
{
    struct jinja_macro *macro = new_macro(r, node);
    struct jinja_value v = {.type = JINJA_MACRO, .macro = macro};
    return flow_of(macro && jinja_scope_bind(r, node->name, v));
}

static enum flow exec_caller(struct jinja_run *r, const struct jinja_node *node)
{
    struct jinja_macro *macro = new_macro(r, node->b);
    struct jinja_value caller = {.type = JINJA_MACRO, .macro = macro}, v;
    return flow_of(macro && jinja_eval_call(r, node->a, caller, &v) &&
                   jinja_write_str(r, &r->out, v));
}

/* The values are those outside the block, so they are all evaluated before any is bound. */
static enum flow exec_with(struct jinja_run *r, const struct jinja_node *node)
{
    struct jinja_list *list = jinja_list_new(r, 0);
    size_t mark, i = 0;
    enum flow flow = FLOW_NEXT;
    struct jinja_value v;
    if (!list)
        return FLOW_FAIL;
    for (const struct jinja_node *set = node->a; set; set = set->next) {
        if (!jinja_eval(r, set->b, &v) || !jinja_list_add(r, list, v))
            return FLOW_FAIL;
    }
    mark = jinja_scope_open(r);
    for (const struct jinja_node *set = node->a; set && flow == FLOW_NEXT; set = set->next)
        flow = flow_of(assign(r, set->a, list->items[i++]));
    if (flow == FLOW_NEXT)
        flow = exec_list(r, node->d);
    jinja_scope_close(r, mark);
    return flow;
}

static enum flow exec_generation(struct jinja_run *r, const struct jinja_node *node)
{
    return exec_scope(r, node->d);
}

static enum flow exec_break(struct jinja_run *r, const struct jinja_node *node)
{
    (void)r;
    (void)node;
    return FLOW_BREAK;
}

static enum flow exec_continue(struct jinja_run *r, const struct jinja_node *node)
{
    (void)r;
    (void)node;
    return FLOW_CONTINUE;
}

static enum flow (*const executors[])(struct jinja_run *r, const struct jinja_node *node) = {
    [NODE_TEXT] = exec_text,         [NODE_PRINT] = exec_print,      [NODE_IF] = exec_if,
    [NODE_FOR] = exec_for,           [NODE_SET] = exec_set,          [NODE_CAPTURE] = exec_capture,
    [NODE_MACRO] = exec_macro,       [NODE_CALLER] = exec_caller,    [NODE_WITH] = exec_with,
    [NODE_FILTERED] = exec_filtered, [NODE_SCOPE] = exec_generation, [NODE_BREAK] = exec_break,
    [NODE_CONTINUE] = exec_continue,
};

static enum flow exec_list(struct jinja_run *r, const struct jinja_node *node)
{
    enum flow flow = FLOW_NEXT;
    if (!jinja_enter(r))
        return FLOW_FAIL;
    for (; node && flow == FLOW_NEXT; node = node->next) {
        r->line = node->line;
        flow = jinja_step(r) ? executors[node->kind](r, node) : FLOW_FAIL;
    }
    jinja_leave(r);
    return flow;
}

bool jinja_exec(struct jinja_run *r, const struct jinja_node *body)
{
    return exec_list(r, body) != FLOW_FAIL;
}

static const struct jinja_keyword *find_keyword(const struct jinja_args *args,
                                                const struct jinja_name *name)
{
    for (size_t i = 0; i < args->n_keywords; i++) {
        if (args->keywords[i].hash == name->hash &&
            jinja_string_equal(args->keywords[i].name, &name->s))
            return &args->keywords[i];
    }
    return NULL;
}

/* Binds the parameters in the macro's scope: by position, by name, by default, else undefined. */
static bool bind_params(struct jinja_run *r, const struct jinja_node *node,
                        const struct jinja_args *args)
{
    size_t i = 0, used = 0;
    for (const struct jinja_node *param = node->a; param; param = param->next, i++) {
        const struct jinja_keyword *keyword = find_keyword(args, param->name);
        struct jinja_value v = jinja_undefined(&param->name->s, JINJA_UNSET);
        used += keyword != NULL;
        if (keyword && i < args->n_pos)
            return jinja_fail(
                r, STATUS_INVALID, "expected the argument '%.*s' once, found it twice",
                jinja_utf8_cut(param->name->s.bytes, param->name->s.len, 64), param->name->s.bytes);
        if (i < args->n_pos)
            v = args->pos[i];
        else if (keyword)
            v = keyword->value;
        else if (param->a && !jinja_eval(r, param->a, &v))
            return false;
        if (!jinja_step(r) || !jinja_work(r, args->n_keywords) ||
            !jinja_scope_bind(r, param->name, v))
            return false;
    }
    if (args->n_pos > i || args->n_keywords > used)
        return jinja_fail(r, STATUS_INVALID, "expected at most %zu arguments for '%.*s', found %zu",
                          i, jinja_utf8_cut(node->name->s.bytes, node->name->s.len, 64),
                          node->name->s.bytes, args->n_pos + args->n_keywords);
    return true;
}

bool jinja_exec_macro(struct jinja_run *r, const struct jinja_macro *macro,
                      const struct jinja_args *args, struct jinja_value caller,
                      struct jinja_value *out)
{
    uint32_t hidden = jinja_scope_hide(r, macro->scope), loops = r->loops;
    struct jinja_value hole = r->hole;
    size_t mark;
    bool ok;
    if (hidden == 0)
        return false;
    r->loops = 0;
    mark = jinja_scope_open(r);
    ok = (caller.type == JINJA_UNSET || jinja_scope_bind(r, r->program->caller, caller)) &&
         bind_params(r, macro->node, args) && capture(r, macro->node->d, out) != FLOW_FAIL;
    jinja_scope_close(r, mark);
    jinja_scope_unhide(r, hidden);
    r->hole = hole;
    r->loops = loops;
    return ok;
}
