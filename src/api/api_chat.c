/* Chats: POST /v1/chat/completions. */
#include "api/api_kind.h"
#include "api/openai_sse.h"
#include "base/json.h"
#include "base/limits.h"

#include <stdio.h>
#include <string.h>

static const struct api_unsupported unsupported[] = {
    {"tools", {"[]"}},
    {"tool_choice", {"\"none\"", "\"auto\""}},
    {"functions", {"[]"}},
    {"function_call", {"\"none\"", "\"auto\""}},
    {"response_format", {"{\"type\":\"text\"}"}},
    {"modalities", {"[\"text\"]", "[]"}},
    {"audio", {NULL}},
    {"prediction", {NULL}},
    {"web_search_options", {NULL}},
    {"reasoning_effort", {"\"none\""}},
    {"verbosity", {"\"medium\""}},
    {"service_tier", {"\"auto\"", "\"default\""}},
    {"store", {"false"}},
    {NULL, {NULL}},
};

static bool role_known(const char *role)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant"};
    for (size_t i = 0; role && i < sizeof roles / sizeof *roles; i++)
        if (strcmp(role, roles[i]) == 0)
            return true;
    return false;
}

/* Appends one part of a content array. */
static enum status add_part(struct buf *text, const json_t *part, size_t message, size_t at,
                            struct err *err)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    const json_t *value = json_object_get(part, "text");
    char name[64];
    snprintf(name, sizeof name, "messages[%zu].content[%zu]", message, at);
    if (!type || strcmp(type, "text") != 0)
        return err_param(err, STATUS_INVALID, name,
                         "%s: only parts of type \"text\" are implemented, found \"%.40s\"", name,
                         type ? type : "(none)");
    if (!json_is_string(value))
        return err_param(err, STATUS_INVALID, name, "%s: needs \"text\", a string", name);
    buf_append(text, json_string_value(value), json_string_length(value));
    return STATUS_OK;
}

/* A new reference to the message's content as one string. */
static enum status message_content(const json_t *message, size_t at, json_t **out, struct err *err)
{
    const json_t *content = json_object_get(message, "content");
    if (json_is_string(content)) {
        *out = json_incref((json_t *)content);
        return STATUS_OK;
    }
    if (!json_is_array(content)) {
        char found[64], name[48];
        snprintf(name, sizeof name, "messages[%zu].content", at);
        return err_param(err, STATUS_INVALID, name,
                         "%s: must be a string or an array of text parts, found %s", name,
                         json_found(content, found, sizeof found));
    }
    struct buf text = {0};
    for (size_t i = 0; i < json_array_size(content); i++) {
        enum status st = add_part(&text, json_array_get(content, i), at, i, err);
        if (st) {
            buf_fini(&text);
            return st;
        }
    }
    *out = text.failed ? NULL : json_stringn(buf_str(&text), text.len);
    buf_fini(&text);
    return *out ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "no memory for the messages");
}

static enum status add_message(struct openai_request *q, const json_t *message, size_t at,
                               struct err *err)
{
    const json_t *role = json_object_get(message, "role");
    if (!json_is_object(message) || !role_known(json_string_value(role))) {
        char name[48], found[64];
        snprintf(name, sizeof name, "messages[%zu].role", at);
        const char *text = json_string_value(role);
        return err_param(err, STATUS_INVALID, name,
                         "%s: must be system, developer, user or assistant, found %.40s", name,
                         text ? text : json_found(role, found, sizeof found));
    }
    const json_t *calls = json_object_get(message, "tool_calls");
    if (json_array_size(calls) > 0) {
        char name[48];
        snprintf(name, sizeof name, "messages[%zu].tool_calls", at);
        return err_param(err, STATUS_INVALID, name, "%s: not implemented by this server", name);
    }
    json_t *content;
    enum status st = message_content(message, at, &content, err);
    if (st)
        return st;
    /* what the API now calls developer, templates know as system */
    bool developer = strcmp(json_string_value(role), "developer") == 0;
    json_t *clean = json_pack("{s:s, s:o}", "role", developer ? "system" : json_string_value(role),
                              "content", content);
    if (!clean || json_array_append_new(q->messages, clean))
        return err_set(err, STATUS_NO_MEMORY, "no memory for the messages");
    return STATUS_OK;
}

