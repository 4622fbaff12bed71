/* A trace: what its lines say, which hashes are equal, what happens when the disk is full or slow.
 */
#include "observe/trace.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "support/cmocka_all.h"

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_LINES 16

static char folder[] = "/tmp/firstlight-trace-XXXXXX";
static char path[sizeof folder + 16];

static int set_up(void **state)
{
    (void)state;
    log_set_level(LOG_OFF);
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/trace", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(folder);
}

static struct trace *opened(void)
{
    struct trace *t;
    struct err err;
    int fd;
    if (trace_create(&fd, path, &err) || trace_open(&t, fd, path, &err))
        fail_msg("%s", err.text);
    return t;
}

/* Ids 0, 1, 2, ... with those from `change` on made others. */
static int32_t *prompt(uint32_t n, uint32_t change)
{
    int32_t *ids = mem_array(n, sizeof *ids);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (int32_t)(i < change ? i : i + 100000);
    return ids;
}

static struct trace_line *line(const struct trace *t, uint32_t n, uint32_t change)
{
    struct trace_line *l = trace_line_new();
    int32_t *ids = prompt(n, change);
    assert_non_null(l);
    trace_line_hash(t, &l, ids, n);
    assert_non_null(l);
    assert_int_equal(trace_line_bytes(l), sizeof *l + n / TRACE_BLOCK_TOKENS * sizeof(uint64_t));
    mem_free(ids);
    l->received_us = clock_now_us();
    l->finish = "length";
    l->status = 200;
    return l;
}

/* Closes, and reads the file back. */
static size_t lines_of(struct trace *t, json_t **out, size_t max)
{
    char *text = NULL;
    size_t cap = 0, n = 0;
    trace_close(t);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (ssize_t len; (len = getline(&text, &cap, f)) >= 0; n++) {
        assert_true(n < max);
        assert_int_equal(text[len - 1], '\n');
        out[n] = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(out[n]);
    }
    free(text);
    fclose(f);
    assert_int_equal(unlink(path), 0);
    return n;
}

static void release(json_t **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        json_decref(list[i]);
}

static json_int_t whole(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    assert_true(json_is_integer(v));
    return json_integer_value(v);
}

static void test_fields(void **state)
{
    (void)state;
    struct trace *t = opened();
    struct trace_line *l = line(t, 70, 70);
    l->received_us += 3000000;
    l->output_length = 5;
    l->max_tokens = 9;
    l->stream = true;
    trace_add(t, l);
    json_t *got[MAX_LINES];
    size_t n = lines_of(t, got, MAX_LINES);
    assert_int_equal(n, 2);
    assert_string_equal(json_string_value(json_object_get(got[0], "schema")), TRACE_SCHEMA);
    assert_int_equal(whole(got[0], "block_tokens"), TRACE_BLOCK_TOKENS);
    assert_int_equal(strlen(json_string_value(json_object_get(got[0], "started"))), 20);
    assert_in_range(whole(got[1], "timestamp"), 3000, 3000 + 60000);
    assert_int_equal(whole(got[1], "input_length"), 70);
    assert_int_equal(whole(got[1], "output_length"), 5);
    assert_int_equal(whole(got[1], "max_tokens"), 9);
    assert_int_equal(whole(got[1], "status"), 200);
    assert_true(json_is_true(json_object_get(got[1], "stream")));
    assert_true(json_is_false(json_object_get(got[1], "chat")));
    assert_string_equal(json_string_value(json_object_get(got[1], "finish")), "length");
    assert_int_equal(json_array_size(json_object_get(got[1], "hash_ids")), 2);
    assert_int_equal(json_object_size(got[1]), 9);
    release(got, n);
}

/* Without a prompt: what was refused before it had been read. */
static void test_refused(void **state)
{
    (void)state;
    struct trace *t = opened();
    struct trace_line *l = trace_line_new();
    l->status = 503;
    l->finish = "refused";
    trace_add(t, l);
    json_t *got[MAX_LINES];
    size_t n = lines_of(t, got, MAX_LINES);
    assert_int_equal(n, 2);
    assert_int_equal(whole(got[1], "timestamp"), 0); /* before the trace began: never negative */
    assert_int_equal(whole(got[1], "input_length"), 0);
    assert_int_equal(json_array_size(json_object_get(got[1], "hash_ids")), 0);
    assert_int_equal(whole(got[1], "status"), 503);
    release(got, n);
}

/* How many hashes two lines share from the beginning; after the first difference none is shared. */
static uint32_t shared(const struct trace_line *a, const struct trace_line *b)
{
    uint32_t n = 0;
    while (n < a->n_hashes && n < b->n_hashes && a->hash_ids[n] == b->hash_ids[n])
        n++;
    for (uint32_t i = n; i < a->n_hashes && i < b->n_hashes; i++)
        assert_true(a->hash_ids[i] != b->hash_ids[i]);
    return n;
}

static void test_hashes(void **state)
{
    (void)state;
    static const struct {
        uint32_t n, change, n_hashes, shared;
    } cases[] = {
        {0, 0, 0, 0},     {31, 31, 0, 0},    {32, 32, 1, 1},     {63, 63, 1, 1},
        {64, 64, 2, 2},   {320, 0, 10, 0},   {320, 31, 10, 0},   {320, 32, 10, 1},
        {320, 95, 10, 2}, {320, 319, 10, 9}, {320, 320, 10, 10},
    };
    struct trace *t = opened();
    struct trace_line *whole_prompt = line(t, 320, 320);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct trace_line *l = line(t, cases[i].n, cases[i].change);
        assert_int_equal(l->n_prompt, cases[i].n);
        assert_int_equal(l->n_hashes, cases[i].n_hashes);
        assert_int_equal(shared(l, whole_prompt), cases[i].shared);
        for (uint32_t k = 0; k < l->n_hashes; k++)
            assert_true(l->hash_ids[k] < UINT64_C(1) << 53);
        mem_free(l);
    }
    mem_free(whole_prompt);
    trace_close(t);
    unlink(path);
}

