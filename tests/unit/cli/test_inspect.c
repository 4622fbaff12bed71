/* `firstlight inspect`, run in this process with its output in files. */
#include "cli/commands.h"
#include "support/gguf_writer.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

struct run {
    char dir[32];
    char model[64];
    char out[16384]; /* what the last run printed */
    char err[1024];
};

static void slurp(const char *path, char *text, size_t size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    text[fread(text, 1, size - 1, f)] = '\0';
    fclose(f);
    unlink(path);
}

/* Points stdout or stderr at a new file; returns the old one's duplicate. */
static int redirect(FILE *stream, const char *path)
{
    fflush(stream);
    int kept = dup(fileno(stream));
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    dup2(fileno(f), fileno(stream));
    fclose(f);
    return kept;
}

static void restore(FILE *stream, int kept)
{
    fflush(stream);
    dup2(kept, fileno(stream));
    close(kept);
}

static int run(struct run *r, const char *first, const char *second)
{
    char out[64], err[64];
    char *argv[] = {(char *)"inspect", (char *)first, (char *)second, NULL};
    snprintf(out, sizeof out, "%s/out", r->dir);
    snprintf(err, sizeof err, "%s/err", r->dir);
    int kept_out = redirect(stdout, out), kept_err = redirect(stderr, err);
    int rc = inspect_main(first ? (second ? 3 : 2) : 1, argv);
    restore(stdout, kept_out);
    restore(stderr, kept_err);
    slurp(out, r->out, sizeof r->out);
    slurp(err, r->err, sizeof r->err);
    return rc;
}

/* A file with what is hard to print: bytes that are not UTF-8, control characters, numbers that
 * JSON does not have, a long array, arrays in an array. */
static int set_up(void **state)
{
    static struct run r;
    static unsigned char many[65] = {9, 8};
    uint64_t big = UINT64_MAX;
    struct gguf_writer w;
    r = (struct run){.dir = "/tmp/test_inspect_XXXXXX"};
    if (!mkdtemp(r.dir))
        return -1;
    snprintf(r.model, sizeof r.model, "%s/m.gguf", r.dir);
    gguf_writer_init(&w, 3);
    gguf_writer_string(&w, "name", "caf\xc3\xa9 \xff\x1b[31m");
    gguf_writer_f32(&w, "nan", NAN);
    gguf_writer_f32(&w, "eps", 0.5f);
    gguf_writer_bool(&w, "yes", true);
    gguf_writer_pair(&w, "big", GGUF_U64, &big, sizeof big);
    gguf_writer_array(&w, "many", GGUF_U8, 65, many, 65);
    gguf_writer_array(&w, "few", GGUF_U8, 64, many, 64);
    gguf_writer_array(&w, "nested", GGUF_ARRAY, 1, NULL, 0);
    gguf_writer_put_u32(&w.pairs, GGUF_I8);
    gguf_writer_put_u64(&w.pairs, 2);
    gguf_writer_put(&w.pairs, "\xff\1", 2);
    gguf_writer_u32(&w, "\xfe", 1);
    gguf_writer_tensor(&w, "a.weight", TENSOR_F32, 1, (uint64_t[]){3}, NULL);
    gguf_writer_tensor(&w, "b\n.weight", TENSOR_Q8_0, 2, (uint64_t[]){32, 2}, NULL);
    bool saved = gguf_writer_save(&w, r.model);
    gguf_writer_fini(&w);
    *state = &r;
    return saved ? 0 : -1;
}

static int tear_down(void **state)
{
    struct run *r = *state;
    unlink(r->model);
    return rmdir(r->dir);
}

static void assert_has(const char *text, const char *expected)
{
    if (!strstr(text, expected))
        fail_msg("expected \"%s\" in \"%s\"", expected, text);
}

