/* What templates can call, as tables of rows: filters, tests, global functions and methods.
 *
 * A row names its parameters, so arguments by position and by keyword are matched in one place and
 * a function finds them in a->arg[] (JINJA_UNSET where one was left out). To add a filter, write
 * its function and its row.
 */
#ifndef FIRSTLIGHT_TEXT_TEMPLATE_JINJA_BUILTIN_H
#define FIRSTLIGHT_TEXT_TEMPLATE_JINJA_BUILTIN_H

#include "text/template/jinja_run.h"

#define JINJA_MAX_PARAMS 5
#define JINJA_VARIADIC   0x01 /* takes any arguments: see pos and keywords */

struct jinja_keyword {
    const struct jinja_string *name;
    uint32_t hash;
    struct jinja_value value;
};

/* The arguments of one call, as written and as matched to the row's parameters. */
struct jinja_args {
    const struct jinja_value *pos; /* (n_pos) */
    size_t n_pos;
    const struct jinja_keyword *keywords; /* (n_keywords) */
    size_t n_keywords;
    struct jinja_value arg[JINJA_MAX_PARAMS];
};

/* `self` is a filter's or test's subject, or a method's object. Returns false after jinja_fail. */
typedef bool jinja_builtin_fn(struct jinja_run *r, struct jinja_value self,
                              const struct jinja_args *a, struct jinja_value *out);

struct jinja_builtin {
    const char *name;
    jinja_builtin_fn *call;
    const char *params[JINJA_MAX_PARAMS];
    uint8_t required; /* parameters that must be given */
    uint8_t flags;
    uint32_t types; /* methods: 1u << jinja_type of each type that has it */
};

/* The filters of single values; jinja_builtin_filter knows those of lists, too. */
extern const struct jinja_builtin jinja_filters_table[];

/* A table's row of that name, NULL when there is none. It ends with a row without a name. */
const struct jinja_builtin *jinja_builtin_find(const struct jinja_builtin *table,
                                               const struct jinja_string *name);

/* NULL when there is none of that name. Each is in the file of its rows. */
const struct jinja_builtin *jinja_builtin_filter(const struct jinja_string *name);
const struct jinja_builtin *jinja_builtin_test(const struct jinja_string *name);
const struct jinja_builtin *jinja_builtin_global(const struct jinja_string *name);
const struct jinja_builtin *jinja_builtin_method(enum jinja_type type,
                                                 const struct jinja_string *name);
bool jinja_builtin_is_method(const struct jinja_string *name);

/* Matches a's arguments to the row's parameters and calls it. */
bool jinja_builtin_call(struct jinja_run *r, const struct jinja_builtin *row,
                        struct jinja_value self, struct jinja_args *a, struct jinja_value *out);

/* Arguments with a default; false when the argument is of another type. */
bool jinja_builtin_int(struct jinja_run *r, struct jinja_value v, int64_t otherwise, int64_t *out);
bool jinja_builtin_string(struct jinja_run *r, struct jinja_value v, const char *what,
                          const struct jinja_string **out);

#endif
