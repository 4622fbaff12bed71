/* The methods of firstlight.v1.Inference. */
#include "grpc/grpc.h"

#include "api/api_kind.h"
#include "api/client_admission.h"
#include "api/completion.h"
#include "base/limits.h"
#include "base/mem.h"

#include <event2/buffer.h>
#include <proto/firstlight.pb-c.h>

#define SERVICE "/firstlight.v1.Inference/"

/* Generate, Chat: calls */

static void grpc_inference_ask(struct server *s, struct http_exchange *x, struct evbuffer *message,
                               const struct api_kind *kind, bool stream)
{
    float seconds = 0;
    const char *timeout = http_header(x, "grpc-timeout");
    if (timeout)
        grpc_timeout(timeout, &seconds); /* was checked */
    completion_begin(
        s, x,
        &(struct completion_question){.kind = kind,
                                      .form = &grpc_response_format,
                                      .body = message,
                                      .stream = stream,
                                      .timeout_s = seconds,
                                      .coalesce_us = s->options.coalesce_ms * INT64_C(1000)});
}

static void generate(struct server *s, struct http_exchange *x, struct evbuffer *message)
{
    grpc_inference_ask(s, x, message, &api_completions, true);
}

static void generate_blocking(struct server *s, struct http_exchange *x, struct evbuffer *message)
{
    grpc_inference_ask(s, x, message, &api_completions, false);
}

static void grpc_inference_chat(struct server *s, struct http_exchange *x, struct evbuffer *message)
{
    grpc_inference_ask(s, x, message, &api_chat, true);
}

static void chat_blocking(struct server *s, struct http_exchange *x, struct evbuffer *message)
{
    grpc_inference_ask(s, x, message, &api_chat, false);
}

/* Tokenize, ListModels: answered at once */

static bool grpc_inference_still_loading(const struct server *s, struct http_exchange *x)
{
    struct err e;
    if (server_state_check_loaded(s, &e) == STATUS_OK)
        return false;
    grpc_fail(x, &e);
    return true;
}

/* A text that becomes tokens, here or on a text worker. */
struct tokenizing {
    struct text_job job; /* first */
    struct server *server;
    struct admitted admitted;
    uint64_t n_tokens;
    struct http_exchange *x;  /* NULL once its client has left */
    struct evbuffer *message; /* until it was parsed */
    struct hold held;         /* of it */
    struct buf packed;        /* the answer */
    enum status status;
    struct err err;
};

static enum status grpc_inference_put_tokens(struct buf *packed, const struct tokenizer *t,
                                             const struct tokens *ids, struct err *err)
{
    Firstlight__V1__TokenizeResponse out = FIRSTLIGHT__V1__TOKENIZE_RESPONSE__INIT;
    out.pieces = mem_array(ids->count + 1, sizeof *out.pieces);
    for (size_t i = 0; i < ids->count && out.pieces; i++) {
        const char *piece = tokenizer_piece(t, ids->ids[i], &out.pieces[i].len);
        out.pieces[i].data = (uint8_t *)(uintptr_t)piece;
    }
    out.tokens = (uint32_t *)ids->ids;
    out.n_tokens = out.n_pieces = ids->count;
    if (out.pieces)
        grpc_put_bare(packed, &out.base);
    bool failed = !out.pieces || packed->failed;
    mem_free(out.pieces);
    return failed ? err_set(err, STATUS_NO_MEMORY, "no memory for the tokens") : STATUS_OK;
}

static void tokenize_work(struct text_job *job)
{
    struct tokenizing *t = (struct tokenizing *)(void *)job;
    const struct tokenizer *tokenizer = t->server->loader.tokenizer;
    struct tokens ids = {0};
    size_t len;
    const char *bytes;
    t->status = http_in_one_piece(t->message, &bytes, &len, &t->err);
    if (t->status)
        return;
    Firstlight__V1__TokenizeRequest *m =
        firstlight__v1__tokenize_request__unpack(NULL, len, (const uint8_t *)bytes);
    if (!m) {
        t->status =
            err_set(&t->err, STATUS_MALFORMED, "the message is no firstlight.v1.TokenizeRequest");
        return;
    }
    if (m->text.len > LIMIT_TOKENIZE_BYTES) {
        t->status = err_param(&t->err, STATUS_TOO_LARGE, "text",
                              "text: has %zu bytes, at most %u are taken", m->text.len,
                              LIMIT_TOKENIZE_BYTES);
        goto done;
    }
    unsigned flags = TOKENIZE_SPECIAL | (!m->has_add_special || m->add_special ? TOKENIZE_ADD : 0);
    t->status = tokenizer_encode(tokenizer, m->text.data ? (const char *)m->text.data : "",
                                 m->text.len, NULL, flags, &ids, &t->err);
    t->n_tokens = ids.count;
    if (t->status == STATUS_OK)
        t->status = grpc_inference_put_tokens(&t->packed, tokenizer, &ids, &t->err);
done:
    tokens_fini(&ids);
    firstlight__v1__tokenize_request__free_unpacked(m, NULL);
}

