/* The server at the other end: its address, key and models. */
#include "bench/client/http_peer.h"

#include "support/cmocka_all.h"
#include "support/script_server.h"
#include "unit/bench/bench_file.h"

#include <string.h>
#include <unistd.h>

#define JSON   "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
#define MODELS JSON "{\"object\":\"list\",\"data\":[{\"id\":\"first\"},{\"id\":\"second\"}]}"

static struct script script;
static char name[64];

/* Asks a server that answers so; the peer has come and gone. */
static enum status ask(const char *models, const char *model, const char *key_file,
                       uint32_t timeout_seconds, struct err *err)
{
    struct http_peer p;
    script = (struct script){.n_replies = 1};
    script.replies[0] = (struct script_reply){{models}};
    script_start(&script);
    enum status st = http_peer_init(&p, script.url, key_file, timeout_seconds, err);
    if (st == STATUS_OK)
        st = http_peer_model(&p, model, name, sizeof name, err);
    http_peer_fini(&p);
    script_stop(&script);
    return st;
}

static const struct {
    const char *url, *base;
} good_urls[] = {
    {"http://127.0.0.1:80", "http://127.0.0.1:80"},
    {"http://127.0.0.1:80//", "http://127.0.0.1:80"},
    {"http://127.0.0.1:80/v1", "http://127.0.0.1:80"},
    {"http://127.0.0.1:80/v1/", "http://127.0.0.1:80"},
    {"http://[::1]:80/v1", "http://[::1]:80"},
    {"https://a.example/openai/v1", "https://a.example/openai"},
    {"https://a.example/openai", "https://a.example/openai"},
    {"http://v1/", "http://v1"}, /* a host of that name */
    {"http://v1", "http://v1"},
};

static void test_good_urls(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good_urls / sizeof *good_urls; i++) {
        struct http_peer p;
        assert_int_equal(http_peer_init(&p, good_urls[i].url, NULL, 5, NULL), STATUS_OK);
        assert_string_equal(p.base, good_urls[i].base);
        size_t n = strlen(p.base);
        assert_memory_equal(p.models_url, p.base, n);
        assert_string_equal(p.models_url + n, "/v1/models");
        assert_string_equal(p.chat_url + n, "/v1/chat/completions");
        assert_string_equal(p.completions_url + n, "/v1/completions");
        http_peer_fini(&p);
    }
}

static const struct {
    const char *url, *says;
} bad_urls[] = {
    {"", "expected http://HOST:PORT"},
    {"127.0.0.1:8080", "expected http://HOST:PORT"},
    {"ftp://127.0.0.1/", "expected http://HOST:PORT"},
    {"httpx://127.0.0.1/", "expected http://HOST:PORT"},
    {"http://", "expected http://HOST:PORT"},
    {"http://127.0.0.1:99999", "expected http://HOST:PORT"},
    {"http://127.0.0.1:1/?q=1", "expected http://HOST:PORT"},
    {"http://127.0.0.1:1/#a", "expected http://HOST:PORT"},
    {"http://me:secret@127.0.0.1:1", "use --api-key-file"},
    {"http://me:secret@127.0.0.1:1/?q=1", "use --api-key-file"},
};

static void test_bad_urls(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_urls / sizeof *bad_urls; i++) {
        struct err e = {0};
        struct http_peer p;
        assert_int_equal(http_peer_init(&p, bad_urls[i].url, NULL, 5, &e), STATUS_INVALID);
        assert_string_equal(e.param, "--url");
        if (!strstr(e.text, bad_urls[i].says) || strstr(e.text, "secret"))
            fail_msg("%s: \"%s\" is not in \"%s\"", bad_urls[i].url, bad_urls[i].says, e.text);
        http_peer_fini(&p);
    }
}

/* Of a port that was just free: nobody listens. */
static void test_unreachable(void **state)
{
    (void)state;
    struct err e = {0};
    struct http_peer p;
    char says[128];
    script = (struct script){0};
    script_start(&script);
    script_stop(&script);
    assert_int_equal(http_peer_init(&p, script.url, NULL, 5, NULL), STATUS_OK);
    assert_int_equal(http_peer_model(&p, NULL, name, sizeof name, &e), STATUS_UNAVAILABLE);
    snprintf(says, sizeof says, "--url: no answer from %s/v1/models: Failed to connect",
             script.url);
    assert_non_null(strstr(e.text, says));
    http_peer_fini(&p);
}

