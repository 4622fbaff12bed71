#include "http/http1_framing.h"

#include "base/limits.h"
#include "http/access.h"

#include <string.h>

#define CHUNK_DIGITS  8  /* LIMIT_BODY_BYTES needs six */
#define LENGTH_DIGITS 18 /* no overflow of size_t; anything near it is over the limit anyway */

static http1_framing_step read_method, read_target, read_version, version_lf, field_start,
    http1_framing_read_name, http1_framing_skip_blanks, http1_framing_read_value, field_lf, head_lf,
    chunk_size, chunk_lf, chunk_end_cr, chunk_end_lf, last_cr, last_lf;

static void http1_framing_refuse(struct http1_framing *g, int http_status, const char *why)
{
    g->http_status = http_status;
    g->why = why;
}

static void http1_framing_finish(struct http1_framing *g)
{
    g->done = true;
}

/* RFC 9110, 5.6.2. */
static bool is_tchar(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static void token_start(struct http1_framing *g)
{
    g->text_len = 0;
    g->text[0] = '\0';
}

static void token_add(struct http1_framing *g, unsigned char c)
{
    if (g->text_len < sizeof g->text - 1) {
        g->text[g->text_len] = (char)c;
        g->text[g->text_len + 1] = '\0';
    }
    g->text_len++;
}

/* Names and the values that matter are compared without case; methods and versions are not. */
static void token_fold(struct http1_framing *g, unsigned char c)
{
    token_add(g, (unsigned char)(c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c));
}

static bool token_is(const struct http1_framing *g, const char *s)
{
    return g->text_len < sizeof g->text && strcmp(g->text, s) == 0;
}

/* What is kept of the head */

static const char *const kept_fields[HTTP1_FRAMING_N_KEPT] = {
    [HTTP1_FRAMING_AUTHORIZATION] = "authorization",
    [HTTP1_FRAMING_ORIGIN] = "origin",
    [HTTP1_FRAMING_HOST_NAME] = "host",
};

static void http1_framing_own_keep(struct http1_framing *g, enum http1_framing_kept which)
{
    struct http1_framing_text *t = g->head ? &g->head->kept[which] : NULL;
    g->keeping = t && !t->given ? t : NULL;
    if (g->keeping)
        t->given = true;
}

static void keep_field(struct http1_framing *g)
{
    for (int i = 0; i < HTTP1_FRAMING_N_KEPT; i++)
        if (kept_fields[i] && token_is(g, kept_fields[i]))
            http1_framing_own_keep(g, (enum http1_framing_kept)i);
}

static void keep_byte(struct http1_framing *g, unsigned char c)
{
    struct http1_framing_text *t = g->keeping;
    if (t && t->len++ < sizeof t->text - 1)
        t->text[t->len - 1] = (char)c;
}

/* Without the blanks at its end, as evhttp has it. */
static void keep_end(struct http1_framing *g)
{
    struct http1_framing_text *t = g->keeping;
    while (t && t->len > 0 && t->len < sizeof t->text && strchr(" \t", t->text[t->len - 1]))
        t->text[--t->len] = '\0';
    g->keeping = NULL;
}

const char *http1_framing_kept(const struct http1_framing_head *head, enum http1_framing_kept which,
                               bool *cut)
{
    const struct http1_framing_text *t = &head->kept[which];
    *cut = t->len >= sizeof t->text;
    return t->given ? t->text : NULL;
}

/* The request line */

static void method_done(struct http1_framing *g)
{
    static const char *const with_body[] = {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
    g->bodyless = token_is(g, "HEAD");
    bool known = g->bodyless;
    for (size_t i = 0; i < sizeof with_body / sizeof *with_body; i++)
        known |= token_is(g, with_body[i]);
    if (!known)
        http1_framing_refuse(g, 501, "unknown request method");
    else if (g->head)
        memcpy(g->head->method, g->text, g->text_len + 1); /* OPTIONS is the longest of them */
}

static void read_method(struct http1_framing *g, unsigned char c)
{
    if (is_tchar(c)) {
        token_add(g, c);
        return;
    }
    if (c != ' ' || g->text_len == 0) {
        http1_framing_refuse(g, 400, "not an HTTP request: it begins with no method");
        return;
    }
    method_done(g);
    token_start(g);
    http1_framing_own_keep(g, HTTP1_FRAMING_TARGET);
    g->step = read_target;
}

/* "http://host[:port]" and what follows. evhttp would answer a host that it cannot read by itself,
 * in HTML; and it would take one without a name, or behind a user's name (RFC 9110, 4.2). */
static bool absolute_ok(const struct http1_framing *g)
{
    struct access_host host;
    const char *authority = g->text + strlen("http://");
    size_t len = strcspn(authority, "/?#");
    bool cut = authority[len] == '\0' && g->text_len >= sizeof g->text;
    return !cut && access_parse_host(authority, len, &host);
}

/* "/path", "*" or an absolute "http://..."; "//" would read as an authority. */
static bool target_ok(const struct http1_framing *g)
{
    if (g->text[0] == '/')
        return g->text[1] != '/';
    return token_is(g, "*") || (strncmp(g->text, "http://", 7) == 0 && absolute_ok(g));
}

static void read_target(struct http1_framing *g, unsigned char c)
{
    if (c > ' ' && c < 0x7f) {
        token_add(g, c);
        keep_byte(g, c);
        return;
    }
    keep_end(g);
    if (c != ' ' || !target_ok(g)) {
        http1_framing_refuse(
            g, 400,
            "the request target must be a path such as /v1/models, or one behind http://host");
        return;
    }
    token_start(g);
    g->step = read_version;
}

static void read_version(struct http1_framing *g, unsigned char c)
{
    if (c != '\r' && g->text_len < 8) {
        token_add(g, c);
        return;
    }
    g->http_1_0 = token_is(g, "HTTP/1.0");
    if (c != '\r' || (!g->http_1_0 && !token_is(g, "HTTP/1.1")))
        http1_framing_refuse(g, 505, "the protocol must be HTTP/1.1 or HTTP/1.0");
    g->step = version_lf;
}

static void version_lf(struct http1_framing *g, unsigned char c)
{
    if (c != '\n')
        http1_framing_refuse(g, 400, "a line of the head must end in CRLF");
    g->step = field_start;
}

/* Header fields */

static void field_start(struct http1_framing *g, unsigned char c)
{
    token_start(g);
    g->step = http1_framing_read_name;
    if (c == '\r')
        g->step = head_lf;
    else if (is_tchar(c))
        token_fold(g, c);
    else
        http1_framing_refuse(g, 400,
                             "a header must begin with its name, in the same line as its value");
}

static void name_done(struct http1_framing *g)
{
    g->field = HTTP1_FRAMING_FIELD_OTHER;
    if (token_is(g, "content-length"))
        g->field = HTTP1_FRAMING_LENGTH;
    else if (token_is(g, "transfer-encoding"))
        g->field = HTTP1_FRAMING_CODING;
    else if (token_is(g, "host"))
        g->field = HTTP1_FRAMING_HOST;
    else if (token_is(g, "expect"))
        g->field = HTTP1_FRAMING_EXPECT;
}

static void http1_framing_read_name(struct http1_framing *g, unsigned char c)
{
    if (is_tchar(c)) {
        token_fold(g, c);
        return;
    }
    if (c != ':') {
        http1_framing_refuse(g, 400, "a header's name has a character that is not allowed there");
        return;
    }
    name_done(g);
    keep_field(g);
    token_start(g);
    g->step = http1_framing_skip_blanks;
}

/* Spaces only: evhttp keeps a tab before a value, so "chunked" after one would be no coding to it.
 */
static void http1_framing_skip_blanks(struct http1_framing *g, unsigned char c)
{
    if (c == ' ')
        return;
    g->step = http1_framing_read_value;
    http1_framing_read_value(g, c);
}

static void trim(struct http1_framing *g)
{
    if (g->text_len >= sizeof g->text)
        return;
    while (g->text_len > 0 && strchr(" \t", g->text[g->text_len - 1]))
        g->text[--g->text_len] = '\0';
}

static void take_length(struct http1_framing *g)
{
    if (g->has_length) {
        http1_framing_refuse(g, 400, "more than one Content-Length");
        return;
    }
    g->has_length = true;
    if (g->text_len == 0 || g->text_len > LENGTH_DIGITS ||
        strspn(g->text, "0123456789") != g->text_len) {
        http1_framing_refuse(g, 400, "Content-Length must be decimal digits");
        return;
    }
    for (size_t i = 0; i < g->text_len; i++)
        g->remaining = g->remaining * 10 + (size_t)(g->text[i] - '0');
}

static void take_coding(struct http1_framing *g)
{
    if (g->chunked || g->http_1_0)
        http1_framing_refuse(g, 400, "Transfer-Encoding twice, or in HTTP/1.0");
    else if (!token_is(g, "chunked"))
        http1_framing_refuse(g, 501, "the only Transfer-Encoding understood here is chunked");
    g->chunked = true;
}

static void value_done(struct http1_framing *g)
{
    trim(g);
    if (g->field == HTTP1_FRAMING_LENGTH) {
        take_length(g);
    } else if (g->field == HTTP1_FRAMING_CODING) {
        take_coding(g);
    } else if (g->field == HTTP1_FRAMING_HOST) {
        if (g->has_host)
            http1_framing_refuse(g, 400, "more than one Host");
        g->has_host = true;
    } else if (g->field == HTTP1_FRAMING_EXPECT && !token_is(g, "100-continue")) {
        http1_framing_refuse(g, 417, "the only Expect understood here is 100-continue");
    }
}

static void http1_framing_read_value(struct http1_framing *g, unsigned char c)
{
    if (c == '\r') {
        keep_end(g);
        value_done(g);
        g->step = field_lf;
    } else if (c == '\t' || (c >= ' ' && c != 0x7f)) {
        token_fold(g, c);
        keep_byte(g, c);
    } else {
        http1_framing_refuse(g, 400, "a header's value has a control character");
    }
}

static void field_lf(struct http1_framing *g, unsigned char c)
{
    if (c != '\n')
        http1_framing_refuse(g, 400, "a line of the head must end in CRLF");
    g->step = field_start;
}

/* The end of the head decides what follows. */
static void head_lf(struct http1_framing *g, unsigned char c)
{
    if (c != '\n')
        http1_framing_refuse(g, 400, "a line of the head must end in CRLF");
    else if (!g->has_host && !g->http_1_0)
        http1_framing_refuse(g, 400, "HTTP/1.1 needs a Host header");
    else if (g->chunked && g->has_length)
        http1_framing_refuse(g, 400, "both Content-Length and Transfer-Encoding");
    else if (g->bodyless && (g->chunked || g->remaining > 0))
        http1_framing_refuse(g, 400, "a HEAD request has no body");
    else if (g->remaining > LIMIT_BODY_BYTES)
        http1_framing_refuse(g, 413, "the request body is too large");
    else if (g->chunked)
        g->step = chunk_size;
    else if (g->remaining > 0)
        g->data = true;
    else
        http1_framing_finish(g);
    g->body = g->http_status == 0 && !g->done;
    token_start(g);
}

/* Chunks, without extensions and trailers: evhttp would take trailers for headers. */

static int http1_framing_hex_digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

static void chunk_size_done(struct http1_framing *g)
{
    if (g->text_len == 0 || g->text_len > CHUNK_DIGITS ||
        strspn(g->text, "0123456789abcdef") != g->text_len) {
        http1_framing_refuse(g, 400,
                             "a chunk's size must be hexadecimal digits, without extensions");
        return;
    }
    g->remaining = 0;
    for (size_t i = 0; i < g->text_len; i++)
        g->remaining = g->remaining * 16 + (size_t)http1_framing_hex_digit(g->text[i]);
    g->body_bytes += g->remaining;
    if (g->body_bytes > LIMIT_BODY_BYTES)
        http1_framing_refuse(g, 413, "the request body is too large");
    token_start(g);
}

static void chunk_size(struct http1_framing *g, unsigned char c)
{
    if (c == '\r') {
        chunk_size_done(g);
        g->step = chunk_lf;
    } else if (g->text_len > CHUNK_DIGITS) {
        http1_framing_refuse(g, 400,
                             "a chunk's size must be hexadecimal digits, without extensions");
    } else {
        token_fold(g, c);
    }
}

static void chunk_lf(struct http1_framing *g, unsigned char c)
{
    if (c != '\n')
        http1_framing_refuse(g, 400, "a chunk's size must end in CRLF");
    g->step = g->remaining == 0 ? last_cr : chunk_end_cr;
    g->data = g->remaining > 0;
}

static void chunk_end_cr(struct http1_framing *g, unsigned char c)
{
    if (c != '\r')
        http1_framing_refuse(g, 400, "a chunk's data must end in CRLF");
    g->step = chunk_end_lf;
}

static void chunk_end_lf(struct http1_framing *g, unsigned char c)
{
    if (c != '\n')
        http1_framing_refuse(g, 400, "a chunk's data must end in CRLF");
    g->step = chunk_size;
}

static void last_cr(struct http1_framing *g, unsigned char c)
{
    if (c != '\r')
        http1_framing_refuse(g, 400, "trailers after the last chunk are not accepted");
    g->step = last_lf;
}

static void last_lf(struct http1_framing *g, unsigned char c)
{
    if (c != '\n')
        http1_framing_refuse(g, 400, "the last chunk must end in an empty line");
    else
        http1_framing_finish(g);
}

static bool in_head(const struct http1_framing *g)
{
    return g->step != chunk_size && g->step != chunk_lf && g->step != chunk_end_cr &&
           g->step != chunk_end_lf && g->step != last_cr && g->step != last_lf;
}

void http1_framing_reset(struct http1_framing *g)
{
    *g = (struct http1_framing){.step = read_method};
}

void http1_framing_keep(struct http1_framing *g, struct http1_framing_head *head)
{
    g->head = head;
    g->keeping = NULL;
}

size_t http1_framing_skip(struct http1_framing *g, size_t n)
{
    size_t take = n < g->remaining ? n : g->remaining;
    if (!g->data)
        return 0;
    g->remaining -= take;
    g->body_got += take;
    if (g->remaining == 0) {
        g->data = false;
        if (!g->chunked)
            http1_framing_finish(g);
    }
    return take;
}

size_t http1_framing_feed(struct http1_framing *g, const char *bytes, size_t n)
{
    size_t i = 0;
    while (i < n && !g->done && g->http_status == 0) {
        if (g->data) {
            i += http1_framing_skip(g, n - i);
            continue;
        }
        if (in_head(g) && ++g->head_bytes > LIMIT_HEADER_BYTES)
            http1_framing_refuse(g, 431, "the request's head is too large");
        else
            g->step(g, (unsigned char)bytes[i++]);
    }
    return i;
}
