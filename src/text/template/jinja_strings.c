#include "text/template/jinja_strings.h"

#include "text/template/jinja_markup.h"
#include "text/template/jinja_text.h"
#include "text/template/jinja_utf8.h"

#include <string.h>
#include <utf8proc.h>

static struct jinja_string part_of(const struct jinja_string *s, size_t start, size_t end)
{
    return (struct jinja_string){.bytes = s->bytes + start,
                                 .origin = s->origin ? s->origin + start : NULL,
                                 .len = end - start,
                                 .trusted = s->trusted};
}

static bool is_letter(uint32_t code)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)code);
    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT;
}

/* Whether the character behind `previous` starts a word. */
static bool starts_word(uint32_t previous, enum jinja_strings_case how)
{
    if (how == CASE_TITLE)
        return !is_letter(previous);
    return jinja_utf8_is_space(previous) || (previous < 0x80 && strchr("-({[<", (int)previous));
}

/* Writes one character in its new case: simple mappings, and the one common that grows. */
static bool write_case(struct jinja_run *r, struct jinja_out *out, uint32_t code, bool upper,
                       bool title, bool trusted)
{
    utf8proc_int32_t c = (utf8proc_int32_t)code;
    char bytes[4];
    if (upper && code == 0xdf)
        return jinja_out_bytes(r, out, title ? "Ss" : "SS", 2, trusted);
    c = title ? utf8proc_totitle(c) : upper ? utf8proc_toupper(c) : utf8proc_tolower(c);
    return jinja_out_bytes(r, out, bytes, jinja_utf8_encode((uint32_t)c, bytes), trusted);
}

static bool write_cased(struct jinja_run *r, struct jinja_out *out, const struct jinja_string *s,
                        enum jinja_strings_case how)
{
    uint32_t previous = ' ';
    for (size_t pos = 0; pos < s->len;) {
        bool trusted = s->origin ? s->origin[pos] : s->trusted;
        bool first = how == CASE_CAPITALIZE ? pos == 0 : starts_word(previous, how);
        bool upper = how == CASE_UPPER || (how != CASE_LOWER && first);
        uint32_t code = jinja_utf8_next(s->bytes, s->len, &pos);
        if (!write_case(r, out, code, upper, how != CASE_UPPER && upper, trusted))
            return false;
        previous = code;
    }
    return true;
}

bool jinja_strings_case(struct jinja_run *r, const struct jinja_string *s,
                        enum jinja_strings_case how, struct jinja_value *out)
{
    struct jinja_capture c;
    jinja_capture_begin(&c);
    if (jinja_work(r, s->len * 8) && write_cased(r, &c.out, s, how))
        return jinja_capture_end(r, &c, out) &&
               (!s->markup || how == CASE_TITLE_FILTER || jinja_markup_set(r, out->s, true, out));
    jinja_capture_drop(&c);
    return false;
}

/* Whether the character of s at [start, end) is one to strip. */
static bool strips(const struct jinja_string *s, size_t start, size_t end,
                   const struct jinja_string *chars)
{
    struct jinja_string c = part_of(s, start, end);
    size_t pos = start;
    if (!chars)
        return jinja_utf8_is_space(jinja_utf8_next(s->bytes, s->len, &pos));
    return jinja_text_find(chars, &c, 0) != SIZE_MAX;
}

bool jinja_strings_strip(struct jinja_run *r, const struct jinja_string *s,
                         const struct jinja_string *chars, bool left, bool right,
                         struct jinja_value *out)
{
    size_t start = 0, end = s->len, per_char = chars ? chars->len + 1 : 1;
    while (left && start < end) {
        size_t next = start;
        jinja_utf8_next(s->bytes, end, &next);
        if (!strips(s, start, next, chars))
            break;
        if (!jinja_work(r, per_char))
            return false;
        start = next;
    }
    while (right && end > start) {
        size_t before = jinja_utf8_before(s->bytes, end);
        if (!strips(s, before, end, chars))
            break;
        if (!jinja_work(r, per_char))
            return false;
        end = before;
    }
    return jinja_work(r, s->len) && jinja_text_slice(r, s, start, end, out);
}

static bool write_replaced(struct jinja_run *r, struct jinja_out *out, const struct jinja_string *s,
                           const struct jinja_string *from, const struct jinja_string *to,
                           int64_t count)
{
    size_t done = 0, search = 0;
    for (; count != 0; count--) {
        size_t at = jinja_text_find(s, from, search);
        struct jinja_string between;
        if (at == SIZE_MAX)
            break;
        between = part_of(s, done, at);
        if (!jinja_step(r) || !jinja_out_string(r, out, &between) || !jinja_out_string(r, out, to))
            return false;
        done = search = at + from->len;
        if (from->len == 0 && search++ < s->len) { /* an empty `from` is between characters */
            while (search < s->len && ((uint8_t)s->bytes[search] & 0xc0) == 0x80)
                search++;
        }
    }
    struct jinja_string rest = part_of(s, done, s->len);
    return jinja_out_string(r, out, &rest);
}

bool jinja_strings_replace(struct jinja_run *r, const struct jinja_string *s,
                           const struct jinja_string *from, const struct jinja_string *to,
                           int64_t count, struct jinja_value *out)
{
    struct jinja_capture c;
    if (!jinja_work(r, s->len))
        return false;
    if (jinja_text_find(s, from, 0) == SIZE_MAX) {
        *out = (struct jinja_value){.type = JINJA_STRING, .s = s};
        return true;
    }
    jinja_capture_begin(&c);
    if (write_replaced(r, &c.out, s, from, to, count))
        return jinja_capture_end(r, &c, out);
    jinja_capture_drop(&c);
    return false;
}

