/* Methods of strings, lists, dicts and loops. Those that would change an object are missing, as in
 * jinja2's immutable sandbox. */
#include "text/template/jinja_builtin.h"

#include "text/template/jinja_access.h"
#include "text/template/jinja_ops.h"
#include "text/template/jinja_strings.h"
#include "text/template/jinja_text.h"
#include "text/template/jinja_utf8.h"

#include <stdlib.h>
#include <string.h>

#define PARAMS                                                                                     \
    struct jinja_run *r, struct jinja_value self, const struct jinja_args *a,                      \
        struct jinja_value *out

static bool jinja_methods_strip(struct jinja_run *r, struct jinja_value self,
                                const struct jinja_args *a, bool left, bool right,
                                struct jinja_value *out)
{
    const struct jinja_string *chars = NULL;
    if (!jinja_is_missing(a->arg[0]) && !jinja_builtin_string(r, a->arg[0], "chars", &chars))
        return false;
    return jinja_strings_strip(r, self.s, chars, left, right, out);
}

static bool str_strip(PARAMS)
{
    return jinja_methods_strip(r, self, a, true, true, out);
}

static bool str_lstrip(PARAMS)
{
    return jinja_methods_strip(r, self, a, true, false, out);
}

static bool str_rstrip(PARAMS)
{
    return jinja_methods_strip(r, self, a, false, true, out);
}

static bool jinja_methods_split(struct jinja_run *r, struct jinja_value self,
                                const struct jinja_args *a, bool from_right,
                                struct jinja_value *out)
{
    const struct jinja_string *sep = NULL;
    int64_t max;
    if ((!jinja_is_missing(a->arg[0]) && !jinja_builtin_string(r, a->arg[0], "separator", &sep)) ||
        !jinja_builtin_int(r, a->arg[1], -1, &max))
        return false;
    return from_right ? jinja_strings_rsplit(r, self.s, sep, max, out)
                      : jinja_strings_split(r, self.s, sep, max, out);
}

static bool str_split(PARAMS)
{
    return jinja_methods_split(r, self, a, false, out);
}

static bool str_rsplit(PARAMS)
{
    return jinja_methods_split(r, self, a, true, out);
}

static bool str_splitlines(PARAMS)
{
    return jinja_strings_lines(r, self.s, jinja_truth(a->arg[0]), out);
}

static bool has_end(const struct jinja_string *s, const struct jinja_string *part, bool at_start)
{
    return part->len <= s->len &&
           (part->len == 0 ||
            memcmp(s->bytes + (at_start ? 0 : s->len - part->len), part->bytes, part->len) == 0);
}

/* startswith and endswith take one string or a tuple of them. */
static bool with_end(struct jinja_run *r, struct jinja_value self, struct jinja_value arg,
                     bool at_start, struct jinja_value *out)
{
    const struct jinja_string *part;
    bool found = false;
    if (arg.type != JINJA_TUPLE) {
        if (!jinja_builtin_string(r, arg, "prefix or suffix", &part))
            return false;
        found = has_end(self.s, part, at_start);
    }
    for (size_t i = 0; arg.type == JINJA_TUPLE && !found && i < arg.list->count; i++) {
        if (!jinja_step(r) ||
            !jinja_builtin_string(r, arg.list->items[i], "prefix or suffix", &part))
            return false;
        found = has_end(self.s, part, at_start);
    }
    *out = jinja_bool(found);
    return true;
}

static bool str_startswith(PARAMS)
{
    return with_end(r, self, a->arg[0], true, out);
}

static bool str_endswith(PARAMS)
{
    return with_end(r, self, a->arg[0], false, out);
}

static bool str_upper(PARAMS)
{
    (void)a;
    return jinja_strings_case(r, self.s, CASE_UPPER, out);
}

static bool str_lower(PARAMS)
{
    (void)a;
    return jinja_strings_case(r, self.s, CASE_LOWER, out);
}

static bool str_title(PARAMS)
{
    (void)a;
    return jinja_strings_case(r, self.s, CASE_TITLE, out);
}

static bool str_capitalize(PARAMS)
{
    (void)a;
    return jinja_strings_case(r, self.s, CASE_CAPITALIZE, out);
}

static bool str_replace(PARAMS)
{
    const struct jinja_string *from, *to;
    int64_t count;
    return jinja_builtin_string(r, a->arg[0], "what to replace", &from) &&
           jinja_builtin_string(r, a->arg[1], "the replacement", &to) &&
           jinja_builtin_int(r, a->arg[2], -1, &count) &&
           jinja_strings_replace(r, self.s, from, to, count, out);
}

static bool str_join(PARAMS)
{
    const struct jinja_list *list;
    return jinja_iterate(r, a->arg[0], &list) && jinja_strings_join(r, list, self.s, out);
}

