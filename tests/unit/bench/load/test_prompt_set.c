/* The prompts of token-speed: what is in the binary, what a file may say, what an error names. */
#include "support/cmocka_all.h"

#include "base/limits.h"
#include "bench/load/prompt_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Parsed under the name "p.json" and given back for its error. */
static struct err refused(const char *json)
{
    struct prompt_set p;
    struct err err = {0};
    assert_int_equal(prompt_set_parse(&p, "p.json", json, strlen(json), &err), STATUS_INVALID);
    prompt_set_fini(&p);
    return err;
}

static void refuses(const char *json, const char *param, const char *text)
{
    struct err err = refused(json);
    assert_string_equal(err.param, param);
    if (!strstr(err.text, text))
        fail_msg("\"%s\" does not contain \"%s\"", err.text, text);
}

static void the_standard_prompts_are_in_the_binary(void **state)
{
    (void)state;
    struct prompt_set p;
    struct err err = {0};
    assert_int_equal(prompt_set_standard(&p, &err), STATUS_OK);
    assert_int_equal(p.n, 3);
    assert_string_equal(p.v[0].id, "zh_long_text");
    assert_string_equal(p.v[1].id, "code");
    assert_string_equal(p.v[2].id, "maths");
    assert_string_equal(p.v[0].kind, "Chinese long text generation");
    assert_non_null(strstr(p.v[2].text, "2x^2 + 5x - 3 = 0\n\n"));
    prompt_set_fini(&p);
}

static void the_embedded_file_is_the_repositorys(void **state)
{
    (void)state;
    struct prompt_set file, binary;
    struct err err = {0};
    if (access("prompts/standard.json", R_OK) != 0)
        skip(); /* run from elsewhere */
    assert_int_equal(prompt_set_read(&file, "prompts/standard.json", &err), STATUS_OK);
    assert_int_equal(prompt_set_standard(&binary, &err), STATUS_OK);
    assert_int_equal(file.n, binary.n);
    for (uint32_t i = 0; i < file.n; i++)
        assert_string_equal(file.v[i].text, binary.v[i].text);
    prompt_set_fini(&file);
    prompt_set_fini(&binary);
}

static void takes_prompts_with_and_without_a_kind(void **state)
{
    (void)state;
    static const char json[] = "{\"token_speed\": [{\"id\": \"a\", \"text\": \"x\", \"more\": 1}, "
                               "{\"id\": \"B_2\", \"text\": \"\\u00e9\", \"kind\": \"k\"}]}";
    struct prompt_set p;
    struct err err = {0};
    assert_int_equal(prompt_set_parse(&p, "p.json", json, sizeof json - 1, &err), STATUS_OK);
    assert_int_equal(p.n, 2);
    assert_null(p.v[0].kind);
    assert_string_equal(p.v[1].kind, "k");
    assert_string_equal(p.v[1].text, "\xc3\xa9");
    prompt_set_fini(&p);
}

static void errors_name_the_field(void **state)
{
    (void)state;
    refuses("", "", "p.json: no JSON");
    refuses("{\"token_speed\": [", "", "p.json: no JSON");
    refuses("[]", "token_speed", "expected an array of 1 to 64 prompts, found none");
    refuses("{\"token_speed\": 3}", "token_speed", "found a number");
    refuses("{\"token_speed\": []}", "token_speed", "found an array of none");
    refuses("{\"token_speed\": [7]}", "",
            "p.json: token_speed[0]: expected an object, found a num");
    refuses("{\"token_speed\": [{\"text\": \"x\"}]}", "id", "token_speed[0].id: expected a string");
    refuses("{\"token_speed\": [{\"id\": \"a b\", \"text\": \"x\"}]}", "id", "found \"a b\"");
    refuses("{\"token_speed\": [{\"id\": \"\", \"text\": \"x\"}]}", "id", "is empty");
    refuses("{\"token_speed\": [{\"id\": \"a\", \"text\": 1}]}", "text", "found a number");
    refuses("{\"token_speed\": [{\"id\": \"a\"}]}", "text", "found none");
    refuses("{\"token_speed\": [{\"id\": \"a\", \"text\": \"\"}]}", "text", "is empty");
    refuses("{\"token_speed\": [{\"id\": \"a\", \"text\": \"x\", \"kind\": null}]}", "kind",
            "null");
    refuses(
        "{\"token_speed\": [{\"id\": \"a\", \"text\": \"x\"}, {\"id\": \"a\", \"text\": \"x\"}]}",
        "id", "token_speed[1].id: \"a\" is also the id of token_speed[0]");
}

/* A file of n prompts in `json`. */
static void write_prompts(char *json, size_t size, int n, int id_bytes)
{
    size_t len = (size_t)snprintf(json, size, "{\"token_speed\": [");
    for (int i = 0; i < n; i++)
        len += (size_t)snprintf(json + len, size - len, "%s{\"id\": \"%0*d\", \"text\": \"x\"}",
                                i ? ", " : "", id_bytes, i);
    snprintf(json + len, size - len, "]}");
}

static void the_limits_hold(void **state)
{
    (void)state;
    static char json[8192];
    struct prompt_set p;
    struct err err = {0};
    write_prompts(json, sizeof json, LIMIT_PROMPTS, LIMIT_PROMPT_ID_BYTES);
    assert_int_equal(prompt_set_parse(&p, "p.json", json, strlen(json), &err), STATUS_OK);
    assert_int_equal(p.n, LIMIT_PROMPTS);
    prompt_set_fini(&p);
    write_prompts(json, sizeof json, LIMIT_PROMPTS + 1, 4);
    refuses(json, "token_speed", "found an array of more");
    write_prompts(json, sizeof json, 1, LIMIT_PROMPT_ID_BYTES + 1);
    refuses(json, "id", "expected 1 to 32 letters");
}

static void a_file_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct prompt_set p;
    struct err err = {0};
    assert_int_equal(prompt_set_read(&p, "/nonexistent/p.json", &err), STATUS_IO);
    assert_non_null(strstr(err.text, "/nonexistent/p.json"));
    assert_int_equal(prompt_set_read(&p, "/", &err), STATUS_IO);
    prompt_set_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_standard_prompts_are_in_the_binary),
        cmocka_unit_test(the_embedded_file_is_the_repositorys),
        cmocka_unit_test(takes_prompts_with_and_without_a_kind),
        cmocka_unit_test(errors_name_the_field),
        cmocka_unit_test(the_limits_hold),
        cmocka_unit_test(a_file_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
