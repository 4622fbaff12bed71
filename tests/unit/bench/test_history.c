/* The record table. */
#include "bench/history.h"
#include "support/cmocka_all.h"
#include "text/utf8.h"

#include <string.h>

static struct result make(const char *date, const char *note)
{
    struct result r;
    result_init(&r, "streaming", note, json_object(),
                json_pack("{s:s, s:s}", "engine", "cpu", "model", "tiny"));
    json_object_set_new(r.root, "date", json_string(date));
    return r;
}

/* One row a date, the oldest first; files of one date stay in order. */
static void test_sorted_by_date(void **state)
{
    (void)state;
    struct result r[] = {make("2026-11-22T00:00:00Z", "third"), make("2026-11-21T00:00:00Z", "one"),
                         make("2026-11-21T00:00:00Z", "two")};
    result_metric(&r[0], "tokens_per_s", "tokens/s", RESULT_HIGHER, 1);
    result_metric(&r[0], "tokens_per_s", "tokens/s", RESULT_HIGHER, 1234.56);
    result_metric(&r[0], "tokens_per_s", "tokens/s", RESULT_HIGHER, 2000);
    result_metric(&r[1], "ttft_p50", "ms", RESULT_LOWER, 12.34);
    struct buf text = {0};
    history_text(r, 3, &text);
    assert_string_equal(
        buf_str(&text),
        "date                  engine  model  kind       tokens/s  TTFT p50  note\n"
        "2026-11-21T00:00:00Z  cpu     tiny   streaming         -   12.3 ms  one\n"
        "2026-11-21T00:00:00Z  cpu     tiny   streaming         -         -  two\n"
        "2026-11-22T00:00:00Z  cpu     tiny   streaming    1234.6         -  third\n");
    buf_fini(&text);
    for (int i = 0; i < 3; i++)
        result_fini(&r[i]);
}

/* A file may come from anywhere: what it says is shown, not obeyed. */
static void test_text_of_others(void **state)
{
    (void)state;
    struct result r = make("2026-11-22T00:00:00Z", "a\x1b[2Jb\nc\xc2\x9b"
                                                   "d \xc3\xa9");
    json_t *environment = json_object_get(r.root, "environment");
    json_object_set_new(environment, "engine", json_integer(5)); /* no text */
    json_object_set_new(environment, "model", json_string("mod\xc3\xa8le"));
    struct buf text = {0};
    history_text(&r, 1, &text);
    assert_non_null(strstr(buf_str(&text), "a [2Jb c  d \xc3\xa9\n"));
    assert_non_null(strstr(buf_str(&text), "-       mod\xc3\xa8le  streaming"));
    buf_fini(&text);
    result_fini(&r);
}

static void test_long_note_ends_in_a_character(void **state)
{
    (void)state;
    char note[400];
    for (size_t i = 0; i + 2 < sizeof note; i += 2)
        memcpy(note + i, "\xc3\xa9", 3);
    for (int shift = 0; shift < 2; shift++) {
        struct result r = make("2026-11-22T00:00:00Z", note);
        struct buf text = {0};
        if (shift)
            json_object_set_new(r.root, "note", json_sprintf("x%s", note));
        history_text(&r, 1, &text);
        assert_int_equal(utf8_valid_prefix(buf_str(&text), text.len), text.len);
        buf_fini(&text);
        result_fini(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sorted_by_date),
        cmocka_unit_test(test_text_of_others),
        cmocka_unit_test(test_long_note_ends_in_a_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
