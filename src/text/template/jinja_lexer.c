#include "text/template/jinja_lexer.h"

#include "base/utf8.h"
#include "text/template/jinja_utf8.h"

#include <string.h>

struct lexer {
    struct arena *arena;
    struct err *err;
    const char *source; /* (len), newlines are all \n */
    size_t len;
    size_t pos;
    int line;
    bool at_line_start; /* what was consumed last ended in a newline (or nothing was) */
    struct jinja_tokens *out;
    size_t cap;
};

static enum status jinja_lexer_fail(struct lexer *l, const char *expected)
{
    return err_set(l->err, STATUS_INVALID, "line %d: %s", l->line, expected);
}

enum status jinja_lexer_no_memory(const struct arena *arena, int line, struct err *err)
{
    if (arena->exhausted)
        return err_set(err, STATUS_TOO_LARGE, "line %d: the template needs over %zu bytes", line,
                       arena->limit);
    return err_set(err, STATUS_NO_MEMORY, "no memory to compile the template");
}

static enum status jinja_lexer_push(struct lexer *l, enum jinja_token_kind kind, int op,
                                    const char *bytes, size_t len)
{
    struct jinja_tokens *out = l->out;
    if (out->count == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 64;
        struct jinja_token *items = arena_array(l->arena, cap, sizeof *items);
        if (!items)
            return jinja_lexer_no_memory(l->arena, l->line, l->err);
        if (out->count > 0)
            memcpy(items, out->items, out->count * sizeof *items);
        out->items = items;
        l->cap = cap;
    }
    out->items[out->count++] = (struct jinja_token){
        .kind = (uint8_t)kind, .op = (uint8_t)op, .line = l->line, .bytes = bytes, .len = len};
    return STATUS_OK;
}

/* Moves to `pos`, which is not before l->pos, and counts the lines passed. */
static void jinja_lexer_advance(struct lexer *l, size_t pos)
{
    if (pos > l->pos)
        l->at_line_start = l->source[pos - 1] == '\n';
    for (; l->pos < pos; l->pos++)
        l->line += l->source[l->pos] == '\n';
}

static bool looking_at(const struct lexer *l, size_t pos, const char *text)
{
    size_t n = strlen(text);
    return n <= l->len - pos && memcmp(l->source + pos, text, n) == 0;
}

static size_t jinja_lexer_skip_space(const struct lexer *l, size_t pos)
{
    return pos + jinja_utf8_space_prefix(l->source + pos, l->len - pos);
}

/* The next occurrence of `text` at or after pos, or l->len. */
static size_t jinja_lexer_find(const struct lexer *l, size_t pos, const char *text)
{
    const char *at = memmem(l->source + pos, l->len - pos, text, strlen(text));
    return at ? (size_t)(at - l->source) : l->len;
}

/* The end of source's text that a tag with `sign` leaves: `-` takes all white space before it, and
 * lstrip_blocks takes the blanks between the start of the line and a tag that is not {{. */
static size_t text_end(const struct lexer *l, size_t start, size_t end, char sign, bool lstrip)
{
    const char *text = l->source + start;
    size_t len = end - start, line = len;
    if (sign == '-')
        return start + jinja_utf8_trimmed_len(text, len);
    if (sign == '+' || !lstrip)
        return end;
    while (line > 0 && text[line - 1] != '\n')
        line--;
    if (line == 0 && !l->at_line_start)
        return end;
    return jinja_lexer_skip_space(l, start + line) >= end ? start + line : end;
}

static char sign_at(const struct lexer *l, size_t pos)
{
    char c = pos < l->len ? l->source[pos] : '\0';
    return c == '-' || c == '+' ? c : '\0';
}

/* Behind a tag's closing mark at `pos`: `-` takes white space, trim_blocks one newline. */
static size_t after_tag(const struct lexer *l, size_t pos, char sign, bool trim)
{
    if (sign == '-')
        return jinja_lexer_skip_space(l, pos);
    if (sign != '+' && trim && pos < l->len && l->source[pos] == '\n')
        return pos + 1;
    return pos;
}

