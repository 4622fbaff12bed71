/* What the files of compare.h read of results, and where two values differ. */
#include "bench/result/compare_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const json_t *compare_metric(struct compare_side side, size_t file, const char *name)
{
    return json_object_get(json_object_get(side.results[file].root, "metrics"), name);
}

/* The same with `key` behind the path while it looks. */
static bool differ_below(const json_t *a, const json_t *b, const char *key,
                         struct compare_difference *d)
{
    size_t len = strlen(d->path);
    snprintf(d->path + len, sizeof d->path - len, ".%s", key);
    if (compare_differ(a, b, d))
        return true;
    d->path[len] = '\0';
    return false;
}

static bool objects_differ(const json_t *a, const json_t *b, struct compare_difference *d)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)a, key, value)
    {
        if (differ_below(value, json_object_get(b, key), key, d))
            return true;
    }
    json_object_foreach((json_t *)b, key, value)
    {
        if (differ_below(json_object_get(a, key), value, key, d))
            return true;
    }
    return false;
}

static bool arrays_differ(const json_t *a, const json_t *b, struct compare_difference *d)
{
    size_t n = json_array_size(a) > json_array_size(b) ? json_array_size(a) : json_array_size(b);
    for (size_t i = 0; i < n; i++) {
        char key[32];
        snprintf(key, sizeof key, "%zu", i);
        if (differ_below(json_array_get(a, i), json_array_get(b, i), key, d))
            return true;
    }
    return false;
}

bool compare_differ(const json_t *a, const json_t *b, struct compare_difference *d)
{
    if (json_is_object(a) && json_is_object(b))
        return objects_differ(a, b, d);
    if (json_is_array(a) && json_is_array(b))
        return arrays_differ(a, b, d);
    if (json_is_number(a) && json_is_number(b)) { /* 1 and 1.0 are the same */
        if (json_number_value(a) == json_number_value(b))
            return false;
    } else if (json_equal(a, b)) {
        return false;
    }
    d->before = a;
    d->after = b;
    return true;
}

const char *compare_value(const json_t *v, char out[COMPARE_VALUE])
{
    char *text = v ? json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    snprintf(out, COMPARE_VALUE, "%s", text ? text : "absent");
    if (text && strlen(text) >= COMPARE_VALUE)
        memcpy(out + COMPARE_VALUE - 4, "...", 4);
    free(text);
    return out;
}
