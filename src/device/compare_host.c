/*
 * Pieces of the tensors go to threads, runs of 512 elements of a piece through float64 (or int64)
 * buffers that stay in the first cache. Non-finite elements are rare: a run that has any is looked
 * at element by element and the elements put to 0; then all runs go through the same loop without
 * branches, in the compiler's vector types. Eight running sums are kept, in four vectors of two:
 * that hides the latency of additions, and is fixed, so that every machine adds in the same order.
 */
#include "device/compare_host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "device/compare.h"
#include "device/decode.h"
#include "device/parallel.h"

#define RUN        512
#define LANES      8 /* independent sums: the order of additions is part of the result */
#define PIECE_MIN  ((uint64_t)1 << 17)
#define PIECES_MAX 4096

typedef double vector __attribute__((vector_size(16)));
typedef int64_t vector_mask __attribute__((vector_size(16))); /* -1 is true */

#define VECTORS (LANES / 2)

/* Without the sign; where the mask is true, else 0; b where it is greater, else a (so that NaN in b
 * leaves a). */
static inline vector absolute(vector x)
{
    return (vector)((vector_mask)x & INT64_MAX);
}

static inline vector where(vector_mask mask, vector x)
{
    return (vector)((vector_mask)x & mask);
}

static inline vector greater(vector a, vector b)
{
    vector_mask mask = b > a;

    return (vector)(((vector_mask)b & mask) | ((vector_mask)a & ~mask));
}

struct tensors {
    const unsigned char *expected, *got;
    enum dtype expected_dtype, got_dtype;
    size_t expected_size, got_size; /* of an element */
    uint64_t count, piece_count;    /* elements, and elements of a piece */
    double scale, sigma;
    struct compare_energy *energies;  /* one for each piece, in the first pass */
    struct compare_partial *partials; /* in the second */
};

static uint64_t piece_elements(uint64_t count)
{
    uint64_t piece = (count + PIECES_MAX - 1) / PIECES_MAX;

    if (piece < PIECE_MIN)
        piece = PIECE_MIN;
    return (piece + RUN - 1) / RUN * RUN;
}

static size_t piece_number(const struct tensors *tensors)
{
    return (size_t)((tensors->count + tensors->piece_count - 1) / tensors->piece_count);
}

/* Elements of the run that starts at `start`, in the piece that ends at `end`. */
static size_t run_length(uint64_t start, uint64_t end)
{
    return end - start < RUN ? (size_t)(end - start) : RUN;
}

static uint64_t piece_end(const struct tensors *tensors, size_t index)
{
    uint64_t end = (uint64_t)(index + 1) * tensors->piece_count;

    return end < tensors->count ? end : tensors->count;
}

/* Pads to whole lanes with zeros, which change no sum; returns how many vectors that makes. */
static size_t load(enum dtype dtype, const unsigned char *from, size_t count, double *to)
{
    decode_doubles(dtype, from, count, to);
    for (; count % LANES; count++)
        to[count] = 0;
    return count / 2;
}

static double sum_of(const vector x[VECTORS])
{
    vector sum = (x[0] + x[2]) + (x[1] + x[3]);

    return sum[0] + sum[1];
}

static double largest_of(const vector x[VECTORS])
{
    vector largest = greater(greater(x[0], x[1]), greater(x[2], x[3]));

    return fmax(largest[0], largest[1]);
}

/* x - x is 0 exactly where x is finite, else NaN. */
static bool all_finite(const vector *x, size_t vectors)
{
    vector sums[VECTORS] = {0};

    for (size_t i = 0; i < vectors; i += VECTORS)
        for (size_t k = 0; k < VECTORS; k++)
            sums[k] += x[i + k] - x[i + k];
    return sum_of(sums) == 0;
}

/* A run of elements, one by one and by vectors. */
union run {
    double x[RUN];
    vector v[RUN / 2];
};

