/* compare() on the host, against numbers worked out by hand. */
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/compare_host.h"
#include "device/decode.h"
#include "one_core.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct compare_result run(const void *e, enum dtype e_dtype, const void *g,
                                 enum dtype g_dtype, uint64_t count)
{
    struct error err = ERROR_INIT;
    struct compare_result result;

    assert_int_equal(compare_host(e, e_dtype, g, g_dtype, count, &result, &err), 0);
    return result;
}

#define COMPARE_DOUBLES(e, g) run(e, DTYPE_FLOAT64, g, DTYPE_FLOAT64, COUNT(e))

static void assert_near(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-14 * fabs(wanted)))
        fail_msg("%.17g instead of %.17g", got, wanted);
}

/* Squares 9 + 16 + 0 + 0: sigma = sqrt(25 / 4) = 2.5. Differences 0.11, -1.3, 0.5, 0. */
static void test_by_hand(void **state)
{
    const double e[] = {3, 4, 0, 0};
    const double g[] = {3.25, 2.5, 0.5, 0};
    struct compare_result r = COMPARE_DOUBLES(e, g);

    assert_near(r.sigma, 2.5);
    /* 0.25 / 5.5, 1.5 / 6.5, 0.5 / 2.5 = 0.2, 0: the second is the largest. */
    assert_near(r.s, 1.5 / 6.5);
    assert_int_equal(r.worst_index, 1);
    assert_true(r.worst_expected == 4 && r.worst_got == 2.5);
    assert_near(r.n, sqrt((0.0625 + 2.25 + 0.25) / 25));
    assert_int_equal(r.mask_mismatches + r.nonfinite_expected + r.nonfinite_got, 0);
    assert_int_equal(r.mismatch_count, 0);
}

static void test_equal_and_empty(void **state)
{
    const double e[] = {1, -2, INFINITY, NAN, -0.0};
    const double g[] = {1, -2, INFINITY, -NAN, 0.0};
    struct compare_result r = COMPARE_DOUBLES(e, g);

    assert_true(r.s == 0 && r.n == 0);
    assert_int_equal(r.nonfinite_expected, 2);
    assert_int_equal(r.nonfinite_got, 2);
    assert_int_equal(r.mask_mismatches, 0);
    assert_near(r.sigma, sqrt(5.0 / 3));
    assert_true(r.worst_index == 0 && r.worst_expected == 1 && r.worst_got == 1);

    r = run(e, DTYPE_FLOAT64, g, DTYPE_FLOAT32, 0);
    assert_true(r.s == 0 && r.n == 0 && r.sigma == 0 && r.nonfinite_got == 0);
}

/* Each pair of not-finite values on its own: which are the same, which not. */
static void test_masks(void **state)
{
    static const struct {
        double e, g;
        bool same;
    } pairs[] = {
        {NAN, NAN, true},
        {INFINITY, INFINITY, true},
        {-INFINITY, -INFINITY, true},
        {NAN, 1, false},
        {1, NAN, false},
        {INFINITY, -INFINITY, false},
        {-INFINITY, 3, false},
        {3, INFINITY, false},
        {NAN, INFINITY, false},
        {INFINITY, NAN, false},
    };

    for (size_t i = 0; i < COUNT(pairs); i++) {
        double e[] = {1, 1, pairs[i].e, 1}, g[] = {1, 1, pairs[i].g, 1.5};
        struct compare_result r = COMPARE_DOUBLES(e, g);

        assert_int_equal(r.mask_mismatches, pairs[i].same ? 0 : 1);
        assert_int_equal(r.first_mask_mismatch, pairs[i].same ? 0 : 2);
        assert_int_equal(r.nonfinite_expected, !isfinite(pairs[i].e));
        assert_int_equal(r.nonfinite_got, !isfinite(pairs[i].g));
        if (!pairs[i].same)
            assert_memory_equal(&r.mask_got, &g[2], sizeof(double));
        /* What is finite on both sides is still compared: e is 1 there. */
        assert_near(r.s, 0.5 / (1 + r.sigma));
        assert_int_equal(r.worst_index, 3);
        assert_near(r.n, sqrt(0.25 / 3));
    }
}

static void test_first_mask(void **state)
{
    double e[2000], g[2000];
    struct compare_result r;

    for (size_t i = 0; i < COUNT(e); i++)
        e[i] = g[i] = (double)i;
    g[1999] = NAN;
    g[1001] = INFINITY;
    e[1500] = g[1500] = NAN;
    r = COMPARE_DOUBLES(e, g);
    assert_int_equal(r.mask_mismatches, 2);
    assert_int_equal(r.first_mask_mismatch, 1001);
    assert_true(r.mask_expected == 1001 && isinf(r.mask_got));
    assert_int_equal(r.nonfinite_expected, 1);
    assert_int_equal(r.nonfinite_got, 3);
}

