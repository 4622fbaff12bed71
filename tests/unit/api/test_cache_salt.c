/* Salts of API keys: each key has its own, and a client's salt divides only its key's. */
#include "api/cache_salt.h"
#include "api/keys.h"

#include "support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct key_secret process = {.bytes = "the secret of this very process"};

static struct prefix_salt salt_with(const struct key_secret *key, struct prefix_salt asked)
{
    assert_int_equal(cache_salt_of_key(&asked, key, NULL), STATUS_OK);
    return asked;
}

static struct key_secret secret_of(const char *key)
{
    struct key_secret s;
    assert_int_equal(cache_salt_secret_of_key(&s, &process, key, strlen(key), NULL), STATUS_OK);
    return s;
}

static void hmac_is_that_of_the_standard(void **state)
{
    (void)state;
    /* Made with Python's hmac. */
    static const unsigned char key[32] = {0x37, 0x42, 0xf5, 0x0d, 0x25, 0x78, 0x80, 0x41,
                                          0xce, 0x28, 0x7d, 0xd3, 0x5b, 0xdc, 0xa9, 0xd0,
                                          0x71, 0x95, 0xdc, 0x9f, 0x82, 0x53, 0x17, 0x49,
                                          0x5b, 0x77, 0x64, 0xaf, 0x51, 0x68, 0xab, 0x96};
    struct key_secret s = secret_of("sk-one");
    assert_memory_equal(s.bytes, key, sizeof key);
}

static void each_key_and_each_asked_salt_has_its_own(void **state)
{
    (void)state;
    struct prefix_salt all[6];
    const struct prefix_salt asked[] = {{{0, 0}}, {{1, 0}}, {{0, 1}}};
    for (int i = 0; i < 3; i++) {
        struct key_secret one = secret_of("sk-one"), two = secret_of("sk-two");
        all[i] = salt_with(&one, asked[i]);
        all[3 + i] = salt_with(&two, asked[i]);
        struct prefix_salt again = salt_with(&one, asked[i]);
        assert_memory_equal(&again, &all[i], sizeof again);
    }
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(&all[i], &all[j], sizeof all[i]);
}

/* Nobody reaches the prompts of everybody, the public part or another key by asking for it. */
static void no_asked_salt_names_another(void **state)
{
    (void)state;
    struct key_secret one = secret_of("sk-one"), two = secret_of("sk-two");
    struct prefix_salt none = {{0, 0}}, others = salt_with(&two, none);
    const struct prefix_salt asked[] = {none, prefix_salt_public, others};
    for (int i = 0; i < 3; i++) {
        struct prefix_salt got = salt_with(&one, asked[i]);
        for (int j = 0; j < 3; j++)
            assert_memory_not_equal(&got, &asked[j], sizeof got);
    }
}

static void processes_differ(void **state)
{
    (void)state;
    struct key_secret a, b;
    assert_int_equal(cache_salt_secret_make(&a, NULL), STATUS_OK);
    assert_int_equal(cache_salt_secret_make(&b, NULL), STATUS_OK);
    assert_memory_not_equal(&a, &b, sizeof a);
}

static struct keys *keys_of(const char *text)
{
    char path[] = "/tmp/firstlight-salt-XXXXXX";
    struct keys *k;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    assert_int_equal(keys_load(&k, path, NULL), STATUS_OK);
    unlink(path);
    return k;
}

static struct key_secret secret_for(const struct keys *k, const char *authorization)
{
    struct key_secret out;
    uint64_t id;
    assert_int_equal(keys_check(k, authorization, &id, NULL), STATUS_OK);
    assert_int_equal(keys_secret(k, id, &process, &out, NULL), STATUS_OK);
    return out;
}

static void a_key_keeps_its_salts_wherever_it_stands(void **state)
{
    (void)state;
    unsetenv("FIRSTLIGHT_API_KEY");
    struct keys *before = keys_of("sk-one\nsk-two\n"), *after = keys_of("sk-0\nsk-two\nsk-one\n");
    const struct key_secret one = secret_for(before, "Bearer sk-one"),
                            two = secret_for(before, "Bearer sk-two"),
                            one_after = secret_for(after, "Bearer sk-one");
    assert_memory_not_equal(&one, &two, sizeof one);
    assert_memory_equal(&one, &one_after, sizeof one);
    keys_free(before);
    keys_free(after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hmac_is_that_of_the_standard),
        cmocka_unit_test(each_key_and_each_asked_salt_has_its_own),
        cmocka_unit_test(no_asked_salt_names_another),
        cmocka_unit_test(processes_differ),
        cmocka_unit_test(a_key_keeps_its_salts_wherever_it_stands),
    };
    return cmocka_run_group_tests_name("salt", tests, NULL, NULL);
}
