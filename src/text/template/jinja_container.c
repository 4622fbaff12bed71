/* Lists and dicts of a rendering, and when two values are equal, which a dict's keys need. */
#include "text/template/jinja_text.h"
#include "text/template/jinja_utf8.h"

#include <string.h>

struct jinja_list *jinja_list_new(struct jinja_run *r, size_t cap)
{
    struct jinja_list *list = jinja_array(r, 1, sizeof *list);
    if (!list || cap == 0)
        return list;
    list->items = jinja_array(r, cap, sizeof *list->items);
    list->cap = cap;
    return list->items ? list : NULL;
}

bool jinja_list_add(struct jinja_run *r, struct jinja_list *list, struct jinja_value item)
{
    if (list->count == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 8;
        struct jinja_value *items = jinja_array(r, cap, sizeof *items);
        if (!items || !jinja_work(r, list->count))
            return false;
        if (list->count > 0)
            memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
        list->cap = cap;
    }
    list->items[list->count++] = item;
    return true;
}

struct jinja_value jinja_list_value(struct jinja_list *list)
{
    return (struct jinja_value){.type = JINJA_LIST, .list = list};
}

bool jinja_tuple2(struct jinja_run *r, struct jinja_value a, struct jinja_value b,
                  struct jinja_value *out)
{
    struct jinja_list *list = jinja_list_new(r, 2);
    if (!list)
        return false;
    list->items[0] = a;
    list->items[1] = b;
    list->count = 2;
    *out = (struct jinja_value){.type = JINJA_TUPLE, .list = list};
    return true;
}

struct jinja_dict *jinja_dict_new(struct jinja_run *r, size_t cap)
{
    struct jinja_dict *dict = jinja_array(r, 1, sizeof *dict);
    if (!dict || cap == 0)
        return dict;
    dict->pairs = jinja_array(r, cap, sizeof *dict->pairs);
    dict->cap = cap;
    return dict->pairs ? dict : NULL;
}

struct jinja_value jinja_dict_value(struct jinja_dict *dict)
{
    return (struct jinja_value){.type = JINJA_DICT, .dict = dict};
}

const struct jinja_value *jinja_dict_name(const struct jinja_dict *dict,
                                          const struct jinja_string *name, uint32_t hash)
{
    for (size_t i = 0; i < dict->count; i++) {
        const struct jinja_pair *pair = &dict->pairs[i];
        if (pair->hash == hash && pair->key.type == JINJA_STRING &&
            jinja_string_equal(pair->key.s, name))
            return &pair->value;
    }
    return NULL;
}

static bool equal_lists(struct jinja_run *r, const struct jinja_list *a, const struct jinja_list *b,
                        bool *equal)
{
    *equal = a->count == b->count;
    for (size_t i = 0; *equal && i < a->count; i++) {
        if (!jinja_equal(r, a->items[i], b->items[i], equal))
            return false;
    }
    return true;
}

static bool equal_dicts(struct jinja_run *r, const struct jinja_dict *a, const struct jinja_dict *b,
                        bool *equal)
{
    *equal = a->count == b->count;
    for (size_t i = 0; *equal && i < a->count; i++) {
        const struct jinja_value *other;
        if (!jinja_dict_find(r, b, a->pairs[i].key, &other))
            return false;
        *equal = other != NULL;
        if (other && !jinja_equal(r, a->pairs[i].value, *other, equal))
            return false;
    }
    return true;
}

static bool equal_same_type(struct jinja_run *r, struct jinja_value a, struct jinja_value b,
                            bool *equal)
{
    switch (a.type) {
    case JINJA_STRING:
        *equal = jinja_string_equal(a.s, b.s);
        return jinja_work(r, a.s->len);
    case JINJA_LIST:
    case JINJA_TUPLE:
        return equal_lists(r, a.list, b.list, equal);
    case JINJA_DICT:
        return equal_dicts(r, a.dict, b.dict, equal);
    case JINJA_UNSET:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        *equal = true;
        return true;
    default:
        *equal = a.list == b.list; /* the others are what they point to */
        return true;
    }
}

bool jinja_equal(struct jinja_run *r, struct jinja_value a, struct jinja_value b, bool *equal)
{
    int64_t x, y;
    bool ok;
    *equal = false;
    if (jinja_integer(a, &x) && jinja_integer(b, &y)) {
        *equal = x == y;
        return true;
    }
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *equal = jinja_number(a) == jinja_number(b);
        return true;
    }
    if (a.type != b.type)
        return true;
    if (!jinja_enter(r))
        return false;
    ok = equal_same_type(r, a, b, equal);
    jinja_leave(r);
    return ok;
}

bool jinja_dict_find(struct jinja_run *r, const struct jinja_dict *dict, struct jinja_value key,
                     const struct jinja_value **found)
{
    *found = NULL;
    if (!jinja_work(r, dict->count))
        return false;
    if (key.type == JINJA_STRING) {
        if (!jinja_work(r, key.s->len))
            return false;
        *found = jinja_dict_name(dict, key.s, jinja_hash(key.s->bytes, key.s->len));
        return true;
    }
    for (size_t i = 0; i < dict->count; i++) {
        bool equal;
        if (!jinja_equal(r, dict->pairs[i].key, key, &equal))
            return false;
        if (equal) {
            *found = &dict->pairs[i].value;
            return true;
        }
    }
    return true;
}

