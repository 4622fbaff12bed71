#include "text/tokenizer/normalize.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "text/tokenizer/regex.h"

#include <string.h>
#include <utf8proc.h>

/* A step at work: it reads text[0, len) and writes to out. */
struct run {
    const struct normalize_step *step;
    struct normalize_scratch *scratch;
    const char *text;
    size_t len;
    const uint8_t *trusted; /* (len) or NULL */
    struct normalize_text *out;
    struct err *err;
};

static enum status normalize_no_memory(struct err *err)
{
    return err_set(err, STATUS_NO_MEMORY, "no memory to normalize a text");
}

/* --- writing -------------------------------------------------------------------------------- */

/* text[from, from + n) as it is. */
static void normalize_copy(const struct run *r, size_t from, size_t n)
{
    buf_append(&r->out->bytes, r->text + from, n);
    if (r->trusted)
        buf_append(&r->out->trusted, r->trusted + from, n);
}

/* n bytes in place of text[from, from + from_n). */
static void normalize_put(const struct run *r, const char *bytes, size_t n, size_t from,
                          size_t from_n)
{
    char trusted = 1;
    buf_append(&r->out->bytes, bytes, n);
    if (!r->trusted)
        return;
    for (size_t i = 0; i < from_n; i++)
        trusted = (char)(trusted && r->trusted[from + i]);
    for (size_t i = 0; i < n; i++)
        buf_putc(&r->out->trusted, trusted);
}

/* --- the normalization forms ---------------------------------------------------------------- */

static bool normalize_reserve(struct normalize_scratch *s, size_t count)
{
    if (count <= s->cap)
        return true;
    size_t cap = count + count / 2 + 64;
    int32_t *grown = mem_resize(s->code_points, cap * sizeof *grown);
    if (!grown)
        return false;
    s->code_points = grown;
    s->cap = cap;
    return true;
}

static unsigned combining_class(int32_t code_point)
{
    return utf8proc_get_property(code_point)->combining_class & 255;
}

/* Sorts marks by their class, those of one class in the order they had. Runs of a few are the rule;
 * of many, which text made to be slow has, each class is collected in one pass. */
static bool sort_marks(int32_t *marks, size_t n)
{
    uint32_t starts[257] = {0};
    if (n <= 16) {
        for (size_t i = 1; i < n; i++) {
            int32_t mark = marks[i];
            size_t at = i;
            for (; at > 0 && combining_class(marks[at - 1]) > combining_class(mark); at--)
                marks[at] = marks[at - 1];
            marks[at] = mark;
        }
        return true;
    }
    int32_t *sorted = mem_alloc(n * sizeof *sorted);
    if (!sorted)
        return false;
    for (size_t i = 0; i < n; i++)
        starts[combining_class(marks[i]) + 1]++;
    for (int c = 0; c < 256; c++)
        starts[c + 1] += starts[c];
    for (size_t i = 0; i < n; i++)
        sorted[starts[combining_class(marks[i])]++] = marks[i];
    memcpy(marks, sorted, n * sizeof *sorted);
    mem_free(sorted);
    return true;
}

static bool sort_all_marks(int32_t *code_points, size_t n)
{
    for (size_t at = 0, end; at < n; at = end + 1) {
        end = at;
        while (end < n && combining_class(code_points[end]) != 0)
            end++;
        if (end - at > 1 && !sort_marks(code_points + at, end - at))
            return false;
    }
    return true;
}

