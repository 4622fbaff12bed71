/* Filters of lists and dicts. */
#include "text/template/jinja_builtin.h"

#include "text/template/jinja_access.h"
#include "text/template/jinja_ops.h"
#include "text/template/jinja_strings.h"
#include "text/template/jinja_text.h"
#include "text/template/jinja_utf8.h"

#define PARAMS                                                                                     \
    struct jinja_run *r, struct jinja_value self, const struct jinja_args *a,                      \
        struct jinja_value *out

/* x|first, x|last: undefined when there is none. */
static bool end_item(struct jinja_run *r, struct jinja_value self, bool last,
                     struct jinja_value *out)
{
    const struct jinja_list *list;
    if (!jinja_iterate(r, self, &list))
        return false;
    *out = jinja_undefined(NULL, JINJA_UNSET);
    if (list->count > 0)
        *out = list->items[last ? list->count - 1 : 0];
    return true;
}

static bool filter_first(PARAMS)
{
    (void)a;
    return end_item(r, self, false, out);
}

static bool filter_last(PARAMS)
{
    (void)a;
    return end_item(r, self, true, out);
}

/* A copy, with room for `extra` more. */
static struct jinja_list *jinja_filters_list_copy_list(struct jinja_run *r, struct jinja_value v)
{
    const struct jinja_list *from;
    struct jinja_list *list;
    if (!jinja_iterate(r, v, &from) || !jinja_work(r, from->count) ||
        !(list = jinja_list_new(r, from->count)))
        return NULL;
    for (size_t i = 0; i < from->count; i++)
        list->items[list->count++] = from->items[i];
    return list;
}

static bool filter_list(PARAMS)
{
    struct jinja_list *list = jinja_filters_list_copy_list(r, self);
    (void)a;
    *out = jinja_list_value(list);
    return list != NULL;
}

static bool filter_reverse(PARAMS)
{
    const struct jinja_value bounds[3] = {[2] = jinja_int(-1)};
    (void)a;
    return jinja_access_slice(r, self, bounds, out);
}

/* The item, or its attribute when one is asked for ("a.b" goes through both). */
static bool attribute_of(struct jinja_run *r, struct jinja_value item, struct jinja_value attribute,
                         struct jinja_value *out)
{
    struct jinja_value parts;
    static const struct jinja_string dot = {.bytes = ".", .len = 1};
    *out = item;
    if (jinja_is_missing(attribute))
        return true;
    if (attribute.type != JINJA_STRING)
        return jinja_access_item(r, item, attribute, out);
    if (!jinja_strings_split(r, attribute.s, &dot, -1, &parts))
        return false;
    for (size_t i = 0; i < parts.list->count; i++) {
        if (!jinja_access_item(r, *out, parts.list->items[i], out))
            return false;
    }
    return true;
}

static bool filter_join(PARAMS)
{
    static const struct jinja_string none = {.bytes = "", .len = 0};
    const struct jinja_list *list;
    struct jinja_list *parts;
    struct jinja_value sep = {.type = JINJA_STRING, .s = &none};
    if (!jinja_iterate(r, self, &list) || !(parts = jinja_list_new(r, list->count)) ||
        (a->arg[0].type != JINJA_UNSET && !jinja_text_str(r, a->arg[0], &sep)))
        return false;
    for (size_t i = 0; i < list->count; i++) {
        struct jinja_value v;
        if (!jinja_step(r) || !attribute_of(r, list->items[i], a->arg[1], &v) ||
            !jinja_list_add(r, parts, v))
            return false;
    }
    return jinja_strings_join(r, parts, sep.s, out);
}

static bool dict_pairs(struct jinja_run *r, struct jinja_value self, struct jinja_list **out)
{
    struct jinja_list *list = jinja_list_new(r, 0);
    struct jinja_value pair;
    *out = list;
    if (!list || self.type == JINJA_UNDEFINED)
        return list != NULL;
    if (self.type != JINJA_DICT)
        return jinja_fail(r, STATUS_INVALID, "expected a dict, found a '%s'",
                          jinja_type_name(self));
    for (size_t i = 0; i < self.dict->count; i++) {
        const struct jinja_pair *p = &self.dict->pairs[i];
        if (!jinja_step(r) || !jinja_tuple2(r, p->key, p->value, &pair) ||
            !jinja_list_add(r, list, pair))
            return false;
    }
    return true;
}