/* Appends without looking for the key. */
static bool add_pair(struct jinja_run *r, struct jinja_dict *dict, struct jinja_value key,
                     struct jinja_value value)
{
    if (dict->count == dict->cap) {
        size_t cap = dict->cap ? dict->cap * 2 : 4;
        struct jinja_pair *pairs = jinja_array(r, cap, sizeof *pairs);
        if (!pairs)
            return false;
        if (dict->count > 0)
            memcpy(pairs, dict->pairs, dict->count * sizeof *pairs);
        dict->pairs = pairs;
        dict->cap = cap;
    }
    dict->pairs[dict->count++] = (struct jinja_pair){
        .key = key,
        .value = value,
        .hash = key.type == JINJA_STRING ? jinja_hash(key.s->bytes, key.s->len) : 0};
    return true;
}

bool jinja_dict_set(struct jinja_run *r, struct jinja_dict *dict, struct jinja_value key,
                    struct jinja_value value)
{
    const struct jinja_value *found;
    if (key.type == JINJA_LIST || key.type == JINJA_DICT)
        return jinja_fail(r, STATUS_INVALID, "expected a key that is no list or dict, found a '%s'",
                          jinja_type_name(key));
    if (!jinja_dict_find(r, dict, key, &found))
        return false;
    if (!found)
        return add_pair(r, dict, key, value);
    dict->pairs[(const struct jinja_pair *)((const char *)found -
                                            offsetof(struct jinja_pair, value)) -
                dict->pairs]
        .value = value;
    return true;
}

static bool iterate_dict(struct jinja_run *r, const struct jinja_dict *dict,
                         const struct jinja_list **out)
{
    struct jinja_list *list = jinja_list_new(r, dict->count);
    if (!list || !jinja_work(r, dict->count))
        return false;
    for (size_t i = 0; i < dict->count; i++)
        list->items[list->count++] = dict->pairs[i].key;
    *out = list;
    return true;
}

static bool iterate_string(struct jinja_run *r, const struct jinja_string *s,
                           const struct jinja_list **out)
{
    struct jinja_list *list = jinja_list_new(r, 0);
    for (size_t pos = 0; list && pos < s->len;) {
        size_t start = pos;
        struct jinja_value c;
        jinja_utf8_next(s->bytes, s->len, &pos);
        if (!jinja_step(r) || !jinja_text_slice(r, s, start, pos, &c) ||
            !jinja_list_add(r, list, c))
            return false;
    }
    *out = list;
    return list != NULL;
}

bool jinja_iterate(struct jinja_run *r, struct jinja_value v, const struct jinja_list **list)
{
    static const struct jinja_list empty;
    if (jinja_is_list(v))
        *list = v.list;
    else if (v.type == JINJA_UNDEFINED)
        *list = &empty;
    else if (v.type == JINJA_DICT)
        return iterate_dict(r, v.dict, list);
    else if (v.type == JINJA_STRING)
        return iterate_string(r, v.s, list);
    else
        return jinja_fail(r, STATUS_INVALID, "expected something to iterate, found a '%s'",
                          jinja_type_name(v));
    return true;
}

static bool array_from_json(struct jinja_run *r, json_t *json, struct jinja_value *out)
{
    size_t n = json_array_size(json);
    struct jinja_list *list = jinja_list_new(r, n);
    if (!list)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!jinja_from_json(r, json_array_get(json, i), &list->items[i]))
            return false;
    }
    list->count = n;
    *out = jinja_list_value(list);
    return true;
}

static bool object_from_json(struct jinja_run *r, json_t *json, struct jinja_value *out)
{
    struct jinja_dict *dict = jinja_dict_new(r, json_object_size(json));
    void *iter = json_object_iter(json);
    if (!dict)
        return false;
    for (; iter; iter = json_object_iter_next(json, iter)) {
        struct jinja_value key, value;
        if (!jinja_text_borrow(r, json_object_iter_key(iter), json_object_iter_key_len(iter), false,
                               &key) ||
            !jinja_from_json(r, json_object_iter_value(iter), &value) ||
            !add_pair(r, dict, key, value))
            return false;
    }
    *out = jinja_dict_value(dict);
    return true;
}

bool jinja_from_json(struct jinja_run *r, json_t *json, struct jinja_value *out)
{
    bool ok = true;
    if (!jinja_enter(r))
        return false;
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        ok = object_from_json(r, json, out);
        break;
    case JSON_ARRAY:
        ok = array_from_json(r, json, out);
        break;
    case JSON_STRING:
        ok = jinja_text_borrow(r, json_string_value(json), json_string_length(json), false, out);
        break;
    case JSON_INTEGER:
        *out = jinja_int(json_integer_value(json));
        break;
    case JSON_REAL:
        *out = jinja_float(json_real_value(json));
        break;
    case JSON_NULL:
        *out = jinja_none();
        break;
    default:
        *out = jinja_bool(json_is_true(json));
    }
    jinja_leave(r);
    return ok;
}
