/*
 * The operations of the CUDA device that are kernels of our own: fill, check_fill, hash, compare.
 * Modules are compiled (or taken from disk) when first needed.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "device/compare.h"
#include "device/cuda_device.h"
#include "device/cuda_kernels.h"
#include "device/decode.h"
#include "device/hash.h"

#define THREADS          256 /* of a block, in every kernel */
#define VECTOR_BYTES     16
#define UNROLL           4 /* vectors, or tuples of elements, that a thread takes at once */
#define RESULT_BYTES_MAX sizeof(struct compare_partial)

/* Layouts that kernels/ repeats. */
_Static_assert(sizeof(struct compare_energy) == 24, "energy in compare.cu");
_Static_assert(sizeof(struct compare_partial) == 72, "partial in compare.cu");
_Static_assert(sizeof(struct hash_keys) == (2 * 16 + 2) * 8, "keys in hash.cu");
_Static_assert(HASH_ROWS == 16 && HASH_COLUMNS == 64 && HASH_LANES == 2, "constants in hash.cu");

static unsigned grid_max(const struct cuda_device *device)
{
    return (unsigned)device->multiprocessors * CUDA_BLOCKS_PER_MULTIPROCESSOR;
}

/* Enough blocks for `work` pieces of one block each, within what the device holds at once. */
static unsigned grid_for(const struct cuda_device *device, uint64_t work)
{
    if (work < 1)
        work = 1;
    return work < grid_max(device) ? (unsigned)work : grid_max(device);
}

static int need_scratch(struct cuda_device *device, struct error *err)
{
    cu_result result;

    if (device->scratch)
        return 0;
    result = cuda()->mem_alloc(&device->scratch, grid_max(device) * RESULT_BYTES_MAX);
    if (result) {
        device->scratch = 0;
        return cuda_error(err, ERROR_INTERNAL, result, "memory for results");
    }
    return 0;
}

static int need_module(struct cuda_device *device, const struct kernel_source *source,
                       const char *const *defines, cu_module *module, struct error *err)
{
    CLEANUP_FREE void *image = NULL;
    size_t bytes;
    cu_result result;

    if (*module)
        return 0;
    if (cuda_kernels_image(source, defines, device->compute_major, device->compute_minor, &image,
                           &bytes, err) < 0)
        return -1;
    result = cuda()->module_load_data(module, image);
    if (result) {
        *module = NULL;
        return cuda_error(err, ERROR_INTERNAL, result, "loading %s", source->name);
    }
    return 0;
}

static int launch(cu_module module, const char *name, unsigned grid, void **arguments,
                  struct error *err)
{
    cu_function function;
    cu_result result = cuda()->module_get_function(&function, module, name);

    if (!result)
        result = cuda()->launch_kernel(function, grid, 1, 1, THREADS, 1, 1, 0, CU_STREAM_LEGACY,
                                       arguments, NULL);
    return result ? cuda_error(err, ERROR_INTERNAL, result, "starting kernel %s", name) : 0;
}

static int fetch(void *to, cu_address from, size_t bytes, const char *what, struct error *err)
{
    cu_result result = cuda()->memcpy_dtoh(to, from, bytes, CU_STREAM_LEGACY);

    return result ? cuda_error(err, ERROR_INTERNAL, result, "%s", what) : cuda_wait(what, err);
}

void cuda_compute_close(struct cuda_device *device)
{
    if (device->scratch)
        cuda()->mem_free(device->scratch);
    if (device->fill)
        cuda()->module_unload(device->fill);
    if (device->hash)
        cuda()->module_unload(device->hash);
    for (size_t i = 0; i < DTYPE_COUNT; i++)
        for (size_t j = 0; j < DTYPE_COUNT; j++)
            if (device->compare[i][j])
                cuda()->module_unload(device->compare[i][j]);
}

/* `struct span` of fill.cu. */
struct span {
    uint64_t start, lead, vectors, trail;
};

static struct span span_of(uint64_t start, size_t bytes)
{
    uint64_t lead = -start % VECTOR_BYTES;

