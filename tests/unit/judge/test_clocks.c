/* What two clocks count for: honest processes that differ, clocks that lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "judge/clocks.h"

#define ROUNDS   20
#define CALLS    5
#define OVERHEAD 0.3 /* ms between the clocks, as on a GPU */
#define JITTER   0.004

static struct block storage[SIDE_COUNT][ROUNDS];
static struct block *const blocks[SIDE_COUNT] = {storage[0], storage[1], storage[2]};
static struct stats_random noise;

static double jitter(void)
{
    return JITTER * ((double)(stats_random_next(&noise) >> 11) * 0x1p-53 - 0.5);
}

/* Calls that take `true_ms`, of which the process tells `own_ms`, `offset_ms` slower around it. */
static void fill(enum side side, double true_ms, double own_ms, double offset_ms)
{
    for (size_t i = 0; i < ROUNDS; i++) {
        storage[side][i].calls = CALLS;
        for (unsigned j = 0; j < CALLS; j++) {
            storage[side][i].own_ms[j] = own_ms + jitter();
            storage[side][i].judge_ms[j] = true_ms + OVERHEAD + offset_ms + jitter();
        }
    }
}

static struct stats_interval speed(enum side side)
{
    struct series series = SERIES_INIT;
    struct stats_interval interval;

    assert_int_equal(series_make(blocks, ROUNDS, side == SIDE_OTHER_BASELINE, &series), 0);
    assert_int_equal(series_speed(&series, side, &interval), 0);
    assert_true(interval.low <= interval.value && interval.value <= interval.high);
    series_release(&series);
    return interval;
}

static int set_up(void **state)
{
    (void)state;
    stats_random_seed(&noise, 7);
    fill(SIDE_BASELINE, 1.2, 1.2, 0);
    return 0;
}

static void test_equal(void **state)
{
    struct stats_interval interval;

    (void)state;
    fill(SIDE_CANDIDATE, 1.2, 1.2, 0);
    interval = speed(SIDE_BASELINE);
    assert_true(fabs(interval.value - 1) < 0.002);
    assert_true(interval.low > 0.99 && interval.low < 1 && interval.high > 1 &&
                interval.high < 1.01);
}

static void test_faster_and_slower(void **state)
{
    struct stats_interval interval;

    (void)state;
    fill(SIDE_CANDIDATE, 0.6, 0.6, 0);
    interval = speed(SIDE_BASELINE);
    assert_true(fabs(interval.value - 2) < 0.01 && interval.low > 1.97);
    fill(SIDE_CANDIDATE, 2.4, 2.4, 0);
    interval = speed(SIDE_BASELINE);
    assert_true(fabs(interval.value - 0.5) < 0.005 && interval.high < 0.51);
}

/* 50 us around every call, as one process of two that ran the same kernel had them all its life. */
static void test_a_process_that_is_slower_around_its_calls(void **state)
{
    struct stats_interval interval;

    (void)state;
    fill(SIDE_CANDIDATE, 1.2, 1.2, 0.05);
    interval = speed(SIDE_BASELINE);
    assert_true(fabs(interval.value - 1) < 0.002); /* not 0.96 */
    assert_true(interval.high > 1);                /* not slower */
    assert_true(interval.low < 0.97);              /* but the doubt shows */
}

static void test_a_clock_that_lies(void **state)
{
    struct stats_interval interval;

    (void)state;
    fill(SIDE_CANDIDATE, 1.2, 0.01, 0);
    interval = speed(SIDE_BASELINE);
    assert_true(fabs(interval.value - 1) < 0.01 && interval.low < 1);
    /* A little: within the room that honest processes need. It makes nothing faster. */
    fill(SIDE_CANDIDATE, 1.2, 1.2 - 0.25 * OVERHEAD, 0);
    interval = speed(SIDE_BASELINE);
    assert_true(interval.low < 1);
    assert_true(interval.value < 1.2 / (1.2 - 0.3 * OVERHEAD));
}

/* The baseline's clock is believed as it is, that of the other precision, too. */
static void test_other_baseline(void **state)
{
    struct stats_interval interval;

    (void)state;
    fill(SIDE_CANDIDATE, 1.2, 1.2, 0);
    fill(SIDE_OTHER_BASELINE, 8.4, 8.4, 5);
    interval = speed(SIDE_OTHER_BASELINE);
    assert_true(fabs(interval.value - 7) < 0.05);
}

static void test_narrow(void **state)
{
    struct series series = SERIES_INIT;

    (void)state;
    fill(SIDE_CANDIDATE, 1.2, 1.2, 0.05);
    assert_int_equal(series_make(blocks, ROUNDS, false, &series), 0);
    assert_true(series_narrow(&series)); /* time would not bring the accounts together */
    series_release(&series);
    for (size_t i = 0; i < ROUNDS; i += 2) {
        for (unsigned j = 0; j < CALLS; j++)
            storage[SIDE_CANDIDATE][i].own_ms[j] *= 1.2;
    }
    assert_int_equal(series_make(blocks, ROUNDS, false, &series), 0);
    assert_false(series_narrow(&series));
    series_release(&series);
}

static void test_wall(void **state)
{
    struct series series = SERIES_INIT;
    struct stats_interval interval;

    (void)state;
    fill(SIDE_CANDIDATE, 1.2, 0.01, 1.5);
    assert_int_equal(series_make(blocks, ROUNDS, false, &series), 0);
    assert_int_equal(series_wall(&series, &interval), 0);
    assert_true(fabs(interval.value - 0.5) < 0.01);
    series_release(&series);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_equal, set_up),
        cmocka_unit_test_setup(test_faster_and_slower, set_up),
        cmocka_unit_test_setup(test_a_process_that_is_slower_around_its_calls, set_up),
        cmocka_unit_test_setup(test_a_clock_that_lies, set_up),
        cmocka_unit_test_setup(test_other_baseline, set_up),
        cmocka_unit_test_setup(test_narrow, set_up),
        cmocka_unit_test_setup(test_wall, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
