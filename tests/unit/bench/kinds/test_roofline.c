/* The roofline: loops that count what they did, levels and sizes that are there or not, and the
 * percentages of a model's speed. The rates are the machine's. */
#include "support/cmocka_all.h"
#include "support/random.h"
#include "support/tiny_model.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "bench/kinds/roofline_model.h"

#include <math.h>

#define MIB ((size_t)1 << 20)

/* --- kernels/peak.h ------------------------------------------------------------------------- */

/* A loop that the compiler had shortened would be short of the sum, too. */
static void test_loops_do_all_their_multiply_adds(void **state)
{
    (void)state;
    const struct peak *p;
    for (size_t i = 0; (p = peak_at(i)); i++) {
        if (!peak_is_there(p, cpu_detect()))
            continue;
        assert_int_equal(p->run(0), 0);
        assert_int_equal(p->run(1), p->macs);
        assert_int_equal(p->run(1001), 1001 * p->macs);
        assert_int_equal(p->run(1 << 19), (1 << 19) * p->macs);
    }
}

static const char *best(enum peak_kind kind, uint32_t levels)
{
    const struct peak *p = peak_best(kind, levels);
    return p ? p->name : "none";
}

static void test_the_best_loop_of_some_levels(void **state)
{
    (void)state;
    uint32_t avx512 = CPU_AVX2 | CPU_AVX512;
    assert_string_equal(best(PEAK_INT8, 0), "none");
    assert_string_equal(best(PEAK_INT8, CPU_AVX2), "avx2");
    assert_string_equal(best(PEAK_INT8, CPU_AVX2 | CPU_AVX_VNNI), "avx_vnni");
    assert_string_equal(best(PEAK_INT8, avx512), "avx2");
    assert_string_equal(best(PEAK_INT8, avx512 | CPU_AVX512_VNNI), "avx512_vnni");
    assert_string_equal(best(PEAK_F32, CPU_AVX2), "avx2");
    assert_string_equal(best(PEAK_F32, avx512), "avx512");
    assert_string_equal(best(PEAK_BF16, avx512), "none");
    assert_string_equal(best(PEAK_BF16, CPU_ALL), "avx512_bf16");
}

/* Each word weighs on the result, and nothing beside them is read (the sanitizers look). */
static void check_reader(peak_read_fn *read, size_t n_bytes)
{
    uint64_t *words = mem_aligned(n_bytes), want = 0;
    struct random random = {n_bytes};
    assert_non_null(words);
    for (size_t i = 0; i < n_bytes / 8; i++) {
        words[i] = random_next(&random);
        want ^= words[i];
    }
    assert_int_equal(read(words, n_bytes), want);
    for (size_t i = 0; i < n_bytes / 8; i++) {
        words[i] ^= 1;
        assert_int_equal(read(words, n_bytes), want ^ 1);
        words[i] ^= 1;
    }
    mem_free(words);
}

static void test_readers_read_everything(void **state)
{
    static const uint32_t levels[] = {0, CPU_AVX2, CPU_AVX2 | CPU_AVX512};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        if ((levels[i] & cpu_detect()) != levels[i])
            continue;
        assert_int_equal(peak_reader(levels[i])(NULL, 0), 0);
        check_reader(peak_reader(levels[i]), PEAK_READ_BYTES);
        check_reader(peak_reader(levels[i]), 5 * PEAK_READ_BYTES);
    }
}

/* --- bench/kinds/roofline.h
 * ----------------------------------------------------------------------- */

static uint32_t n_calls, n_total;

static void count_calls(uint32_t point, uint32_t n)
{
    assert_int_equal(point, n_calls);
    n_calls++;
    n_total = n;
}

static struct roofline_options options(uint32_t levels)
{
    return (struct roofline_options){
        .n_threads = 3,
        .cpu_levels = cpu_detect() & levels,
        .footprint = MIB,
        .dram = MIB,
        .warmup_runs = 1,
        .repeat_runs = 3,
        .run_ms = 1,
        .progress = count_calls,
    };
}

static void check_point(const struct roofline_point *p, uint32_t levels)
{
    assert_true(p->peak ? peak_is_there(p->peak, levels) : p->memory != NULL);
    bool there = p->peak || p->bytes > 0;
    assert_int_equal(p->rates.n, there ? 3 : 0);
    for (size_t i = 0; i < p->rates.n; i++)
        assert_true(p->rates.v[i] > 0 && isfinite(p->rates.v[i]));
    assert_true(there ? series_median(&p->rates) > 0 : isnan(series_median(&p->rates)));
}

