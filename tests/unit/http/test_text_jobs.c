/* Texts before the text workers: what a client is told whose text finds no place, over HTTP and
 * gRPC, and what is done of one whose client leaves. */
#include "api/api_kind.h"
#include "api/completion.h"
#include "api/openai_sse.h"
#include "base/clock.h"
#include "base/log.h"
#include "grpc/grpc.h"
#include "http/http_transport.h"
#include "unit/engine/fake_backend.h"

#include <event2/buffer.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#define SECOND     INT64_C(1000000)
#define SERVICE    "/firstlight.v1.Inference/"
#define BODY_BYTES (LIMIT_BODY_INLINE + 1000)
#define MAX_FIELDS 32

static int64_t now_us;

/* One exchange of a client, and what it was answered with. */
static struct {
    struct http_exchange x; /* first */
    struct evbuffer *body;
    const char *content_type, *encoding;
    int n_fields;
    char names[MAX_FIELDS][48], values[MAX_FIELDS][200];
    bool answered;
} client;

static const char *via_header(const struct http_exchange *x, const char *name)
{
    (void)x;
    return strcmp(name, "content-type") == 0    ? client.content_type
           : strcmp(name, "grpc-encoding") == 0 ? client.encoding
                                                : NULL;
}

static bool via_peer(const struct http_exchange *x, struct sockaddr_storage *out)
{
    (void)x, (void)out;
    return false;
}

static struct evbuffer *via_take_body(struct http_exchange *x)
{
    struct evbuffer *body = client.body;
    (void)x;
    client.body = NULL;
    return body;
}

static void via_add(struct http_exchange *x, const char *name, const char *value)
{
    (void)x;
    assert_true(client.n_fields < MAX_FIELDS);
    snprintf(client.names[client.n_fields], sizeof *client.names, "%s", name);
    snprintf(client.values[client.n_fields++], sizeof *client.values, "%s", value);
}

static void via_reply(struct http_exchange *x, int status, const char *body, size_t len)
{
    (void)x, (void)status, (void)body, (void)len;
    client.answered = true;
}

static size_t via_waiting(const struct http_exchange *x)
{
    (void)x;
    return 0;
}

static const struct http_transport via = {.peer = via_peer,
                                          .header = via_header,
                                          .take_body = via_take_body,
                                          .add_header = via_add,
                                          .add_trailer = via_add,
                                          .reply = via_reply,
                                          .stream_waiting = via_waiting};

static const char *field(const char *name)
{
    for (int i = 0; i < client.n_fields; i++)
        if (strcasecmp(client.names[i], name) == 0)
            return client.values[i];
    return "(absent)";
}

static uint64_t n_counted(const struct server *s)
{
    for (uint32_t i = 0; i < s->metrics.n_refusals; i++)
        if (strcmp(s->metrics.refusals[i].reason, "text_worker") == 0)
            return s->metrics.refusals[i].http_status == 429 ? s->metrics.refusals[i].n : 0;
    return 0;
}

/* Four seconds of work, as far as the account sees. */
static void work(struct text_job *job)
{
    (void)job;
    now_us += 4 * SECOND;
}

static void done(struct text_job *job)
{
    (void)job;
}

/* A server whose text workers take nothing that waits, and a client that used four seconds. */
static void open_server(struct server *s)
{
    struct err e;
    struct text_job much = {.work = work, .done = done, .client = client_limit_of_address(NULL)};
    *s = (struct server){.state = SERVER_READY, .base = event_base_new(), .model_name = "m"};
    metrics_init(&s->metrics);
    assert_int_equal(text_worker_open(&s->text, s->base, 0, &e), STATUS_OK);
    assert_true(text_worker_submit(s->text, &much));
}

static void close_server(struct server *s)
{
    assert_null(s->calls);
    text_worker_close(s->text);
    event_base_free(s->base);
}

static struct timeline timeline;

static void begin(const char *path, const char *type, struct evbuffer *body)
{
    memset(&client, 0, sizeof client);
    client.content_type = type;
    client.body = body;
    client.x = (struct http_exchange){.via = &via,
                                      .errors = &openai_response_errors,
                                      .method = "POST",
                                      .path = path,
                                      .request_id = "r",
                                      .timeline = &timeline};
}

static void end(struct server *s, uint32_t n_refused)
{
    assert_true(client.answered);
    assert_string_equal(field("retry-after"), "75");
    assert_string_equal(field("retry-after-ms"), "75000");
    assert_int_equal(n_counted(s), n_refused);
    if (client.x.ended)
        client.x.ended(&client.x, false);
}

static struct evbuffer *body_of(const void *bytes, size_t len)
{
    struct evbuffer *body = evbuffer_new();
    assert_non_null(body);
    assert_int_equal(evbuffer_add(body, bytes, len), 0);
    return body;
}

