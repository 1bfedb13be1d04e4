/*
 * One evaluation: a problem, a candidate, a verdict.
 *
 * Theory of operation. The reference process draws inputs for one family after another into shared
 * memory, runs oracle and baseline, and keeps what is expected. A candidate process, which sees the
 * same memory read-only, runs its forward and copies its output into another shared region, which
 * the reference process compares. Then two fresh processes, one for the baseline and one for the
 * candidate, are timed in alternating blocks; then two more have their memory measured. The judge
 * starts and ends all of them, keeps the clock, and decides.
 *
 * evaluate() returns 0 when there is a verdict, whatever it is; -1 when there is none: a file that
 * is no problem (ERROR_USAGE), a machine that is not fit (ERROR_UNFIT), an interrupt, a defect.
 */
#ifndef KBV_JUDGE_EVALUATE_H
#define KBV_JUDGE_EVALUATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "judge/session.h"
#include "protocol/evaluation.h"

enum stage { STAGE_STARTUP, STAGE_BUILD, STAGE_CORRECTNESS, STAGE_TIMING, STAGE_MEMORY };

struct request {
    const char *problem_path;
    const char *candidate_path;
    const char *dtype;           /* fp32, bf16, fp16 */
    const char *baseline_matmul; /* highest, high, medium */
    bool seed_given;
    uint64_t seed;
    double timeout_s; /* any one step of the candidate */
    double build_timeout_s;
    double time_cap_s; /* timing stage; 0: the device's default; < 0: no timing, no memory */
    /* Progress: called at the start of each stage, and within it when there is something to tell.
     * `done` of `total` steps; total 0: unknown. NULL: nobody wants to know. */
    void (*progress)(void *context, enum stage stage, const char *what, unsigned done,
                     unsigned total);
    void *progress_context;
};

#define REQUEST_INIT                                                                               \
    {                                                                                              \
        .dtype = "fp32", .baseline_matmul = "high", .timeout_s = 60, .build_timeout_s = 600        \
    }

/* Whether both files can be read at all (ERROR_USAGE): what can be told before anything starts. */
int evaluate_check(const struct request *request, struct error *err);

int evaluate(struct session *session, const struct request *request, struct evaluation *evaluation,
             struct error *err);

#endif
