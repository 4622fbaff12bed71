#include "text/template/jinja_markup.h"

#include "text/template/jinja_text.h"

bool jinja_markup_set(struct jinja_run *r, const struct jinja_string *s, bool markup,
                      struct jinja_value *out)
{
    struct jinja_string *copy = jinja_alloc(r, sizeof *copy);
    if (!copy)
        return false;
    *copy = *s;
    copy->markup = markup;
    *out = (struct jinja_value){.type = JINJA_STRING, .s = copy};
    return true;
}

static const char *entity_of(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '\'':
        return "&#39;";
    case '"':
        return "&#34;";
    default:
        return NULL;
    }
}

static bool write_escaped(struct jinja_run *r, struct jinja_out *out, const struct jinja_string *s)
{
    for (size_t at = 0, end; at < s->len; at = end) {
        const char *entity = entity_of(s->bytes[at]);
        bool trusted = s->origin ? s->origin[at] : s->trusted;
        end = at + 1;
        while (!entity && end < s->len && !entity_of(s->bytes[end]) &&
               (!s->origin || s->origin[end] == s->origin[at]))
            end++;
        if (!(entity ? jinja_out_puts(r, out, entity, trusted)
                     : jinja_out_bytes(r, out, s->bytes + at, end - at, trusted)))
            return false;
    }
    return true;
}

bool jinja_markup_escape(struct jinja_run *r, struct jinja_value v, struct jinja_value *out)
{
    struct jinja_capture c;
    *out = v;
    if (v.type == JINJA_STRING && v.s->markup)
        return true;
    if (!jinja_text_str(r, v, &v))
        return false;
    jinja_capture_begin(&c);
    if (jinja_work(r, v.s->len * 8) && write_escaped(r, &c.out, v.s))
        return jinja_capture_end(r, &c, out) && jinja_markup_set(r, out->s, true, out);
    jinja_capture_drop(&c);
    return false;
}

bool jinja_markup_add(struct jinja_run *r, struct jinja_value a, struct jinja_value b,
                      struct jinja_value *out)
{
    return jinja_markup_escape(r, a, &a) && jinja_markup_escape(r, b, &b) &&
           jinja_text_concat(r, a.s, b.s, out) && jinja_markup_set(r, out->s, true, out);
}
