#include "base/secret.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define SEED_MASK ((UINT64_C(1) << 53) - 1)

static void ready(void)
{
    /* Idempotent; fails only where the system has no source of randomness. */
    if (sodium_init() < 0)
        abort();
}

uint64_t secret_seed(void)
{
    uint64_t seed;

    ready();
    randombytes_buf(&seed, sizeof(seed));
    return seed & SEED_MASK;
}

uint64_t secret_derive(uint64_t seed, const char *label, uint64_t index)
{
    crypto_generichash_state state;
    uint64_t result;
    unsigned char digest[32];

    ready();
    crypto_generichash_init(&state, (const unsigned char *)&seed, 0, sizeof(digest));
    crypto_generichash_update(&state, (const unsigned char *)"kbv seed", 8);
    crypto_generichash_update(&state, (const unsigned char *)&seed, sizeof(seed));
    crypto_generichash_update(&state, (const unsigned char *)&index, sizeof(index));
    crypto_generichash_update(&state, (const unsigned char *)label, strlen(label));
    crypto_generichash_final(&state, digest, sizeof(digest));
    memcpy(&result, digest, sizeof(result));
    return result & SEED_MASK;
}

void hash_pieces_hex(const struct hash_piece *pieces, size_t count, char ret_hex[HASH_HEX_BYTES])
{
    crypto_generichash_state state;
    unsigned char digest[32];

    ready();
    crypto_generichash_init(&state, NULL, 0, sizeof(digest));
    for (size_t i = 0; i < count; i++) {
        uint64_t length = pieces[i].length;

        crypto_generichash_update(&state, (const unsigned char *)&length, sizeof(length));
        crypto_generichash_update(&state, pieces[i].bytes, pieces[i].length);
    }
    crypto_generichash_final(&state, digest, sizeof(digest));
    sodium_bin2hex(ret_hex, HASH_HEX_BYTES, digest, sizeof(digest));
}

void hash_hex(const void *bytes, size_t length, char ret_hex[HASH_HEX_BYTES])
{
    unsigned char digest[32];

    ready();
    crypto_generichash(digest, sizeof(digest), bytes, length, NULL, 0);
    sodium_bin2hex(ret_hex, HASH_HEX_BYTES, digest, sizeof(digest));
}
