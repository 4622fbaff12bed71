/* How errors are told: as whoever opened the port has it, whatever refuses the request. */
#include "http/http1.h"
#include "http/http2.h"
#include "support/cmocka_all.h"

#include "base/buf.h"
#include "base/log.h"

#include <arpa/inet.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool no_memory; /* for the next error */

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
    err_set(&e, STATUS_NOT_FOUND, "no %s", x->path);
    http_fail(x, &e, "lost");
}

static bool admit(void *arg, const struct http_head *head, const struct sockaddr *peer,
                  struct hold *held, struct http_refusal *why)
{
    (void)arg, (void)head, (void)peer, (void)held;
    *why = (struct http_refusal){.code = "unwanted"};
    err_set(&why->err, STATUS_FORBIDDEN, "no body");
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
    check(ask(base, url, "POST /x HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\n", "{}"), "403",
          "403/unwanted/no body");
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
        cmocka_unit_test(test_http2_says_what_it_speaks),
    };
    log_set_level(LOG_OFF);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
