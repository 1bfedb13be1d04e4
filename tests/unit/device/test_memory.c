/* fill, check_fill and hash over host memory. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "device/fill.h"
#include "device/hash.h"
#include "device/parallel.h"
#include "one_core.h"

#define PATTERN 0x1122334455667788u

/* The definition, byte by byte. */
static unsigned char pattern_byte(const unsigned char *address)
{
    return (unsigned char)(PATTERN >> (uintptr_t)address % 8 * 8);
}

static void test_fill_everywhere(void **state)
{
    static unsigned char memory[256] __attribute__((aligned(64)));

    for (size_t offset = 0; offset < 17; offset++) {
        for (size_t bytes = 0; bytes < 100; bytes++) {
            memset(memory, 0, sizeof(memory));
            fill_host(memory + offset, PATTERN, bytes);
            for (size_t i = 0; i < sizeof(memory); i++)
                assert_int_equal(memory[i],
                                 i >= offset && i < offset + bytes ? pattern_byte(memory + i) : 0);
        }
    }
}

static void test_check_everywhere(void **state)
{
    static unsigned char memory[16384] __attribute__((aligned(64)));
    static const size_t sizes[] = {1, 5, 8, 63, 4096, 4097, 12301};
    uint64_t first = 7;

    for (size_t offset = 0; offset < 9; offset++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            size_t bytes = sizes[i];

            memset(memory, 0, sizeof(memory));
            fill_host(memory + offset, PATTERN, bytes);
            first = 7;
            assert_int_equal(fill_host_check(memory + offset, PATTERN, bytes, &first), 0);
            assert_int_equal(first, 7);
            memory[offset + bytes - 1] ^= 1;
            assert_int_equal(fill_host_check(memory + offset, PATTERN, bytes, &first), 1);
            assert_int_equal(first, bytes - 1);
            memory[offset + bytes / 3] ^= 0x80;
            assert_int_equal(fill_host_check(memory + offset, PATTERN, bytes, &first),
                             bytes / 3 == bytes - 1 ? 1 : 2);
            assert_int_equal(first, bytes / 3);
        }
    }
}

static void test_check_large(void **state)
{
    size_t bytes = PARALLEL_FROM_BYTES * 3 + 12345;
    unsigned char *memory = malloc(bytes);
    uint64_t first = 0;

    assert_non_null(memory);
    fill_host(memory, PATTERN, bytes);
    assert_int_equal(fill_host_check(memory, PATTERN, bytes, &first), 0);
    for (size_t i = 0; i < bytes; i += 4099)
        assert_int_equal(memory[i], pattern_byte(memory + i));
    memory[bytes - 2] ^= 2;
    memory[PARALLEL_FROM_BYTES + 1] ^= 2;
    memory[PARALLEL_FROM_BYTES * 2] ^= 2;
    assert_int_equal(fill_host_check(memory, PATTERN, bytes, &first), 3);
    assert_int_equal(first, PARALLEL_FROM_BYTES + 1);
    free(memory);
}

static bool equal(const uint64_t a[2], const uint64_t b[2])
{
    return a[0] == b[0] && a[1] == b[1];
}

