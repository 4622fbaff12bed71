#include "text/template/template.h"

#include "base/limits.h"
#include "base/mem.h"
#include "text/template/jinja_eval.h"
#include "text/template/jinja_parser.h"

struct template
{
    struct jinja_program program;
};
enum status template_compile(struct template **out, const char *source, size_t len, struct err *err)
{
    struct template *t;
    enum status st;
    *out = NULL;
    if (len > LIMIT_TEMPLATE_BYTES)
        return err_set(err, STATUS_TOO_LARGE, "expected a template of at most %u bytes, found %zu",
                       LIMIT_TEMPLATE_BYTES, len);
    t = mem_zalloc(sizeof *t);
    if (!t)
        return err_set(err, STATUS_NO_MEMORY, "no memory to compile the template");
    arena_init(&t->program.arena, LIMIT_TEMPLATE_PROGRAM);
    st = jinja_parser_run(&t->program, source, len, err);
    if (st != STATUS_OK) {
        template_free(t);
        return st;
    }
    *out = t;
    return STATUS_OK;
}

void template_free(struct template *t)
{
    if (!t)
        return;
    arena_fini(&t->program.arena);
    mem_free(t);
}

/* The caller's buffer, bounded for this rendering; its own limit comes back afterwards. */
static size_t bound_output(struct buf *b)
{
    size_t limit = b->limit, most = b->len + LIMIT_TEMPLATE_OUTPUT;
    if (limit == 0 || limit > most)
        b->limit = most;
    return limit;
}

enum status template_render(const struct template *t, json_t *context, struct buf *text,
                            struct buf *trusted, struct err *err)
{
    struct jinja_run r = {.program = &t->program,
                          .context = context,
                          .err = err,
                          .steps = LIMIT_TEMPLATE_STEPS,
                          .out = {.text = text, .origin = trusted}};
    size_t limit = bound_output(text);
    arena_init(&r.arena, LIMIT_TEMPLATE_MEMORY);
    r.bindings = jinja_array(&r, t->program.n_names, sizeof *r.bindings);
    if (r.bindings)
        jinja_exec(&r, t->program.body);
    arena_fini(&r.arena);
    text->limit = limit;
    return r.status;
}
