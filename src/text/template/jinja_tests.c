/* The tests: `x is name`. */
#include "text/template/jinja_builtin.h"

#include "text/template/jinja_ops.h"

static bool jinja_tests_answer(struct jinja_value *out, bool b)
{
    *out = jinja_bool(b);
    return true;
}

/* Tests of the type alone: a set of types per test. */
#define TYPES(x)                                                                                   \
    (void)r;                                                                                       \
    (void)a;                                                                                       \
    return jinja_tests_answer(out, ((x)&1u << self.type) != 0)
#define PARAMS                                                                                     \
    struct jinja_run *r, struct jinja_value self, const struct jinja_args *a,                      \
        struct jinja_value *out

enum {
    UNDEFINED = 1u << JINJA_UNDEFINED,
    NUMBERS = 1u << JINJA_INT | 1u << JINJA_FLOAT | 1u << JINJA_BOOL,
    SEQUENCES =
        1u << JINJA_STRING | 1u << JINJA_LIST | 1u << JINJA_TUPLE | 1u << JINJA_DICT | UNDEFINED,
    CALLABLES = 1u << JINJA_MACRO | 1u << JINJA_FUNCTION | 1u << JINJA_METHOD | 1u << JINJA_LOOP,
};

static bool test_defined(PARAMS)
{
    TYPES(~UNDEFINED);
}

static bool test_undefined(PARAMS)
{
    TYPES(UNDEFINED);
}

static bool test_none(PARAMS)
{
    TYPES(1u << JINJA_NONE);
}

static bool test_string(PARAMS)
{
    TYPES(1u << JINJA_STRING);
}

static bool test_mapping(PARAMS)
{
    TYPES(1u << JINJA_DICT);
}

static bool test_sequence(PARAMS)
{
    TYPES(SEQUENCES);
}

static bool test_number(PARAMS)
{
    TYPES(NUMBERS);
}

static bool test_integer(PARAMS)
{
    TYPES(1u << JINJA_INT);
}

static bool test_float(PARAMS)
{
    TYPES(1u << JINJA_FLOAT);
}

static bool test_boolean(PARAMS)
{
    TYPES(1u << JINJA_BOOL);
}

static bool test_callable(PARAMS)
{
    TYPES(CALLABLES);
}

static bool test_true(PARAMS)
{
    (void)r;
    (void)a;
    return jinja_tests_answer(out, self.type == JINJA_BOOL && self.b);
}

static bool test_false(PARAMS)
{
    (void)r;
    (void)a;
    return jinja_tests_answer(out, self.type == JINJA_BOOL && !self.b);
}

static bool jinja_tests_compare(struct jinja_run *r, int op, struct jinja_value x,
                                struct jinja_value y, struct jinja_value *out)
{
    bool holds = false;
    bool ok = jinja_ops_compare(r, op, x, y, &holds);
    *out = jinja_bool(holds);
    return ok;
}

static bool test_eq(PARAMS)
{
    return jinja_tests_compare(r, OP_EQ, self, a->arg[0], out);
}

static bool test_ne(PARAMS)
{
    return jinja_tests_compare(r, OP_NE, self, a->arg[0], out);
}

static bool test_lt(PARAMS)
{
    return jinja_tests_compare(r, '<', self, a->arg[0], out);
}

static bool test_le(PARAMS)
{
    return jinja_tests_compare(r, OP_LE, self, a->arg[0], out);
}

static bool test_gt(PARAMS)
{
    return jinja_tests_compare(r, '>', self, a->arg[0], out);
}

static bool test_ge(PARAMS)
{
    return jinja_tests_compare(r, OP_GE, self, a->arg[0], out);
}

static bool test_in(PARAMS)
{
    return jinja_tests_compare(r, OP_IN, self, a->arg[0], out);
}

static bool test_sameas(PARAMS)
{
    if (self.type != a->arg[0].type)
        return jinja_tests_answer(out, false);
    return jinja_tests_compare(r, OP_EQ, self, a->arg[0], out);
}

static bool remainder_is(struct jinja_run *r, struct jinja_value v, struct jinja_value divisor,
                         int64_t wanted, struct jinja_value *out)
{
    struct jinja_value left;
    return jinja_ops_binary(r, '%', v, divisor, &left) &&
           jinja_tests_compare(r, OP_EQ, left, jinja_int(wanted), out);
}

static bool test_odd(PARAMS)
{
    (void)a;
    return remainder_is(r, self, jinja_int(2), 1, out);
}

static bool test_even(PARAMS)
{
    (void)a;
    return remainder_is(r, self, jinja_int(2), 0, out);
}

static bool test_divisible(PARAMS)
{
    return remainder_is(r, self, a->arg[0], 0, out);
}

#define OTHER .params = {"other"}, .required = 1

static const struct jinja_builtin rows[] = {
    {.name = "defined", .call = test_defined},
    {.name = "undefined", .call = test_undefined},
    {.name = "none", .call = test_none},
    {.name = "string", .call = test_string},
    {.name = "mapping", .call = test_mapping},
    {.name = "iterable", .call = test_sequence},
    {.name = "sequence", .call = test_sequence},
    {.name = "number", .call = test_number},
    {.name = "integer", .call = test_integer},
    {.name = "float", .call = test_float},
    {.name = "boolean", .call = test_boolean},
    {.name = "callable", .call = test_callable},
    {.name = "true", .call = test_true},
    {.name = "false", .call = test_false},
    {.name = "odd", .call = test_odd},
    {.name = "even", .call = test_even},
    {.name = "divisibleby", .call = test_divisible, OTHER},
    {.name = "eq", .call = test_eq, OTHER},
    {.name = "equalto", .call = test_eq, OTHER},
    {.name = "==", .call = test_eq, OTHER},
    {.name = "ne", .call = test_ne, OTHER},
    {.name = "!=", .call = test_ne, OTHER},
    {.name = "lt", .call = test_lt, OTHER},
    {.name = "lessthan", .call = test_lt, OTHER},
    {.name = "<", .call = test_lt, OTHER},
    {.name = "le", .call = test_le, OTHER},
    {.name = "<=", .call = test_le, OTHER},
    {.name = "gt", .call = test_gt, OTHER},
    {.name = "greaterthan", .call = test_gt, OTHER},
    {.name = ">", .call = test_gt, OTHER},
    {.name = "ge", .call = test_ge, OTHER},
    {.name = ">=", .call = test_ge, OTHER},
    {.name = "in", .call = test_in, OTHER},
    {.name = "sameas", .call = test_sameas, OTHER},
    {.name = NULL},
};

const struct jinja_builtin *jinja_builtin_test(const struct jinja_string *name)
{
    return jinja_builtin_find(rows, name);
}
