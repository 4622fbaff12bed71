/* Questions of gRPC: what they may take while they are read. */
#include "grpc/grpc.h"

#include "api/api_kind.h"
#include "support/cmocka_all.h"

#include "base/json_memory.h"
#include "base/limits.h"
#include "base/mem.h"

#include <proto/firstlight.pb-c.h>
#include <string.h>

static enum status ask(const struct api_kind *kind, const struct buf *bytes, struct err *e)
{
    struct openai_request q = {0};
    *e = (struct err){0};
    enum status st = grpc_request_read(&q, kind, buf_str(bytes), bytes->len, e);
    openai_request_fini(&q);
    return st;
}

/* The same two bytes again and again, as many as a body holds. */
static void check_flood(const struct api_kind *kind, const char *two)
{
    struct buf bytes = {0};
    struct err e;
    for (size_t i = 0; i < LIMIT_BODY_BYTES / 2; i++)
        buf_append(&bytes, two, 2);
    assert_false(bytes.failed);
    if (ask(kind, &bytes, &e) != STATUS_TOO_LARGE)
        fail_msg("%02x%02x: %d %s", two[0], two[1], e.code, e.text);
    buf_fini(&bytes);
}

static void test_fields_without_number(void **state)
{
    (void)state;
    check_flood(&api_chat, "\x0a\x00"); /* messages, empty */
    check_flood(&api_chat, "\x7a\x00"); /* a field that nobody knows */
    check_flood(&api_chat, "\x78\x00"); /* the same as a number */
    check_flood(&api_completions, "\x7a\x00");
}

static void put_sampling(struct buf *out, const Firstlight__V1__Sampling *sampling)
{
    Firstlight__V1__GenerateRequest m;
    firstlight__v1__generate_request__init(&m);
    m.input_case = FIRSTLIGHT__V1__GENERATE_REQUEST__INPUT_PROMPT;
    m.prompt = (ProtobufCBinaryData){1, (uint8_t *)"a"};
    m.sampling = (Firstlight__V1__Sampling *)(uintptr_t)sampling;
    grpc_put_bare(out, &m.base);
}

static void test_strings_without_number(void **state)
{
    Firstlight__V1__Sampling sampling = FIRSTLIGHT__V1__SAMPLING__INIT;
    struct buf bytes = {0};
    struct err e;
    (void)state;
    sampling.n_stop = LIMIT_JSON_STRINGS;
    sampling.stop = mem_array(sampling.n_stop, sizeof *sampling.stop);
    put_sampling(&bytes, &sampling);
    assert_int_equal(ask(&api_completions, &bytes, &e), STATUS_TOO_LARGE);
    assert_non_null(strstr(e.text, "names and strings"));
    mem_free(sampling.stop);
    buf_fini(&bytes);
}

/* As many ids as the longest context has pass; more than are taken do not. */
static void test_ids(void **state)
{
    (void)state;
    for (int over = 0; over < 2; over++) {
        Firstlight__V1__GenerateRequest m;
        Firstlight__V1__TokenIds ids = FIRSTLIGHT__V1__TOKEN_IDS__INIT;
        struct buf bytes = {0};
        struct err e;
        firstlight__v1__generate_request__init(&m);
        ids.n_ids = over ? LIMIT_JSON_NUMBERS + 1 : LIMIT_CONTEXT;
        ids.ids = mem_array(ids.n_ids, sizeof *ids.ids);
        m.input_case = FIRSTLIGHT__V1__GENERATE_REQUEST__INPUT_TOKENS;
        m.tokens = &ids;
        grpc_put_bare(&bytes, &m.base);
        assert_int_equal(ask(&api_completions, &bytes, &e), over ? STATUS_TOO_LARGE : STATUS_OK);
        mem_free(ids.ids);
        buf_fini(&bytes);
    }
}

static void *take_and_count(void *sum, size_t size)
{
    *(size_t *)sum += size;
    return mem_alloc(size);
}

static void give_back(void *sum, void *p)
{
    (void)sum;
    mem_free(p);
}

/* What protobuf-c takes for the message, all in all. */
static size_t bytes_unpacked(const struct buf *bytes)
{
    size_t sum = 0;
    ProtobufCAllocator counting = {take_and_count, give_back, &sum};
    ProtobufCMessage *m =
        protobuf_c_message_unpack(&firstlight__v1__generate_request__descriptor, &counting,
                                  bytes->len, (const uint8_t *)bytes->data);
    assert_non_null(m);
    protobuf_c_message_free_unpacked(m, &counting);
    return sum;
}

