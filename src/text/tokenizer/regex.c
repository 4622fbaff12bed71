#include "text/tokenizer/regex.h"

#include "base/buf.h"
#include "base/limits.h"
#include "base/mem.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

struct regex {
    pcre2_general_context *memory;
    pcre2_code *code;
    char *name;
};

struct regex_scratch {
    pcre2_general_context *memory;
    pcre2_match_data *match;
};

static void *take_memory(size_t size, void *data)
{
    (void)data;
    return mem_alloc(size);
}

static void give_memory(void *p, void *data)
{
    (void)data;
    mem_free(p);
}

static enum status regex_no_memory(struct err *err)
{
    return err_set(err, STATUS_NO_MEMORY, "no memory for a regular expression");
}

/* --- from Oniguruma's syntax to PCRE2's ----------------------------------------------------- */

#define NOT_SPACES                                                                                 \
    "\\x{0}-\\x{8}\\x{E}-\\x{1F}\\x{21}-\\x{84}\\x{86}-\\x{9F}\\x{A1}-\\x{167F}\\x{1681}-"         \
    "\\x{1FFF}\\x{200B}-\\x{2027}\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}\\x{2060}-\\x{2FFF}"        \
    "\\x{3001}-\\x{10FFFF}"
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"

/* An escape by its letter, inside a class and on its own. NULL: cannot be said there. */
static const struct escape {
    char letter;
    const char *in_class, *alone;
} escapes[] = {
    {'s', REGEX_SPACES, "[" REGEX_SPACES "]"},
    {'S', NOT_SPACES, "[^" REGEX_SPACES "]"},
    {'w', WORD, "[" WORD "]"},
    {'W', NULL, "[^" WORD "]"},
    {'d', "\\p{Nd}", "\\p{Nd}"},
    {'D', "\\P{Nd}", "\\P{Nd}"},
    {'h', "0-9a-fA-F", "[0-9a-fA-F]"},
    {'H', NULL, "[^0-9a-fA-F]"},
};

/* A pattern being read. */
struct reader {
    const char *pattern;
    size_t len, at;
    bool in_class;
    const char *name;
    struct buf *out;
};

static enum status not_understood(const struct reader *r, const char *what, struct err *err)
{
    return err_set(err, STATUS_UNSUPPORTED,
                   "%s: the expression has %s at byte %zu, which is not supported", r->name, what,
                   r->at);
}

/* \uHHHH, which PCRE2 spells \x{HHHH}. */
static bool read_u(struct reader *r)
{
    static const char hex[] = "0123456789abcdefABCDEF";
    if (r->len - r->at < 6 || strspn(r->pattern + r->at + 2, hex) < 4)
        return false;
    buf_printf(r->out, "\\x{%.4s}", r->pattern + r->at + 2);
    r->at += 6;
    return true;
}

/* A backslash and what follows. */
static enum status read_escape(struct reader *r, struct err *err)
{
    char letter = r->at + 1 < r->len ? r->pattern[r->at + 1] : '\0';
    if (letter == 'u' && read_u(r))
        return STATUS_OK;
    for (size_t i = 0; i < sizeof escapes / sizeof escapes[0]; i++) {
        if (escapes[i].letter != letter)
            continue;
        const char *text = r->in_class ? escapes[i].in_class : escapes[i].alone;
        if (!text)
            return not_understood(r, "\\W or \\H in a class", err);
        buf_puts(r->out, text);
        r->at += 2;
        return STATUS_OK;
    }
    size_t n = letter != '\0' ? 2 : 1;
    buf_append(r->out, r->pattern + r->at, n);
    r->at += n;
    return STATUS_OK;
}

/* The opening bracket of a class, and a closing one that is a member since it comes first. */
static void read_class_start(struct reader *r)
{
    size_t n = 1;
    if (r->at + n < r->len && r->pattern[r->at + n] == '^')
        n++;
    if (r->at + n < r->len && r->pattern[r->at + n] == ']')
        n++;
    buf_append(r->out, r->pattern + r->at, n);
    r->at += n;
    r->in_class = true;
}

static enum status regex_read_one(struct reader *r, struct err *err)
{
    char c = r->pattern[r->at], next = r->at + 1 < r->len ? r->pattern[r->at + 1] : '\0';
    if (c == '\\')
        return read_escape(r, err);
    if (r->in_class && c == '[')
        return not_understood(r, "a class in a class", err);
    if (r->in_class && c == '&' && next == '&')
        return not_understood(r, "an intersection of classes (&&)", err);
    if (c == '[') {
        read_class_start(r);
        return STATUS_OK;
    }
    r->in_class = r->in_class && c != ']';
    buf_putc(r->out, c);
    r->at++;
    return STATUS_OK;
}

/* \s+$ tries every place of a run of white space, and walks to the run's end from each. Where the
 * run's beginning does not match nothing of it does, so that one look back makes it linear. */
