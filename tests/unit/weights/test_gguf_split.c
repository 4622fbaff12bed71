/* Split GGUF files: parts joined, and what is said of parts that are missing or lie. */
#include "support/cmocka_all.h"
#include "support/gguf_writer.h"
#include "weights/gguf.h"

#include "base/limits.h"

#include <stdlib.h>
#include <unistd.h>

#define PARTS 3

/* Three parts with a tensor each, but for what a test changes. */
struct split {
    char folder[32];
    uint32_t no[PARTS];
    uint32_t count[PARTS];
    uint32_t tensors[PARTS];
    bool absent[PARTS];
    const char *tensor_names[PARTS];
};

static const struct split good = {
    .no = {0, 1, 2},
    .count = {3, 3, 3},
    .tensors = {3, 3, 3},
    .tensor_names = {"a", "b", "c"},
};

static char *path_of(const struct split *s, int i, char path[static 96])
{
    snprintf(path, 96, "%s/m-%05d-of-%05d.gguf", s->folder, i + 1, PARTS);
    return path;
}

static void write_part(const struct split *s, int i)
{
    struct gguf_writer w;
    char path[96];
    float values[2] = {(float)i, (float)(10 * i)};
    gguf_writer_init(&w, 3);
    if (i == 0)
        gguf_writer_string(&w, "general.architecture", "llama");
    gguf_writer_u32(&w, "split.no", s->no[i]);
    gguf_writer_u32(&w, "split.count", s->count[i]);
    gguf_writer_u32(&w, "split.tensors.count", s->tensors[i]);
    gguf_writer_tensor(&w, s->tensor_names[i], TENSOR_F32, 1, (uint64_t[]){2}, values);
    assert_true(gguf_writer_save(&w, path_of(s, i, path)));
    gguf_writer_fini(&w);
}

static void write_parts(struct split *s)
{
    strcpy(s->folder, "/tmp/split-XXXXXX");
    assert_non_null(mkdtemp(s->folder));
    for (int i = 0; i < PARTS; i++)
        if (!s->absent[i])
            write_part(s, i);
}

static void remove_parts(const struct split *s)
{
    char path[96];
    for (int i = 0; i < PARTS; i++)
        unlink(path_of(s, i, path));
    assert_int_equal(rmdir(s->folder), 0);
}

static void any_part_opens_the_whole(void **state)
{
    (void)state;
    struct split s = good;
    write_parts(&s);
    for (int named = 0; named < PARTS; named++) {
        struct gguf *g = NULL;
        struct err err = {0};
        struct gguf_string arch;
        char path[96];
        assert_int_equal(gguf_open(&g, path_of(&s, named, path), &err), STATUS_OK);
        assert_string_equal(gguf_path(g), path_of(&s, 0, path));
        assert_int_equal(gguf_get_string(g, "general.architecture", &arch, &err), STATUS_OK);
        assert_int_equal(gguf_tensor_count(g), 3);
        assert_true(gguf_file_size(g) > 3 * 24);
        for (int i = 0; i < PARTS; i++) {
            const struct tensor *t = gguf_tensor(g, good.tensor_names[i]);
            assert_non_null(t);
            assert_true(((const float *)t->data)[1] == (float)(10 * i));
            assert_int_equal(gguf_tensor_offset(g, t) % 32, 0);
            assert_true(gguf_tensor_offset(g, t) > 0);
        }
        gguf_close(g);
    }
    remove_parts(&s);
}

/* Opens part `named` and looks for the words in the error. */
static void expect_error(struct split *s, int named, enum status status, const char *word,
                         const char *other)
{
    struct gguf *g = NULL;
    struct err err = {0};
    char path[96];
    write_parts(s);
    assert_int_equal(gguf_open(&g, path_of(s, named, path), &err), status);
    assert_null(g);
    if (!strstr(err.text, word) || !strstr(err.text, other))
        fail_msg("expected \"%s\" and \"%s\" in: %s", word, other, err.text);
    remove_parts(s);
}

static void missing_parts_are_named(void **state)
{
    (void)state;
    struct split s = good;
    s.absent[0] = s.absent[2] = true;
    expect_error(&s, 1, STATUS_NOT_FOUND, "m-00001-of-00003.gguf, ", "m-00003-of-00003.gguf");
}

static void parts_that_lie(void **state)
{
    (void)state;
    struct split s = good;
    s.no[1] = 2;
    expect_error(&s, 0, STATUS_INVALID, "m-00002-of-00003.gguf: key split.no",
                 "expected 1, found 2");
    s = good;
    s.count[2] = 4;
    expect_error(&s, 0, STATUS_INVALID, "m-00003-of-00003.gguf: key split.count",
                 "expected 3, found 4");
    s = good;
    s.tensors[0] = s.tensors[1] = s.tensors[2] = 5;
    expect_error(&s, 0, STATUS_INVALID, "expected 5 tensors", "found 3");
    s = good;
    s.tensor_names[2] = "a";
    expect_error(&s, 0, STATUS_INVALID, "tensor \"a\"", "found twice");
    s = good;
    s.no[0] = 7;
    expect_error(&s, 0, STATUS_INVALID, "split.no", "found 7");
    s = good;
    s.count[0] = LIMIT_MODEL_FILES + 1;
    expect_error(&s, 0, STATUS_TOO_LARGE, "split.count", "found 1025");
    s = good;
    s.no[0] = 1;
    expect_error(&s, 0, STATUS_INVALID, "-00002-of-00003.gguf", "so that the other parts");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_part_opens_the_whole),
        cmocka_unit_test(missing_parts_are_named),
        cmocka_unit_test(parts_that_lie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
