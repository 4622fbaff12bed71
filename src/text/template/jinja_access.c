#include "text/template/jinja_access.h"

#include "text/template/jinja_builtin.h"
#include "text/template/jinja_text.h"
#include "text/template/jinja_utf8.h"

/* previtem and nextitem are undefined at the ends. */
static struct jinja_value loop_item(const struct jinja_loop *loop, size_t index,
                                    const struct jinja_string *name)
{
    return index < loop->list->count ? loop->list->items[index] : jinja_undefined(name, JINJA_LOOP);
}

static struct jinja_value loop_attribute(const struct jinja_loop *loop,
                                         const struct jinja_string *name)
{
    size_t left = loop->list->count - loop->index;
    const struct {
        const char *name;
        struct jinja_value value;
    } rows[] = {
        {"index", jinja_int((int64_t)loop->index + 1)},
        {"index0", jinja_int((int64_t)loop->index)},
        {"first", jinja_bool(loop->index == 0)},
        {"last", jinja_bool(left == 1)},
        {"length", jinja_int((int64_t)loop->list->count)},
        {"revindex", jinja_int((int64_t)left)},
        {"revindex0", jinja_int((int64_t)left - 1)},
        {"depth", jinja_int((int64_t)loop->depth + 1)},
        {"depth0", jinja_int((int64_t)loop->depth)},
        {"previtem", loop_item(loop, loop->index - 1, name)},
        {"nextitem", loop_item(loop, loop->index + 1, name)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (jinja_string_is(name, rows[i].name))
            return rows[i].value;
    }
    return jinja_undefined(name, JINJA_LOOP);
}

/* The method `name` of v, bound to it; JINJA_UNSET when its type has none. */
static bool bind_method(struct jinja_run *r, struct jinja_value v, const struct jinja_string *name,
                        struct jinja_value *out)
{
    const struct jinja_builtin *row = jinja_builtin_method(v.type, name);
    struct jinja_method *method;
    *out = (struct jinja_value){.type = JINJA_UNSET};
    if (!row)
        return true;
    method = jinja_alloc(r, sizeof *method);
    if (!method)
        return false;
    *method = (struct jinja_method){.builtin = row, .self = v};
    *out = (struct jinja_value){.type = JINJA_METHOD, .method = method};
    return true;
}

bool jinja_access_attribute(struct jinja_run *r, struct jinja_value v,
                            const struct jinja_string *name, uint32_t hash, bool may_be_method,
                            struct jinja_value *out)
{
    const struct jinja_value *found = NULL;
    if (v.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(r, v);
    if (may_be_method) {
        if (!bind_method(r, v, name, out))
            return false;
        if (out->type != JINJA_UNSET)
            return true;
    }
    if (v.type == JINJA_DICT || v.type == JINJA_NAMESPACE) {
        if (!jinja_work(r, v.dict->count))
            return false;
        found = jinja_dict_name(v.dict, name, hash);
    }
    if (v.type == JINJA_LOOP)
        *out = loop_attribute(v.loop, name);
    else
        *out = found ? *found : jinja_undefined(name, v.type);
    return true;
}

/* What a[key] gives when there is no such key: undefined that names it. */
static bool missing_item(struct jinja_run *r, struct jinja_value v, struct jinja_value key,
                         struct jinja_value *out)
{
    if (!jinja_text_str(r, key, &key))
        return false;
    *out = jinja_undefined(key.s, v.type);
    return true;
}

static bool item_by_index(struct jinja_run *r, struct jinja_value v, int64_t index,
                          struct jinja_value *out, bool *found)
{
    int64_t count;
    if (v.type == JINJA_STRING)
        return jinja_text_subscript(r, v.s, index, out, found);
    count = (int64_t)v.list->count;
    if (index < 0)
        index += count;
    *found = index >= 0 && index < count;
    if (*found)
        *out = v.list->items[index];
    return true;
}

bool jinja_access_item(struct jinja_run *r, struct jinja_value v, struct jinja_value key,
                       struct jinja_value *out)
{
    const struct jinja_value *value;
    bool found = false;
    int64_t index;
    if (v.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(r, v);
    if (v.type == JINJA_DICT) {
        if (!jinja_dict_find(r, v.dict, key, &value))
            return false;
        if (value) {
            *out = *value;
            return true;
        }
    } else if ((v.type == JINJA_STRING || jinja_is_list(v)) && jinja_integer(key, &index)) {
        if (!item_by_index(r, v, index, out, &found))
            return false;
        if (found)
            return true;
    }
    if (key.type == JINJA_STRING)
        return jinja_access_attribute(r, v, key.s, jinja_hash(key.s->bytes, key.s->len), true, out);
    return missing_item(r, v, key, out);
}

/* Python's slice of `count` items, resolved: where it starts and how many it takes. */
struct slice {
    int64_t start;
    int64_t step;
    int64_t count;
};

static int64_t clamp(int64_t i, int64_t count, int64_t low, int64_t high)
{
    if (i < 0)
        i = i < -count ? low : i + count;
    return i < low ? low : i > high ? high : i;
}

static bool resolve_slice(struct jinja_run *r, const struct jinja_value bounds[3], int64_t count,
                          struct slice *out)
{
    int64_t start, stop, step, low, high;
    if (!jinja_builtin_int(r, bounds[2], 1, &step))
        return false;
    if (step == 0)
        return jinja_fail(r, STATUS_INVALID, "expected a slice step that is not zero, found 0");
    low = step > 0 ? 0 : -1;
    high = step > 0 ? count : count - 1;
    if (!jinja_builtin_int(r, bounds[0], step > 0 ? 0 : INT64_MAX, &start) ||
        !jinja_builtin_int(r, bounds[1], step > 0 ? INT64_MAX : INT64_MIN, &stop))
        return false;
    start = clamp(start, count, low, high);
    stop = clamp(stop, count, low, high);
    *out = (struct slice){.start = start, .step = step};
    if (step > 0 && stop > start)
        out->count = (stop - start - 1) / step + 1;
    if (step < 0 && stop < start)
        out->count = step == INT64_MIN ? 1 : (start - stop - 1) / -step + 1;
    return true;
}

static bool slice_list(struct jinja_run *r, struct jinja_value v, const struct slice *slice,
                       struct jinja_value *out)
{
    struct jinja_list *list = jinja_list_new(r, (size_t)slice->count);
    int64_t at = slice->start;
    if (!list || !jinja_work(r, (size_t)slice->count))
        return false;
    for (int64_t i = 0; i < slice->count; i++) {
        list->items[list->count++] = v.list->items[at];
        if (i + 1 < slice->count)
            at += slice->step;
    }
    *out = (struct jinja_value){.type = v.type, .list = list};
    return true;
}

/* With a step of one the slice shares the string's bytes. */
static bool slice_run(struct jinja_run *r, const struct jinja_string *s, const struct slice *slice,
                      struct jinja_value *out)
{
    size_t start = 0, end;
    for (int64_t i = 0; i < slice->start && start < s->len; i++)
        jinja_utf8_next(s->bytes, s->len, &start);
    end = start;
    for (int64_t i = 0; i < slice->count; i++)
        jinja_utf8_next(s->bytes, s->len, &end);
    return jinja_text_slice(r, s, start, end, out);
}

static bool slice_steps(struct jinja_run *r, const struct jinja_list *chars,
                        const struct slice *slice, struct jinja_value *out)
{
    struct jinja_capture c;
    int64_t at = slice->start;
    jinja_capture_begin(&c);
    for (int64_t i = 0; i < slice->count; i++) {
        if (!jinja_step(r) || !jinja_out_string(r, &c.out, chars->items[at].s)) {
            jinja_capture_drop(&c);
            return false;
        }
        if (i + 1 < slice->count)
            at += slice->step;
    }
    return jinja_capture_end(r, &c, out);
}

static bool slice_string(struct jinja_run *r, struct jinja_value v,
                         const struct jinja_value bounds[3], struct jinja_value *out)
{
    const struct jinja_list *chars;
    struct slice slice;
    if (!jinja_work(r, v.s->len) ||
        !resolve_slice(r, bounds, (int64_t)jinja_utf8_count(v.s->bytes, v.s->len), &slice))
        return false;
    if (slice.step == 1)
        return slice_run(r, v.s, &slice, out);
    return jinja_iterate(r, v, &chars) && slice_steps(r, chars, &slice, out);
}

bool jinja_access_slice(struct jinja_run *r, struct jinja_value v,
                        const struct jinja_value bounds[3], struct jinja_value *out)
{
    struct slice slice;
    if (v.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(r, v);
    if (v.type == JINJA_STRING)
        return slice_string(r, v, bounds, out);
    if (!jinja_is_list(v))
        return jinja_fail(r, STATUS_INVALID, "expected a string or list to slice, found a '%s'",
                          jinja_type_name(v));
    return resolve_slice(r, bounds, (int64_t)v.list->count, &slice) &&
           slice_list(r, v, &slice, out);
}
