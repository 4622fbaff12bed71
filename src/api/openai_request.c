#include "api/openai_request.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/json.h"
#include "base/json_memory.h"
#include "text/template/chat.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parameters that the API knows and this server does not implement */

enum kinds { CHAT = 1, COMPLETION = 2, BOTH = 3 };

/* A parameter and the values that ask for nothing beyond what is done anyway (JSON texts; null
 * always is one). */
struct unsupported {
    const char *name;
    enum kinds kinds;
    const char *harmless[3];
};

static const struct unsupported unsupported[] = {
    {"suffix", COMPLETION, {"\"\""}},
    {"tools", CHAT, {"[]"}},
    {"tool_choice", CHAT, {"\"none\"", "\"auto\""}},
    {"functions", CHAT, {"[]"}},
    {"function_call", CHAT, {"\"none\"", "\"auto\""}},
    {"response_format", CHAT, {"{\"type\":\"text\"}"}},
    {"modalities", CHAT, {"[\"text\"]", "[]"}},
    {"audio", CHAT, {NULL}},
    {"prediction", CHAT, {NULL}},
    {"web_search_options", CHAT, {NULL}},
    {"reasoning_effort", CHAT, {"\"none\""}},
    {"verbosity", CHAT, {"\"medium\""}},
    {"service_tier", BOTH, {"\"auto\"", "\"default\""}},
    {"store", CHAT, {"false"}},
};

static bool is_harmless(const struct unsupported *u, const json_t *v, bool *no_memory)
{
    *no_memory = false;
    for (size_t i = 0; i < sizeof u->harmless / sizeof *u->harmless && u->harmless[i]; i++) {
        const char *text = u->harmless[i];
        json_error_t fault;
        json_t *ok = json_memory_read(text, strlen(text), JSON_DECODE_ANY, &fault, no_memory);
        bool same = ok && json_equal(v, ok);
        json_decref(ok);
        if (same || *no_memory)
            return same;
    }
    return false;
}

static enum status check_unsupported(const struct openai_request *q, struct err *err)
{
    enum kinds kind = q->kind == OPENAI_CHAT ? CHAT : COMPLETION;
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++) {
        const struct unsupported *u = &unsupported[i];
        const json_t *v = u->kinds & kind ? json_object_get(q->json, u->name) : NULL;
        bool no_memory;
        if (!v || json_is_null(v) || is_harmless(u, v, &no_memory))
            continue;
        if (no_memory)
            return err_set(err, STATUS_NO_MEMORY, "no memory for the request");
        char found[64];
        return err_param(err, STATUS_INVALID, u->name,
                         "%s: not implemented by this server (leave it out%s%s; found %s)", u->name,
                         u->harmless[0] ? ", or give " : "", u->harmless[0] ? u->harmless[0] : "",
                         json_found(v, found, sizeof found));
    }
    return STATUS_OK;
}

/* Messages */

static bool role_known(const char *role)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant"};
    for (size_t i = 0; role && i < sizeof roles / sizeof *roles; i++)
        if (strcmp(role, roles[i]) == 0)
            return true;
    return false;
}

/* Appends one part of a content array. */
static enum status openai_request_add_part(struct buf *text, const json_t *part, size_t message,
                                           size_t at, struct err *err)
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
        enum status st = openai_request_add_part(&text, json_array_get(content, i), at, i, err);
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

static enum status read_messages(struct openai_request *q, struct err *err)
{
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
        enum status st = add_message(q, json_array_get(messages, i), i, err);
        if (st)
            return st;
    }
    return STATUS_OK;
}

/* Sampling and the end of the answer */

static enum status read_param(struct openai_request *q, enum sampling_param p, struct err *err)
{
    const struct sampling_row *row = &sampling_rows[p];
    struct sampling *s = &q->params.sampling;
    double usual = sampling_get(s, p);
    float real = (float)usual;
    int64_t whole = (int64_t)usual;
    enum status st = row->whole ? json_field_int(q->json, row->name, (int64_t)row->lowest,
                                                 (int64_t)row->highest, &whole, err)
                                : json_field_real(q->json, row->name, row->above, row->lowest,
                                                  row->highest, &real, err);
    sampling_set(s, p, row->whole ? (double)whole : real);
    return st;
}

static enum status read_sampling(struct openai_request *q, struct err *err)
{
    struct sampling *s = &q->params.sampling;
    int64_t seed = 0;
    enum status st = STATUS_OK;
    for (int p = 0; p < SAMPLING_PARAMS && st == STATUS_OK; p++)
        st = read_param(q, p, err);
    if (st == STATUS_OK)
        st = json_field_int(q->json, "seed", INT64_MIN, INT64_MAX, &seed, err);
    const json_t *given = json_object_get(q->json, "seed");
    s->has_seed = given && !json_is_null(given);
    s->seed = (uint64_t)seed;
    return st;
}

