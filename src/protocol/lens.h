/*
 * Lenses: sets of rules under which one and the same evidence is read.
 *
 * `verified` reads what the judge collects in any case. `kernelbench` and `paper` need a little
 * more: outputs on draws under their fixed seed compared with the reference by torch.allclose, and
 * times by their procedures, both with the flags of the framework's defaults on either side. That
 * is struct lens_evidence; reading it is a pure function. Source: PROTOCOL, "Lenses".
 *
 * What is not reproduced is how those protocols can be fooled by a candidate in their process:
 * isolation, clocks and comparison are the judge's. A reading says what their draws, tolerances,
 * baselines and procedures make of the kernel, not what a patched timer would.
 */
#ifndef KBV_PROTOCOL_LENS_H
#define KBV_PROTOCOL_LENS_H

#include <stdbool.h>

#include "protocol/figure.h"

enum lens { LENS_KERNELBENCH, LENS_PAPER, LENS_VERIFIED, LENS_COUNT };

const char *lens_name(enum lens lens); /* "kernelbench", "paper", "verified" */
int lens_find(const char *name);       /* or -1 */

#define LENS_SEED               42
#define LENS_DRAWS              5 /* of get_inputs(), under seeds that follow from 42 */
#define LENS_HIDDEN             4 /* D1-D4 of the paper */
#define LENS_PAPER_TRIALS       10
#define LENS_KERNELBENCH_TRIALS 100

/* One call of the candidate beside the reference. */
struct lens_draw {
    enum family_status status; /* FAMILY_FAIL: no comparison was possible, see the reason */
    /* max |c - r| / (1 + |r|), infinite where a NaN or an infinity stands on one side alone, or NaN
     * on both: torch.allclose(c, r, atol=t, rtol=t) holds where this is at most t. */
    struct figure distance;
    char reason[256];
};

struct lens_evidence {
    bool measured;                        /* the draws were made */
    struct lens_draw draws[LENS_DRAWS];   /* as declared */
    struct lens_draw hidden[LENS_HIDDEN]; /* x1, x3, x0.01, x(-1) */
    /* Mean times in ms, absent where no lens accepts the candidate. Ten calls after three warm-ups,
     * caches warm; the baseline under both matmul precisions, the candidate under the default. */
    struct figure highest_ms, high_ms, candidate_ms;
    /* A hundred calls (fewer where one takes long), caches evicted before each. */
    struct figure cold_baseline_ms, cold_candidate_ms;
    unsigned cold_trials;
};

/* What a lens says of one candidate. */
struct lens_reading {
    bool judged;  /* there is evidence for it; else nothing below holds */
    bool correct;
    char reason[256];     /* why it is not correct; "" where it is */
    struct figure speed;  /* baseline / candidate; only where it is correct */
    struct figure low, high; /* 95%, where the lens has an interval */
    struct figure memory; /* baseline / candidate; only where it is correct */
};

struct evaluation;

void lens_read(const struct evaluation *evaluation, enum lens lens,
               struct lens_reading *ret_reading);

/* The paper's decomposition: its rules with one of two baselines and one of two sets of tests. */
enum lens_baseline { LENS_FP32, LENS_TF32 };
enum lens_tests { LENS_STANDARD, LENS_ALL_TESTS };
void lens_decompose(const struct evaluation *evaluation, enum lens_baseline baseline,
                    enum lens_tests tests, struct lens_reading *ret_reading);

/* Whether either of the public lenses takes the candidate for right: then it is timed and its
 * memory measured, whatever `verified` says. */
bool lens_any_accepts(const struct evaluation *evaluation);

#endif
