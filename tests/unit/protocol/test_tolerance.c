/* The error budget, on both sides of every limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "protocol/tolerance.h"
#include "stats/stats.h"

static const enum dtype floating[] = {DTYPE_FLOAT64, DTYPE_FLOAT32, DTYPE_FLOAT16, DTYPE_BFLOAT16};
static const enum dtype exact[] = {DTYPE_INT64, DTYPE_INT32, DTYPE_INT16,
                                   DTYPE_INT8,  DTYPE_UINT8, DTYPE_BOOL};

static double above(double x)
{
    return nextafter(x, INFINITY);
}

static bool accepts(const struct budget *budget, double s, double n)
{
    struct compare_result result = {.s = s, .n = n};

    return budget_accepts(budget, &result);
}

static void check_limits(const struct budget *budget, double s_limit, double n_limit)
{
    assert_true(budget->s_limit == s_limit && budget->n_limit == n_limit);
    assert_true(accepts(budget, 0, 0));
    assert_true(accepts(budget, s_limit, n_limit));
    assert_false(accepts(budget, above(s_limit), n_limit));
    assert_false(accepts(budget, s_limit, above(n_limit)));
    assert_false(accepts(budget, INFINITY, 0));
    assert_false(accepts(budget, 0, INFINITY));
    assert_false(accepts(budget, NAN, 0));
    assert_false(accepts(budget, 0, NAN));
    assert_false(accepts(budget, NAN, NAN));
}

static void test_floors(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(floating); i++) {
        bool half = dtype_size(floating[i]) == 2;
        struct budget budget;

        budget_set(&budget, floating[i], 0, 0);
        assert_true(budget.tau == (half ? 1e-2 : 1e-3));
        assert_true(budget.tau_n == (half ? 5e-3 : 1e-4));
        check_limits(&budget, budget.tau, budget.tau_n);
    }
}

/* Four times the baseline's error, once that is more than the floor; s and n do not mix. */
static void test_baseline_room(void **state)
{
    struct budget budget;

    budget_set(&budget, DTYPE_FLOAT32, 0.25e-3, 0.25e-4);
    check_limits(&budget, 1e-3, 1e-4);
    budget_set(&budget, DTYPE_FLOAT32, 0.5, 0);
    check_limits(&budget, 2.0, 1e-4);
    budget_set(&budget, DTYPE_FLOAT32, 0, 0.125);
    check_limits(&budget, 1e-3, 0.5);
    budget_set(&budget, DTYPE_BFLOAT16, 0.5, 0.125);
    check_limits(&budget, 2.0, 0.5);
}

static void test_unusable_baseline(void **state)
{
    static const double unusable[] = {NAN, INFINITY, -INFINITY};

    for (size_t i = 0; i < ARRAY_SIZE(unusable); i++) {
        struct budget budget;

        budget_set(&budget, DTYPE_FLOAT32, unusable[i], unusable[i]);
        check_limits(&budget, 1e-3, 1e-4);
    }
}

static void test_integers(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(exact); i++) {
        struct budget budget;
        struct compare_result equal = {0};
        struct compare_result unequal = {.s = INFINITY, .n = INFINITY, .mismatch_count = 1};
        struct compare_result count_alone = {.mismatch_count = 1};

        /* A baseline that is off must not open integers to error. */
        budget_set(&budget, exact[i], 1.0, 1.0);
        check_limits(&budget, 0, 0);
        assert_true(budget_accepts(&budget, &equal));
        assert_false(budget_accepts(&budget, &unequal));
        assert_false(budget_accepts(&budget, &count_alone));
    }
}

static void test_mask(void **state)
{
    struct compare_result result = {.nonfinite_expected = 3, .nonfinite_got = 3};
    struct budget budget;

    budget_set(&budget, DTYPE_FLOAT32, 0, 0);
    /* The same NaNs in the same places are no difference. */
    assert_true(budget_accepts(&budget, &result));
    /* As many, but one elsewhere. */
    result.mask_mismatches = 2;
    assert_false(budget_accepts(&budget, &result));
}

static void test_reduced_precision(void **state)
{
    /* Both conditions, each on both sides. */
    assert_false(budget_reduced_precision(1e-5, 0));
    assert_true(budget_reduced_precision(above(1e-5), 0));
    assert_false(budget_reduced_precision(0x1p-10, 0x1p-16)); /* exactly 64 times */
    assert_true(budget_reduced_precision(above(0x1p-10), 0x1p-16));
    assert_false(budget_reduced_precision(1e-6, 1e-12));
    assert_false(budget_reduced_precision(NAN, 1e-8));
    assert_false(budget_reduced_precision(1e-3, NAN));
    assert_true(budget_reduced_precision(INFINITY, 1e-8));
}

static void test_tf32_widens_the_norm_alone(void **state)
{
    struct budget budget;

    (void)state;
    budget_set(&budget, DTYPE_FLOAT32, 0, 0);
    budget_allow_tf32(&budget);
    assert_true(budget.n_limit == 0x1p-10);
    assert_true(budget.s_limit == 1e-3);
    budget_set(&budget, DTYPE_FLOAT32, 0, 1);
    budget_allow_tf32(&budget);
    assert_true(budget.n_limit == 4);
    budget_set(&budget, DTYPE_INT64, 0, 0);
    budget_allow_tf32(&budget);
    assert_true(budget.n_limit == 0);
}

/* What a tensor core makes of a float32 that nobody rounded: its upper 10 bits of mantissa. */
static double truncated(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    bits &= 0xffffe000;
    memcpy(&value, &bits, sizeof(bits));
    return (double)value;
}

/* Products of one sign: the error is both operands' mean truncation, however long the sum. */
static void test_truncation_to_tf32_is_within(void **state)
{
    struct stats_random random;
    struct compare_result result = {0};
    struct budget budget;
    double sum = 0, got = 0;

    (void)state;
    stats_random_seed(&random, 1);
    for (int i = 0; i < 1 << 16; i++) {
        float a = (float)(stats_random_next(&random) >> 40) * 0x1p-24f + 0x1p-24f;
        float b = (float)(stats_random_next(&random) >> 40) * 0x1p-24f + 0x1p-24f;

        sum += (double)a * (double)b;
        got += truncated(a) * truncated(b);
    }
    result.s = result.n = (sum - got) / sum;
    assert_true(result.n > 6e-4 && result.n < 8e-4);
    budget_set(&budget, DTYPE_FLOAT32, 1e-5, 1e-5);
    assert_false(budget_accepts(&budget, &result));
    budget_allow_tf32(&budget);
    assert_true(budget_accepts(&budget, &result));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_truncation_to_tf32_is_within),
        cmocka_unit_test(test_tf32_widens_the_norm_alone),
        cmocka_unit_test(test_floors),
        cmocka_unit_test(test_baseline_room),
        cmocka_unit_test(test_unusable_baseline),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_mask),
        cmocka_unit_test(test_reduced_precision),
    };

    return cmocka_run_group_tests_name("tolerance", tests, NULL, NULL);
}
