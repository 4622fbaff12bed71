/* Strings of a rendering: making, joining and cutting them with the origin of every byte kept, and
 * writing values as text (str, repr, JSON). See jinja_value.h for what origin is.
 */
#ifndef FIRSTLIGHT_TEXT_TEMPLATE_JINJA_TEXT_H
#define FIRSTLIGHT_TEXT_TEMPLATE_JINJA_TEXT_H

#include "text/template/jinja_run.h"

/* A string over bytes that live as long as the rendering. */
bool jinja_text_borrow(struct jinja_run *r, const char *bytes, size_t len, bool trusted,
                       struct jinja_value *out);
/* A string over a static text, which counts as the template's. */
bool jinja_text_literal(struct jinja_run *r, const char *text, struct jinja_value *out);
/* Bytes [start, end) of s, shared with it. */
bool jinja_text_slice(struct jinja_run *r, const struct jinja_string *s, size_t start, size_t end,
                      struct jinja_value *out);
bool jinja_text_concat(struct jinja_run *r, const struct jinja_string *a,
                       const struct jinja_string *b, struct jinja_value *out);
/* str(v) as a string value. */
bool jinja_text_str(struct jinja_run *r, struct jinja_value v, struct jinja_value *out);

/* Offset of the first `needle` in s at or after `from`; SIZE_MAX when there is none. */
size_t jinja_text_find(const struct jinja_string *s, const struct jinja_string *needle,
                       size_t from);

/* s[start:stop:step] by code points; the bounds may be JINJA_UNSET or None. */
bool jinja_text_subscript(struct jinja_run *r, const struct jinja_string *s, int64_t index,
                          struct jinja_value *out, bool *found);

/* Text built piece by piece. Pair begin with end or drop. */
struct jinja_capture {
    struct jinja_out out;
    struct buf text;
    struct buf origin;
};
void jinja_capture_begin(struct jinja_capture *c);
bool jinja_capture_end(struct jinja_run *r, struct jinja_capture *c, struct jinja_value *out);
void jinja_capture_drop(struct jinja_capture *c);

bool jinja_out_bytes(struct jinja_run *r, struct jinja_out *out, const char *bytes, size_t len,
                     bool trusted);
bool jinja_out_puts(struct jinja_run *r, struct jinja_out *out, const char *text, bool trusted);
bool jinja_out_string(struct jinja_run *r, struct jinja_out *out, const struct jinja_string *s);

/* str(v): what {{ v }} prints. */
bool jinja_write_str(struct jinja_run *r, struct jinja_out *out, struct jinja_value v);

/* json.dumps as transformers calls it. `indent` NULL: on one line. All of it counts as context. */
struct jinja_json_format {
    const struct jinja_string *indent;
    const struct jinja_string *item_separator;
    const struct jinja_string *key_separator;
    bool ensure_ascii;
    bool sort_keys;
};
bool jinja_write_json(struct jinja_run *r, struct jinja_out *out, struct jinja_value v,
                      const struct jinja_json_format *format);

/* The shortest text that reads back as the same double, in Python's form. */
#define JINJA_FLOAT_SIZE 32
void jinja_write_float(double f, char out[JINJA_FLOAT_SIZE]);

#endif
