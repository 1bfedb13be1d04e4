#include "stats/stats.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Equal ends are answered as they are: two infinities have no difference. */
static double between(double low, double high, double fraction)
{
    if (low >= high)
        return low;
    return low + fraction * (high - low);
}

double stats_median(double *values, size_t count)
{
    return stats_quantile(values, count, 0.5);
}

double stats_quantile(double *values, size_t count, double q)
{
    double position;
    size_t rank;

    assert(count > 0 && q >= 0 && q <= 1);
    qsort(values, count, sizeof(*values), compare_doubles);
    position = q * (double)(count - 1);
    rank = (size_t)position;
    if (rank + 1 >= count)
        return values[count - 1];
    return between(values[rank], values[rank + 1], position - (double)rank);
}

double stats_geomean(const double *values, size_t count)
{
    double sum = 0;

    assert(count > 0);
    for (size_t i = 0; i < count; i++)
        sum += log(values[i]);
    return exp(sum / (double)count);
}

double stats_pass_at_k(unsigned n, unsigned c, unsigned k)
{
    double all_fail = 1;

    assert(k > 0 && k <= n && c <= n);
    /* Fewer than k failures: every draw of k holds a success. */
    if (n - c < k)
        return 1;
    /* C(n - c, k) / C(n, k) without either binomial, which overflow early. */
    for (unsigned i = n - c + 1; i <= n; i++)
        all_fail *= 1 - (double)k / i;
    return 1 - all_fail;
}

int stats_median_interval(double *values, size_t count, double confidence, double *ret_low,
                          double *ret_high)
{
    /* P(Bin(count, 1/2) = i), and the sum of those up to and with i, in logarithms: 2^-count
     * underflows. */
    double log_term = -(double)count * log(2), tail = exp(log_term);
    size_t k = 0;
    bool found = false;

    for (size_t i = 0; i < count / 2 && 2 * tail <= 1 - confidence; i++) {
        found = true;
        k = i;
        log_term += log((double)(count - i)) - log((double)(i + 1));
        tail += exp(log_term);
    }
    if (!found)
        return -1;
    qsort(values, count, sizeof(*values), compare_doubles);
    *ret_low = values[k];
    *ret_high = values[count - 1 - k];
    return 0;
}
