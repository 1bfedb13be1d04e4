#include "device/decode.h"

#include <string.h>

/*
 * By way of float32, in which every half is a normal number or zero: so a thread that flushes
 * denormals to zero decodes the same. Written with selects instead of branches: the loop
 * vectorises.
 */
static inline double double_from_half(uint16_t half)
{
    uint32_t magnitude = half & 0x7fff;
    uint32_t normal = (magnitude << 13) + ((127 - 15) << 23);
    uint32_t special = magnitude << 13 | 0xffu << 23;
    float value = (float)(int32_t)magnitude * 0x1p-24f; /* right where the exponent is 0 */
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    bits = magnitude < 0x0400 ? bits : normal;
    bits = magnitude >= 0x7c00 ? special : bits;
    bits |= (uint32_t)(half & 0x8000) << 16;
    memcpy(&value, &bits, sizeof(value));
    return (double)value;
}

static inline double double_from_bfloat(uint16_t bfloat)
{
    uint32_t bits = (uint32_t)bfloat << 16;
    float value;

    memcpy(&value, &bits, sizeof(value));
    return (double)value;
}

#define DECODE_LOOP(type, expression)                                                              \
    do {                                                                                           \
        const type *x = from;                                                                      \
                                                                                                   \
        for (size_t i = 0; i < count; i++)                                                         \
            to[i] = (expression);                                                                  \
    } while (0)

void decode_doubles(enum dtype dtype, const void *from, size_t count, double *to)
{
    switch (dtype) {
    case DTYPE_FLOAT64:
        memcpy(to, from, count * sizeof(double));
        break;
    case DTYPE_FLOAT32:
        DECODE_LOOP(float, (double)x[i]);
        break;
    case DTYPE_FLOAT16:
        DECODE_LOOP(uint16_t, double_from_half(x[i]));
        break;
    case DTYPE_BFLOAT16:
        DECODE_LOOP(uint16_t, double_from_bfloat(x[i]));
        break;
    case DTYPE_INT64:
        DECODE_LOOP(int64_t, (double)x[i]);
        break;
    case DTYPE_INT32:
        DECODE_LOOP(int32_t, x[i]);
        break;
    case DTYPE_INT16:
        DECODE_LOOP(int16_t, x[i]);
        break;
    case DTYPE_INT8:
        DECODE_LOOP(int8_t, x[i]);
        break;
    case DTYPE_UINT8:
    case DTYPE_BOOL:
        DECODE_LOOP(uint8_t, x[i]);
        break;
    case DTYPE_COUNT:
        break;
    }
}

void decode_integers(enum dtype dtype, const void *from, size_t count, int64_t *to)
{
    switch (dtype) {
    case DTYPE_INT64:
        memcpy(to, from, count * sizeof(int64_t));
        break;
    case DTYPE_INT32:
        DECODE_LOOP(int32_t, x[i]);
        break;
    case DTYPE_INT16:
        DECODE_LOOP(int16_t, x[i]);
        break;
    case DTYPE_INT8:
        DECODE_LOOP(int8_t, x[i]);
        break;
    case DTYPE_UINT8:
    case DTYPE_BOOL:
        DECODE_LOOP(uint8_t, x[i]);
        break;
    case DTYPE_FLOAT64:
    case DTYPE_FLOAT32:
    case DTYPE_FLOAT16:
    case DTYPE_BFLOAT16:
    case DTYPE_COUNT:
        break;
    }
}

double decode_double(enum dtype dtype, const void *element)
{
    double value = 0;

    decode_doubles(dtype, element, 1, &value);
    return value;
}
