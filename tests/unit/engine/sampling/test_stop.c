/* Stop strings against a naive search, on random texts cut into random tokens. */
#include "engine/sampling/stop.h"
#include "support/cmocka_all.h"
#include "support/random.h"

#include <string.h>

/* The first end of any stop string; the cut before the longest that ends there. */
static bool naive(const char *text, size_t len, char **stops, uint32_t n, size_t *cut)
{
    for (size_t end = 1; end <= len; end++) {
        size_t longest = 0;
        for (uint32_t i = 0; i < n; i++) {
            size_t size = strlen(stops[i]);
            if (size <= end && size > longest && memcmp(text + end - size, stops[i], size) == 0)
                longest = size;
        }
        *cut = end - longest;
        if (longest > 0)
            return true;
    }
    return false;
}

/* The longest end of the text that begins a stop string. */
static size_t naive_held(const char *text, size_t len, char **stops, uint32_t n)
{
    for (size_t held = len; held > 0; held--)
        for (uint32_t i = 0; i < n; i++)
            if (held < strlen(stops[i]) && memcmp(text + len - held, stops[i], held) == 0)
                return held;
    return 0;
}

static void run(const char *text, char **stops, uint32_t n, struct random *random)
{
    struct stop stop;
    stop_init(&stop, stops, n);
    size_t len = strlen(text), fed = 0, cut = 0, expected_cut = 0, visible = 0;
    bool expected = naive(text, len, stops, n, &expected_cut);
    bool found = false;
    while (fed < len) {
        size_t size = 1 + random_below(random, 5);
        if (size > len - fed)
            size = len - fed;
        found = stop_feed(&stop, text + fed, size, &cut);
        fed += size;
        if (found)
            break;
        assert_int_equal(stop_held(&stop), naive_held(text, fed, stops, n));
        assert_true(fed - stop_held(&stop) >= visible); /* nothing shown is taken back */
        visible = fed - stop_held(&stop);
    }
    assert_int_equal(found, expected);
    if (found) {
        assert_int_equal(cut, expected_cut);
        assert_true(visible <= cut);
    }
}

static void random_text(struct random *random, const char *letters, size_t len, char *out)
{
    for (size_t i = 0; i < len; i++)
        out[i] = letters[random_below(random, (uint32_t)strlen(letters))];
    out[len] = '\0';
}

static void equals_naive_search(void **state)
{
    (void)state;
    static const char *const alphabets[] = {"ab", "abc", "abcdefgh"};
    struct random random = {1};
    for (int round = 0; round < 30000; round++) {
        const char *letters = alphabets[round % 3];
        char text[64], strings[LIMIT_STOP_STRINGS][12], *stops[LIMIT_STOP_STRINGS];
        uint32_t n = 1 + random_below(&random, LIMIT_STOP_STRINGS);
        random_text(&random, letters, 1 + random_below(&random, 60), text);
        for (uint32_t i = 0; i < n; i++) {
            random_text(&random, letters, 1 + random_below(&random, 8), strings[i]);
            stops[i] = strings[i];
        }
        run(text, stops, n, &random);
    }
}

static void holds_whole_characters(void **state)
{
    (void)state;
    struct stop stop;
    char *stops[] = {(char[]){"\u00e9\u00e8!"}}; /* two letters whose first bytes agree */
    size_t cut;
    stop_init(&stop, stops, 1);
    assert_false(stop_feed(&stop, "ab\u00e9", 4, &cut));
    assert_int_equal(stop_held(&stop), 2);
    assert_false(stop_feed(&stop, "\u00e9", 2, &cut));
    assert_int_equal(stop_held(&stop), 2);
    assert_true(stop_feed(&stop, "\u00e8!more", 7, &cut));
    assert_int_equal(cut, 4);
}

static void takes_the_longest_string(void **state)
{
    (void)state;
    char longest[LIMIT_STOP_BYTES + 1] = "", text[2 * LIMIT_STOP_BYTES];
    memset(longest, 'a', LIMIT_STOP_BYTES);
    memset(text, 'a', sizeof text);
    struct stop stop;
    char *stops[] = {longest};
    size_t cut;
    stop_init(&stop, stops, 1);
    assert_false(stop_feed(&stop, text, LIMIT_STOP_BYTES - 1, &cut));
    assert_int_equal(stop_held(&stop), LIMIT_STOP_BYTES - 1);
    assert_true(stop_feed(&stop, text, 5, &cut));
    assert_int_equal(cut, 0);
}

static void unarmed_it_goes_on(void **state)
{
    (void)state;
    struct stop stop;
    char *stops[] = {(char[]){"aba"}};
    size_t cut;
    stop_init(&stop, stops, 1);
    stop.unarmed = true;
    assert_false(stop_feed(&stop, "xaba\0aba", 8, &cut));
    assert_int_equal(stop_held(&stop), 1); /* "a" may begin another one */
    stop.unarmed = false;
    assert_true(stop_feed(&stop, "ba", 2, &cut));
    assert_int_equal(cut, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_naive_search),
        cmocka_unit_test(holds_whole_characters),
        cmocka_unit_test(takes_the_longest_string),
        cmocka_unit_test(unarmed_it_goes_on),
    };
    return cmocka_run_group_tests_name("stop", tests, NULL, NULL);
}
