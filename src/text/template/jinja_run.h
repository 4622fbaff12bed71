/* One rendering: its memory, its bounds, its variables, its output.
 *
 * Everything here lives for one template_render and belongs to one thread. Convention of all
 * jinja_* functions that take a run and return bool: false means jinja_fail was called (the error
 * is filled, the status kept) and the caller returns false at once.
 *
 * Variables are bound shallowly: bindings[name.id] is the value that is visible now. A scope that
 * binds a name first saves what was there and puts it back when it ends:
 *
 *     bindings  [messages][loop][message][bos] ...            one slot per name of the program
 *     saved     ... | loop: unset  message: unset | loop: .. | one record per name that a scope hid
 *                   └ scope 1                     └ scope 2
 */
#ifndef FIRSTLIGHT_TEXT_TEMPLATE_JINJA_RUN_H
#define FIRSTLIGHT_TEXT_TEMPLATE_JINJA_RUN_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "text/template/jinja_ast.h"
#include "text/template/jinja_value.h"

#include <jansson.h>

struct jinja_binding {
    struct jinja_value value;
    uint32_t scope; /* the scope that bound it; 0 is the template's top level */
};

struct jinja_saved {
    const struct jinja_name *name;
    struct jinja_binding binding;
    uint32_t by;     /* the scope that hid the binding */
    uint32_t hidden; /* see jinja_scope_hide; 0: in force */
};

/* Where output goes. `origin` is NULL when nobody asked. */
struct jinja_out {
    struct buf *text;
    struct buf *origin; /* one byte per byte of text */
};

struct jinja_run {
    const struct jinja_program *program;
    json_t *context;
    struct arena arena;
    struct err *err;
    enum status status;
    int line;                       /* of the node being evaluated */
    uint32_t steps;                 /* left */
    uint32_t depth;                 /* of the evaluator's recursion */
    struct jinja_binding *bindings; /* (program->n_names) */
    struct jinja_saved *saved;      /* (saved_cap), the first n_saved in use */
    size_t n_saved;
    size_t saved_cap;
    uint32_t scope;
    uint32_t loops;          /* {% for %} around */
    struct jinja_value hole; /* see NODE_HOLE */
    struct jinja_out out;
};

/* A macro with the scope it was defined in: it sees no names of deeper scopes. */
struct jinja_macro {
    const struct jinja_node *node;
    uint32_t scope;
};

/* "line N: text"; always false. */
bool jinja_fail(struct jinja_run *r, enum status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
bool jinja_fail_undefined(struct jinja_run *r, struct jinja_value v);

/* Counts work against LIMIT_TEMPLATE_STEPS: one step, and one per 64 units of bulk work. */
bool jinja_step(struct jinja_run *r);
bool jinja_work(struct jinja_run *r, size_t units);

/* Recursion of the evaluator and of anything that walks nested values. */
bool jinja_enter(struct jinja_run *r);
static inline void jinja_leave(struct jinja_run *r)
{
    r->depth--;
}

/* The rendering's memory; NULL after jinja_fail. */
void *jinja_alloc(struct jinja_run *r, size_t size);
void *jinja_array(struct jinja_run *r, size_t count, size_t size); /* cleared */

/* Lists and dicts: jinja_container.c */
struct jinja_list *jinja_list_new(struct jinja_run *r, size_t cap);
bool jinja_list_add(struct jinja_run *r, struct jinja_list *list, struct jinja_value item);
struct jinja_value jinja_list_value(struct jinja_list *list);
bool jinja_tuple2(struct jinja_run *r, struct jinja_value a, struct jinja_value b,
                  struct jinja_value *out);
struct jinja_dict *jinja_dict_new(struct jinja_run *r, size_t cap);
struct jinja_value jinja_dict_value(struct jinja_dict *dict);
bool jinja_dict_set(struct jinja_run *r, struct jinja_dict *dict, struct jinja_value key,
                    struct jinja_value value);
/* *found is NULL when there is no such key. */
bool jinja_dict_find(struct jinja_run *r, const struct jinja_dict *dict, struct jinja_value key,
                     const struct jinja_value **found);
const struct jinja_value *jinja_dict_name(const struct jinja_dict *dict,
                                          const struct jinja_string *name, uint32_t hash);

bool jinja_equal(struct jinja_run *r, struct jinja_value a, struct jinja_value b, bool *equal);

/* What {% for %} goes through: the items of a list, the keys of a dict, the characters of a string,
 * nothing for undefined. */
bool jinja_iterate(struct jinja_run *r, struct jinja_value v, const struct jinja_list **list);

/* Converts a value of the context; strings are borrowed from it. */
bool jinja_from_json(struct jinja_run *r, json_t *json, struct jinja_value *out);

#endif
