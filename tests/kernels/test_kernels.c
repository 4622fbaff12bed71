/* Every entry of the kernel table, at every level that this machine has, against references in
 * double: odd sizes, unaligned data, guard bytes, extreme values; and the rule that the bits of a
 * result do not depend on what shares its call. `test_kernels --bench [word]` times them instead.
 */
#include "kernels/bench.h"
#include "kernels/check.h"
#include "kernels/check_attn.h"
#include "kernels/check_matmul.h"
#include "kernels/check_sample.h"
#include "kernels/check_vector.h"

/* A table is a struct of function pointers after `levels`; only int8 products of float weights are
 * absent. A pointer's bytes are compared, so that an entry added later is seen too. */
static void test_every_entry_is_filled(void **state)
{
    (void)state;
    struct check_level level;
    FOR_EACH_LEVEL(level)
    {
        size_t empty = 0;
        const char *bytes = (const char *)&level.k;
        for (size_t at = offsetof(struct kernels, matmul_q8); at < sizeof level.k;
             at += sizeof(void *)) {
            static const void *const null = NULL;
            empty += memcmp(bytes + at, &null, sizeof null) == 0;
        }
        assert_int_equal(empty, 3);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_entry_is_filled),
        cmocka_unit_test(test_dequantize),
        cmocka_unit_test(test_dequantize_golden),
        cmocka_unit_test(test_quantize_q8),
        cmocka_unit_test(test_quantize_q8_not_finite),
        cmocka_unit_test(test_matmul_q8),
        cmocka_unit_test(test_matmul_q8_not_finite),
        cmocka_unit_test(test_matmul_q8_avxvnni_by_evex),
        cmocka_unit_test(test_matmul_f32),
        cmocka_unit_test(test_rmsnorm),
        cmocka_unit_test(test_add_rmsnorm_q8),
        cmocka_unit_test(test_layernorm),
        cmocka_unit_test(test_add_layernorm_q8),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_activate),
        cmocka_unit_test(test_activate_q8),
        cmocka_unit_test(test_add),
        cmocka_unit_test(test_kv_store),
        cmocka_unit_test(test_kv_store_numbers),
        cmocka_unit_test(test_attn),
        cmocka_unit_test(test_attn_not_finite),
        cmocka_unit_test(test_group_max),
        cmocka_unit_test(test_exp_sum),
        cmocka_unit_test(test_sum_above),
    };
    if (argc > 1 && strcmp(argv[1], "--bench") == 0) {
        bench_run(argc > 2 ? argv[2] : NULL);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
