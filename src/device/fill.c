#include "device/fill.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "device/parallel.h"

#define PIECE_BYTES ((size_t)1 << 20)
#define CHUNK_WORDS 512

struct job {
    unsigned char *to;         /* fill */
    const unsigned char *from; /* check */
    size_t bytes;
    uint64_t pattern; /* rotated so that its first byte belongs to the first byte of the range */
    _Atomic uint64_t different;
    _Atomic uint64_t first;
};

/* Pieces start at multiples of 8 from the range's start, so one rotation serves them all. */
static uint64_t in_phase(const void *start, uint64_t pattern)
{
    unsigned shift = (unsigned)((uintptr_t)start & 7) * 8;

    return shift ? pattern >> shift | pattern << (64 - shift) : pattern;
}

static size_t piece_bytes(const struct job *job, size_t index)
{
    size_t left = job->bytes - index * PIECE_BYTES;

    return left < PIECE_BYTES ? left : PIECE_BYTES;
}

static size_t piece_count(size_t bytes)
{
    return (bytes + PIECE_BYTES - 1) / PIECE_BYTES;
}

static void fill_piece(void *context, size_t index)
{
    const struct job *job = context;
    unsigned char *to = job->to + index * PIECE_BYTES;
    size_t bytes = piece_bytes(job, index);
    size_t done = 0;

    for (; done + 8 <= bytes; done += 8)
        memcpy(to + done, &job->pattern, 8);
    memcpy(to + done, &job->pattern, bytes - done);
}

void fill_host(void *to, uint64_t pattern, size_t bytes)
{
    struct job job = {.to = to, .bytes = bytes, .pattern = in_phase(to, pattern)};

    parallel_run(piece_count(bytes), bytes > PARALLEL_FROM_BYTES, fill_piece, &job);
}

static bool chunk_is_filled(const unsigned char *from, uint64_t pattern)
{
    uint64_t words[CHUNK_WORDS], different = 0;

    memcpy(words, from, sizeof(words));
    for (size_t i = 0; i < CHUNK_WORDS; i++)
        different |= words[i] ^ pattern;
    return different == 0;
}

static void check_piece(void *context, size_t index)
{
    struct job *job = context;
    size_t start = index * PIECE_BYTES, bytes = piece_bytes(job, index);
    const unsigned char *from = job->from + start;
    uint64_t different = 0, first = UINT64_MAX, lowest;
    size_t done = 0;

    while (done < bytes) {
        size_t chunk = sizeof(uint64_t) * CHUNK_WORDS;

        if (bytes - done < chunk)
            chunk = bytes - done;
        else if (chunk_is_filled(from + done, job->pattern)) {
            done += chunk;
            continue;
        }
        for (size_t end = done + chunk; done < end; done++) {
            if (from[done] != (unsigned char)(job->pattern >> done % 8 * 8)) {
                if (different++ == 0)
                    first = start + done;
            }
        }
    }
    if (different == 0)
        return;
    atomic_fetch_add(&job->different, different);
    lowest = atomic_load(&job->first);
    while (first < lowest && !atomic_compare_exchange_weak(&job->first, &lowest, first))
        ;
}

uint64_t fill_host_check(const void *from, uint64_t pattern, size_t bytes,
                         uint64_t *ret_first_offset)
{
    struct job job = {.from = from, .bytes = bytes, .pattern = in_phase(from, pattern)};
    uint64_t different;

    atomic_init(&job.first, UINT64_MAX);
    parallel_run(piece_count(bytes), bytes > PARALLEL_FROM_BYTES, check_piece, &job);
    different = atomic_load(&job.different);
    if (different > 0)
        *ret_first_offset = atomic_load(&job.first);
    return different;
}
