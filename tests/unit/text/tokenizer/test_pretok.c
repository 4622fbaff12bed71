#include "support/cmocka_all.h"

#include "base/buf.h"
#include "text/tokenizer/pretok.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const all_names[] = {
    "smollm", "gpt-2",  "default",      "falcon",         "llama-bpe",   "glm4",   "dbrx",
    "qwen2",  "qwen35", "deepseek-llm", "deepseek-coder", "deepseek-v3", "megrez",
};
#define N_NAMES (sizeof all_names / sizeof all_names[0])

static struct pretok_traits traits; /* of the last one opened */

static struct pretok *open_pretok(const char *name)
{
    struct pretok *p = NULL;
    struct err err = {0};

    if (pretok_open(&p, &traits, name, strlen(name), &err) != STATUS_OK)
        fail_msg("%s: %s", name, err.text);
    return p;
}

/* Words, each followed by a bar. */
static enum status append_word(void *ctx, const char *word, size_t len, struct err *err)
{
    (void)err;
    assert_true(len > 0);
    buf_append(ctx, word, len);
    buf_putc(ctx, '|');
    return STATUS_OK;
}

static void check(const char *name, const char *text, const char *expected)
{
    struct pretok *p = open_pretok(name);
    struct pretok_scratch *s = pretok_scratch_open();
    struct buf out = {0};
    struct err err = {0};

    assert_non_null(s);
    assert_int_equal(pretok_split(p, s, &(struct pretok_text){text, strlen(text), true},
                                  append_word, &out, &err),
                     STATUS_OK);
    if (strcmp(buf_str(&out), expected) != 0)
        fail_msg("%s: '%s' became '%s', expected '%s'", name, text, buf_str(&out), expected);
    buf_fini(&out);
    pretok_scratch_close(s);
    pretok_close(p);
}

static void gpt2_rules(void **state)
{
    (void)state;
    check("gpt-2", "", "");
    check("gpt-2", "Hello world", "Hello| world|");
    check("gpt-2", "it's they'll I'd WE'LL", "it|'s| they|'ll| I|'d| WE|'|LL|");
    check("gpt-2", "a1b22 333", "a|1|b|22| 333|");
    check("gpt-2", "a  b   ", "a| | b|   |");
    check("gpt-2", "a \n b", "a| \n| b|");
    check("gpt-2", "x?! (y)", "x|?!| (|y|)|");
    check("gpt-2", " \xe4\xbd\xa0\xe5\xa5\xbd\xef\xbc\x8c",
          " \xe4\xbd\xa0\xe5\xa5\xbd|\xef\xbc\x8c|");
}

static void smollm_cuts_digits_first(void **state)
{
    (void)state;
    check("smollm", "12", "1|2|");
    check("smollm", "a 12 b", "a| |1|2| b|"); /* the space ends its part: no digit to join */
    check("smollm", "x  7", "x|  |7|");       /* and the run is not cut before a digit */
    check("smollm", "x  y", "x| | y|");
    check("smollm", "\xc2\xbd\xd9\xa3\xe2\x85\xa3", "\xc2\xbd|\xd9\xa3|\xe2\x85\xa3|");
    check("smollm", "'1's", "'|1|'s|");
}

static void llama3_rules(void **state)
{
    (void)state;
    check("llama-bpe", "it's WE'LL", "it|'s| WE|'LL|");
    check("llama-bpe", "12345 6", "123|45| |6|");
    check("llama-bpe", "(hello)\n\nx", "(hello|)\n\n|x|");
    check("llama-bpe", "a  \n  b", "a|  \n| | b|");
    check("llama-bpe", "\tx", "\tx|");
    check("llama-bpe",
          "a\xc2\xa0"
          "b",
          "a|\xc2\xa0"
          "b|");
}

static void qwen2_rules(void **state)
{
    (void)state;
    check("qwen2", "it'S 123", "it|'S| |1|2|3|");
    check("qwen2", "x==y\r\n", "x|==|y|\r\n|");
    check("qwen2",
          "e\xcc\x81"
          "a",
          "e|\xcc\x81"
          "a|"); /* a mark is no letter */
    check("qwen35",
          "e\xcc\x81"
          "a 12",
          "e\xcc\x81"
          "a| |1|2|");
}

static void default_rules(void **state)
{
    (void)state;
    check("default", "a+b, 12345", "a|+|b|,| |123|45|");
    check("default", "x `y`", "x| `|y|`|");
    check("falcon", "x `y`", "x| |`|y|`|");
}

