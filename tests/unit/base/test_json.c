/* JSON in (getters) and out (text). */
#include "base/json.h"

#include "support/cmocka_all.h"

#include "base/json_memory.h"
#include "base/limits.h"
#include "base/mem.h"

#include <string.h>

static json_t *parse(const char *text)
{
    json_t *v = NULL;
    struct err e = {0};
    if (json_parse(text, strlen(text), &v, &e) != STATUS_OK)
        fail_msg("%s: %s", text, e.text);
    return v;
}

static void refused(const char *text, size_t len, const char *says)
{
    json_t *v = NULL;
    struct err e = {0};
    assert_int_equal(json_parse(text, len, &v, &e), STATUS_INVALID);
    assert_null(v);
    if (!strstr(e.text, says))
        fail_msg("\"%s\" does not say \"%s\"", e.text, says);
}

static void test_refused(void **state)
{
    (void)state;
    refused("", 0, "empty");
    refused("[1]", 3, "must be a JSON object, found an array of 1");
    refused("{\"a\":1,}", 8, "line 1, column 8");
    refused("{\n\"a\" 1}", 8, "line 2");
    refused("{\"a\":1,\"a\":2}", 13, "duplicate");
    refused("{\"a\":NaN}", 9, "not valid JSON");
    refused("{\"a\":Infinity}", 14, "not valid JSON");
    refused("{\"a\":1e999}", 11, "not taken: line 1, column 10: real number overflow");
    refused("{\"a\":99999999999999999999}", 26, "too big integer");
    refused("{\"a\":\"\xff\"}", 9, "not valid JSON");
    refused("{\"a\":\"\\u0000\"}", 14, "a string holds the character \\u0000");
    refused("{\"a\":\"\\ud800\"}", 14, "not valid JSON");
    refused("{} x", 4, "not valid JSON");
}