static const struct {
    const char *models; /* the answer to GET /v1/models */
    const char *model, *chosen;
} chosen[] = {
    {MODELS, NULL, "first"},
    {MODELS, "first", "first"},
    {MODELS, "second", "second"},
    {JSON "{\"data\":[]}", "mine", "mine"},
    {"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "mine", "mine"},
};

static void test_chosen(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof chosen / sizeof *chosen; i++) {
        assert_int_equal(ask(chosen[i].models, chosen[i].model, NULL, 60, NULL), STATUS_OK);
        assert_string_equal(name, chosen[i].chosen);
    }
}

static const struct {
    const char *models, *model, *says;
} refused[] = {
    {MODELS, "third", "--model: http://127.0.0.1:"},
    {MODELS, "third", "has no \"third\": it has \"first\", \"second\""},
    {JSON "{\"data\":[]}", NULL, "lists no model: name one"},
    {JSON "{\"data\":[{\"name\":1}]}", NULL, "data[0].id: expected a string"},
    {JSON "{\"data\":5}", "m", "is this a server of the OpenAI API?"},
    {JSON "<html>", "m", "is this a server of the OpenAI API?"},
    {JSON, "m", "is this a server of the OpenAI API?"},
    {"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", NULL, "/v1/models: HTTP 404"},
    {"HTTP/1.1 401 Unauthorized\r\nConnection: close\r\n\r\n{\"error\":\"needs key\"}", NULL,
     "wants a key: give one with --api-key-file: HTTP 401: needs key"},
    {"HTTP/1.1 503 Unavailable\r\nConnection: close\r\n\r\n{\"error\":\"loads\"}", "m",
     "HTTP 503: loads"},
    {"HTTP/1.1 307 Elsewhere\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", "m", "HTTP 307"},
    {"", NULL, "--url: no answer from http://127.0.0.1:"},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct err e = {0};
        assert_true(ask(refused[i].models, refused[i].model, NULL, 60, &e) != STATUS_OK);
        if (!strstr(e.text, refused[i].says))
            fail_msg("%zu: \"%s\" is not in \"%s\"", i, refused[i].says, e.text);
    }
}

/* An error has room for some names. */
static void test_many_models(void **state)
{
    (void)state;
    struct err e = {0};
    char list[8192] = JSON "{\"data\":[{\"id\":\"m0\"}";
    for (int i = 1; i < 100; i++)
        sprintf(list + strlen(list), ",{\"id\":\"model number %d\"}", i);
    strcat(list, "]}");
    assert_int_equal(ask(list, "mine", NULL, 60, &e), STATUS_NOT_FOUND);
    assert_non_null(strstr(e.text, "it has \"m0\", \"model number 1\", "));
    assert_string_equal(e.text + strlen(e.text) - strlen(" more"), " more");
}

static void test_timeout(void **state)
{
    (void)state;
    struct err e = {0};
    assert_int_equal(ask(script_hold, NULL, NULL, 1, &e), STATUS_UNAVAILABLE);
    assert_non_null(strstr(e.text, "--url: no answer from http://127.0.0.1:"));
    assert_non_null(strstr(e.text, "timed out"));
}

/* A wrong key is not repeated, not even where the server does. */
static void test_wrong_key(void **state)
{
    (void)state;
    struct err e = {0};
    assert_int_equal(bench_file_make(NULL), 0);
    bench_file_write("sk-secret\n", 10);
    const char *answer = "HTTP/1.1 401 No\r\nConnection: close\r\n\r\n"
                         "{\"error\":{\"message\":\"sk-secret is wrong: sk-secret\"}}";
    assert_int_equal(ask(answer, NULL, bench_file, 60, &e), STATUS_UNAUTHENTICATED);
    assert_non_null(strstr(e.text, "refuses the key of --api-key-file: HTTP 401: "
                                   "********* is wrong: *********"));
    assert_non_null(strstr(script.requests[0], "\r\nAuthorization: Bearer sk-secret\r\n"));
    unlink(bench_file);
    assert_int_equal(ask(answer, NULL, bench_file, 60, &e), STATUS_IO);
    assert_non_null(strstr(e.text, "--api-key-file: cannot read the API keys in /tmp/"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_urls),   cmocka_unit_test(test_bad_urls),
        cmocka_unit_test(test_unreachable), cmocka_unit_test(test_chosen),
        cmocka_unit_test(test_refused),     cmocka_unit_test(test_many_models),
        cmocka_unit_test(test_timeout),     cmocka_unit_test(test_wrong_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
