#include "device/hash.h"

#include <stdatomic.h>
#include <string.h>

#include "device/parallel.h"

#define GOLDEN      0x9e3779b97f4a7c15u /* 2^64 / golden ratio, odd */
#define PIECE_BYTES (HASH_BLOCK_BYTES * 256)

struct job {
    const unsigned char *from;
    size_t bytes;
    struct hash_keys keys;
    _Atomic uint64_t sums[HASH_LANES];
};

/* A bijection of 64 bits in which every input bit flips each output bit about half of the time;
 * the finaliser of SplitMix (Steele, Lea, Flood 2014). */
static inline uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void hash_keys_derive(struct hash_keys *keys, uint64_t key)
{
    uint64_t state = key;

    for (size_t lane = 0; lane < HASH_LANES; lane++) {
        for (size_t row = 0; row < HASH_ROWS; row++)
            keys->row[lane][row] = mix(state += GOLDEN);
        keys->seed[lane] = mix(state += GOLDEN);
    }
}

static void hash_block(const struct hash_keys *keys, const unsigned char *block, uint64_t unit,
                       uint64_t sums[HASH_LANES])
{
    for (size_t lane = 0; lane < HASH_LANES; lane++) {
        uint64_t column_sums[HASH_COLUMNS] = {0};

        for (size_t row = 0; row < HASH_ROWS; row++) {
            uint32_t low_key = (uint32_t)keys->row[lane][row];
            uint32_t high_key = (uint32_t)(keys->row[lane][row] >> 32);
            uint64_t words[HASH_COLUMNS];

            memcpy(words, block + row * sizeof(words), sizeof(words));
            for (size_t column = 0; column < HASH_COLUMNS; column++) {
                uint32_t low = (uint32_t)words[column] + low_key;
                uint32_t high = (uint32_t)(words[column] >> 32) + high_key;

                column_sums[column] += (uint64_t)low * high;
            }
        }
        for (size_t column = 0; column < HASH_COLUMNS; column++)
            sums[lane] += mix(column_sums[column] ^ (keys->seed[lane] + (unit + column) * GOLDEN));
    }
}

static void hash_piece(void *context, size_t index)
{
    struct job *job = context;
    size_t start = index * PIECE_BYTES;
    size_t end = job->bytes - start < PIECE_BYTES ? job->bytes : start + PIECE_BYTES;
    uint64_t sums[HASH_LANES] = {0};

    for (; start < end; start += HASH_BLOCK_BYTES) {
        uint64_t unit = (uint64_t)(start / HASH_BLOCK_BYTES) * HASH_COLUMNS;

        if (end - start >= HASH_BLOCK_BYTES) {
            hash_block(&job->keys, job->from + start, unit, sums);
        } else {
            unsigned char last[HASH_BLOCK_BYTES] = {0};

            memcpy(last, job->from + start, end - start);
            hash_block(&job->keys, last, unit, sums);
            break;
        }
    }
    for (size_t lane = 0; lane < HASH_LANES; lane++)
        atomic_fetch_add(&job->sums[lane], sums[lane]);
}

void hash_finish(const struct hash_keys *keys, const uint64_t sums[HASH_LANES], uint64_t bytes,
                 uint64_t ret_hash[HASH_LANES])
{
    uint64_t first = mix(sums[0] ^ mix(bytes + keys->seed[0]));
    uint64_t second = mix(sums[1] ^ mix(bytes + keys->seed[1]) ^ first);

    ret_hash[0] = first;
    ret_hash[1] = second;
}

void hash_host(const void *from, size_t bytes, uint64_t key, uint64_t ret_hash[HASH_LANES])
{
    struct job job = {.from = from, .bytes = bytes};
    uint64_t sums[HASH_LANES];

    hash_keys_derive(&job.keys, key);
    parallel_run((bytes + PIECE_BYTES - 1) / PIECE_BYTES, bytes > PARALLEL_FROM_BYTES, hash_piece,
                 &job);
    for (size_t lane = 0; lane < HASH_LANES; lane++)
        sums[lane] = atomic_load(&job.sums[lane]);
    hash_finish(&job.keys, sums, bytes, ret_hash);
}
