/* The record table. */
#include "base/utf8.h"
#include "bench/result/history.h"
#include "support/cmocka_all.h"

#include <string.h>

static struct history_entry make(const char *file, const char *date, const char *note)
{
    struct history_entry e = {.file = file};
    result_init(&e.result, "streaming", note, json_object(),
                json_pack("{s:s, s:s}", "engine", "cpu", "model", "tiny"));
    json_object_set_new(e.result.root, "date", json_string(date));
    return e;
}

/* One row a file, the oldest first; files of one date by name. */
static void test_sorted_by_date(void **state)
{
    (void)state;
    struct history_entry e[] = {make("a", "2026-11-22T00:00:00Z", "third"),
                                make("c", "2026-11-21T00:00:00Z", "two"),
                                make("b", "2026-11-21T00:00:00Z", "one")};
    result_metric(&e[0].result, "tokens_per_s", "tokens/s", RESULT_HIGHER, 1);
    result_metric(&e[0].result, "tokens_per_s", "tokens/s", RESULT_HIGHER, 1234.56);
    result_metric(&e[0].result, "tokens_per_s", "tokens/s", RESULT_HIGHER, 2000);
    result_metric(&e[2].result, "ttft_p50", "ms", RESULT_LOWER, 12.34);
    struct buf text = {0};
    history_sort(e, 3);
    history_text(e, 3, &text);
    assert_string_equal(
        buf_str(&text),
        "date                  engine  model  kind       tokens/s  TTFT p50  note\n"
        "2026-11-21T00:00:00Z  cpu     tiny   streaming         -   12.3 ms  one\n"
        "2026-11-21T00:00:00Z  cpu     tiny   streaming         -         -  two\n"
        "2026-11-22T00:00:00Z  cpu     tiny   streaming    1234.6         -  third\n");
    buf_fini(&text);
    for (int i = 0; i < 3; i++)
        result_fini(&e[i].result);
}

/* The engine of a server is not known, its URL is. */
static void test_a_server(void **state)
{
    (void)state;
    struct history_entry e = make("a", "2026-11-22T00:00:00Z", NULL);
    struct buf text = {0};
    json_t *environment = json_object_get(e.result.root, "environment");
    json_object_set_new(environment, "engine", json_null());
    json_object_set_new(environment, "target", json_string("http://127.0.0.1:8080"));
    history_text(&e, 1, &text);
    assert_non_null(strstr(buf_str(&text), "Z  http://127.0.0.1:8080  tiny "));
    buf_fini(&text);
    result_fini(&e.result);
}

static void test_json(void **state)
{
    (void)state;
    struct history_entry e = make("a.json", "2026-11-22T00:00:00Z", NULL);
    result_metric(&e.result, "ttft_p50", "ms", RESULT_LOWER, 12.5);
    json_object_del(json_object_get(e.result.root, "environment"), "engine");
    json_t *got = history_json(&e, 1);
    json_t *expected = json_pack("[{s:s, s:s, s:s, s:n, s:s, s:n, s:f, s:n}]", "file", "a.json",
                                 "date", "2026-11-22T00:00:00Z", "kind", "streaming", "engine",
                                 "model", "tiny", "tokens_per_s", "ttft_p50", 12.5, "note");
    assert_true(json_equal(got, expected));
    json_decref(got);
    json_decref(expected);
    result_fini(&e.result);
}

/* A file may come from anywhere: what it says is shown, not obeyed. */
static void test_text_of_others(void **state)
{
    (void)state;
    struct history_entry e = make("f", "2026-11-22T00:00:00Z",
                                  "a\x1b[2Jb\nc\xc2\x9b"
                                  "d \xc3\xa9");
    json_t *environment = json_object_get(e.result.root, "environment");
    json_object_set_new(environment, "engine", json_integer(5)); /* no text */
    json_object_set_new(environment, "model", json_string("mod\xc3\xa8le"));
    struct buf text = {0};
    history_text(&e, 1, &text);
    assert_non_null(strstr(buf_str(&text), "a [2Jb c  d \xc3\xa9\n"));
    assert_non_null(strstr(buf_str(&text), "-       mod\xc3\xa8le  streaming"));
    buf_fini(&text);
    result_fini(&e.result);
}

static void test_long_note_ends_in_a_character(void **state)
{
    (void)state;
    char note[400];
    for (size_t i = 0; i + 2 < sizeof note; i += 2)
        memcpy(note + i, "\xc3\xa9", 3);
    for (int shift = 0; shift < 2; shift++) {
        struct history_entry e = make("f", "2026-11-22T00:00:00Z", note);
        struct buf text = {0};
        if (shift)
            json_object_set_new(e.result.root, "note", json_sprintf("x%s", note));
        history_text(&e, 1, &text);
        assert_int_equal(utf8_valid_prefix(buf_str(&text), text.len), text.len);
        buf_fini(&text);
        result_fini(&e.result);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sorted_by_date),
        cmocka_unit_test(test_a_server),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_text_of_others),
        cmocka_unit_test(test_long_note_ends_in_a_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
