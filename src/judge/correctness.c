/*
 * Correctness: every family, one call each, in a candidate process whose own allocations are
 * guarded. A wrong family does not end the stage (which others fail is evidence); a crash, a
 * time-out or tampering does.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/secret.h"
#include "judge/judging.h"
#include "protocol/tolerance.h"

struct call_result {
    bool copied;
    uint64_t damaged, size_bytes;
    int64_t offset_bytes;
    char description[3000];
};

static bool ask_call(struct judging *judging, uint64_t call_seed, const char *step,
                     struct call_result *ret_call, struct error *err)
{
    struct job *job = judging->candidate_check;
    struct call_result call = {0};
    struct frame_reader reader;
    struct frame frame;

    frame_init(&frame, MESSAGE_CALL);
    frame_put_int(&frame, 0);
    frame_put_int(&frame, (int64_t)call_seed);
    if (!judging_ask(judging, job, &frame, NULL, 0, &frame, step, err))
        return false;
    reader = frame_read(&frame);
    frame_get_text(&reader, call.description, sizeof(call.description));
    call.damaged = (uint64_t)frame_get_int(&reader);
    call.size_bytes = (uint64_t)frame_get_int(&reader);
    call.offset_bytes = frame_get_int(&reader);
    call.copied = frame_get_int(&reader) == 1;
    if (!frame_done(&reader)) {
        judging_decide(judging, VERDICT_TAMPERED,
                       "malformed message: an answer of another form (%s)", step);
        return false;
    }
    *ret_call = call;
    return true;
}

/* The set's region, or the output's, may be a new one: the candidate maps it first. */
static bool share_places(struct judging *judging, const struct draw *draw, struct error *err)
{
    struct job *job = judging->candidate_check;

    if (judging->given_generation != judging->set_generation[0]) {
        if (!judging_give_set(judging, job, 0, err))
            return false;
        judging->given_generation = judging->set_generation[0];
    }
    return !draw->output_changed || judging_give_output(judging, job, err);
}

/* One call of the candidate on what set 0 holds, compared. False: the evaluation ends. */
static bool check(struct judging *judging, uint64_t call_seed, const char *step,
                  struct family_evidence *evidence, struct error *err)
{
    struct comparison comparison;
    struct call_result call;
    bool accepted;

    if (!judging_simple(judging, MESSAGE_POISON, err) ||
        !ask_call(judging, call_seed, step, &call, err))
        return false;
    if (call.damaged) {
        bool before = call.offset_bytes < 0;
        long long distance =
            before ? -call.offset_bytes : call.offset_bytes - (long long)call.size_bytes;

        judging_decide(judging, VERDICT_TAMPERED,
                       "wrote out of bounds: %lld bytes %s an allocation of %llu bytes (%s)",
                       distance, before ? "before" : "past the end of",
                       (unsigned long long)call.size_bytes, step);
        return false;
    }
    if (!call.copied) {
        evidence->status = FAMILY_FAIL;
        snprintf(evidence->reason, sizeof(evidence->reason), "expected %.400s, got %.400s",
                 judging->description, call.description);
        return true;
    }
    if (!judging_compare(judging, 0, &comparison, err))
        return false;
    if (comparison.zone_damage) {
        judging_decide(
            judging, VERDICT_TAMPERED,
            "wrote %llu bytes outside its output, at byte %llu of the shared region (%s)",
            (unsigned long long)comparison.zone_damage, (unsigned long long)comparison.zone_offset,
            step);
        return false;
    }
    if (!comparison.inputs_intact) {
        judging_decide(judging, VERDICT_TAMPERED, "the inputs changed during %s", step);
        return false;
    }
    accepted = judging_accepts(&comparison, evidence);
    if (accepted && dtype_is_floating(comparison.dtype) &&
        budget_reduced_precision(comparison.result.n, comparison.baseline_n))
        judging->evaluation->labels |= LABEL_REDUCED_PRECISION;
    judging->output_hash = comparison.output_hash;
    return true;
}

static uint64_t seed_of(const struct judging *judging, const char *label, unsigned index)
{
    return secret_derive(judging->evaluation->seed, label, index);
}

static void note_controls(struct evaluation *evaluation, const struct draw *draw)
{
    for (unsigned i = 0; i < CONTROL_COUNT; i++) {
        struct control_evidence *control = &evaluation->controls[i];

        if (!(draw->controls >> i & 1))
            continue;
        control->passes = (!control->run || control->passes) && (draw->controls >> (8 + i) & 1);
        control->run = true;
    }
}

/* Draws `family` into set 0 and calls the candidate on it. */
static bool run_family(struct judging *judging, enum family family, struct error *err)
{
    struct family_evidence *evidence = &judging->evaluation->families[family];
    const char *id = family_table[family].id;
    uint64_t call_seed = seed_of(judging, "call", family);
    struct draw draw;
    char step[64];

    snprintf(step, sizeof(step), "the call for family %s", id);
    if (!judging_draw(judging, 0, id, seed_of(judging, "inputs", family), call_seed, true, &draw,
                      err))
        return false;
    if (!draw.applies) {
        evidence->status = FAMILY_NOT_APPLICABLE;
        snprintf(evidence->reason, sizeof(evidence->reason), "%s", draw.reason);
        return true;
    }
    note_controls(judging->evaluation, &draw);
    return share_places(judging, &draw, err) && check(judging, call_seed, step, evidence, err);
}

