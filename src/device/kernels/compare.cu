// The two passes of compare() for one pair of element types, given as macros EXPECTED and GOT with
// the names of the structs below. device/compare.h says what is computed.
//
// Each block leaves one partial result, and the host merges them in the order of blocks. A thread
// looks at its elements in ascending order, threads and warps are merged in a fixed order, and the
// number of blocks depends on the device and the count alone: the result is the same every time.

typedef unsigned long long word;

constexpr int threads = 256;
constexpr int warps = threads / 32;
constexpr word none = ~0ull;

struct of_float64 {
    typedef double raw;
    static constexpr bool floating = true;
    __device__ static double number(raw x) { return x; }
    __device__ static long long integer(raw) { return 0; }
};

struct of_float32 {
    typedef float raw;
    static constexpr bool floating = true;
    __device__ static double number(raw x) { return x; }
    __device__ static long long integer(raw) { return 0; }
};

struct of_float16 {
    typedef unsigned short raw;
    static constexpr bool floating = true;
    __device__ static double number(raw x)
    {
        float value;

        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x));
        return value;
    }
    __device__ static long long integer(raw) { return 0; }
};

struct of_bfloat16 {
    typedef unsigned short raw;
    static constexpr bool floating = true;
    __device__ static double number(raw x) { return __uint_as_float(unsigned(x) << 16); }
    __device__ static long long integer(raw) { return 0; }
};

template <class Raw> struct of_integer {
    typedef Raw raw;
    static constexpr bool floating = false;
    __device__ static double number(raw x) { return double(x); }
    __device__ static long long integer(raw x) { return x; }
};

struct of_int64 : of_integer<long long> {};
struct of_int32 : of_integer<int> {};
struct of_int16 : of_integer<short> {};
struct of_int8 : of_integer<signed char> {};
struct of_uint8 : of_integer<unsigned char> {};
struct of_bool : of_integer<unsigned char> {};  // a boolean is its byte

typedef EXPECTED expected_type;
typedef GOT got_type;
typedef expected_type::raw expected_raw;
typedef got_type::raw got_raw;

// Elements that a thread takes at once: 16 bytes of the wider type. With the narrower one's shorter
// loads every load of a warp still covers adjacent bytes.
constexpr int wide = 16 / (sizeof(expected_raw) > sizeof(got_raw) ? sizeof(expected_raw)
                                                                   : sizeof(got_raw));

template <int Bytes> struct vector_load;
template <> struct vector_load<16> { typedef uint4 type; };
template <> struct vector_load<8> { typedef uint2 type; };
template <> struct vector_load<4> { typedef unsigned type; };
template <> struct vector_load<2> { typedef unsigned short type; };
template <> struct vector_load<1> { typedef unsigned char type; };

template <class Raw, int Count> union pack {
    typename vector_load<sizeof(Raw) * Count>::type vector;
    Raw elements[Count];

    __device__ pack() {}
    __device__ void load(const Raw *from)
    {
        vector = __ldcs(reinterpret_cast<const decltype(vector) *>(from));
    }
};

__device__ static bool is_finite(double x)
{
    return (unsigned(__double2hiint(x)) & 0x7ff00000u) != 0x7ff00000u;
}

struct energy {
    double squares, largest;
    word nonfinite;

    __device__ void add(double e, double scale)
    {
        if (is_finite(e)) {
            double x = e * scale;

            squares += x * x;
            largest = fmax(largest, fabs(e));
        } else {
            nonfinite++;
        }
    }

    __device__ void merge(const energy &other)
    {
        squares += other.squares;
        largest = fmax(largest, other.largest);
        nonfinite += other.nonfinite;
    }
};

struct partial {
    double difference_squares, expected_squares, worst_ratio;
    word worst_index, nonfinite_got, mask_mismatches, first_mask_mismatch, mismatches,
        first_mismatch;

    __device__ void add_mismatch(word index)
    {
        mismatches++;
        first_mismatch = min(first_mismatch, index);
    }

    __device__ void add_nonfinite(double e, double g, word index)
    {
        bool same = (e != e && g != g) || e == g;

        nonfinite_got += !is_finite(g);
        if (!same) {
            mask_mismatches++;
            first_mask_mismatch = min(first_mask_mismatch, index);
        }
    }

    __device__ void add_numbers(double e, double g, word index, double scale, double sigma)
    {
        if (!is_finite(e) || !is_finite(g)) {
            add_nonfinite(e, g, index);
            return;
        }
        double d = g - e, size = fabs(d), whole = fabs(e) + sigma;
        double x = d * scale, y = e * scale;

        difference_squares += x * x;
        expected_squares += y * y;
        // Divides only where the quotient could be a new maximum: division is dear, and the
        // factor is further below 1 than all roundings together.
        if (size > worst_ratio * whole * (1 - 0x1p-50)) {
            double ratio = size / whole;

            if (ratio > worst_ratio) {
                worst_ratio = ratio;
                worst_index = index;
            }
        }
    }

    // Integers expected, floating numbers got: equal only where the number is that very integer.
    __device__ void add_mixed(long long e, double g, word index)
    {
        bool in_range = g >= -0x1p63 && g < 0x1p63;

        nonfinite_got += !is_finite(g);
        if (!in_range || g != trunc(g) || (long long)g != e)
            add_mismatch(index);
    }