static void energy_piece(void *context, size_t index)
{
    const struct tensors *tensors = context;
    struct compare_energy energy = {0};
    vector squares[VECTORS] = {0}, largest[VECTORS] = {0};
    uint64_t end = piece_end(tensors, index);
    union run e;
    size_t count, vectors;

    for (uint64_t start = index * tensors->piece_count; start < end; start += count) {
        count = run_length(start, end);
        vectors = load(tensors->expected_dtype, tensors->expected + start * tensors->expected_size,
                       count, e.x);
        if (!all_finite(e.v, vectors)) {
            for (size_t i = 0; i < count; i++) {
                if (!isfinite(e.x[i])) {
                    energy.nonfinite++;
                    e.x[i] = 0;
                }
            }
        }
        for (size_t i = 0; i < vectors; i += VECTORS) {
            for (size_t k = 0; k < VECTORS; k++) {
                vector scaled = e.v[i + k] * tensors->scale;

                squares[k] += scaled * scaled;
                largest[k] = greater(largest[k], absolute(e.v[i + k]));
            }
        }
    }
    energy.squares = sum_of(squares);
    energy.largest = largest_of(largest);
    tensors->energies[index] = energy;
}

static void note_mask(struct compare_partial *partial, uint64_t index)
{
    if (partial->mask_mismatches++ == 0)
        partial->first_mask_mismatch = index;
}

static void note_mismatch(struct compare_partial *partial, uint64_t index)
{
    if (partial->mismatches++ == 0)
        partial->first_mismatch = index;
}

/* Counts non-finite elements of both runs and makes their difference 0. */
static void take_out_nonfinite(struct compare_partial *partial, double *e, double *g, size_t count,
                               uint64_t start)
{
    for (size_t i = 0; i < count; i++) {
        bool same;

        if (isfinite(e[i]) && isfinite(g[i]))
            continue;
        same = (isnan(e[i]) && isnan(g[i])) || e[i] == g[i];
        partial->nonfinite_got += !isfinite(g[i]);
        if (!same)
            note_mask(partial, start + i);
        e[i] = g[i] = 0;
    }
}

/* Adds the differences of a run to the sums; stores the elements' ratios and returns the largest.
 */
static double difference_run(const struct tensors *tensors, const vector *e, const vector *g,
                             size_t vectors, vector *ratio, vector differences[VECTORS],
                             vector squares[VECTORS])
{
    vector worst[VECTORS] = {0};

    for (size_t i = 0; i < vectors; i += VECTORS) {
        for (size_t k = 0; k < VECTORS; k++) {
            vector d = g[i + k] - e[i + k], size = absolute(d);
            vector scaled = d * tensors->scale, whole = e[i + k] * tensors->scale;
            vector quotient = size / (absolute(e[i + k]) + tensors->sigma);

            ratio[i + k] = where(size != 0, quotient); /* 0 / 0 is 0 here */
            worst[k] = greater(worst[k], ratio[i + k]);
            differences[k] += scaled * scaled;
            squares[k] += whole * whole;
        }
    }
    return largest_of(worst);
}

static void difference_piece(void *context, size_t index)
{
    const struct tensors *tensors = context;
    struct compare_partial partial = COMPARE_PARTIAL_INIT;
    vector differences[VECTORS] = {0}, squares[VECTORS] = {0};
    uint64_t end = piece_end(tensors, index);
    union run e, g, ratio;
    size_t count, vectors;
    double worst;

    for (uint64_t start = index * tensors->piece_count; start < end; start += count) {
        count = run_length(start, end);
        load(tensors->expected_dtype, tensors->expected + start * tensors->expected_size, count,
             e.x);
        vectors = load(tensors->got_dtype, tensors->got + start * tensors->got_size, count, g.x);
        if (!all_finite(e.v, vectors) || !all_finite(g.v, vectors))
            take_out_nonfinite(&partial, e.x, g.x, count, start);
        worst = difference_run(tensors, e.v, g.v, vectors, ratio.v, differences, squares);
        if (worst > partial.worst_ratio) {
            size_t i = 0;

            while (ratio.x[i] != worst)
                i++;
            partial.worst_ratio = worst;
            partial.worst_index = start + i;
        }
    }
    partial.difference_squares = sum_of(differences);
    partial.expected_squares = sum_of(squares);
    tensors->partials[index] = partial;
}

static void integer_piece(void *context, size_t index)
{
    const struct tensors *tensors = context;
    struct compare_partial partial = COMPARE_PARTIAL_INIT;
    int64_t e[RUN], g[RUN];
    uint64_t end = piece_end(tensors, index);
    size_t count;

    for (uint64_t start = index * tensors->piece_count; start < end; start += count) {
        int64_t different = 0;

        count = run_length(start, end);
        decode_integers(tensors->expected_dtype, tensors->expected + start * tensors->expected_size,
                        count, e);
        decode_integers(tensors->got_dtype, tensors->got + start * tensors->got_size, count, g);
        for (size_t i = 0; i < count; i++)
            different |= e[i] ^ g[i];
        for (size_t i = 0; different && i < count; i++)
            if (e[i] != g[i])
                note_mismatch(&partial, start + i);
    }
    tensors->partials[index] = partial;
}

