/* The functions that every template can call by name. */
#include "text/template/jinja_builtin.h"
#include "text/template/jinja_utf8.h"

#include "base/limits.h"
#include "text/template/jinja_text.h"

#include <string.h>
#include <time.h>

static bool raise_exception(struct jinja_run *r, struct jinja_value self,
                            const struct jinja_args *a, struct jinja_value *out)
{
    struct jinja_value text;
    (void)self;
    (void)out;
    if (!jinja_text_str(r, a->arg[0], &text))
        return false;
    return jinja_fail(r, STATUS_INVALID, "%.*s", jinja_utf8_cut(text.s->bytes, text.s->len, 300),
                      text.s->bytes);
}

static bool fill_range(struct jinja_run *r, int64_t start, int64_t count, int64_t step,
                       struct jinja_value *out)
{
    struct jinja_list *list;
    if (count > LIMIT_TEMPLATE_RANGE)
        return jinja_fail(r, STATUS_INVALID, "range: expected at most %d items, found more",
                          LIMIT_TEMPLATE_RANGE);
    list = jinja_list_new(r, (size_t)count);
    if (!list || !jinja_work(r, (size_t)count))
        return false;
    for (int64_t i = 0; i < count; i++)
        list->items[list->count++] = jinja_int(start + i * step);
    *out = jinja_list_value(list);
    return true;
}

/* How many numbers range(start, stop, step) has. The distance may not fit in 64 bits signed. */
static int64_t range_count(int64_t start, int64_t stop, int64_t step)
{
    uint64_t distance, stride = step > 0 ? (uint64_t)step : -(uint64_t)step, count;
    if (step > 0 ? start >= stop : start <= stop)
        return 0;
    distance = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    count = (distance - 1) / stride + 1;
    return count > LIMIT_TEMPLATE_RANGE ? (int64_t)LIMIT_TEMPLATE_RANGE + 1 : (int64_t)count;
}

static bool range(struct jinja_run *r, struct jinja_value self, const struct jinja_args *a,
                  struct jinja_value *out)
{
    bool one = a->arg[1].type == JINJA_UNSET;
    int64_t start, stop, step;
    (void)self;
    if (!jinja_builtin_int(r, one ? jinja_int(0) : a->arg[0], 0, &start) ||
        !jinja_builtin_int(r, one ? a->arg[0] : a->arg[1], 0, &stop) ||
        !jinja_builtin_int(r, a->arg[2], 1, &step))
        return false;
    if (step == 0)
        return jinja_fail(r, STATUS_INVALID, "range: expected a step that is not zero, found 0");
    return fill_range(r, start, range_count(start, stop, step), step, out);
}

/* A dict of the keywords, on top of a dict given by position. */
static bool dict(struct jinja_run *r, struct jinja_value self, const struct jinja_args *a,
                 struct jinja_value *out)
{
    const struct jinja_dict *base = NULL;
    struct jinja_dict *made = jinja_dict_new(r, a->n_keywords);
    (void)self;
    if (a->n_pos > 1 || (a->n_pos == 1 && a->pos[0].type != JINJA_DICT))
        return jinja_fail(r, STATUS_INVALID, "expected a dict and keywords, found other arguments");
    if (a->n_pos == 1)
        base = a->pos[0].dict;
    for (size_t i = 0; made && base && i < base->count; i++) {
        if (!jinja_step(r) || !jinja_dict_set(r, made, base->pairs[i].key, base->pairs[i].value))
            return false;
    }
    for (size_t i = 0; made && i < a->n_keywords; i++) {
        struct jinja_value key = {.type = JINJA_STRING, .s = a->keywords[i].name};
        if (!jinja_dict_set(r, made, key, a->keywords[i].value))
            return false;
    }
    *out = jinja_dict_value(made);
    return made != NULL;
}

static bool namespace(struct jinja_run *r, struct jinja_value self, const struct jinja_args *a,
                      struct jinja_value *out)
{
    if (!dict(r, self, a, out))
        return false;
    out->type = JINJA_NAMESPACE;
    return true;
}

static bool strftime_now(struct jinja_run *r, struct jinja_value self, const struct jinja_args *a,
                         struct jinja_value *out)
{
    const struct jinja_string *format;
    time_t now = time(NULL);
    struct tm tm;
    char *text;
    (void)self;
    if (!jinja_builtin_string(r, a->arg[0], "strftime_now's format", &format))
        return false;
    if (format->len > 128 || memchr(format->bytes, '\0', format->len))
        return jinja_fail(r, STATUS_INVALID, "strftime_now: expected a format of up to 128 bytes");
    char terminated[129] = {0};
    memcpy(terminated, format->bytes, format->len);
    text = jinja_alloc(r, 1024);
    if (!text || !localtime_r(&now, &tm))
        return text && jinja_fail(r, STATUS_INTERNAL, "strftime_now: no local time");
    return jinja_text_borrow(r, text, strftime(text, 1024, terminated, &tm), false, out);
}

static const struct jinja_builtin rows[] = {
    {.name = "raise_exception", .call = raise_exception, .params = {"message"}, .required = 1},
    {.name = "range", .call = range, .params = {"start", "stop", "step"}, .required = 1},
    {.name = "namespace", .call = namespace, .flags = JINJA_VARIADIC},
    {.name = "dict", .call = dict, .flags = JINJA_VARIADIC},
    {.name = "strftime_now", .call = strftime_now, .params = {"format"}, .required = 1},
    {.name = NULL},
};

const struct jinja_builtin *jinja_builtin_global(const struct jinja_string *name)
{
    return jinja_builtin_find(rows, name);
}
