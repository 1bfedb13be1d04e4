// Sums of units for hash(); device/hash.h defines what a unit is and what is done with the sums.
//
// A warp takes a block of 8 KiB at a time. A row is 512 bytes, so each of 32 threads reads 16 bytes
// of it: two columns, whose units the thread keeps to itself. Nothing is exchanged between threads
// until the end.

typedef unsigned char byte;
typedef unsigned long long word;

constexpr int threads = 256;
constexpr int rows = 16;
constexpr int columns = 64;
constexpr int lanes = 2;
constexpr word block_bytes = rows * columns * 8;
constexpr word golden = 0x9e3779b97f4a7c15ull;

struct keys {
    word row[lanes][rows];
    word seed[lanes];
};

struct words {
    word first, second;
};

__device__ static word mix(word x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

__device__ static word product(word data, word key)
{
    return word(unsigned(data) + unsigned(key)) *
           (unsigned(data >> 32) + unsigned(key >> 32));
}

struct aligned_reader {
    const byte *from;

    __device__ words operator()(word offset) const
    {
        uint4 v = __ldcs(reinterpret_cast<const uint4 *>(from + offset));

        return {v.x | word(v.y) << 32, v.z | word(v.w) << 32};
    }
};

// For any address, and for the last block: what is past the end reads as zero.
struct byte_reader {
    const byte *from;
    word end;

    __device__ word read(word offset) const
    {
        word value = 0;

        for (int i = 0; i < 8; i++)
            if (offset + i < end)
                value |= word(from[offset + i]) << i * 8;
        return value;
    }

    __device__ words operator()(word offset) const { return {read(offset), read(offset + 8)}; }
};

template <class Reader>
__device__ static void add_block(const Reader &reader, const keys &key, word block,
                                 word (&sums)[lanes])
{
    int thread = threadIdx.x % 32;
    word start = block * block_bytes + thread * 16;
    word unit = block * columns + thread * 2;
    words data[rows];
    word first[lanes] = {}, second[lanes] = {};

#pragma unroll
    for (int row = 0; row < rows; row++)
        data[row] = reader(start + row * columns * 8);
#pragma unroll
    for (int row = 0; row < rows; row++) {
#pragma unroll
        for (int lane = 0; lane < lanes; lane++) {
            first[lane] += product(data[row].first, key.row[lane][row]);
            second[lane] += product(data[row].second, key.row[lane][row]);
        }
    }
#pragma unroll
    for (int lane = 0; lane < lanes; lane++) {
        sums[lane] += mix(first[lane] ^ (key.seed[lane] + unit * golden));
        sums[lane] += mix(second[lane] ^ (key.seed[lane] + (unit + 1) * golden));
    }
}

// `result` holds zeros before the launch. `aligned`: `from` is a multiple of 16.
extern "C" __global__ void __launch_bounds__(threads)
    hash_units(const byte *from, word bytes, int aligned, keys key, word *result)
{
    word warp = (word(blockIdx.x) * threads + threadIdx.x) / 32;
    word warps = word(gridDim.x) * (threads / 32);
    word whole = bytes / block_bytes;
    word blocks = (bytes + block_bytes - 1) / block_bytes;
    word sums[lanes] = {};

    for (word block = warp; block < blocks; block += warps) {
        if (aligned && block < whole)
            add_block(aligned_reader{from}, key, block, sums);
        else
            add_block(byte_reader{from, bytes}, key, block, sums);
    }
#pragma unroll
    for (int lane = 0; lane < lanes; lane++) {
        for (int distance = 16; distance; distance /= 2)
            sums[lane] += __shfl_xor_sync(~0u, sums[lane], distance);
        if (threadIdx.x % 32 == 0)
            atomicAdd(&result[lane], sums[lane]);
    }
}
