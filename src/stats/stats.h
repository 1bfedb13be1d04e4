/*
 * Pure numerics: no allocation that outlives a call, no globals, no I/O. Arrays may be reordered
 * only where a function says so. NaN among the inputs is a caller's error.
 */
#ifndef KBV_STATS_STATS_H
#define KBV_STATS_STATS_H

#include <stddef.h>
#include <stdint.h>

/* Median of `count` > 0 values (mean of the middle two for an even count); reorders `values`. */
double stats_median(double *values, size_t count);

/* Quantile q in [0, 1], linear between order statistics (Hyndman and Fan's type 7); reorders. */
double stats_quantile(double *values, size_t count, double q);

/* exp(mean(log(x))) of `count` > 0 positive values. */
double stats_geomean(const double *values, size_t count);

/* pass@k: 1 - C(n - c, k) / C(n, k), the unbiased estimator of Chen et al. 2021
 * (arXiv 2107.03374), computed as a product. n >= k > 0, c <= n. */
double stats_pass_at_k(unsigned n, unsigned c, unsigned k);

struct stats_interval {
    double value, low, high;
};

/*
 * Ratio of medians median(a) / median(b) with a bootstrap interval (percentile method) at
 * `confidence` (0.95), `resamples` draws with replacement of the blocks of each side, from the
 * generator seeded with `seed`. Both counts > 0, values > 0. Returns -1 when out of memory.
 */
int stats_ratio_interval(const double *a, size_t a_count, const double *b, size_t b_count,
                         double confidence, unsigned resamples, uint64_t seed,
                         struct stats_interval *ret_interval);

/*
 * The same for paired blocks: resamples pairs (a[i], b[i]), so that drift which moves both sides
 * of a pair together cancels.
 */
int stats_paired_ratio_interval(const double *a, const double *b, size_t count, double confidence,
                                unsigned resamples, uint64_t seed,
                                struct stats_interval *ret_interval);

/*
 * Confidence interval of a median that assumes nothing of the distribution: order statistics
 * [k] and [count - 1 - k] (from 0) with the largest k whose binomial tails leave `confidence`
 * (Conover, Practical Nonparametric Statistics, 3.2). Reorders `values`. Returns -1, and touches
 * no output, where `count` is too small for any (under 6 at 0.95).
 */
int stats_median_interval(double *values, size_t count, double confidence, double *ret_low,
                          double *ret_high);

/* xoshiro256** (Blackman and Vigna 2018), seeded by splitmix64: fast, not for secrets. */
struct stats_random {
    uint64_t state[4];
};
void stats_random_seed(struct stats_random *random, uint64_t seed);
uint64_t stats_random_next(struct stats_random *random);
/* Uniform in [0, bound), without modulo bias; bound > 0. */
uint64_t stats_random_below(struct stats_random *random, uint64_t bound);

#endif
