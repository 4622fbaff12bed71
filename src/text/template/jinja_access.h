/* Attributes, subscripts and slices of values. What is missing is undefined and names itself. */
#ifndef FIRSTLIGHT_TEXT_TEMPLATE_JINJA_ACCESS_H
#define FIRSTLIGHT_TEXT_TEMPLATE_JINJA_ACCESS_H

#include "text/template/jinja_run.h"

/* v.name: a method of the type (looked for when may_be_method), else a key or attribute. */
bool jinja_access_attribute(struct jinja_run *r, struct jinja_value v,
                            const struct jinja_string *name, uint32_t hash, bool may_be_method,
                            struct jinja_value *out);

/* v[key]: a key or index, else an attribute. */
bool jinja_access_item(struct jinja_run *r, struct jinja_value v, struct jinja_value key,
                       struct jinja_value *out);

/* v[a:b:c]; a bound left out is JINJA_UNSET or None. */
bool jinja_access_slice(struct jinja_run *r, struct jinja_value v,
                        const struct jinja_value bounds[3], struct jinja_value *out);

#endif