static void test_points_of_levels_and_threads(void **state)
{
    static const uint32_t threads[] = {1, 2, 3};
    (void)state;
    uint32_t masks[] = {0, CPU_AVX2, CPU_ALL};
    for (size_t m = 0; m < 3; m++) {
        struct roofline_options o = options(masks[m]);
        struct roofline r;
        struct err err = {0};
        uint32_t n_peaks = 0;
        for (size_t i = 0; peak_at(i); i++)
            n_peaks += peak_is_there(peak_at(i), o.cpu_levels);
        n_calls = 0;
        assert_int_equal(roofline_run(&r, &o, &err), STATUS_OK);
        assert_int_equal(r.n, (n_peaks + 4) * 3);
        assert_int_equal(n_calls, r.n);
        assert_int_equal(n_total, r.n);
        for (uint32_t i = 0; i < r.n; i++) {
            assert_int_equal(r.points[i].threads, threads[i % 3]);
            check_point(&r.points[i], o.cpu_levels);
        }
        assert_int_equal(r.points[r.n - 4].bytes, MIB); /* the footprint is always read */
        roofline_fini(&r);
    }
}

/* A megabyte is no DRAM where the third cache is larger. */
static void test_a_memory_that_a_cache_holds_is_left_out(void **state)
{
    (void)state;
    struct roofline_options o = options(0);
    struct roofline r;
    struct err err = {0};
    n_calls = 0;
    assert_int_equal(roofline_run(&r, &o, &err), STATUS_OK);
    const struct roofline_point *dram = &r.points[r.n - 1];
    assert_string_equal(dram->memory, "dram");
    assert_int_equal(dram->bytes, 4 * cpu_cache_bytes(3) > MIB ? 0 : MIB);
    roofline_fini(&r);
}

static void test_sizes_that_are_read(void **state)
{
    (void)state;
    assert_int_equal(roofline_memory(0), 4096);
    assert_int_equal(roofline_memory(MIB), MIB);
    assert_true(roofline_memory(SIZE_MAX) <= ROOFLINE_DRAM);
}

static void test_table_and_result(void **state)
{
    (void)state;
    struct roofline_point points[] = {
        {.peak = peak_best(PEAK_F32, CPU_AVX2), .threads = 1},
        {.peak = peak_best(PEAK_F32, CPU_AVX2), .threads = 2},
        {.memory = "l3", .threads = 1, .bytes = 16 * MIB},
        {.memory = "l3", .threads = 2, .bytes = 0},
    };
    struct roofline r = {points, 4};
    struct result result;
    struct buf table = {0};
    const double rates[] = {7, 5, 6};
    for (size_t i = 0; i < 9; i++)
        series_add(&points[i / 3].rates, rates[i % 3] * (double)(1 + i / 3));
    roofline_table(&table, &r);
    assert_string_equal(buf_str(&table),
                        "                            1 thread   2 threads\n"
                        "f32    avx2                      6.0        12.0  GOP/s\n"
                        "read   l3                       18.0         n/a  GB/s of 16.0 MiB\n");
    result_init(&result, "roofline", NULL, json_object(), json_object());
    roofline_result(&r, &result);
    const json_t *metrics = json_object_get(result.root, "metrics");
    const json_t *two = json_object_get(metrics, "f32_avx2_t2");
    assert_int_equal(json_object_size(metrics), 3);
    assert_string_equal(json_string_value(json_object_get(two, "unit")), "GOP/s");
    assert_true(json_real_value(json_array_get(json_object_get(two, "repeats"), 0)) == 14);
    assert_true(json_real_value(json_object_get(two, "median")) == 12);
    assert_non_null(json_object_get(metrics, "read_l3_t1"));
    result_fini(&result);
    buf_fini(&table);
    for (size_t i = 0; i < 4; i++)
        series_fini(&points[i].rates);
}

/* --- bench/kinds/roofline_model.h
 * ----------------------------------------------------------------- */

