/* API keys. */
#include "api/keys.h"

#include "support/cmocka_all.h"

#include "base/limits.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[] = "/tmp/firstlight-keys-XXXXXX";

static void write_keys(const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int set_up(void **state)
{
    (void)state;
    unsetenv("FIRSTLIGHT_API_KEY");
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

static bool passes(const struct keys *k, const char *authorization)
{
    struct err e = {0};
    uint64_t id;
    enum status st = keys_check(k, authorization, &id, &e);
    assert_true(st == STATUS_OK || (st == STATUS_UNAUTHENTICATED && e.text[0]));
    return st == STATUS_OK;
}

static void test_none(void **state)
{
    (void)state;
    struct keys *k;
    assert_int_equal(keys_load(&k, NULL, NULL), STATUS_OK);
    assert_null(k);
    assert_true(passes(k, NULL));
}

static void test_first(void **state)
{
    (void)state;
    struct keys *k;
    char key[LIMIT_API_KEY_BYTES + 1], longest[LIMIT_API_KEY_BYTES + 1];
    write_keys("# comment\n  sk-one \nsk-two\n");
    setenv("FIRSTLIGHT_API_KEY", "sk-three", 1);
    assert_int_equal(keys_load(&k, path, NULL), STATUS_OK);
    unsetenv("FIRSTLIGHT_API_KEY");
    keys_first(k, key);
    assert_string_equal(key, "sk-one");
    keys_free(k);
    memset(longest, 'k', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    write_keys(longest);
    assert_int_equal(keys_load(&k, path, NULL), STATUS_OK);
    keys_first(k, key);
    assert_string_equal(key, longest);
    keys_free(k);
}

static void test_file(void **state)
{
    (void)state;
    struct keys *k;
    write_keys("# comment\n\n  sk-one \r\nsk-two");
    assert_int_equal(keys_load(&k, path, NULL), STATUS_OK);
    assert_true(passes(k, "Bearer sk-one"));
    assert_true(passes(k, "bearer  sk-two"));
    static const char *const wrong[] = {"",
                                        "sk-one",
                                        "Bearer",
                                        "Bearer ",
                                        "Bearer sk-on",
                                        "Bearer sk-one1",
                                        "Basic sk-one",
                                        "Bearer # comment"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (passes(k, wrong[i]))
            fail_msg("\"%s\" passes", wrong[i]);
    assert_false(passes(k, NULL));
    keys_free(k);
}

static uint64_t id_of(const struct keys *k, const char *authorization)
{
    uint64_t id = 0;
    assert_int_equal(keys_check(k, authorization, &id, NULL), STATUS_OK);
    return id;
}

/* A key is the same client in whatever file; so lists may change while its requests run. */
static void test_ids(void **state)
{
    (void)state;
    struct keys *k, *other;
    write_keys("sk-one\nsk-two\n");
    assert_int_equal(keys_load(&k, path, NULL), STATUS_OK);
    write_keys("sk-zero\nsk-two\nsk-three\nsk-one\nsk-two\n");
    assert_int_equal(keys_load(&other, path, NULL), STATUS_OK);
    assert_int_equal(keys_count(k), 2);
    assert_int_equal(keys_count(other), 5);
    assert_int_equal(keys_count(NULL), 0);
    assert_true(id_of(k, "Bearer sk-one") == id_of(other, "Bearer sk-one"));
    assert_true(id_of(k, "Bearer sk-two") == id_of(other, "Bearer sk-two"));
    assert_true(id_of(k, "Bearer sk-one") != id_of(k, "Bearer sk-two"));
    assert_true(id_of(k, "Bearer sk-one") != id_of(other, "Bearer sk-zero"));
    keys_free(k);
    keys_free(other);
}

/* Who can write the file can let himself in. */
static void test_modes(void **state)
{
    (void)state;
    static const struct {
        mode_t mode;
        enum status expected;
    } rows[] = {{0600, STATUS_OK},      {0640, STATUS_OK},      {0644, STATUS_OK},
                {0664, STATUS_OK},      {0602, STATUS_INVALID}, {0666, STATUS_INVALID},
                {0777, STATUS_INVALID}, {0600, STATUS_OK}};
    struct keys *k;
    struct err e;
    write_keys("sk-one\n");
    log_set_level(LOG_OFF);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        chmod(path, rows[i].mode);
        assert_int_equal(keys_load(&k, path, &e), rows[i].expected);
        if (rows[i].expected == STATUS_OK) {
            keys_free(k);
            continue;
        }
        assert_non_null(strstr(e.text, path));
        assert_non_null(strstr(e.text, "chmod o-w"));
    }
    log_set_level(LOG_INFO);
}

static void test_environment(void **state)
{
    (void)state;
    struct keys *k;
    setenv("FIRSTLIGHT_API_KEY", "sk-env", 1);
    assert_int_equal(keys_load(&k, NULL, NULL), STATUS_OK);
    assert_true(passes(k, "Bearer sk-env"));
    assert_false(passes(k, "Bearer sk-one"));
    keys_free(k);
    unsetenv("FIRSTLIGHT_API_KEY");
}

/* LIMIT_API_KEY_BYTES, LIMIT_API_KEYS */
static void test_limits(void **state)
{
    (void)state;
    struct keys *k;
    struct err e;
    char key[LIMIT_API_KEY_BYTES + 2] = {0}, header[LIMIT_API_KEY_BYTES + 20];
    memset(key, 'k', LIMIT_API_KEY_BYTES);
    write_keys(key);
    assert_int_equal(keys_load(&k, path, &e), STATUS_OK);
    snprintf(header, sizeof header, "Bearer %s", key);
    assert_true(passes(k, header));
    snprintf(header, sizeof header, "Bearer %sk", key);
    assert_false(passes(k, header));
    keys_free(k);
    key[LIMIT_API_KEY_BYTES] = 'k';
    write_keys(key);
    assert_int_equal(keys_load(&k, path, &e), STATUS_INVALID);

    FILE *f = fopen(path, "w");
    for (int i = 0; i <= LIMIT_API_KEYS; i++)
        fprintf(f, "k%d\n", i);
    fclose(f);
    assert_int_equal(keys_load(&k, path, &e), STATUS_INVALID);
}

static void test_bad_files(void **state)
{
    (void)state;
    struct keys *k;
    struct err e;
    write_keys("# nothing\n");
    assert_int_equal(keys_load(&k, path, &e), STATUS_INVALID);
    assert_non_null(strstr(e.text, path));
    assert_int_equal(keys_load(&k, "/nonexistent/keys", &e), STATUS_IO);
    assert_non_null(strstr(e.text, "/nonexistent/keys"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_none),   cmocka_unit_test(test_first),
        cmocka_unit_test(test_file),   cmocka_unit_test(test_environment),
        cmocka_unit_test(test_ids),    cmocka_unit_test(test_modes),
        cmocka_unit_test(test_limits), cmocka_unit_test(test_bad_files),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
