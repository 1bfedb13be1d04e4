#include "protocol/tolerance.h"

#include <math.h>

/* How many times the baseline's own error is allowed. */
#define ROOM 4.0

/* An error in norm below this is rounding, however exact the baseline is. */
#define REDUCED_FLOOR 1e-5
#define REDUCED_TIMES 64.0

static const struct taus {
    double tau, tau_n;
} tau_table[DTYPE_COUNT] = {
    /* An output in float64 comes of float32 arithmetic or better; no tighter floor is calibrated.
     */
    [DTYPE_FLOAT64] = {1e-3, 1e-4},
    [DTYPE_FLOAT32] = {1e-3, 1e-4},
    [DTYPE_FLOAT16] = {1e-2, 5e-3},
    [DTYPE_BFLOAT16] = {1e-2, 5e-3},
    /* Integers and booleans: equal, so no room at all. */
};

/* An error that is not finite gives no room: a baseline that is itself off everywhere must not
 * open the budget to everything. */
static double limit(double tau, double baseline)
{
    return isfinite(baseline) ? fmax(tau, ROOM * baseline) : tau;
}

void budget_set(struct budget *budget, enum dtype dtype, double baseline_s, double baseline_n)
{
    budget->tau = tau_table[dtype].tau;
    budget->tau_n = tau_table[dtype].tau_n;
    budget->s_limit = budget->n_limit = 0;
    if (dtype_is_floating(dtype)) {
        budget->s_limit = limit(budget->tau, baseline_s);
        budget->n_limit = limit(budget->tau_n, baseline_n);
    }
}

void budget_allow_tf32(struct budget *budget)
{
    const double truncation = 0x1p-10;

    if (budget->n_limit > 0)
        budget->n_limit = fmax(budget->n_limit, truncation);
}

bool budget_accepts(const struct budget *budget, const struct compare_result *candidate)
{
    /* Written so that a NaN anywhere fails: every comparison with it is false. */
    return candidate->mask_mismatches == 0 && candidate->mismatch_count == 0 &&
           candidate->s <= budget->s_limit && candidate->n <= budget->n_limit;
}

bool budget_reduced_precision(double candidate_n, double baseline_n)
{
    return candidate_n > REDUCED_TIMES * baseline_n && candidate_n > REDUCED_FLOOR;
}
