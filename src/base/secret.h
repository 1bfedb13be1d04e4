/* Randomness that nobody can guess, and names made of content; both from libsodium. */
#ifndef KBV_BASE_SECRET_H
#define KBV_BASE_SECRET_H

#include <stddef.h>
#include <stdint.h>

#define HASH_HEX_BYTES 65 /* 64 hex digits and a NUL */

/* A seed that fits into the integers of every JSON reader: uniform in [0, 2^53). */
uint64_t secret_seed(void);

/*
 * Seed number `index` of the purpose named `label`, derived from `seed` (keyed BLAKE2b): the same
 * inputs give the same number, and none tells anything of another. Below 2^53.
 */
uint64_t secret_derive(uint64_t seed, const char *label, uint64_t index);

/* BLAKE2b-256 of `length` bytes as lower-case hex. */
void hash_hex(const void *bytes, size_t length, char ret_hex[HASH_HEX_BYTES]);

/* The same of several pieces, each with its length in front, so that their borders count. */
struct hash_piece {
    const void *bytes;
    size_t length;
};
void hash_pieces_hex(const struct hash_piece *pieces, size_t count, char ret_hex[HASH_HEX_BYTES]);

#endif