/* A second call on the same inputs: the same bits, or the label. */
static bool look_for_nondeterminism(struct judging *judging, struct error *err)
{
    struct family_evidence again = {0};
    uint64_t first = judging->output_hash;

    if (judging->evaluation->families[FAMILY_D1].status != FAMILY_PASS)
        return true;
    if (!check(judging, seed_of(judging, "call", FAMILY_D1), "a second call for family D1", &again,
               err))
        return false;
    if (again.status == FAMILY_FAIL) {
        struct family_evidence *evidence = &judging->evaluation->families[FAMILY_D1];

        again.baseline_s = evidence->baseline_s;
        again.baseline_n = evidence->baseline_n;
        *evidence = again;
        snprintf(evidence->reason, sizeof(evidence->reason),
                 "right once, wrong when called again on "
                 "the same inputs: %.600s",
                 again.worst);
    } else if (judging->output_hash != first) {
        judging->evaluation->labels |= LABEL_NONDETERMINISTIC;
    }
    return true;
}

/* Model and candidate constructed anew under `seed`; parameters copied by name where they match. */
static bool reconstruct(struct judging *judging, uint64_t seed, enum model_mode mode, bool adopt,
                        struct error *err)
{
    const char *step = "constructing the candidate again";
    bool matched;
    char reason[512];

    return judging_construct_ahead(judging, judging->candidate_check, seed, mode, step, err) &&
           judging_model(judging, seed, mode, err) &&
           judging_construct(judging, judging->candidate_check, seed, mode, step, err) &&
           (!adopt || judging_adopt(judging, judging->candidate_check, &matched, reason,
                                    sizeof(reason), "receiving parameters", err));
}

static bool run_redrawn_parameters(struct judging *judging, struct error *err)
{
    return reconstruct(judging, seed_of(judging, "parameters", 1), MODEL_PLAIN, true, err) &&
           run_family(judging, FAMILY_P1, err);
}

/*
 * P2, on top of the parameters that P1 drew. A candidate that fails it either ignores a parameter
 * or has read it at construction. To tell the two apart, both models are constructed anew under
 * initialisers that add noise, so that every parameter differs from its default before the
 * candidate can read it: one that is right then uses all of its parameters, and only missed the
 * change.
 */
static bool run_perturbed_parameters(struct judging *judging, struct error *err)
{
    struct family_evidence *evidence = &judging->evaluation->families[FAMILY_P2];
    struct family_evidence failed;
    char reason[512];
    bool matched;

    if (!judging_model(judging, seed_of(judging, "perturbation", 0), MODEL_PERTURBED, err) ||
        !judging_adopt(judging, judging->candidate_check, &matched, reason, sizeof(reason),
                       "receiving perturbed parameters", err))
        return false;
    if (!matched) {
        evidence->status = FAMILY_NOT_APPLICABLE;
        snprintf(evidence->reason, sizeof(evidence->reason), "%s", reason);
        return true;
    }
    if (!run_family(judging, FAMILY_P2, err))
        return false;
    if (evidence->status != FAMILY_FAIL)
        return true;
    failed = *evidence;
    *evidence = (struct family_evidence){0};
    if (!reconstruct(judging, seed_of(judging, "parameters", 2), MODEL_REINITIALISED, false, err) ||
        !run_family(judging, FAMILY_P2, err))
        return false;
    if (evidence->status == FAMILY_PASS) {
        evidence->status = FAMILY_NOT_APPLICABLE;
        snprintf(evidence->reason, sizeof(evidence->reason),
                 "parameters are read at construction only; right when they differ there");
        judging->evaluation->labels |= LABEL_STALE_PARAMETERS;
    } else {
        *evidence = failed;
    }
    return true;
}

static bool note_oracle(struct judging *judging, bool *ret_live_random, struct error *err)
{
    struct frame_reader reader;
    struct frame frame;

    frame_init(&frame, MESSAGE_ORACLE);
    if (!judging_ask_reference(judging, &frame, NULL, 0, &frame, NULL, NULL, err))
        return false;
    reader = frame_read(&frame);
    frame_get_text(&reader, judging->evaluation->oracle, sizeof(judging->evaluation->oracle));
    *ret_live_random = frame_get_int(&reader) == 1;
    judging->matmul_matters = frame_get_int(&reader) == 1;
    if (!frame_done(&reader)) {
        error_set(err, ERROR_INTERNAL, "the reference process gave an answer of another form");
        judging->broken = true;
        return false;
    }
    return true;
}

