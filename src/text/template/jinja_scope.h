/* Scopes: which value a name has where. jinja_run.h shows how bindings and saved records work. */
#ifndef FIRSTLIGHT_TEXT_TEMPLATE_JINJA_SCOPE_H
#define FIRSTLIGHT_TEXT_TEMPLATE_JINJA_SCOPE_H

#include "text/template/jinja_run.h"

/* A scope ends with everything that was bound in it. Pass close what open returned. */
size_t jinja_scope_open(struct jinja_run *r);
void jinja_scope_close(struct jinja_run *r, size_t mark);

/* Binds in the innermost scope. */
bool jinja_scope_bind(struct jinja_run *r, const struct jinja_name *name, struct jinja_value value);

/* The visible value: bound, else a variable of the context, else a global function, else
 * undefined. */
bool jinja_scope_lookup(struct jinja_run *r, const struct jinja_name *name,
                        struct jinja_value *out);

/* Makes what scopes deeper than `scope` bound invisible, for the body of a macro defined there.
 * Undo with the number that hide returned (0: it failed), in reverse order of hiding. */
uint32_t jinja_scope_hide(struct jinja_run *r, uint32_t scope);
void jinja_scope_unhide(struct jinja_run *r, uint32_t hidden);

#endif