/* Both halves must change, whatever bit changes. */
static void test_hash_bits(void **state)
{
    static unsigned char memory[HASH_BLOCK_BYTES * 2 + 100];
    uint64_t before[2], after[2];

    for (size_t i = 0; i < sizeof(memory); i++)
        memory[i] = (unsigned char)(i * 131);
    hash_host(memory, sizeof(memory), 1, before);
    for (size_t bit = 0; bit < sizeof(memory) * 8; bit += bit < 1000 ? 1 : 61) {
        memory[bit / 8] ^= (unsigned char)(1 << bit % 8);
        hash_host(memory, sizeof(memory), 1, after);
        assert_true(before[0] != after[0] && before[1] != after[1]);
        memory[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    hash_host(memory, sizeof(memory), 1, after);
    assert_true(equal(before, after));
    hash_host(memory, sizeof(memory), 2, after);
    assert_true(before[0] != after[0] && before[1] != after[1]);
}

static void swap(unsigned char *a, unsigned char *b, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = a[i];

        a[i] = b[i];
        b[i] = byte;
    }
}

/* Moving data about must show: words in a row, words in a column, rows, units, blocks. */
static void test_hash_positions(void **state)
{
    static const size_t places[][3] = {
        {0, 8, 8},       {0, 512, 8}, {8, 520, 8}, {0, 512, 512}, {0, 4096, 512},   {0, 8192, 512},
        {0, 8192, 8192}, {0, 4, 4},   {0, 1, 1},   {3, 8200, 1},  {0, 8192 + 8, 8},
    };
    static unsigned char memory[HASH_BLOCK_BYTES * 3];
    uint64_t before[2], after[2];

    for (size_t i = 0; i < sizeof(memory); i++)
        memory[i] = (unsigned char)(i * i >> 7 ^ i);
    hash_host(memory, sizeof(memory), 5, before);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        unsigned char *a = memory + places[i][0], *b = memory + places[i][1];

        assert_memory_not_equal(a, b, places[i][2]);
        swap(a, b, places[i][2]);
        hash_host(memory, sizeof(memory), 5, after);
        assert_true(before[0] != after[0] && before[1] != after[1]);
        swap(a, b, places[i][2]);
    }
}

/* Zeros hash by their number, so that a longer run of zeros is not the shorter one. */
static void test_hash_lengths(void **state)
{
    static unsigned char zeros[HASH_BLOCK_BYTES * 2];
    static uint64_t seen[400][2];
    size_t count = 0;

    for (size_t bytes = 0; bytes <= sizeof(zeros); bytes += bytes < 70 ? 1 : 127, count++) {
        hash_host(zeros, bytes, 3, seen[count]);
        for (size_t i = 0; i < count; i++)
            assert_false(seen[i][0] == seen[count][0] || seen[i][1] == seen[count][1]);
    }
}

/* The definition of hash.h, written once more without blocks, pieces or threads. */
static void test_hash_definition(void **state)
{
    static unsigned char memory[HASH_BLOCK_BYTES * 3];
    size_t bytes = HASH_BLOCK_BYTES * 2 + 777;
    struct hash_keys keys;
    uint64_t sums[2] = {0}, wanted[2], got[2];

    for (size_t i = 0; i < bytes; i++)
        memory[i] = (unsigned char)(i * 31 >> 2);
    hash_keys_derive(&keys, 99);
    for (size_t unit = 0; unit < 3 * 64; unit++) {
        for (size_t lane = 0; lane < 2; lane++) {
            uint64_t a = 0, x;

            for (size_t row = 0; row < 16; row++) {
                uint64_t word;

                memcpy(&word, memory + unit / 64 * 8192 + row * 512 + unit % 64 * 8, 8);
                a += (uint64_t)(uint32_t)((uint32_t)word + (uint32_t)keys.row[lane][row]) *
                     (uint32_t)((uint32_t)(word >> 32) + (uint32_t)(keys.row[lane][row] >> 32));
            }
            x = a ^ (keys.seed[lane] + unit * 0x9e3779b97f4a7c15u);
            x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
            x = (x ^ x >> 27) * 0x94d049bb133111ebu;
            sums[lane] += x ^ x >> 31;
        }
    }
    hash_finish(&keys, sums, bytes, wanted);
    hash_host(memory, bytes, 99, got);
    assert_true(equal(wanted, got));
}

static void test_hash_threads(void **state)
{
    size_t bytes = PARALLEL_FROM_BYTES * 2 + 4321;
    unsigned char *memory = malloc(bytes + 1);
    uint64_t many[2], one[2];
    cpu_set_t before;

    assert_non_null(memory);
    for (size_t i = 0; i < bytes + 1; i++)
        memory[i] = (unsigned char)(i * 2654435761u >> 13);
    hash_host(memory + 1, bytes, 7, many);
    one_core_enter(&before);
    hash_host(memory + 1, bytes, 7, one);
    one_core_leave(&before);
    assert_true(equal(many, one));
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fill_everywhere), cmocka_unit_test(test_check_everywhere),
        cmocka_unit_test(test_check_large),     cmocka_unit_test(test_hash_bits),
        cmocka_unit_test(test_hash_positions),  cmocka_unit_test(test_hash_lengths),
        cmocka_unit_test(test_hash_definition), cmocka_unit_test(test_hash_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
