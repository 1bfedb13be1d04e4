#include "stats/stats.h"

#include <assert.h>

static uint64_t rotate_left(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

/* splitmix64: turns any seed, 0 included, into a state that is not all zeros. */
static uint64_t mix(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;

    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

void stats_random_seed(struct stats_random *random, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        random->state[i] = mix(&seed);
}

uint64_t stats_random_next(struct stats_random *random)
{
    uint64_t *s = random->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t shifted = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate_left(s[3], 45);
    return result;
}

/*
 * The high half of a 128-bit product maps 64 random bits onto [0, bound); rejecting the first
 * 2^64 mod bound values of the low half makes it exact (Lemire 2019, arXiv 1805.10941).
 */
uint64_t stats_random_below(struct stats_random *random, uint64_t bound)
{
    unsigned __int128 product;

    assert(bound > 0);
    product = (unsigned __int128)stats_random_next(random) * bound;
    if ((uint64_t)product < bound) {
        uint64_t rejected = (0 - bound) % bound;

        while ((uint64_t)product < rejected)
            product = (unsigned __int128)stats_random_next(random) * bound;
    }
    return (uint64_t)(product >> 64);
}
