/* The interval of a ratio: exact small cases, a plain second implementation, and coverage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "base/cleanup.h"
#include "stats/stats.h"

#define RESAMPLES 2000

static struct stats_interval unpaired(const double *a, size_t a_count, const double *b,
                                      size_t b_count, uint64_t seed)
{
    struct stats_interval result;

    assert_int_equal(stats_ratio_interval(a, a_count, b, b_count, 0.95, RESAMPLES, seed, &result),
                     0);
    return result;
}

static struct stats_interval paired(const double *a, const double *b, size_t count, uint64_t seed)
{
    struct stats_interval result;

    assert_int_equal(stats_paired_ratio_interval(a, b, count, 0.95, RESAMPLES, seed, &result), 0);
    return result;
}

static void check_interval(struct stats_interval got, double value, double low, double high)
{
    assert_true(got.value == value && got.low == low && got.high == high);
}

/* One block a side: there is nothing to resample, so the interval is the point. */
static void test_one_block(void **state)
{
    static const double a[] = {3}, b[] = {2};

    check_interval(unpaired(a, 1, b, 1, 1), 1.5, 1.5, 1.5);
    check_interval(paired(a, b, 1, 1), 1.5, 1.5, 1.5);
}

static void test_equal_values(void **state)
{
    static const double a[] = {4, 4, 4, 4, 4}, b[] = {2, 2, 2};

    check_interval(unpaired(a, 5, b, 3, 1), 2, 2, 2);
    check_interval(paired(a, a, 5, 1), 1, 1, 1);
}

/* Two blocks {1, 3} against 1: medians 1, 2, 3 with chances 1/4, 1/2, 1/4. */
static void test_two_blocks(void **state)
{
    static const double a[] = {3, 1}, b[] = {1};
    struct stats_interval half;

    check_interval(unpaired(a, 2, b, 1, 1), 2, 1, 3);
    /* The middle 40% lie at 2 alone. */
    assert_int_equal(stats_ratio_interval(a, 2, b, 1, 0.4, RESAMPLES, 1, &half), 0);
    check_interval(half, 2, 2, 2);
}

/* Drift that doubles both sides of a pair cancels in pairs, and only there. */
static void test_drift(void **state)
{
    double a[20], b[20];

    for (size_t i = 0; i < ARRAY_SIZE(a); i++) {
        b[i] = 1 + 0.05 * (double)i;
        a[i] = 2 * b[i];
    }
    check_interval(paired(a, b, ARRAY_SIZE(a), 7), 2, 2, 2);
    assert_true(unpaired(a, ARRAY_SIZE(a), b, ARRAY_SIZE(b), 7).low < 1.8);
    assert_true(unpaired(a, ARRAY_SIZE(a), b, ARRAY_SIZE(b), 7).high > 2.2);
}

static void test_extreme_ratios(void **state)
{
    static const double large[] = {1e300, 2e300, 3e300}, small[] = {1e-300, 2e-300, 3e-300};
    static const double one[] = {1, 1, 1};
    struct stats_interval result = unpaired(large, 3, small, 3, 1);

    /* Infinite is what such a ratio is in float64; NaN would be a defect. */
    assert_true(isinf(result.value) && isinf(result.low) && isinf(result.high));
    result = unpaired(large, 3, one, 3, 1);
    assert_true(result.low == 1e300 && result.value == 2e300 && result.high == 3e300);
    result = unpaired(one, 3, large, 3, 1);
    assert_true(result.low == 1 / 3e300 && result.value == 1 / 2e300 && result.high == 1e-300);
}

static double uniform(struct stats_random *random)
{
    return (double)(stats_random_next(random) >> 11) * 0x1p-53;
}

/* Times with a tail to the right, as measured ones have. */
static void make_times(struct stats_random *random, double *to, size_t count, double scale)
{
    for (size_t i = 0; i < count; i++) {
        double normal = sqrt(-2 * log(1 - uniform(random))) * cos(2 * M_PI * uniform(random));

        to[i] = scale * exp(0.1 * normal);
    }
}

static void test_deterministic(void **state)
{
    double a[15], b[12], a_before[15];
    struct stats_random random;
    struct stats_interval first, second, other;

    stats_random_seed(&random, 11);
    make_times(&random, a, ARRAY_SIZE(a), 2);
    make_times(&random, b, ARRAY_SIZE(b), 1);
    memcpy(a_before, a, sizeof(a));
    first = unpaired(a, ARRAY_SIZE(a), b, ARRAY_SIZE(b), 42);
    second = unpaired(a, ARRAY_SIZE(a), b, ARRAY_SIZE(b), 42);
    other = unpaired(a, ARRAY_SIZE(a), b, ARRAY_SIZE(b), 43);
    check_interval(second, first.value, first.low, first.high);
    assert_true(other.value == first.value);
    assert_true(other.low != first.low || other.high != first.high);
    assert_memory_equal(a, a_before, sizeof(a));
}

