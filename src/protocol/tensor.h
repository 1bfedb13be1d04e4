/* Element types, and what a comparison of two tensors yields. */
#ifndef KBV_PROTOCOL_TENSOR_H
#define KBV_PROTOCOL_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Element types that compare() understands; named as in torch. */
enum dtype {
    DTYPE_FLOAT64,
    DTYPE_FLOAT32,
    DTYPE_FLOAT16,
    DTYPE_BFLOAT16,
    DTYPE_INT64,
    DTYPE_INT32,
    DTYPE_INT16,
    DTYPE_INT8,
    DTYPE_UINT8,
    DTYPE_BOOL,
    DTYPE_COUNT,
};

size_t dtype_size(enum dtype dtype);      /* bytes of one element */
const char *dtype_name(enum dtype dtype); /* "float32", "int64", ... */
/* The dtype with that name, or -1. */
int dtype_parse(const char *name);
bool dtype_is_floating(enum dtype dtype);

/*
 * compare(): `count` elements of `got` against `expected`, both contiguous.
 * Arithmetic in float64. For floating `expected`: sigma = RMS over its finite
 * elements; s and n as in the protocol ("Error budget"), over elements where both
 * are finite; where |e_i| + sigma is 0, an element that is exactly 0 contributes
 * 0 and any other makes s infinite; n = 0 if the difference's norm is 0, else
 * infinite where ||e|| is 0. For integers and booleans: mismatch_count and
 * first_mismatch of unequal elements, s = n = 0 if none else infinity.
 * `expected` may have another floating dtype than `got` (float64 against float32);
 * int64 against int32 and the like is also allowed.
 */
struct compare_result {
    double s;             /* max relative error, see above */
    double n;             /* relative error in norm */
    double sigma;         /* RMS of expected over its finite elements */
    uint64_t worst_index; /* flat index of the element behind s */
    double worst_expected;
    double worst_got;
    uint64_t nonfinite_expected; /* NaN or infinite elements */
    uint64_t nonfinite_got;
    uint64_t mask_mismatches;     /* NaN against not-NaN, inf against not the same inf */
    uint64_t first_mask_mismatch; /* flat index; valid where mask_mismatches > 0 */
    double mask_expected;         /* the two values at first_mask_mismatch */
    double mask_got;
    uint64_t mismatch_count; /* integers and booleans: unequal elements */
    uint64_t first_mismatch; /* flat index; worst_expected/worst_got hold the values */
};

#endif
