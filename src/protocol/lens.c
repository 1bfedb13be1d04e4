#include "protocol/lens.h"

#include <stdio.h>
#include <string.h>

#include "protocol/evaluation.h"

static const char *const names[LENS_COUNT] = {
    [LENS_KERNELBENCH] = "kernelbench",
    [LENS_PAPER] = "paper",
    [LENS_VERIFIED] = "verified",
};

static const char *const hidden_names[LENS_HIDDEN] = {"D1", "D2", "D3", "D4"};

/* atol and rtol, which are the same number in both protocols. */
struct tolerances {
    double fp32, half;
};
static const struct tolerances kernelbench_tolerances = {1e-4, 1e-2};
static const struct tolerances paper_tolerances = {1e-3, 1e-2};

const char *lens_name(enum lens lens)
{
    return names[lens];
}

int lens_find(const char *name)
{
    for (int i = 0; i < LENS_COUNT; i++) {
        if (strcmp(names[i], name) == 0)
            return i;
    }
    return -1;
}

static double tolerance_of(const struct evaluation *evaluation, const struct tolerances *tolerances)
{
    return strcmp(evaluation->dtype, "fp32") == 0 ? tolerances->fp32 : tolerances->half;
}

/* True where the draw passes or says nothing; else writes why not. */
static bool draw_passes(const struct lens_draw *draw, double tolerance, const char *name,
                        struct lens_reading *reading)
{
    switch (draw->status) {
    case FAMILY_NOT_RUN:
        snprintf(reading->reason, sizeof(reading->reason), "%s: not run", name);
        return false;
    case FAMILY_NOT_APPLICABLE:
        return true;
    case FAMILY_FAIL:
        snprintf(reading->reason, sizeof(reading->reason), "%s: %.200s", name, draw->reason);
        return false;
    case FAMILY_PASS:
        break;
    }
    if (draw->distance.value <= tolerance)
        return true;
    snprintf(reading->reason, sizeof(reading->reason), "%s: off by %.3g, allowed %g", name,
             draw->distance.value, tolerance);
    return false;
}

static bool passes(const struct evaluation *evaluation, const struct tolerances *tolerances,
                   bool hidden, struct lens_reading *reading)
{
    const struct lens_evidence *evidence = &evaluation->lens;
    double tolerance = tolerance_of(evaluation, tolerances);

    for (int i = 0; i < LENS_DRAWS; i++) {
        char name[16];

        snprintf(name, sizeof(name), "draw %d", i + 1);
        if (!draw_passes(&evidence->draws[i], tolerance, name, reading))
            return false;
    }
    for (int i = 0; hidden && i < LENS_HIDDEN; i++) {
        if (!draw_passes(&evidence->hidden[i], tolerance, hidden_names[i], reading))
            return false;
    }
    return true;
}

static struct figure ratio_of(struct figure baseline, struct figure candidate)
{
    if (!baseline.measured || !candidate.measured || candidate.value <= 0)
        return FIGURE_NONE;
    return FIGURE(baseline.value / candidate.value);
}

/* A candidate that did not get as far as the draws fails under every lens; an evaluation that did
 * not ask for them says nothing. */
static bool has_draws(const struct evaluation *evaluation, struct lens_reading *reading)
{
    *reading = (struct lens_reading){0};
    if (evaluation->lens.measured) {
        reading->judged = true;
        return true;
    }
    switch (evaluation->verdict) {
    case VERDICT_PROBLEM_UNFIT:
    case VERDICT_BUILD_FAILED:
    case VERDICT_LOAD_FAILED:
        reading->judged = true;
        snprintf(reading->reason, sizeof(reading->reason), "%s: %.200s",
                 verdict_name(evaluation->verdict), evaluation->reason);
        return false;
    default:
        return false;
    }
}

static void read_kernelbench(const struct evaluation *evaluation, struct lens_reading *reading)
{
    if (!has_draws(evaluation, reading))
        return;
    reading->correct = passes(evaluation, &kernelbench_tolerances, false, reading);
    if (reading->correct)
        reading->speed =
            ratio_of(evaluation->lens.cold_baseline_ms, evaluation->lens.cold_candidate_ms);
}

void lens_decompose(const struct evaluation *evaluation, enum lens_baseline baseline,
                    enum lens_tests tests, struct lens_reading *ret_reading)
{
    const struct lens_evidence *evidence = &evaluation->lens;
    const struct memory_evidence *memory = &evaluation->memory;

    if (!has_draws(evaluation, ret_reading))
        return;
    ret_reading->correct =
        passes(evaluation, &paper_tolerances, tests == LENS_ALL_TESTS, ret_reading);
    if (!ret_reading->correct)
        return;
    ret_reading->speed = ratio_of(baseline == LENS_FP32 ? evidence->highest_ms : evidence->high_ms,
                                  evidence->candidate_ms);
    ret_reading->memory =
        ratio_of(memory->baseline_allocator_bytes, memory->candidate_allocator_bytes);
}

static void read_verified(const struct evaluation *evaluation, struct lens_reading *reading)
{
    *reading = (struct lens_reading){.judged = true};
    reading->correct = evaluation->verdict == VERDICT_VERIFIED;
    if (!reading->correct) {
        snprintf(reading->reason, sizeof(reading->reason), "%s: %.200s",
                 verdict_name(evaluation->verdict), evaluation->reason);
        return;
    }
    reading->speed = evaluation->speed.ratio;
    reading->low = evaluation->speed.low;
    reading->high = evaluation->speed.high;
    reading->memory = evaluation->memory.ratio;
}

void lens_read(const struct evaluation *evaluation, enum lens lens,
               struct lens_reading *ret_reading)
{
    switch (lens) {
    case LENS_KERNELBENCH:
        read_kernelbench(evaluation, ret_reading);
        break;
    case LENS_PAPER:
        lens_decompose(evaluation, LENS_TF32, LENS_ALL_TESTS, ret_reading);
        break;
    case LENS_VERIFIED:
    case LENS_COUNT:
        read_verified(evaluation, ret_reading);
        break;
    }
}

bool lens_any_accepts(const struct evaluation *evaluation)
{
    struct lens_reading reading;

    for (int lens = LENS_KERNELBENCH; lens <= LENS_PAPER; lens++) {
        lens_read(evaluation, (enum lens)lens, &reading);
        if (reading.correct)
            return true;
    }
    /* Right on the public tests, at the paper's tolerance: one half of the decomposition. */
    lens_decompose(evaluation, LENS_FP32, LENS_STANDARD, &reading);
    return reading.correct;
}
