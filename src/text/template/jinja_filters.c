/* Filters of single values: strings, numbers, JSON. Those of lists are in jinja_filters_list.c. */
#include "text/template/jinja_builtin.h"

#include "text/template/jinja_markup.h"
#include "text/template/jinja_ops.h"
#include "text/template/jinja_strings.h"
#include "text/template/jinja_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PARAMS                                                                                     \
    struct jinja_run *r, struct jinja_value self, const struct jinja_args *a,                      \
        struct jinja_value *out

/* Filters of text take any value: what str() makes of it. */
static bool change_case(struct jinja_run *r, struct jinja_value self, enum jinja_strings_case how,
                        struct jinja_value *out)
{
    return jinja_text_str(r, self, &self) && jinja_strings_case(r, self.s, how, out);
}

static bool filter_upper(PARAMS)
{
    (void)a;
    return change_case(r, self, CASE_UPPER, out);
}

static bool filter_lower(PARAMS)
{
    (void)a;
    return change_case(r, self, CASE_LOWER, out);
}

static bool filter_capitalize(PARAMS)
{
    (void)a;
    return change_case(r, self, CASE_CAPITALIZE, out);
}

static bool filter_title(PARAMS)
{
    (void)a;
    return change_case(r, self, CASE_TITLE_FILTER, out);
}

static bool filter_trim(PARAMS)
{
    const struct jinja_string *chars = NULL;
    if (!jinja_is_missing(a->arg[0]) && !jinja_builtin_string(r, a->arg[0], "trim's chars", &chars))
        return false;
    return jinja_text_str(r, self, &self) && jinja_strings_strip(r, self.s, chars, true, true, out);
}

static bool filter_replace(PARAMS)
{
    struct jinja_value from, to;
    int64_t count;
    return jinja_text_str(r, self, &self) && jinja_text_str(r, a->arg[0], &from) &&
           jinja_text_str(r, a->arg[1], &to) && jinja_builtin_int(r, a->arg[2], -1, &count) &&
           jinja_strings_replace(r, self.s, from.s, to.s, count, out);
}

static bool filter_string(PARAMS)
{
    (void)a;
    return jinja_text_str(r, self, out);
}

static bool filter_safe(PARAMS)
{
    (void)a;
    return jinja_text_str(r, self, &self) && jinja_markup_set(r, self.s, true, out);
}

static bool filter_escape(PARAMS)
{
    (void)a;
    return jinja_markup_escape(r, self, out);
}

static bool filter_length(PARAMS)
{
    (void)a;
    return jinja_ops_length(r, self, out);
}

static bool filter_default(PARAMS)
{
    bool missing = self.type == JINJA_UNDEFINED || (jinja_truth(a->arg[1]) && !jinja_truth(self));
    *out = missing ? a->arg[0] : self;
    return !missing || out->type != JINJA_UNSET || jinja_text_literal(r, "", out);
}

/* The number that a text is, as int() and float() read it. */
static bool jinja_filters_read_number(struct jinja_value v, double *number)
{
    char text[64];
    char *end;
    if (jinja_is_number(v)) {
        *number = jinja_number(v);
        return true;
    }
    if (v.type != JINJA_STRING || v.s->len == 0 || v.s->len >= sizeof text)
        return false;
    memcpy(text, v.s->bytes, v.s->len);
    text[v.s->len] = '\0';
    if (strpbrk(text, "xXpP")) /* C reads hexadecimal here, Python does not */
        return false;
    *number = strtod(text, &end);
    return end > text && (size_t)(end - text) + strspn(end, " \t\r\n") == v.s->len;
}

static bool filter_int(PARAMS)
{
    double number;
    (void)r;
    if (jinja_integer(self, &out->i)) {
        out->type = JINJA_INT;
        return true;
    }
    if (jinja_filters_read_number(self, &number) && number > -9.2e18 && number < 9.2e18)
        *out = jinja_int((int64_t)number);
    else
        *out = a->arg[0].type == JINJA_UNSET ? jinja_int(0) : a->arg[0];
    return true;
}

static bool filter_float(PARAMS)
{
    double number;
    (void)r;
    if (jinja_filters_read_number(self, &number))
        *out = jinja_float(number);
    else
        *out = a->arg[0].type == JINJA_UNSET ? jinja_float(0) : a->arg[0];
    return true;
}

static bool filter_abs(PARAMS)
{
    (void)a;
    *out = self;
    if (jinja_is_number(self) && jinja_number(self) >= 0)
        return true;
    return jinja_ops_negate(r, self, out);
}

static bool filter_round(PARAMS)
{
    int64_t digits;
    double scale, f;
    if (!jinja_is_number(self))
        return jinja_fail(r, STATUS_INVALID, "round: expected a number, found a '%s'",
                          jinja_type_name(self));
    if (!jinja_builtin_int(r, a->arg[0], 0, &digits))
        return false;
    scale = pow(10, (double)digits);
    f = jinja_number(self) * scale;
    if (a->arg[1].type == JINJA_STRING && jinja_string_is(a->arg[1].s, "ceil"))
        f = ceil(f);
    else if (a->arg[1].type == JINJA_STRING && jinja_string_is(a->arg[1].s, "floor"))
        f = floor(f);
    else
        f = nearbyint(f);
    *out = jinja_float(f / scale);
    return true;
}

