#include "text/template/jinja_parser.h"
#include "text/template/jinja_utf8.h"

#include "base/limits.h"
#include "text/template/jinja_builtin.h"

#include <string.h>

#define FOUND_MAX 40 /* bytes of a token that an error shows */

const struct jinja_token *jinja_parser_peek(const struct jinja_parser *p)
{
    return &p->tokens.items[p->pos];
}

bool jinja_parser_at_op(const struct jinja_parser *p, int op)
{
    const struct jinja_token *t = jinja_parser_peek(p);
    return t->kind == TOKEN_OP && t->op == op;
}

bool jinja_parser_at_word(const struct jinja_parser *p, const char *word)
{
    const struct jinja_token *t = jinja_parser_peek(p);
    return t->kind == TOKEN_NAME && strlen(word) == t->len && memcmp(t->bytes, word, t->len) == 0;
}

bool jinja_parser_skip_op(struct jinja_parser *p, int op)
{
    bool there = jinja_parser_at_op(p, op);
    p->pos += there;
    return there;
}

bool jinja_parser_skip_word(struct jinja_parser *p, const char *word)
{
    bool there = jinja_parser_at_word(p, word);
    p->pos += there;
    return there;
}

bool jinja_parser_expect_op(struct jinja_parser *p, char op)
{
    char expected[] = "'?'";
    expected[1] = op;
    return jinja_parser_skip_op(p, op) || jinja_parser_fail(p, expected);
}

bool jinja_parser_expect_word(struct jinja_parser *p, const char *word)
{
    return jinja_parser_skip_word(p, word) || jinja_parser_fail(p, word);
}

bool jinja_parser_expect_kind(struct jinja_parser *p, enum jinja_token_kind kind,
                              const char *expected)
{
    if (jinja_parser_peek(p)->kind != kind)
        return jinja_parser_fail(p, expected);
    p->pos++;
    return true;
}

bool jinja_parser_fail(struct jinja_parser *p, const char *expected)
{
    const struct jinja_token *t = jinja_parser_peek(p);
    int len = jinja_utf8_cut(t->bytes, t->len, FOUND_MAX);
    if (t->kind == TOKEN_END)
        err_set(p->err, STATUS_INVALID, "line %d: expected %s, found the end of the template",
                t->line, expected);
    else if (t->kind == TOKEN_TEXT)
        err_set(p->err, STATUS_INVALID, "line %d: expected %s, found text", t->line, expected);
    else
        err_set(p->err, STATUS_INVALID, "line %d: expected %s, found '%.*s'", t->line, expected,
                len, t->bytes);
    return false;
}

bool jinja_parser_no_memory(struct jinja_parser *p)
{
    jinja_lexer_no_memory(p->arena, jinja_parser_peek(p)->line, p->err);
    return false;
}

bool jinja_parser_enter(struct jinja_parser *p)
{
    if (++p->depth <= LIMIT_TEMPLATE_DEPTH)
        return true;
    err_set(p->err, STATUS_TOO_LARGE, "line %d: expected at most %d nested levels, found more",
            jinja_parser_peek(p)->line, LIMIT_TEMPLATE_DEPTH);
    return false;
}

struct jinja_node *jinja_parser_node(struct jinja_parser *p, enum jinja_node_kind kind)
{
    struct jinja_node *node = arena_array(p->arena, 1, sizeof *node);
    if (!node) {
        jinja_parser_no_memory(p);
        return NULL;
    }
    node->kind = (uint8_t)kind;
    node->line = jinja_parser_peek(p)->line;
    return node;
}

struct jinja_node *jinja_parser_node_with(struct jinja_parser *p, enum jinja_node_kind kind,
                                          struct jinja_node *a)
{
    struct jinja_node *node = jinja_parser_node(p, kind);
    if (node)
        node->a = a;
    return node;
}

void jinja_parser_add(struct jinja_parser_list *list, struct jinja_node *node)
{
    if (!list->first)
        list->first = node;
    else
        list->last->next = node;
    list->last = node;
}

/* The slot of the name, or the empty one where it belongs. */
static struct jinja_name **jinja_parser_find_slot(struct jinja_name **names, size_t slots,
                                                  uint32_t hash, const char *bytes, size_t len)
{
    for (size_t i = hash & (slots - 1);; i = (i + 1) & (slots - 1)) {
        struct jinja_name *name = names[i];
        if (!name || (name->hash == hash && name->s.len == len &&
                      (len == 0 || memcmp(name->s.bytes, bytes, len) == 0)))
            return &names[i];
    }
}

/* At most half of the slots are taken. */
static bool grow_names(struct jinja_parser *p)
{
    size_t slots = p->name_slots ? p->name_slots * 2 : 64;
    struct jinja_name **names;
    if (p->program->n_names * 2 < p->name_slots)
        return true;
    names = arena_array(p->arena, slots, sizeof(struct jinja_name *));
    if (!names)
        return jinja_parser_no_memory(p);
    for (size_t i = 0; i < p->name_slots; i++) {
        struct jinja_name *name = p->names[i];
        if (name)
            *jinja_parser_find_slot(names, slots, name->hash, name->s.bytes, name->s.len) = name;
    }
    p->names = names;
    p->name_slots = slots;
    return true;
}

const struct jinja_name *jinja_parser_intern(struct jinja_parser *p, const char *bytes, size_t len)
{
    uint32_t hash = jinja_hash(bytes, len);
    struct jinja_name **slot, *name;
    if (!grow_names(p))
        return NULL;
    slot = jinja_parser_find_slot(p->names, p->name_slots, hash, bytes, len);
    if (*slot)
        return *slot;
    name = arena_array(p->arena, 1, sizeof *name);
    if (!name) {
        jinja_parser_no_memory(p);
        return NULL;
    }
    name->s = (struct jinja_string){.bytes = bytes, .len = len, .trusted = true};
    name->hash = hash;
    name->id = (uint32_t)p->program->n_names++;
    name->is_method = jinja_builtin_is_method(&name->s);
    *slot = name;
    return name;
}

const struct jinja_name *jinja_parser_name(struct jinja_parser *p)
{
    const struct jinja_token *t = jinja_parser_peek(p);
    if (!jinja_parser_expect_kind(p, TOKEN_NAME, "a name"))
        return NULL;
    return jinja_parser_intern(p, t->bytes, t->len);
}

enum status jinja_parser_run(struct jinja_program *program, const char *source, size_t len,
                             struct err *err)
{
    struct jinja_parser p = {.program = program, .arena = &program->arena, .err = err};
    enum status st = jinja_lexer_run(p.arena, source, len, &p.tokens, err);
    struct err own = {0}; /* the parser reads the code back, and err may be NULL */
    if (st != STATUS_OK)
        return st;
    p.err = &own;
    program->loop = jinja_parser_intern(&p, "loop", 4);
    program->caller = jinja_parser_intern(&p, "caller", 6);
    if (program->loop && program->caller && jinja_stmt_parse(&p, NULL, &program->body))
        return STATUS_OK;
    if (err)
        *err = own;
    return own.code;
}
