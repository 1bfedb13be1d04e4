/*
 * The error budget of the `verified` lens: how far a candidate's output may be from the oracle's.
 * Source: the protocol page, "Error budget (verified)".
 */
#ifndef KBV_PROTOCOL_TOLERANCE_H
#define KBV_PROTOCOL_TOLERANCE_H

#include <stdbool.h>

#include "protocol/tensor.h"

/* s(b) and n(b) of the baseline against the oracle. */
struct budget {
    double tau;     /* floor for s: 1e-3 fp32, 1e-2 fp16/bf16 */
    double tau_n;   /* floor for n: 1e-4 fp32, 5e-3 fp16/bf16 */
    double s_limit; /* max(tau, 4 s(b)) */
    double n_limit; /* max(tau_n, 4 n(b)) */
};

/* `dtype` is the output's. Integer and boolean outputs have limits of 0. A float64 output has the
 * floors of fp32. Where the baseline's error is not finite, the floor alone is the limit: such a
 * family does not apply, and must not let everything pass should it be read all the same. */
void budget_set(struct budget *budget, enum dtype dtype, double baseline_s, double baseline_n);

/* For fp32 outputs of a problem whose result the matmul flag changes, with TF32 allowed to both
 * sides: n_limit is at least 2^-10. The hardware reads 10 bits of each operand's mantissa; a kernel
 * that does not round before (Triton's tl.dot) truncates, by 2^-11 ln 2 of the operand's size on
 * average. Errors of one sign do not average away: where the products have one sign, too, the sum
 * is off by both operands' share, 2^-10 ln 2 or 6.8e-4, and no less honest. The baseline, which
 * rounds, may lie far below that. 2^-10 leaves half as much for what comes behind the product. */
void budget_allow_tf32(struct budget *budget);

/* True when the candidate's comparison keeps within the budget: same non-finite mask, s and n
 * within limits (never true of NaN), no unequal integer. */
bool budget_accepts(const struct budget *budget, const struct compare_result *candidate);

/* n(c) > 64 n(b) and n(c) > 1e-5. */
bool budget_reduced_precision(double candidate_n, double baseline_n);

#endif