static void test_text(void **state)
{
    struct run *r = *state;
    assert_int_equal(run(r, r->model, NULL), 0);
    assert_string_equal(r->err, "");
    assert_has(r->out, ": GGUF version 3\n");
    assert_has(r->out, "  name (string) = \"caf\xc3\xa9 \\xff\\x1b[31m\"\n");
    assert_has(r->out, "  many (u8[]) = [9, 8, 0, 0, 0, 0, ... (65)]\n");
    assert_has(r->out, "  nested (array[]) = [[-1, 1]]\n");
    assert_has(r->out, "  big (u64) = 18446744073709551615\n");
    assert_has(r->out, "  \\xfe (u32) = 1\n");
    assert_has(r->out, "  b\\x0a.weight");
    assert_has(r->out, "  tensors     2\n  parameters  67 (0.0 M)\n");
    assert_has(r->out, "  Q8_0        68 bytes in 1 tensors\n  all types   80 bytes");
}

static void test_json(void **state)
{
    struct run *r = *state;
    json_error_t error;
    json_t *root, *metadata, *tensor;
    const char *s, *type, *name;
    json_int_t n, count, size, offset;
    assert_int_equal(run(r, r->model, "--json"), 0);
    root = json_loads(r->out, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        fail_msg("%s at line %d", error.text, error.line);
    metadata = json_object_get(root, "metadata");
    assert_int_equal(json_object_size(metadata), 9);
    assert_int_equal(json_unpack(metadata, "{s:s}", "name", &s), 0);
    assert_string_equal(s, "caf\xc3\xa9 \xef\xbf\xbd\x1b[31m");
    assert_int_equal(json_unpack(metadata, "{s:s}", "nan", &s), 0);
    assert_string_equal(s, "NaN");
    assert_int_equal(json_unpack(metadata, "{s:s}", "big", &s), 0);
    assert_string_equal(s, "18446744073709551615");
    assert_int_equal(json_unpack(metadata, "{s:I}", "\xef\xbf\xbd", &n), 0);
    assert_int_equal(json_unpack(metadata, "{s:{s:s, s:I, s:[I,I]}}", "many", "type", &type,
                                 "count", &count, "first", &n, &n),
                     0);
    assert_string_equal(type, "u8");
    assert_int_equal(count, 65);
    assert_int_equal(json_array_size(json_object_get(metadata, "few")), 64);
    assert_int_equal(json_unpack(metadata, "{s:[[I]]}", "nested", &n), 0);
    assert_true(n == -1);
    tensor = json_array_get(json_object_get(root, "tensors"), 1);
    assert_int_equal(json_unpack(tensor, "{s:s, s:s, s:[I,I!], s:I, s:I}", "name", &name, "type",
                                 &type, "shape", &n, &count, "size", &size, "offset", &offset),
                     0);
    assert_string_equal(name, "b\n.weight");
    assert_string_equal(type, "Q8_0");
    assert_true(n == 32 && count == 2 && size == 68 && offset % 32 == 0);
    assert_int_equal(json_unpack(root, "{s:I, s:I, s:{s:I, s:I, s:I}}", "version", &n, "file_size",
                                 &size, "totals", "tensors", &n, "parameters", &count, "bytes", &n),
                     0);
    assert_true(size == offset + 68 && count == 67 && n == 80);
    json_decref(root);
}

static void test_errors(void **state)
{
    struct run *r = *state;
    assert_int_equal(run(r, "/nonexistent.gguf", NULL), 1);
    assert_string_equal(r->out, "");
    assert_string_equal(r->err, "firstlight inspect: /nonexistent.gguf: cannot open: No such file "
                                "or directory\n");
    assert_int_equal(run(r, NULL, NULL), 1);
    assert_has(r->err, "firstlight inspect: expected a model file");
    assert_int_equal(run(r, r->model, "--yaml"), 2);
    assert_has(r->err, "unknown flag --yaml");
    assert_int_equal(run(r, r->model, "--json=1"), 2);
    assert_has(r->err, "--json takes no value");
    assert_int_equal(run(r, r->model, "second"), 2);
    assert_has(r->err, "unexpected argument \"second\"");
    assert_int_equal(run(r, "--help", NULL), 0);
    assert_has(r->out, "usage: firstlight inspect MODEL [--json]\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