static bool jinja_strings_add_part(struct jinja_run *r, struct jinja_list *list,
                                   const struct jinja_string *s, size_t start, size_t end)
{
    struct jinja_value part;
    return jinja_step(r) && jinja_text_slice(r, s, start, end, &part) &&
           jinja_list_add(r, list, part);
}

static bool split_at(struct jinja_run *r, const struct jinja_string *s,
                     const struct jinja_string *sep, int64_t max, struct jinja_list *list)
{
    size_t start = 0;
    for (; max != 0; max--) {
        size_t at = jinja_text_find(s, sep, start);
        if (at == SIZE_MAX)
            break;
        if (!jinja_strings_add_part(r, list, s, start, at))
            return false;
        start = at + sep->len;
    }
    return jinja_strings_add_part(r, list, s, start, s->len);
}

static size_t jinja_strings_skip_space(const struct jinja_string *s, size_t pos)
{
    return pos + jinja_utf8_space_prefix(s->bytes + pos, s->len - pos);
}

static size_t skip_word(const struct jinja_string *s, size_t pos)
{
    while (pos < s->len) {
        size_t next = pos;
        if (jinja_utf8_is_space(jinja_utf8_next(s->bytes, s->len, &next)))
            break;
        pos = next;
    }
    return pos;
}

static bool split_words(struct jinja_run *r, const struct jinja_string *s, int64_t max,
                        struct jinja_list *list)
{
    size_t pos = jinja_strings_skip_space(s, 0);
    for (; pos < s->len && max != 0; max--) {
        size_t end = skip_word(s, pos);
        if (!jinja_strings_add_part(r, list, s, pos, end))
            return false;
        pos = jinja_strings_skip_space(s, end);
    }
    return pos >= s->len ||
           jinja_strings_add_part(r, list, s, pos, jinja_utf8_trimmed_len(s->bytes, s->len));
}

static bool check_separator(struct jinja_run *r, const struct jinja_string *sep)
{
    return !sep || sep->len > 0 ||
           jinja_fail(r, STATUS_INVALID, "split: expected a separator, found an empty string");
}

bool jinja_strings_split(struct jinja_run *r, const struct jinja_string *s,
                         const struct jinja_string *sep, int64_t max, struct jinja_value *out)
{
    struct jinja_list *list = jinja_list_new(r, 0);
    if (!list || !jinja_work(r, s->len) || !check_separator(r, sep))
        return false;
    *out = jinja_list_value(list);
    return sep ? split_at(r, s, sep, max, list) : split_words(r, s, max, list);
}

/* The last `max` separators only: split everywhere, then join the surplus at the front again. */
bool jinja_strings_rsplit(struct jinja_run *r, const struct jinja_string *s,
                          const struct jinja_string *sep, int64_t max, struct jinja_value *out)
{
    struct jinja_list *list;
    const struct jinja_string *last;
    size_t surplus;
    if (!jinja_strings_split(r, s, sep, -1, out) || max < 0)
        return max < 0 && r->status == STATUS_OK;
    list = out->list;
    if ((int64_t)list->count <= max + 1)
        return true;
    surplus = list->count - (size_t)max - 1;
    last = list->items[surplus].s;
    if (!jinja_text_slice(r, s, !sep ? jinja_strings_skip_space(s, 0) : 0,
                          (size_t)(last->bytes - s->bytes) + last->len, &list->items[surplus]))
        return false;
    list->items += surplus;
    list->count -= surplus;
    list->cap -= surplus;
    return true;
}

bool jinja_strings_lines(struct jinja_run *r, const struct jinja_string *s, bool keep_ends,
                         struct jinja_value *out)
{
    struct jinja_list *list = jinja_list_new(r, 0);
    size_t start = 0;
    for (size_t i = 0; list && i < s->len; i++) {
        size_t end = i;
        if (s->bytes[i] != '\n' && s->bytes[i] != '\r')
            continue;
        if (s->bytes[i] == '\r' && i + 1 < s->len && s->bytes[i + 1] == '\n')
            i++;
        if (!jinja_strings_add_part(r, list, s, start, keep_ends ? i + 1 : end))
            return false;
        start = i + 1;
    }
    if (!list || !jinja_work(r, s->len))
        return false;
    *out = jinja_list_value(list);
    return start >= s->len || jinja_strings_add_part(r, list, s, start, s->len);
}

static bool write_joined(struct jinja_run *r, struct jinja_out *out, const struct jinja_list *list,
                         const struct jinja_string *sep)
{
    for (size_t i = 0; i < list->count; i++) {
        if (!jinja_step(r) || (i > 0 && !jinja_out_string(r, out, sep)) ||
            !jinja_write_str(r, out, list->items[i]))
            return false;
    }
    return true;
}

bool jinja_strings_join(struct jinja_run *r, const struct jinja_list *list,
                        const struct jinja_string *sep, struct jinja_value *out)
{
    struct jinja_capture c;
    jinja_capture_begin(&c);
    if (write_joined(r, &c.out, list, sep))
        return jinja_capture_end(r, &c, out);
    jinja_capture_drop(&c);
    return false;
}
