/* Point estimates against numbers worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>

#include "base/cleanup.h"
#include "stats/stats.h"

static void check_near(double got, double expected)
{
    assert_true(fabs(got - expected) <= 1e-12 * fmax(1, fabs(expected)));
}

static void test_median(void **state)
{
    double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2}, one[] = {7}, equal[] = {5, 5, 5, 5};
    double huge[] = {0.9 * DBL_MAX, DBL_MAX};

    check_near(stats_median(odd, 3), 2);
    check_near(stats_median(even, 4), 2.5);
    check_near(stats_median(one, 1), 7);
    check_near(stats_median(equal, 4), 5);
    /* The sum of the middle two overflows; their mean does not. */
    assert_true(isfinite(stats_median(huge, 2)));
}

/* Type 7: position q (n - 1) between order statistics. */
static void test_quantile(void **state)
{
    double five[] = {5, 1, 4, 2, 3}, four[] = {80, 10, 40, 20}, one[] = {3};
    double infinite[] = {INFINITY, 1, INFINITY};

    check_near(stats_quantile(five, 5, 0), 1);
    check_near(stats_quantile(five, 5, 1), 5);
    check_near(stats_quantile(five, 5, 0.25), 2);
    check_near(stats_quantile(five, 5, 0.1), 1.4);
    check_near(stats_quantile(four, 4, 0.9), 68); /* position 2.7: 40 + 0.7 x 40 */
    check_near(stats_quantile(one, 1, 0.975), 3);
    assert_true(isinf(stats_quantile(infinite, 3, 0.75))); /* not NaN */
}

static void test_geomean(void **state)
{
    static const double powers[] = {1, 4, 16}, inverse[] = {2, 0.5}, one[] = {1.25};
    static const double extreme[] = {1e300, 1e300, 1e-300, 1e-300}; /* the product overflows */

    check_near(stats_geomean(powers, 3), 4);
    check_near(stats_geomean(inverse, 2), 1);
    check_near(stats_geomean(one, 1), 1.25);
    check_near(stats_geomean(extreme, 4), 1);
}

static void test_pass_at_k(void **state)
{
    check_near(stats_pass_at_k(5, 2, 2), 0.7);  /* 1 - C(3,2) / C(5,2) = 1 - 3 / 10 */
    check_near(stats_pass_at_k(10, 1, 1), 0.1); /* k = 1: the share of successes */
    check_near(stats_pass_at_k(6, 3, 3), 0.95); /* 1 - 1 / 20 */
    check_near(stats_pass_at_k(200, 3, 100), 1 - 970200.0 / 7880400.0);
    check_near(stats_pass_at_k(5, 0, 5), 0);
    check_near(stats_pass_at_k(3, 2, 2), 1); /* one failure cannot fill a draw of two */
    check_near(stats_pass_at_k(1, 1, 1), 1);
    check_near(stats_pass_at_k(1, 0, 1), 0);
    check_near(stats_pass_at_k(100000, 50000, 1), 0.5);
}

/* pass@k by listing all draws of k out of n, for all small n, c, k. */
static void test_pass_at_k_exhaustive(void **state)
{
    for (unsigned n = 1; n <= 8; n++) {
        for (unsigned c = 0; c <= n; c++) {
            for (unsigned k = 1; k <= n; k++) {
                unsigned draws = 0, hits = 0;

                for (unsigned set = 0; set < 1u << n; set++) {
                    if ((unsigned)__builtin_popcount(set) != k)
                        continue;
                    draws++;
                    hits += (set & ((1u << c) - 1)) != 0; /* the first c are the successes */
                }
                check_near(stats_pass_at_k(n, c, k), (double)hits / draws);
            }
        }
    }
}

/* Ranks from the binomial table at 95%: 6 values give [1st, 6th], 9 give [2nd, 8th], 20 give [6th,
 * 15th], 100 give [40th, 61st]. */
static void test_median_interval(void **state)
{
    static const struct {
        size_t count, low, high;
    } cases[] = {{6, 1, 6}, {8, 1, 8}, {9, 2, 8}, {20, 6, 15}, {100, 40, 61}};
    double values[2000], low = -1, high = -1;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t j = 0; j < cases[i].count; j++)
            values[j] = (double)(cases[i].count - j);
        assert_int_equal(stats_median_interval(values, cases[i].count, 0.95, &low, &high), 0);
        assert_true(low == (double)cases[i].low);
        assert_true(high == (double)cases[i].high);
    }
    low = high = -1;
    assert_int_equal(stats_median_interval(values, 5, 0.95, &low, &high), -1);
    assert_true(low == -1 && high == -1);
    assert_int_equal(stats_median_interval(values, 5, 0.9, &low, &high), 0);
    for (size_t j = 0; j < 2000; j++) /* 2^-2000 is no double */
        values[j] = (double)j;
    assert_int_equal(stats_median_interval(values, 2000, 0.95, &low, &high), 0);
    assert_true(low > 950 && low < 960 && high > 1040 && high < 1050);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_median_interval),
        cmocka_unit_test(test_median),
        cmocka_unit_test(test_quantile),
        cmocka_unit_test(test_geomean),
        cmocka_unit_test(test_pass_at_k),
        cmocka_unit_test(test_pass_at_k_exhaustive),
    };

    return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
