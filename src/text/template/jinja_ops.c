#include "text/template/jinja_ops.h"

#include "text/template/jinja_markup.h"
#include "text/template/jinja_text.h"
#include "text/template/jinja_utf8.h"

#include <math.h>
#include <string.h>

static bool fail_types(struct jinja_run *r, const char *op, struct jinja_value a,
                       struct jinja_value b)
{
    if (a.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(r, a);
    if (b.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(r, b);
    return jinja_fail(r, STATUS_INVALID, "expected values that '%s' joins, found '%s' and '%s'", op,
                      jinja_type_name(a), jinja_type_name(b));
}

/* Python orders strings by code point, which is the order of UTF-8's bytes. */
static int order_strings(const struct jinja_string *a, const struct jinja_string *b)
{
    size_t len = a->len < b->len ? a->len : b->len;
    int order = len > 0 ? memcmp(a->bytes, b->bytes, len) : 0;
    return order != 0 ? order : (a->len > b->len) - (a->len < b->len);
}

static bool order_lists(struct jinja_run *r, const struct jinja_list *a, const struct jinja_list *b,
                        int *order)
{
    *order = 0;
    for (size_t i = 0; i < a->count && i < b->count; i++) {
        if (!jinja_ops_order(r, a->items[i], b->items[i], order))
            return false;
        if (*order != 0)
            return true;
    }
    *order = (a->count > b->count) - (a->count < b->count);
    return true;
}

bool jinja_ops_order(struct jinja_run *r, struct jinja_value a, struct jinja_value b, int *order)
{
    int64_t x, y;
    bool ok;
    if (jinja_integer(a, &x) && jinja_integer(b, &y)) {
        *order = (x > y) - (x < y);
        return true;
    }
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *order = (jinja_number(a) > jinja_number(b)) - (jinja_number(a) < jinja_number(b));
        return true;
    }
    if (a.type == JINJA_STRING && b.type == JINJA_STRING) {
        *order = order_strings(a.s, b.s);
        return jinja_work(r, a.s->len);
    }
    if (!jinja_is_list(a) || a.type != b.type)
        return fail_types(r, "<", a, b);
    if (!jinja_enter(r))
        return false;
    ok = order_lists(r, a.list, b.list, order);
    jinja_leave(r);
    return ok;
}

bool jinja_ops_contains(struct jinja_run *r, struct jinja_value haystack, struct jinja_value needle,
                        bool *found)
{
    const struct jinja_list *list;
    const struct jinja_value *value;
    *found = false;
    if (haystack.type == JINJA_STRING) {
        if (needle.type != JINJA_STRING)
            return fail_types(r, "in", needle, haystack);
        *found = jinja_text_find(haystack.s, needle.s, 0) != SIZE_MAX;
        return jinja_work(r, haystack.s->len);
    }
    if (haystack.type == JINJA_DICT) {
        if (!jinja_dict_find(r, haystack.dict, needle, &value))
            return false;
        *found = value != NULL;
        return true;
    }
    if (!jinja_is_list(haystack) && haystack.type != JINJA_UNDEFINED)
        return fail_types(r, "in", needle, haystack);
    if (!jinja_iterate(r, haystack, &list) || !jinja_work(r, list->count))
        return false;
    for (size_t i = 0; i < list->count && !*found; i++) {
        if (!jinja_equal(r, list->items[i], needle, found))
            return false;
    }
    return true;
}

static bool has_nan(struct jinja_value a, struct jinja_value b)
{
    return (a.type == JINJA_FLOAT && isnan(a.f)) || (b.type == JINJA_FLOAT && isnan(b.f));
}

bool jinja_ops_compare(struct jinja_run *r, int op, struct jinja_value a, struct jinja_value b,
                       bool *result)
{
    int order;
    if (op == OP_EQ || op == OP_NE || op == OP_IN || op == OP_NOT_IN) {
        bool found, ok = op == OP_EQ || op == OP_NE ? jinja_equal(r, a, b, &found)
                                                    : jinja_ops_contains(r, b, a, &found);
        *result = ok && found == (op == OP_EQ || op == OP_IN);
        return ok;
    }
    if (!jinja_ops_order(r, a, b, &order))
        return false;
    *result = op == '<' ? order < 0 : op == OP_LE ? order <= 0 : op == '>' ? order > 0 : order >= 0;
    *result = *result && !has_nan(a, b);
    return true;
}

static bool fail_overflow(struct jinja_run *r)
{
    return jinja_fail(r, STATUS_INVALID, "expected an integer of 64 bits, found a larger one");
}

static bool integer_power(struct jinja_run *r, int64_t base, int64_t exponent,
                          struct jinja_value *out)
{
    int64_t result = 1;
    if (exponent < 0) {
        *out = jinja_float(pow((double)base, (double)exponent));
        return true;
    }
    if (base >= -1 && base <= 1 && exponent > 1) /* their powers repeat */
        exponent = 2 + exponent % 2;
    for (; exponent > 0; exponent--) {
        if (__builtin_mul_overflow(result, base, &result))
            return fail_overflow(r);
    }
    *out = jinja_int(result);
    return true;
}

/* Python rounds towards minus infinity; the remainder has the divisor's sign. */
static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static bool integer_binary(struct jinja_run *r, int op, int64_t a, int64_t b,
                           struct jinja_value *out)
{
    int64_t result = 0;
    bool overflow = false;
    switch (op) {
    case '+':
        overflow = __builtin_add_overflow(a, b, &result);
        break;
    case '-':
        overflow = __builtin_sub_overflow(a, b, &result);
        break;
    case '*':
        overflow = __builtin_mul_overflow(a, b, &result);
        break;
    case OP_POW:
        return integer_power(r, a, b, out);
    default:
        if (b == 0)
            return jinja_fail(r, STATUS_INVALID, "expected a divisor, found zero");
        overflow = a == INT64_MIN && b == -1;
        if (!overflow)
            result = op == '%' ? a - b * floor_div(a, b) : floor_div(a, b);
    }
    *out = jinja_int(result);
    return !overflow || fail_overflow(r);
}

static bool float_binary(struct jinja_run *r, int op, double a, double b, struct jinja_value *out)
{
    if ((op == '/' || op == OP_FLOORDIV || op == '%') && b == 0)
        return jinja_fail(r, STATUS_INVALID, "expected a divisor, found zero");
    *out = jinja_float(op == '+'           ? a + b
                       : op == '-'         ? a - b
                       : op == '*'         ? a * b
                       : op == '/'         ? a / b
                       : op == OP_FLOORDIV ? floor(a / b)
                       : op == '%'         ? a - b * floor(a / b)
                                           : pow(a, b));
    return true;
}

static bool repeat_string(struct jinja_run *r, const struct jinja_string *s, int64_t times,
                          struct jinja_value *out)
{
    struct jinja_capture c;
    jinja_capture_begin(&c);
    for (; times > 0 && s->len > 0; times--) {
        if (!jinja_step(r) || !jinja_out_string(r, &c.out, s)) {
            jinja_capture_drop(&c);
            return false;
        }
    }
    return jinja_capture_end(r, &c, out);
}

static bool repeat_list(struct jinja_run *r, struct jinja_value v, int64_t times,
                        struct jinja_value *out)
{
    struct jinja_list *list = jinja_list_new(r, 0);
    for (; list && times > 0 && v.list->count > 0; times--) {
        for (size_t i = 0; i < v.list->count; i++) {
            if (!jinja_step(r) || !jinja_list_add(r, list, v.list->items[i]))
                return false;
        }
    }
    *out = (struct jinja_value){.type = v.type, .list = list};
    return list != NULL;
}

static bool join_lists(struct jinja_run *r, struct jinja_value a, struct jinja_value b,
                       struct jinja_value *out)
{
    struct jinja_list *list = jinja_list_new(r, a.list->count + b.list->count);
    if (!list || !jinja_work(r, list->cap))
        return false;
    for (size_t i = 0; i < a.list->count; i++)
        list->items[list->count++] = a.list->items[i];
    for (size_t i = 0; i < b.list->count; i++)
        list->items[list->count++] = b.list->items[i];
    *out = (struct jinja_value){.type = a.type, .list = list};
    return true;
}

static bool concat_any(struct jinja_run *r, struct jinja_value a, struct jinja_value b,
                       struct jinja_value *out)
{
    return jinja_text_str(r, a, &a) && jinja_text_str(r, b, &b) &&
           jinja_text_concat(r, a.s, b.s, out) &&
           (!out->s->markup || jinja_markup_set(r, out->s, false, out));
}

static bool add_strings(struct jinja_run *r, struct jinja_value a, struct jinja_value b,
                        struct jinja_value *out)
{
    return a.s->markup || b.s->markup ? jinja_markup_add(r, a, b, out)
                                      : jinja_text_concat(r, a.s, b.s, out);
}

static bool jinja_ops_repeat(struct jinja_run *r, struct jinja_value v, int64_t times,
                             struct jinja_value *out)
{
    if (v.type != JINJA_STRING)
        return repeat_list(r, v, times, out);
    return repeat_string(r, v.s, times, out) &&
           (!v.s->markup || jinja_markup_set(r, out->s, true, out));
}

bool jinja_ops_binary(struct jinja_run *r, int op, struct jinja_value a, struct jinja_value b,
                      struct jinja_value *out)
{
    char name[] = {op < 128 ? (char)op : op == OP_POW ? '^' : '/', '\0'};
    int64_t x, y;
    if (op == '~')
        return concat_any(r, a, b, out);
    if (op == '+' && a.type == JINJA_STRING && b.type == JINJA_STRING)
        return add_strings(r, a, b, out);
    if (op == '+' && jinja_is_list(a) && a.type == b.type)
        return join_lists(r, a, b, out);
    if (jinja_integer(a, &x) && jinja_integer(b, &y) && op != '/')
        return integer_binary(r, op, x, y, out);
    if (jinja_is_number(a) && jinja_is_number(b))
        return float_binary(r, op, jinja_number(a), jinja_number(b), out);
    if (op == '*' && (a.type == JINJA_STRING || jinja_is_list(a)) && jinja_integer(b, &y))
        return jinja_ops_repeat(r, a, y, out);
    if (op == '*' && (b.type == JINJA_STRING || jinja_is_list(b)) && jinja_integer(a, &x))
        return jinja_ops_repeat(r, b, x, out);
    return fail_types(r, name, a, b);
}

bool jinja_ops_negate(struct jinja_run *r, struct jinja_value v, struct jinja_value *out)
{
    int64_t i;
    if (v.type == JINJA_FLOAT) {
        *out = jinja_float(-v.f);
        return true;
    }
    if (!jinja_integer(v, &i))
        return fail_types(r, "-", jinja_int(0), v);
    return integer_binary(r, '-', 0, i, out);
}

bool jinja_ops_length(struct jinja_run *r, struct jinja_value v, struct jinja_value *out)
{
    size_t n = 0;
    if (v.type == JINJA_STRING) {
        if (!jinja_work(r, v.s->len))
            return false;
        n = jinja_utf8_count(v.s->bytes, v.s->len);
    } else if (jinja_is_list(v)) {
        n = v.list->count;
    } else if (v.type == JINJA_DICT) {
        n = v.dict->count;
    } else if (v.type != JINJA_UNDEFINED) {
        return jinja_fail(r, STATUS_INVALID, "expected something with a length, found '%s'",
                          jinja_type_name(v));
    }
    *out = jinja_int((int64_t)n);
    return true;
}