/* Shapes by hand: tiny_model_default is 3 layers of 64 wide, 8 + 2 * 2 heads of 24, 160 hidden. */
#define LAYER_MACS (64 * (8 + 4) * 24 + 8 * 24 * 64 + 3 * 64 * 160)

static void test_what_a_token_needs(void **state)
{
    (void)state;
    struct tiny_model tiny = tiny_model_default;
    struct roofline_model m, f;
    struct err err = {0};
    assert_int_equal(tiny_model_bind(&tiny, &err), STATUS_OK);
    struct backend_options b = {.n_threads = 2, .cpu_levels = CPU_AVX2, .kv_type = KV_F16};
    roofline_model_init(&m, tiny.model, &b);
    b.activations = ACTIVATIONS_F32;
    b.kv_type = KV_F32;
    roofline_model_init(&f, tiny.model, &b);
    assert_true(m.macs_int8 > 0 && m.macs_f32 > 0); /* its types are mixed */
    assert_int_equal(m.macs_int8 + m.macs_f32, 3 * LAYER_MACS);
    assert_int_equal(f.macs_int8, 0);
    assert_int_equal(f.macs_f32, 3 * LAYER_MACS);
    assert_int_equal(m.kv_bytes, 3 * 2 * 2 * 32 * 2); /* heads of 24 are kept 32 wide */
    assert_int_equal(f.kv_bytes, 2 * m.kv_bytes);
    const struct model_layer *l = tiny.model->layers;
    size_t bytes = tiny.model->output->size + tiny.model->token_embd->size / 80;
    for (int i = 0; i < 3; i++)
        bytes += l[i].wq->size + l[i].wk->size + l[i].wv->size + l[i].wo->size + l[i].w_gate->size +
                 l[i].w_up->size + l[i].w_down->size;
    assert_int_equal(m.weight_bytes, bytes);
    tiny_model_fini(&tiny);
}

static struct roofline_model example(void)
{
    struct roofline_model m = {.macs_int8 = 1000000, .weight_bytes = 1000000, .kv_bytes = 1000};
    m.int8.peak = peak_best(PEAK_INT8, CPU_AVX2);
    m.f32.peak = peak_best(PEAK_F32, CPU_AVX2);
    for (int i = 0; i < 3; i++) {
        series_add(&m.int8.rates, 90 + 10 * i); /* 100 GOP/s: 20 us for the multiply-adds */
        series_add(&m.f32.rates, 49 + i);       /* 50 GOP/s */
        series_add(&m.read.rates, 9 + i);       /* 10 GB/s: 100 us for the weights */
    }
    return m;
}

static void close_to(double got, double want)
{
    if (!(fabs(got - want) < 1e-9 * want))
        fail_msg("got %.12g, want %.12g", got, want);
}

static void test_percentages(void **state)
{
    (void)state;
    struct roofline_model m = example();
    close_to(roofline_model_peak_percent(&m, 5000), 10.0);
    m.macs_f32 = 500000; /* 20 us more */
    close_to(roofline_model_peak_percent(&m, 5000), 20.0);
    m.macs_int8 = 0;
    close_to(roofline_model_peak_percent(&m, 5000), 10.0);
    series_fini(&m.f32.rates);
    assert_true(isnan(roofline_model_peak_percent(&m, 5000)));
    struct model_speed_options o = {.n_generate = 1, .batch = 1};
    close_to(roofline_model_read_percent(&m, 1000, &o), 10.01);
    o.depth = 98;
    o.n_generate = 3; /* of 99, 100, 101 positions */
    close_to(roofline_model_read_percent(&m, 1000, &o), 11.0);
    o.batch = 5; /* 1.504 MB in a step of 5 tokens, of 200 steps/s */
    m.embd_bytes = 1000;
    close_to(roofline_model_read_percent(&m, 1000, &o), 3.008);
    roofline_model_fini(&m);
}

