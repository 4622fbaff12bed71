#include "api/warm_prompts.h"

#include "api/api_kind.h"
#include "api/openai_request.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const struct loader *loader;
    uint32_t n_ctx;
    bool keyed;
    struct err *err;
};

static enum status warm_prompts_add(struct warm_prompts *w, const struct reader *r,
                                    struct tokens *ids, const struct prefix_salt *salt)
{
    bool salted = (salt->word[0] | salt->word[1]) != 0;
    if (salted && r->keyed)
        return err_param(r->err, STATUS_INVALID, "cache_salt",
                         "cache_salt: with API keys each key has salts of its own, which no line "
                         "here can name: leave it out and all keys share the prompt, or start with "
                         "--shared-prefix-cache");
    if (ids->count >= r->n_ctx)
        return err_set(r->err, STATUS_INVALID,
                       "the prompt has %zu tokens, but the context holds %u", ids->count, r->n_ctx);
    if (w->n == LIMIT_WARM_PROMPTS)
        return err_set(r->err, STATUS_TOO_LARGE, "more than %d prompts", LIMIT_WARM_PROMPTS);
    struct request_params *all = mem_resize(w->all, (w->n + 1) * sizeof *all);
    if (!all)
        return err_set(r->err, STATUS_NO_MEMORY, "no memory for the prompts");
    w->all = all;
    /* Public ones first, so that the others' chains branch off theirs. */
    uint32_t at = salted ? w->n : w->n_public++;
    memmove(&all[at + 1], &all[at], (w->n++ - at) * sizeof *all);
    all[at] = (struct request_params){
        .prompt = ids->ids,
        .n_prompt = (uint32_t)ids->count,
        .salt = salted ? *salt : prefix_salt_public,
        .max_tokens = 1,
        .sampling = sampling_default,
    };
    *ids = (struct tokens){0};
    return STATUS_OK;
}

static enum status warm_prompts_read_line(struct warm_prompts *w, const struct reader *r,
                                          const char *line, size_t len)
{
    struct openai_request q = {0};
    json_t *json;
    if (len > LIMIT_BODY_BYTES)
        return err_set(r->err, STATUS_TOO_LARGE, "longer than %u bytes", LIMIT_BODY_BYTES);
    enum status st = json_parse(line, len, &json, r->err);
    if (st)
        return st;
    st = openai_request_read(&q, api_kind_of(json), json, r->err);
    if (st == STATUS_OK)
        st = openai_request_tokenize(&q, r->loader, 0, r->err);
    for (uint32_t i = 0; i < q.prompts.n && st == STATUS_OK; i++)
        st = warm_prompts_add(w, r, &q.prompts.all[i].ids, &q.params.salt);
    openai_request_fini(&q);
    return st;
}

enum status warm_prompts_read(struct warm_prompts *w, const char *path, const struct loader *loader,
                              uint32_t n_ctx, bool keyed, struct err *err)
{
    struct reader r = {.loader = loader, .n_ctx = n_ctx, .keyed = keyed, .err = err};
    FILE *f = fopen(path, "re");
    if (!f)
        return err_set(err, STATUS_IO, "cannot read the prompts in %s: %s", path, strerror(errno));
    char *line = NULL;
    uint32_t number = 0;
    size_t cap = 0;
    ssize_t len;
    enum status st = STATUS_OK;
    while (st == STATUS_OK && (len = getline(&line, &cap, f)) >= 0) {
        number++;
        if (strspn(line, " \t\r\n") < (size_t)len &&
            (st = warm_prompts_read_line(w, &r, line, (size_t)len)))
            err_context(err, "%s:%u", path, number);
    }
    if (st == STATUS_OK && ferror(f))
        st = err_set(err, STATUS_IO, "cannot read %s: %s", path, strerror(errno));
    free(line); /* getline's */
    fclose(f);
    return st;
}

void warm_prompts_fini(struct warm_prompts *w)
{
    for (uint32_t i = 0; i < w->n; i++)
        request_params_fini(&w->all[i]);
    mem_free(w->all);
    *w = (struct warm_prompts){0};
}
