/*
 * Bootstrap of a ratio of medians.
 *
 * A resample's median needs no sort: it is an order statistic of the multiset of drawn ranks. Each
 * side is sorted once; a resample counts how often each rank was drawn and walks the counts up to
 * the middle. That makes a resample linear in the number of blocks.
 */
#include "stats/stats.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/cleanup.h"

/* One side: its values sorted, the rank of each original value, and a resample's counts. */
struct side {
    size_t count;
    double *sorted;
    size_t *ranks;
    unsigned *drawn;
};

struct ranked {
    double value;
    size_t index;
};

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->value != y->value)
        return x->value > y->value ? 1 : -1;
    return (x->index > y->index) - (x->index < y->index);
}

static void side_release(struct side *side)
{
    free(side->sorted);
    free(side->ranks);
    free(side->drawn);
}

static int side_init(struct side *side, const double *values, size_t count)
{
    CLEANUP_FREE struct ranked *order = calloc(count, sizeof(*order));

    *side = (struct side){
        .count = count,
        .sorted = calloc(count, sizeof(*side->sorted)),
        .ranks = calloc(count, sizeof(*side->ranks)),
        .drawn = calloc(count, sizeof(*side->drawn)),
    };
    if (!order || !side->sorted || !side->ranks || !side->drawn) {
        side_release(side);
        return -1;
    }
    for (size_t i = 0; i < count; i++)
        order[i] = (struct ranked){values[i], i};
    qsort(order, count, sizeof(*order), compare_ranked);
    for (size_t rank = 0; rank < count; rank++) {
        side->sorted[rank] = order[rank].value;
        side->ranks[order[rank].index] = rank;
    }
    return 0;
}

static double middle(double low, double high)
{
    return low + (high - low) / 2;
}

static double side_median(const struct side *side)
{
    return middle(side->sorted[(side->count - 1) / 2], side->sorted[side->count / 2]);
}

/* Median of the resample in `drawn`, which it clears for the next one. */
static double side_take_median(struct side *side)
{
    size_t low_place = (side->count - 1) / 2, high_place = side->count / 2, seen = 0;
    double low = side->sorted[0], high = low;
    bool low_found = false, high_found = false;

    for (size_t rank = 0; rank < side->count; rank++) {
        seen += side->drawn[rank];
        side->drawn[rank] = 0;
        if (!low_found && seen > low_place) {
            low = side->sorted[rank];
            low_found = true;
        }
        if (!high_found && seen > high_place) {
            high = side->sorted[rank];
            high_found = true;
        }
    }
    return middle(low, high);
}

static void draw_paired(struct side *a, struct side *b, struct stats_random *random)
{
    for (size_t i = 0; i < a->count; i++) {
        size_t pair = (size_t)stats_random_below(random, a->count);

        a->drawn[a->ranks[pair]]++;
        b->drawn[b->ranks[pair]]++;
    }
}

static void draw_alone(struct side *side, struct stats_random *random)
{
    for (size_t i = 0; i < side->count; i++)
        side->drawn[stats_random_below(random, side->count)]++;
}

static int interval(struct side *a, struct side *b, bool paired, double confidence,
                    unsigned resamples, uint64_t seed, struct stats_interval *ret_interval)
{
    CLEANUP_FREE double *ratios = calloc(resamples, sizeof(*ratios));
    struct stats_random random;
    double tail = (1 - confidence) / 2;

    if (!ratios)
        return -1;
    stats_random_seed(&random, seed);
    for (unsigned i = 0; i < resamples; i++) {
        if (paired) {
            draw_paired(a, b, &random);
        } else {
            draw_alone(a, &random);
            draw_alone(b, &random);
        }
        ratios[i] = side_take_median(a) / side_take_median(b);
    }
    *ret_interval = (struct stats_interval){
        .value = side_median(a) / side_median(b),
        .low = stats_quantile(ratios, resamples, tail),
        .high = stats_quantile(ratios, resamples, 1 - tail),
    };
    return 0;
}

static int ratio_interval(const double *a_values, size_t a_count, const double *b_values,
                          size_t b_count, bool paired, double confidence, unsigned resamples,
                          uint64_t seed, struct stats_interval *ret_interval)
{
    struct side a, b;
    int result;

    assert(a_count > 0 && b_count > 0 && resamples > 0 && confidence > 0 && confidence < 1);
    if (side_init(&a, a_values, a_count) < 0)
        return -1;
    if (side_init(&b, b_values, b_count) < 0) {
        side_release(&a);
        return -1;
    }
    result = interval(&a, &b, paired, confidence, resamples, seed, ret_interval);
    side_release(&b);
    side_release(&a);
    return result;
}

int stats_ratio_interval(const double *a, size_t a_count, const double *b, size_t b_count,
                         double confidence, unsigned resamples, uint64_t seed,
                         struct stats_interval *ret_interval)
{
    return ratio_interval(a, a_count, b, b_count, false, confidence, resamples, seed, ret_interval);
}

int stats_paired_ratio_interval(const double *a, const double *b, size_t count, double confidence,
                                unsigned resamples, uint64_t seed,
                                struct stats_interval *ret_interval)
{
    return ratio_interval(a, count, b, count, true, confidence, resamples, seed, ret_interval);
}