static void test_lines_and_metrics(void **state)
{
    (void)state;
    struct roofline_model m = example();
    struct model_speed_options o = {
        .n_prompt = 512, .n_prompts = 1, .n_generate = 1, .batch = 1, .depth = 0};
    struct model_speed speed = {0};
    struct result r;
    struct buf out = {0};
    series_add(&speed.prefill, 5000);
    series_add(&speed.decode, 1000);
    m.read.bytes = m.weight_bytes;
    roofline_model_table(&out, &m, &o, &speed);
    assert_string_equal(buf_str(&out),
                        "roofline int8 100.0 GOP/s (avx2), f32 50.0 GOP/s (avx2), read 10.0 GB/s "
                        "(1.0 MB)\n"
                        "prefill    10.0 % of the int8 peak: 1.00 M multiply-adds a token\n"
                        "decode     10.0 % of the bandwidth: 1.00 MB a token\n");
    result_init(&r, "model", NULL, json_object(), json_object());
    roofline_model_result(&m, &o, &speed, &r);
    const json_t *metrics = json_object_get(r.root, "metrics");
    assert_int_equal(json_object_size(metrics), 5);
    close_to(json_real_value(json_object_get(json_object_get(metrics, "prefill_of_peak"), "max")),
             10.0);
    close_to(
        json_real_value(json_object_get(json_object_get(metrics, "decode_of_bandwidth"), "min")),
        10.01);
    result_fini(&r);
    buf_fini(&out);
    model_speed_fini(&speed);
    roofline_model_fini(&m);
}

static void test_lines_of_several(void **state)
{
    (void)state;
    struct roofline_model m = example();
    struct model_speed_options o = {
        .n_prompt = 32, .n_prompts = 16, .n_generate = 1, .batch = 2, .depth = 99};
    struct model_speed speed = {0};
    struct result r;
    struct buf out = {0};
    series_add(&speed.prefill, 5000);
    series_add(&speed.prompts, 4000);
    series_add(&speed.prompts_percent, 80);
    series_add(&speed.decode, 1000);
    roofline_model_table(&out, &m, &o, &speed);
    assert_non_null(strstr(buf_str(&out),
                           "prompts     8.0 % of the int8 peak: 80.0 % of the rate of one\n"
                           "decode      6.0 % of the bandwidth: 1.20 MB a step of 2 tokens\n"));
    result_init(&r, "model", NULL, json_object(), json_object());
    roofline_model_result(&m, &o, &speed, &r);
    const json_t *metrics = json_object_get(r.root, "metrics");
    assert_int_equal(json_object_size(metrics), 6);
    close_to(json_real_value(json_object_get(json_object_get(metrics, "prompts_of_peak"), "max")),
             8.0);
    result_fini(&r);
    buf_fini(&out);
    model_speed_fini(&speed);
    roofline_model_fini(&m);
}

/* Plain C has no peak of arithmetic: nothing is made up for it. */
static void test_without_levels(void **state)
{
    (void)state;
    struct tiny_model tiny = tiny_model_default;
    struct roofline_model m;
    struct model_speed_options o = {.n_prompt = 1, .n_prompts = 1, .n_generate = 1, .batch = 1};
    struct model_speed speed = {0};
    struct err err = {0};
    struct buf out = {0};
    assert_int_equal(tiny_model_bind(&tiny, &err), STATUS_OK);
    struct backend_options b = {.n_threads = 2, .kv_type = KV_F16};
    roofline_model_init(&m, tiny.model, &b);
    assert_int_equal(roofline_model_measure(&m, &err), STATUS_OK);
    assert_int_equal(roofline_model_measure(&m, &err), STATUS_OK);
    assert_int_equal(m.read.rates.n, 6);
    assert_int_equal(m.int8.rates.n + m.f32.rates.n, 0);
    series_add(&speed.prefill, 5000);
    series_add(&speed.decode, 1000);
    roofline_model_table(&out, &m, &o, &speed);
    assert_non_null(strstr(buf_str(&out), "n/a of the int8 and f32 peaks"));
    buf_fini(&out);
    model_speed_fini(&speed);
    roofline_model_fini(&m);
    tiny_model_fini(&tiny);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loops_do_all_their_multiply_adds),
        cmocka_unit_test(test_the_best_loop_of_some_levels),
        cmocka_unit_test(test_readers_read_everything),
        cmocka_unit_test(test_points_of_levels_and_threads),
        cmocka_unit_test(test_a_memory_that_a_cache_holds_is_left_out),
        cmocka_unit_test(test_sizes_that_are_read),
        cmocka_unit_test(test_table_and_result),
        cmocka_unit_test(test_what_a_token_needs),
        cmocka_unit_test(test_percentages),
        cmocka_unit_test(test_lines_and_metrics),
        cmocka_unit_test(test_lines_of_several),
        cmocka_unit_test(test_without_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
