#include "support/cmocka_all.h"

#include "base/utf8.h"
#include "text/tokenizer/detok.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define R UTF8_REPLACEMENT

/* Bytes in, everything that comes out when all are pushed at once. */
struct sample {
    const char *in;
    const char *out;
};

static const struct sample valid[] = {
    {"", ""},
    {"plain", "plain"},
    {"a long plain text of more than eight bytes", "a long plain text of more than eight bytes"},
    {"\xc2\x80 \xdf\xbf", "\xc2\x80 \xdf\xbf"},
    {"\xe0\xa0\x80\xef\xbf\xbf", "\xe0\xa0\x80\xef\xbf\xbf"},
    {"\xed\x9f\xbf\xee\x80\x80", "\xed\x9f\xbf\xee\x80\x80"},
    {"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"},
    {"z\xf0\x9f\x98\x80!", "z\xf0\x9f\x98\x80!"},
};

/* One U+FFFD per maximal invalid part: Unicode 15, tables 3-8 to 3-11, and their neighbours. */
static const struct sample invalid[] = {
    {"\x80", R},
    {"\xbf\x80", R R},
    {"\xc0\xaf", R R},
    {"\xc1\xbf", R R},
    {"\xc2"
     "A",
     R "A"},
    {"\xc2\xc2\x80", R "\xc2\x80"},
    {"\xe0\x80\xbf", R R R},
    {"\xe0\x9f\x80", R R R},
    {"\xe0\xa0z", R "z"},
    {"\xe2\x82"
     "A",
     R "A"},
    {"\xe2\x82\xe2\x82\xac", R "\xe2\x82\xac"},
    {"\xed\xa0\x80", R R R},
    {"\xed\xbf\xbf", R R R},
    {"\xf0\x80\x80\x80", R R R R},
    {"\xf0\x8f\xbf\xbf", R R R R},
    {"\xf0\x9f\x98z", R "z"},
    {"\xf0\x9f\xf0\x9f\x98\x80", R "\xf0\x9f\x98\x80"},
    {"\xf4\x90\x80\x80", R R R R},
    {"\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", R R R R R "A" R R "B"},
    {"\xf5\x80", R R},
    {"\xf8\x88\x80\x80\x80", R R R R R},
    {"\xfe\xff", R R},
    {"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", R R R R "A"},
    {"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", R R R R R R R R "A"},
};

/* What begins a character stays inside. */
static const struct sample partial[] = {
    {"\xc3", ""},     {"a\xe2", "a"},       {"a\xe2\x82", "a"},  {"\xf0", ""},
    {"\xf0\x9f", ""}, {"\xf0\x9f\x98", ""}, {"\xff\xf4\x8f", R},
};

static void push_all(const char *in, size_t len, size_t step, char *out, size_t *wrote)
{
    struct detok d = {0};
    char *one = malloc(DETOK_ROOM(step));

    *wrote = 0;
    for (size_t at = 0; at < len; at += step) {
        size_t n = len - at < step ? len - at : step;
        size_t got = detok_push(&d, in + at, n, one);
        assert_true(got <= DETOK_ROOM(n));
        assert_true(d.n_held <= 3);
        assert_int_equal(utf8_valid_prefix(one, got), got);
        memcpy(out + *wrote, one, got);
        *wrote += got;
    }
    free(one);
}

static void check_samples(const struct sample *samples, size_t count)
{
    char out[256];
    size_t wrote;

    for (size_t i = 0; i < count; i++) {
        for (size_t step = 1; step <= 5; step++) {
            push_all(samples[i].in, strlen(samples[i].in), step, out, &wrote);
            assert_int_equal(wrote, strlen(samples[i].out));
            assert_memory_equal(out, samples[i].out, wrote);
        }
    }
}

static void valid_text_passes(void **state)
{
    (void)state;
    check_samples(valid, sizeof valid / sizeof valid[0]);
}

static void invalid_parts_are_replaced(void **state)
{
    (void)state;
    check_samples(invalid, sizeof invalid / sizeof invalid[0]);
}

static void the_unfinished_is_held(void **state)
{
    (void)state;
    check_samples(partial, sizeof partial / sizeof partial[0]);
}

static void every_code_point_passes(void **state)
{
    struct detok d = {0};
    (void)state;

    for (uint32_t cp = 0x80; cp <= 0x10ffff; cp++) {
        char in[4], out[DETOK_ROOM(4)];
        size_t n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4, wrote = 0;
        in[0] = (char)((n == 2 ? 0xc0u : n == 3 ? 0xe0u : 0xf0u) | cp >> 6 * (n - 1));
        for (size_t i = 1; i < n; i++)
            in[i] = (char)(0x80 | (cp >> 6 * (n - 1 - i) & 0x3f));
        for (size_t i = 0; i < n; i++)
            wrote += detok_push(&d, in + i, 1, out + wrote);
        if (cp >= 0xd800 && cp < 0xe000) {
            assert_int_equal(wrote, 9);
            continue;
        }
        assert_int_equal(wrote, n);
        assert_memory_equal(out, in, n);
        assert_int_equal(utf8_code_point(in, n), cp);
    }
}

static void nothing_pushed_nothing_out(void **state)
{
    struct detok d = {.held = {0xe2, 0x82}, .n_held = 2};
    char out[DETOK_ROOM(0)];
    (void)state;

    assert_int_equal(detok_push(&d, "", 0, out), 0);
    assert_int_equal(d.n_held, 2);
}

static void room_is_enough_for_the_worst(void **state)
{
    struct detok d = {.held = {0xf0, 0x9f, 0x98}, .n_held = 3};
    char out[DETOK_ROOM(4)];
    (void)state;

    assert_int_equal(detok_push(&d, "\xff\xff\xff\xff", 4, out), 15);
    assert_memory_equal(out, R R R R R, 15);
}

/* Seeded: bytes that are mostly leads and continuations, so that most pieces break somewhere. */
static void split_anywhere_it_is_the_same(void **state)
{
    static const unsigned char bytes[] = {0x00, 'a',  0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0,
                                          0xbf, 0xc2, 0xe0, 0xe2, 0xed, 0xf0, 0xf4, 0xff};
    unsigned seed = 7;
    (void)state;

    for (int round = 0; round < 3000; round++) {
        char in[64], whole[DETOK_ROOM(64)], parts[4 * DETOK_ROOM(64)];
        size_t len = (size_t)rand_r(&seed) % sizeof in, whole_len, parts_len;
        for (size_t i = 0; i < len; i++)
            in[i] = (char)bytes[(rand_r(&seed) >> 4) % (int)sizeof bytes];
        push_all(in, len, sizeof in, whole, &whole_len);
        push_all(in, len, 1 + (size_t)round % 7, parts, &parts_len);
        assert_int_equal(whole_len, parts_len);
        assert_memory_equal(whole, parts, whole_len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_text_passes),
        cmocka_unit_test(invalid_parts_are_replaced),
        cmocka_unit_test(the_unfinished_is_held),
        cmocka_unit_test(every_code_point_passes),
        cmocka_unit_test(nothing_pushed_nothing_out),
        cmocka_unit_test(room_is_enough_for_the_worst),
        cmocka_unit_test(split_anywhere_it_is_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