/* Many small fields that nobody knows, and one of so many bytes. */
static void put_unknown(struct buf *out, uint32_t n, size_t len)
{
    const Firstlight__V1__Sampling sampling = FIRSTLIGHT__V1__SAMPLING__INIT;
    const char head[] = {0x7a, (char)(len | 0x80), (char)(len >> 7 | 0x80),
                         (char)(len >> 14 | 0x80), (char)(len >> 21)};
    put_sampling(out, &sampling);
    while (n-- > 0)
        buf_append(out, "\x78\x00", 2);
    buf_append(out, head, sizeof head);
    for (size_t i = 0; i < len; i++)
        buf_putc(out, 'x');
    assert_false(out->failed);
}

/* An unpacked message takes as much as it may, and a byte more. */
static void test_bytes_of_a_message(void **state)
{
    enum { FIELDS = 1040000 };
    struct buf bytes = {0};
    struct err e;
    (void)state;
    put_unknown(&bytes, FIELDS, 1);
    size_t least = bytes_unpacked(&bytes) - 1;
    assert_in_range(least, LIMIT_QUESTION_BYTES - LIMIT_BODY_BYTES, LIMIT_QUESTION_BYTES);
    for (size_t over = 0; over < 2; over++) {
        buf_clear(&bytes);
        put_unknown(&bytes, FIELDS, LIMIT_QUESTION_BYTES - least + over);
        assert_int_equal(ask(&api_completions, &bytes, &e), over ? STATUS_TOO_LARGE : STATUS_OK);
    }
    assert_non_null(strstr(e.text, "more than 67108864 bytes"));
    buf_fini(&bytes);
}

static size_t until_failure;
static bool has_failed;

static void *take_or_fail(size_t size)
{
    has_failed |= until_failure == 1;
    return until_failure > 0 && --until_failure == 0 ? NULL : mem_alloc(size);
}

/* Each allocation of what becomes JSON fails in turn: never a shorter prompt, never "not UTF-8". */
static void test_each_allocation_fails(void **state)
{
    const struct json_memory_source before = json_memory_source;
    Firstlight__V1__Sampling sampling = FIRSTLIGHT__V1__SAMPLING__INIT;
    ProtobufCBinaryData stop[2] = {{1, (uint8_t *)"x"}, {1, (uint8_t *)"y"}};
    struct buf bytes = {0};
    struct err e;
    size_t n = 0;
    (void)state;
    sampling.n_stop = 2;
    sampling.stop = stop;
    sampling.has_logprobs = sampling.logprobs = true;
    put_sampling(&bytes, &sampling);
    json_memory_source.take = take_or_fail;
    do {
        until_failure = ++n;
        has_failed = false;
        enum status st = ask(&api_completions, &bytes, &e);
        until_failure = 0;
        if (st != (has_failed ? STATUS_NO_MEMORY : STATUS_OK))
            fail_msg("%zu: %d %s", n, st, e.text);
    } while (has_failed);
    assert_true(n > 10);
    json_memory_source = before;
    buf_fini(&bytes);
}

/* Each sampling parameter has a field, which becomes the parameter. */
static void test_sampling_rows(void **state)
{
    (void)state;
    for (int p = 0; p < SAMPLING_PARAMS; p++) {
        Firstlight__V1__Sampling sampling = FIRSTLIGHT__V1__SAMPLING__INIT;
        const struct sampling_row *row = &sampling_rows[p];
        const ProtobufCFieldDescriptor *f =
            protobuf_c_message_descriptor_get_field_by_name(sampling.base.descriptor, row->name);
        struct openai_request q = {0};
        struct buf bytes = {0};
        struct err e = {0};
        if (!f || f->type != (row->whole ? PROTOBUF_C_TYPE_INT32 : PROTOBUF_C_TYPE_FLOAT))
            fail_msg("%s: no field of its type", row->name);
        void *at = (char *)&sampling + f->offset;
        if (row->whole)
            *(int32_t *)at = (int32_t)row->highest;
        else
            *(float *)at = (float)row->highest;
        *(protobuf_c_boolean *)((char *)&sampling + f->quantifier_offset) = true;
        put_sampling(&bytes, &sampling);
        assert_int_equal(grpc_request_read(&q, &api_completions, buf_str(&bytes), bytes.len, &e),
                         STATUS_OK);
        for (int k = 0; k < SAMPLING_PARAMS; k++)
            assert_true(sampling_get(&q.params.sampling, k) ==
                        (k == p ? row->highest : sampling_get(&sampling_default, k)));
        openai_request_fini(&q);
        buf_fini(&bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields_without_number),
        cmocka_unit_test(test_strings_without_number),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_bytes_of_a_message),
        cmocka_unit_test(test_sampling_rows),
        cmocka_unit_test(test_each_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
