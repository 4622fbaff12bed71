/* The small parts of base/: errors, memory sizes, buffers, the timeline's sums, CPU masks, logs. */
#include "base/buf.h"
#include "base/cpu.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timeline.h"
#include "support/cmocka_all.h"

#include <string.h>

static void errors_carry_code_param_and_text(void **state)
{
    (void)state;
    struct err e;
    assert_int_equal(err_param(&e, STATUS_INVALID, "top_p", "must be <= %d", 1), STATUS_INVALID);
    assert_string_equal(e.param, "top_p");
    err_context(&e, "request %d", 7);
    assert_string_equal(e.text, "request 7: must be <= 1");
    assert_int_equal(e.code, STATUS_INVALID);
    assert_int_equal(err_set(NULL, STATUS_IO, "nobody reads this"), STATUS_IO);
    assert_int_equal(status_http(STATUS_OVERLOADED), 429);
    assert_int_equal(status_grpc(STATUS_UNAVAILABLE), 14);
    assert_string_equal(status_name(STATUS_INVALID), "invalid_request_error");
}

static void long_error_texts_are_cut_not_overrun(void **state)
{
    (void)state;
    struct err e;
    char big[2000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    err_set(&e, STATUS_IO, "%s", big);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    err_context(&e, "%s", big);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
}

static void sizes_parse_strictly(void **state)
{
    (void)state;
    size_t n = 1;
    assert_true(mem_parse_size("64K", &n) && n == 65536);
    assert_true(mem_parse_size("3m", &n) && n == 3u << 20);
    assert_true(mem_parse_size("2G", &n) && n == (size_t)2 << 30);
    assert_true(mem_parse_size("0", &n) && n == 0);
    const char *bad[] = {"",
                         "-1",
                         "G",
                         "1T",
                         "1GB",
                         " 1",
                         "99999999999999999999",
                         "18446744073709551615",
                         "17179869184G",
                         "0x10"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(mem_parse_size(bad[i], &n));
    assert_int_equal(n, 0);
    assert_true(mem_available() > 0);
    assert_null(mem_array(SIZE_MAX / 2, 3));
    assert_null(mem_aligned(SIZE_MAX - 3));
}

static void buffers_grow_stop_at_the_limit_and_stay_terminated(void **state)
{
    (void)state;
    struct buf b = {.limit = 10};
    assert_string_equal(buf_str(&b), "");
    assert_true(buf_puts(&b, "hello"));
    assert_true(buf_printf(&b, " %d", 42));
    assert_string_equal(buf_str(&b), "hello 42");
    assert_false(buf_puts(&b, "too long"));
    assert_true(b.failed);
    assert_false(buf_putc(&b, '!')); /* failure sticks */
    assert_string_equal(buf_str(&b), "hello 42");
    buf_clear(&b);
    assert_true(buf_append(&b, "\0\0", 2));
    assert_int_equal(b.len, 2);
    char *taken = buf_take(&b);
    assert_int_equal(b.len, 0);
    mem_free(taken);
    buf_fini(&b);
}

static void buffers_read_a_whole_stream_up_to_the_limit(void **state)
{
    (void)state;
    static char bytes[200000];
    memset(bytes, 'x', sizeof bytes);
    struct buf b = {0}, small = {.limit = sizeof bytes - 1};
    FILE *f = fmemopen(bytes, sizeof bytes, "rb");
    assert_non_null(f);
    assert_true(buf_read(&b, f));
    assert_int_equal(b.len, sizeof bytes);
    rewind(f);
    assert_false(buf_read(&small, f));
    assert_true(small.failed);
    fclose(f);
    f = fopen("/", "rb"); /* a folder opens, and cannot be read */
    assert_non_null(f);
    assert_false(buf_read(&b, f));
    assert_false(b.failed);
    fclose(f);
    buf_fini(&b);
    buf_fini(&small);
}

static void ttft_parts_add_up_whatever_is_missing(void **state)
{
    (void)state;
    for (unsigned present = 0; present < 512; present++) {
        struct timeline t = {{0}};
        for (int i = 0; i < 9; i++)
            if (present & (1u << i) || i == 0 || i == 8)
                t.at_us[i] = 1000 + i * i * 10;
        struct timeline_ttft p = timeline_ttft(&t);
        int64_t sum = p.receive_us + p.tokenize_us + p.submit_us + p.queue_us + p.cache_us +
                      p.prefill_us + p.decode_us + p.first_write_us;
        assert_int_equal(sum, p.total_us);
        assert_int_equal(p.total_us, 640);
        assert_true(p.receive_us >= 0 && p.queue_us >= 0 && p.prefill_us >= 0);
        assert_true(p.decode_us >= 0 && p.first_write_us >= 0);
    }
}

static void only_a_whole_answer_has_a_decode_part(void **state)
{
    (void)state;
    struct timeline t = {.at_us = {[TIMELINE_RECEIVED] = 1000,
                                   [TIMELINE_PREFILL_STARTED] = 1100,
                                   [TIMELINE_FIRST_TOKEN] = 1500,
                                   [TIMELINE_FIRST_CONTENT] = 9007,
                                   [TIMELINE_FINISHED] = 9000}};
    struct timeline_ttft streamed = timeline_ttft(&t);
    assert_int_equal(streamed.decode_us, 0);
    assert_int_equal(streamed.first_write_us, 7507);
    t.at_us[TIMELINE_DECODED] = t.at_us[TIMELINE_FINISHED];
    struct timeline_ttft whole = timeline_ttft(&t);
    assert_int_equal(whole.prefill_us, 400);
    assert_int_equal(whole.decode_us, 7500);
    assert_int_equal(whole.first_write_us, 7);
    assert_int_equal(whole.total_us, streamed.total_us);
}

static void a_stage_is_stamped_once(void **state)
{
    (void)state;
    struct timeline t = {{0}};
    timeline_stamp(&t, TIMELINE_QUEUED);
    int64_t first = t.at_us[TIMELINE_QUEUED];
    assert_true(first > 0);
    t.at_us[TIMELINE_QUEUED] = first - 5;
    timeline_stamp(&t, TIMELINE_QUEUED);
    assert_int_equal(t.at_us[TIMELINE_QUEUED], first - 5);
}

static void cpu_masks_parse(void **state)
{
    (void)state;
    struct err e;
    uint32_t mask;
    assert_int_equal(cpu_parse_mask("c", &mask, &e), STATUS_OK);
    assert_int_equal(mask, 0);
    assert_int_equal(cpu_parse_mask("-avx512,-avx_vnni", &mask, &e), STATUS_OK);
    assert_int_equal(mask, CPU_ALL & ~(uint32_t)(CPU_AVX512 | CPU_AVX_VNNI));
    assert_int_equal(cpu_parse_mask("avx2", &mask, &e), STATUS_OK);
    assert_int_equal(mask, CPU_AVX2);
    assert_int_equal(cpu_parse_mask("0x3", &mask, &e), STATUS_OK);
    assert_int_equal(mask, 3);
    const char *bad[] = {"sse2", "", "avx2,", "0x", "0x1g", "-"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(cpu_parse_mask(bad[i], &mask, &e), STATUS_INVALID);
        assert_string_equal(e.param, "--cpu-mask");
    }
    char text[128];
    assert_string_equal(cpu_levels_text(0, text, sizeof text), "c");
    assert_string_equal(cpu_levels_text(CPU_AVX2 | CPU_AVX512, text, sizeof text), "avx2 avx512");
    assert_true(strlen(cpu_model_name()) > 0);
    assert_true(cpu_usable_count() >= 1);
}

static void log_values_are_quoted_and_cut(void **state)
{
    (void)state;
    char out[32];
    assert_string_equal(log_quote("a \"b\"\n", out, sizeof out), "\"a \\\"b\\\"\\x0a\"");
    char big[100];
    memset(big, '\n', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    log_quote(big, out, sizeof out);
    assert_true(strlen(out) < sizeof out);
    assert_int_equal(log_parse_level("warn"), LOG_WARN);
    assert_int_equal(log_parse_level("loud"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_carry_code_param_and_text),
        cmocka_unit_test(long_error_texts_are_cut_not_overrun),
        cmocka_unit_test(sizes_parse_strictly),
        cmocka_unit_test(buffers_grow_stop_at_the_limit_and_stay_terminated),
        cmocka_unit_test(buffers_read_a_whole_stream_up_to_the_limit),
        cmocka_unit_test(ttft_parts_add_up_whatever_is_missing),
        cmocka_unit_test(only_a_whole_answer_has_a_decode_part),
        cmocka_unit_test(a_stage_is_stamped_once),
        cmocka_unit_test(cpu_masks_parse),
        cmocka_unit_test(log_values_are_quoted_and_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
