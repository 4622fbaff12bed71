/* Requests of a result file: parts that add up, percentiles' windows, and what is left out. */
#include "bench/load/samples.h"
#include "support/bench_sample.h"
#include "support/cmocka_all.h"

#include <math.h>

static void assert_near(double found, double expected)
{
    if (!(fabs(found - expected) < 1e-9))
        fail_msg("found %.12g, expected %.12g", found, expected);
}

static void parts_add_up_to_what_the_client_saw(void **state)
{
    (void)state;
    json_t *root = bench_sample_empty();
    json_t *requests = bench_sample_run(root);
    struct samples s;
    json_array_append_new(requests, bench_sample_request(100, 5, 20, 3));
    samples_read(&s, root, NULL);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.n_split, 1);
    assert_near(s.v[0].ttft, 28);
    assert_near(s.v[0].parts[SAMPLES_QUEUE], 5);
    assert_near(s.v[0].parts[SAMPLES_PREFILL], 20);
    assert_near(s.v[0].parts[SAMPLES_OUTSIDE], 3);
    assert_int_equal(s.itl.n, 1);
    assert_near(s.itl.v[0], 10);
    samples_fini(&s);
    json_decref(root);
}

/* 301 requests in a mixed order, the i-th shortest with a queue of i: windows of 7. */
static void a_percentile_is_the_mean_of_its_neighbours(void **state)
{
    (void)state;
    json_t *root = bench_sample_empty();
    json_t *requests = bench_sample_run(root);
    double parts[SAMPLES_PARTS];
    struct samples s;
    for (int i = 0; i < 301; i++)
        json_array_append_new(requests, bench_sample_request(0, i * 37 % 301, 2, 1));
    samples_read(&s, root, NULL);
    assert_int_equal(samples_window(&s), 7);
    samples_parts_at(&s, 50, parts);
    assert_near(parts[SAMPLES_QUEUE], 150);
    assert_near(parts[SAMPLES_PREFILL], 2);
    assert_near(parts[SAMPLES_OUTSIDE], 1);
    samples_parts_at(&s, 90, parts);
    assert_near(parts[SAMPLES_QUEUE], 270);
    samples_parts_at(&s, 100, parts); /* moved inwards: ranks 294 to 300 */
    assert_near(parts[SAMPLES_QUEUE], 297);
    samples_parts_at(&s, 0, parts);
    assert_near(parts[SAMPLES_QUEUE], 3);
    samples_fini(&s);
    json_decref(root);
}

/* One value a run, and none of a run in which nothing was answered. */
static void marks_are_of_each_run(void **state)
{
    (void)state;
    json_t *root = bench_sample_empty();
    struct samples s;
    for (int run = 0; run < 3; run++) {
        json_t *requests = bench_sample_run(root);
        for (int i = 10; i >= 0 && run != 1; i--)
            json_array_append_new(requests, bench_sample_request(0, i + 100 * run, 0, 0));
    }
    samples_read(&s, root, NULL);
    assert_int_equal(s.n_runs, 3);
    assert_int_equal(s.ttft_marks[0].n, 2);
    assert_near(s.ttft_marks[0].v[0], 5);
    assert_near(s.ttft_marks[0].v[1], 205);
    assert_near(s.ttft_marks[1].v[1], 209);
    assert_near(s.itl_marks[2].v[0], 10);
    samples_fini(&s);
    json_decref(root);
}

static void only_what_ended_well_has_figures(void **state)
{
    (void)state;
    json_t *root = bench_sample_empty();
    json_t *requests = bench_sample_run(root);
    struct samples s;
    static const char *const states[] = {"failed", "cancelled", "unsent", "ok"};
    for (size_t i = 0; i < 4; i++) {
        json_t *request = bench_sample_request(0, 1, 2, 0);
        json_object_set_new(request, "state", json_string(states[i]));
        json_array_append_new(requests, request);
    }
    samples_read(&s, root, NULL);
    assert_int_equal(s.n, 4);
    assert_int_equal(s.n_failed, 1);
    assert_int_equal(s.ttft.n, 1);
    assert_int_equal(s.itl.n, 1);
    assert_int_equal(s.n_split, 1);
    samples_fini(&s);
    json_decref(root);
}

static void runs_of_a_mode_are_read_apart(void **state)
{
    (void)state;
    json_t *root = bench_sample_empty();
    struct samples s;
    for (int i = 0; i < 5; i++) {
        json_array_append_new(bench_sample_run(root), bench_sample_request(0, i, 0, 0));
        json_object_set_new(json_array_get(json_object_get(root, "runs"), (size_t)i), "mode",
                            json_string(i % 2 ? "blocking" : "streaming"));
    }
    samples_read(&s, root, "blocking");
    assert_int_equal(s.n_runs, 2);
    assert_int_equal(s.n, 2);
    assert_int_equal(s.v[1].run, 1);
    assert_near(s.v[1].parts[SAMPLES_QUEUE], 3);
    samples_fini(&s);
    samples_read(&s, root, NULL);
    assert_int_equal(s.n_runs, 5);
    samples_fini(&s);
    json_decref(root);
}

/* Numbers that are none, that go back in time, or that no clock shows. */
static void absurd_fields_are_left_out(void **state)
{
    (void)state;
    json_t *root = bench_sample_empty();
    json_t *requests = bench_sample_run(root);
    struct samples s;
    json_t *back = bench_sample_request(100, 5, 20, 3);
    json_object_set_new(back, "first_ms", json_real(50));
    json_object_set_new(back, "chunks_ms", json_pack("[f, f, s, f, f]", 1e300, 5.0, "x", 4.0, 3.0));
    json_array_append_new(requests, back);
    json_t *negative = bench_sample_request(100, 5, 20, 3);
    json_object_set_new(json_object_get(negative, "ttft"), "queue_ms", json_real(-1e9));
    json_array_append_new(requests, negative);
    json_t *half = bench_sample_request(100, 5, 20, 3);
    json_object_del(json_object_get(half, "ttft"), "cache_ms");
    json_array_append_new(requests, half);
    json_array_append_new(requests, json_null());
    samples_read(&s, root, NULL);
    assert_int_equal(s.n, 3);
    assert_true(isnan(s.v[0].ttft));
    assert_false(s.v[0].split);
    assert_near(s.v[1].parts[SAMPLES_QUEUE], 0);
    assert_near(s.v[1].parts[SAMPLES_OUTSIDE], 8);
    assert_false(s.v[2].split);
    assert_int_equal(s.ttft.n, 2);
    assert_int_equal(s.itl.n, 2);
    samples_fini(&s);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_add_up_to_what_the_client_saw),
        cmocka_unit_test(a_percentile_is_the_mean_of_its_neighbours),
        cmocka_unit_test(marks_are_of_each_run),
        cmocka_unit_test(only_what_ended_well_has_figures),
        cmocka_unit_test(runs_of_a_mode_are_read_apart),
        cmocka_unit_test(absurd_fields_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
