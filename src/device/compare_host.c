/*
 * Pieces of the tensors go to threads, runs of 512 elements of a piece through float64 (or int64)
 * buffers that stay in the first cache. Nearly every run has only finite elements: for those the
 * loops are free of branches, so that they vectorise; other runs are looked at one by one.
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

/* Pads to whole lanes with zeros, which change no sum. */
static void load(enum dtype dtype, const unsigned char *from, size_t count, double *to)
{
    decode_doubles(dtype, from, count, to);
    for (; count % LANES; count++)
        to[count] = 0;
}

static double sum_lanes(const double *lanes)
{
    return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
           ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

/* x - x is 0 exactly where x is finite, else NaN. */
static bool all_finite(const double *x, size_t count)
{
    double lanes[LANES] = {0};

    for (size_t i = 0; i < count; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            lanes[lane] += x[i + lane] - x[i + lane];
    return sum_lanes(lanes) == 0;
}

static void energy_piece(void *context, size_t index)
{
    const struct tensors *tensors = context;
    struct compare_energy energy = {0};
    double squares[LANES] = {0}, largest[LANES] = {0}, e[RUN];
    uint64_t end = piece_end(tensors, index);
    size_t count;

    for (uint64_t start = index * tensors->piece_count; start < end; start += count) {
        count = run_length(start, end);
        load(tensors->expected_dtype, tensors->expected + start * tensors->expected_size, count, e);
        if (!all_finite(e, count)) {
            for (size_t i = 0; i < count; i++) {
                if (!isfinite(e[i])) {
                    energy.nonfinite++;
                    e[i] = 0;
                }
            }
        }
        for (size_t i = 0; i < count; i += LANES) {
            for (size_t lane = 0; lane < LANES; lane++) {
                double x = e[i + lane] * tensors->scale;
                double size = fabs(e[i + lane]);

                squares[lane] += x * x;
                largest[lane] = size > largest[lane] ? size : largest[lane];
            }
        }
    }
    energy.squares = sum_lanes(squares);
    for (size_t lane = 0; lane < LANES; lane++)
        energy.largest = fmax(energy.largest, largest[lane]);
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

static void difference_piece(void *context, size_t index)
{
    const struct tensors *tensors = context;
    struct compare_partial partial = COMPARE_PARTIAL_INIT;
    double differences[LANES] = {0}, squares[LANES] = {0};
    double e[RUN], g[RUN], ratio[RUN];
    double scale = tensors->scale, sigma = tensors->sigma;
    uint64_t end = piece_end(tensors, index);
    size_t count;

    for (uint64_t start = index * tensors->piece_count; start < end; start += count) {
        double worst[LANES] = {0}, worst_of_run = 0;

        count = run_length(start, end);
        load(tensors->expected_dtype, tensors->expected + start * tensors->expected_size, count, e);
        load(tensors->got_dtype, tensors->got + start * tensors->got_size, count, g);
        if (!all_finite(e, count) || !all_finite(g, count))
            take_out_nonfinite(&partial, e, g, count, start);

        for (size_t i = 0; i < count; i += LANES) {
            for (size_t lane = 0; lane < LANES; lane++) {
                double d = g[i + lane] - e[i + lane];
                double size = fabs(d), x = d * scale, y = e[i + lane] * scale;
                double quotient = size / (fabs(e[i + lane]) + sigma);

                quotient = size == 0 ? 0 : quotient;
                ratio[i + lane] = quotient;
                worst[lane] = quotient > worst[lane] ? quotient : worst[lane];
                differences[lane] += x * x;
                squares[lane] += y * y;
            }
        }
        for (size_t lane = 0; lane < LANES; lane++)
            worst_of_run = fmax(worst_of_run, worst[lane]);
        if (worst_of_run > partial.worst_ratio) {
            size_t i = 0;

            while (ratio[i] != worst_of_run)
                i++;
            partial.worst_ratio = worst_of_run;
            partial.worst_index = start + i;
        }
    }
    partial.difference_squares = sum_lanes(differences);
    partial.expected_squares = sum_lanes(squares);
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
