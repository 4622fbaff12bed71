#include "api/openai_request.h"

#include "api/api_kind.h"
#include "base/json.h"
#include "base/json_memory.h"
#include "base/mem.h"
#include "text/template/chat.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parameters that the API knows and this server does not implement */

static bool is_harmless(const struct api_unsupported *u, const json_t *v, bool *no_memory)
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
    for (const struct api_unsupported *u = q->kind->unsupported; u->name; u++) {
        const json_t *v = json_object_get(q->json, u->name);
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

static enum status openai_request_read_all(struct openai_request *q, struct err *err)
{
    enum status st;
    if ((st = check_unsupported(q, err)) ||
        (st = json_field_text(q->json, "model", &q->model, err)) ||
        (st = q->kind->read_prompts(q, err)) || (st = read_sampling(q, err)) ||
        (st = read_bias(q, err)) || (st = read_stop(q, err)) || (st = read_n(q, err)) ||
        (st = q->kind->read_logprobs(q, err)) || (st = read_max_tokens(q, err)) ||
        (st = openai_request_read_stream(q, err)) || (st = read_salt(q, err)) ||
        (st = read_priority(q, err)) ||
        (st = json_field_real(q->json, "timeout", true, 0, LIMIT_TIMEOUT_SECONDS, &q->timeout_s,
                              err)) ||
        (st = json_field_bool(q->json, "ignore_eos", &q->params.ignore_eos, err)))
        return st;
    return STATUS_OK;
}

enum status openai_request_read(struct openai_request *out, const struct api_kind *kind,
                                json_t *take, struct err *err)
{
    *out = (struct openai_request){.kind = kind, .json = take, .params.sampling = sampling_default};
    return openai_request_read_all(out, err);
}

enum status openai_request_parse(struct openai_request *out, const struct api_kind *kind,
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
    if (!q->kind->chat_template)
        return prompts_tokenize(&q->prompts, t, q->echo, err);
    struct tokens *ids = &q->prompts.all[0].ids;
    enum status st = prompts_wanted(&q->prompts, err);
    if (st == STATUS_OK)
        st = chat_tokens(loader->chat_template, t, q->messages, NULL, true, ids, err);
    if (st == STATUS_OK && ids->count == 0)
        return err_param(err, STATUS_INVALID, q->kind->prompts,
                         "the prompt is empty: it has no tokens");
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
    const char *top = q->kind->alternatives;
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
