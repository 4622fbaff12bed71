/* Values of the template language.
 *
 * A value is 16 bytes and is copied freely; what it points to lives in an arena: the compiled
 * template's (constants, immutable, shared by threads) or the rendering's. Strings are valid UTF-8,
 * may contain NUL, and never change. Lists and dicts of a rendering may be shared by many values.
 *
 * Every byte of a string knows its origin: 1 where the template's own source wrote it, 0 where it
 * came from the context. Most strings are of one origin and carry no array:
 *
 *     bytes  ─> < | i m _ s t a r t | > u s e r
 *     origin ─> 1 1 1 1 1 1 1 1 1 1 1 1 0 0 0 0     NULL: every byte is `trusted`
 */
#ifndef FIRSTLIGHT_TEXT_TEMPLATE_JINJA_VALUE_H
#define FIRSTLIGHT_TEXT_TEMPLATE_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum jinja_type {
    JINJA_UNSET, /* no value at all: an argument left out, a name not looked up yet */
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_DICT,
    JINJA_NAMESPACE,
    JINJA_LOOP,
    JINJA_MACRO,
    JINJA_FUNCTION,
    JINJA_METHOD,
    JINJA_TYPES,
};

struct jinja_string {
    const char *bytes;     /* (len) */
    const uint8_t *origin; /* (len) or NULL */
    size_t len;
    bool trusted; /* the origin of every byte when `origin` is NULL */
    bool markup;  /* see jinja_markup.h */
};

struct jinja_value {
    uint8_t type;
    uint8_t owner; /* JINJA_UNDEFINED: the type that lacks attribute `s`; JINJA_UNSET: variable */
    union {
        bool b;
        int64_t i;
        double f;
        const struct jinja_string *s;        /* STRING; UNDEFINED: the missing name, may be NULL */
        struct jinja_list *list;             /* LIST, TUPLE */
        struct jinja_dict *dict;             /* DICT, NAMESPACE */
        const struct jinja_loop *loop;       /* LOOP */
        const struct jinja_macro *macro;     /* MACRO */
        const struct jinja_builtin *builtin; /* FUNCTION */
        const struct jinja_method *method;   /* METHOD */
    };
};

struct jinja_list {
    struct jinja_value *items; /* (count) */
    size_t count;
    size_t cap;
};

struct jinja_pair {
    struct jinja_value key;
    struct jinja_value value;
    uint32_t hash; /* of a string key; 0 for others */
};

/* In order of insertion, searched from the front: the dicts of a chat have a handful of keys. */
struct jinja_dict {
    struct jinja_pair *pairs; /* (count) */
    size_t count;
    size_t cap;
};

struct jinja_method {
    const struct jinja_builtin *builtin;
    struct jinja_value self;
};

/* `loop` inside {% for %}. The list stays as it was when the loop began. */
struct jinja_loop {
    const struct jinja_list *list;
    size_t index;               /* from 0 */
    size_t depth;               /* loops around this one */
    struct jinja_value changed; /* what loop.changed() saw last */
};

static inline struct jinja_value jinja_none(void)
{
    return (struct jinja_value){.type = JINJA_NONE};
}

static inline struct jinja_value jinja_bool(bool b)
{
    return (struct jinja_value){.type = JINJA_BOOL, .b = b};
}

static inline struct jinja_value jinja_int(int64_t i)
{
    return (struct jinja_value){.type = JINJA_INT, .i = i};
}

static inline struct jinja_value jinja_float(double f)
{
    return (struct jinja_value){.type = JINJA_FLOAT, .f = f};
}

static inline struct jinja_value jinja_undefined(const struct jinja_string *name,
                                                 enum jinja_type owner)
{
    return (struct jinja_value){.type = JINJA_UNDEFINED, .owner = (uint8_t)owner, .s = name};
}

static inline bool jinja_is_number(struct jinja_value v)
{
    return v.type == JINJA_INT || v.type == JINJA_FLOAT || v.type == JINJA_BOOL;
}

static inline bool jinja_is_list(struct jinja_value v)
{
    return v.type == JINJA_LIST || v.type == JINJA_TUPLE;
}

static inline bool jinja_is_missing(struct jinja_value v) /* an argument left out or None */
{
    return v.type == JINJA_UNSET || v.type == JINJA_NONE;
}

/* Python's name of the type: "str", "NoneType", "dict". */
const char *jinja_type_name(struct jinja_value v);

/* Truth as Python has it. */
bool jinja_truth(struct jinja_value v);

/* The number as a double; for JINJA_BOOL, JINJA_INT, JINJA_FLOAT. */
double jinja_number(struct jinja_value v);

/* True for BOOL and INT, with their value in *i. */
bool jinja_integer(struct jinja_value v, int64_t *i);

/* Compares bytes only; the origin does not make strings differ. */
bool jinja_string_equal(const struct jinja_string *a, const struct jinja_string *b);
bool jinja_string_is(const struct jinja_string *s, const char *text);

uint32_t jinja_hash(const char *bytes, size_t len);

#endif
