#include "base/mem.h"
#include "base/reserve.h"
#include "support/cmocka_all.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* No more memory from the system: what is left of the address space is one page too little. */
static rlim_t starve(void)
{
    struct rlimit was, none;
    assert_int_equal(getrlimit(RLIMIT_AS, &was), 0);
    none = was;
    none.rlim_cur = 1;
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    return was.rlim_cur;
}

static void feed(rlim_t was)
{
    struct rlimit r;
    assert_int_equal(getrlimit(RLIMIT_AS, &r), 0);
    r.rlim_cur = was;
    assert_int_equal(setrlimit(RLIMIT_AS, &r), 0);
}

/* Takes what the allocator still has lying about. */
static void drain(void **held, size_t size)
{
    void *p;
    while ((p = malloc(size))) {
        memcpy(p, held, sizeof *held);
        memcpy(held, &p, sizeof p);
    }
}

static void give_back(void *held)
{
    while (held) {
        void *next;
        memcpy(&next, held, sizeof next);
        free(held);
        held = next;
    }
}

static void blocks_come_when_nothing_else_does(void **state)
{
    void *held = NULL, *blocks[RESERVE_BLOCKS];
    bool low_at_half, low_at_first, all = true, distinct = true;
    (void)state;
    reserve_open();
    rlim_t was = starve();
    drain(&held, RESERVE_BLOCK_BYTES);
    drain(&held, 1024);
    for (int i = 0; i < RESERVE_BLOCKS; i++) {
        blocks[i] = reserve_alloc(RESERVE_BLOCK_BYTES);
        all &= blocks[i] != NULL;
        if (blocks[i])
            memset(blocks[i], i + 1, RESERVE_BLOCK_BYTES);
        if (i == 0)
            low_at_first = reserve_is_low();
    }
    low_at_half = reserve_is_low();
    void *more = reserve_alloc(RESERVE_BLOCK_BYTES);
    for (int i = 0; i < RESERVE_BLOCKS && all; i++)
        distinct &= ((unsigned char *)blocks[i])[RESERVE_BLOCK_BYTES - 1] == (unsigned char)(i + 1);
    for (int i = 0; i < RESERVE_BLOCKS; i++)
        reserve_free(blocks[i]);
    bool low_after = reserve_is_low();
    void *again = reserve_zalloc(2048);
    bool zero = again && ((unsigned char *)again)[2047] == 0;
    void *large = reserve_alloc(RESERVE_BLOCK_BYTES + 1), *grown = NULL;
    bool kept = again && (grown = reserve_resize(again, 4000)) == again;
    void *too_large = grown ? reserve_resize(grown, 1 << 20) : NULL;
    reserve_free(grown);
    feed(was);
    give_back(held);
    assert_true(all && distinct);
    assert_false(low_at_first);
    assert_true(low_at_half);
    assert_null(more);
    assert_false(low_after);
    assert_true(zero);
    assert_null(large);
    assert_true(kept);
    assert_null(too_large);
}

static void what_grows_keeps_its_bytes(void **state)
{
    void *held = NULL;
    (void)state;
    char *own = reserve_alloc(100);
    assert_non_null(own);
    memset(own, 'x', 100);
    rlim_t was = starve();
    drain(&held, RESERVE_BLOCK_BYTES);
    drain(&held, 1024);
    char *grown = reserve_resize(own, RESERVE_BLOCK_BYTES);
    feed(was);
    give_back(held);
    assert_non_null(grown);
    assert_int_equal(grown[99], 'x');
    grown[RESERVE_BLOCK_BYTES - 1] = 'y';
    char *more = reserve_resize(grown, 3 * RESERVE_BLOCK_BYTES);
    assert_non_null(more);
    assert_true(more[0] == 'x' && more[RESERVE_BLOCK_BYTES - 1] == 'y');
    reserve_free(more);
    reserve_free(NULL);
    assert_false(reserve_is_low());
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ALLOCATES_ITSELF                                                                           \
    true /* a sanitizer's allocator ends the program when there is no memory                       \
          */
#else
#define ALLOCATES_ITSELF false
#endif

int main(void)
{
    if (ALLOCATES_ITSELF)
        return 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_come_when_nothing_else_does),
        cmocka_unit_test(what_grows_keeps_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
