#include "text/template/jinja_run.h"

#include "base/limits.h"
#include "text/template/jinja_utf8.h"

#include <stdarg.h>
#include <stdio.h>

#define WORK_UNITS_PER_STEP 64

bool jinja_fail(struct jinja_run *r, enum status code, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    r->status = err_set(r->err, code, "line %d: %s", r->line, text);
    return false;
}

bool jinja_fail_undefined(struct jinja_run *r, struct jinja_value v)
{
    int len = !v.s ? 0 : jinja_utf8_cut(v.s->bytes, v.s->len, 80);
    struct jinja_value owner = {.type = v.owner};
    if (!v.s)
        return jinja_fail(r, STATUS_INVALID, "expected a value, found one that is undefined");
    if (v.owner == JINJA_UNSET)
        return jinja_fail(r, STATUS_INVALID, "'%.*s' is undefined", len, v.s->bytes);
    return jinja_fail(r, STATUS_INVALID, "'%s' has no attribute '%.*s'", jinja_type_name(owner),
                      len, v.s->bytes);
}

bool jinja_step(struct jinja_run *r)
{
    if (r->steps-- > 0)
        return true;
    r->steps = 0;
    return jinja_fail(r, STATUS_TOO_LARGE, "expected at most %u steps of evaluation, found more",
                      LIMIT_TEMPLATE_STEPS);
}

bool jinja_work(struct jinja_run *r, size_t units)
{
    size_t steps = units / WORK_UNITS_PER_STEP;
    if (steps > r->steps) {
        r->steps = 0;
        return jinja_step(r);
    }
    r->steps -= (uint32_t)steps;
    return true;
}

bool jinja_enter(struct jinja_run *r)
{
    if (r->depth >= LIMIT_TEMPLATE_FRAMES)
        return jinja_fail(r, STATUS_TOO_LARGE, "expected at most %d nested evaluations, found more",
                          LIMIT_TEMPLATE_FRAMES);
    r->depth++;
    return jinja_step(r);
}

static bool jinja_run_no_memory(struct jinja_run *r)
{
    if (r->arena.exhausted)
        return jinja_fail(r, STATUS_TOO_LARGE, "expected at most %u bytes of values, found more",
                          LIMIT_TEMPLATE_MEMORY);
    return jinja_fail(r, STATUS_NO_MEMORY, "no memory to render the template");
}

void *jinja_alloc(struct jinja_run *r, size_t size)
{
    void *p = arena_alloc(&r->arena, size);
    if (!p)
        jinja_run_no_memory(r);
    return p;
}

void *jinja_array(struct jinja_run *r, size_t count, size_t size)
{
    void *p = arena_array(&r->arena, count, size);
    if (!p)
        jinja_run_no_memory(r);
    return p;
}
