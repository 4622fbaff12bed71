/* The guard: which bytes are a request, fed whole and byte by byte. */
#include "http/http1_framing.h"

#include "support/cmocka_all.h"

#include "base/limits.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

struct sample {
    const char *name;
    const char *bytes;
    int http_status; /* 0: taken */
    size_t rest;     /* bytes of the next request behind it */
};

#define HEAD "POST /v1/completions HTTP/1.1\r\nHost: a\r\n"

static const struct sample samples[] = {
    {"get", "GET /health HTTP/1.1\r\nHost: a\r\n\r\n", 0, 0},
    {"http/1.0 needs no host", "GET /health HTTP/1.0\r\n\r\n", 0, 0},
    {"length", HEAD "Content-Length: 2\r\n\r\n{}", 0, 0},
    {"length with blanks around", HEAD "Content-Length:   2 \t\r\n\r\n{}", 0, 0},
    {"pipelined", HEAD "Content-Length: 2\r\n\r\n{}GET", 0, 3},
    {"chunks", HEAD "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", 0, 0},
    {"chunk size in hex", HEAD "Transfer-Encoding: CHUNKED\r\n\r\nA\r\n0123456789\r\n0\r\n\r\nG", 0,
     1},
    {"continue", HEAD "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}", 0, 0},
    {"absolute target", "GET http://a/health HTTP/1.1\r\nHost: a\r\n\r\n", 0, 0},

    {"absolute target alone", "GET http://a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 0, 0},
    {"absolute with a query", "GET http://a?b=[ HTTP/1.1\r\nHost: a\r\n\r\n", 0, 0},
    {"absolute of an address", "GET http://[::1]:80/[ HTTP/1.1\r\nHost: a\r\n\r\n", 0, 0},
    {"absolute, open bracket", "GET http://[ HTTP/1.1\r\nHost: a\r\n\r\n", 400, 0},
    {"absolute, bad address", "GET http://[:::]/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, 0},
    {"absolute, large port", "GET http://a:99999999/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, 0},
    {"absolute, bad port", "GET http://a:8x/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, 0},
    {"absolute, bad escape", "GET http://a%zz/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, 0},
    {"absolute, two users", "GET http://a@b@c/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, 0},
    {"absolute, a user", "GET http://a@b/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, 0},
    {"absolute without a host", "GET http:/// HTTP/1.1\r\nHost: a\r\n\r\n", 400, 0},
    {"length with a sign", HEAD "Content-Length: +7\r\n\r\n1234567", 400, 0},
    {"negative length", HEAD "Content-Length: -1\r\n\r\n", 400, 0},
    {"empty length", HEAD "Content-Length:\r\n\r\n", 400, 0},
    {"length after a tab", HEAD "Content-Length:\t2\r\n\r\n{}", 400, 0},
    {"two lengths", HEAD "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400, 0},
    {"list of lengths", HEAD "Content-Length: 2, 2\r\n\r\n{}", 400, 0},
    {"length beyond 64 bits", HEAD "Content-Length: 99999999999999999999\r\n\r\n", 400, 0},
    {"too long", HEAD "Content-Length: 99999999\r\n\r\n", 413, 0},
    {"length and coding", HEAD "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", 400, 0},
    {"unknown coding", HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n", 501, 0},
    {"coding after a tab", HEAD "Transfer-Encoding:\tchunked\r\n\r\n", 501, 0},
    {"two codings", HEAD "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400,
     0},
    {"chunk size 0x7", HEAD "Transfer-Encoding: chunked\r\n\r\n0x7\r\n1234567\r\n0\r\n\r\n", 400,
     0},
    {"chunk size +7", HEAD "Transfer-Encoding: chunked\r\n\r\n+7\r\n1234567\r\n0\r\n\r\n", 400, 0},
    {"chunk extension", HEAD "Transfer-Encoding: chunked\r\n\r\n2;a=b\r\n{}\r\n0\r\n\r\n", 400, 0},
    {"chunk without its end", HEAD "Transfer-Encoding: chunked\r\n\r\n2\r\n{}0\r\n\r\n", 400, 0},
    {"chunk too large", HEAD "Transfer-Encoding: chunked\r\n\r\nfffffff\r\n", 413, 0},
    {"empty chunk size", HEAD "Transfer-Encoding: chunked\r\n\r\n\r\n", 400, 0},
    {"trailer", HEAD "Transfer-Encoding: chunked\r\n\r\n0\r\nAuthorization: x\r\n\r\n", 400, 0},
    {"no host", "GET /health HTTP/1.1\r\n\r\n", 400, 0},
    {"two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, 0},
    {"line feed alone", "GET /health HTTP/1.1\nHost: a\n\n", 505, 0},
    {"line feed alone in a header", "GET /health HTTP/1.1\r\nHost: a\n\r\n", 400, 0},
    {"carriage return alone", "GET /health HTTP/1.1\r\nHost: a\rb\r\n\r\n", 400, 0},
    {"folded header", "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", 400, 0},
    {"blank before the colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400, 0},
    {"no name", "GET / HTTP/1.1\r\n: a\r\n\r\n", 400, 0},
    {"another method", "BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n", 501, 0},
    {"lower case method is another", "get / HTTP/1.1\r\nHost: a\r\n\r\n", 501, 0},
    {"head with a body", "HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n", 400, 0},
    {"another protocol", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505, 0},
    {"a longer version", "GET / HTTP/1.10\r\nHost: a\r\n\r\n", 505, 0},
    {"no target", "GET  HTTP/1.1\r\nHost: a\r\n\r\n", 400, 0},
    {"authority as target", "GET //a/b HTTP/1.1\r\nHost: a\r\n\r\n", 400, 0},
    {"blank lines first", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400, 0},
    {"tls", "\x16\x03\x01\x02", 400, 0},
    {"expectation", "GET / HTTP/1.1\r\nHost: a\r\nExpect: cake\r\n\r\n", 417, 0},
};

/* A host of so many bytes in the target. */
static int status_of_host(size_t len, const char *after)
{
    char bytes[2 * LIMIT_HOST_BYTES];
    struct http1_framing g;
    http1_framing_reset(&g);
    int n = snprintf(bytes, sizeof bytes, "GET http://%0*d%s HTTP/1.1\r\nHost: a\r\n\r\n", (int)len,
                     0, after);
    http1_framing_feed(&g, bytes, (size_t)n);
    return g.http_status;
}

static void absolute_hosts_have_a_length(void **state)
{
    (void)state;
    assert_int_equal(status_of_host(LIMIT_HOST_BYTES, ":65535"), 0);
    assert_int_equal(status_of_host(LIMIT_HOST_BYTES, ":65535/a/path/that/is/long?with=a&query"),
                     0);
    assert_int_equal(status_of_host(LIMIT_HOST_BYTES + 1, ""), 400);
    assert_int_equal(status_of_host(LIMIT_HOST_BYTES + 1, ":65535/"), 400);
    assert_int_equal(status_of_host(LIMIT_HOST_BYTES + 100, "/"), 400);
}

static void check(const struct sample *s, const struct http1_framing *g, size_t took, size_t n)
{
    if (g->http_status != s->http_status || g->done != (s->http_status == 0))
        fail_msg("%s: status %d (%s), done %d", s->name, g->http_status, g->why ? g->why : "-",
                 g->done);
    if (s->http_status == 0)
        assert_int_equal(n - took, s->rest);
    else
        assert_non_null(g->why);
}

static void test_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        struct http1_framing g;
        size_t n = strlen(samples[i].bytes);
        http1_framing_reset(&g);
        check(&samples[i], &g, http1_framing_feed(&g, samples[i].bytes, n), n);
    }
}

static void test_byte_by_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        struct http1_framing g;
        size_t n = strlen(samples[i].bytes), took = 0;
        http1_framing_reset(&g);
        while (took < n && http1_framing_feed(&g, samples[i].bytes + took, 1) == 1)
            took++;
        check(&samples[i], &g, took, n);
    }
}

static void test_nul(void **state)
{
    (void)state;
    static const char name[] = "GET / HTTP/1.1\r\nHo\0st: a\r\n\r\n";
    static const char value[] = "GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n";
    static const char target[] = "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n";
    struct http1_framing g;
    http1_framing_reset(&g);
    http1_framing_feed(&g, name, sizeof name - 1);
    assert_int_equal(g.http_status, 400);
    http1_framing_reset(&g);
    http1_framing_feed(&g, value, sizeof value - 1);
    assert_int_equal(g.http_status, 400);
    http1_framing_reset(&g);
    http1_framing_feed(&g, target, sizeof target - 1);
    assert_int_equal(g.http_status, 400);
}

/* LIMIT_HEADER_BYTES: a head of just that size passes, one byte more does not. */
static void test_head_limit(void **state)
{
    (void)state;
    static const char start[] = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
    for (size_t over = 0; over < 2; over++) {
        struct http1_framing g;
        size_t n = LIMIT_HEADER_BYTES + over;
        char *bytes = mem_alloc(n);
        assert_non_null(bytes);
        memset(bytes, 'x', n);
        memcpy(bytes, start, sizeof start - 1);
        memcpy(bytes + n - 4, "\r\n\r\n", 4);
        http1_framing_reset(&g);
        http1_framing_feed(&g, bytes, n);
        assert_int_equal(g.http_status, over ? 431 : 0);
        assert_int_equal(g.done, !over);
        mem_free(bytes);
    }
}

/* LIMIT_BODY_BYTES, announced and in chunks. */
static void test_body_limit(void **state)
{
    (void)state;
    for (unsigned over = 0; over < 2; over++) {
        char head[200];
        struct http1_framing g;
        int n =
            snprintf(head, sizeof head, HEAD "Content-Length: %u\r\n\r\n", LIMIT_BODY_BYTES + over);
        http1_framing_reset(&g);
        http1_framing_feed(&g, head, (size_t)n);
        assert_int_equal(g.http_status, over ? 413 : 0);
        n = snprintf(head, sizeof head, HEAD "Transfer-Encoding: chunked\r\n\r\n%x\r\n",
                     LIMIT_BODY_BYTES + over);
        http1_framing_reset(&g);
        http1_framing_feed(&g, head, (size_t)n);
        assert_int_equal(g.http_status, over ? 413 : 0);
    }
}

/* What is kept of a head, fed in pieces of n bytes. */
static void keep(struct http1_framing_head *head, const char *bytes, size_t n)
{
    struct http1_framing g;
    size_t len = strlen(bytes);
    *head = (struct http1_framing_head){0};
    http1_framing_reset(&g);
    http1_framing_keep(&g, head);
    for (size_t at = 0; at < len; at += n)
        http1_framing_feed(&g, bytes + at, len - at < n ? len - at : n);
    assert_int_equal(g.http_status, 0);
    assert_true(g.body);
}

static void test_what_is_kept(void **state)
{
    struct http1_framing_head head;
    bool cut;
    (void)state;
    for (size_t n = 1; n < 200; n += 7) {
        keep(&head,
             "POST /A?b HTTP/1.1\r\nHost: a\r\nORIGIN: http://b\r\norigin: c\r\nX-Authorization: "
             "no\r\nAUTHORIZATION:  Bearer Key "
             "\t\r\n"
             "authorization: Bearer other\r\nContent-Length: 2\r\n\r\n",
             n);
        assert_string_equal(head.method, "POST");
        assert_string_equal(http1_framing_kept(&head, HTTP1_FRAMING_TARGET, &cut), "/A?b");
        assert_false(cut);
        assert_string_equal(http1_framing_kept(&head, HTTP1_FRAMING_AUTHORIZATION, &cut),
                            "Bearer Key");
        assert_false(cut);
        assert_string_equal(http1_framing_kept(&head, HTTP1_FRAMING_ORIGIN, &cut), "http://b");
        assert_string_equal(http1_framing_kept(&head, HTTP1_FRAMING_HOST_NAME, &cut), "a");
    }
    keep(&head, HEAD "Content-Length: 2\r\n\r\n", 9);
    assert_null(http1_framing_kept(&head, HTTP1_FRAMING_AUTHORIZATION, &cut));
    assert_false(cut);
}

/* As much as fits, and that it was more. */
static void test_what_is_cut(void **state)
{
    struct http1_framing_head head;
    char bytes[2000], value[HTTP1_FRAMING_KEPT_BYTES + 2];
    bool cut;
    (void)state;
    for (size_t more = 0; more < 3; more++) {
        size_t len = HTTP1_FRAMING_KEPT_BYTES - 1 + more;
        memset(value, 'x', len);
        value[len] = '\0';
        snprintf(bytes, sizeof bytes, HEAD "Authorization: %s\r\nContent-Length: 2\r\n\r\n{",
                 value);
        keep(&head, bytes, sizeof bytes);
        const char *kept = http1_framing_kept(&head, HTTP1_FRAMING_AUTHORIZATION, &cut);
        assert_int_equal(cut, more > 0);
        assert_int_equal(strlen(kept), HTTP1_FRAMING_KEPT_BYTES - 1);
    }
}

/* Where the body begins, and how much of it came. */
static void test_how_far_the_body_is(void **state)
{
    static const char bytes[] =
        HEAD "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n3\r\nabc\r\n0\r\n\r\n";
    const char *body = strstr(bytes, "\r\n\r\n") + 4;
    struct http1_framing g;
    (void)state;
    http1_framing_reset(&g);
    http1_framing_feed(&g, bytes, (size_t)(body - bytes) - 1);
    assert_false(g.body);
    http1_framing_feed(&g, body - 1, 1);
    assert_true(g.body && g.body_got == 0);
    http1_framing_feed(&g, body, 4);
    assert_int_equal(g.body_got, 1);
    http1_framing_feed(&g, body + 4, strlen(body + 4));
    assert_true(g.done && g.body_got == 5);
    http1_framing_reset(&g);
    http1_framing_feed(&g, "GET / HTTP/1.0\r\n\r\n", 18);
    assert_true(g.done && !g.body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absolute_hosts_have_a_length),
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_byte_by_byte),
        cmocka_unit_test(test_nul),
        cmocka_unit_test(test_head_limit),
        cmocka_unit_test(test_body_limit),
        cmocka_unit_test(test_what_is_kept),
        cmocka_unit_test(test_what_is_cut),
        cmocka_unit_test(test_how_far_the_body_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
