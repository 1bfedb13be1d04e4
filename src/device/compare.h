/*
 * compare() without the device: the order of passes, how partial results of pieces of the tensors
 * are put together, and what the totals mean. Each device supplies the two passes over its memory;
 * all the rest is done here on the host, once for all devices.
 *
 * Floating `expected` takes two passes. The first gives sigma; the second needs it. Squares are
 * summed of `scale * x` with a power of two for scale: 1, unless the first pass shows values whose
 * squares would leave the range of float64 (1e-200 is what a float64 oracle holds where float32
 * underflows), then the first pass is repeated with a scale that brings the largest below 1.
 *
 * Partial results must be merged in the order of the pieces, and the division into pieces must not
 * depend on the number of threads: then the same call gives the same bits.
 */
#ifndef KBV_DEVICE_COMPARE_H
#define KBV_DEVICE_COMPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "protocol/tensor.h"

#define COMPARE_NONE UINT64_MAX /* an index of no element */

/* Of a piece of `expected`. kernels/compare.cu has the same layout. */
struct compare_energy {
    double squares; /* sum of (scale e)^2 over finite e */
    double largest; /* |e| among finite e, unscaled */
    uint64_t nonfinite;
};

/* Of a piece of both tensors; indices count from the tensors' start. The same layout there. */
struct compare_partial {
    double difference_squares; /* over elements where both are finite, scaled */
    double expected_squares;   /* over the same elements */
    double worst_ratio;
    uint64_t worst_index; /* the first with worst_ratio; COMPARE_NONE while that is 0 */
    uint64_t nonfinite_got;
    uint64_t mask_mismatches;
    uint64_t first_mask_mismatch;
    uint64_t mismatches; /* integers and booleans */
    uint64_t first_mismatch;
};

#define COMPARE_PARTIAL_INIT                                                                       \
    {                                                                                              \
        .worst_index = COMPARE_NONE, .first_mask_mismatch = COMPARE_NONE,                          \
        .first_mismatch = COMPARE_NONE                                                             \
    }

void compare_energy_merge(struct compare_energy *into, const struct compare_energy *piece);
void compare_partial_merge(struct compare_partial *into, const struct compare_partial *piece);

struct compare_passes {
    int (*energy)(void *context, double scale, struct compare_energy *ret_energy,
                  struct error *err);
    /* For integers and booleans scale and sigma mean nothing. */
    int (*difference)(void *context, double scale, double sigma,
                      struct compare_partial *ret_partial, struct error *err);
    /* One element of `got` or of `expected`, as a number. */
    int (*element)(void *context, bool got, uint64_t index, double *ret_value, struct error *err);
};

/* The whole comparison. Where no finite element differs, worst_index is 0 and worst_expected and
 * worst_got are the first elements. */
int compare_run(const struct compare_passes *passes, void *context, enum dtype expected_dtype,
                uint64_t count, struct compare_result *ret_result, struct error *err);

/* -1 unless both dtypes exist, `count` is at most 2^40 and the addresses are aligned to their
 * elements' size. */
int compare_check(uint64_t expected, enum dtype expected_dtype, uint64_t got, enum dtype got_dtype,
                  uint64_t count, struct error *err);

#endif