/* The same bootstrap without ranks and counts: gather, sort, take the middle. */
static double plain_median(const double *values, const size_t *indices, size_t count)
{
    double drawn[64];

    for (size_t i = 0; i < count; i++)
        drawn[i] = values[indices[i]];
    return stats_median(drawn, count);
}

static void check_against_plain(const double *a, const double *b, size_t count, uint64_t seed)
{
    double ratios[RESAMPLES];
    struct stats_random random;
    struct stats_interval got = paired(a, b, count, seed);

    stats_random_seed(&random, seed);
    for (size_t i = 0; i < RESAMPLES; i++) {
        size_t indices[64];

        for (size_t j = 0; j < count; j++)
            indices[j] = (size_t)stats_random_below(&random, count);
        ratios[i] = plain_median(a, indices, count) / plain_median(b, indices, count);
    }
    assert_true(fabs(got.low - stats_quantile(ratios, RESAMPLES, 0.025)) < 1e-12);
    assert_true(fabs(got.high - stats_quantile(ratios, RESAMPLES, 0.975)) < 1e-12);
}

static void test_against_plain(void **state)
{
    double a[64], b[64];
    struct stats_random random;

    stats_random_seed(&random, 5);
    for (size_t count = 1; count <= ARRAY_SIZE(a); count += 1 + count / 3) {
        make_times(&random, a, count, 1.5);
        make_times(&random, b, count, 1);
        check_against_plain(a, b, count, count);
        /* Ties: few distinct values. */
        for (size_t i = 0; i < count; i++)
            a[i] = ceil(4 * a[i]);
        check_against_plain(a, b, count, count);
    }
}

/* Of many intervals at 95%, about 95% hold the true ratio; the value always lies within. */
static void test_coverage(void **state)
{
    enum { EXPERIMENTS = 400, BLOCKS = 25 };
    unsigned covered[2] = {0};
    struct stats_random random;

    stats_random_seed(&random, 2025);
    for (unsigned i = 0; i < EXPERIMENTS; i++) {
        double a[BLOCKS], b[BLOCKS];

        make_times(&random, a, BLOCKS, 1.5);
        make_times(&random, b, BLOCKS, 1);
        for (int pairs = 0; pairs < 2; pairs++) {
            struct stats_interval got;
            int result = pairs ? stats_paired_ratio_interval(a, b, BLOCKS, 0.95, 400, i, &got)
                               : stats_ratio_interval(a, BLOCKS, b, BLOCKS, 0.95, 400, i, &got);

            assert_int_equal(result, 0);
            assert_true(got.low <= got.value && got.value <= got.high);
            covered[pairs] += got.low <= 1.5 && 1.5 <= got.high;
        }
    }
    /* The percentile bootstrap of a median is a little wide: 95% to 98%. */
    assert_in_range(covered[0], EXPERIMENTS * 92 / 100, EXPERIMENTS * 995 / 1000);
    assert_in_range(covered[1], EXPERIMENTS * 92 / 100, EXPERIMENTS * 995 / 1000);
}

/* More confidence, wider interval; more blocks, narrower. */
static void test_width(void **state)
{
    double a[400], b[400];
    struct stats_random random;
    struct stats_interval narrow, wide, few, many;

    stats_random_seed(&random, 3);
    make_times(&random, a, ARRAY_SIZE(a), 1.5);
    make_times(&random, b, ARRAY_SIZE(b), 1);
    assert_int_equal(stats_ratio_interval(a, 40, b, 40, 0.5, RESAMPLES, 1, &narrow), 0);
    assert_int_equal(stats_ratio_interval(a, 40, b, 40, 0.99, RESAMPLES, 1, &wide), 0);
    assert_true(wide.low < narrow.low && narrow.high < wide.high);
    few = unpaired(a, 20, b, 20, 1);
    many = unpaired(a, 400, b, 400, 1);
    assert_true(many.high - many.low < (few.high - few.low) / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_block),      cmocka_unit_test(test_equal_values),
        cmocka_unit_test(test_two_blocks),     cmocka_unit_test(test_drift),
        cmocka_unit_test(test_extreme_ratios), cmocka_unit_test(test_deterministic),
        cmocka_unit_test(test_against_plain),  cmocka_unit_test(test_coverage),
        cmocka_unit_test(test_width),
    };

    return cmocka_run_group_tests_name("bootstrap", tests, NULL, NULL);
}
