#include "judge/clocks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OWN_MS_MIN      1e-4 /* no clock here resolves less */
#define SLACK_MS_MIN    0.002
#define SLACK_OVERHEAD  0.3 /* of the overhead: seen between equal processes, 0.25 */
#define INTERVAL_TARGET 0.01
#define CONFIDENCE      0.95
#define RESAMPLES       2000
#define PROCESS_ERROR   0.005 /* two standard deviations between evaluations of one kernel, 0.25% */

static double block_median(const double *values, unsigned count)
{
    double copy[BLOCK_CALLS_MAX];

    memcpy(copy, values, count * sizeof(*copy));
    return stats_median(copy, count);
}

/* What the judge's clock shows beyond the process' own, typically in this block. */
static double block_gap(const struct block *block)
{
    double gaps[BLOCK_CALLS_MAX];

    for (unsigned i = 0; i < block->calls; i++)
        gaps[i] = block->judge_ms[i] - block->own_ms[i];
    return stats_median(gaps, block->calls);
}

/* Median of the baseline's gaps over its blocks, and how far above it one in ten lies. */
static int overhead(const struct block *baseline, size_t rounds, double *ret_median,
                    double *ret_spread)
{
    double *gaps = malloc(rounds * sizeof(*gaps));

    if (!gaps)
        return -1;
    for (size_t i = 0; i < rounds; i++)
        gaps[i] = block_gap(&baseline[i]);
    *ret_median = stats_median(gaps, rounds);
    *ret_spread = stats_quantile(gaps, rounds, 0.9) - *ret_median;
    free(gaps);
    return 0;
}

/* Counted milliseconds of each block of the candidate, up to `slack_ms` of a gap being noise. */
static void count_blocks(const struct block *blocks, size_t rounds, double overhead_ms,
                         double slack_ms, double *counted)
{
    for (size_t i = 0; i < rounds; i++) {
        double own_ms = block_median(blocks[i].own_ms, blocks[i].calls);
        double gap_ms = block_gap(&blocks[i]);

        if (gap_ms > overhead_ms + slack_ms)
            own_ms += gap_ms - overhead_ms;
        counted[i] = fmax(own_ms, OWN_MS_MIN);
    }
}

void series_release(struct series *series)
{
    free(series->strict);
    for (int side = 0; side < SIDE_COUNT; side++) {
        free(series->counted[side]);
        free(series->own[side]);
        free(series->judge[side]);
    }
    *series = SERIES_INIT;
}

int series_make(struct block *const blocks[SIDE_COUNT], size_t rounds, bool other,
                struct series *series)
{
    double strict_ms, lenient_ms;

    series->rounds = rounds;
    series->strict = calloc(rounds, sizeof(double));
    if (!series->strict ||
        overhead(blocks[SIDE_BASELINE], rounds, &series->overhead_ms, &series->spread_ms) < 0)
        return -1;
    for (int side = 0; side < SIDE_COUNT; side++) {
        if (side == SIDE_OTHER_BASELINE && !other)
            continue;
        series->counted[side] = calloc(rounds, sizeof(double));
        series->own[side] = calloc(rounds, sizeof(double));
        series->judge[side] = calloc(rounds, sizeof(double));
        if (!series->counted[side] || !series->own[side] || !series->judge[side])
            return -1;
        for (size_t i = 0; i < rounds; i++) {
            const struct block *block = &blocks[side][i];

            series->own[side][i] = block_median(block->own_ms, block->calls);
            /* The baseline's needs nobody to bear it out. */
            series->counted[side][i] = fmax(series->own[side][i], OWN_MS_MIN);
            series->judge[side][i] = block_median(block->judge_ms, block->calls);
        }
    }
    strict_ms = 2 * series->spread_ms + SLACK_MS_MIN;
    lenient_ms = strict_ms + SLACK_OVERHEAD * fmax(series->overhead_ms, 0);
    count_blocks(blocks[SIDE_CANDIDATE], rounds, series->overhead_ms, strict_ms, series->strict);
    count_blocks(blocks[SIDE_CANDIDATE], rounds, series->overhead_ms, lenient_ms,
                 series->counted[SIDE_CANDIDATE]);
    return 0;
}

/*
 * The ratio of medians with an interval that holds for few blocks too: the wider of the
 * bootstrap's, which is too narrow for a handful of pairs, and the distribution-free one of the
 * median of the pairs' ratios.
 */
static int interval_of(const struct series *series, const double *baseline, const double *candidate,
                       struct stats_interval *ret_interval)
{
    double *ratios = malloc(series->rounds * sizeof(*ratios)), low, high;
    int status = -1;

    if (!ratios)
        return -1;
    for (size_t i = 0; i < series->rounds; i++)
        ratios[i] = baseline[i] / candidate[i];
    if (stats_paired_ratio_interval(baseline, candidate, series->rounds, CONFIDENCE, RESAMPLES,
                                    series->rounds, ret_interval) == 0 &&
        stats_median_interval(ratios, series->rounds, CONFIDENCE, &low, &high) == 0) {
        ret_interval->low = fmin(ret_interval->low, low);
        ret_interval->high = fmax(ret_interval->high, high);
        status = 0;
    }
    free(ratios);
    return status;
}

int series_speed(const struct series *series, enum side side, struct stats_interval *ret_interval)
{
    struct stats_interval strict;

    if (interval_of(series, series->counted[side], series->counted[SIDE_CANDIDATE], ret_interval) <
            0 ||
        interval_of(series, series->counted[side], series->strict, &strict) < 0)
        return -1;
    ret_interval->low = fmin(ret_interval->low, strict.low) * (1 - PROCESS_ERROR);
    ret_interval->high *= 1 + PROCESS_ERROR;
    return 0;
}

int series_wall(const struct series *series, struct stats_interval *ret_interval)
{
    return interval_of(series, series->judge[SIDE_BASELINE], series->judge[SIDE_CANDIDATE],
                       ret_interval);
}

bool series_narrow(const struct series *series)
{
    struct stats_interval interval;

    return interval_of(series, series->counted[SIDE_BASELINE], series->counted[SIDE_CANDIDATE],
                       &interval) == 0 &&
           interval.high - interval.value <= INTERVAL_TARGET * interval.value &&
           interval.value - interval.low <= INTERVAL_TARGET * interval.value;
}