/* The indentation as a string: a number of blanks, a string, or NULL for None. */
static bool indent_string(struct jinja_run *r, struct jinja_value v, int64_t otherwise,
                          const struct jinja_string **out)
{
    struct jinja_value blank, s;
    int64_t width;
    *out = NULL;
    if (v.type == JINJA_STRING) {
        *out = v.s;
        return true;
    }
    if (jinja_is_missing(v) && otherwise < 0)
        return true;
    if (!jinja_builtin_int(r, v, otherwise, &width) || !jinja_text_literal(r, " ", &blank) ||
        !jinja_ops_binary(r, '*', blank, jinja_int(width), &s))
        return false;
    *out = s.s;
    return true;
}

static bool json_separators(struct jinja_run *r, struct jinja_value v,
                            struct jinja_json_format *format)
{
    static const struct jinja_string comma = {.bytes = ",", .len = 1};
    static const struct jinja_string comma_space = {.bytes = ", ", .len = 2};
    static const struct jinja_string colon_space = {.bytes = ": ", .len = 2};
    format->item_separator = format->indent ? &comma : &comma_space;
    format->key_separator = &colon_space;
    if (jinja_is_missing(v))
        return true;
    if (!jinja_is_list(v) || v.list->count != 2)
        return jinja_fail(r, STATUS_INVALID, "tojson: expected two separators, found a '%s'",
                          jinja_type_name(v));
    return jinja_builtin_string(r, v.list->items[0], "a separator", &format->item_separator) &&
           jinja_builtin_string(r, v.list->items[1], "a separator", &format->key_separator);
}

static bool filter_tojson(PARAMS)
{
    struct jinja_json_format format = {.ensure_ascii = jinja_truth(a->arg[0]),
                                       .sort_keys = jinja_truth(a->arg[3])};
    struct jinja_capture c;
    if (!indent_string(r, a->arg[1], -1, &format.indent) || !json_separators(r, a->arg[2], &format))
        return false;
    jinja_capture_begin(&c);
    if (jinja_write_json(r, &c.out, self, &format))
        return jinja_capture_end(r, &c, out);
    jinja_capture_drop(&c);
    return false;
}

static bool write_indented(struct jinja_run *r, struct jinja_out *out,
                           const struct jinja_list *lines, const struct jinja_string *indent,
                           bool first, bool blank)
{
    for (size_t i = 0; i < lines->count; i++) {
        const struct jinja_string *line = lines->items[i].s;
        if (i > 0 && !jinja_out_puts(r, out, "\n", true))
            return false;
        if ((i > 0 ? line->len > 0 || blank : first) && !jinja_out_string(r, out, indent))
            return false;
        if (!jinja_step(r) || !jinja_out_string(r, out, line))
            return false;
    }
    return true;
}

static bool filter_indent(PARAMS)
{
    static const struct jinja_string newline = {.bytes = "\n", .len = 1};
    const struct jinja_string *indent;
    struct jinja_value lines;
    struct jinja_capture c;
    if (!jinja_text_str(r, self, &self) || !indent_string(r, a->arg[0], 4, &indent) ||
        !jinja_strings_split(r, self.s, &newline, -1, &lines))
        return false;
    jinja_capture_begin(&c);
    if (write_indented(r, &c.out, lines.list, indent, jinja_truth(a->arg[1]),
                       jinja_truth(a->arg[2])))
        return jinja_capture_end(r, &c, out);
    jinja_capture_drop(&c);
    return false;
}

const struct jinja_builtin jinja_filters_table[] = {
    {.name = "trim", .call = filter_trim, .params = {"chars"}},
    {.name = "tojson",
     .call = filter_tojson,
     .params = {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {.name = "length", .call = filter_length},
    {.name = "count", .call = filter_length},
    {.name = "default", .call = filter_default, .params = {"default_value", "boolean"}},
    {.name = "d", .call = filter_default, .params = {"default_value", "boolean"}},
    {.name = "string", .call = filter_string},
    {.name = "safe", .call = filter_safe},
    {.name = "escape", .call = filter_escape},
    {.name = "e", .call = filter_escape},
    {.name = "upper", .call = filter_upper},
    {.name = "lower", .call = filter_lower},
    {.name = "capitalize", .call = filter_capitalize},
    {.name = "title", .call = filter_title},
    {.name = "replace", .call = filter_replace, .params = {"old", "new", "count"}, .required = 2},
    {.name = "indent", .call = filter_indent, .params = {"width", "first", "blank"}},
    {.name = "int", .call = filter_int, .params = {"default", "base"}},
    {.name = "float", .call = filter_float, .params = {"default"}},
    {.name = "abs", .call = filter_abs},
    {.name = "round", .call = filter_round, .params = {"precision", "method"}},
    {.name = NULL},
};