/* Offsets are in code points. */
static bool str_find(PARAMS)
{
    const struct jinja_string *part;
    size_t at;
    if (!jinja_builtin_string(r, a->arg[0], "what to find", &part) || !jinja_work(r, self.s->len))
        return false;
    at = jinja_text_find(self.s, part, 0);
    *out = jinja_int(at == SIZE_MAX ? -1 : (int64_t)jinja_utf8_count(self.s->bytes, at));
    return true;
}

static bool str_count(PARAMS)
{
    const struct jinja_string *part;
    size_t at = 0;
    int64_t n = 0;
    if (!jinja_builtin_string(r, a->arg[0], "what to count", &part) || !jinja_work(r, self.s->len))
        return false;
    if (part->len == 0)
        n = (int64_t)jinja_utf8_count(self.s->bytes, self.s->len) + 1;
    else
        for (; (at = jinja_text_find(self.s, part, at)) != SIZE_MAX; at += part->len)
            n++;
    *out = jinja_int(n);
    return true;
}

static bool str_isdigit(PARAMS)
{
    bool digits = self.s->len > 0;
    (void)r;
    (void)a;
    for (size_t i = 0; i < self.s->len; i++)
        digits = digits && self.s->bytes[i] >= '0' && self.s->bytes[i] <= '9';
    *out = jinja_bool(digits);
    return true;
}

/* The value of one {field}: by number, by name, or the next one by position. */
static bool format_field(struct jinja_run *r, const struct jinja_args *a,
                         const struct jinja_string *field, size_t *next, struct jinja_value *out)
{
    bool digits = true;
    size_t at = 0;
    for (size_t i = 0; i < field->len; i++) {
        digits = digits && field->bytes[i] >= '0' && field->bytes[i] <= '9' && at < 100000;
        at = digits ? at * 10 + (size_t)(field->bytes[i] - '0') : 0;
    }
    if (field->len == 0)
        at = (*next)++;
    if (digits && at < a->n_pos) {
        *out = a->pos[at];
        return true;
    }
    for (size_t i = 0; i < a->n_keywords; i++) {
        if (jinja_string_equal(a->keywords[i].name, field)) {
            *out = a->keywords[i].value;
            return true;
        }
    }
    if (memchr(field->bytes, ':', field->len) || memchr(field->bytes, '!', field->len) ||
        memchr(field->bytes, '.', field->len) || memchr(field->bytes, '[', field->len))
        return jinja_fail(r, STATUS_UNSUPPORTED, "format: only plain {fields} are supported");
    return jinja_fail(r, STATUS_INVALID, "format: expected an argument for '{%.*s}', found none",
                      jinja_utf8_cut(field->bytes, field->len, 64), field->bytes);
}

/* {{ and }} are braces. */
static bool write_format(struct jinja_run *r, struct jinja_out *out, const struct jinja_string *s,
                         const struct jinja_args *a)
{
    size_t next = 0;
    for (size_t pos = 0; pos < s->len;) {
        char c = s->bytes[pos];
        bool twice = pos + 1 < s->len && s->bytes[pos + 1] == c;
        struct jinja_string part = {.bytes = s->bytes + pos,
                                    .origin = s->origin ? s->origin + pos : NULL,
                                    .len = 1,
                                    .trusted = s->trusted};
        struct jinja_value v;
        const char *end;
        if (!jinja_step(r))
            return false;
        if ((c != '{' && c != '}') || twice) {
            if (!jinja_out_string(r, out, &part))
                return false;
            pos += c == '{' || c == '}' ? 2 : 1;
            continue;
        }
        end = memchr(s->bytes + pos, '}', s->len - pos);
        if (c == '}' || !end)
            return jinja_fail(r, STATUS_INVALID, "format: expected braces in pairs");
        part = (struct jinja_string){.bytes = s->bytes + pos + 1,
                                     .len = (size_t)(end - s->bytes) - pos - 1};
        if (!format_field(r, a, &part, &next, &v) || !jinja_write_str(r, out, v))
            return false;
        pos = (size_t)(end - s->bytes) + 1;
    }
    return true;
}

static bool str_format(PARAMS)
{
    struct jinja_capture c;
    jinja_capture_begin(&c);
    if (write_format(r, &c.out, self.s, a))
        return jinja_capture_end(r, &c, out);
    jinja_capture_drop(&c);
    return false;
}

/* One list of a dict's keys, values or both. */
static bool dict_list(struct jinja_run *r, const struct jinja_dict *dict, bool keys, bool values,
                      struct jinja_value *out)
{
    struct jinja_list *list = jinja_list_new(r, dict->count);
    if (!list || !jinja_work(r, dict->count))
        return false;
    for (size_t i = 0; i < dict->count; i++) {
        struct jinja_value v = keys ? dict->pairs[i].key : dict->pairs[i].value;
        if (keys && values && !jinja_tuple2(r, v, dict->pairs[i].value, &v))
            return false;
        list->items[list->count++] = v;
    }
    *out = jinja_list_value(list);
    return true;
}

