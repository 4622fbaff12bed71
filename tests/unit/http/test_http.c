/* How errors are told: as whoever opened the port has it, whatever refuses the request. */
#include "http/http1.h"
#include "http/http2.h"
#include "support/cmocka_all.h"

#include "base/buf.h"
#include "base/log.h"

#include <arpa/inet.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool no_memory; /* for the next error */
static enum status fails_with = STATUS_NOT_FOUND;
static bool for_a_page; /* which may read it */
static const char page[] = "http://localhost:1";

static void write_error(struct buf *out, const struct err *err, const char *code)
{
    buf_printf(out, "%d/%s/%s", status_http(err->code), code ? code : "none", err->text);
    out->failed |= no_memory;
}

static const struct http_error_format format = {
    .content_type = "text/x-error", .write = write_error, .no_memory = "nothing left"};

static void handle(void *arg, struct http_exchange *x)
{
    struct err e;
    (void)arg;
    x->origin = for_a_page ? page : NULL;
    err_set(&e, fails_with, "no %s", x->path);
    http_fail(x, &e, "lost");
}

static bool admit(void *arg, const struct http_head *head, const struct sockaddr *peer,
                  struct hold *held, struct http_refusal *why)
{
    (void)arg, (void)head, (void)peer, (void)held;
    *why = (struct http_refusal){.code = "unwanted", .origin = for_a_page ? page : NULL};
    err_set(&why->err, fails_with, "no body");
    return false;
}

static void on_left(void *arg)
{
    (void)arg;
}

/* All that the server answers to these bytes, up to the end of the connection or of the answer. */
static const char *ask(struct event_base *base, const char *url, const char *first,
                       const char *later)
{
    static char got[2048];
    size_t len = 0;
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)atoi(strrchr(url, ':') + 1))};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(send(fd, first, strlen(first), 0), (ssize_t)strlen(first));
    for (int i = 0; i < 200; i++) {
        event_base_loop(base, EVLOOP_NONBLOCK);
        if (i == 20)
            send(fd, later, strlen(later), MSG_NOSIGNAL);
        ssize_t n = recv(fd, got + len, sizeof got - 1 - len, MSG_DONTWAIT);
        len += n > 0 ? (size_t)n : 0;
        usleep(200);
    }
    close(fd);
    got[len] = '\0';
    return got;
}

static void check(const char *answer, const char *status, const char *body)
{
    const char *type = strstr(answer, "Content-Type: ");
    const char *end = strstr(answer, "\r\n\r\n");
    assert_memory_equal(answer + strlen("HTTP/1.1 "), status, 3);
    assert_non_null(type);
    assert_memory_equal(type + strlen("Content-Type: "), "text/x-error\r\n", 14);
    assert_string_equal(end + 4, body);
}

static void test_http1(void **state)
{
    (void)state;
    struct event_base *base = event_base_new();
    const struct http1_options o = {
        .host = "127.0.0.1", .max_connections = 8, .errors = &format, .admit = admit};
    struct http1 *h;
    struct err e;
    assert_int_equal(http1_open(&h, base, &o, handle, NULL, &e), STATUS_OK);
    const char *url = http1_url(h);
    check(ask(base, url, "GET /x HTTP/1.1\r\nHost: t\r\n\r\n", ""), "404", "404/lost/no /x");
    no_memory = true;
    check(ask(base, url, "GET /x HTTP/1.1\r\nHost: t\r\n\r\n", ""), "404", "nothing left");
    no_memory = false;
    check(ask(base, url, "GET /x HTTP/9.9\r\n\r\n", ""), "505",
          "400/none/the protocol must be HTTP/1.1 or HTTP/1.0");
    fails_with = STATUS_FORBIDDEN;
    check(ask(base, url, "POST /x HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\n", "{}"), "403",
          "403/unwanted/no body");
    fails_with = STATUS_NOT_FOUND;
    http1_close(h);
    event_base_free(base);
}