static enum status read_bias_entry(struct logit_bias *b, const char *key, const json_t *value,
                                   struct err *err)
{
    char *end;
    errno = 0;
    long id = strtol(key, &end, 10);
    if (*key < '0' || *key > '9' || *end != '\0' || errno || id > INT32_MAX)
        return err_param(err, STATUS_INVALID, "logit_bias",
                         "logit_bias: its names must be token ids, found \"%.40s\"", key);
    char name[40];
    snprintf(name, sizeof name, "logit_bias[%ld]", id);
    double bias;
    enum status st =
        json_number(value, name, false, -SAMPLING_BIAS_MOST, SAMPLING_BIAS_MOST, &bias, err);
    if (st == STATUS_OK)
        *b = (struct logit_bias){.token = (int32_t)id, .bias = (float)bias};
    return st;
}

static enum status read_bias(struct openai_request *q, struct err *err)
{
    struct sampling *s = &q->params.sampling;
    json_t *bias = json_object_get(q->json, "logit_bias");
    size_t n = json_object_size(bias);
    char found[64];
    if (!bias || json_is_null(bias))
        return STATUS_OK;
    if (!json_is_object(bias) || n > LIMIT_LOGIT_BIAS)
        return err_param(err, STATUS_INVALID, "logit_bias",
                         "logit_bias: must be an object of at most %d token ids, found %s",
                         LIMIT_LOGIT_BIAS, json_found(bias, found, sizeof found));
    if (n == 0)
        return STATUS_OK;
    s->bias = mem_array(n, sizeof *s->bias);
    if (!s->bias)
        return err_set(err, STATUS_NO_MEMORY, "no memory for logit_bias");
    const char *key;
    json_t *value;
    json_object_foreach(bias, key, value)
    {
        enum status st = read_bias_entry(&s->bias[s->n_bias], key, value, err);
        if (st)
            return st;
        s->n_bias++;
    }
    return STATUS_OK;
}

static enum status add_stop(struct request_params *p, const json_t *v, struct err *err)
{
    size_t len = json_string_length(v);
    char found[64];
    if (json_is_string(v))
        snprintf(found, sizeof found, "one of %zu", len);
    else
        json_found(v, found, sizeof found);
    if (!json_is_string(v) || len == 0 || len > LIMIT_STOP_BYTES)
        return err_param(err, STATUS_INVALID, "stop",
                         "stop: each must be a string of 1 to %d bytes, found %s", LIMIT_STOP_BYTES,
                         found);
    p->stop[p->n_stop] = mem_strndup(json_string_value(v), len);
    if (!p->stop[p->n_stop])
        return err_set(err, STATUS_NO_MEMORY, "no memory for stop");
    p->n_stop++;
    return STATUS_OK;
}

static enum status read_stop(struct openai_request *q, struct err *err)
{
    const json_t *stop = json_object_get(q->json, "stop");
    char found[64];
    if (!stop || json_is_null(stop))
        return STATUS_OK;
    if (json_is_string(stop))
        return add_stop(&q->params, stop, err);
    if (!json_is_array(stop) || json_array_size(stop) > LIMIT_STOP_STRINGS)
        return err_param(err, STATUS_INVALID, "stop",
                         "stop: must be a string or an array of at most %d, found %s",
                         LIMIT_STOP_STRINGS, json_found(stop, found, sizeof found));
    for (size_t i = 0; i < json_array_size(stop); i++) {
        enum status st = add_stop(&q->params, json_array_get(stop, i), err);
        if (st)
            return st;
    }
    return STATUS_OK;
}

/* The newer name wins. */
static enum status read_max_tokens(struct openai_request *q, struct err *err)
{
    int64_t n = LIMIT_DEFAULT_MAX_TOKENS, min = 0;
    enum status st = json_field_int(q->json, "max_tokens", 1, INT32_MAX, &n, err);
    if (st == STATUS_OK)
        st = json_field_int(q->json, "max_completion_tokens", 1, INT32_MAX, &n, err);
    if (st == STATUS_OK)
        st = json_field_int(q->json, "min_tokens", 0, INT32_MAX, &min, err);
    q->params.max_tokens = (uint32_t)n;
    q->params.min_tokens = (uint32_t)min;
    if (st == STATUS_OK && min > n)
        return err_param(err, STATUS_INVALID, "min_tokens",
                         "min_tokens: must be at most max_tokens, which is %d, found %d", (int)n,
                         (int)min);
    return st;
}

