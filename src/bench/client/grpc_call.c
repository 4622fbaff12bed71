#include "bench/client/grpc_call.h"

#include "base/clock.h"
#include "base/mem.h"
#include "bench/client/grpc_chunk.h"

#include <proto/firstlight.pb-c.h>
#include <stdlib.h>
#include <string.h>

#define SERVICE "/firstlight.v1.Inference/"

/* ---- The answer comes ---- */

static enum status on_message(void *arg, const char *bytes, size_t len, struct err *err)
{
    struct grpc_call *x = arg;
    x->base.record->n_messages++;
    x->base.record->payload_bytes += len;
    if (x->list && !buf_append(x->list, bytes, len))
        return err_set(err, STATUS_NO_MEMORY, "no memory for a list of models");
    if (x->list)
        return STATUS_OK;
    enum status st = grpc_chunk_read(&x->base.heard, bytes, len, err);
    return st ? st : net_call_stamp(&x->base, err);
}

static void grpc_call_copy(char *out, size_t out_size, const char *value, size_t len)
{
    if (len > out_size - 1)
        len = out_size - 1;
    memcpy(out, value, len);
    out[len] = '\0';
}

/* A number that is none counts as UNKNOWN, as the specification has it. */
static int read_status(const char *text)
{
    char *end;
    long n = strtol(text, &end, 10);
    return end == text || *end != '\0' || n < 0 || n > 1000 ? 2 : (int)n;
}

void grpc_call_field(struct grpc_call *x, const char *name, const char *value, size_t len)
{
    char number[16];
    grpc_call_copy(number, sizeof number, value, len);
    if (strcmp(name, ":status") == 0)
        x->base.record->http_status = atoi(number);
    else if (strcmp(name, "grpc-status") == 0)
        x->grpc_status = read_status(number);
    else if (strcmp(name, "grpc-message") == 0)
        grpc_call_copy(x->words, sizeof x->words, value, len);
    else if (strcmp(name, "content-type") == 0)
        grpc_call_copy(x->type, sizeof x->type, value, len);
    else if (strcmp(name, "retry-after") == 0)
        grpc_call_copy(x->retry_s, sizeof x->retry_s, value, len);
    else if (strcmp(name, "grpc-retry-pushback-ms") == 0)
        grpc_call_copy(x->retry_ms, sizeof x->retry_ms, value, len);
}

/* 1xx are not yet the answer. */
void grpc_call_head(struct grpc_call *x, int64_t now_us)
{
    x->base.last_us = now_us;
    if (x->base.record->http_status >= 200 && x->base.record->accepted_us == 0)
        x->base.record->accepted_us = now_us;
}

static bool grpc_call_is_grpc(const struct grpc_call *x)
{
    return x->base.record->http_status == 200 && strncmp(x->type, "application/grpc", 16) == 0;
}

bool grpc_call_data(struct grpc_call *x, const char *bytes, size_t len, int64_t now_us)
{
    x->base.last_us = now_us;
    if (grpc_call_is_grpc(x) && !x->base.refused)
        x->base.refused = grpc_frames_feed(&x->frames, bytes, len, &x->base.err) != STATUS_OK;
    return !x->base.refused;
}

/* ---- The call ---- */

struct grpc_call *grpc_call_create(const struct grpc_peer *p, void (*ended)(struct grpc_call *x),
                                   void *owner)
{
    struct grpc_call *x = mem_zalloc(sizeof *x);
    if (!x)
        return NULL;
    x->peer = p;
    x->ended = ended;
    x->owner = owner;
    grpc_frames_init(&x->frames, on_message, x);
    return x;
}

void grpc_call_destroy(struct grpc_call *x)
{
    if (!x)
        return;
    buf_fini(&x->body);
    grpc_frames_fini(&x->frames);
    mem_free(x);
}

static void grpc_call_begin(struct grpc_call *x, struct record *r, bool stream)
{
    net_call_begin(&x->base, r, stream);
    x->list = NULL;
    x->grpc_status = -1;
    x->type[0] = x->words[0] = x->retry_s[0] = x->retry_ms[0] = '\0';
    x->body_sent = 0;
    x->conn = NULL;
    grpc_frames_reset(&x->frames);
}

static enum status grpc_call_put_body(struct grpc_call *x, const ProtobufCMessage *m,
                                      struct err *err)
{
    size_t len = protobuf_c_message_get_packed_size(m);
    buf_clear(&x->body);
    if (!buf_reserve(&x->body, GRPC_FRAMES_HEAD + len))
        return err_set(err, STATUS_NO_MEMORY, "no memory for a request");
    grpc_frames_put_head(x->body.data, len);
    protobuf_c_message_pack(m, (uint8_t *)x->body.data + GRPC_FRAMES_HEAD);
    x->body.len = GRPC_FRAMES_HEAD + len;
    return STATUS_OK;
}

/* The same as JSON has over HTTP: ignore_eos only where it is asked for. */
static Firstlight__V1__Sampling sampling_of(const struct work_item *item)
{
    Firstlight__V1__Sampling s = FIRSTLIGHT__V1__SAMPLING__INIT;
    s.has_max_tokens = s.has_temperature = true;
    s.max_tokens = item->max_tokens;
    s.has_ignore_eos = s.ignore_eos = item->ignore_eos;
    return s;
}

