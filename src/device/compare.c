#include "device/compare.h"

#include <math.h>

#define COUNT_MAX ((uint64_t)1 << 40)

/* Between these no square of the largest element, nor the sum of 2^40 of them, leaves the range of
 * normal float64, and elements that are lost by underflow are too small to change the sum. */
#define SQUARE_SAFE_LARGEST  0x1p400
#define SQUARE_SAFE_SMALLEST 0x1p-400

static uint64_t lower(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void compare_energy_merge(struct compare_energy *into, const struct compare_energy *piece)
{
    into->squares += piece->squares;
    into->largest = fmax(into->largest, piece->largest);
    into->nonfinite += piece->nonfinite;
}

void compare_partial_merge(struct compare_partial *into, const struct compare_partial *piece)
{
    into->difference_squares += piece->difference_squares;
    into->expected_squares += piece->expected_squares;
    if (piece->worst_ratio > into->worst_ratio) {
        into->worst_ratio = piece->worst_ratio;
        into->worst_index = piece->worst_index;
    } else if (piece->worst_ratio == into->worst_ratio) {
        into->worst_index = lower(into->worst_index, piece->worst_index);
    }
    into->nonfinite_got += piece->nonfinite_got;
    into->mask_mismatches += piece->mask_mismatches;
    into->first_mask_mismatch = lower(into->first_mask_mismatch, piece->first_mask_mismatch);
    into->mismatches += piece->mismatches;
    into->first_mismatch = lower(into->first_mismatch, piece->first_mismatch);
}

/* The power of two that brings `largest` into [0.5, 1), as far as float64 has it. */
static double scale_for(double largest)
{
    int exponent;

    if (largest == 0 || (largest >= SQUARE_SAFE_SMALLEST && largest <= SQUARE_SAFE_LARGEST))
        return 1;
    frexp(largest, &exponent);
    return ldexp(1, exponent < -1000 ? 1000 : -exponent);
}

/* The squares of differences may all have vanished though there are some: beside an `expected` that
 * is not zero that is a norm below every limit, beside one that is zero it is an error without
 * bound. */
static double relative_norm(const struct compare_partial *total)
{
    if (total->expected_squares == 0)
        return total->worst_ratio == 0 ? 0 : INFINITY;
    return sqrt(total->difference_squares / total->expected_squares);
}

/* Fills worst_expected and worst_got. */
static int fetch_worst(const struct compare_passes *passes, void *context, uint64_t index,
                       struct compare_result *result, struct error *err)
{
    result->worst_index = index;
    if (passes->element(context, false, index, &result->worst_expected, err) < 0)
        return -1;
    return passes->element(context, true, index, &result->worst_got, err);
}

static int run_floating(const struct compare_passes *passes, void *context, uint64_t count,
                        struct compare_result *result, struct error *err)
{
    struct compare_energy energy = {0};
    struct compare_partial total = COMPARE_PARTIAL_INIT;
    double scale;

    if (passes->energy(context, 1, &energy, err) < 0)
        return -1;
    scale = scale_for(energy.largest);
    if (scale != 1 && passes->energy(context, scale, &energy, err) < 0)
        return -1;
    if (energy.nonfinite < count)
        result->sigma = sqrt(energy.squares / (double)(count - energy.nonfinite)) / scale;
    if (passes->difference(context, scale, result->sigma, &total, err) < 0)
        return -1;

    result->s = total.worst_ratio;
    result->n = relative_norm(&total);
    result->nonfinite_expected = energy.nonfinite;
    result->nonfinite_got = total.nonfinite_got;
    result->mask_mismatches = total.mask_mismatches;
    if (total.mask_mismatches > 0) {
        uint64_t index = total.first_mask_mismatch;

        result->first_mask_mismatch = index;
        if (passes->element(context, false, index, &result->mask_expected, err) < 0 ||
            passes->element(context, true, index, &result->mask_got, err) < 0)
            return -1;
    }
    return fetch_worst(passes, context, total.worst_index == COMPARE_NONE ? 0 : total.worst_index,
                       result, err);
}

static int run_integer(const struct compare_passes *passes, void *context,
                       struct compare_result *result, struct error *err)
{
    struct compare_partial total = COMPARE_PARTIAL_INIT;
    uint64_t index;

    if (passes->difference(context, 1, 0, &total, err) < 0)
        return -1;
    index = total.mismatches > 0 ? total.first_mismatch : 0;
    result->mismatch_count = total.mismatches;
    result->first_mismatch = index;
    result->nonfinite_got = total.nonfinite_got;
    if (total.mismatches > 0)
        result->s = result->n = INFINITY;
    return fetch_worst(passes, context, index, result, err);
}

int compare_run(const struct compare_passes *passes, void *context, enum dtype expected_dtype,
                uint64_t count, struct compare_result *ret_result, struct error *err)
{
    struct compare_result result = {0};
    int status = 0;

    if (count > 0)
        status = dtype_is_floating(expected_dtype)
                     ? run_floating(passes, context, count, &result, err)
                     : run_integer(passes, context, &result, err);
    if (status == 0)
        *ret_result = result;
    return status;
}

int compare_check(uint64_t expected, enum dtype expected_dtype, uint64_t got, enum dtype got_dtype,
                  uint64_t count, struct error *err)
{
    if ((unsigned)expected_dtype >= DTYPE_COUNT || (unsigned)got_dtype >= DTYPE_COUNT)
        return error_set(err, ERROR_INTERNAL, "compare: no such element type");
    if (count > COUNT_MAX)
        return error_set(err, ERROR_INTERNAL, "compare: more than 2^40 elements");
    if (expected % dtype_size(expected_dtype) || got % dtype_size(got_dtype))
        return error_set(err, ERROR_INTERNAL,
                         "compare: an address is not aligned to its element's size");
    return 0;
}
