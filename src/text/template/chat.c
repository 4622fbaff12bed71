#include "text/template/chat.h"

#include "base/buf.h"
#include "base/limits.h"

/* The spelling of a special token as the template's variable; absent when the model has none, also
 * if `extra` had one: the template's tokens are trusted. */
static int set_token(json_t *context, const char *name, const struct tokenizer *tokenizer,
                     int32_t id)
{
    if (id < 0) {
        json_object_del(context, name);
        return 0;
    }
    size_t len;
    const char *piece = tokenizer_piece(tokenizer, id, &len);
    return json_object_set_new(context, name, json_stringn(piece, len));
}

/* A new reference; NULL: memory. The tokens and flags win over members of `extra`. */
static json_t *make_context(const struct tokenizer *tokenizer, json_t *messages, json_t *extra,
                            bool add_generation_prompt)
{
    json_t *context = json_object();
    if (!context)
        return NULL;
    int bad = extra ? json_object_update(context, extra) : 0;
    bad |= json_object_set(context, "messages", messages);
    bad |=
        json_object_set_new(context, "add_generation_prompt", json_boolean(add_generation_prompt));
    bad |= set_token(context, "bos_token", tokenizer, tokenizer_bos(tokenizer));
    bad |= set_token(context, "eos_token", tokenizer, tokenizer_eos(tokenizer));
    if (bad) {
        json_decref(context);
        return NULL;
    }
    return context;
}

enum status chat_tokens(const struct template *t, const struct tokenizer *tokenizer,
                        json_t *messages, json_t *extra, bool add_generation_prompt,
                        struct tokens *out, struct err *err)
{
    if (!t)
        return err_param(err, STATUS_INVALID, "messages",
                         "the model has no chat template; use raw completions (/v1/completions, "
                         "or `run --raw`)");
    json_t *context = make_context(tokenizer, messages, extra, add_generation_prompt);
    if (!context)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the chat template's variables");
    struct buf text = {.limit = LIMIT_TEMPLATE_OUTPUT};
    struct buf trusted = {.limit = LIMIT_TEMPLATE_OUTPUT};
    enum status status = template_render(t, context, &text, &trusted, err);
    if (status == STATUS_OK)
        status = tokenizer_encode(tokenizer, buf_str(&text), text.len,
                                  (const uint8_t *)buf_str(&trusted), TOKENIZE_SPECIAL, out, err);
    json_decref(context);
    buf_fini(&text);
    buf_fini(&trusted);
    return status;
}
