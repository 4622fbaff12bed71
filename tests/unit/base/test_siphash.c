/* SipHash-2-4 against the paper's example and the reference implementation's vectors. */
#include "base/siphash.h"

#include "support/cmocka_all.h"

/* Key 00 01 .. 0f, as everywhere. */
static const struct siphash_key key = {{0x0706050403020100, 0x0f0e0d0c0b0a0908}};

static void test_vectors(void **state)
{
    (void)state;
    unsigned char in[64];
    for (unsigned i = 0; i < sizeof in; i++)
        in[i] = (unsigned char)i;
    /* appendix A of the paper: 15 bytes */
    assert_true(siphash_bytes(&key, in, 15) == 0xa129ca6149be45e5);
    /* vectors_sip64 of the reference implementation, read as little-endian words */
    assert_true(siphash_bytes(&key, in, 0) == 0x726fdb47dd0e0e31);
    assert_true(siphash_bytes(&key, in, 1) == 0x74f839c593dc67fd);
    assert_true(siphash_bytes(&key, in, 7) == 0xab0200f58b01d137);
    assert_true(siphash_bytes(&key, in, 8) == 0x93f5f5799a932462);
    assert_true(siphash_bytes(&key, in, 63) == 0x958a324ceb064572);
}

/* Bytes beyond the length and the alignment of the input do not matter; each key bit does. */
static void test_input(void **state)
{
    (void)state;
    unsigned char in[32] = {0};
    uint64_t hash = siphash_bytes(&key, in + 3, 21);
    in[2] = in[24] = 1;
    assert_true(siphash_bytes(&key, in + 3, 21) == hash);
    in[23] = 1;
    assert_true(siphash_bytes(&key, in + 3, 21) != hash);
    in[23] = 0;
    for (int bit = 0; bit < 128; bit++) {
        struct siphash_key other = key;
        other.k[bit / 64] ^= UINT64_C(1) << (bit % 64);
        assert_true(siphash_bytes(&other, in + 3, 21) != hash);
    }
}

static void test_random_keys(void **state)
{
    struct siphash_key a = siphash_key_random(), b = siphash_key_random();
    (void)state;
    assert_true(a.k[0] != b.k[0] && a.k[1] != b.k[1]);
    assert_true(a.k[0] != 0 && a.k[1] != 0 && b.k[0] != 0 && b.k[1] != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_input),
        cmocka_unit_test(test_random_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