/* What the families add up to. */
static void decide(struct judging *judging, bool live_random)
{
    struct evaluation *evaluation = judging->evaluation;
    int failed = -1;
    unsigned passed = 0;

    for (int i = 0; i < FAMILY_COUNT; i++) {
        if (evaluation->families[i].status == FAMILY_FAIL && failed < 0)
            failed = i;
        passed += evaluation->families[i].status == FAMILY_PASS;
    }
    for (unsigned i = 0; i < CONTROL_COUNT; i++) {
        if (evaluation->controls[i].run && evaluation->controls[i].passes) {
            evaluation->labels |= LABEL_INSENSITIVE;
            judging_decide(judging, VERDICT_PROBLEM_UNFIT,
                           "insensitive: %s keeps within the budget on every "
                           "family, so no kernel can be verified by it",
                           control_name((enum control)i));
            return;
        }
    }
    if (failed >= 0 && live_random) {
        judging_decide(
            judging, VERDICT_PROBLEM_UNFIT,
            "forward draws random numbers, and the candidate draws "
            "others from the same generator state: a right kernel cannot be told from a wrong one");
        return;
    }
    if (failed >= 0) {
        const struct family_evidence *evidence = &evaluation->families[failed];

        judging_decide(judging, VERDICT_WRONG, "%s (%s): %.600s%s%.200s", family_table[failed].id,
                       family_table[failed].transform, evidence->reason,
                       evidence->worst[0] ? "; " : "", evidence->worst);
        return;
    }
    if (!passed)
        judging_decide(judging, VERDICT_PROBLEM_UNFIT, "no family applies to it");
}

/* The problem must hold by itself before any candidate is looked at. */
static bool draw_first(struct judging *judging, struct error *err)
{
    struct draw draw;

    judging_progress(judging, STAGE_CORRECTNESS, "the reference", 0, FAMILY_COUNT);
    if (!judging_model(judging, judging->model_seed, MODEL_PLAIN, err) ||
        !judging_draw(judging, 0, "D1", seed_of(judging, "inputs", FAMILY_D1),
                      seed_of(judging, "call", FAMILY_D1), true, &draw, err))
        return false;
    if (!draw.applies)
        judging_decide(judging, VERDICT_PROBLEM_UNFIT, "%s", draw.reason);
    return draw.applies;
}

/* Loads the candidate into the process that checks it, and runs every family. */
static bool check_families(struct judging *judging, struct error *err)
{
    struct job *job = judging->candidate_check;
    char reason[512];
    bool matched;

    judging_progress(judging, STAGE_BUILD, "loading the candidate", 0, 0);
    if (job_wait_ready(job, err) < 0) {
        judging->broken = true;
        return false;
    }
    judging->evaluation->sandbox_layers = job->sandbox_layers;
    if (!judging_load(judging, job, false, err) ||
        !judging_construct(judging, job, judging->model_seed, MODEL_PLAIN,
                           "constructing the candidate", err) ||
        !judging_adopt(judging, job, &matched, reason, sizeof(reason), "receiving parameters",
                       err) ||
        !judging_give_set(judging, job, 0, err) || !judging_give_output(judging, job, err))
        return false;
    judging->candidate_loaded = true;
    judging->given_generation = judging->set_generation[0];

    for (int family = 0; family < FAMILY_COUNT; family++) {
        bool go_on;

        judging_progress(judging, STAGE_CORRECTNESS, family_table[family].id, (unsigned)family,
                         FAMILY_COUNT);
        if (family == FAMILY_P1)
            go_on = run_redrawn_parameters(judging, err);
        else if (family == FAMILY_P2)
            go_on = run_perturbed_parameters(judging, err);
        else
            go_on = run_family(judging, (enum family)family, err);
        if (go_on && family == FAMILY_D1)
            go_on = look_for_nondeterminism(judging, err);
        if (!go_on)
            return false;
    }
    return true;
}

/*
 * On CUDA the guards need an allocator of their own, which goes to the driver for every request.
 * That is not permitted while a stream is captured, so an honest CUDA graph raises there. A
 * candidate that crashed under guards gets another process without them, and all families again:
 * guards find mistakes, and no verdict in its favour rests on them.
 */
static bool deserves_another_try(const struct judging *judging)
{
    return judging->decided && judging->evaluation->verdict == VERDICT_CRASHED &&
           !judging->session->on_cpu && judging->candidate_loaded;
}

static bool start_again(struct judging *judging, struct error *err)
{
    struct evaluation *evaluation = judging->evaluation;

    judging->decided = false;
    judging->candidate_loaded = false;
    evaluation->reason[0] = '\0';
    evaluation->labels = 0;
    memset(evaluation->families, 0, sizeof(evaluation->families));
    memset(evaluation->controls, 0, sizeof(evaluation->controls));
    return judging_restart_check(judging, err) && draw_first(judging, err);
}

bool stage_correctness(struct judging *judging, struct error *err)
{
    bool live_random;

    judging->model_seed = seed_of(judging, "parameters", 0);
    if (!draw_first(judging, err))
        return false;
    if (!check_families(judging, err) &&
        (!deserves_another_try(judging) || !start_again(judging, err) ||
         !check_families(judging, err)))
        return false;
    if (!note_oracle(judging, &live_random, err))
        return false;
    decide(judging, live_random);
    return !judging->decided;
}
