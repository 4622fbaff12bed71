#include "text/template/jinja_value.h"

#include <string.h>

const char *jinja_type_name(struct jinja_value v)
{
    static const char *const names[JINJA_TYPES] = {
        [JINJA_UNSET] = "nothing",
        [JINJA_UNDEFINED] = "Undefined",
        [JINJA_NONE] = "None",
        [JINJA_BOOL] = "bool",
        [JINJA_INT] = "int",
        [JINJA_FLOAT] = "float",
        [JINJA_STRING] = "str",
        [JINJA_LIST] = "list",
        [JINJA_TUPLE] = "tuple",
        [JINJA_DICT] = "dict",
        [JINJA_NAMESPACE] = "Namespace",
        [JINJA_LOOP] = "LoopContext",
        [JINJA_MACRO] = "Macro",
        [JINJA_FUNCTION] = "function",
        [JINJA_METHOD] = "method",
    };
    return v.type < JINJA_TYPES ? names[v.type] : "?";
}

bool jinja_truth(struct jinja_value v)
{
    switch (v.type) {
    case JINJA_UNSET:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOL:
        return v.b;
    case JINJA_INT:
        return v.i != 0;
    case JINJA_FLOAT:
        return v.f != 0;
    case JINJA_STRING:
        return v.s->len > 0;
    case JINJA_LIST:
    case JINJA_TUPLE:
        return v.list->count > 0;
    case JINJA_DICT:
        return v.dict->count > 0;
    default:
        return true;
    }
}

double jinja_number(struct jinja_value v)
{
    if (v.type == JINJA_FLOAT)
        return v.f;
    return v.type == JINJA_INT ? (double)v.i : (double)v.b;
}

bool jinja_integer(struct jinja_value v, int64_t *i)
{
    if (v.type != JINJA_INT && v.type != JINJA_BOOL)
        return false;
    *i = v.type == JINJA_INT ? v.i : v.b;
    return true;
}

bool jinja_string_equal(const struct jinja_string *a, const struct jinja_string *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->bytes, b->bytes, a->len) == 0);
}

bool jinja_string_is(const struct jinja_string *s, const char *text)
{
    return strlen(text) == s->len && memcmp(s->bytes, text, s->len) == 0;
}

/* FNV-1a; 0 means "no hash" in a pair and is never returned. */
uint32_t jinja_hash(const char *bytes, size_t len)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (uint8_t)bytes[i]) * 16777619u;
    return hash ? hash : 1;
}