static bool filter_items(PARAMS)
{
    struct jinja_list *list;
    (void)a;
    if (!dict_pairs(r, self, &list))
        return false;
    *out = jinja_list_value(list);
    return true;
}

/* Order of two sort keys; strings without regard to case unless asked. */
static bool key_order(struct jinja_run *r, struct jinja_value x, struct jinja_value y,
                      bool case_sensitive, int *order)
{
    if (!case_sensitive && x.type == JINJA_STRING && y.type == JINJA_STRING &&
        (!jinja_strings_case(r, x.s, CASE_LOWER, &x) ||
         !jinja_strings_case(r, y.s, CASE_LOWER, &y)))
        return false;
    return jinja_step(r) && jinja_ops_order(r, x, y, order);
}

struct sorter {
    struct jinja_run *r;
    struct jinja_list *keys;
    struct jinja_list *items;
    struct jinja_value *scratch; /* (2 * count) */
    bool case_sensitive;
    bool reverse;
};

/* Merges [low, mid) and [mid, high), both sorted; equal keys keep their order. */
static bool merge(struct sorter *s, size_t low, size_t mid, size_t high)
{
    struct jinja_value *keys = s->scratch, *items = s->scratch + (high - low);
    size_t i = low, j = mid, n = 0;
    while (i < mid || j < high) {
        int order = j >= high ? -1 : 1;
        if (i < mid && j < high) {
            if (!key_order(s->r, s->keys->items[i], s->keys->items[j], s->case_sensitive, &order))
                return false;
            if (s->reverse)
                order = -order;
        }
        size_t from = order <= 0 ? i++ : j++;
        keys[n] = s->keys->items[from];
        items[n++] = s->items->items[from];
    }
    for (size_t k = 0; k < n; k++) {
        s->keys->items[low + k] = keys[k];
        s->items->items[low + k] = items[k];
    }
    return true;
}

static bool sort_items(struct sorter *s)
{
    size_t count = s->items->count;
    s->scratch = jinja_array(s->r, count * 2, sizeof *s->scratch);
    if (!s->scratch)
        return false;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t low = 0; low + width < count; low += 2 * width) {
            size_t high = low + 2 * width < count ? low + 2 * width : count;
            if (!merge(s, low, low + width, high))
                return false;
        }
    }
    return true;
}

/* The keys to sort by: each item's attribute. */
static struct jinja_list *sort_keys(struct jinja_run *r, const struct jinja_list *items,
                                    struct jinja_value attribute)
{
    struct jinja_list *keys = jinja_list_new(r, items->count);
    for (size_t i = 0; keys && i < items->count; i++) {
        if (!jinja_step(r) || !attribute_of(r, items->items[i], attribute, &keys->items[i]))
            return NULL;
    }
    if (keys)
        keys->count = items->count;
    return keys;
}

static bool filter_sort(PARAMS)
{
    struct sorter s = {.r = r,
                       .items = jinja_filters_list_copy_list(r, self),
                       .reverse = jinja_truth(a->arg[0]),
                       .case_sensitive = jinja_truth(a->arg[1])};
    if (!s.items || !(s.keys = sort_keys(r, s.items, a->arg[2])) || !sort_items(&s))
        return false;
    *out = jinja_list_value(s.items);
    return true;
}

static bool filter_dictsort(PARAMS)
{
    bool by_value = a->arg[1].type == JINJA_STRING && jinja_string_is(a->arg[1].s, "value");
    struct sorter s = {
        .r = r, .reverse = jinja_truth(a->arg[2]), .case_sensitive = jinja_truth(a->arg[0])};
    if (!dict_pairs(r, self, &s.items) || !(s.keys = sort_keys(r, s.items, jinja_int(by_value))) ||
        !sort_items(&s))
        return false;
    *out = jinja_list_value(s.items);
    return true;
}

