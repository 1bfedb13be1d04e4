// fill() and check_fill(). Byte at address a holds byte (a mod 8) of the pattern, so whole 8-byte
// words at aligned addresses hold the pattern itself; only the ends of a range need bytes.
//
// Launched as any number of blocks of 256 threads. `lead` bytes come before the first address that
// is a multiple of 16, then `vectors` of 16 bytes, then `trail` bytes.

typedef unsigned char byte;
typedef unsigned long long word;

constexpr int threads = 256;
constexpr int unroll = 4;  // independent loads or stores of each thread

struct span {
    byte *start;
    word lead, vectors, trail;
};

__device__ static byte byte_of(word pattern, const byte *address)
{
    return byte(pattern >> (word(address) & 7) * 8);
}

// The i-th byte outside the vectors.
__device__ static byte *odd_byte(const span &range, word i)
{
    return i < range.lead ? range.start + i : range.start + i + range.vectors * 16;
}

__device__ static uint4 vector_of(word pattern)
{
    unsigned low = unsigned(pattern), high = unsigned(pattern >> 32);

    return make_uint4(low, high, low, high);
}

extern "C" __global__ void __launch_bounds__(threads) fill(span range, word pattern)
{
    uint4 *to = reinterpret_cast<uint4 *>(range.start + range.lead);
    word step = word(gridDim.x) * threads;
    word i = word(blockIdx.x) * threads + threadIdx.x;
    uint4 value = vector_of(pattern);

    if (blockIdx.x == 0 && threadIdx.x < range.lead + range.trail) {
        byte *at = odd_byte(range, threadIdx.x);

        *at = byte_of(pattern, at);
    }
    for (; i + (unroll - 1) * step < range.vectors; i += unroll * step) {
#pragma unroll
        for (int u = 0; u < unroll; u++)
            to[i + u * step] = value;
    }
    for (; i < range.vectors; i += step)
        to[i] = value;
}

struct damage {
    word different, first;
};

__device__ static void note(damage &found, word offset)
{
    found.different++;
    found.first = min(found.first, offset);
}

__device__ static void check_vector(damage &found, const span &range, uint4 got, uint4 wanted,
                                    word index)
{
    unsigned differences[4] = {got.x ^ wanted.x, got.y ^ wanted.y, got.z ^ wanted.z,
                               got.w ^ wanted.w};

    if ((differences[0] | differences[1] | differences[2] | differences[3]) == 0)
        return;
    for (int i = 0; i < 16; i++)
        if (differences[i / 4] >> i % 4 * 8 & 0xff)
            note(found, range.lead + index * 16 + i);
}

// `result` holds {0, all ones} before the launch.
extern "C" __global__ void __launch_bounds__(threads)
    check_fill(span range, word pattern, damage *result)
{
    const uint4 *from = reinterpret_cast<const uint4 *>(range.start + range.lead);
    word step = word(gridDim.x) * threads;
    word i = word(blockIdx.x) * threads + threadIdx.x;
    uint4 wanted = vector_of(pattern);
    damage found = {0, ~0ull};

    if (blockIdx.x == 0 && threadIdx.x < range.lead + range.trail) {
        const byte *at = odd_byte(range, threadIdx.x);

        if (*at != byte_of(pattern, at))
            note(found, at - range.start);
    }
    for (; i + (unroll - 1) * step < range.vectors; i += unroll * step) {
        uint4 got[unroll];

#pragma unroll
        for (int u = 0; u < unroll; u++)
            got[u] = __ldcs(from + i + u * step);
#pragma unroll
        for (int u = 0; u < unroll; u++)
            check_vector(found, range, got[u], wanted, i + u * step);
    }
    for (; i < range.vectors; i += step)
        check_vector(found, range, __ldcs(from + i), wanted, i);

    // Damage is rare: most threads have nothing to add.
    if (found.different) {
        atomicAdd(&result->different, found.different);
        atomicMin(&result->first, found.first);
    }
}
