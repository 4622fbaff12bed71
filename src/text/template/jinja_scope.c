#include "text/template/jinja_scope.h"

#include "text/template/jinja_builtin.h"
#include "text/template/jinja_text.h"

#include <string.h>

size_t jinja_scope_open(struct jinja_run *r)
{
    r->scope++;
    return r->n_saved;
}

void jinja_scope_close(struct jinja_run *r, size_t mark)
{
    while (r->n_saved > mark) {
        const struct jinja_saved *saved = &r->saved[--r->n_saved];
        r->bindings[saved->name->id] = saved->binding;
    }
    r->scope--;
}

static bool save(struct jinja_run *r, const struct jinja_name *name)
{
    if (r->n_saved == r->saved_cap) {
        size_t cap = r->saved_cap ? r->saved_cap * 2 : 64;
        struct jinja_saved *saved = jinja_array(r, cap, sizeof *saved);
        if (!saved)
            return false;
        if (r->n_saved > 0)
            memcpy(saved, r->saved, r->n_saved * sizeof *saved);
        r->saved = saved;
        r->saved_cap = cap;
    }
    r->saved[r->n_saved++] =
        (struct jinja_saved){.name = name, .binding = r->bindings[name->id], .by = r->scope};
    return true;
}

bool jinja_scope_bind(struct jinja_run *r, const struct jinja_name *name, struct jinja_value value)
{
    struct jinja_binding *binding = &r->bindings[name->id];
    if (binding->scope != r->scope && !save(r, name))
        return false;
    *binding = (struct jinja_binding){.value = value, .scope = r->scope};
    return true;
}

/* The model's own special tokens, which whoever renders gives by their spelling: template text. */
static bool names_token(const struct jinja_name *name)
{
    static const char *const names[] = {"bos_token", "eos_token"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (name->s.len == strlen(names[i]) && memcmp(name->s.bytes, names[i], name->s.len) == 0)
            return true;
    return false;
}

/* A name that no scope has bound: looked up once, then kept at the top level. */
static bool resolve(struct jinja_run *r, const struct jinja_name *name, struct jinja_value *out)
{
    json_t *json = r->context ? json_object_getn(r->context, name->s.bytes, name->s.len) : NULL;
    const struct jinja_builtin *global;
    if (json_is_string(json) && names_token(name))
        return jinja_text_borrow(r, json_string_value(json), json_string_length(json), true, out);
    if (json)
        return jinja_from_json(r, json, out);
    global = jinja_builtin_global(&name->s);
    *out = global ? (struct jinja_value){.type = JINJA_FUNCTION, .builtin = global}
                  : jinja_undefined(&name->s, JINJA_UNSET);
    return true;
}

bool jinja_scope_lookup(struct jinja_run *r, const struct jinja_name *name, struct jinja_value *out)
{
    struct jinja_binding *binding = &r->bindings[name->id];
    if (binding->value.type == JINJA_UNSET && !resolve(r, name, &binding->value))
        return false;
    *out = binding->value;
    return true;
}

static void jinja_scope_swap(struct jinja_run *r, struct jinja_saved *saved)
{
    struct jinja_binding *now = &r->bindings[saved->name->id], old = saved->binding;
    saved->binding = *now;
    *now = old;
}

/* Records that a call further out has hidden already are as they must be: they are passed over. */
uint32_t jinja_scope_hide(struct jinja_run *r, uint32_t scope)
{
    uint32_t hidden = r->scope + 1; /* the scope of the macro's body: one call has it at a time */
    size_t i = r->n_saved;
    for (; i > 0 && r->saved[i - 1].by > scope; i--) {
        struct jinja_saved *saved = &r->saved[i - 1];
        if (saved->hidden != 0)
            continue;
        jinja_scope_swap(r, saved);
        saved->hidden = hidden;
    }
    if (jinja_work(r, r->n_saved - i))
        return hidden;
    jinja_scope_unhide(r, hidden);
    return 0;
}

void jinja_scope_unhide(struct jinja_run *r, uint32_t hidden)
{
    size_t i = r->n_saved;
    while (i > 0 && r->saved[i - 1].hidden != 0)
        i--;
    for (; i < r->n_saved; i++) {
        if (r->saved[i].hidden != hidden)
            continue;
        r->saved[i].hidden = 0;
        jinja_scope_swap(r, &r->saved[i]);
    }
}