    if (lead > bytes)
        lead = bytes;
    return (struct span){
        .start = start,
        .lead = lead,
        .vectors = (bytes - lead) / VECTOR_BYTES,
        .trail = (bytes - lead) % VECTOR_BYTES,
    };
}

static const char *const no_defines[] = {NULL};

static int run_fill(struct cuda_device *device, const char *name, const struct span *span,
                    void **arguments, struct error *err)
{
    if (need_module(device, &kernel_source_fill, no_defines, &device->fill, err) < 0)
        return -1;
    return launch(device->fill, name, grid_for(device, span->vectors / (THREADS * UNROLL)),
                  arguments, err);
}

int cuda_fill(struct device *base, uint64_t to, uint64_t pattern, size_t bytes, struct error *err)
{
    struct span span = span_of(to, bytes);
    void *arguments[] = {&span, &pattern};

    if (run_fill(cuda_device(base), "fill", &span, arguments, err) < 0)
        return -1;
    return cuda_wait("filling", err);
}

int cuda_check_fill(struct device *base, uint64_t from, uint64_t pattern, size_t bytes,
                    uint64_t *ret_different_bytes, uint64_t *ret_first_offset, struct error *err)
{
    struct cuda_device *device = cuda_device(base);
    struct span span = span_of(from, bytes);
    uint64_t damage[2]; /* `struct damage` of fill.cu */
    void *arguments[] = {&span, &pattern, &device->scratch};
    cu_result result;

    if (need_scratch(device, err) < 0)
        return -1;
    result = cuda()->memset_d8(device->scratch, 0, sizeof(uint64_t), CU_STREAM_LEGACY);
    if (!result)
        result = cuda()->memset_d8(device->scratch + sizeof(uint64_t), 0xff, sizeof(uint64_t),
                                   CU_STREAM_LEGACY);
    if (result)
        return cuda_error(err, ERROR_INTERNAL, result, "checking a filled range");
    if (run_fill(device, "check_fill", &span, arguments, err) < 0 ||
        fetch(damage, device->scratch, sizeof(damage), "checking a filled range", err) < 0)
        return -1;
    *ret_different_bytes = damage[0];
    if (damage[0] > 0)
        *ret_first_offset = damage[1];
    return 0;
}

int cuda_hash(struct device *base, uint64_t from, size_t bytes, uint64_t key, uint64_t ret_hash[2],
              struct error *err)
{
    struct cuda_device *device = cuda_device(base);
    uint64_t blocks = (bytes + HASH_BLOCK_BYTES - 1) / HASH_BLOCK_BYTES;
    uint64_t sums[HASH_LANES], size = bytes;
    int aligned = from % VECTOR_BYTES == 0;
    struct hash_keys keys;
    void *arguments[] = {&from, &size, &aligned, &keys, &device->scratch};
    cu_result result;

    hash_keys_derive(&keys, key);
    if (need_scratch(device, err) < 0 ||
        need_module(device, &kernel_source_hash, no_defines, &device->hash, err) < 0)
        return -1;
    result = cuda()->memset_d8(device->scratch, 0, sizeof(sums), CU_STREAM_LEGACY);
    if (result)
        return cuda_error(err, ERROR_INTERNAL, result, "hashing");
    if (launch(device->hash, "hash_units", grid_for(device, blocks / (THREADS / 32)), arguments,
               err) < 0 ||
        fetch(sums, device->scratch, sizeof(sums), "hashing", err) < 0)
        return -1;
    hash_finish(&keys, sums, bytes, ret_hash);
    return 0;
}

/* One comparison under way: the context of its passes. */
struct comparison {
    struct cuda_device *device;
    cu_module module;
    uint64_t expected, got, count;
    enum dtype expected_dtype, got_dtype;
};

/* Elements that a block takes at once, when aligned: see `tile` in compare.cu. The grid only needs
 * to be about right. */
static unsigned compare_grid(const struct comparison *comparison, size_t element_size)
{
    uint64_t tile = (uint64_t)THREADS * UNROLL * (VECTOR_BYTES / element_size);

    return grid_for(comparison->device, (comparison->count + tile - 1) / tile);
}