/* A message with its frame; gzip: packed. */
static struct evbuffer *message(bool gzip)
{
    static unsigned char bytes[BODY_BYTES], packed[BODY_BYTES];
    z_stream z = {.next_in = bytes, .avail_in = sizeof bytes};
    size_t len = sizeof bytes;
    if (gzip) {
        z.next_out = packed;
        z.avail_out = sizeof packed;
        assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY),
                         Z_OK);
        assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
        len = z.total_out;
        deflateEnd(&z);
    }
    const unsigned char head[] = {gzip, 0, 0, (unsigned char)(len >> 8), (unsigned char)len};
    struct evbuffer *body = body_of(head, sizeof head);
    assert_int_equal(evbuffer_add(body, gzip ? packed : bytes, len), 0);
    return body;
}

static void over_http(void **state)
{
    static const char bytes[BODY_BYTES];
    struct server s;
    (void)state;
    open_server(&s);
    begin("/v1/completions", "application/json", NULL);
    completion_begin(&s, &client.x,
                     &(struct completion_question){.kind = &api_completions,
                                                   .form = &openai_sse_format,
                                                   .body = body_of(bytes, sizeof bytes)});
    assert_int_equal(client.x.status, 429);
    end(&s, 1);
    close_server(&s);
}

static void over_grpc(void **state)
{
    static const char *const paths[] = {SERVICE "Generate", SERVICE "Tokenize"};
    struct server s;
    uint32_t n = 0;
    (void)state;
    open_server(&s);
    for (int i = 0; i < 4; i++) {
        bool gzip = i >= 2;
        begin(paths[i % 2], "application/grpc", message(gzip));
        client.encoding = gzip ? "gzip" : NULL;
        grpc_dispatch(&s, &client.x);
        client.x.arrived(&client.x, true);
        assert_string_equal(field("grpc-status"), "8");
        assert_string_equal(field("grpc-retry-pushback-ms"), "75000");
        assert_string_equal(field("error-code"), "rate_limit_exceeded");
        end(&s, ++n);
    }
    close_server(&s);
}

static sem_t reading, gate;

/* Until the gate opens. */
static enum status slow_read(struct openai_request *out, const struct api_kind *kind,
                             const char *bytes, size_t len, struct err *err)
{
    sem_post(&reading);
    sem_wait(&gate);
    return openai_sse_format.read(out, kind, bytes, len, err);
}

static void leave_while_it_is_read(struct server *s, const struct api_kind *kind, const char *path,
                                   const char *field)
{
    struct wire_format form = openai_sse_format;
    struct buf body = {0};
    form.read = slow_read;
    sem_init(&reading, 0, 0);
    sem_init(&gate, 0, 0);
    buf_printf(&body, "{%s,\"pad\":\"%*s\"}", field, BODY_BYTES, "");
    begin(path, "application/json", NULL);
    completion_begin(s, &client.x,
                     &(struct completion_question){
                         .kind = kind, .form = &form, .body = body_of(body.data, body.len)});
    buf_fini(&body);
    sem_wait(&reading);
    client.x.ended(&client.x, true);
    sem_post(&gate);
    while (s->calls)
        event_base_loop(s->base, EVLOOP_ONCE);
}

/* The text worker reads a question when its client leaves: no prompt of it is tokenized then. */
static void who_leaves_is_not_tokenized(void **state)
{
    const struct rate_limit_options rates = {.tokens = 1, .burst_s = 1000};
    const struct client who = client_limit_of_address(NULL);
    struct fake_world world;
    struct rate_limit_level requests, tokens;
    struct err e;
    (void)state;
    struct server s = {.state = SERVER_READY, .base = event_base_new(), .model_name = "m"};
    fake_world_open(&world);
    metrics_init(&s.metrics);
    s.loader.tokenizer = world.tokenizer;
    assert_int_equal(rate_limit_open(&s.rates, &rates, &e), STATUS_OK);
    assert_int_equal(text_worker_open(&s.text, s.base, 4, &e), STATUS_OK);
    leave_while_it_is_read(&s, &api_completions, "/v1/completions", "\"prompt\":[\"aa\",\"bb\"]");
    leave_while_it_is_read(&s, &api_chat, "/v1/chat/completions",
                           "\"messages\":[{\"role\":\"user\",\"content\":\"aa\"}]");
    rate_limit_look(s.rates, &who, now_us, &requests, &tokens);
    assert_true(tokens.left == 1000); /* tokens that were read would have been charged */
    rate_limit_free(s.rates);
    fake_world_close(&world);
    close_server(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(over_http),
        cmocka_unit_test(over_grpc),
        cmocka_unit_test(who_leaves_is_not_tokenized),
    };
    log_set_level(LOG_OFF);
    now_us = SECOND;
    clock_simulate(&now_us);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