static enum status api_chat_read_prompts(struct openai_request *q, struct err *err)
{
    enum status st = prompts_make(&q->prompts, 1, err);
    if (st)
        return st;
    const json_t *messages = json_object_get(q->json, "messages");
    size_t n = json_array_size(messages);
    char found[64];
    if (!json_is_array(messages) || n == 0 || n > LIMIT_MESSAGES)
        return err_param(err, STATUS_INVALID, "messages",
                         "messages: must be an array of 1 to %d messages, found %s", LIMIT_MESSAGES,
                         json_found(messages, found, sizeof found));
    q->messages = json_array();
    if (!q->messages)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the messages");
    for (size_t i = 0; i < n; i++) {
        st = add_message(q, json_array_get(messages, i), i, err);
        if (st)
            return st;
    }
    return STATUS_OK;
}

static enum status api_chat_read_logprobs(struct openai_request *q, struct err *err)
{
    int64_t top = 0;
    enum status st = json_field_bool(q->json, "logprobs", &q->params.logprobs, err);
    if (st == STATUS_OK)
        st = json_field_int(q->json, "top_logprobs", 0, LIMIT_TOP_LOGPROBS, &top, err);
    q->params.top_logprobs = (uint32_t)top;
    if (st == STATUS_OK && top > 0 && !q->params.logprobs)
        return err_param(err, STATUS_INVALID, "top_logprobs",
                         "top_logprobs: only allowed when logprobs is true");
    return st;
}

/* Log probabilities: {"content": [{"token", "logprob", "bytes", "top_logprobs": [...]}],
 * "refusal": null} */

static void put_chat_token(struct buf *out, const struct tokenizer *t,
                           const struct token_logprob *l)
{
    size_t len;
    const char *piece = tokenizer_piece(t, l->token, &len);
    buf_puts(out, "{\"token\":");
    openai_logprobs_put_token(out, piece, len, "");
    buf_puts(out, ",\"logprob\":");
    openai_logprobs_put_number(out, l->logprob);
    buf_puts(out, ",\"bytes\":[");
    for (size_t i = 0; i < len; i++)
        buf_printf(out, i > 0 ? ",%u" : "%u", (unsigned char)piece[i]);
    buf_putc(out, ']');
}

static void api_chat_put_logprobs(struct buf *out, const struct tokenizer *t,
                                  const struct openai_logprobs_entries *e,
                                  struct openai_logprobs_cursor *cursor)
{
    const struct request_news *all = e->all;
    (void)cursor;
    buf_puts(out, "{\"content\":[");
    for (uint32_t i = e->from; i < e->to; i++) {
        const struct token_logprob *row = all->logprobs + (size_t)i * all->logprobs_width;
        buf_puts(out, i > e->from ? "," : "");
        put_chat_token(out, t, row);
        buf_puts(out, ",\"top_logprobs\":[");
        for (uint32_t k = 1; k < all->logprobs_width; k++) {
            buf_puts(out, k > 1 ? "," : "");
            put_chat_token(out, t, &row[k]);
            buf_putc(out, '}');
        }
        buf_puts(out, "]}");
    }
    buf_puts(out, "],\"refusal\":null}");
}

const struct api_kind api_chat = {
    .name = "chat",
    .id_prefix = "chatcmpl",
    .object = "chat.completion",
    .chunk_object = "chat.completion.chunk",
    .form = &openai_sse_format,
    .chat_template = true,
    .prompts = "messages",
    .alternatives = "top_logprobs",
    .unsupported = unsupported,
    .read_prompts = api_chat_read_prompts,
    .read_logprobs = api_chat_read_logprobs,
    .whole = {"\"message\":{\"role\":\"assistant\",\"content\":", ",\"refusal\":null}"},
    .first_chunk = {"\"delta\":{\"role\":\"assistant\",\"content\":", "}"},
    .chunk = {"\"delta\":{\"content\":", "}"},
    .last_chunk = "\"delta\":{}",
    .put_logprobs = api_chat_put_logprobs,
};