static utf8proc_option_t options_of(enum normalize_kind kind)
{
    bool composed = kind == NORMALIZE_NFC || kind == NORMALIZE_NFKC;
    bool compatible = kind == NORMALIZE_NFKC || kind == NORMALIZE_NFKD;
    return (utf8proc_option_t)(UTF8PROC_STABLE |
                               (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                               (compatible ? UTF8PROC_COMPAT : 0));
}

/* Decomposes text[from, from + n) into the scratch; *count code points. */
static bool decompose(const struct run *r, size_t from, size_t n, size_t *count)
{
    enum { MOST = 32 }; /* code points that one decomposes to; Unicode's longest has 18 */
    struct normalize_scratch *s = r->scratch;
    utf8proc_option_t options = options_of(r->step->kind);
    size_t step;
    *count = 0;
    for (size_t at = from; at < from + n; at += step) {
        int boundary = 0;
        if (!normalize_reserve(s, *count + MOST))
            return false;
        (void)utf8_step(r->text + at, r->len - at, &step);
        utf8proc_ssize_t wrote =
            utf8proc_decompose_char((utf8proc_int32_t)utf8_code_point(r->text + at, step),
                                    s->code_points + *count, MOST, options, &boundary);
        REQUIRE(wrote >= 0 && wrote <= MOST);
        *count += (size_t)wrote;
    }
    return true;
}

/* Normalizes text[from, from + n), which nothing around it has an influence on. */
static enum status compose(const struct run *r, size_t from, size_t n)
{
    size_t count;
    if (!decompose(r, from, n, &count) || !sort_all_marks(r->scratch->code_points, count))
        return normalize_no_memory(r->err);
    if (options_of(r->step->kind) & UTF8PROC_COMPOSE) {
        utf8proc_ssize_t left = utf8proc_normalize_utf32(
            r->scratch->code_points, (utf8proc_ssize_t)count, options_of(r->step->kind));
        REQUIRE(left >= 0);
        count = (size_t)left;
    }
    struct buf *out = &r->out->bytes;
    size_t before = out->len;
    for (size_t i = 0; i < count; i++) {
        utf8proc_uint8_t bytes[4];
        utf8proc_ssize_t len = utf8proc_encode_char(r->scratch->code_points[i], bytes);
        buf_append(out, bytes, (size_t)len);
    }
    if (out->failed || !r->trusted)
        return STATUS_OK;
    size_t wrote = out->len - before;
    if (wrote == n && memcmp(out->data + before, r->text + from, n) == 0) {
        buf_append(&r->out->trusted, r->trusted + from, n);
        return STATUS_OK;
    }
    out->len = before; /* the same bytes again, now with what they are made of */
    char *again = mem_strndup(out->data + before, wrote);
    if (!again)
        return normalize_no_memory(r->err);
    normalize_put(r, again, wrote, from, n);
    mem_free(again);
    return STATUS_OK;
}

/* Nothing below U+0300 changes in NFC or composes with what is before it; nothing below U+0080 ever
 * does. The text between two such places is normalized by itself. */
static enum status run_form(const struct run *r)
{
    unsigned char plain = r->step->kind == NORMALIZE_NFC ? 0xcc : 0x80; /* lead bytes below */
    enum status status = STATUS_OK;
    for (size_t at = 0, end; status == STATUS_OK && at < r->len; at = end) {
        end = at;
        while (end < r->len && (unsigned char)r->text[end] < plain)
            end++;
        if (end == r->len) {
            normalize_copy(r, at, end - at);
            break;
        }
        size_t last = end; /* the plain character that what follows may compose with */
        if (last > at)
            do
                last--;
            while (last > at && ((unsigned char)r->text[last] & 0xc0) == 0x80);
        normalize_copy(r, at, last - at);
        while (
            end < r->len && (unsigned char)r->text[end] >= 0x80 &&
            ((unsigned char)r->text[end] >= plain || ((unsigned char)r->text[end] & 0xc0) == 0x80))
            end++;
        status = compose(r, last, end - last);
    }
    return status;
}

/* --- the other steps ------------------------------------------------------------------------ */

static enum status run_lowercase(const struct run *r)
{
    size_t n;
    for (size_t at = 0; at < r->len; at += n) {
        (void)utf8_step(r->text + at, r->len - at, &n);
        utf8proc_int32_t c = (utf8proc_int32_t)utf8_code_point(r->text + at, n);
        utf8proc_uint8_t bytes[4];
        if (c == 0x130) { /* the one whose small letter is two code points */
            normalize_put(r, "i\xcc\x87", 3, at, n);
            continue;
        }
        utf8proc_int32_t lower = utf8proc_tolower(c);
        if (lower == c)
            normalize_copy(r, at, n);
        else
            normalize_put(r, (char *)bytes, (size_t)utf8proc_encode_char(lower, bytes), at, n);
    }
    return STATUS_OK;
}

/* Unicode's White_Space. */
static bool normalize_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

static enum status run_strip(const struct run *r)
{
    size_t first = r->len, last = 0, n;
    for (size_t at = 0; at < r->len; at += n) {
        (void)utf8_step(r->text + at, r->len - at, &n);
        if (normalize_is_space(utf8_code_point(r->text + at, n)))
            continue;
        first = at < first ? at : first;
        last = at + n;
    }
    if (!r->step->left && first < r->len)
        first = 0;
    if (!r->step->right && first < r->len)
        last = r->len;
    if (first < last)
        normalize_copy(r, first, last - first);
    return STATUS_OK;
}

static enum status run_prepend(const struct run *r)
{
    if (r->len > 0)
        normalize_put(r, r->step->to, strlen(r->step->to), 0, 1);
    normalize_copy(r, 0, r->len);
    return STATUS_OK;
}

static enum status run_replace_text(const struct run *r)
{
    const char *from = r->step->from, *to = r->step->to;
    size_t n = strlen(from), to_len = strlen(to), at = 0;
    while (at < r->len) {
        const char *found = memmem(r->text + at, r->len - at, from, n);
        size_t place = found ? (size_t)(found - r->text) : r->len;
        normalize_copy(r, at, place - at);
        at = place;
        if (found) {
            normalize_put(r, to, to_len, place, n);
            at += n;
        }
    }
    return STATUS_OK;
}

static enum status run_replace(const struct run *r)
{
    if (r->step->from)
        return run_replace_text(r);
    struct regex_scratch *s = regex_scratch_open();
    enum status status = s ? STATUS_OK : normalize_no_memory(r->err);
    for (size_t at = 0, start, end; status == STATUS_OK && at < r->len; at = end) {
        status = regex_find(r->step->regex, s, r->text, r->len, at, &start, &end, r->err);
        if (status != STATUS_OK)
            break;
        normalize_copy(r, at, start - at);
        if (start < end)
            normalize_put(r, r->step->to, strlen(r->step->to), start, end - start);
    }
    regex_scratch_close(s);
    return status;
}

static enum status run_one_space(const struct run *r)
{
    bool pending = false;
    size_t wrote = r->out->bytes.len;
    for (size_t at = 0; at < r->len; at++) {
        if (r->text[at] == ' ') {
            pending = r->out->bytes.len > wrote;
            continue;
        }
        if (pending)
            normalize_put(r, " ", 1, at - 1, 1);
        normalize_copy(r, at, 1);
        pending = false;
    }
    return STATUS_OK;
}

static enum status (*const runs[])(const struct run *r) = {
    [NORMALIZE_NFC] = run_form,
    [NORMALIZE_NFD] = run_form,
    [NORMALIZE_NFKC] = run_form,
    [NORMALIZE_NFKD] = run_form,
    [NORMALIZE_LOWERCASE] = run_lowercase,
    [NORMALIZE_STRIP] = run_strip,
    [NORMALIZE_PREPEND] = run_prepend,
    [NORMALIZE_REPLACE] = run_replace,
    [NORMALIZE_ONE_SPACE] = run_one_space,
};

/* --- all of them ---------------------------------------------------------------------------- */

static enum status normalize_repair(const struct run *r)
{
    size_t n;
    for (size_t at = 0; at < r->len; at += n) {
        n = utf8_valid_prefix(r->text + at, r->len - at);
        if (n > 0) {
            normalize_copy(r, at, n);
            continue;
        }
        (void)utf8_step(r->text + at, r->len - at, &n);
        normalize_put(r, UTF8_REPLACEMENT, UTF8_REPLACEMENT_LEN, at, n);
    }
    return STATUS_OK;
}

/* Runs a step on what r has, which then has what the step wrote. */
static enum status take_step(struct run *r, enum status (*step)(const struct run *r))
{
    struct normalize_scratch *s = r->scratch;
    r->out = &s->text[r->out == &s->text[0]];
    buf_clear(&r->out->bytes);
    buf_clear(&r->out->trusted);
    enum status status = step(r);
    if (status == STATUS_OK && (r->out->bytes.failed || r->out->trusted.failed))
        status = normalize_no_memory(r->err);
    r->text = buf_str(&r->out->bytes);
    r->len = r->out->bytes.len;
    if (r->trusted)
        r->trusted = (const uint8_t *)buf_str(&r->out->trusted);
    return status;
}

enum status normalize_run(const struct normalize *n, struct normalize_scratch *s, const char *text,
                          size_t len, const uint8_t *trusted, const char **out, size_t *out_len,
                          const uint8_t **out_trusted, struct err *err)
{
    struct run r = {.scratch = s, .text = text, .len = len, .trusted = trusted, .err = err};
    enum status status = STATUS_OK;
    if (utf8_valid_prefix(text, len) < len)
        status = take_step(&r, normalize_repair);
    for (int i = 0; status == STATUS_OK && i < n->n_steps; i++) {
        r.step = &n->steps[i];
        status = take_step(&r, runs[r.step->kind]);
    }
    *out = r.text;
    *out_len = r.len;
    *out_trusted = r.trusted;
    return status;
}

void normalize_scratch_fini(struct normalize_scratch *s)
{
    for (int i = 0; i < 2; i++) {
        buf_fini(&s->text[i].bytes);
        buf_fini(&s->text[i].trusted);
    }
    mem_free(s->code_points);
    *s = (struct normalize_scratch){0};
}

static void normalize_close_step(struct normalize_step *step)
{
    mem_free(step->from);
    mem_free(step->to);
    regex_close(step->regex);
}

enum status normalize_add(struct normalize *n, struct normalize_step step, struct err *err)
{
    if (n->n_steps < NORMALIZE_STEPS) {
        n->steps[n->n_steps++] = step;
        return STATUS_OK;
    }
    normalize_close_step(&step);
    return err_set(err, STATUS_UNSUPPORTED, "expected at most %d normalizers", NORMALIZE_STEPS);
}

void normalize_close(struct normalize *n)
{
    for (int i = 0; i < n->n_steps; i++)
        normalize_close_step(&n->steps[i]);
    *n = (struct normalize){0};
}