static int compare_energy(void *context, double scale, struct compare_energy *ret_energy,
                          struct error *err)
{
    struct comparison *comparison = context;
    unsigned grid = compare_grid(comparison, dtype_size(comparison->expected_dtype));
    int aligned = comparison->expected % VECTOR_BYTES == 0;
    CLEANUP_FREE struct compare_energy *pieces = malloc(grid * sizeof(*pieces));
    struct compare_energy total = {0};
    void *arguments[] = {&comparison->expected, &comparison->count, &aligned, &scale,
                         &comparison->device->scratch};

    if (!pieces)
        return error_set(err, ERROR_INTERNAL, "comparing: out of memory");
    if (launch(comparison->module, "compare_energy", grid, arguments, err) < 0 ||
        fetch(pieces, comparison->device->scratch, grid * sizeof(*pieces), "comparing", err) < 0)
        return -1;
    for (unsigned i = 0; i < grid; i++)
        compare_energy_merge(&total, &pieces[i]);
    *ret_energy = total;
    return 0;
}

static int compare_difference(void *context, double scale, double sigma,
                              struct compare_partial *ret_partial, struct error *err)
{
    struct comparison *comparison = context;
    size_t expected_size = dtype_size(comparison->expected_dtype);
    size_t got_size = dtype_size(comparison->got_dtype);
    unsigned grid = compare_grid(comparison, expected_size > got_size ? expected_size : got_size);
    int aligned = (comparison->expected | comparison->got) % VECTOR_BYTES == 0;
    CLEANUP_FREE struct compare_partial *pieces = malloc(grid * sizeof(*pieces));
    struct compare_partial total = COMPARE_PARTIAL_INIT;
    void *arguments[] = {
        &comparison->expected,       &comparison->got, &comparison->count, &aligned, &scale, &sigma,
        &comparison->device->scratch};

    if (!pieces)
        return error_set(err, ERROR_INTERNAL, "comparing: out of memory");
    if (launch(comparison->module, "compare_difference", grid, arguments, err) < 0 ||
        fetch(pieces, comparison->device->scratch, grid * sizeof(*pieces), "comparing", err) < 0)
        return -1;
    for (unsigned i = 0; i < grid; i++)
        compare_partial_merge(&total, &pieces[i]);
    *ret_partial = total;
    return 0;
}

static int compare_element(void *context, bool got, uint64_t index, double *ret_value,
                           struct error *err)
{
    struct comparison *comparison = context;
    enum dtype dtype = got ? comparison->got_dtype : comparison->expected_dtype;
    uint64_t address = got ? comparison->got : comparison->expected;
    uint64_t element = 0;

    if (fetch(&element, address + index * dtype_size(dtype), dtype_size(dtype), "comparing", err) <
        0)
        return -1;
    *ret_value = decode_double(dtype, &element);
    return 0;
}

int cuda_compare(struct device *base, uint64_t expected, enum dtype expected_dtype, uint64_t got,
                 enum dtype got_dtype, uint64_t count, struct compare_result *ret_result,
                 struct error *err)
{
    static const struct compare_passes passes = {compare_energy, compare_difference,
                                                 compare_element};
    struct cuda_device *device = cuda_device(base);
    struct comparison comparison = {
        .device = device,
        .expected = expected,
        .got = got,
        .count = count,
        .expected_dtype = expected_dtype,
        .got_dtype = got_dtype,
    };
    char define_expected[48], define_got[48];
    const char *const defines[] = {define_expected, define_got, NULL};
    cu_module *module;

    if (compare_check(expected, expected_dtype, got, got_dtype, count, err) < 0)
        return -1;
    snprintf(define_expected, sizeof(define_expected), "EXPECTED=of_%s",
             dtype_name(expected_dtype));
    snprintf(define_got, sizeof(define_got), "GOT=of_%s", dtype_name(got_dtype));
    module = &device->compare[expected_dtype][got_dtype];
    if (need_scratch(device, err) < 0 ||
        need_module(device, &kernel_source_compare, defines, module, err) < 0)
        return -1;
    comparison.module = *module;
    return compare_run(&passes, &comparison, expected_dtype, count, ret_result, err);
}