static enum status lex_comment(struct lexer *l, size_t begin)
{
    size_t end = jinja_lexer_find(l, begin, "#}");
    char sign;
    if (end == l->len)
        return jinja_lexer_fail(l,
                                "expected '#}' to end the comment, found the end of the template");
    sign = end > begin ? sign_at(l, end - 1) : '\0';
    jinja_lexer_advance(l, after_tag(l, end + 2, sign, true));
    return STATUS_OK;
}

/* Reads `{%`, a sign, the one word `word` and `%}` at pos. Returns the position behind, or 0. */
static size_t match_word_tag(const struct lexer *l, size_t pos, const char *word, char *sign,
                             bool trim)
{
    char end_sign;
    *sign = sign_at(l, pos + 2);
    pos = jinja_lexer_skip_space(l, pos + 2 + (*sign != '\0'));
    if (!looking_at(l, pos, word))
        return 0;
    pos = jinja_lexer_skip_space(l, pos + strlen(word));
    end_sign = sign_at(l, pos);
    if (end_sign == '+' && !trim) /* jinja2 has no +%} behind raw */
        return 0;
    pos += end_sign != '\0';
    return looking_at(l, pos, "%}") ? after_tag(l, pos + 2, end_sign, trim) : 0;
}

static enum status lex_raw(struct lexer *l, size_t begin)
{
    jinja_lexer_advance(l, begin);
    for (size_t pos = jinja_lexer_find(l, begin, "{%"); pos < l->len;
         pos = jinja_lexer_find(l, pos + 2, "{%")) {
        char sign;
        size_t behind = match_word_tag(l, pos, "endraw", &sign, true);
        size_t end;
        enum status st;
        if (behind == 0)
            continue;
        end = text_end(l, begin, pos, sign, true);
        st = end > begin ? jinja_lexer_push(l, TOKEN_TEXT, 0, l->source + begin, end - begin)
                         : STATUS_OK;
        jinja_lexer_advance(l, behind);
        return st;
    }
    return jinja_lexer_fail(l, "expected '{% endraw %}', found the end of the template");
}

static int jinja_lexer_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads exactly `digits` hexadecimal digits at *pos. */
static bool read_hex(const char *text, size_t len, size_t *pos, int digits, uint32_t *code)
{
    *code = 0;
    for (int i = 0; i < digits; i++, ++*pos) {
        int digit = *pos < len ? jinja_lexer_hex_digit(text[*pos]) : -1;
        if (digit < 0)
            return false;
        *code = *code << 4 | (uint32_t)digit;
    }
    return true;
}

static uint32_t read_octal(const char *text, size_t len, size_t *pos)
{
    uint32_t code = 0;
    for (int i = 0; i < 3 && *pos < len && text[*pos] >= '0' && text[*pos] <= '7'; i++)
        code = code * 8 + (uint32_t)(text[(*pos)++] - '0');
    return code;
}

/* Replaces the escape behind a backslash (text[*pos]); writes at most 5 bytes. False: malformed. */
static bool jinja_lexer_unescape(const char *text, size_t len, size_t *pos, char *out,
                                 size_t *out_len)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    char c = text[*pos];
    const char *at = memchr(from, c, sizeof from - 1);
    uint32_t code;
    if (c == '\n' || at) {
        ++*pos;
        if (at)
            out[(*out_len)++] = to[at - from];
        return true;
    }
    if (c >= '0' && c <= '7') {
        code = read_octal(text, len, pos);
    } else if (c == 'x' || c == 'u' || c == 'U') {
        ++*pos;
        if (!read_hex(text, len, pos, c == 'x' ? 2 : c == 'u' ? 4 : 8, &code))
            return false;
    } else if (c == 'N') {
        return false;
    } else {
        out[(*out_len)++] = '\\'; /* not an escape: the backslash stays */
        return true;
    }
    size_t n = jinja_utf8_encode(code, out + *out_len);
    *out_len += n;
    return n > 0;
}