static void tokenize_done(struct text_job *job)
{
    struct tokenizing *t = (struct tokenizing *)(void *)job;
    struct http_exchange *x = t->x;
    client_admission_tokens(t->server, x, &t->admitted, t->n_tokens);
    client_admission_end(t->server, &t->admitted, 0);
    if (x) {
        x->user = NULL;
        x->ended = NULL;
    }
    if (x && t->status == STATUS_OK)
        text_worker_refund(t->server->text, job);
    if (x && t->status)
        http_fail(x, &t->err, t->status == STATUS_OVERLOADED ? "rate_limit_exceeded" : NULL);
    else if (x)
        grpc_reply_packed(x, &t->packed);
    evbuffer_free(t->message);
    byte_budget_end(&t->held);
    buf_fini(&t->packed);
    mem_free(t);
}

static void tokenize_ended(struct http_exchange *x, bool gone)
{
    struct tokenizing *t = x->user;
    (void)gone;
    t->x = NULL;
    if (text_worker_drop(t->server->text, &t->job))
        tokenize_done(&t->job);
}

/* False: it was answered. */
static bool may_tokenize(struct server *s, struct http_exchange *x, struct admitted *out)
{
    struct err e;
    const char *limit;
    if (grpc_inference_still_loading(s, x))
        return false;
    if (client_admission_begin(s, x, out, &limit, &e) == STATUS_OK)
        return true;
    metrics_refuse(&s->metrics, status_http(e.code), limit);
    http_fail(x, &e, "rate_limit_exceeded");
    return false;
}

static void grpc_inference_tokenize(struct server *s, struct http_exchange *x,
                                    struct evbuffer *message)
{
    struct err e;
    struct admitted admitted;
    if (!may_tokenize(s, x, &admitted)) {
        evbuffer_free(message);
        return;
    }
    struct tokenizing *t = mem_zalloc(sizeof *t);
    if (!t) {
        evbuffer_free(message);
        client_admission_end(s, &admitted, 0);
        err_set(&e, STATUS_NO_MEMORY, "no memory for the call");
        grpc_fail(x, &e);
        return;
    }
    *t = (struct tokenizing){.job = {.work = tokenize_work,
                                     .done = tokenize_done,
                                     .client = admitted.client,
                                     .bytes = evbuffer_get_length(message)},
                             .server = s,
                             .admitted = admitted,
                             .x = x,
                             .message = message};
    byte_budget_move(&t->held, &x->held);
    x->user = t;
    x->ended = tokenize_ended;
    const char *limit;
    enum status st = client_admission_text(s, x, &t->job, &limit, &e);
    if (st == STATUS_OK)
        return;
    metrics_refuse(&s->metrics, status_http(st), limit);
    t->status = st;
    t->err = e;
    tokenize_done(&t->job);
}

static void list_models(struct server *s, struct http_exchange *x, struct evbuffer *message)
{
    Firstlight__V1__Model model = FIRSTLIGHT__V1__MODEL__INIT, *models[] = {&model};
    Firstlight__V1__ListModelsResponse out = FIRSTLIGHT__V1__LIST_MODELS_RESPONSE__INIT;
    evbuffer_free(message);
    if (grpc_inference_still_loading(s, x))
        return;
    model.id = (char *)(uintptr_t)s->model_name;
    model.has_created = model.has_max_model_len = true;
    model.created = s->start_unix_s;
    model.max_model_len = s->info.n_ctx;
    out.n_models = 1;
    out.models = models;
    grpc_reply(x, &out.base);
}

const struct grpc_route grpc_inference_routes[] = {
    {SERVICE "Generate", true, false, generate},
    {SERVICE "GenerateBlocking", true, false, generate_blocking},
    {SERVICE "Chat", true, false, grpc_inference_chat},
    {SERVICE "ChatBlocking", true, false, chat_blocking},
    {SERVICE "Tokenize", true, false, grpc_inference_tokenize},
    {SERVICE "ListModels", true, false, list_models},
    {0},
};
