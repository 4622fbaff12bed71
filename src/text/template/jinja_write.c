/* Values as text: str and repr as Python writes them, JSON as json.dumps writes it. */
#include "text/template/jinja_text.h"

#include "text/template/jinja_utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static bool write_repr(struct jinja_run *r, struct jinja_out *out, struct jinja_value v);

void jinja_write_float(double f, char out[JINJA_FLOAT_SIZE])
{
    char digits[JINJA_FLOAT_SIZE];
    int precision = 0, exponent;
    if (isnan(f) || isinf(f)) {
        snprintf(out, JINJA_FLOAT_SIZE, "%s", isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    do {
        snprintf(digits, sizeof digits, "%.*e", precision, f);
    } while (strtod(digits, NULL) != f && ++precision < 17);
    exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent < -4 || exponent >= 16)
        snprintf(out, JINJA_FLOAT_SIZE, "%s", digits);
    else
        snprintf(out, JINJA_FLOAT_SIZE, "%.*f", precision - exponent > 1 ? precision - exponent : 1,
                 f);
}

/* str.isprintable() of one code point. */
static bool is_printable(uint32_t code)
{
    if (code == ' ')
        return true;
    switch (utf8proc_category((utf8proc_int32_t)code)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
        return false;
    default:
        return true;
    }
}

/* What repr writes for a code point that is not itself; 0 when it is. */
static int repr_escape(uint32_t code, char quote, char out[16])
{
    if (code == '\n' || code == '\r' || code == '\t')
        return snprintf(out, 16, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
    if (code == '\\' || code == (uint32_t)quote)
        return snprintf(out, 16, "\\%c", (char)code);
    if (is_printable(code))
        return 0;
    if (code < 0x100)
        return snprintf(out, 16, "\\x%02" PRIx32, code);
    return snprintf(out, 16, code < 0x10000 ? "\\u%04" PRIx32 : "\\U%08" PRIx32, code);
}

static bool repr_string(struct jinja_run *r, struct jinja_out *out, const struct jinja_string *s)
{
    bool single = memchr(s->bytes, '\'', s->len) != NULL;
    char quote = single && !memchr(s->bytes, '"', s->len) ? '"' : '\'';
    size_t pos = 0;
    if (!jinja_out_bytes(r, out, &quote, 1, false))
        return false;
    while (pos < s->len) {
        size_t start = pos;
        char escape[16];
        int n = repr_escape(jinja_utf8_next(s->bytes, s->len, &pos), quote, escape);
        struct jinja_string part = {.bytes = s->bytes + start,
                                    .origin = s->origin ? s->origin + start : NULL,
                                    .len = pos - start,
                                    .trusted = s->trusted};
        if (n > 0 ? !jinja_out_bytes(r, out, escape, (size_t)n, false)
                  : !jinja_out_string(r, out, &part))
            return false;
    }
    return jinja_out_bytes(r, out, &quote, 1, false);
}

static bool repr_list(struct jinja_run *r, struct jinja_out *out, struct jinja_value v)
{
    bool tuple = v.type == JINJA_TUPLE;
    if (!jinja_out_puts(r, out, tuple ? "(" : "[", false))
        return false;
    for (size_t i = 0; i < v.list->count; i++) {
        if ((i > 0 && !jinja_out_puts(r, out, ", ", false)) ||
            !write_repr(r, out, v.list->items[i]))
            return false;
    }
    return jinja_out_puts(r, out, !tuple ? "]" : v.list->count == 1 ? ",)" : ")", false);
}

static bool repr_dict(struct jinja_run *r, struct jinja_out *out, const struct jinja_dict *dict)
{
    if (!jinja_out_puts(r, out, "{", false))
        return false;
    for (size_t i = 0; i < dict->count; i++) {
        if ((i > 0 && !jinja_out_puts(r, out, ", ", false)) ||
            !write_repr(r, out, dict->pairs[i].key) || !jinja_out_puts(r, out, ": ", false) ||
            !write_repr(r, out, dict->pairs[i].value))
            return false;
    }
    return jinja_out_puts(r, out, "}", false);
}

static bool write_scalar(struct jinja_run *r, struct jinja_out *out, struct jinja_value v)
{
    char text[64];
    switch (v.type) {
    case JINJA_UNSET:
    case JINJA_UNDEFINED:
        return true;
    case JINJA_NONE:
        return jinja_out_puts(r, out, "None", false);
    case JINJA_BOOL:
        return jinja_out_puts(r, out, v.b ? "True" : "False", false);
    case JINJA_INT:
        snprintf(text, sizeof text, "%" PRId64, v.i);
        break;
    case JINJA_FLOAT:
        jinja_write_float(v.f, text);
        break;
    default:
        snprintf(text, sizeof text, "<%s>", jinja_type_name(v));
    }
    return jinja_out_puts(r, out, text, false);
}

static bool write_repr(struct jinja_run *r, struct jinja_out *out, struct jinja_value v)
{
    bool ok;
    if (!jinja_enter(r))
        return false;
    if (v.type == JINJA_STRING)
        ok = repr_string(r, out, v.s);
    else if (jinja_is_list(v))
        ok = repr_list(r, out, v);
    else if (v.type == JINJA_DICT)
        ok = repr_dict(r, out, v.dict);
    else if (v.type == JINJA_UNDEFINED)
        ok = jinja_out_puts(r, out, "Undefined", false);
    else
        ok = write_scalar(r, out, v);
    jinja_leave(r);
    return ok;
}

bool jinja_write_str(struct jinja_run *r, struct jinja_out *out, struct jinja_value v)
{
    if (v.type == JINJA_STRING)
        return jinja_out_string(r, out, v.s);
    if (jinja_is_list(v) || v.type == JINJA_DICT)
        return write_repr(r, out, v);
    return write_scalar(r, out, v);
}

bool jinja_text_str(struct jinja_run *r, struct jinja_value v, struct jinja_value *out)
{
    struct jinja_capture c;
    if (v.type == JINJA_STRING) {
        *out = v;
        return true;
    }
    jinja_capture_begin(&c);
    if (jinja_write_str(r, &c.out, v))
        return jinja_capture_end(r, &c, out);
    jinja_capture_drop(&c);
    return false;
}

struct dump_writer {
    struct jinja_run *r;
    struct jinja_out *out;
    const struct jinja_json_format *format;
    size_t level;
};

static bool dump_value(struct dump_writer *w, struct jinja_value v);

static bool dump_puts(struct dump_writer *w, const char *text)
{
    return jinja_out_puts(w->r, w->out, text, false);
}

/* What a code point is written as when not as itself; 0 when it is. */
static int dump_escape(uint32_t code, bool ascii, char out[16])
{
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    const char *at = code < 0x80 ? memchr(from, (int)code, sizeof from - 1) : NULL;
    if (at)
        return snprintf(out, 16, "\\%c", to[at - from]);
    if (code < 0x20 || (ascii && code >= 0x7f && code < 0x10000))
        return snprintf(out, 16, "\\u%04" PRIx32, code);
    if (ascii && code >= 0x10000)
        return snprintf(out, 16, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd800 + ((code - 0x10000) >> 10),
                        0xdc00 + ((code - 0x10000) & 0x3ff));
    return 0;
}

/* Runs of characters that need no escape are written at once. */
static bool dump_string(struct dump_writer *w, const struct jinja_string *s)
{
    size_t run = 0, pos = 0;
    if (!dump_puts(w, "\""))
        return false;
    while (pos < s->len) {
        size_t start = pos;
        char escape[16];
        int n =
            dump_escape(jinja_utf8_next(s->bytes, s->len, &pos), w->format->ensure_ascii, escape);
        if (n == 0)
            continue;
        if (!jinja_out_bytes(w->r, w->out, s->bytes + run, start - run, false) ||
            !jinja_out_bytes(w->r, w->out, escape, (size_t)n, false))
            return false;
        run = pos;
    }
    return jinja_out_bytes(w->r, w->out, s->bytes + run, s->len - run, false) && dump_puts(w, "\"");
}

static bool dump_newline(struct dump_writer *w)
{
    const struct jinja_string *indent = w->format->indent;
    if (!indent)
        return true;
    if (!dump_puts(w, "\n"))
        return false;
    for (size_t i = 0; i < w->level; i++) {
        if (!jinja_out_bytes(w->r, w->out, indent->bytes, indent->len, false))
            return false;
    }
    return true;
}

/* Between two members, or in front of the first. */
static bool dump_separate(struct dump_writer *w, size_t i)
{
    const struct jinja_string *s = w->format->item_separator;
    return (i == 0 || jinja_out_bytes(w->r, w->out, s->bytes, s->len, false)) && dump_newline(w);
}

static bool dump_list(struct dump_writer *w, const struct jinja_list *list)
{
    if (list->count == 0)
        return dump_puts(w, "[]");
    w->level++;
    if (!dump_puts(w, "["))
        return false;
    for (size_t i = 0; i < list->count; i++) {
        if (!dump_separate(w, i) || !dump_value(w, list->items[i]))
            return false;
    }
    w->level--;
    return dump_newline(w) && dump_puts(w, "]");
}

/* Keys are strings in JSON: other scalars are written in quotes. */
static bool dump_key(struct dump_writer *w, struct jinja_value key)
{
    const struct jinja_string *s = w->format->key_separator;
    bool ok;
    if (key.type == JINJA_STRING)
        ok = dump_string(w, key.s);
    else
        ok = dump_puts(w, "\"") && dump_value(w, key) && dump_puts(w, "\"");
    return ok && jinja_out_bytes(w->r, w->out, s->bytes, s->len, false);
}

static int compare_pairs(const void *a, const void *b)
{
    const struct jinja_string *x = (*(struct jinja_pair *const *)a)->key.s;
    const struct jinja_string *y = (*(struct jinja_pair *const *)b)->key.s;
    size_t len = x->len < y->len ? x->len : y->len;
    int order = len > 0 ? memcmp(x->bytes, y->bytes, len) : 0;
    return order != 0 ? order : (x->len > y->len) - (x->len < y->len);
}

/* The pairs in the order to write them in. */
static const struct jinja_pair **dump_order(struct dump_writer *w, const struct jinja_dict *dict)
{
    const struct jinja_pair **order = jinja_array(w->r, dict->count, sizeof *order);
    bool strings = true;
    for (size_t i = 0; order && i < dict->count; i++) {
        order[i] = &dict->pairs[i];
        strings = strings && dict->pairs[i].key.type == JINJA_STRING;
    }
    if (order && w->format->sort_keys && strings)
        qsort(order, dict->count, sizeof *order, compare_pairs);
    return order;
}

static bool dump_dict(struct dump_writer *w, const struct jinja_dict *dict)
{
    const struct jinja_pair **order;
    if (dict->count == 0)
        return dump_puts(w, "{}");
    order = dump_order(w, dict);
    w->level++;
    if (!order || !dump_puts(w, "{"))
        return false;
    for (size_t i = 0; i < dict->count; i++) {
        if (!dump_separate(w, i) || !dump_key(w, order[i]->key) || !dump_value(w, order[i]->value))
            return false;
    }
    w->level--;
    return dump_newline(w) && dump_puts(w, "}");
}

static bool dump_float(struct dump_writer *w, double f)
{
    char text[JINJA_FLOAT_SIZE];
    jinja_write_float(f, text);
    if (isnan(f))
        return dump_puts(w, "NaN");
    return dump_puts(w, isinf(f) ? (f < 0 ? "-Infinity" : "Infinity") : text);
}

static bool dump_any(struct dump_writer *w, struct jinja_value v)
{
    switch (v.type) {
    case JINJA_NONE:
        return dump_puts(w, "null");
    case JINJA_BOOL:
        return dump_puts(w, v.b ? "true" : "false");
    case JINJA_INT:
        return write_scalar(w->r, w->out, v);
    case JINJA_FLOAT:
        return dump_float(w, v.f);
    case JINJA_STRING:
        return dump_string(w, v.s);
    case JINJA_LIST:
    case JINJA_TUPLE:
        return dump_list(w, v.list);
    case JINJA_DICT:
        return dump_dict(w, v.dict);
    default:
        return jinja_fail(w->r, STATUS_INVALID, "expected a value that JSON has, found '%s'",
                          jinja_type_name(v));
    }
}

static bool dump_value(struct dump_writer *w, struct jinja_value v)
{
    bool ok;
    if (!jinja_enter(w->r))
        return false;
    ok = dump_any(w, v);
    jinja_leave(w->r);
    return ok;
}

bool jinja_write_json(struct jinja_run *r, struct jinja_out *out, struct jinja_value v,
                      const struct jinja_json_format *format)
{
    struct dump_writer w = {.r = r, .out = out, .format = format};
    return dump_value(&w, v);
}