static void test_zeros(void **state)
{
    const double zeros[4] = {0, -0.0, 0, 0};
    const double tiny[4] = {0, 0, 1e-300, 0};
    const double ones[4] = {1, 1, 1, 1};
    struct compare_result r = COMPARE_DOUBLES(zeros, tiny);

    assert_true(isinf(r.s) && isinf(r.n));
    assert_int_equal(r.worst_index, 2);
    assert_true(r.worst_got == 1e-300);
    r = COMPARE_DOUBLES(zeros, zeros);
    assert_true(r.s == 0 && r.n == 0 && r.sigma == 0);
    /* The other way round, zeros for ones: |0 - 1| / (1 + 1). */
    r = COMPARE_DOUBLES(ones, zeros);
    assert_true(r.s == 0.5 && r.n == 1 && r.sigma == 1);
    assert_int_equal(r.worst_index, 0);
}

/* Values whose squares leave the range of float64: the same figures as at an ordinary scale. */
static void test_scales(void **state)
{
    const double e[] = {3, 4, 0, 0};
    const double g[] = {3.25, 2.5, 0.5, 0};
    struct compare_result plain = COMPARE_DOUBLES(e, g);
    static const int exponents[] = {-1060, -700, -401, 401, 600, 1020};

    for (size_t i = 0; i < COUNT(exponents); i++) {
        double x[4], y[4];
        struct compare_result r;

        for (size_t j = 0; j < 4; j++) {
            x[j] = ldexp(e[j], exponents[i]);
            y[j] = ldexp(g[j], exponents[i]);
        }
        r = COMPARE_DOUBLES(x, y);
        assert_near(r.s, plain.s);
        assert_near(r.n, plain.n);
        assert_near(r.sigma, ldexp(2.5, exponents[i]));
        assert_int_equal(r.worst_index, 1);
    }
}

/* Equal ratios at several places: the first is named, in whatever piece it is. */
static void test_ties(void **state)
{
    size_t count = 1 << 19;
    float *e = malloc(count * sizeof(float)), *g = malloc(count * sizeof(float));
    struct compare_result r;

    assert_true(e && g);
    for (size_t i = 0; i < count; i++)
        e[i] = g[i] = 1;
    g[count - 1] = g[300001] = g[300000] = g[400000] = 2;
    r = run(e, DTYPE_FLOAT32, g, DTYPE_FLOAT32, count);
    assert_int_equal(r.worst_index, 300000);
    assert_near(r.s, 0.5);
    assert_near(r.n, sqrt(4.0 / (double)count));
    free(e);
    free(g);
}

static void test_mixed_floats(void **state)
{
    const double e[] = {1.0 / 3, 2, -1e-5};
    const float g[] = {(float)(1.0 / 3), 2, -1e-5f};
    const uint16_t halves[] = {0x3c00, 0x4000, 0x8001}; /* 1, 2, -2^-24 */
    const double numbers[] = {1, 2, -0x1p-24};
    struct compare_result r = run(e, DTYPE_FLOAT64, g, DTYPE_FLOAT32, 3);

    assert_true(r.s > 0 && r.s < 6e-8 && r.n < 6e-8);
    assert_int_equal(r.worst_index, 0);
    assert_true(r.worst_got == (double)g[0] && r.worst_expected == e[0]);
    r = run(numbers, DTYPE_FLOAT64, halves, DTYPE_FLOAT16, 3);
    assert_true(r.s == 0 && r.n == 0);
}

static void test_integers(void **state)
{
    int64_t wide[1500];
    int32_t narrow[1500];
    struct compare_result r;

    for (int i = 0; i < 1500; i++)
        wide[i] = narrow[i] = i - 700;
    r = run(wide, DTYPE_INT64, narrow, DTYPE_INT32, 1500);
    assert_true(r.s == 0 && r.n == 0 && r.mismatch_count == 0);
    narrow[1400]++;
    narrow[900] = 5;
    wide[1499] += (int64_t)1 << 32; /* equal in the low half */
    r = run(wide, DTYPE_INT64, narrow, DTYPE_INT32, 1500);
    assert_true(isinf(r.s) && isinf(r.n));
    assert_int_equal(r.mismatch_count, 3);
    assert_int_equal(r.first_mismatch, 900);
    assert_int_equal(r.worst_index, 900);
    assert_true(r.worst_expected == 200 && r.worst_got == 5);
    assert_true(r.sigma == 0);
}

/* 2^53 and 2^53 + 1 are the same float64: integers must not be compared as such. */
static void test_large_integers(void **state)
{
    const int64_t e[] = {(int64_t)1 << 53, INT64_MIN, INT64_MAX};
    const int64_t g[] = {((int64_t)1 << 53) + 1, INT64_MIN, INT64_MAX - 1};
    const double numbers[] = {0x1p53, -0x1p63, 0x1p63};
    struct compare_result r = run(e, DTYPE_INT64, g, DTYPE_INT64, 3);

    assert_int_equal(r.mismatch_count, 2);
    assert_int_equal(r.first_mismatch, 0);
    /* 2^63 is not 2^63 - 1, though that rounds to it. */
    r = run(e, DTYPE_INT64, numbers, DTYPE_FLOAT64, 3);
    assert_int_equal(r.mismatch_count, 1);
    assert_int_equal(r.first_mismatch, 2);
}