/* What the header says; "" when there is none. */
static void field(const char *answer, const char *name, char out[512])
{
    char begin[64];
    snprintf(begin, sizeof begin, "\r\n%s: ", name);
    const char *at = strstr(answer, begin);
    out[0] = '\0';
    if (at)
        snprintf(out, 512, "%.*s", (int)strcspn(at + strlen(begin), "\r"), at + strlen(begin));
}

/* What a handler refuses and what is refused before its body has come say the same beside it. */
static void check_both_ways(struct event_base *base, const char *url, const char *name,
                            const char *value)
{
    char begin[64], handled[512], unread[512];
    snprintf(begin, sizeof begin, "HTTP/1.1 %d ", status_http(fails_with));
    const char *answer = ask(base, url, "GET /x HTTP/1.1\r\nHost: t\r\n\r\n", "");
    assert_memory_equal(answer, begin, strlen(begin));
    field(answer, name, handled);
    answer = ask(base, url, "POST /x HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\n", "{}");
    assert_memory_equal(answer, begin, strlen(begin));
    field(answer, name, unread);
    if (value) {
        assert_string_equal(handled, value);
        assert_string_equal(unread, value);
    } else { /* something new each time */
        assert_int_equal(strlen(handled), strlen(unread));
        assert_true(strlen(handled) > 0 && strcmp(handled, unread) != 0);
    }
}

static void test_both_ways_say_the_same(void **state)
{
    (void)state;
    static const struct {
        enum status status;
        const char *name, *value;
    } rows[] = {
        {STATUS_UNAUTHENTICATED, "WWW-Authenticate", "Bearer"},
        {STATUS_FORBIDDEN, "Retry-After", ""},
        {STATUS_TIMEOUT, "X-Should-Retry", "false"},
        {STATUS_TIMEOUT, "Retry-After", ""},
        {STATUS_OVERLOADED, "Retry-After", "1"},
        {STATUS_UNAVAILABLE, "Retry-After", "5"},
        {STATUS_NO_MEMORY, "Retry-After", "5"},
        {STATUS_FORBIDDEN, "X-Request-Id", NULL},
        {STATUS_FORBIDDEN, "Vary", "Origin"},
        {STATUS_FORBIDDEN, "Access-Control-Allow-Origin", page},
        {STATUS_FORBIDDEN, "Access-Control-Allow-Origin", ""},
        {STATUS_FORBIDDEN, "Access-Control-Expose-Headers", ""},
    };
    struct event_base *base = event_base_new();
    const struct http1_options o = {
        .host = "127.0.0.1", .max_connections = 100, .errors = &format, .admit = admit};
    struct http1 *h;
    struct err e;
    assert_int_equal(http1_open(&h, base, &o, handle, NULL, &e), STATUS_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fails_with = rows[i].status;
        for_a_page = rows[i].value == page;
        check_both_ways(base, http1_url(h), rows[i].name, rows[i].value);
    }
    fails_with = STATUS_NOT_FOUND;
    for_a_page = false;
    http1_close(h);
    event_base_free(base);
}

static void test_http2_says_what_it_speaks(void **state)
{
    (void)state;
    struct event_base *base = event_base_new();
    const struct http2_options o = {
        .host = "127.0.0.1", .max_connections = 8, .errors = &format, .left = on_left};
    struct http2 *h;
    struct err e;
    assert_int_equal(http2_open(&h, base, &o, handle, NULL, &e), STATUS_OK);
    check(ask(base, http2_url(h), "GET /x HTTP/1.1\r\nHost: t\r\n\r\n", ""), "400",
          "400/none/This port speaks HTTP/2 and gRPC only.");
    assert_int_equal(http2_refused(h, 400), 1);
    assert_int_equal(http2_refused(h, 429), 0);
    http2_close(h);
    event_base_free(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_http1),
        cmocka_unit_test(test_both_ways_say_the_same),
        cmocka_unit_test(test_http2_says_what_it_speaks),
    };
    log_set_level(LOG_OFF);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