/* The first item that no other is less (or, for max, greater) than. */
static bool jinja_filters_list_extreme(struct jinja_run *r, struct jinja_value self,
                                       const struct jinja_args *a, int sign,
                                       struct jinja_value *out)
{
    const struct jinja_list *list;
    struct jinja_value best, key;
    *out = jinja_undefined(NULL, JINJA_UNSET);
    if (!jinja_iterate(r, self, &list))
        return false;
    for (size_t i = 0; i < list->count; i++) {
        int order = -1;
        if (!attribute_of(r, list->items[i], a->arg[1], &key) ||
            (i > 0 && !key_order(r, key, best, jinja_truth(a->arg[0]), &order)))
            return false;
        if (i == 0 || order * sign < 0) {
            best = key;
            *out = list->items[i];
        }
    }
    return true;
}

static bool filter_min(PARAMS)
{
    return jinja_filters_list_extreme(r, self, a, 1, out);
}

static bool filter_max(PARAMS)
{
    return jinja_filters_list_extreme(r, self, a, -1, out);
}

static bool filter_sum(PARAMS)
{
    const struct jinja_list *list;
    struct jinja_value v;
    *out = a->arg[1].type == JINJA_UNSET ? jinja_int(0) : a->arg[1];
    if (!jinja_iterate(r, self, &list))
        return false;
    for (size_t i = 0; i < list->count; i++) {
        if (!attribute_of(r, list->items[i], a->arg[0], &v) ||
            !jinja_ops_binary(r, '+', *out, v, out))
            return false;
    }
    return true;
}

/* Keeps the first of equal items; strings are compared without case unless asked. */
static bool filter_unique(PARAMS)
{
    const struct jinja_list *list;
    struct jinja_list *seen = jinja_list_new(r, 0), *kept = jinja_list_new(r, 0);
    if (!seen || !kept || !jinja_iterate(r, self, &list))
        return false;
    for (size_t i = 0; i < list->count; i++) {
        struct jinja_value key;
        bool found;
        if (!attribute_of(r, list->items[i], a->arg[1], &key) ||
            (key.type == JINJA_STRING && !jinja_truth(a->arg[0]) &&
             !jinja_strings_case(r, key.s, CASE_LOWER, &key)) ||
            !jinja_ops_contains(r, jinja_list_value(seen), key, &found))
            return false;
        if (!found && (!jinja_list_add(r, seen, key) || !jinja_list_add(r, kept, list->items[i])))
            return false;
    }
    *out = jinja_list_value(kept);
    return true;
}

/* Calls a filter or test by name with the arguments from `skip` on. */
static bool call_named(struct jinja_run *r, const struct jinja_builtin *row,
                       struct jinja_value name, struct jinja_value self, const struct jinja_args *a,
                       size_t skip, struct jinja_value *out)
{
    struct jinja_args rest = {.pos = a->pos + skip,
                              .n_pos = a->n_pos - skip,
                              .keywords = a->keywords,
                              .n_keywords = a->n_keywords};
    if (!row)
        return jinja_fail(r, STATUS_UNSUPPORTED, "the filter or test '%.*s' is not supported",
                          jinja_utf8_cut(name.s->bytes, name.s->len, 64), name.s->bytes);
    return jinja_builtin_call(r, row, self, &rest, out);
}

/* jinja2's lazy filters take any false value, None too, for an empty list. */
static bool iterate_lazy(struct jinja_run *r, struct jinja_value v, const struct jinja_list **list)
{
    return jinja_iterate(r, jinja_truth(v) ? v : jinja_undefined(NULL, JINJA_UNSET), list);
}

/* select, reject, selectattr, rejectattr: [attribute,] [test, arguments...]. */
static bool select_items(struct jinja_run *r, struct jinja_value self, const struct jinja_args *a,
                         size_t n_attrs, bool wanted, struct jinja_value *out)
{
    const struct jinja_list *list;
    struct jinja_list *kept = jinja_list_new(r, 0);
    struct jinja_value none = {.type = JINJA_UNSET}, v;
    const struct jinja_string *name;
    if (!kept || !iterate_lazy(r, self, &list))
        return false;
    if (a->n_pos < n_attrs)
        return jinja_fail(r, STATUS_INVALID, "expected the name of an attribute, found none");
    if (a->n_pos > n_attrs && !jinja_builtin_string(r, a->pos[n_attrs], "a test's name", &name))
        return false;
    for (size_t i = 0; i < list->count; i++) {
        if (!jinja_step(r) ||
            !attribute_of(r, list->items[i], n_attrs > 0 ? a->pos[0] : none, &v) ||
            (a->n_pos > n_attrs &&
             !call_named(r, jinja_builtin_test(name), a->pos[n_attrs], v, a, n_attrs + 1, &v)))
            return false;
        if (jinja_truth(v) == wanted && !jinja_list_add(r, kept, list->items[i]))
            return false;
    }
    *out = jinja_list_value(kept);
    return true;
}