static void test_integers_and_floats(void **state)
{
    const int8_t e[] = {1, -2, 3, 4, 5};
    const float g[] = {1, -2, 3.5f, NAN, 5};
    const double numbers[] = {1, -2, 3, 4, 5};
    struct compare_result r = run(e, DTYPE_INT8, g, DTYPE_FLOAT32, 5);

    assert_int_equal(r.mismatch_count, 2);
    assert_int_equal(r.first_mismatch, 2);
    assert_int_equal(r.nonfinite_got, 1);
    r = run(numbers, DTYPE_FLOAT64, e, DTYPE_INT8, 5);
    assert_true(r.s == 0 && r.n == 0 && r.mismatch_count == 0);
}

/* A boolean that holds neither 0 nor 1 is not true. */
static void test_booleans(void **state)
{
    const unsigned char e[] = {0, 1, 1, 0}, g[] = {0, 1, 2, 0};
    struct compare_result r = run(e, DTYPE_BOOL, g, DTYPE_BOOL, 4);

    assert_int_equal(r.mismatch_count, 1);
    assert_int_equal(r.first_mismatch, 2);
}

static void test_refuses(void **state)
{
    struct error err = ERROR_INIT;
    struct compare_result untouched = {.s = 5};
    double memory[4] = {0};

    assert_int_equal(
        compare_host((char *)memory + 4, DTYPE_FLOAT64, memory, DTYPE_FLOAT64, 1, &untouched, &err),
        -1);
    assert_int_equal(compare_host(memory, DTYPE_COUNT, memory, DTYPE_FLOAT64, 1, &untouched, &err),
                     -1);
    assert_int_equal(compare_host(memory, DTYPE_FLOAT64, memory, DTYPE_FLOAT64,
                                  ((uint64_t)1 << 40) + 1, &untouched, &err),
                     -1);
    assert_true(untouched.s == 5);
}

/* The same bits, whatever the number of threads. */
static void test_threads(void **state)
{
    size_t count = 3000001;
    double *e = malloc(count * sizeof(double));
    float *g = malloc(count * sizeof(float));
    struct compare_result many, one;
    cpu_set_t before;

    assert_true(e && g);
    for (size_t i = 0; i < count; i++) {
        e[i] = sin((double)i);
        g[i] = (float)e[i] * (i % 1000003 == 7 ? 1.001f : 1);
    }
    many = run(e, DTYPE_FLOAT64, g, DTYPE_FLOAT32, count);
    one_core_enter(&before);
    one = run(e, DTYPE_FLOAT64, g, DTYPE_FLOAT32, count);
    one_core_leave(&before);
    assert_memory_equal(&many, &one, sizeof(one));
    assert_true(many.worst_index % 1000003 == 7);
    free(e);
    free(g);
}

/* All halves by the formula of IEEE 754: (-1)^sign 2^(exponent - bias) (1 + fraction / 2^width). */
static double by_formula(uint16_t bits, int width)
{
    int exponent_bits = 15 - width, exponent = (bits & 0x7fff) >> width;
    int bias = (1 << (exponent_bits - 1)) - 1, fraction = bits & ((1 << width) - 1);
    double value;

    if (exponent == (1 << exponent_bits) - 1)
        value = fraction ? NAN : INFINITY;
    else if (exponent == 0)
        value = ldexp(fraction, 1 - bias - width);
    else
        value = ldexp((1 << width) + fraction, exponent - bias - width);
    return copysign(value, bits & 0x8000 ? -1 : 1);
}

static void check_all_halves(enum dtype dtype, int width)
{
    static uint16_t bits[65536];
    static double numbers[65536];

    for (size_t i = 0; i < 65536; i++)
        bits[i] = (uint16_t)i;
    decode_doubles(dtype, bits, 65536, numbers);
    for (size_t i = 0; i < 65536; i++) {
        double wanted = by_formula((uint16_t)i, width);

        if (isnan(wanted) ? !isnan(numbers[i]) : memcmp(&wanted, &numbers[i], sizeof(wanted)) != 0)
            fail_msg("%s %#zx: %g instead of %g", dtype_name(dtype), i, numbers[i], wanted);
    }
}

static void test_halves(void **state)
{
    check_all_halves(DTYPE_FLOAT16, 10);
    check_all_halves(DTYPE_BFLOAT16, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),  cmocka_unit_test(test_equal_and_empty),
        cmocka_unit_test(test_masks),    cmocka_unit_test(test_first_mask),
        cmocka_unit_test(test_zeros),    cmocka_unit_test(test_scales),
        cmocka_unit_test(test_ties),     cmocka_unit_test(test_mixed_floats),
        cmocka_unit_test(test_integers), cmocka_unit_test(test_large_integers),
        cmocka_unit_test(test_booleans), cmocka_unit_test(test_integers_and_floats),
        cmocka_unit_test(test_refuses),  cmocka_unit_test(test_threads),
        cmocka_unit_test(test_halves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