static const char *without_quadratic(const char *pattern, size_t *len)
{
    static const char slow[] = "\\s+$", fast[] = "(?<!\\s)\\s+$";
    if (*len != strlen(slow) || memcmp(pattern, slow, *len) != 0)
        return pattern;
    *len = strlen(fast);
    return fast;
}

static enum status translate(struct buf *out, const char *pattern, size_t len, const char *name,
                             struct err *err)
{
    struct reader r = {.pattern = without_quadratic(pattern, &len), .name = name, .out = out};
    enum status status = STATUS_OK;
    r.len = len;
    while (status == STATUS_OK && r.at < r.len)
        status = regex_read_one(&r, err);
    if (status == STATUS_OK && out->failed)
        status = regex_no_memory(err);
    return status;
}

/* --- opening -------------------------------------------------------------------------------- */

/* Where the system forbids executable memory there is no JIT and PCRE2 interprets: slower, the same
 * matches. */
static enum status compile(struct regex *r, const struct buf *pattern, bool literal,
                           struct err *err)
{
    pcre2_compile_context *context = pcre2_compile_context_create(r->memory);
    PCRE2_SIZE at;
    int code;
    if (!context)
        return regex_no_memory(err);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    r->code =
        pcre2_compile((PCRE2_SPTR)buf_str(pattern), pattern->len,
                      PCRE2_UTF | (literal ? PCRE2_LITERAL
                                           : PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C),
                      &code, &at, context);
    pcre2_compile_context_free(context);
    if (!r->code) {
        char text[128] = "";
        pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
        return err_set(err, STATUS_INVALID,
                       "%s: expected a regular expression, found '%.80s': at byte %zu: %s", r->name,
                       buf_str(pattern), (size_t)at, text);
    }
    (void)pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE);
    return STATUS_OK;
}

enum status regex_open(struct regex **out, const char *pattern, size_t len, bool literal,
                       const char *name, struct err *err)
{
    struct buf translated = {0};
    enum status status = STATUS_OK;
    if (len == 0 || len > LIMIT_REGEX_BYTES)
        return err_set(err, STATUS_INVALID,
                       "%s: expected an expression of 1 to %u bytes, found %zu", name,
                       LIMIT_REGEX_BYTES, len);
    struct regex *r = mem_zalloc(sizeof *r);
    if (!r)
        return regex_no_memory(err);
    r->name = mem_strdup(name);
    r->memory = pcre2_general_context_create(take_memory, give_memory, NULL);
    if (literal)
        buf_append(&translated, pattern, len);
    else
        status = translate(&translated, pattern, len, name, err);
    if (status == STATUS_OK && (translated.failed || !r->memory || !r->name))
        status = regex_no_memory(err);
    if (status == STATUS_OK)
        status = compile(r, &translated, literal, err);
    buf_fini(&translated);
    if (status != STATUS_OK) {
        regex_close(r);
        return status;
    }
    *out = r;
    return STATUS_OK;
}

void regex_close(struct regex *r)
{
    if (!r)
        return;
    pcre2_code_free(r->code);
    pcre2_general_context_free(r->memory);
    mem_free(r->name);
    mem_free(r);
}

struct regex_scratch *regex_scratch_open(void)
{
    struct regex_scratch *s = mem_zalloc(sizeof *s);
    if (!s)
        return NULL;
    s->memory = pcre2_general_context_create(take_memory, give_memory, NULL);
    s->match = s->memory ? pcre2_match_data_create(1, s->memory) : NULL;
    if (!s->match) {
        regex_scratch_close(s);
        return NULL;
    }
    return s;
}

void regex_scratch_close(struct regex_scratch *s)
{
    if (!s)
        return;
    pcre2_match_data_free(s->match);
    pcre2_general_context_free(s->memory);
    mem_free(s);
}

/* --- matching ------------------------------------------------------------------------------- */

enum status regex_find(const struct regex *r, struct regex_scratch *s, const char *text, size_t len,
                       size_t from, size_t *start, size_t *end, struct err *err)
{
    uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    int found = pcre2_match(r->code, (PCRE2_SPTR)text, len, from, options, s->match, NULL);
    /* The interpreter keeps what it may go back to on the heap. */
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
        found = pcre2_match(r->code, (PCRE2_SPTR)text, len, from, options | PCRE2_NO_JIT, s->match,
                            NULL);
    *start = *end = len;
    if (found == PCRE2_ERROR_NOMATCH)
        return STATUS_OK;
    if (found < 0) {
        char why[128] = "";
        pcre2_get_error_message(found, (PCRE2_UCHAR *)why, sizeof why);
        return err_set(err, found == PCRE2_ERROR_NOMEMORY ? STATUS_NO_MEMORY : STATUS_INTERNAL,
                       "%s: the expression failed at byte %zu of %zu: %s", r->name, from, len, why);
    }
    *start = pcre2_get_ovector_pointer(s->match)[0];
    *end = pcre2_get_ovector_pointer(s->match)[1];
    return STATUS_OK;
}
