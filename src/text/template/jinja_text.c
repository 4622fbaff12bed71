#include "text/template/jinja_text.h"

#include "base/limits.h"
#include "text/template/jinja_utf8.h"

#include <string.h>

static struct jinja_string *new_string(struct jinja_run *r, const char *bytes, size_t len,
                                       struct jinja_value *out)
{
    struct jinja_string *s = jinja_alloc(r, sizeof *s);
    if (!s)
        return NULL;
    *s = (struct jinja_string){.bytes = bytes, .len = len};
    *out = (struct jinja_value){.type = JINJA_STRING, .s = s};
    return s;
}

bool jinja_text_borrow(struct jinja_run *r, const char *bytes, size_t len, bool trusted,
                       struct jinja_value *out)
{
    struct jinja_string *s = new_string(r, bytes, len, out);
    if (s)
        s->trusted = trusted;
    return s != NULL;
}

bool jinja_text_literal(struct jinja_run *r, const char *text, struct jinja_value *out)
{
    return jinja_text_borrow(r, text, strlen(text), true, out);
}

bool jinja_text_slice(struct jinja_run *r, const struct jinja_string *s, size_t start, size_t end,
                      struct jinja_value *out)
{
    struct jinja_string *part = new_string(r, s->bytes + start, end - start, out);
    if (!part)
        return false;
    part->origin = s->origin ? s->origin + start : NULL;
    part->trusted = s->trusted;
    part->markup = s->markup;
    return true;
}

static void copy_origin(uint8_t *to, const struct jinja_string *s)
{
    if (s->len == 0)
        return;
    if (s->origin)
        memcpy(to, s->origin, s->len);
    else
        memset(to, s->trusted, s->len);
}

/* One origin for both: no array is needed. */
static bool same_origin(const struct jinja_string *a, const struct jinja_string *b)
{
    return !a->origin && !b->origin && a->trusted == b->trusted;
}

bool jinja_text_concat(struct jinja_run *r, const struct jinja_string *a,
                       const struct jinja_string *b, struct jinja_value *out)
{
    size_t len = a->len + b->len; /* both are in memory: no overflow */
    struct jinja_string *s;
    char *bytes;
    if (a->len == 0 || b->len == 0) {
        *out = (struct jinja_value){.type = JINJA_STRING, .s = a->len == 0 ? b : a};
        return true;
    }
    if (!jinja_work(r, len) || !(bytes = jinja_alloc(r, len)) ||
        !(s = new_string(r, bytes, len, out)))
        return false;
    memcpy(bytes, a->bytes, a->len);
    memcpy(bytes + a->len, b->bytes, b->len);
    s->trusted = a->trusted;
    if (!same_origin(a, b)) {
        uint8_t *origin = jinja_alloc(r, len);
        if (!origin)
            return false;
        copy_origin(origin, a);
        copy_origin(origin + a->len, b);
        s->origin = origin;
    }
    return true;
}

size_t jinja_text_find(const struct jinja_string *s, const struct jinja_string *needle, size_t from)
{
    const char *at;
    if (from > s->len || needle->len > s->len - from)
        return SIZE_MAX;
    if (needle->len == 0)
        return from;
    at = memmem(s->bytes + from, s->len - from, needle->bytes, needle->len);
    return at ? (size_t)(at - s->bytes) : SIZE_MAX;
}

bool jinja_text_subscript(struct jinja_run *r, const struct jinja_string *s, int64_t index,
                          struct jinja_value *out, bool *found)
{
    size_t start = 0, end;
    *found = false;
    if (!jinja_work(r, s->len))
        return false;
    if (index < 0) {
        for (start = s->len; index < 0 && start > 0; index++)
            start = jinja_utf8_before(s->bytes, start);
    } else {
        for (; index > 0 && start < s->len; index--)
            jinja_utf8_next(s->bytes, s->len, &start);
    }
    if (index != 0 || start >= s->len)
        return true;
    end = start;
    jinja_utf8_next(s->bytes, s->len, &end);
    *found = true;
    return jinja_text_slice(r, s, start, end, out);
}

void jinja_capture_begin(struct jinja_capture *c)
{
    *c = (struct jinja_capture){.text = {.limit = LIMIT_TEMPLATE_OUTPUT},
                                .origin = {.limit = LIMIT_TEMPLATE_OUTPUT}};
    c->out = (struct jinja_out){.text = &c->text, .origin = &c->origin};
}

void jinja_capture_drop(struct jinja_capture *c)
{
    buf_fini(&c->text);
    buf_fini(&c->origin);
}

/* The arena's copy of what was captured; the origin only where it is mixed. */
static bool capture_value(struct jinja_run *r, const struct jinja_capture *c,
                          struct jinja_value *out)
{
    size_t len = c->text.len;
    const char *origin = c->origin.data;
    char *bytes = jinja_alloc(r, len);
    struct jinja_string *s;
    if (!bytes || !(s = new_string(r, bytes, len, out)) || !jinja_work(r, len))
        return false;
    if (len == 0)
        return true;
    memcpy(bytes, c->text.data, len);
    s->trusted = origin[0] != 0;
    if (memchr(origin, !s->trusted, len)) {
        uint8_t *copy = jinja_alloc(r, len);
        if (!copy)
            return false;
        memcpy(copy, origin, len);
        s->origin = copy;
    }
    return true;
}

bool jinja_capture_end(struct jinja_run *r, struct jinja_capture *c, struct jinja_value *out)
{
    bool ok = capture_value(r, c, out);
    jinja_capture_drop(c);
    return ok;
}

/* Room for len bytes in both buffers. */
static bool jinja_text_reserve(struct jinja_run *r, struct jinja_out *out, size_t len)
{
    if (buf_reserve(out->text, len) && (!out->origin || buf_reserve(out->origin, len)))
        return jinja_work(r, len);
    if (out->text->limit > 0 && len > out->text->limit - out->text->len)
        return jinja_fail(r, STATUS_TOO_LARGE, "expected at most %u bytes of output, found more",
                          LIMIT_TEMPLATE_OUTPUT);
    return jinja_fail(r, STATUS_NO_MEMORY, "no memory for the rendered text");
}

bool jinja_out_bytes(struct jinja_run *r, struct jinja_out *out, const char *bytes, size_t len,
                     bool trusted)
{
    struct jinja_string s = {.bytes = bytes, .len = len, .trusted = trusted};
    return jinja_out_string(r, out, &s);
}

bool jinja_out_puts(struct jinja_run *r, struct jinja_out *out, const char *text, bool trusted)
{
    return jinja_out_bytes(r, out, text, strlen(text), trusted);
}

bool jinja_out_string(struct jinja_run *r, struct jinja_out *out, const struct jinja_string *s)
{
    if (s->len == 0)
        return true;
    if (!jinja_text_reserve(r, out, s->len))
        return false;
    buf_append(out->text, s->bytes, s->len);
    if (out->origin) {
        copy_origin((uint8_t *)out->origin->data + out->origin->len, s);
        out->origin->len += s->len;
        out->origin->data[out->origin->len] = '\0';
    }
    return true;
}
