#include "support/cmocka_all.h"
#include "unit/bench/bench_file.h"

#include "base/cpu.h"
#include "base/version.h"
#include "bench/result/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *text_of(const json_t *root, const char *key)
{
    return json_string_value(json_object_get(root, key));
}

static json_t *made(const struct environment *e)
{
    struct err err = {0};
    json_t *root;
    if (environment_json(&root, e, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return root;
}

/* The values of FIPS 180-4's examples. */
static void the_models_sha256(void **state)
{
    struct environment e = {.target = "in-process", .model = "m", .model_path = bench_file};
    (void)state;
    bench_file_write("abc", 3);
    json_t *root = made(&e);
    assert_string_equal(text_of(root, "model_sha256"),
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_int_equal(json_integer_value(json_object_get(root, "model_bytes")), 3);
    json_decref(root);

    char *million = malloc(1000000 + 100000); /* more than is read at a time */
    memset(million, 'a', 1100000);
    bench_file_write(million, 1000000);
    root = made(&e);
    assert_string_equal(text_of(root, "model_sha256"),
                        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    json_decref(root);
    bench_file_write(million, 1100000);
    root = made(&e);
    assert_string_equal(text_of(root, "model_sha256"),
                        "6aafaf4ef7899e48a5590041668ae9a810e9156a9924ea484e3594072192fbd4");
    json_decref(root);
    free(million);
}

static void this_machine(void **state)
{
    char levels[128];
    struct environment e = {.target = "in-process",
                            .engine = "cpu",
                            .model = "tiny",
                            .threads = 3,
                            .cpu_levels = CPU_AVX2,
                            .activations = ACTIVATIONS_F32,
                            .kv_type = KV_F16,
                            .has_engine_options = true};
    json_t *root = made(&e);
    (void)state;
    assert_string_equal(text_of(root, "machine"), "measured");
    assert_string_equal(text_of(root, "engine"), "cpu");
    assert_string_equal(text_of(root, "levels"), cpu_levels_text(CPU_AVX2, levels, sizeof levels));
    assert_string_equal(text_of(root, "cpu"), cpu_model_name());
    assert_string_equal(text_of(root, "compiler"), version_compiler());
    assert_string_equal(text_of(root, "version"), version_number());
    assert_string_equal(text_of(root, "commit"), version_commit());
    assert_string_equal(text_of(root, "activations"), "f32");
    assert_string_equal(text_of(root, "kv_type"), "f16");
    assert_memory_equal(text_of(root, "kernel"), "Linux ", 6);
    assert_int_equal(strlen(text_of(root, "date")), strlen("2026-11-21T17:00:00Z"));
    assert_int_equal(json_integer_value(json_object_get(root, "threads")), 3);
    assert_true(json_integer_value(json_object_get(root, "processors")) >= 1);
    assert_true(json_is_null(json_object_get(root, "model_sha256")));
    assert_true(json_is_null(json_object_get(root, "model_path")));
    json_decref(root);
}

static void a_server_elsewhere(void **state)
{
    struct environment e = {.target = "http://127.0.0.1:8080", .model = "\xff name"};
    json_t *root = made(&e);
    (void)state;
    assert_string_equal(text_of(root, "target"), "http://127.0.0.1:8080");
    assert_string_equal(text_of(root, "model"), "\xef\xbf\xbd name");
    assert_non_null(strstr(text_of(root, "machine"), "client"));
    static const char *const unknown[] = {"engine",      "threads", "levels",
                                          "activations", "kv_type", "model_sha256"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        assert_true(json_is_null(json_object_get(root, unknown[i])));
    json_decref(root);
}

static void a_model_that_cannot_be_read(void **state)
{
    struct environment e = {.target = "in-process", .model = "m", .model_path = "/no/such/file"};
    struct err err = {0};
    json_t *root;
    (void)state;
    assert_int_equal(environment_json(&root, &e, &err), STATUS_IO);
    assert_null(root);
    assert_non_null(strstr(err.text, "/no/such/file: No such file"));
    e.model_path = "/tmp";
    assert_int_equal(environment_json(&root, &e, &err), STATUS_IO);
    assert_non_null(strstr(err.text, "/tmp: Is a directory"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_models_sha256),
        cmocka_unit_test(this_machine),
        cmocka_unit_test(a_server_elsewhere),
        cmocka_unit_test(a_model_that_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, bench_file_make, bench_file_remove);
}