static bool filter_select(PARAMS)
{
    return select_items(r, self, a, 0, true, out);
}

static bool filter_reject(PARAMS)
{
    return select_items(r, self, a, 0, false, out);
}

static bool filter_selectattr(PARAMS)
{
    return select_items(r, self, a, 1, true, out);
}

static bool filter_rejectattr(PARAMS)
{
    return select_items(r, self, a, 1, false, out);
}

static struct jinja_value keyword(const struct jinja_args *a, const char *name)
{
    for (size_t i = 0; i < a->n_keywords; i++) {
        if (jinja_string_is(a->keywords[i].name, name))
            return a->keywords[i].value;
    }
    return (struct jinja_value){.type = JINJA_UNSET};
}

/* map(attribute='a', default=x) or map('filter', arguments...). */
static bool map_one(struct jinja_run *r, struct jinja_value item, const struct jinja_args *a,
                    struct jinja_value *out)
{
    struct jinja_value otherwise = keyword(a, "default");
    const struct jinja_string *name;
    if (a->n_pos > 0)
        return jinja_builtin_string(r, a->pos[0], "a filter's name", &name) &&
               call_named(r, jinja_builtin_filter(name), a->pos[0], item, a, 1, out);
    if (!attribute_of(r, item, keyword(a, "attribute"), out))
        return false;
    if (out->type == JINJA_UNDEFINED && otherwise.type != JINJA_UNSET)
        *out = otherwise;
    return true;
}

static bool filter_map(PARAMS)
{
    const struct jinja_list *list;
    struct jinja_list *mapped;
    struct jinja_value v;
    if (a->n_pos == 0 && keyword(a, "attribute").type == JINJA_UNSET)
        return jinja_fail(r, STATUS_INVALID, "map: expected a filter or an attribute, found none");
    if (!iterate_lazy(r, self, &list) || !(mapped = jinja_list_new(r, list->count)) ||
        !jinja_enter(r))
        return false;
    for (size_t i = 0; i < list->count; i++) {
        if (!jinja_step(r) || !map_one(r, list->items[i], a, &v) || !jinja_list_add(r, mapped, v))
            return false;
    }
    jinja_leave(r);
    *out = jinja_list_value(mapped);
    return true;
}

static const struct jinja_builtin rows[] = {
    {.name = "first", .call = filter_first},
    {.name = "last", .call = filter_last},
    {.name = "list", .call = filter_list},
    {.name = "items", .call = filter_items},
    {.name = "join", .call = filter_join, .params = {"d", "attribute"}},
    {.name = "map", .call = filter_map, .flags = JINJA_VARIADIC},
    {.name = "select", .call = filter_select, .flags = JINJA_VARIADIC},
    {.name = "reject", .call = filter_reject, .flags = JINJA_VARIADIC},
    {.name = "selectattr", .call = filter_selectattr, .flags = JINJA_VARIADIC},
    {.name = "rejectattr", .call = filter_rejectattr, .flags = JINJA_VARIADIC},
    {.name = "reverse", .call = filter_reverse},
    {.name = "sort", .call = filter_sort, .params = {"reverse", "case_sensitive", "attribute"}},
    {.name = "dictsort", .call = filter_dictsort, .params = {"case_sensitive", "by", "reverse"}},
    {.name = "unique", .call = filter_unique, .params = {"case_sensitive", "attribute"}},
    {.name = "min", .call = filter_min, .params = {"case_sensitive", "attribute"}},
    {.name = "max", .call = filter_max, .params = {"case_sensitive", "attribute"}},
    {.name = "sum", .call = filter_sum, .params = {"attribute", "start"}},
    {.name = NULL},
};

const struct jinja_builtin *jinja_builtin_filter(const struct jinja_string *name)
{
    const struct jinja_builtin *row = jinja_builtin_find(jinja_filters_table, name);
    return row ? row : jinja_builtin_find(rows, name);
}
