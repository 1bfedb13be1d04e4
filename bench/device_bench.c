/*
 * How near a device's own operations come to its copy bandwidth:
 * `device_bench [cuda[:N] | cpu] [MiB]`. Times are the device's own clock, the fastest of several
 * rounds; a copy counts what it reads and what it writes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"

#define ROUNDS 7

static const struct device_ops *ops;
static struct device *device;
static uint64_t a, b; /* two buffers of `bytes` each */
static size_t bytes;
static struct error err;

static int run_copy(void)
{
    return ops->copy(device, b, a, bytes, &err);
}

static int run_fill(void)
{
    return ops->fill(device, b, 0, bytes, &err);
}

static int run_check_fill(void)
{
    uint64_t different, first;

    return ops->check_fill(device, b, 0, bytes, &different, &first, &err);
}

static int run_hash(void)
{
    uint64_t hash[2];

    return ops->hash(device, a, bytes, 7, hash, &err);
}

static int compare(enum dtype expected, enum dtype got)
{
    struct compare_result result;
    size_t wide = dtype_size(expected) > dtype_size(got) ? dtype_size(expected) : dtype_size(got);

    return ops->compare(device, a, expected, b, got, bytes / wide, &result, &err);
}

static int run_compare_64_32(void)
{
    return compare(DTYPE_FLOAT64, DTYPE_FLOAT32);
}

static int run_compare_32(void)
{
    return compare(DTYPE_FLOAT32, DTYPE_FLOAT32);
}

static int run_compare_64_bfloat(void)
{
    return compare(DTYPE_FLOAT64, DTYPE_BFLOAT16);
}

static int run_compare_half(void)
{
    return compare(DTYPE_FLOAT16, DTYPE_FLOAT16);
}

static int run_compare_integer(void)
{
    return compare(DTYPE_INT64, DTYPE_INT64);
}

static const struct {
    const char *name;
    double passes; /* bytes moved, as a multiple of the buffer's size */
    int (*run)(void);
} operations[] = {
    {"copy", 2, run_copy},
    {"fill", 1, run_fill},
    {"check_fill", 1, run_check_fill},
    {"hash", 1, run_hash},
    {"compare float64 with float32", 2.5, run_compare_64_32},
    {"compare float32 with float32", 3, run_compare_32},
    {"compare float64 with bfloat16", 2.25, run_compare_64_bfloat},
    {"compare float16 with float16", 3, run_compare_half},
    {"compare int64 with int64", 2, run_compare_integer},
};

static double fastest_seconds(int (*run)(void))
{
    uint64_t best = UINT64_MAX, elapsed;

    for (int round = 0; round <= ROUNDS; round++) {
        if (ops->mark_start(device, &err) < 0 || run() < 0 ||
            ops->mark_stop(device, &elapsed, &err) < 0) {
            fprintf(stderr, "%s\n", err.text);
            exit(1);
        }
        if (round > 0 && elapsed < best) /* the first compiles */
            best = elapsed;
    }
    return (double)best / 1e9;
}

/* Ordinary numbers, so that no comparison takes a rare path: 1.0 in float64 has a zero low half. */
static int prepare(void)
{
    if (ops->fill(device, a, 0x3ff0000000000000u, bytes, &err) < 0)
        return -1;
    return ops->fill(device, b, 0, bytes, &err);
}

int main(int argc, char **argv)
{
    const char *spec = argc > 1 ? argv[1] : "cuda";
    struct region *regions[2];
    double copy_rate = 0;
    int index;

    ops = device_ops_find(spec, &index, &err);
    if (!ops || ops->open(index, &device, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    bytes = (argc > 2                        ? strtoul(argv[2], NULL, 10)
             : strcmp(ops->name, "cpu") == 0 ? 256
                                             : 4096)
            << 20;
    for (int i = 0; i < 2; i++) {
        if (ops->region_new(device, bytes, &regions[i], &err) < 0) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
    }
    a = region_address(regions[0]);
    b = region_address(regions[1]);
    if (prepare() < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("%-32s %9s %10s %8s\n", "operation", "ms", "GB/s", "of copy");
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
        double seconds = fastest_seconds(operations[i].run);
        double rate = operations[i].passes * (double)bytes / seconds;

        if (i == 0)
            copy_rate = rate;
        printf("%-32s %9.3f %10.1f %7.1f%%\n", operations[i].name, seconds * 1e3, rate / 1e9,
               100 * rate / copy_rate);
    }
    region_free(regions[0]);
    region_free(regions[1]);
    ops->close(device);
    return 0;
}