static void test_depth(void **state)
{
    (void)state;
    char text[2 * LIMIT_JSON_DEPTH + 8];
    for (size_t over = 0; over < 2; over++) {
        size_t arrays = LIMIT_JSON_DEPTH - 1 + over, n = 0;
        memcpy(text, "{\"a\":", 5);
        n = 5;
        memset(text + n, '[', arrays);
        memset(text + n + arrays, ']', arrays);
        n += 2 * arrays;
        text[n++] = '}';
        if (over) {
            refused(text, n, "deeper");
        } else {
            json_t *v = NULL;
            assert_int_equal(json_parse(text, n, &v, NULL), STATUS_OK);
            json_decref(v);
        }
    }
    json_decref(
        parse("{\"a\":\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"}"));
    json_decref(parse(
        "{\"a\":\"\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"}"));
}

static void test_int(void **state)
{
    (void)state;
    json_t *o =
        parse("{\"a\":5,\"b\":5.0,\"c\":5.5,\"d\":\"5\",\"e\":1e300,\"f\":null,\"g\":true}");
    struct err e = {0};
    int64_t v = 7;
    assert_int_equal(json_field_int(o, "a", 1, 9, &v, &e), STATUS_OK);
    assert_int_equal(v, 5);
    assert_int_equal(json_field_int(o, "b", 1, 9, &v, &e), STATUS_OK);
    assert_int_equal(v, 5);
    v = 7;
    assert_int_equal(json_field_int(o, "f", 1, 9, &v, &e), STATUS_OK);
    assert_int_equal(json_field_int(o, "absent", 1, 9, &v, &e), STATUS_OK);
    assert_int_equal(v, 7);
    assert_int_equal(json_field_int(o, "a", 6, 9, &v, &e), STATUS_INVALID);
    assert_string_equal(e.param, "a");
    assert_string_equal(e.text, "a: must be a whole number between 6 and 9, found 5");
    static const char *const wrong[] = {"c", "d", "e", "g"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(json_field_int(o, wrong[i], INT64_MIN, INT64_MAX, &v, &e), STATUS_INVALID);
    json_decref(o);
}

static void test_real(void **state)
{
    (void)state;
    json_t *o = parse("{\"a\":0,\"b\":0.5,\"c\":2.5,\"d\":\"1\",\"e\":-0.1}");
    struct err e = {0};
    float v = 7;
    assert_int_equal(json_field_real(o, "a", false, 0, 2, &v, &e), STATUS_OK);
    assert_float_equal(v, 0, 0);
    assert_int_equal(json_field_real(o, "a", true, 0, 2, &v, &e), STATUS_INVALID);
    assert_string_equal(e.text, "a: must be a number above 0, at most 2, found 0");
    assert_int_equal(json_field_real(o, "b", true, 0, 2, &v, &e), STATUS_OK);
    assert_float_equal(v, 0.5, 0);
    assert_int_equal(json_field_real(o, "c", false, 0, 2, &v, &e), STATUS_INVALID);
    assert_string_equal(e.text, "c: must be a number between 0 and 2, found 2.5");
    assert_int_equal(json_field_real(o, "d", false, 0, 2, &v, &e), STATUS_INVALID);
    assert_int_equal(json_field_real(o, "e", false, 0, 2, &v, &e), STATUS_INVALID);
    json_decref(o);
}

static void test_text_and_bool(void **state)
{
    (void)state;
    json_t *o = parse("{\"a\":\"x\",\"b\":true,\"c\":1}");
    struct err e = {0};
    const char *text = NULL;
    bool flag = false;
    assert_int_equal(json_field_text(o, "a", &text, &e), STATUS_OK);
    assert_string_equal(text, "x");
    assert_int_equal(json_field_text(o, "c", &text, &e), STATUS_INVALID);
    assert_int_equal(json_field_bool(o, "b", &flag, &e), STATUS_OK);
    assert_true(flag);
    assert_int_equal(json_field_bool(o, "c", &flag, &e), STATUS_INVALID);
    assert_string_equal(e.text, "c: must be true or false, found 1");
    json_decref(o);
}

static void puts_as(const char *text, size_t len, const char *expected)
{
    struct buf b = {0};
    json_put_text(&b, text, len);
    assert_string_equal(buf_str(&b), expected);
    buf_fini(&b);
}

static void test_put_text(void **state)
{
    (void)state;
    puts_as("", 0, "\"\"");
    puts_as("a\"b\\c\nd\te", 9, "\"a\\\"b\\\\c\\nd\\u0009e\"");
    puts_as("\0\x1f\x7f", 3, "\"\\u0000\\u001f\\u007f\"");
    puts_as("\u00e9\u4e2d\U0001f600", 9, "\"\u00e9\u4e2d\U0001f600\"");
    puts_as("\xc2\x85|\u2028|\u2029", 10, "\"\\u0085|\\u2028|\\u2029\"");
    puts_as("\x80|\xc3|\xe4\xb8|\xf4\x90\x80\x80", 11,
            "\"\\ufffd|\\ufffd|\\ufffd\\ufffd|\\ufffd\\ufffd\\ufffd\\ufffd\"");
    puts_as("\xed\xa0\x80\xc0\xaf", 5, "\"\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\"");
    puts_as("ab\xff", 3, "\"ab\\ufffd\"");
}

static void test_put_ms(void **state)
{
    (void)state;
    struct buf b = {0};
    json_put_ms(&b, 0);
    buf_putc(&b, ' ');
    json_put_ms(&b, 1);
    buf_putc(&b, ' ');
    json_put_ms(&b, 1234567);
    buf_putc(&b, ' ');
    json_put_ms(&b, -5);
    buf_putc(&b, ' ');
    json_put(&b, NULL);
    assert_string_equal(buf_str(&b), "0.000 0.001 1234.567 -0.005 null");
    buf_fini(&b);
}

/* Many of one value: as many as are taken, and one more. */
static void check_many(const char *value, size_t most, const char *says)
{
    struct buf text = {0};
    json_t *v = NULL;
    struct err e;
    buf_puts(&text, "{\"a\":[");
    for (size_t i = 0; i < most; i++) {
        buf_puts(&text, i > 0 ? "," : "");
        buf_puts(&text, value);
    }
    buf_puts(&text, "]}");
    assert_false(text.failed);
    assert_int_equal(json_parse(text.data, text.len, &v, &e), STATUS_OK);
    assert_int_equal(json_array_size(json_object_get(v, "a")), most);
    json_decref(v);
    v = NULL;
    text.len -= 2;
    buf_printf(&text, ",%s]}", value);
    assert_int_equal(json_parse(text.data, text.len, &v, &e), STATUS_TOO_LARGE);
    assert_null(v);
    assert_non_null(strstr(e.text, says));
    buf_fini(&text);
}

static void test_values_are_counted(void **state)
{
    (void)state;
    check_many("[]", LIMIT_JSON_CONTAINERS - 2, "objects and arrays");
    check_many("{}", LIMIT_JSON_CONTAINERS - 2, "objects and arrays");
    check_many("\"[,\\\",1,]\"", LIMIT_JSON_STRINGS - 1, "names and strings");
    check_many("-1.5e+3", LIMIT_JSON_NUMBERS, "numbers");
    check_many("true", LIMIT_JSON_NUMBERS, "numbers");
    check_many("7", LIMIT_JSON_NUMBERS, "numbers");
    assert_true(LIMIT_JSON_NUMBERS > LIMIT_CONTEXT);
}

/* The n-th allocation from now on fails, and none after it. */
static size_t until_failure, taken;
static bool has_failed;

static void *take_or_fail(size_t size)
{
    if (until_failure > 0 && --until_failure == 0) {
        has_failed = true;
        return NULL;
    }
    taken++;
    return mem_alloc(size);
}

static void give_back(void *p)
{
    taken -= p != NULL;
    mem_free(p);
}

#define SIXTEEN "7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,"

static void test_each_allocation_fails(void **state)
{
    static const char text[] =
        "{\"numbers\":[1,2.5,-3e7,true,null],\"texts\":[\"one that is longer than sixteen bytes\","
        "\"\\u00e4 and one that is even longer than the one before it\"],\"a name that is longer "
        "than "
        "most of them, for the room that names take\":{\"b\":{\"c\":[[[{}]]]}},\"more\":[" SIXTEEN
            SIXTEEN SIXTEEN SIXTEEN SIXTEEN SIXTEEN SIXTEEN SIXTEEN "0]}";
    const struct json_memory_source before = json_memory_source;
    size_t n = 0;
    (void)state;
    json_t *all = parse(text);
    json_memory_source = (struct json_memory_source){take_or_fail, give_back};
    do {
        json_t *v = NULL;
        struct err e = {0};
        until_failure = ++n;
        has_failed = false;
        taken = 0;
        enum status st = json_parse(text, sizeof text - 1, &v, &e);
        until_failure = 0;
        assert_int_equal(st, has_failed ? STATUS_NO_MEMORY : STATUS_OK);
        assert_true(has_failed == !v && (has_failed || json_equal(v, all)));
        json_decref(v);
        assert_int_equal(taken, 0);
    } while (has_failed);
    assert_true(n > 20);
    json_memory_source = before;
    json_decref(all);
}

/* All that was read of a text goes when it is refused, the first value first. With steps for each
 * that grow with their number, this one takes minutes. */
static void test_many_are_refused_at_once(void **state)
{
    const struct json_memory_source before = json_memory_source;
    struct buf text = {0};
    (void)state;
    buf_puts(&text, "{\"prompt\":[1");
    for (size_t i = 1; i < LIMIT_JSON_NUMBERS; i++)
        buf_puts(&text, ",1");
    assert_false(text.failed);
    json_memory_source = (struct json_memory_source){take_or_fail, give_back};
    taken = 0;
    refused(text.data, text.len, "expected near end of file");
    assert_int_equal(taken, 0);
    buf_puts(&text, "],\"n\":[],\"n\":[]}");
    assert_false(text.failed);
    refused(text.data, text.len, "duplicate");
    assert_int_equal(taken, 0);
    json_memory_source = before;
    buf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_int),
        cmocka_unit_test(test_real),
        cmocka_unit_test(test_text_and_bool),
        cmocka_unit_test(test_put_text),
        cmocka_unit_test(test_put_ms),
        cmocka_unit_test(test_values_are_counted),
        cmocka_unit_test(test_each_allocation_fails),
        cmocka_unit_test(test_many_are_refused_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
