/* Elements of tensors as numbers on the host: every value of every dtype exactly. */
#ifndef KBV_DEVICE_DECODE_H
#define KBV_DEVICE_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include "protocol/tensor.h"

/* `count` elements at `from`, aligned to the element's size. Integers and booleans are converted;
 * int64 rounds to nearest beyond 2^53. */
void decode_doubles(enum dtype dtype, const void *from, size_t count, double *to);

/* Integers and booleans only; a boolean is its byte, so that one which is neither 0 nor 1 shows. */
void decode_integers(enum dtype dtype, const void *from, size_t count, int64_t *to);

/* The first of decode_doubles(). */
double decode_double(enum dtype dtype, const void *element);

#endif