/* Choices: how many, and what is told of their tokens */

static enum status read_n(struct openai_request *q, struct err *err)
{
    int64_t n = 1, best_of;
    enum status st = json_field_int(q->json, "n", 1, LIMIT_CHOICES, &n, err);
    best_of = n;
    if (st == STATUS_OK)
        st = json_field_int(q->json, "best_of", 1, LIMIT_CHOICES, &best_of, err);
    if (st)
        return st;
    q->n = (uint32_t)n;
    if (best_of != n)
        return err_param(err, STATUS_INVALID, "best_of",
                         "best_of: choosing among answers is not implemented by this server: leave "
                         "it out, or give n, which is %d; found %d",
                         (int)n, (int)best_of);
    if (n * q->prompts.n > LIMIT_CHOICES)
        return err_param(err, STATUS_INVALID, "n",
                         "n: %d choices for each of %u prompts are %d, at most %d in one request",
                         (int)n, q->prompts.n, (int)n * (int)q->prompts.n, LIMIT_CHOICES);
    return STATUS_OK;
}

static enum status read_chat_logprobs(struct openai_request *q, struct err *err)
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

static enum status read_completion_logprobs(struct openai_request *q, struct err *err)
{
    const json_t *given = json_object_get(q->json, "logprobs");
    int64_t top = 0;
    enum status st = json_field_bool(q->json, "echo", &q->echo, err);
    if (st || !given || json_is_null(given) || json_is_false(given))
        return st;
    st = json_whole(given, "logprobs", 0, LIMIT_COMPLETION_LOGPROBS, &top, err);
    q->params.logprobs = true;
    q->params.top_logprobs = (uint32_t)top;
    q->params.prompt_logprobs = q->echo;
    return st;
}

static enum status read_choices(struct openai_request *q, struct err *err)
{
    enum status st = read_n(q, err);
    if (st)
        return st;
    return q->kind == OPENAI_CHAT ? read_chat_logprobs(q, err) : read_completion_logprobs(q, err);
}

static enum status openai_request_read_stream(struct openai_request *q, struct err *err)
{
    const json_t *options = json_object_get(q->json, "stream_options");
    enum status st = json_field_bool(q->json, "stream", &q->stream, err);
    if (st || !options || json_is_null(options))
        return st;
    if (!json_is_object(options))
        return err_param(err, STATUS_INVALID, "stream_options",
                         "stream_options: must be an object");
    if (!q->stream)
        return err_param(err, STATUS_INVALID, "stream_options",
                         "stream_options: only allowed when stream is true");
    if (json_field_bool(options, "include_usage", &q->include_usage, err) == STATUS_OK)
        return STATUS_OK;
    return err_param(err, STATUS_INVALID, "stream_options.include_usage",
                     "stream_options.include_usage: must be true or false");
}

/* vLLM's names. Prompts share cached prefixes only under the same salt: 128 bits of its SHA-256. */
static enum status read_salt(struct openai_request *q, struct err *err)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    const char *salt = NULL;
    enum status st = json_field_text(q->json, "cache_salt", &salt, err);
    if (st || !salt)
        return st;
    size_t len = json_string_length(json_object_get(q->json, "cache_salt"));
    if (len == 0 || len > LIMIT_CACHE_SALT_BYTES)
        return err_param(err, STATUS_INVALID, "cache_salt",
                         "cache_salt: must have 1 to %d bytes, found %zu", LIMIT_CACHE_SALT_BYTES,
                         len);
    if (!EVP_Digest(salt, len, digest, NULL, EVP_sha256(), NULL))
        return err_set(err, STATUS_NO_MEMORY, "no memory for cache_salt");
    memcpy(&q->params.salt, digest, sizeof q->params.salt);
    return STATUS_OK;
}

static enum status read_priority(struct openai_request *q, struct err *err)
{
    int64_t priority = 0;
    enum status st =
        json_field_int(q->json, "priority", -LIMIT_PRIORITY, LIMIT_PRIORITY, &priority, err);
    q->params.priority = (int32_t)priority;
    return st;
}

static enum status read_prompts(struct openai_request *q, struct err *err)
{
    if (q->kind == OPENAI_COMPLETION)
        return prompts_read(&q->prompts, json_object_get(q->json, "prompt"), err);
    enum status st = prompts_make(&q->prompts, 1, err);
    return st ? st : read_messages(q, err);
}