/* Equal blocks at different places, and another file's key: other hashes. */
static void test_chain_and_key(void **state)
{
    (void)state;
    int32_t ids[4 * TRACE_BLOCK_TOKENS] = {0};
    uint64_t first[4];
    for (int file = 0; file < 2; file++) {
        struct trace *t = opened();
        struct trace_line *l = trace_line_new();
        trace_line_hash(t, &l, ids, sizeof ids / sizeof *ids);
        for (int i = 0; i < 4; i++) {
            for (int k = 0; k < i; k++)
                assert_true(l->hash_ids[i] != l->hash_ids[k]);
            if (file == 1)
                assert_true(l->hash_ids[i] != first[i]);
            first[i] = l->hash_ids[i];
        }
        mem_free(l);
        trace_close(t);
        unlink(path);
    }
}

static void test_existing_file(void **state)
{
    (void)state;
    int fd;
    struct err err = {0};
    FILE *f = fopen(path, "w");
    fputs("mine", f);
    fclose(f);
    assert_int_equal(trace_create(&fd, path, &err), STATUS_INVALID);
    assert_int_equal(fd, -1);
    assert_string_equal(err.param, "--record");
    assert_non_null(strstr(err.text, path));
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_size, 4);
    unlink(path);
    assert_int_equal(trace_create(&fd, "/nonexistent/trace", &err), STATUS_IO);
    assert_non_null(strstr(err.text, "/nonexistent/trace"));
    trace_close(NULL);
}

/* The producer does not wait, whatever the writer does: sooner or later a line finds no place, and
 * lines written and lines dropped are all there were. */
static void check_flood(uint32_t n_prompt, unsigned long enough)
{
    struct trace *t = opened();
    struct trace_line *model = line(t, n_prompt, n_prompt);
    size_t bytes = sizeof *model + model->n_hashes * sizeof *model->hash_ids;
    unsigned long added = 0;
    for (; trace_dropped(t) == 0 && added < 1000 * enough; added++) {
        struct trace_line *l = mem_alloc(bytes);
        memcpy(l, model, bytes);
        trace_add(t, l);
    }
    assert_true(trace_dropped(t) > 0 && added > enough);
    mem_free(model);
    size_t max = added + 2;
    json_t **got = mem_array(max, sizeof *got);
    size_t n = lines_of(t, got, max);
    assert_int_equal(n - 2 + (size_t)whole(got[n - 1], "dropped"), added);
    release(got, n);
    mem_free(got);
}

/* LIMIT_TRACE_LINES, LIMIT_TRACE_BYTES */
static void test_limits(void **state)
{
    (void)state;
    check_flood(1, LIMIT_TRACE_LINES);
    check_flood(LIMIT_CONTEXT, LIMIT_TRACE_BYTES / (LIMIT_CONTEXT / TRACE_BLOCK_TOKENS * 8) - 1);
}

static void test_dropped_line(void **state)
{
    (void)state;
    struct trace *t = opened();
    trace_add(t, NULL); /* no memory for it */
    trace_add(t, line(t, 5, 5));
    trace_add(t, NULL);
    json_t *got[MAX_LINES];
    size_t n = lines_of(t, got, MAX_LINES);
    assert_int_equal(n, 3);
    assert_int_equal(whole(got[1], "input_length"), 5);
    assert_int_equal(whole(got[2], "dropped"), 2);
    assert_int_equal(json_object_size(got[2]), 1);
    release(got, n);
}

/* A file that may not grow stands in for a full disk: whole lines remain, and the rest is counted.
 */
static void test_full_disk(void **state)
{
    (void)state;
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct trace *t = opened();
    trace_add(t, line(t, 64, 64));
    struct stat s;
    do /* until it has been written */
        assert_int_equal(stat(path, &s), 0);
    while (s.st_size < 200 && usleep(1000) == 0);
    small = before;
    small.rlim_cur = (rlim_t)s.st_size + 300; /* room for a line and some of the next */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; i < 10; i++)
        trace_add(t, line(t, 640, 640));
    json_t *got[MAX_LINES];
    size_t n = lines_of(t, got, MAX_LINES);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(n, 3);
    assert_int_equal(whole(got[1], "input_length"), 64);
    assert_int_equal(whole(got[2], "dropped"), 10);
    release(got, n);
}

/* Lines come to the file while the trace is open, without anything else happening. */
static void test_flushes_by_itself(void **state)
{
    (void)state;
    struct trace *t = opened();
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    off_t header = s.st_size;
    assert_true(header > 0);
    for (int i = 0; i < 3; i++) {
        off_t size = s.st_size;
        trace_add(t, line(t, 64, 64));
        do
            assert_int_equal(stat(path, &s), 0);
        while (s.st_size == size && usleep(1000) == 0);
    }
    json_t *got[MAX_LINES];
    size_t n = lines_of(t, got, MAX_LINES);
    assert_int_equal(n, 4);
    release(got, n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_hashes),
        cmocka_unit_test(test_chain_and_key),
        cmocka_unit_test(test_existing_file),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_dropped_line),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_flushes_by_itself),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