static bool dict_items(PARAMS)
{
    (void)a;
    return dict_list(r, self.dict, true, true, out);
}

static bool dict_keys(PARAMS)
{
    (void)a;
    return dict_list(r, self.dict, true, false, out);
}

static bool dict_values(PARAMS)
{
    (void)a;
    return dict_list(r, self.dict, false, true, out);
}

static bool dict_get(PARAMS)
{
    const struct jinja_value *found;
    if (!jinja_dict_find(r, self.dict, a->arg[0], &found))
        return false;
    *out = found ? *found : a->arg[1].type == JINJA_UNSET ? jinja_none() : a->arg[1];
    return true;
}

static bool dict_copy(PARAMS)
{
    struct jinja_dict *copy = jinja_alloc(r, sizeof *copy);
    (void)a;
    if (!copy)
        return false;
    *copy = *self.dict; /* nothing changes a dict, so the pairs can be shared */
    *out = jinja_dict_value(copy);
    return true;
}

static bool list_find(struct jinja_run *r, struct jinja_value self, struct jinja_value wanted,
                      int64_t *first, int64_t *count)
{
    *first = -1;
    *count = 0;
    for (size_t i = 0; i < self.list->count; i++) {
        bool equal;
        if (!jinja_step(r) || !jinja_equal(r, self.list->items[i], wanted, &equal))
            return false;
        if (equal && (*count)++ == 0)
            *first = (int64_t)i;
    }
    return true;
}

static bool list_index(PARAMS)
{
    int64_t first, count;
    if (!list_find(r, self, a->arg[0], &first, &count))
        return false;
    *out = jinja_int(first);
    return first >= 0 || jinja_fail(r, STATUS_INVALID, "index: expected an item of the list");
}

static bool list_count(PARAMS)
{
    int64_t first, count;
    if (!list_find(r, self, a->arg[0], &first, &count))
        return false;
    *out = jinja_int(count);
    return true;
}

static bool loop_cycle(PARAMS)
{
    if (a->n_pos == 0)
        return jinja_fail(r, STATUS_INVALID, "cycle: expected an argument, found none");
    *out = a->pos[self.loop->index % a->n_pos];
    return true;
}

#define STR   .types = 1u << JINJA_STRING
#define DICT  .types = 1u << JINJA_DICT
#define LIST  .types = 1u << JINJA_LIST | 1u << JINJA_TUPLE
#define CHARS .params = {"chars"}
#define SEP   .params = {"sep", "maxsplit"}
#define PART  .params = {"part"}, .required = 1

static const struct jinja_builtin rows[] = {
    {.name = "get", .call = dict_get, .params = {"key", "default"}, .required = 1, DICT},
    {.name = "items", .call = dict_items, DICT},
    {.name = "keys", .call = dict_keys, DICT},
    {.name = "values", .call = dict_values, DICT},
    {.name = "copy", .call = dict_copy, DICT},
    {.name = "strip", .call = str_strip, CHARS, STR},
    {.name = "lstrip", .call = str_lstrip, CHARS, STR},
    {.name = "rstrip", .call = str_rstrip, CHARS, STR},
    {.name = "split", .call = str_split, SEP, STR},
    {.name = "rsplit", .call = str_rsplit, SEP, STR},
    {.name = "splitlines", .call = str_splitlines, .params = {"keepends"}, STR},
    {.name = "startswith", .call = str_startswith, PART, STR},
    {.name = "endswith", .call = str_endswith, PART, STR},
    {.name = "upper", .call = str_upper, STR},
    {.name = "lower", .call = str_lower, STR},
    {.name = "title", .call = str_title, STR},
    {.name = "capitalize", .call = str_capitalize, STR},
    {.name = "replace", .call = str_replace, .params = {"old", "new", "count"}, .required = 2, STR},
    {.name = "join", .call = str_join, PART, STR},
    {.name = "find", .call = str_find, PART, STR},
    {.name = "count", .call = str_count, PART, STR},
    {.name = "isdigit", .call = str_isdigit, STR},
    {.name = "format", .call = str_format, .flags = JINJA_VARIADIC, STR},
    {.name = "index", .call = list_index, PART, LIST},
    {.name = "count", .call = list_count, PART, LIST},
    {.name = "cycle", .call = loop_cycle, .flags = JINJA_VARIADIC, .types = 1u << JINJA_LOOP},
    {.name = NULL},
};

const struct jinja_builtin *jinja_builtin_method(enum jinja_type type,
                                                 const struct jinja_string *name)
{
    for (const struct jinja_builtin *row = rows; row->name; row++) {
        if ((row->types & 1u << type) != 0 && jinja_string_is(name, row->name))
            return row;
    }
    return NULL;
}

bool jinja_builtin_is_method(const struct jinja_string *name)
{
    return jinja_builtin_find(rows, name) != NULL;
}
