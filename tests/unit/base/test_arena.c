/* Arenas: alignment, the limit, sizes that overflow, and that everything is freed (under asan). */
#include "base/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_allocations(void **state)
{
    struct arena a;

    (void)state;
    arena_init(&a, 16u << 20);
    for (size_t size = 0; size < 3000; size += 7) {
        unsigned char *p = arena_alloc(&a, size), *z = arena_array(&a, size, 3);

        assert_true((uintptr_t)p % 16 == 0 && p != NULL && z != NULL);
        memset(p, 0xff, size);
        for (size_t i = 0; i < size * 3; i++)
            assert_int_equal(z[i], 0);
    }
    assert_string_equal(arena_copy(&a, "text", 4), "text");
    assert_false(a.exhausted);
    arena_fini(&a);
    assert_int_equal(a.used, 0);
}

static void test_limit(void **state)
{
    struct arena a;

    (void)state;
    arena_init(&a, 1024);
    assert_non_null(arena_alloc(&a, 1000));
    assert_null(arena_alloc(&a, 17));
    assert_true(a.exhausted);
    assert_non_null(arena_alloc(&a, 16));
    assert_null(arena_alloc(&a, SIZE_MAX));
    assert_null(arena_array(&a, SIZE_MAX / 2, 3));
    assert_null(arena_copy(&a, "", SIZE_MAX));
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_allocations),
                                       cmocka_unit_test(test_limit)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