/* White_Space, no more and no less; each stands between two letters. */
static void white_space_is_unicodes(void **state)
{
    static const char *const spaces[] = {
        "\t",           "\n",           "\v",
        "\f",           "\r",           " ",
        "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80",
        "\xe2\x80\x80", "\xe2\x80\x8a", "\xe2\x80\xa8",
        "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f",
        "\xe3\x80\x80",
    };
    static const char *const others[] = {
        "\x1c", "\x1f", "\xe1\xa0\x8e" /* U+180E */, "\xe2\x80\x8b", "\xe2\x81\xa0", "\xef\xbb\xbf",
    };
    char text[32], expected[64];
    (void)state;

    /* Two of them then "!": white space leaves its last one, anything else joins the "!". */
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        if (strcmp(spaces[i], " ") == 0)
            continue; /* which joins it as a space may */
        snprintf(text, sizeof text, "%s%s!", spaces[i], spaces[i]);
        snprintf(expected, sizeof expected, "%s|%s|!|", spaces[i], spaces[i]);
        check("gpt-2", text, expected);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        snprintf(text, sizeof text, "%s%s!", others[i], others[i]);
        snprintf(expected, sizeof expected, "%s|", text);
        check("gpt-2", text, expected);
    }
}

static void aliases_and_properties(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_NAMES; i++) {
        struct pretok *p = open_pretok(all_names[i]);
        bool llama3 = strcmp(all_names[i], "llama-bpe") == 0;
        assert_int_equal(traits.whole_words, llama3 || strcmp(all_names[i], "glm4") == 0);
        assert_int_equal(traits.add_bos, llama3);
        assert_int_equal(traits.nfc, strncmp(all_names[i], "qwen", 4) == 0);
        pretok_close(p);
    }
    check("llama3", "12345", "123|45|");
    check("starcoder", "12345", "1|2|3|4|5|");
    pretok_close(NULL);
    pretok_scratch_close(NULL);
}

static void unknown_names_are_refused(void **state)
{
    static const char *const names[] = {"", "smol", "smollm ", "gpt-22", "tekken"};
    struct pretok *p = NULL;
    (void)state;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct err err = {0};
        assert_int_equal(pretok_open(&p, &traits, names[i], strlen(names[i]), &err),
                         STATUS_UNSUPPORTED);
        assert_non_null(strstr(err.text, names[i]));
        assert_string_equal(err.param, "tokenizer.ggml.pre");
    }
    assert_null(p);
}

static enum status stop_at_third(void *ctx, const char *word, size_t len, struct err *err)
{
    int *count = ctx;

    (void)word;
    (void)len;
    return ++*count == 3 ? err_set(err, STATUS_CANCELLED, "stopped") : STATUS_OK;
}

static void the_callback_may_stop(void **state)
{
    struct pretok *p = open_pretok("smollm");
    struct pretok_scratch *s = pretok_scratch_open();
    struct err err = {0};
    int count = 0;
    (void)state;

    assert_int_equal(pretok_split(p, s, &(struct pretok_text){"a b c d e", 9, true}, stop_at_third,
                                  &count, &err),
                     STATUS_CANCELLED);
    assert_int_equal(count, 3);
    pretok_scratch_close(s);
    pretok_close(p);
}

static enum status add_length(void *ctx, const char *word, size_t len, struct err *err)
{
    (void)word;
    (void)err;
    *(size_t *)ctx += len;
    return STATUS_OK;
}

/* Long runs of one thing: no expression may run out of stack or go over the run again and again. */
static void long_runs(void **state)
{
    static const char *const units[] = {"a",  "1",  " ", "\n", " \n", "!", "\xe3\x80\x80",
                                        "a ", "'s", "Aa"};
    enum { LEN = 200000 };
    char *text = malloc(LEN);
    (void)state;

    for (size_t name = 0; name < N_NAMES; name++) {
        struct pretok *p = open_pretok(all_names[name]);
        struct pretok_scratch *s = pretok_scratch_open();
        for (size_t unit = 0; unit < sizeof units / sizeof units[0]; unit++) {
            struct err err = {0};
            size_t n = strlen(units[unit]), len = LEN - LEN % n, sum = 0;
            for (size_t at = 0; at < len; at += n)
                memcpy(text + at, units[unit], n);
            if (pretok_split(p, s, &(struct pretok_text){text, len, true}, add_length, &sum,
                             &err) != STATUS_OK)
                fail_msg("%s, unit %zu: %s", all_names[name], unit, err.text);
            assert_int_equal(sum, len);
        }
        pretok_scratch_close(s);
        pretok_close(p);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_rules),
        cmocka_unit_test(smollm_cuts_digits_first),
        cmocka_unit_test(llama3_rules),
        cmocka_unit_test(qwen2_rules),
        cmocka_unit_test(default_rules),
        cmocka_unit_test(white_space_is_unicodes),
        cmocka_unit_test(aliases_and_properties),
        cmocka_unit_test(unknown_names_are_refused),
        cmocka_unit_test(the_callback_may_stop),
        cmocka_unit_test(long_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