    __device__ void add(expected_raw e, got_raw g, word index, double scale, double sigma)
    {
        if constexpr (expected_type::floating) {
            add_numbers(expected_type::number(e), got_type::number(g), index, scale, sigma);
        } else if constexpr (got_type::floating) {
            add_mixed(expected_type::integer(e), got_type::number(g), index);
        } else {
            if (expected_type::integer(e) != got_type::integer(g))
                add_mismatch(index);
        }
    }

    __device__ void merge(const partial &other)
    {
        difference_squares += other.difference_squares;
        expected_squares += other.expected_squares;
        if (other.worst_ratio > worst_ratio) {
            worst_ratio = other.worst_ratio;
            worst_index = other.worst_index;
        } else if (other.worst_ratio == worst_ratio) {
            worst_index = min(worst_index, other.worst_index);
        }
        nonfinite_got += other.nonfinite_got;
        mask_mismatches += other.mask_mismatches;
        first_mask_mismatch = min(first_mask_mismatch, other.first_mask_mismatch);
        mismatches += other.mismatches;
        first_mismatch = min(first_mismatch, other.first_mismatch);
    }
};

// Merges the threads' results of a block in a fixed order; thread 0 stores the block's.
template <class Result> __device__ static void store(Result mine, Result *results)
{
    __shared__ word shared[warps][sizeof(Result) / 8];
    constexpr int words = sizeof(Result) / 8;

    union image {
        Result result;
        word words[sizeof(Result) / 8];
        __device__ image() {}
    };

    for (int distance = 16; distance; distance /= 2) {
        image here, there;

        here.result = mine;
        for (int i = 0; i < words; i++)
            there.words[i] = __shfl_down_sync(~0u, here.words[i], distance);
        mine.merge(there.result);
    }
    if (threadIdx.x % 32 == 0) {
        image here;

        here.result = mine;
        for (int i = 0; i < words; i++)
            shared[threadIdx.x / 32][i] = here.words[i];
    }
    __syncthreads();
    if (threadIdx.x)
        return;
    for (int warp = 1; warp < warps; warp++) {
        image there;

        for (int i = 0; i < words; i++)
            there.words[i] = shared[warp][i];
        mine.merge(there.result);
    }
    results[blockIdx.x] = mine;
}

template <int Width>
__device__ static void run_energy(const expected_raw *expected, word count, double scale,
                                  energy *results)
{
    constexpr int unroll = 4;
    constexpr word tile = word(threads) * Width * unroll;
    energy mine = {};

    for (word start = blockIdx.x * tile; start < count; start += gridDim.x * tile) {
        word first = start + threadIdx.x * Width;

        if (start + tile <= count) {
            pack<expected_raw, Width> e[unroll];

#pragma unroll
            for (int u = 0; u < unroll; u++)
                e[u].load(expected + first + u * threads * Width);
#pragma unroll
            for (int u = 0; u < unroll; u++)
#pragma unroll
                for (int i = 0; i < Width; i++)
                    mine.add(expected_type::number(e[u].elements[i]), scale);
        } else {
            for (word i = start + threadIdx.x; i < count; i += threads)
                mine.add(expected_type::number(expected[i]), scale);
        }
    }
    store(mine, results);
}

template <int Width>
__device__ static void run_difference(const expected_raw *expected, const got_raw *got, word count,
                                      double scale, double sigma, partial *results)
{
    constexpr int unroll = 4;
    constexpr word tile = word(threads) * Width * unroll;
    partial mine = {0, 0, 0, none, 0, 0, none, 0, none};

    for (word start = blockIdx.x * tile; start < count; start += gridDim.x * tile) {
        word first = start + threadIdx.x * Width;

        if (start + tile <= count) {
            pack<expected_raw, Width> e[unroll];
            pack<got_raw, Width> g[unroll];

#pragma unroll
            for (int u = 0; u < unroll; u++) {
                e[u].load(expected + first + u * threads * Width);
                g[u].load(got + first + u * threads * Width);
            }
#pragma unroll
            for (int u = 0; u < unroll; u++)
#pragma unroll
                for (int i = 0; i < Width; i++)
                    mine.add(e[u].elements[i], g[u].elements[i], first + u * threads * Width + i,
                             scale, sigma);
        } else {
            for (word i = start + threadIdx.x; i < count; i += threads)
                mine.add(expected[i], got[i], i, scale, sigma);
        }
    }
    store(mine, results);
}

// `aligned`: the addresses are multiples of 16; else they are multiples of the element's size.
extern "C" __global__ void __launch_bounds__(threads)
    compare_energy(const expected_raw *expected, word count, int aligned, double scale,
                   energy *results)
{
    if (aligned)
        run_energy<16 / sizeof(expected_raw)>(expected, count, scale, results);
    else
        run_energy<1>(expected, count, scale, results);
}

extern "C" __global__ void __launch_bounds__(threads)
    compare_difference(const expected_raw *expected, const got_raw *got, word count, int aligned,
                       double scale, double sigma, partial *results)
{
    if (aligned)
        run_difference<wide>(expected, got, count, scale, sigma, results);
    else
        run_difference<1>(expected, got, count, scale, sigma, results);
}
