/* The evaluator: a tree walk over expressions (jinja_eval.c) and statements (jinja_exec.c). */
#ifndef FIRSTLIGHT_TEXT_TEMPLATE_JINJA_EVAL_H
#define FIRSTLIGHT_TEXT_TEMPLATE_JINJA_EVAL_H

#include "text/template/jinja_builtin.h"
#include "text/template/jinja_run.h"

bool jinja_eval(struct jinja_run *r, const struct jinja_node *node, struct jinja_value *out);

/* Evaluates a NODE_CALL; `caller` is what {% call %} passes, else JINJA_UNSET. */
bool jinja_eval_call(struct jinja_run *r, const struct jinja_node *node, struct jinja_value caller,
                     struct jinja_value *out);

/* Runs statements into r->out. */
bool jinja_exec(struct jinja_run *r, const struct jinja_node *body);

/* Calls a macro and gives what it printed. */
bool jinja_exec_macro(struct jinja_run *r, const struct jinja_macro *macro,
                      const struct jinja_args *args, struct jinja_value caller,
                      struct jinja_value *out);

#endif