static enum status openai_request_read_all(struct openai_request *q, struct err *err)
{
    enum status st;
    if ((st = check_unsupported(q, err)) ||
        (st = json_field_text(q->json, "model", &q->model, err)) || (st = read_prompts(q, err)) ||
        (st = read_sampling(q, err)) || (st = read_bias(q, err)) || (st = read_stop(q, err)) ||
        (st = read_choices(q, err)) || (st = read_max_tokens(q, err)) ||
        (st = openai_request_read_stream(q, err)) || (st = read_salt(q, err)) ||
        (st = read_priority(q, err)) ||
        (st = json_field_real(q->json, "timeout", true, 0, LIMIT_TIMEOUT_SECONDS, &q->timeout_s,
                              err)) ||
        (st = json_field_bool(q->json, "ignore_eos", &q->params.ignore_eos, err)))
        return st;
    return STATUS_OK;
}

enum status openai_request_read(struct openai_request *out, enum openai_kind kind, json_t *take,
                                struct err *err)
{
    *out = (struct openai_request){.kind = kind, .json = take, .params.sampling = sampling_default};
    return openai_request_read_all(out, err);
}

enum status openai_request_parse(struct openai_request *out, enum openai_kind kind,
                                 const char *body, size_t len, struct err *err)
{
    json_t *json;
    *out = (struct openai_request){.kind = kind, .params.sampling = sampling_default};
    enum status st = json_parse(body, len, &json, err);
    return st ? st : openai_request_read(out, kind, json, err);
}

void openai_request_recommend(struct openai_request *q, const struct sampling_values *v)
{
    for (int p = 0; p < SAMPLING_PARAMS; p++) {
        const json_t *given = json_object_get(q->json, sampling_rows[p].name);
        if (v->given[p] && (!given || json_is_null(given)))
            sampling_set(&q->params.sampling, p, v->value[p]);
    }
}

enum status openai_request_tokenize(struct openai_request *q, const struct loader *loader,
                                    uint32_t most, struct err *err)
{
    const struct tokenizer *t = loader->tokenizer;
    openai_request_recommend(q, &loader->generation);
    for (uint32_t i = 0; i < q->prompts.n; i++)
        q->prompts.all[i].ids.most = most;
    if (q->kind == OPENAI_COMPLETION)
        return prompts_tokenize(&q->prompts, t, q->echo, err);
    struct tokens *ids = &q->prompts.all[0].ids;
    enum status st = prompts_wanted(&q->prompts, err);
    if (st == STATUS_OK)
        st = chat_tokens(loader->chat_template, t, q->messages, NULL, true, ids, err);
    if (st == STATUS_OK && ids->count == 0)
        return err_param(err, STATUS_INVALID, "messages", "the prompt is empty: it has no tokens");
    return st;
}

/* Tokens whose log probabilities have to be there at once. */
static uint64_t logprob_rows(const struct openai_request *q, uint32_t n_ctx)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < q->prompts.n; i++) {
        uint64_t prompt = q->prompts.all[i].ids.count, answer = n_ctx - prompt;
        if (answer > q->params.max_tokens)
            answer = q->params.max_tokens;
        rows += (q->stream ? 0 : answer) + (q->params.prompt_logprobs ? prompt : 0);
    }
    return rows * q->n;
}

enum status openai_request_check_logprobs(const struct openai_request *q, uint32_t n_ctx,
                                          struct err *err)
{
    const char *top = q->kind == OPENAI_CHAT ? "top_logprobs" : "logprobs";
    uint64_t rows = logprob_rows(q, n_ctx), most = LIMIT_ANSWER_LOGPROBS;
    if (!q->params.logprobs || rows * (1 + q->params.top_logprobs) <= most)
        return STATUS_OK;
    return err_param(
        err, STATUS_INVALID, top,
        "%s: %u alternatives and the token itself, for %" PRIu64 " tokens%s, are %" PRIu64
        " log probabilities, at most %" PRIu64 " at once: ask for less (%s, n%s%s)%s",
        top, q->params.top_logprobs, rows, q->stream ? " of prompts" : " that all choices may have",
        rows * (1 + q->params.top_logprobs), most, top, q->stream ? "" : ", max_tokens",
        q->params.prompt_logprobs ? ", echo" : "",
        q->stream ? "" : ", or for a stream: \"stream\": true");
}

enum status openai_request_forget_text(struct openai_request *q, struct err *err)
{
    enum status st = prompts_forget_text(&q->prompts, q->echo, err);
    json_decref(q->messages);
    json_decref(q->json);
    q->messages = q->json = NULL;
    q->model = NULL;
    return st;
}

void openai_request_fini(struct openai_request *q)
{
    json_decref(q->messages);
    json_decref(q->json);
    prompts_fini(&q->prompts);
    request_params_fini(&q->params);
    *q = (struct openai_request){0};
}
