#include "text/template/jinja_builtin.h"
#include "text/template/jinja_utf8.h"

#include <string.h>

const struct jinja_builtin *jinja_builtin_find(const struct jinja_builtin *table,
                                               const struct jinja_string *name)
{
    for (; table->name; table++) {
        if (jinja_string_is(name, table->name))
            return table;
    }
    return NULL;
}

/* The index of the row's parameter of that name, or JINJA_MAX_PARAMS. */
static size_t param_index(const struct jinja_builtin *row, const struct jinja_string *name)
{
    size_t i = 0;
    while (i < JINJA_MAX_PARAMS && row->params[i] && !jinja_string_is(name, row->params[i]))
        i++;
    return i < JINJA_MAX_PARAMS && row->params[i] ? i : JINJA_MAX_PARAMS;
}

static bool bind_keywords(struct jinja_run *r, const struct jinja_builtin *row,
                          struct jinja_args *a)
{
    for (size_t i = 0; i < a->n_keywords; i++) {
        const struct jinja_string *name = a->keywords[i].name;
        size_t at = param_index(row, name);
        if (at == JINJA_MAX_PARAMS || a->arg[at].type != JINJA_UNSET)
            return jinja_fail(r, STATUS_INVALID, "%s: expected other arguments, found '%.*s'",
                              row->name, jinja_utf8_cut(name->bytes, name->len, 64), name->bytes);
        a->arg[at] = a->keywords[i].value;
    }
    return true;
}

bool jinja_builtin_call(struct jinja_run *r, const struct jinja_builtin *row,
                        struct jinja_value self, struct jinja_args *a, struct jinja_value *out)
{
    size_t n_params = 0;
    while (n_params < JINJA_MAX_PARAMS && row->params[n_params])
        n_params++;
    if ((row->flags & JINJA_VARIADIC) != 0)
        return row->call(r, self, a, out);
    if (a->n_pos > n_params)
        return jinja_fail(r, STATUS_INVALID, "%s: expected at most %zu arguments, found %zu",
                          row->name, n_params, a->n_pos);
    for (size_t i = 0; i < a->n_pos; i++)
        a->arg[i] = a->pos[i];
    if (!bind_keywords(r, row, a))
        return false;
    for (size_t i = 0; i < row->required; i++) {
        if (a->arg[i].type == JINJA_UNSET)
            return jinja_fail(r, STATUS_INVALID, "%s: expected the argument '%s', found none",
                              row->name, row->params[i]);
    }
    return row->call(r, self, a, out);
}

bool jinja_builtin_int(struct jinja_run *r, struct jinja_value v, int64_t otherwise, int64_t *out)
{
    *out = otherwise;
    if (jinja_is_missing(v) || jinja_integer(v, out))
        return true;
    if (v.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(r, v);
    return jinja_fail(r, STATUS_INVALID, "expected an integer, found a '%s'", jinja_type_name(v));
}

bool jinja_builtin_string(struct jinja_run *r, struct jinja_value v, const char *what,
                          const struct jinja_string **out)
{
    if (v.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(r, v);
    if (v.type != JINJA_STRING)
        return jinja_fail(r, STATUS_INVALID, "expected a string as %s, found a '%s'", what,
                          jinja_type_name(v));
    *out = v.s;
    return true;
}