enum status grpc_call_prepare(struct grpc_call *x, const char *model, const struct work_item *item,
                              struct record *r, struct err *err)
{
    Firstlight__V1__Sampling sampling = sampling_of(item);
    Firstlight__V1__Service service = FIRSTLIGHT__V1__SERVICE__INIT;
    ProtobufCBinaryData text = {strlen(item->prompt), (uint8_t *)item->prompt};
    grpc_call_begin(x, r, item->stream);
    service.model = (char *)(uintptr_t)model;
    if (item->chat) {
        Firstlight__V1__Message message = FIRSTLIGHT__V1__MESSAGE__INIT, *messages[] = {&message};
        Firstlight__V1__ChatRequest m = FIRSTLIGHT__V1__CHAT_REQUEST__INIT;
        x->path = item->stream ? SERVICE "Chat" : SERVICE "ChatBlocking";
        message.role = (char *)(uintptr_t) "user";
        message.has_content = true;
        message.content = text;
        m.messages = messages;
        m.n_messages = 1;
        m.sampling = &sampling;
        m.service = &service;
        return grpc_call_put_body(x, &m.base, err);
    }
    Firstlight__V1__GenerateRequest m;
    firstlight__v1__generate_request__init(&m);
    x->path = item->stream ? SERVICE "Generate" : SERVICE "GenerateBlocking";
    m.input_case = FIRSTLIGHT__V1__GENERATE_REQUEST__INPUT_PROMPT;
    m.prompt = text;
    m.sampling = &sampling;
    m.service = &service;
    return grpc_call_put_body(x, &m.base, err);
}

enum status grpc_call_prepare_list(struct grpc_call *x, struct buf *list, struct record *r,
                                   struct err *err)
{
    const Firstlight__V1__ListModelsRequest m = FIRSTLIGHT__V1__LIST_MODELS_REQUEST__INIT;
    grpc_call_begin(x, r, false);
    x->list = list;
    x->path = SERVICE "ListModels";
    return grpc_call_put_body(x, &m.base, err);
}

/* ---- The end ---- */

static void grpc_call_own_end(struct grpc_call *x, enum record_state state, int64_t at_us,
                              const char *why)
{
    net_call_end(&x->base, state, at_us, why);
    x->ended(x);
}

void grpc_call_end_cancelled(struct grpc_call *x)
{
    grpc_call_own_end(x, RECORD_CANCELLED, clock_now_us(), NULL);
}

void grpc_call_end_failed(struct grpc_call *x, const char *why)
{
    grpc_call_own_end(x, RECORD_FAILED, clock_now_us(), why);
}

static const char *status_word(int status)
{
    static const char *const words[] = {
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    };
    return (size_t)status < sizeof words / sizeof *words ? words[status] : "of no known name";
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Percent-encoding, of which what is none stays as it is; a NUL would cut the words. */
static void grpc_call_unescape(char *text)
{
    char *out = text;
    for (const char *at = text; *at; out++) {
        int high = at[0] == '%' ? hex(at[1]) : -1, low = high >= 0 ? hex(at[2]) : -1;
        bool escaped = low >= 0 && (high | low);
        *out = escaped ? (char)(high << 4 | low) : *at;
        at += escaped ? 3 : 1;
    }
    *out = '\0';
}

static enum status status_failed(struct grpc_call *x, struct err *err)
{
    grpc_call_unescape(x->words);
    const char *retry = x->retry_ms[0] ? x->retry_ms : x->retry_s;
    return err_set(err, STATUS_UNAVAILABLE, "gRPC %d %s%s%s%s%s%s", x->grpc_status,
                   status_word(x->grpc_status), x->words[0] ? ": " : "", x->words,
                   retry[0] ? " (retry after " : "", retry,
                   !retry[0]        ? ""
                   : x->retry_ms[0] ? " ms)"
                                    : " s)");
}

/* It ended as it should, but for its status. */
static enum status no_status(struct grpc_call *x, struct err *err)
{
    if (x->base.record->http_status != 200)
        return err_set(err, STATUS_UNAVAILABLE, "HTTP %d", x->base.record->http_status);
    if (!grpc_call_is_grpc(x))
        return err_set(err, STATUS_INVALID,
                       "asked for application/grpc, the answer is %.80s: is this a gRPC port?",
                       x->type[0] ? x->type : "of no type");
    return err_set(err, STATUS_INVALID, "the answer ended after %u chunks without a grpc-status",
                   x->base.record->n_chunks);
}

static enum status grpc_call_judge(struct grpc_call *x, const char *why_not, struct err *err)
{
    if (x->base.refused) {
        *err = x->base.err;
        return err->code;
    }
    if (x->grpc_status > 0)
        return status_failed(x, err);
    if (why_not && x->grpc_status < 0)
        return net_call_broke_off(&x->base, why_not, err);
    if (x->grpc_status < 0)
        return no_status(x, err);
    if (grpc_frames_is_cut(&x->frames))
        return err_set(err, STATUS_INVALID, "the answer ended in the middle of a message");
    if (!x->base.stream && x->base.record->n_messages == 0)
        return err_set(err, STATUS_INVALID, "the answer has no message");
    return STATUS_OK;
}

/* An answer ends with its last bytes, a failure when it is known. */
void grpc_call_end(struct grpc_call *x, const char *why_not)
{
    struct err err;
    if (grpc_call_judge(x, why_not, &err)) {
        api_key_mask(&x->peer->key, err.text);
        grpc_call_end_failed(x, err.text);
        return;
    }
    grpc_call_own_end(x, RECORD_OK, x->base.last_us, NULL);
}
