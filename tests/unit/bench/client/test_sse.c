/* The reader of event streams: the rules of WHATWG HTML 9.2.6, and every way to cut a stream. */
#include "bench/client/sse.h"

#include "support/cmocka_all.h"

#include "base/limits.h"
#include "base/mem.h"

#include <string.h>

/* What came, each event's data in angle brackets. */
static struct buf got;

static enum status collect(void *arg, const char *data, size_t len, struct err *err)
{
    (void)arg;
    (void)err;
    buf_putc(&got, '<');
    buf_append(&got, data, len);
    buf_putc(&got, '>');
    return STATUS_OK;
}

static const struct {
    const char *stream, *events;
} cases[] = {
    {"data: a\n\n", "<a>"},
    {"data: a\r\n\r\n", "<a>"},
    {"data: a\r\r", "<a>"},
    {"data: a\r\n\rdata: b\n\r\n", "<a><b>"},
    {"data:a\n\n", "<a>"},              /* the blank is no must */
    {"data:  a \n\n", "< a >"},         /* and only one of them goes */
    {"data: a\ndata: b\n\n", "<a\nb>"}, /* lines are joined by LF */
    {"data\n\n", "<>"},                 /* a field without a colon has the value "" */
    {"data:\n\n", "<>"},
    {"data:\ndata:\n\n", "<\n>"},
    {"\n\n\ndata: a\n\n\n\n", "<a>"}, /* empty lines alone are no events */
    {": a comment\n\n", ""},
    {":\n\ndata: a\n: between\ndata: b\n\n", "<a\nb>"},
    {"event: x\ndata: a\nid: 1\nretry: 5\n\n", "<a>"},
    {"event: x\n\ndata: a\n\n", "<a>"},
    {"Data: a\n\n data: b\n\ndatas: c\n\nda: d\n\n", ""}, /* names as they are */
    {"data: a: b\n\n", "<a: b>"},
    {"data: a\n", ""}, /* without its empty line it never was */
    {"data: a\n\ndata: b", "<a>"},
    {"\xef\xbb\xbf"
     "data: a\n\n",
     "<a>"}, /* one byte order mark, at the start */
    {"\n\xef\xbb\xbf"
     "data: a\n\n",
     ""},
    {"data: \xef\xbb\xbf\n\n", "<\xef\xbb\xbf>"},
    {"data: \xf0\x9f\x98\x80 \xc3\xa9\n\n", "<\xf0\x9f\x98\x80 \xc3\xa9>"},
    {"data: {\"a\": 1}\n\ndata: [DONE]\n\n", "<{\"a\": 1}><[DONE]>"},
    {"", ""},
};

/* Feeds the bytes cut into pieces of `step` after a first one of `first`; each piece in a block of
 * its own size, so that a sanitizer sees a read past it. */
static void feed_cut(struct sse *s, const char *bytes, size_t len, size_t first, size_t step)
{
    size_t n = first < len ? first : len;
    for (size_t at = 0; at < len; at += n, n = step < len - at ? step : len - at) {
        char *piece = mem_strndup(bytes + at, n);
        assert_int_equal(sse_feed(s, piece, n, NULL), STATUS_OK);
        mem_free(piece);
    }
}

static void test_cases(void **state)
{
    (void)state;
    struct sse s;
    sse_init(&s, collect, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t len = strlen(cases[i].stream);
        for (size_t first = 0; first <= len; first++) {
            for (size_t step = 1; step <= 4; step++) {
                buf_clear(&got);
                sse_reset(&s);
                feed_cut(&s, cases[i].stream, len, first > 0 ? first : step, step);
                assert_string_equal(buf_str(&got), cases[i].events);
            }
        }
    }
    sse_fini(&s);
    buf_fini(&got);
}

static void test_nul_bytes(void **state)
{
    (void)state;
    struct sse s;
    sse_init(&s, collect, NULL);
    assert_int_equal(sse_feed(&s, "data: a\0b\n\n", 11, NULL), STATUS_OK);
    assert_int_equal(got.len, 5);
    assert_memory_equal(got.data, "<a\0b>", 5);
    sse_fini(&s);
    buf_fini(&got);
}

static enum status refuse(void *arg, const char *data, size_t len, struct err *err)
{
    int *calls = arg;
    (void)data;
    (void)len;
    ++*calls;
    return err_set(err, STATUS_INVALID, "enough");
}

static void test_a_refusal_ends_it(void **state)
{
    (void)state;
    struct sse s;
    struct err e = {0};
    int calls = 0;
    sse_init(&s, refuse, &calls);
    assert_int_equal(sse_feed(&s, "data: a\n\ndata: b\n\n", 18, &e), STATUS_INVALID);
    assert_string_equal(e.text, "enough");
    assert_int_equal(calls, 1);
    sse_fini(&s);
}

static enum status count(void *arg, const char *data, size_t len, struct err *err)
{
    (void)data;
    (void)err;
    *(size_t *)arg = len;
    return STATUS_OK;
}

/* Feeds `head`, n letters, `tail`, in pieces of 1000 bytes; *len: of the event that came. */
static enum status feed_long(const char *head, size_t n, const char *tail, size_t *len)
{
    struct sse s;
    struct buf b = {0};
    struct err e = {0};
    enum status st = STATUS_OK;
    buf_puts(&b, head);
    for (size_t i = 0; i < n; i++)
        buf_putc(&b, 'x');
    buf_puts(&b, tail);
    *len = 0;
    sse_init(&s, count, len);
    for (size_t at = 0; at < b.len && st == STATUS_OK; at += 1000)
        st = sse_feed(&s, b.data + at, b.len - at < 1000 ? b.len - at : 1000, &e);
    if (st)
        assert_non_null(strstr(e.text, "more than 1048576 bytes"));
    sse_fini(&s);
    buf_fini(&b);
    return st;
}

static void test_limit(void **state)
{
    (void)state;
    size_t len;
    assert_int_equal(feed_long("data: ", LIMIT_SSE_EVENT_BYTES, "\n\n", &len), STATUS_OK);
    assert_int_equal(len, LIMIT_SSE_EVENT_BYTES);
    assert_int_equal(feed_long("data: ", LIMIT_SSE_EVENT_BYTES + 1, "\n\n", &len), STATUS_INVALID);
    /* one that never ends is refused as it grows */
    assert_int_equal(feed_long("data: ", LIMIT_SSE_EVENT_BYTES + 1, "", &len), STATUS_INVALID);
    assert_int_equal(feed_long(": ", LIMIT_SSE_EVENT_BYTES + 5, "", &len), STATUS_INVALID);
    /* lines count together, with what joins them */
    assert_int_equal(feed_long("data: abc\ndata: ", LIMIT_SSE_EVENT_BYTES - 4, "\n\n", &len),
                     STATUS_OK);
    assert_int_equal(len, LIMIT_SSE_EVENT_BYTES);
    assert_int_equal(feed_long("data: abc\ndata: ", LIMIT_SSE_EVENT_BYTES - 3, "\n\n", &len),
                     STATUS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_nul_bytes),
        cmocka_unit_test(test_a_refusal_ends_it),
        cmocka_unit_test(test_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
