/* The syntax tree of a compiled template. Immutable once parsed; all of it is one arena's.
 *
 * Every node has the same four links; what they hold depends on the kind. Lists are nodes chained
 * by `next`. `a?` may be NULL, `a*` is a list, which may be empty (NULL).
 */
#ifndef FIRSTLIGHT_TEXT_TEMPLATE_JINJA_AST_H
#define FIRSTLIGHT_TEXT_TEMPLATE_JINJA_AST_H

#include "base/arena.h"
#include "text/template/jinja_value.h"

enum jinja_node_kind {
    /* expressions */
    NODE_CONST,   /* value */
    NODE_NAME,    /* name */
    NODE_LIST,    /* [a*] */
    NODE_TUPLE,   /* (a*) */
    NODE_DICT,    /* {a*}: key, value, key, value, ... */
    NODE_ATTR,    /* a.name */
    NODE_ITEM,    /* a[b] */
    NODE_SLICE,   /* a[b?:c?:d?] */
    NODE_CALL,    /* a(b*), keyword arguments are NODE_KEYWORD */
    NODE_KEYWORD, /* name=a */
    NODE_FILTER,  /* a|name(b*); builtin NULL when no such filter is known */
    NODE_TEST,    /* a is name(b*); op is 1 for `is not` */
    NODE_HOLE,    /* what a filter block or block set captured, the filters' subject */
    NODE_NOT,     /* not a */
    NODE_NEGATE,  /* -a */
    NODE_PLUS,    /* +a */
    NODE_CHAIN,   /* a, then each NODE_STEP of b*, operators of one precedence, left to right */
    NODE_COMPARE, /* a < b < c: like NODE_CHAIN with comparing operators */
    NODE_STEP,    /* op, operand a */
    NODE_AND,     /* a*, two or more */
    NODE_OR,      /* a*, two or more */
    NODE_COND,    /* a if b else c? */
    /* statements */
    NODE_TEXT,     /* value */
    NODE_PRINT,    /* {{ a }} */
    NODE_IF,       /* a*: NODE_BRANCH */
    NODE_BRANCH,   /* if a? (NULL: else) then d* */
    NODE_FOR,      /* for a in b if c?: d* else e* */
    NODE_SET,      /* a = b */
    NODE_CAPTURE,  /* set a = d*, captured, through the filters b (NODE_HOLE: none) */
    NODE_MACRO,    /* name, parameters a*, body d* */
    NODE_PARAM,    /* name, default a? */
    NODE_CALLER,   /* {% call(c*) a %}: the NODE_MACRO b is a's `caller` */
    NODE_FILTERED, /* {% filter b %} d* */
    NODE_WITH,     /* {% with a* %} d*; a* are NODE_SET */
    NODE_SCOPE,    /* {% generation %} d* */
    NODE_BREAK,
    NODE_CONTINUE,
};

/* A name of the source, interned: one per spelling. */
struct jinja_name {
    struct jinja_string s;
    uint32_t hash;
    uint32_t id;    /* 0 .. program.n_names - 1 */
    bool is_method; /* some type has a method of this name */
};

struct jinja_node {
    uint8_t kind;
    uint8_t op;
    int line;
    struct jinja_node *next;
    struct jinja_node *a, *b, *c, *d, *e;
    const struct jinja_name *name;
    const struct jinja_builtin *builtin;
    struct jinja_value value;
};

struct jinja_program {
    struct arena arena;
    struct jinja_node *body; /* statements */
    size_t n_names;
    const struct jinja_name *loop; /* names that the evaluator binds itself */
    const struct jinja_name *caller;
};

#endif
