/*
 * The keyed hash of device memory, defined so that any number of threads can compute it in any
 * order with the same result on every device.
 *
 * The bytes are cut into blocks of 8 KiB, the last one padded with zeros: 16 rows of 64 little-
 * endian words of 64 bits. A *unit* is one column of a block, and units are numbered through all
 * blocks. For each of two lanes, with 16 secret row keys each, a unit yields
 *
 *     a = sum over rows of (low(w) + low(k)) * (high(w) + high(k))      modulo 2^64
 *
 * where the inner sums are modulo 2^32. This is NH (Black et al., "UMAC", 1999): two different
 * units agree in one lane with probability 2^-32 over the keys, in both with 2^-64. The unit's
 * value is mixed with its number and the lane's seed, and the lane's hash is the sum over units,
 * which is why order does not matter; at the end the length in bytes is mixed in. The cost is two
 * 32-bit additions and one multiplication per word and lane, little enough that a GPU stays bound
 * by its memory.
 */
#ifndef KBV_DEVICE_HASH_H
#define KBV_DEVICE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_ROWS        16
#define HASH_COLUMNS     64
#define HASH_LANES       2
#define HASH_BLOCK_BYTES ((size_t)HASH_ROWS * HASH_COLUMNS * 8)

/* Everything that is derived from the key. Passed by value to the kernel: the same layout there. */
struct hash_keys {
    uint64_t row[HASH_LANES][HASH_ROWS];
    uint64_t seed[HASH_LANES];
};

void hash_keys_derive(struct hash_keys *keys, uint64_t key);

/* From the sums over all units to the hash. */
void hash_finish(const struct hash_keys *keys, const uint64_t sums[HASH_LANES], uint64_t bytes,
                 uint64_t ret_hash[HASH_LANES]);

/* The whole hash of host memory, on a few threads where there is much of it. */
void hash_host(const void *from, size_t bytes, uint64_t key, uint64_t ret_hash[HASH_LANES]);

#endif