/* Integers expected, floating numbers got: equal only where the number is that very integer. */
static void mixed_piece(void *context, size_t index)
{
    const struct tensors *tensors = context;
    struct compare_partial partial = COMPARE_PARTIAL_INIT;
    int64_t e[RUN];
    double g[RUN];
    uint64_t end = piece_end(tensors, index);
    size_t count;

    for (uint64_t start = index * tensors->piece_count; start < end; start += count) {
        count = run_length(start, end);
        decode_integers(tensors->expected_dtype, tensors->expected + start * tensors->expected_size,
                        count, e);
        decode_doubles(tensors->got_dtype, tensors->got + start * tensors->got_size, count, g);
        for (size_t i = 0; i < count; i++) {
            bool in_range = g[i] >= -0x1p63 && g[i] < 0x1p63;

            partial.nonfinite_got += !isfinite(g[i]);
            if (!in_range || g[i] != trunc(g[i]) || (int64_t)g[i] != e[i])
                note_mismatch(&partial, start + i);
        }
    }
    tensors->partials[index] = partial;
}

static bool is_wide(const struct tensors *tensors)
{
    return tensors->count * (tensors->expected_size + tensors->got_size) > PARALLEL_FROM_BYTES;
}

static int host_energy(void *context, double scale, struct compare_energy *ret_energy,
                       struct error *err)
{
    struct tensors *tensors = context;
    size_t pieces = piece_number(tensors);
    CLEANUP_FREE struct compare_energy *energies = calloc(pieces, sizeof(*energies));
    struct compare_energy total = {0};

    if (!energies)
        return error_set(err, ERROR_INTERNAL, "compare: out of memory");
    tensors->energies = energies;
    tensors->scale = scale;
    parallel_run(pieces, is_wide(tensors), energy_piece, tensors);
    for (size_t i = 0; i < pieces; i++)
        compare_energy_merge(&total, &energies[i]);
    *ret_energy = total;
    return 0;
}

static int host_difference(void *context, double scale, double sigma,
                           struct compare_partial *ret_partial, struct error *err)
{
    struct tensors *tensors = context;
    size_t pieces = piece_number(tensors);
    CLEANUP_FREE struct compare_partial *partials = calloc(pieces, sizeof(*partials));
    struct compare_partial total = COMPARE_PARTIAL_INIT;
    void (*piece)(void *, size_t) = dtype_is_floating(tensors->expected_dtype) ? difference_piece
                                    : dtype_is_floating(tensors->got_dtype)    ? mixed_piece
                                                                               : integer_piece;

    if (!partials)
        return error_set(err, ERROR_INTERNAL, "compare: out of memory");
    tensors->partials = partials;
    tensors->scale = scale;
    tensors->sigma = sigma;
    parallel_run(pieces, is_wide(tensors), piece, tensors);
    for (size_t i = 0; i < pieces; i++)
        compare_partial_merge(&total, &partials[i]);
    *ret_partial = total;
    return 0;
}

static int host_element(void *context, bool got, uint64_t index, double *ret_value,
                        struct error *err)
{
    const struct tensors *tensors = context;

    *ret_value = got ? decode_double(tensors->got_dtype, tensors->got + index * tensors->got_size)
                     : decode_double(tensors->expected_dtype,
                                     tensors->expected + index * tensors->expected_size);
    return 0;
}

int compare_host(const void *expected, enum dtype expected_dtype, const void *got,
                 enum dtype got_dtype, uint64_t count, struct compare_result *ret_result,
                 struct error *err)
{
    static const struct compare_passes passes = {host_energy, host_difference, host_element};
    struct tensors tensors = {
        .expected = expected,
        .got = got,
        .expected_dtype = expected_dtype,
        .got_dtype = got_dtype,
        .count = count,
        .piece_count = piece_elements(count),
    };

    if (compare_check((uintptr_t)expected, expected_dtype, (uintptr_t)got, got_dtype, count, err) <
        0)
        return -1;
    tensors.expected_size = dtype_size(expected_dtype);
    tensors.got_size = dtype_size(got_dtype);
    return compare_run(&passes, &tensors, expected_dtype, count, ret_result, err);
}
