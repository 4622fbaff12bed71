/* Operators on values, as Python has them; integers have 64 bits and overflow is an error. */
#ifndef FIRSTLIGHT_TEXT_TEMPLATE_JINJA_OPS_H
#define FIRSTLIGHT_TEXT_TEMPLATE_JINJA_OPS_H

#include "text/template/jinja_lexer.h"
#include "text/template/jinja_run.h"

/* *order is < 0, 0 or > 0. Fails for types that have no order among each other. */
bool jinja_ops_order(struct jinja_run *r, struct jinja_value a, struct jinja_value b, int *order);

/* needle in haystack */
bool jinja_ops_contains(struct jinja_run *r, struct jinja_value haystack, struct jinja_value needle,
                        bool *found);

/* A comparing operator: == != < <= > >= in, not in (enum jinja_op or the character). */
bool jinja_ops_compare(struct jinja_run *r, int op, struct jinja_value a, struct jinja_value b,
                       bool *result);

/* An operator that joins: + - ~ * / // % ** */
bool jinja_ops_binary(struct jinja_run *r, int op, struct jinja_value a, struct jinja_value b,
                      struct jinja_value *out);
bool jinja_ops_negate(struct jinja_run *r, struct jinja_value v, struct jinja_value *out);

/* len(v) in code points, items or keys. */
bool jinja_ops_length(struct jinja_run *r, struct jinja_value v, struct jinja_value *out);

#endif
