/* The ring of recent requests and its JSON. */
#include "observe/request_log.h"

#include "support/cmocka_all.h"

#include "base/clock.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct request_log *make(int n)
{
    struct request_log *r = calloc(1, sizeof *r);
    assert_non_null(r);
    for (int i = 0; i < n; i++) {
        struct request_log_entry *q = request_log_add(r, &(struct timeline){0});
        snprintf(q->id, sizeof q->id, "id-%d", i);
        q->finish = "refused";
    }
    return r;
}

static json_t *data_of(const struct request_log *r, uint32_t limit)
{
    struct buf out = {0};
    request_log_json(r, limit, &out);
    json_t *all = json_loads(buf_str(&out), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(all);
    json_t *data = json_incref(json_object_get(all, "data"));
    json_decref(all);
    buf_fini(&out);
    return data;
}

static void expect_ids(const struct request_log *r, uint32_t limit, int newest, size_t n)
{
    json_t *data = data_of(r, limit);
    assert_int_equal(json_array_size(data), n);
    for (size_t i = 0; i < n; i++) {
        char id[16];
        snprintf(id, sizeof id, "id-%d", newest - (int)i);
        assert_string_equal(json_string_value(json_object_get(json_array_get(data, i), "id")), id);
    }
    json_decref(data);
}

static void the_newest_come_first_and_the_oldest_go(void **state)
{
    (void)state;
    struct request_log *none = make(0), *few = make(3), *many = make(2 * LIMIT_RECENT_REQUESTS + 5);
    expect_ids(none, 10, 0, 0);
    expect_ids(few, 10, 2, 3);
    expect_ids(few, 2, 2, 2);
    expect_ids(many, UINT32_MAX, 2 * LIMIT_RECENT_REQUESTS + 4, LIMIT_RECENT_REQUESTS);
    free(none);
    free(few);
    free(many);
}

static void a_place_that_is_used_again_is_empty(void **state)
{
    (void)state;
    struct request_log *r = make(0);
    memset(r->requests, 0xff, sizeof r->requests);
    const struct request_log_entry empty = {0};
    struct timeline t = {.at_us = {[TIMELINE_RECEIVED] = clock_now_us() - 5000000}};
    struct request_log_entry *q = request_log_add(r, &t);
    assert_memory_equal(&q->timeline, &t, sizeof t);
    assert_in_range(clock_unix_us() - q->received_unix_us, 5000000, 60000000);
    assert_in_range(clock_now_us() - q->added_us, 0, 55000000);
    q->timeline = (struct timeline){0};
    q->received_unix_us = q->added_us = 0;
    assert_memory_equal(q, &empty, sizeof empty);
    free(r);
}

static int64_t us_of(const json_t *o, const char *name)
{
    return (int64_t)(json_real_value(json_object_get(o, name)) * 1000 + 0.5);
}

static void what_is_known_is_shown(void **state)
{
    (void)state;
    struct request_log *r = make(0);
    struct request_log_entry *q = request_log_add(r, &(struct timeline){0});
    *q = (struct request_log_entry){
        .request_id = "a \"client's\" \\ own",
        .submitted = true,
        .finish = "stop",
        .cache = "part",
        .received_unix_us = 1795315705123456,
        .timeline = {.at_us = {[TIMELINE_RECEIVED] = 5000,
                               [TIMELINE_FIRST_TOKEN] = 6500,
                               [TIMELINE_FIRST_CONTENT] = 7001}},
        .wait = {.waiting = 3, .tokens = UINT64_C(1) << 40, .steps = 4, .steps_no_blocks = 2},
    };
    json_t *data = data_of(r, 1), *one = json_array_get(data, 0);
    const char *name = json_string_value(json_object_get(one, "request_id"));
    assert_string_equal(name, "a \"client's\" \\ own");
    double ms = json_real_value(json_object_get(one, "received_unix_ms"));
    assert_true(ms == 1795315705123.456);
    const json_t *timeline = json_object_get(one, "timeline");
    assert_int_equal(json_object_size(timeline), TIMELINE_STAGES);
    assert_int_equal(us_of(timeline, "first_token_ms"), 1500);
    assert_true(json_is_null(json_object_get(timeline, "admitted_ms")));
    assert_int_equal(us_of(json_object_get(one, "ttft"), "total_ms"), 2001);
    const json_t *waited = json_object_get(one, "waited");
    assert_string_equal(json_string_value(json_object_get(waited, "for")), "kv_blocks");
    assert_int_equal(json_integer_value(json_object_get(waited, "tokens")), INT64_C(1) << 40);
    json_decref(data);
    free(r);
}

static void why_so_much_was_cached(void **state)
{
    (void)state;
    assert_string_equal(request_log_cache(false, 1, 100, 0), "off");
    assert_string_equal(request_log_cache(true, 1, 1, 0), "short");
    assert_string_equal(request_log_cache(true, 1, 100, 0), "miss");
    assert_string_equal(request_log_cache(true, 1, 100, 98), "part");
    assert_string_equal(request_log_cache(true, 1, 100, 99), "hit");
    assert_string_equal(request_log_cache(true, 2, 100, 98),
                        "hit"); /* each computes its last one */
    assert_string_equal(request_log_cache(true, 2, 2, 0), "short");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_come_first_and_the_oldest_go),
        cmocka_unit_test(a_place_that_is_used_again_is_empty),
        cmocka_unit_test(what_is_known_is_shown),
        cmocka_unit_test(why_so_much_was_cached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
