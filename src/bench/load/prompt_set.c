#include "bench/load/prompt_set.h"

#include "base/buf.h"
#include "base/limits.h"
#include "base/mem.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* prompts/standard.json as it stands, which the Makefile makes this file depend on. The path is
 * relative to where make runs. */
__asm__(".section .rodata\n"
        "prompts_json_begin: .incbin \"prompts/standard.json\"\n"
        "prompts_json_end: .byte 0\n"
        ".previous\n");
extern const char prompts_json_begin[] __attribute__((visibility("hidden")));
extern const char prompts_json_end[] __attribute__((visibility("hidden")));

static const char *const type_names[] = {
    [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
    [JSON_INTEGER] = "a number", [JSON_REAL] = "a number",  [JSON_TRUE] = "true",
    [JSON_FALSE] = "false",      [JSON_NULL] = "null",
};

/* A field of a file, for errors: "FILE: token_speed[2].text: expected ..., found ...". */
struct place {
    const char *from;
    uint32_t index;
    const char *field;
};

static enum status prompt_set_wrong(const struct place *p, const char *expected,
                                    const json_t *found, struct err *err)
{
    return err_param(err, STATUS_INVALID, p->field,
                     "%s: token_speed[%u]%s%s: expected %s, found %s", p->from, p->index,
                     *p->field ? "." : "", p->field, expected,
                     found ? type_names[json_typeof(found)] : "none");
}

static bool is_id(const char *s)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    size_t len = strlen(s);
    return len > 0 && len <= LIMIT_PROMPT_ID_BYTES && strspn(s, letters) == len;
}

/* A copy of the member's text in *out. */
static enum status prompt_set_take_text(const json_t *item, const struct place *p,
                                        const char *expected, char **out, struct err *err)
{
    const json_t *value = json_object_get(item, p->field);
    if (!json_is_string(value))
        return prompt_set_wrong(p, expected, value, err);
    if (json_string_length(value) == 0)
        return err_param(err, STATUS_INVALID, p->field, "%s: token_speed[%u].%s is empty", p->from,
                         p->index, p->field);
    *out = mem_strdup(json_string_value(value));
    return *out ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "no memory for the prompts");
}

static enum status check_id(const struct prompt_set *all, const struct place *p, struct err *err)
{
    const char *id = all->v[p->index].id;
    if (!is_id(id))
        return err_param(
            err, STATUS_INVALID, "id",
            "%s: token_speed[%u].id: expected 1 to %d letters, digits and \"_\", found "
            "\"%.80s\"",
            p->from, p->index, LIMIT_PROMPT_ID_BYTES, id);
    for (uint32_t i = 0; i < p->index; i++)
        if (strcmp(all->v[i].id, id) == 0)
            return err_param(err, STATUS_INVALID, "id",
                             "%s: token_speed[%u].id: \"%s\" is also the id of token_speed[%u]",
                             p->from, p->index, id, i);
    return STATUS_OK;
}

static enum status take_prompt(struct prompt_set *out, const json_t *item, struct place *p,
                               struct err *err)
{
    struct prompt *prompt = &out->v[p->index];
    p->field = "";
    if (!json_is_object(item))
        return prompt_set_wrong(p, "an object", item, err);
    p->field = "id";
    enum status st = prompt_set_take_text(item, p, "a string", &prompt->id, err);
    if (!st)
        st = check_id(out, p, err);
    p->field = "text";
    if (!st)
        st = prompt_set_take_text(item, p, "the prompt as a string", &prompt->text, err);
    p->field = "kind";
    if (!st && json_object_get(item, "kind"))
        st = prompt_set_take_text(item, p, "a string", &prompt->kind, err);
    return st;
}

static enum status prompt_set_take_all(struct prompt_set *out, const char *from, const json_t *root,
                                       struct err *err)
{
    const json_t *list = json_object_get(root, "token_speed");
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n == 0 || n > LIMIT_PROMPTS)
        return err_param(err, STATUS_INVALID, "token_speed",
                         "%s: token_speed: expected an array of 1 to %d prompts, found %s%s", from,
                         LIMIT_PROMPTS, list ? type_names[json_typeof(list)] : "none",
                         !json_is_array(list) ? ""
                         : n == 0             ? " of none"
                                              : " of more");
    out->v = mem_array(n, sizeof *out->v);
    if (!out->v)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the prompts");
    enum status st = STATUS_OK;
    for (struct place p = {.from = from}; !st && p.index < n; p.index++) {
        out->n++;
        st = take_prompt(out, json_array_get(list, p.index), &p, err);
    }
    return st;
}

enum status prompt_set_parse(struct prompt_set *out, const char *from, const char *json, size_t len,
                             struct err *err)
{
    *out = (struct prompt_set){0};
    json_error_t bad;
    json_t *root = json_loadb(json, len, JSON_REJECT_DUPLICATES, &bad);
    if (!root)
        return err_set(err, STATUS_INVALID, "%s: no JSON: %s, line %d", from, bad.text, bad.line);
    enum status st = prompt_set_take_all(out, from, root, err);
    json_decref(root);
    return st;
}

enum status prompt_set_standard(struct prompt_set *out, struct err *err)
{
    return prompt_set_parse(out, "the standard prompts", prompts_json_begin,
                            (size_t)(prompts_json_end - prompts_json_begin), err);
}

enum status prompt_set_read(struct prompt_set *out, const char *path, struct err *err)
{
    *out = (struct prompt_set){0};
    FILE *f = fopen(path, "rb");
    if (!f)
        return err_set(err, STATUS_IO, "cannot open %s: %s", path, strerror(errno));
    struct buf text = {.limit = LIMIT_BODY_BYTES};
    enum status st;
    if (buf_read(&text, f))
        st = prompt_set_parse(out, path, buf_str(&text), text.len, err);
    else if (text.failed)
        st = err_set(err, STATUS_TOO_LARGE, "%s has more than %u bytes", path, LIMIT_BODY_BYTES);
    else
        st = err_set(err, STATUS_IO, "cannot read %s: %s", path, strerror(errno));
    buf_fini(&text);
    fclose(f);
    return st;
}

void prompt_set_fini(struct prompt_set *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        mem_free(p->v[i].id);
        mem_free(p->v[i].kind);
        mem_free(p->v[i].text);
    }
    mem_free(p->v);
    *p = (struct prompt_set){0};
}