static enum status lex_string(struct lexer *l)
{
    char quote = l->source[l->pos];
    size_t end = l->pos + 1, used = 0;
    while (end < l->len && l->source[end] != quote)
        end += l->source[end] == '\\' ? 2 : 1;
    if (end >= l->len)
        return jinja_lexer_fail(
            l, "expected a quote to end the string, found the end of the template");
    const char *text = l->source + l->pos + 1;
    size_t len = end - l->pos - 1;
    char *out = arena_alloc(l->arena, len + 4);
    if (!out)
        return jinja_lexer_no_memory(l->arena, l->line, l->err);
    for (size_t pos = 0; pos < len;) {
        if (text[pos] != '\\') {
            out[used++] = text[pos++];
            continue;
        }
        pos++;
        if (!jinja_lexer_unescape(text, len, &pos, out, &used))
            return jinja_lexer_fail(l, "expected a string escape, found a malformed one");
    }
    enum status st = jinja_lexer_push(l, TOKEN_STRING, 0, out, used);
    jinja_lexer_advance(l, end + 1);
    return st;
}

static bool jinja_lexer_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool jinja_lexer_is_name(char c)
{
    return jinja_lexer_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           c == '_' || (uint8_t)c >= 0x80;
}

static size_t skip_digits(const struct lexer *l, size_t pos)
{
    while (pos < l->len &&
           (jinja_lexer_is_digit(l->source[pos]) || (l->source[pos] == '_' && pos + 1 < l->len &&
                                                     jinja_lexer_is_digit(l->source[pos + 1]))))
        pos++;
    return pos;
}

static enum status lex_number(struct lexer *l)
{
    size_t end = skip_digits(l, l->pos), mark = end;
    enum jinja_token_kind kind = TOKEN_INT;
    bool attribute = l->pos > 0 && l->source[l->pos - 1] == '.'; /* x.0.1 is two subscripts */
    enum status st;
    if (!attribute && end + 1 < l->len && l->source[end] == '.' &&
        jinja_lexer_is_digit(l->source[end + 1])) {
        kind = TOKEN_FLOAT;
        mark = end = skip_digits(l, end + 1);
    }
    if (!attribute && end < l->len && (l->source[end] | 0x20) == 'e') {
        end += 1 + (sign_at(l, end + 1) != '\0');
        if (end < l->len && jinja_lexer_is_digit(l->source[end])) {
            kind = TOKEN_FLOAT;
            mark = skip_digits(l, end);
        }
    }
    st = jinja_lexer_push(l, kind, 0, l->source + l->pos, mark - l->pos);
    jinja_lexer_advance(l, mark);
    return st;
}

static enum status lex_name(struct lexer *l)
{
    size_t end = l->pos;
    enum status st;
    while (end < l->len && jinja_lexer_is_name(l->source[end]))
        end++;
    st = jinja_lexer_push(l, TOKEN_NAME, 0, l->source + l->pos, end - l->pos);
    jinja_lexer_advance(l, end);
    return st;
}

static enum status lex_op(struct lexer *l, int *brackets)
{
    static const struct {
        char text[3];
        int op;
    } two[] = {{"==", OP_EQ}, {"!=", OP_NE},       {"<=", OP_LE},
               {">=", OP_GE}, {"//", OP_FLOORDIV}, {"**", OP_POW}};
    char c = l->source[l->pos];
    int op = (uint8_t)c;
    size_t len = 1;
    enum status st;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++) {
        if (looking_at(l, l->pos, two[i].text)) {
            op = two[i].op;
            len = 2;
        }
    }
    if (len == 1 && (c == '\0' || !strchr("+-*/%~[](){}<>=.:|,;", c)))
        return err_set(l->err, STATUS_INVALID,
                       "line %d: expected an expression, found the character 0x%02x", l->line,
                       (uint8_t)c);
    if (strchr("([{", op))
        ++*brackets;
    if (strchr(")]}", op) && *brackets > 0)
        --*brackets;
    st = jinja_lexer_push(l, TOKEN_OP, op, l->source + l->pos, len);
    jinja_lexer_advance(l, l->pos + len);
    return st;
}

