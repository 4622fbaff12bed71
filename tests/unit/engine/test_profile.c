/* Profiles: what they fill in, and what they leave as it was given. */
#include "engine/profile.h"
#include "unit/engine/by_hand.h"

#include <string.h>

static void every_profile_fills_what_is_unset(void **state)
{
    (void)state;
    const struct profile *p;
    struct err err = {0};
    for (size_t i = 0; (p = profile_at(i)); i++) {
        char name[32];
        snprintf(name, sizeof name, "%s", p->name);
        struct engine_options o = {.profile = name};
        assert_int_equal(profile_fill(&o, &err), STATUS_OK);
        assert_ptr_equal(o.profile, p->name); /* may be kept */
        assert_int_equal(o.decode_gap_ms, p->decode_gap_ms);
        assert_int_equal(o.max_queue_ms, p->max_queue_ms);
        assert_true(o.efficiency == p->efficiency);
        assert_true(p->decode_gap_ms != ENGINE_UNSET && p->max_queue_ms != ENGINE_UNSET);
        assert_true(p->efficiency > 0 && p->efficiency < 1);
    }
}

static void what_is_given_stays(void **state)
{
    (void)state;
    struct err err = {0};
    struct engine_options o = {.decode_gap_ms = 7, .max_queue_ms = ENGINE_NONE, .efficiency = 0.5};
    assert_int_equal(profile_fill(&o, &err), STATUS_OK);
    assert_string_equal(o.profile, PROFILE_DEFAULT);
    assert_int_equal(o.decode_gap_ms, 7);
    assert_int_equal(o.max_queue_ms, ENGINE_NONE);
    assert_true(o.efficiency == 0.5);
}

static void an_unknown_name_is_told_the_known_ones(void **state)
{
    (void)state;
    struct err err = {0};
    struct engine_options o = {.profile = "slow"};
    assert_int_equal(profile_fill(&o, &err), STATUS_INVALID);
    assert_string_equal(err.param, "profile");
    assert_non_null(strstr(err.text, "slow; there are interactive, "));
}

/* What an engine opened with *o promises its streams. */
static int64_t promised_us(struct engine_options o, int64_t *max_queue_us)
{
    struct by_hand h;
    struct engine_info info;
    by_hand_open(&h, 60, &o);
    engine_info(h.engine, &info);
    *max_queue_us = h.engine->max_queue_us;
    fake_close_by_hand(h.engine);
    fake_world_close(&h.world);
    return info.decode_gap_us;
}

static void an_engine_keeps_them_in_microseconds(void **state)
{
    (void)state;
    const struct profile *usual = profile_find(PROFILE_DEFAULT, NULL);
    int64_t queue_us;
    assert_int_equal(promised_us((struct engine_options){0}, &queue_us),
                     usual->decode_gap_ms * INT64_C(1000));
    assert_int_equal(queue_us, usual->max_queue_ms * INT64_C(1000));
    const struct engine_options given = {.decode_gap_ms = 40, .max_queue_ms = 3600000};
    assert_int_equal(promised_us(given, &queue_us), 40000);
    assert_int_equal(queue_us, INT64_C(3600000000));
    const struct engine_options none = {.decode_gap_ms = ENGINE_NONE, .max_queue_ms = ENGINE_NONE};
    assert_int_equal(promised_us(none, &queue_us), 0);
    assert_int_equal(queue_us, INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_profile_fills_what_is_unset),
        cmocka_unit_test(what_is_given_stays),
        cmocka_unit_test(an_unknown_name_is_told_the_known_ones),
        cmocka_unit_test(an_engine_keeps_them_in_microseconds),
    };
    return cmocka_run_group_tests_name("profile", tests, NULL, NULL);
}
