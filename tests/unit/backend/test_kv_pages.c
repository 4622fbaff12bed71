/* The KV pool's pages are backed ahead of their use, and only so far. */
#include "support/cmocka_all.h"

#include "backend/cpu/kv_pages.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define MIB  ((size_t)1 << 20)
#define PAGE 4096

#define AHEAD (16 * MIB)

static bool is_backed(const struct kv_pages *p, size_t at)
{
    unsigned char in_core = 0;
    assert_int_equal(mincore(kv_pages_base(p) + at, PAGE, &in_core), 0);
    return in_core & 1;
}

/* However long the machine takes; the test's own limit ends it otherwise. */
static void wait_until_backed(const struct kv_pages *p, size_t at)
{
    while (!is_backed(p, at))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void pages_are_backed_ahead_of_use(void **state)
{
    (void)state;
    struct err err = {0};
    struct kv_pages *p;
    size_t bytes = 4 * AHEAD;
    assert_int_equal(kv_pages_open(&p, bytes, AHEAD, &err), STATUS_OK);
    assert_int_equal(kv_pages_bytes(p), bytes);
    wait_until_backed(p, AHEAD - PAGE);
    assert_false(is_backed(p, AHEAD + 2 * MIB));

    kv_pages_step(p, AHEAD);
    kv_pages_step_done(p);
    wait_until_backed(p, 2 * AHEAD - PAGE);
    assert_false(is_backed(p, 2 * AHEAD + 2 * MIB));

    kv_pages_step(p, bytes); /* to the end and no further */
    kv_pages_step_done(p);
    wait_until_backed(p, bytes - PAGE);
    kv_pages_close(p);
}

/* A thread that waits for quiet does not keep the pool from being closed. */
static void it_closes_during_a_step(void **state)
{
    (void)state;
    struct err err = {0};
    struct kv_pages *p;
    assert_int_equal(kv_pages_open(&p, 4 * AHEAD, AHEAD, &err), STATUS_OK);
    kv_pages_step(p, AHEAD);
    assert_int_equal(kv_pages_base(p)[AHEAD - 1], 0);
    kv_pages_close(p);
    kv_pages_close(NULL);
}

static void a_small_pool_is_rounded_up(void **state)
{
    (void)state;
    struct err err = {0};
    struct kv_pages *p;
    assert_int_equal(kv_pages_open(&p, 1, AHEAD, &err), STATUS_OK);
    assert_int_equal(kv_pages_bytes(p), 2 * MIB);
    kv_pages_step(p, 2 * MIB);
    kv_pages_step_done(p);
    kv_pages_base(p)[2 * MIB - 1] = 1;
    kv_pages_close(p);
}

static void more_than_there_is_fails(void **state)
{
    (void)state;
    struct err err = {0};
    struct kv_pages *p;
    assert_int_equal(kv_pages_open(&p, SIZE_MAX / 4, AHEAD, &err), STATUS_NO_MEMORY);
    assert_non_null(strstr(err.text, "MiB of keys and values"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_backed_ahead_of_use),
        cmocka_unit_test(it_closes_during_a_step),
        cmocka_unit_test(a_small_pool_is_rounded_up),
        cmocka_unit_test(more_than_there_is_fails),
    };
    return cmocka_run_group_tests_name("kv_pages", tests, NULL, NULL);
}