/* The tag's end at pos: pushes it and returns true. */
static bool lex_tag_end(struct lexer *l, bool block, enum status *st)
{
    char sign = sign_at(l, l->pos);
    size_t pos = l->pos + (sign != '\0');
    if ((sign == '+' && !block) || !looking_at(l, pos, block ? "%}" : "}}"))
        return false;
    *st = jinja_lexer_push(l, block ? TOKEN_BLOCK_END : TOKEN_PRINT_END, 0, l->source + pos, 2);
    jinja_lexer_advance(l, after_tag(l, pos + 2, sign, block));
    return true;
}

/* The tokens between {{ and }} or {% and %}. Inside brackets the closing mark does not count. */
static enum status lex_tag(struct lexer *l, bool block)
{
    int brackets = 0;
    enum status st = STATUS_OK;
    while (st == STATUS_OK) {
        jinja_lexer_advance(l, jinja_lexer_skip_space(l, l->pos));
        if (l->pos >= l->len)
            return jinja_lexer_fail(l, block ? "expected '%}', found the end of the template"
                                             : "expected '}}', found the end of the template");
        char c = l->source[l->pos];
        if (brackets == 0 && lex_tag_end(l, block, &st))
            return st;
        if (c == '"' || c == '\'')
            st = lex_string(l);
        else if (jinja_lexer_is_digit(c))
            st = lex_number(l);
        else if (jinja_lexer_is_name(c))
            st = lex_name(l);
        else
            st = lex_op(l, &brackets);
    }
    return st;
}

/* The next {{, {% or {#, or l->len. */
static size_t find_tag(const struct lexer *l)
{
    for (size_t pos = l->pos; pos + 1 < l->len; pos++) {
        const char *at = memchr(l->source + pos, '{', l->len - 1 - pos);
        if (!at)
            break;
        pos = (size_t)(at - l->source);
        if (at[1] == '{' || at[1] == '%' || at[1] == '#')
            return pos;
    }
    return l->len;
}

static enum status lex_part(struct lexer *l)
{
    size_t tag = find_tag(l), start = l->pos, end = tag, raw;
    char mark = tag < l->len ? l->source[tag + 1] : '\0', sign = sign_at(l, tag + 2);
    enum status st = STATUS_OK;
    if (mark != '\0')
        end = text_end(l, start, tag, sign, mark != '{');
    if (end > start)
        st = jinja_lexer_push(l, TOKEN_TEXT, 0, l->source + start, end - start);
    jinja_lexer_advance(l, tag);
    if (st != STATUS_OK || mark == '\0')
        return st;
    if (mark == '#')
        return lex_comment(l, tag + 2 + (sign != '\0'));
    if (mark == '%' && (raw = match_word_tag(l, tag, "raw", &sign, false)) != 0)
        return lex_raw(l, raw);
    st = jinja_lexer_push(l, mark == '%' ? TOKEN_BLOCK : TOKEN_PRINT, 0, l->source + tag, 2);
    jinja_lexer_advance(l, tag + 2 + (sign != '\0'));
    return st == STATUS_OK ? lex_tag(l, mark == '%') : st;
}

/* A copy with every newline as \n and without the last one. */
static enum status normalize(struct lexer *l, const char *source, size_t len)
{
    char *copy = arena_alloc(l->arena, len + 1);
    if (!copy)
        return jinja_lexer_no_memory(l->arena, l->line, l->err);
    for (size_t i = 0; i < len; i++) {
        if (source[i] == '\r' && i + 1 < len && source[i + 1] == '\n')
            continue;
        copy[l->len++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (l->len > 0 && copy[l->len - 1] == '\n')
        l->len--;
    copy[l->len] = '\0';
    l->source = copy;
    return STATUS_OK;
}

enum status jinja_lexer_run(struct arena *arena, const char *source, size_t len,
                            struct jinja_tokens *out, struct err *err)
{
    struct lexer l = {.arena = arena, .err = err, .line = 1, .at_line_start = true, .out = out};
    enum status st;
    *out = (struct jinja_tokens){0};
    if (utf8_valid_prefix(source, len) < len)
        return err_set(err, STATUS_INVALID, "expected a template in UTF-8, found other bytes");
    st = normalize(&l, source, len);
    while (st == STATUS_OK && l.pos < l.len)
        st = lex_part(&l);
    return st == STATUS_OK ? jinja_lexer_push(&l, TOKEN_END, 0, "", 0) : st;
}
